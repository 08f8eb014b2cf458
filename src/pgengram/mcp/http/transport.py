"""The SDK's transport in the two forms that an answer can have, and what calls are told that the server's end cuts.

The SDK insists that a client takes both forms, JSON and an event stream. Many programs name one of them or none, so the
request decides which of two transports answers, and each sees the headers it wants.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from pgengram.mcp.http.requests import HTTPRejection

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
FORM_KEY: Final = "pgengram.form"  # of the form in the scope of a request
ID_KEY: Final = "pgengram.id"  # … and of the JSON-RPC id of its call
CUT_OFF: Final = "The server stopped before this call had ended. Look whether it was done, or repeat it."


class Form(StrEnum):
    """What a client takes for an answer: one JSON text, an event stream, or both, which also brings progress."""

    JSON = JSON
    EVENTS = EVENTS
    BOTH = f"{JSON}, {EVENTS}"


def accepted_form(accept: str | None) -> Form:
    """Return the form of answer that a header Accept asks for: an event stream only where it is named.

    Raises:
        HTTPRejection: it takes neither.
    """
    ranges = _ranges(accept) or {"*/*": 1.0}
    json_too = _quality(ranges, JSON) > 0
    if ranges.get(EVENTS, 0) > 0:
        return Form.BOTH if json_too else Form.EVENTS
    if json_too:
        return Form.JSON
    if _quality(ranges, EVENTS) > 0:
        return Form.EVENTS
    raise HTTPRejection(406, f"Answers are {JSON} or {EVENTS}; name one of them in Accept, or leave it out.")


def _ranges(accept: str | None) -> dict[str, float]:
    """Return the media ranges of a header with their quality (RFC 9110, 12.5.1)."""
    found: dict[str, float] = {}
    for one in (accept or "").lower().split(","):
        name, *parameters = [part.strip() for part in one.split(";")]
        quality = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        if name:
            found[name] = 0.0 if quality.strip("0.") == "" else 1.0  # how much it is liked does not matter
    return found


def _quality(ranges: dict[str, float], media_type: str) -> float:
    """Return the quality of a media type by the most specific range that it is in."""
    kinds = (media_type, media_type.partition("/")[0] + "/*", "*/*")
    return next((ranges[kind] for kind in kinds if kind in ranges), 0.0)


class Transport:
    """An ASGI application that answers each request in the form that its scope names.

    Args:
        server: what answers.
        max_body: bytes of a request.
    """

    def __init__(self, server: Server[Any], max_body: int) -> None:
        def manager(*, json_response: bool) -> StreamableHTTPSessionManager:
            return StreamableHTTPSessionManager(
                server,
                json_response=json_response,
                stateless=True,
                max_request_body_size=max_body,
                # The middleware has done that.
                security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            )

        self._streaming, self._single = manager(json_response=False), manager(json_response=True)
        self._overdue = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests for as long as a block lasts."""
        async with self._streaming.run(), self._single.run():
            yield

    def cut_off(self) -> None:
        """End the calls in flight, and tell each of their clients so."""
        self._overdue.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the middleware has let through."""
        form = scope[FORM_KEY]
        manager = self._single if form is Form.JSON else self._streaming
        MutableHeaders(scope=scope).update({"accept": JSON if form is Form.JSON else Form.BOTH, "content-type": JSON})
        answer = _Answer(send, scope[ID_KEY], events=form is Form.EVENTS)
        call = asyncio.create_task(manager.handle_request(scope, receive, answer.send), name="a call over HTTP")
        overdue = asyncio.create_task(self._overdue.wait(), name="waiting for the end")
        try:
            await asyncio.wait({call, overdue}, return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                call.result()
                return
            answer.is_cut_off = True
        finally:
            overdue.cancel()
            call.cancel()
            await asyncio.wait({call})
        await answer.end()


class _Answer:
    """An answer on its way: noted how far it is, and put into an event stream for a client that takes nothing else."""

    def __init__(self, send: Send, id_: int | str | None, *, events: bool) -> None:
        self._send, self._id, self._events = send, id_, events
        self._held: Message | None = None  # the start of an answer in JSON that becomes an event
        self._body = b""
        self._began: Message | None = None
        self._ended = False
        self.is_cut_off = False

    async def send(self, message: Message) -> None:
        """Send a part of the answer on, unless the call is cut off."""
        if self.is_cut_off:
            return
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            if self._events and message["status"] == 200 and headers.get("content-type", "").startswith(JSON):
                self._held = message
                return
            self._began = message
        elif self._held is not None:
            self._body += message.get("body", b"")
            if message.get("more_body", False):
                return
            await self._send_event(self._held, self._body)
            return
        self._ended = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)

    async def end(self) -> None:
        """Tell the client of a call that was cut off."""
        rejection = HTTPRejection(503, CUT_OFF, close=True, retry_after="1")
        rejection.id = self._id
        if self._began is None:
            answer = rejection.response()
            await self._send({"type": "http.response.start", "status": 503, "headers": answer.raw_headers})
            await self._send({"type": "http.response.body", "body": bytes(answer.body)})
        elif not self._ended and MutableHeaders(raw=self._began["headers"])["content-type"].startswith(EVENTS):
            await self._send({"type": "http.response.body", "body": _event(bytes(rejection.response().body))})

    async def _send_event(self, start: Message, body: bytes) -> None:
        headers = MutableHeaders(raw=list(start["headers"]))
        event = _event(body)
        headers["content-type"] = EVENTS
        headers["content-length"] = str(len(event))
        self._began, self._ended = start, True
        await self._send({**start, "headers": headers.raw})
        await self._send({"type": "http.response.body", "body": event})


def _event(body: bytes) -> bytes:
    """Return a JSON text as one message of an event stream; JSON that programs write has line ends in no text."""
    return b"event: message\r\ndata: " + b" ".join(body.splitlines()) + b"\r\n\r\n"
