"""The thread that ends the process when its client is gone."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Final

from pgengram.runtime.operating_system import ancestors_gone


@dataclass(frozen=True, slots=True)
class StdioFds:
    """The client's two pipes, as descriptors that nobody else has, and who started us."""

    read_fd: int
    write_fd: int
    parent: int


_claimed: StdioFds | None = None


def claim_stdio() -> StdioFds:
    """Take stdin and stdout away from the rest of the process and return them; call it before anything else.

    Afterwards descriptor 0 reads nothing and 1 is stderr, so that no print, library or child can disturb the protocol.
    A signal that comes before `ParentWatchdog` is started ends the process quietly, as there is nothing to clean up
    yet. Calling it again returns the same descriptors. Must run in the main thread.
    """
    global _claimed
    if _claimed is None:
        _claimed = StdioFds(_private_copy(0, os.O_RDONLY), _private_copy(1, os.O_WRONLY), os.getppid())
        _divert(0, os.open(os.devnull, os.O_RDONLY))
        _divert(1, _stderr_or_null())
        on_signals(lambda *_: os._exit(0))
    return _claimed


def _private_copy(fd: int, flags: int) -> int:
    """Duplicate a standard descriptor outside the standard range, hidden from children; the null device when closed."""
    try:
        return _above_standard(fd)
    except OSError:
        return _above_standard(os.open(os.devnull, flags))


def _above_standard(fd: int) -> int:
    if sys.platform == "win32":
        import msvcrt

        copy = os.dup(fd)
        msvcrt.setmode(copy, os.O_BINARY)
        return copy
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _stderr_or_null() -> int:
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _divert(fd: int, target: int) -> None:
    """Make `fd` mean what `target` means, for C code and children too."""
    os.dup2(target, fd)
    if target != fd:
        os.close(target)
    if sys.platform == "win32":  # children inherit the console handles, not the C runtime's descriptors
        import ctypes
        import msvcrt

        standard_handle = {0: -10, 1: -11}[fd]
        ctypes.windll.kernel32.SetStdHandle(standard_handle, ctypes.c_void_p(msvcrt.get_osfhandle(fd)))


def on_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    """Handle every signal that asks the process to end; a hang-up ignored by `nohup` stays ignored."""
    for name in ("SIGTERM", "SIGINT", "SIGBREAK", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and not (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
            signal.signal(number, handler)


STOP_S: Final = 8.5  # from the first reason to end until the process is gone, however stuck; promised are 10
INPUT_S: Final = 1.0  # after the client has hung up, to read what it sent before
TICK_S: Final = 2.0  # between two looks at the ancestors


class ParentWatchdog:
    """A thread that knows every reason to end and outlives a stuck event loop.

    Reasons are a signal, the client's end of the pipes closing, and the client's death while somebody else holds them.
    For each it asks the loop to stop; if the process is still there `STOP_S` after the first reason, it is ended with
    code 1.

    Args:
        fds: the claimed descriptors.
        ask: called once, from any thread or from a signal handler, to stop the loop cleanly; another may take its
            place.
    """

    def __init__(self, fds: StdioFds, ask: Callable[[], None]) -> None:
        self._fds = fds
        self.ask = ask
        self._gone = ancestors_gone(fds.parent)  # before the first answer: a client may die right after it
        self._asked = False
        self._deadline = self._ask_at = math.inf
        self._code = 1
        self._wake_read, self._wake_write = os.pipe()
        if sys.platform != "win32":
            os.set_blocking(self._wake_write, False)

    def start(self) -> None:
        """Begin to watch; must run in the main thread, as it handles the signals."""
        on_signals(lambda *_: self.stop())
        if sys.platform != "win32":  # there a wake-up descriptor must be a socket
            # Written by the C handler at once, even while the main thread is inside a long computation.
            signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="parent watchdog", daemon=True).start()

    def stop(self) -> None:
        """Ask for a clean end; a second reason changes nothing."""
        if not self._asked:
            self._asked = True
            self._end_within(STOP_S, 1)
            self.ask()

    @property
    def has_asked(self) -> bool:
        """Whether there was a reason to end."""
        return self._asked

    def finish(self, grace_s: float, code: int) -> None:
        """Say that all is closed: what still runs after `grace_s` is ended with `code`."""
        self._end_within(grace_s, code)

    def _end_within(self, seconds: float, code: int) -> None:
        deadline = time.monotonic() + seconds
        if deadline < self._deadline:
            self._deadline, self._code = deadline, code
            with contextlib.suppress(OSError):
                os.write(self._wake_write, b"\0")

    def _watch(self) -> None:
        if sys.platform == "win32":
            wait = _doze  # nothing wakes it, so it must look more often
        else:
            wait = self._poll()
        while True:
            now = time.monotonic()
            if now >= self._deadline:
                os._exit(self._code)
            wait(max(0.0, min(TICK_S, self._deadline - now, math.inf if self._asked else self._ask_at - now)))
            if not self._asked and (self._gone() or time.monotonic() >= self._ask_at):
                self.stop()

    if sys.platform != "win32":

        def _poll(self) -> Callable[[float], None]:
            """Return a wait for signals and for hang-ups on both pipes."""
            no_more = getattr(select, "POLLRDHUP", 0)  # Linux: a socket whose peer only stopped sending
            poller = select.poll()
            poller.register(self._wake_read, select.POLLIN)
            poller.register(self._fds.read_fd, no_more)
            poller.register(self._fds.write_fd, 0)

            def wait(seconds: float) -> None:
                for fd, event in poller.poll(seconds * 1_000):
                    if fd == self._wake_read:
                        if any(os.read(fd, 4_096)):
                            self.stop()
                        continue
                    poller.unregister(fd)
                    if not event & (select.POLLHUP | select.POLLERR | no_more):
                        continue  # not a thing that can hang up
                    if fd == self._fds.read_fd:
                        # The loop finds the end itself after the lines before it, unless it is held up.
                        self._ask_at = time.monotonic() + INPUT_S
                        self._end_within(STOP_S, 1)
                    else:
                        self.stop()

            return wait


def _doze(seconds: float) -> None:
    time.sleep(min(seconds, 0.25))
