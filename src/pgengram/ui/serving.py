"""Serving the page on this machine until somebody stops it."""

from __future__ import annotations

import errno
import logging
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import uvicorn

from pgengram.errors import InvalidInput
from pgengram.runtime.web_server import WebServer, bound_socket
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.sync.schedule import ExchangeScheduler
from pgengram.ui import running_page
from pgengram.ui.namespaces import NamespacePages
from pgengram.ui.sign_ins import LOOPBACK, SECRET_BYTES, SIGN_IN_PATH, SignIns, host_name, remembered_secret

STOP_S: Final = 3
NO_IPV6: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
TAKEN: Final = (errno.EADDRINUSE, getattr(errno, "WSAEACCES", errno.EADDRINUSE))  # the second where it is exclusive


log = logging.getLogger(__name__)


def local_sockets(port: int) -> list[socket.socket]:
    """Return sockets of this machine alone at a port, 0 for any free one: of both its addresses, since a browser that
    is given a name tries both.

    Raises:
        OSError: another program has the port.
    """
    made = [bound_socket(socket.AF_INET, (LOOPBACK, port))]
    try:
        made.append(bound_socket(socket.AF_INET6, ("::1", made[0].getsockname()[1])))
    except OSError as error:
        if error.errno not in NO_IPV6:
            made[0].close()
            if port == 0:  # somebody has this number at the other address
                return local_sockets(0)
            raise
    return made


async def serve_ui(settings: Settings, port: int, announce: Callable[[str, bool], None]) -> None:
    """Serve the page of the settings' namespace until a signal comes; where the store's page is served already, have
    that one announced with a new link.

    Args:
        settings: which database and whose memories.
        port: where to listen; 0 for any free one.
        announce: called with the link that opens the page once, and whether the server ran before.

    Raises:
        InvalidInput: another program has the port.
        NotReady: the database does not come up.
    """
    secret = _secret(settings)
    try:
        listeners = local_sockets(port)
    except OSError as error:
        link = await running_page.new_link(settings, secret, port)
        if link:
            announce(link, True)
            return
        raise _refusal(port, error) from None
    manager = MemoryManager(settings)
    manager.accompany(ExchangeScheduler(manager))
    try:
        await manager.open()
        with TemporaryDirectory(prefix="pgengram-ui-") as folder:
            number = listeners[0].getsockname()[1]
            sign_ins = SignIns(secret, settings.database_url)
            pages = NamespacePages(settings, manager, Path(folder), number, sign_ins)
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
            link = f"http://{host_name(secret)}:{number}{SIGN_IN_PATH}?token={sign_ins.ticket()}"
            try:
                await WebServer(config, lambda: announce(link, False), STOP_S).serve(sockets=listeners)
            finally:
                await pages.close()
    finally:
        for listener in listeners:
            listener.close()
        await manager.close()


def _refusal(port: int, error: OSError) -> InvalidInput:
    what = "is used by another program" if error.errno in TAKEN else f"cannot be used ({error.strerror})"
    return InvalidInput(
        f"Port {port} {what}, so the page isn't served: stop that program, or choose another port with --port.", ""
    )


def _secret(settings: Settings) -> bytes:
    """Return the secret of the data folder; one for this run alone where that cannot be written."""
    try:
        return remembered_secret(settings.data_path)
    except OSError as error:
        log.warning("A second `pgengram ui` can't make a link to this one: %s", error)
        return secrets.token_bytes(SECRET_BYTES)
