"""Serving the page on this machine until somebody stops it."""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import uvicorn

from pgengram.errors import InvalidInput
from pgengram.runtime.web_server import WebServer
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.ui.namespaces import NamespacePages
from pgengram.ui.session_guard import SECRET_BYTES, SIGN_IN_PATH, remembered_secret

HOST: Final = "127.0.0.1"  # and no other: the page is for this machine
PORT: Final = 8822  # the usual one: links and bookmarks hold from one run to the next
STOP_S: Final = 3


log = logging.getLogger(__name__)


def bound(port: int | None) -> socket.socket:
    """Return a socket of this machine alone: at the usual port if that is free, unless another is given; 0 is any.

    Raises:
        InvalidInput: the port is taken.
    """
    if port is None:
        with contextlib.suppress(InvalidInput):
            return bound(PORT)
        port = 0
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if sys.platform != "win32":
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except OSError as error:
        made.close()
        raise InvalidInput(f"Port {port} cannot be used: {error.strerror}.", "Choose another --port, or 0.") from None
    return made


async def serve_ui(settings: Settings, port: int | None, announce: Callable[[str], None]) -> None:
    """Serve the page of the settings' namespace until a signal comes.

    Args:
        settings: which database and whose memories.
        port: where to listen; 0 for any free one, None for the usual one or, if that is taken, any.
        announce: called with the link that opens the page once.

    Raises:
        InvalidInput: the port is taken.
        NotReady: the database does not come up.
    """
    listener = bound(port)
    manager = MemoryManager(settings)
    try:
        await manager.open()
        with TemporaryDirectory(prefix="pgengram-ui-") as folder:
            number = listener.getsockname()[1]
            pages = NamespacePages(settings, manager, Path(folder), number, _secret(settings))
            config = uvicorn.Config(
                pages,
                interface="asgi3",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=STOP_S,
            )
            link = f"http://{HOST}:{number}{SIGN_IN_PATH}?token={pages.session_guard.ticket}"
            try:
                await WebServer(config, lambda: announce(link)).serve(sockets=[listener])
            finally:
                await pages.close()
    finally:
        listener.close()
        await manager.close()


def _secret(settings: Settings) -> bytes:
    """Return the secret of the data folder; one for this run alone where that cannot be written."""
    try:
        return remembered_secret(settings.data_path)
    except OSError as error:
        log.warning("Browsers have to sign in again after a restart: %s", error)
        return secrets.token_bytes(SECRET_BYTES)
