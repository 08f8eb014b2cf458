"""What a request brings, with its body whole, not too large and in time; and the answer to one that goes no further."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_types import PROTOCOL_VERSION_META_KEY, JSONRPCRequest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from pgengram.mcp.http.oauth import Trust
from pgengram.store.clients import rates

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_BUCKETS: Final = 4_096
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
REFUSED: Final = -32001  # JSON-RPC code of what the door says


@dataclass(frozen=True, slots=True)
class SignIn:
    """How programs sign in.

    Args:
        registers: whether unknown ones may register themselves.
        fetches: whether documents about unknown ones are fetched from the web.
        pages_per_minute: which one address may open; behind a proxy that is not trusted, all programs together.
        proxies: networks of proxies whose header X-Forwarded-For says who asks; no other forwarded header is believed.
    """

    registers: bool = True
    fetches: bool = True
    pages_per_minute: int = 30
    proxies: tuple[Network, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """Who is let in, and how much of what.

    Args:
        hosts: names under which clients reach us, in lower case; any port.
        origins: of web pages that may call us, besides those of the same host and port.
        authenticate: whether a token is needed.
        trust: an OAuth issuer whose tokens are accepted beside our own.
        resource: our address as clients know it; a token of an issuer must be meant for it.
        sign_in: how programs sign in here, beside the tokens that are pasted; None where they can't.
        calls_per_minute: of one token, whichever of several servers it calls; a large call counts as several.
        patience_s: for a request to arrive whole.
    """

    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()
    authenticate: bool = True
    trust: Trust | None = None
    resource: str = ""
    sign_in: SignIn | None = None
    calls_per_minute: int = 600
    patience_s: float = 20.0


class HTTPRejection(Exception):
    """A request that goes no further; carries the answer to it.

    Args:
        status: of the answer.
        message: told to the client.
        logged: what the log says instead, where the message quotes the request.
        close: whether the connection ends.
        code: of the JSON-RPC error.
        headers: of the answer, with underscores for hyphens.
    """

    def __init__(
        self, status: int, message: str, *, logged: str = "", close: bool = False, code: int = REFUSED, **headers: str
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self._logged = logged or message
        self.code = code
        self.id: int | str | None = None
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if close:
            self.headers["connection"] = "close"

    def logged(self, method: str) -> str:
        """Return what the log says of the request, and nothing that its sender has chosen."""
        shown = method if method in METHODS else "A request"
        return f"{shown} turned away: {self.status} {self._logged}"

    def response(self) -> Response:
        """Return the answer, in the form of a JSON-RPC error."""
        error = {"code": self.code, "message": self.message}
        return json_response({"jsonrpc": "2.0", "id": self.id, "error": error}, self.status, self.headers)


class Gone(Exception):
    """The client hung up before its request was whole."""


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer in JSON that no cache keeps."""
    always = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(json.dumps(content), status, {**always, **(headers or {})}, "application/json")


class Rates:
    """How often each client may call this one server: buckets that fill steadily and are emptied by calls.

    For the client without a token, and for the others while the database cannot count.

    Args:
        per_minute: calls that a bucket gets.
        clock: seconds that only grow.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_minute / 60
        self._size = rates.burst(per_minute)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, key: str) -> float:
        """Take one call out of a client's bucket; if it is empty, none, and return the seconds until there is one."""
        now = self._clock()
        level, at = self._buckets.pop(key, (self._size, now))
        level = min(self._size, level + (now - at) * self._per_second)
        wait_s = max(0.0, (1 - level) / self._per_second)
        self._buckets[key] = (level if wait_s else level - 1, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return wait_s

    def charge(self, key: str, work: int) -> None:
        """Take more calls out of a client's bucket, which may leave it owing some."""
        if key in self._buckets:
            level, at = self._buckets[key]
            self._buckets[key] = (level - work, at)


@dataclass(slots=True)
class Request:
    """The head of a request, read once."""

    method: str
    path: str
    query: bytes
    headers: dict[bytes, list[bytes]] = field(default_factory=dict)

    @classmethod
    def of(cls, scope: Scope) -> Request:
        """Read the head of a request."""
        made = cls(scope["method"], scope["raw_path"].decode("latin-1"), scope["query_string"])
        for name, value in scope["headers"]:
            made.headers.setdefault(name.lower(), []).append(value)
        return made

    def one(self, name: bytes) -> str | None:
        """Return a header's value, or None without it; one that is there twice is refused."""
        values = self.headers.get(name, [])
        if len(values) > 1:
            raise HTTPRejection(400, f"The header {name.decode()} is sent twice.", close=True)
        return values[0].decode("latin-1").strip() if values else None

    def all(self, name: bytes) -> str | None:
        """Return the values of a header that may be sent several times as one list, or None without it."""
        values = self.headers.get(name)
        return b",".join(values).decode("latin-1") if values else None


def declared_version(message: JSONRPCRequest) -> str | None:
    """Return the protocol version that a request's body names, as those of 2026-07-28 and later do."""
    meta = (message.params or {}).get("_meta")
    version = meta.get(PROTOCOL_VERSION_META_KEY) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def with_headers(send: Send, more: dict[str, str]) -> Send:
    """Return a way to send an answer with `more` headers."""
    added = [(name.encode(), value.encode("latin-1")) for name, value in more.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *added]
        await send(message)

    return sending


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a way to receive a body that was read already, and then whatever else comes."""
    first: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def receiving() -> Message:
        nonlocal first
        if first is not None:
            message, first = first, None
            return message
        return await receive()

    return receiving


MAX_DISCARDED: Final = 2**24  # bytes


async def whole_body(request: Request, receive: Receive, most: int, patience_s: float) -> bytes:
    """Return the body of a request.

    Args:
        request: its head.
        receive: where the body comes from.
        most: the bytes that it may have.
        patience_s: for it to arrive.

    Raises:
        HTTPRejection: it is too large, or too slow.
        Gone: the client hung up.
    """
    declared = int(request.one(b"content-length") or "0")
    if declared > most:
        if declared < MAX_DISCARDED and b"expect" not in request.headers:
            await _discard_rest(receive, patience_s)
        raise _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(patience_s):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Gone
                body += message.get("body", b"")
                if len(body) > most:
                    raise _too_large(most)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise HTTPRejection(408, f"The body did not arrive within {patience_s:g} seconds.", close=True) from None


async def _discard_rest(receive: Receive, patience_s: float) -> None:
    """Read a body for nothing: a client that is still sending when we hang up does not see our answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
                pass


def _too_large(most: int) -> HTTPRejection:
    return HTTPRejection(413, f"A body must not exceed {most:,} bytes.", close=True)
