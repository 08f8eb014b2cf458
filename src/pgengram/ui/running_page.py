"""The page that another process of the same owner serves already: a new link to it."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
from typing import Final
from urllib.parse import urlencode

from pgengram.settings import Settings
from pgengram.ui.session_guard import IDENTITY_PATH
from pgengram.ui.sign_ins import LOOPBACK, SIGN_IN_PATH, host_name, made_ticket, proof

PATIENCE_S: Final = 2.0
MAX_ANSWER: Final = 4_096  # bytes


async def new_link(settings: Settings, secret: bytes, port: int) -> str:
    """Return a link that signs a browser in to the page of this store at a port; empty if something else is there.

    Only a server that can read the secret in the data folder, is of the same database and has this very port can prove
    to be that page.
    """
    nonce = secrets.token_hex(16)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        async with asyncio.timeout(PATIENCE_S):
            answer = json.loads(await _fetched(port, f"{IDENTITY_PATH}?nonce={nonce}"))
        run, shown = str(answer["run"]), str(answer["proof"])
        if hmac.compare_digest(shown.encode(), proof(secret, port, settings.database_url, run, nonce).encode()):
            query = urlencode({"token": made_ticket(secret, run), "namespace": settings.namespace})
            return f"http://{host_name(secret)}:{port}{SIGN_IN_PATH}?{query}"
    return ""


async def _fetched(port: int, path: str) -> bytes:
    """Return the body that a server of this machine answers, of a few kilobytes at most; it may be anybody's."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        answer = b""
        while len(answer) < MAX_ANSWER and (piece := await reader.read(MAX_ANSWER)):
            answer += piece
        return answer.partition(b"\r\n\r\n")[2]
    finally:
        writer.close()
