"""The server behind MCP over HTTP and behind the web app: it says when it listens, and ends in order on a signal."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import uvicorn

HANDLED: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def bound_socket(family: int, address: Any) -> socket.socket:
    """Return a TCP socket that is bound to an address, and that no other program can bind beside us.

    Raises:
        OSError: the address is taken, or not ours.
    """
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # without the protocol asyncio sends later
    try:
        if sys.platform == "win32":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)  # else others may take what we bind
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


class WebServer(uvicorn.Server):
    """A server that lets its caller close everything after a signal, instead of dying of it once it has ended.

    Args:
        config: how to serve.
        started: called once clients can come.
    """

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that nobody ignores, as nohup does with one."""
        before = {one: signal.getsignal(one) for one in HANDLED}
        heard = [one for one, handler in before.items() if handler is not signal.SIG_IGN]
        for one in heard:
            signal.signal(one, self.handle_exit)
        try:
            yield
        finally:
            for one in heard:
                signal.signal(one, before[one])
