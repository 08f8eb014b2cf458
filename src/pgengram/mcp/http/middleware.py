"""MCP over HTTP: one door in front of the SDK's streamable transport, which sees only what has passed it.

The door checks, in this order and before anything is parsed: the framing, the path, Host and Origin, the method, the
token, the token's rate, the type and length of the body, the form of the answer; then that the body is one JSON-RPC
message, and that a token that may only read calls no tool that writes. No answer of its own says more than the client
needs to do better.

Nothing is kept from one request to the next, so several replicas can stand behind one address.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import time
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from mcp_types import HEADER_MISMATCH, JSONRPCRequest
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgengram.errors import DatabaseFailed
from pgengram.mcp.http.doors import FileExchange, PageDoor, PageServer, SignInDoor
from pgengram.mcp.http.namespaces import GRANT_KEY, Grant, NamespaceServers
from pgengram.mcp.http.oauth import Issuer
from pgengram.mcp.http.requests import (
    Gone,
    HTTPRejection,
    Rates,
    Request,
    Rules,
    declared_version,
    json_response,
    replayed,
    whole_body,
    with_headers,
)
from pgengram.mcp.http.transport import FORM_KEY, ID_KEY, accepted_form
from pgengram.mcp.sdk_server import Refused, frame, read_arguments
from pgengram.runtime.logs import trace
from pgengram.settings import spaces_named
from pgengram.sign_in.consents import READ, WRITE
from pgengram.store import persons
from pgengram.store.clients import rates, tokens
from pgengram.store.connection.database import SPACE

log = logging.getLogger(__name__)

PATH: Final = "/mcp"
METADATA: Final = "/.well-known/oauth-protected-resource"  # RFC 9728; with the path of the resource behind it, too
MAX_BODY: Final = 4 * 2**20  # bytes
MAX_HEADERS: Final = 2**15  # bytes of a request line and its headers as they are sent
MAX_TOKEN: Final = 8_192  # characters
LOOK_UP_S: Final = 5.0  # for the database or the issuer to say whether a token is good
LOOK_UPS: Final = 2  # at once, so that strangers cannot take every connection to the database
READY_FRESH_S: Final = 1.0
RETRY_S: Final = 2
HOSTS: Final = frozenset({"chatgpt.com"})  # that call `search` and `fetch`, and leave a server without them out
LOCAL: Final = "local"  # the client without a token
FORWARDED: Final = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip")
HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
IN_QUERY: Final = frozenset({"access_token", "token", "api_key", "authorization"})
VERSION_HEADER: Final = b"mcp-protocol-version"
EXPOSED: Final = {"access-control-expose-headers": "www-authenticate, retry-after"}  # what a page's script may read
PREFLIGHT: Final = {
    "access-control-allow-methods": "POST",
    "access-control-allow-headers": "authorization, content-type, accept, mcp-protocol-version, mcp-method, mcp-name",
    "access-control-max-age": "600",
}


def _well_formed(scope: Scope) -> Request:
    """Return a request whose headers are not an attack by themselves."""
    head = f"{scope['method']} ? HTTP/1.1\r\n\r\n".encode() + scope["raw_path"] + scope["query_string"]
    if len(head) + sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"]) > MAX_HEADERS:
        raise HTTPRejection(431, f"The headers must not exceed {MAX_HEADERS:,} bytes.", close=True)
    request = Request.of(scope)
    if b"transfer-encoding" in request.headers and b"content-length" in request.headers:
        raise HTTPRejection(400, "A body must have either Content-Length or chunked encoding.", close=True)
    return request


class AuthMiddleware:
    """The ASGI application that everything comes through.

    Args:
        inner: the transport behind it.
        namespaces: whose memories are behind that.
        rules: who is let in.
        pages: of memories, for browsers that signed in; None where nobody signs in.
    """

    def __init__(
        self, inner: ASGIApp, namespaces: NamespaceServers, rules: Rules, pages: PageServer | None = None
    ) -> None:
        self._inner = inner
        self._namespaces = namespaces
        self._rules = rules
        self._rates = Rates(rules.calls_per_minute)
        self._issuer = None if rules.trust is None else Issuer(rules.trust)
        self._persons = persons.Newcomers(namespaces.host.store)
        self._sign_in = None if rules.sign_in is None else SignInDoor(rules, namespaces.host.store)
        self._page_door = None if pages is None else PageDoor(pages, rules, namespaces.host.store)
        self._files = FileExchange(namespaces, rules.patience_s)
        self._looking_up = asyncio.Semaphore(LOOK_UPS)
        self._probing = asyncio.Lock()
        self._probed_at = -READY_FRESH_S
        self._was_ready = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._answer(scope, receive, sending)
        except HTTPRejection as rejection:
            log.info(rejection.logged(scope["method"]))
            await rejection.response()(scope, receive, send)
        except Gone:
            return
        except Exception as error:  # noqa: BLE001 - a fault of ours costs one request; its text may quote content
            log.error("a request failed: %s", trace(error))  # noqa: TRY400
            if not started:
                await HTTPRejection(500, "An internal error occurred.").response()(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _well_formed(scope)
        if self._sign_in is not None and self._sign_in.serves(request):
            self._check_host(request)
            await (await self._sign_in.answer(request, scope, receive))(scope, receive, send)
            return
        public = await self._public(request)
        if public is None and self._files.serves(request):
            public = await self._exchanged(request, receive)
        if public is not None:
            await public(scope, receive, send)
            return
        if request.path != PATH:
            await self._answer_elsewhere(request, scope, receive, send)
            return
        self._check_host(request)
        origin = self._checked_origin(request, scope["scheme"])
        if origin:
            send = with_headers(send, {"access-control-allow-origin": origin, "vary": "origin", **EXPOSED})
            if request.method == "OPTIONS":
                await Response(None, 204, PREFLIGHT)(scope, receive, send)
                return
        try:
            await self._serve(request, scope, receive, send)
        except HTTPRejection as rejection:
            log.info(rejection.logged(request.method))
            await rejection.response()(scope, receive, send)

    async def _answer_elsewhere(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is for the pages, if there are any."""
        if self._page_door is None:
            raise HTTPRejection(404, f"There is nothing at this address; MCP is served at {PATH}.")
        self._check_host(request)
        await self._page_door.answer(request, scope, receive, send)

    async def _serve(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for MCP by a page or program that may ask."""
        if request.method != "POST":
            if self._sign_in is not None and b"authorization" not in request.headers:
                raise self._unauthorized("A token is needed: Authorization: Bearer …")  # some begin with a GET
            raise HTTPRejection(
                405, "Only POST is supported: each request is independent, without a session or stream.", allow="POST"
            )
        if IN_QUERY & {name.lower() for name, _ in parse_qsl(request.query.decode("latin-1"), keep_blank_values=True)}:
            raise HTTPRejection(400, "A token must not be in the URL; send it in the Authorization header.")
        grant = await self._granted(request)
        grant = await self._within_rate(grant)
        self._check_type(request)
        scope[FORM_KEY] = accepted_form(request.all(b"accept"))
        body = await whole_body(request, receive, MAX_BODY, self._rules.patience_s)
        scope[ID_KEY], body = self._check_message(request, grant, body)
        await self._charge(grant.key, len(body) // rates.WORK_BYTES)
        scope[GRANT_KEY] = grant
        await self._inner(scope, replayed(body, receive), send)

    async def _exchanged(self, request: Request, receive: Receive) -> Response:
        """Return the answer to a machine that exchanges files."""
        self._check_host(request)
        grant = await self._within_rate(await self._granted(request))
        answer = await self._files.answer(request, grant, receive)
        await self._charge(grant.key, self._files.cost(request))
        return answer

    # -- what anybody may ask ----------------------------------------------------------------------------------------

    async def _public(self, request: Request) -> Response | None:
        """Return the answer to what is asked without a token; None for anything else."""
        known = {"/health": self._health, "/ready": self._ready}
        if self._rules.trust is not None or self._sign_in is not None:
            known |= {METADATA: self._metadata, METADATA + PATH: self._metadata}
        if request.path not in known:
            return None
        if request.method == "OPTIONS" and request.path.startswith(METADATA):
            return Response(
                None, 204, {**PREFLIGHT, "access-control-allow-methods": "GET", "access-control-allow-origin": "*"}
            )
        if request.method not in ("GET", "HEAD"):
            raise HTTPRejection(405, "Only GET is supported here.", allow="GET, HEAD")
        return await known[request.path]()

    async def _health(self) -> Response:
        return json_response({"status": "alive"})

    async def _ready(self) -> Response:
        async with self._probing:
            if time.monotonic() - self._probed_at > READY_FRESH_S:
                self._was_ready = await self._database_answers()
                self._probed_at = time.monotonic()
        if self._was_ready:
            return json_response({"status": "ready"} | self._namespaces.host.store.health())
        return json_response({"status": "the database does not answer"}, 503, {"retry-after": str(RETRY_S)})

    async def _database_answers(self) -> bool:
        try:
            async with asyncio.timeout(LOOK_UP_S):
                await self._namespaces.host.store.one("SELECT 1")
        except (DatabaseFailed, TimeoutError):
            return False
        return True

    async def _metadata(self) -> Response:
        trust, sign_in = self._rules.trust, self._sign_in
        declared = {
            "resource": self._rules.resource,
            "authorization_servers": [one.issuer for one in (sign_in, trust) if one is not None],
            "scopes_supported": list(self._scopes),
            "bearer_methods_supported": ["header"],
            "resource_name": "pgengram memory",
        }
        return json_response(declared, headers={"access-control-allow-origin": "*"})

    # -- who asks ----------------------------------------------------------------------------------------------------

    def _check_host(self, request: Request) -> None:
        """Refuse names that are not ours: a foreign one in a browser means that a name was bent to our address."""
        shaped = HOST.fullmatch(request.one(b"host") or "")
        if shaped is None or shaped[1].strip("[]").lower() not in self._rules.hosts:
            name = "that host name" if shaped is None else f"the host name {shaped[1]}"
            message = f"This server doesn't accept {name}: pass the Host header on, or give --url or --allowed-host."
            raise HTTPRejection(421, message, logged="The host name isn't one of ours.", close=True)

    def _checked_origin(self, request: Request, scheme: str) -> str | None:
        """Return the web page that asks, if it may; None when no page does."""
        origin = request.one(b"origin")
        if origin is None:
            return None
        same = origin.lower() in {f"{one}://{request.one(b'host')}".lower() for one in (scheme, "https")}
        if not same and origin not in self._rules.origins:
            raise HTTPRejection(
                403, "Requests from this origin are not allowed; --allowed-origin adds one.", close=True
            )
        return origin

    async def _granted(self, request: Request) -> Grant:
        """Return what the client may do.

        Raises:
            Turned: it did not show a token that is good.
        """
        if not self._rules.authenticate:
            if any(name in request.headers for name in FORWARDED):
                raise HTTPRejection(
                    403, "Without tokens, only programs on this machine are served, and not through a proxy."
                )
            return Grant(LOCAL, None, self._namespaces.settings.namespace, writes=True)
        scheme, _, token = (request.one(b"authorization") or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise self._unauthorized("A token is needed: Authorization: Bearer …")
        grant = await self._known(token.strip()) if len(token) <= MAX_TOKEN else None
        if grant is None:
            raise self._unauthorized("This token is unknown, expired or revoked.", "invalid_token")
        return grant

    async def _known(self, token: str) -> Grant | None:
        try:
            if not token.startswith(tokens.PREFIXES):
                return None if self._issuer is None else await self._known_by(self._issuer, token)
            async with self._looking_up, asyncio.timeout(LOOK_UP_S):
                ours = await tokens.verify(self._namespaces.host.store, token)
        except (DatabaseFailed, TimeoutError):
            message = "The token cannot be checked now; try again."
            raise HTTPRejection(503, message, retry_after=str(RETRY_S)) from None
        if ours is None or ours.resource not in (None, self._rules.resource):
            return None
        toolsets = {"card", "hosts"} if ours.client_host in HOSTS else {"card"} if ours.resource else set()
        writes = ours.scope == "read-write"
        return Grant(ours.id, ours.name, ours.namespace, writes, frozenset(toolsets), frozenset(ours.spaces.items()))

    async def _known_by(self, issuer: Issuer, token: str) -> Grant | None:
        async with asyncio.timeout(LOOK_UP_S):
            bearer = await issuer.verify(token)
        if bearer is None:
            return None
        trust = issuer.trust
        writes = trust.write_scope in bearer.scopes
        if not writes and trust.read_scope not in bearer.scopes:
            raise self._forbidden("", f"The token needs the scope {trust.read_scope}.")
        if bearer.person is not None:
            await self._persons.make(bearer.person, bearer.namespace)
        named = spaces_named(one.removeprefix(SPACE) for one in bearer.scopes if one.startswith(SPACE))
        spaces = frozenset(named.items())
        return Grant(f"{trust.issuer} {bearer.subject}", bearer.name, bearer.namespace, writes, spaces=spaces)

    @property
    def _scopes(self) -> tuple[str, str]:
        """What lets a token read, and what lets it write, too."""
        trust = self._rules.trust
        return (READ, WRITE) if trust is None else (trust.read_scope, trust.write_scope)

    def _unauthorized(self, message: str, error: str = "") -> HTTPRejection:
        return HTTPRejection(401, message, www_authenticate=self._challenge(error))

    def _forbidden(self, scope: str, message: str) -> HTTPRejection:
        return HTTPRejection(403, message, www_authenticate=self._challenge("insufficient_scope", scope))

    def _challenge(self, error: str, scope: str = "") -> str:
        """Return what a client reads to do better (RFC 6750, RFC 9728)."""
        parts = {"realm": "pgengram", "error": error, "scope": scope}
        if self._rules.trust is not None or self._sign_in is not None:
            parts["resource_metadata"] = _metadata_address(self._rules.resource)
            if scope in ("", self._scopes[1]):  # whoever is told of one alone asks for that one, and never writes
                parts["scope"] = " ".join(self._scopes)
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)

    async def _within_rate(self, grant: Grant) -> Grant:
        """Count a call, and return its grant with where the log ended then."""
        counted = await self._counted(grant.key)
        if counted.wait_s:
            wait_s = int(counted.wait_s) + 1
            raise HTTPRejection(429, "Too many calls; wait for the time in Retry-After.", retry_after=str(wait_s))
        return replace(grant, position=counted.position)

    async def _counted(self, client: str) -> rates.Counted:
        """Count a call; while the database cannot, and without tokens, this server counts its own."""
        if self._rules.authenticate:
            with contextlib.suppress(DatabaseFailed, TimeoutError):
                async with asyncio.timeout(LOOK_UP_S):
                    return await rates.count(self._namespaces.host.store, client, self._rules.calls_per_minute)
        return rates.Counted(self._rates.wait_s(client))

    async def _charge(self, client: str, work: int) -> None:
        """Count what a call costs beyond one; it is served, and its client waits before the next."""
        if not work:
            return
        self._rates.charge(client, work)
        if self._rules.authenticate:
            with contextlib.suppress(DatabaseFailed, TimeoutError):
                async with asyncio.timeout(LOOK_UP_S):
                    await rates.charge(self._namespaces.host.store, client, work, self._rules.calls_per_minute)

    # -- what they ask -----------------------------------------------------------------------------------------------

    def _check_type(self, request: Request) -> None:
        kind = (request.one(b"content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPRejection(415, "The body must be application/json.", close=True)
        if (request.one(b"content-encoding") or "identity").lower() != "identity":
            raise HTTPRejection(415, "The body must not be compressed.", close=True)

    def _check_message(self, request: Request, grant: Grant, body: bytes) -> tuple[int | str | None, bytes]:
        """Return the id of the call in a body, None if it holds no call, and the body as it is meant."""
        try:
            message = frame(body)
            if read_arguments(message):
                body = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        except Refused as refused:
            error = json.loads(refused.answer)
            rejection = HTTPRejection(400, error["error"]["message"], code=error["error"]["code"])
            rejection.id = error["id"]
            raise rejection from None
        if not isinstance(message, JSONRPCRequest):
            return None, body
        declared = declared_version(message)
        if declared is not None and declared != request.one(VERSION_HEADER):
            rejection = HTTPRejection(
                400, "The header MCP-Protocol-Version and the body name different versions.", code=HEADER_MISMATCH
            )
            rejection.id = message.id
            raise rejection
        if not grant.writes and message.method == "tools/call":
            self._check_scope(message)
        return message.id, body

    def _check_scope(self, message: JSONRPCRequest) -> None:
        name = (message.params or {}).get("name")
        if isinstance(name, str) and name in self._namespaces.writing_tools:
            scope = "read-write" if self._rules.trust is None and self._sign_in is None else self._scopes[1]
            rejection = self._forbidden(scope, f"This token may only read; {name} writes.")
            rejection.id = message.id
            raise rejection


def _metadata_address(resource: str) -> str:
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{METADATA}{parts.path.rstrip('/')}"
