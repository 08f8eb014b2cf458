"""MCP over HTTP, from the first connection to the end of the process."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast
from urllib.parse import urlsplit

import uvicorn

from pgengram.errors import InvalidInput, PgengramError
from pgengram.local.socket_server import LocalServer
from pgengram.mcp.http.middleware import MAX_BODY, MAX_HEADERS, PATH, AuthMiddleware
from pgengram.mcp.http.namespaces import NamespaceServers
from pgengram.mcp.http.page_door import MEMORY, PagesOf
from pgengram.mcp.http.requests import Rules
from pgengram.mcp.http.sockets import PatientConnection
from pgengram.mcp.http.transport import Transport
from pgengram.runtime.logs import log_to_stderr
from pgengram.runtime.web_server import WebServer
from pgengram.store.clients import rates

if TYPE_CHECKING:
    from pgengram.settings import Settings

log = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 900  # of the 1,024 files that a process may usually open
KEEP_ALIVE_S: Final = 20
STOP_S: Final = 5  # for calls in flight at the end
CUT_OFF_S: Final = 1  # to tell the others that they were cut off

Said = TypeVar("Said")


async def serve_http(
    settings: Settings,
    rules: Rules,
    listener: socket.socket,
    *,
    certificate: tuple[Path, Path] | None = None,
    announce: Callable[[str], None],
    pages_of: PagesOf | None = None,
) -> None:
    """Serve MCP over HTTP on a bound socket until a signal comes; then let calls in flight end, and close everything.

    Args:
        settings: which database, embedder and tools.
        rules: who is let in.
        listener: where clients come to.
        certificate: files of a certificate chain and its key, for TLS.
        announce: called with a line once clients can come.
        pages_of: makes the pages for browsers that sign in; without them they can't.

    Raises:
        InvalidInput: the certificate cannot be used.
    """
    log_to_stderr(settings.log_level)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # strangers could fill the log with their broken requests
    parts = urlsplit(rules.resource)
    origin = f"{parts.scheme}://{parts.netloc}"
    namespaces = NamespaceServers(settings, f"{origin}{MEMORY}" if rules.sign_in else "")
    pages = pages_of(settings, namespaces.host, origin) if rules.sign_in and pages_of else None
    transport = Transport(namespaces.server(), MAX_BODY)
    config = uvicorn.Config(
        AuthMiddleware(transport, namespaces, rules, pages),
        interface="asgi3",
        http=cast("type[asyncio.Protocol]", functools.partial(PatientConnection, patience_s=rules.patience_s)),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=CUT_OFF_S,
        h11_max_incomplete_event_size=MAX_HEADERS,
        ssl_certfile=None if certificate is None else certificate[0],
        ssl_keyfile=None if certificate is None else certificate[1],
    )
    try:
        config.load()
    except OSError as error:
        raise InvalidInput(
            f"The certificate cannot be used: {error.strerror}.", "Check --certfile and --keyfile."
        ) from None
    local = LocalServer(namespaces.own_manager)
    opening = asyncio.create_task(_open(namespaces, local), name="opening the store")
    try:
        server = WebServer(config, lambda: announce(_address(listener, config.is_ssl)), STOP_S, transport.cut_off)
        async with transport.running():
            await server.serve(sockets=[listener])
    finally:
        opening.cancel()
        await asyncio.wait({opening})
        await local.close()
        if pages is not None:
            await pages.close()
        await namespaces.close()


def _address(listener: socket.socket, is_ssl: bool) -> str:
    address, port = listener.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    return f"{'https' if is_ssl else 'http'}://{shown}:{port}{PATH}"


async def _open(namespaces: NamespaceServers, local: LocalServer) -> None:
    """Bring the database up ahead of the first call; a failure is told to each call, and by /ready."""
    await local.start()
    local.take_up()
    try:
        await namespaces.open()
        await rates.forget_paid(namespaces.host.store)
    except PgengramError as error:
        log.warning("not ready: %s %s", error.message, error.hint)
