"""The server behind MCP over HTTP and behind the web app: it says when it listens, and ends in order on a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import uvicorn

OVERDUE_S: Final = 1.0  # for requests that were told to end
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

    After a signal it takes no new requests and waits for those in flight. Only then may anything see that it is to end:
    libraries that stream answers would end them at once.

    Args:
        config: how to serve.
        started: called once clients can come.
        grace_s: for requests in flight at the end.
        overdue: called when those that are left have to end, too.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        started: Callable[[], None],
        grace_s: float,
        overdue: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._started = started
        self._grace_s = grace_s
        self._overdue = overdue
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Task[None] | None = None
        self._signalled = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; at once when asked a second time."""
        if self._loop is None or self._signalled:
            super().handle_exit(sig, frame)
            return
        self._signalled = True
        self._loop.call_soon_threadsafe(self._begin_to_end)

    def _begin_to_end(self) -> None:
        self._ending = asyncio.create_task(self._end(), name="ending the server")

    async def _end(self) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if not await self._all_answered(self._grace_s):
            self._overdue()
            await self._all_answered(OVERDUE_S)
        self.should_exit = True

    async def _all_answered(self, within_s: float) -> bool:
        """Wait until no request is in flight; return whether that is so."""
        if self.server_state.tasks:
            await asyncio.wait([*self.server_state.tasks], timeout=within_s)
        return not self.server_state.tasks

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
