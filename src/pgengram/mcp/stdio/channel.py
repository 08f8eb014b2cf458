"""Lines in and lines out over the claimed descriptors, for one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from pgengram.mcp.stdio.lines import Line, Lines
from pgengram.mcp.stdio.watchdog import StdioFds
from pgengram.runtime import process_setup

CHUNK: Final = 2**16  # bytes; what a Linux pipe holds
READ_AHEAD: Final = 64  # lines held before reading pauses
WRITE_AHEAD: Final = 2**20  # bytes held for a client that does not read, before its answers wait


class Channel:
    """Lines in and lines out over the claimed descriptors, for the event loop that runs when it is made.

    Pipes are read and written by the loop itself, as a thread would cost each message two switches. What the loop
    cannot wait for (files, terminals, everything on Windows) and what a full pipe does not take is left to daemon
    threads, so that a client that neither reads nor writes never blocks the loop.

    Args:
        fds: the claimed descriptors.
        lost: called once when the client no longer reads.
        splitter: with what has arrived of the first line.
    """

    def __init__(self, fds: StdioFds, lost: Callable[[], None], splitter: Lines | None = None) -> None:
        self._fds = fds
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._splitter = splitter or Lines()
        self._lines: deque[Line] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._ended = False
        self._by_loop = False
        self._unpaused = threading.Event()
        self._direct = _takes_at_once(fds.write_fd)
        self._broken = False
        self._pending = 0  # bytes given to the writer thread
        self._backlog: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._unpaused.set()
        self._start_reading()
        if not process_setup.WAITS_FOR_PIPES:
            self._tick()

    # Reading

    async def line(self) -> Line | None:
        """Return the next line, or None when the client sends no more or `end` was called."""
        while not self._lines:
            if self._ended:
                return None
            self._waiting = self._loop.create_future()
            await self._waiting
        line = self._lines.popleft()
        if not self._unpaused.is_set() and len(self._lines) < READ_AHEAD:
            self._unpaused.set()
            if self._by_loop and not self._ended:
                self._loop.add_reader(self._fds.read_fd, self._readable)
        return line

    def end(self) -> None:
        """Read no more; lines that have arrived are still handed out."""
        if not self._ended:
            self._ended = True
            self._stop_reader()
            self._wake()
            self._written(0)

    def _start_reading(self) -> None:
        try:
            if process_setup.WAITS_FOR_PIPES:
                self._loop.add_reader(self._fds.read_fd, self._readable)
                self._by_loop = True
        except (NotImplementedError, OSError, ValueError):
            pass  # a file, or a loop that waits for sockets only
        if not self._by_loop:
            threading.Thread(target=self._read_always, name="stdin", daemon=True).start()

    def _readable(self) -> None:
        try:
            self._feed(os.read(self._fds.read_fd, CHUNK))
        except BlockingIOError:
            return  # somebody else's read was faster
        except OSError:
            self._feed(b"")

    def _read_always(self) -> None:
        chunk = b"more"
        while chunk:
            try:
                chunk = os.read(self._fds.read_fd, CHUNK)
            except OSError:
                chunk = b""
            self._unpaused.wait()
            if not self._tell(self._feed, chunk):
                return

    def _feed(self, chunk: bytes) -> None:
        if self._ended:
            return
        self._lines.extend(self._splitter.feed(chunk) if chunk else self._splitter.close())
        if not chunk:
            self._ended = True
            self._stop_reader()
            self._written(0)
        elif len(self._lines) >= READ_AHEAD:
            self._unpaused.clear()
            self._stop_reader()
        self._wake()

    def _stop_reader(self) -> None:
        if self._by_loop:
            self._loop.remove_reader(self._fds.read_fd)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _tick(self) -> None:
        """Come by four times a second: on Windows a signal does not interrupt the loop's wait."""
        self._loop.call_later(0.25, self._tick)

    # Writing

    def write(self, data: bytes) -> None:
        """Send whole lines; what the pipe does not take now follows in order."""
        if self._broken:
            return
        if self._direct and not self._pending:
            try:
                data = data[os.write(self._fds.write_fd, data) :]
            except BlockingIOError:
                pass  # the pipe is full
            except OSError:
                self._break()
                return
        if data:
            self._pending += len(data)
            self._backlog.put(data)
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_backlog, name="stdout", daemon=True)
                self._writer.start()

    async def drain(self) -> None:
        """Wait until the client has read most of what was sent; once nothing more is read, do not wait."""
        while self._pending > WRITE_AHEAD and not self._broken and not self._ended:
            await self._less_pending()

    async def _less_pending(self) -> None:
        if self._emptied is None or self._emptied.done():
            self._emptied = self._loop.create_future()
        await asyncio.shield(self._emptied)

    async def _flush(self) -> None:
        while self._pending and not self._broken:
            await self._less_pending()

    async def close(self, timeout_s: float) -> None:
        """Give the client `timeout_s` to read the rest, and stop."""
        self.end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._flush(), timeout_s)
        if self._direct and sys.platform != "win32":
            with contextlib.suppress(OSError):
                os.set_blocking(self._fds.write_fd, True)  # the pipe may be shared with a later program

    def _write_backlog(self) -> None:
        while True:
            data = self._backlog.get()
            try:
                _write_all(self._fds.write_fd, data)
            except OSError:
                self._tell(self._break)
                return
            if not self._tell(self._written, len(data)):
                return

    def _written(self, count: int) -> None:
        """Take `count` bytes off what is pending, and let those who wait look again."""
        self._pending -= count
        if self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _break(self) -> None:
        if not self._broken:
            self._broken = True
            self._written(0)
            self._lost()

    def _tell(self, what: Callable[..., None], *args: object) -> bool:
        """Run `what` in the loop; False when there is no loop any more."""
        try:
            self._loop.call_soon_threadsafe(what, *args)
        except RuntimeError:
            return False
        return True


def _takes_at_once(fd: int) -> bool:
    """Whether a write to `fd` never makes us wait; pipes and sockets are told not to."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        os.set_blocking(fd, False)
        return True
    return stat.S_ISREG(mode)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            select.select([], [fd], [])
