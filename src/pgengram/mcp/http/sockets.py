"""The sockets of a server: where it listens, and how patient it is with each connection."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import sys
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pgengram.errors import InvalidInput
from pgengram.runtime.web_server import bound_socket

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
