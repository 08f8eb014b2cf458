"""MCP over HTTP, from the first connection to the end of the process: where it listens, and how patient it is."""

from __future__ import annotations

import asyncio
import errno
import functools
import ipaddress
import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pgengram.errors import InvalidInput, PgengramError
from pgengram.local.socket_server import LocalServer
from pgengram.mcp.http.doors import MEMORY, PagesOf
from pgengram.mcp.http.middleware import MAX_BODY, MAX_HEADERS, PATH, AuthMiddleware
from pgengram.mcp.http.namespaces import NamespaceServers
from pgengram.mcp.http.requests import Rules
from pgengram.mcp.http.transport import Transport
from pgengram.runtime.logs import log_to_stderr
from pgengram.runtime.web_server import WebServer, bound_socket
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


HEAD_TOO_LARGE: Final = 431  # of HTTP


class PatientConnection(H11Protocol):
    """A connection that is closed when the head of its next request does not arrive in time, or an answer is not taken.

    The server closes connections that idle between two requests, but waits for ever for a first one, for one that has
    begun, and for a client that does not read.
    """

    def __init__(self, *args: Any, patience_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._patience_s = patience_s
        self._waiting: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes; a whole head ends the waiting."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._waiting is None:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP: with 431 where the head is longer than may be, in however many pieces it came."""
        error = sys.exception()
        if not isinstance(error, h11.RemoteProtocolError) or error.error_status_hint != HEAD_TOO_LARGE:
            super().send_400_response(msg)
            return
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        answer = h11.Response(status_code=HEAD_TOO_LARGE, headers=headers)
        for event in (answer, h11.Data(data=b"The headers are too large."), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def pause_writing(self) -> None:
        """Note that the client takes no answer at the moment."""
        super().pause_writing()
        self._stuck = self.loop.call_later(self._patience_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Note that the client takes its answer again."""
        self._stop_being_stuck()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop every clock of this connection."""
        self._stop_waiting()
        self._stop_being_stuck()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self._patience_s, self._lose_patience)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _stop_being_stuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _lose_patience(self) -> None:
        self._waiting = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches `host`.

    Raises:
        InvalidInput: it has no address.
    """
    return all(
        ipaddress.ip_address(str(address[4][0]).partition("%")[0]).is_loopback for address in _addresses(host, 0)
    )


def _addresses(host: str, port: int) -> list[Any]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        raise InvalidInput(f"{host} has no address here.", "Give --host an address of this machine.") from None


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to the first address of `host`.

    Raises:
        InvalidInput: that is not possible.
    """
    family, _, _, _, address = _addresses(host, port)[0]
    try:
        return bound_socket(family, address)
    except OSError as error:
        foreign = error.errno == errno.EADDRNOTAVAIL
        hint = "Give --host an address of this machine." if foreign else "Choose another --port."
        raise InvalidInput(f"{host} port {port} cannot be used: {error.strerror}.", hint) from None
