"""Reading the body of a request: whole, not too large, and in time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from starlette.types import Receive

from pgengram.mcp.http.requests import Gone, HTTPRejection, Request

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
