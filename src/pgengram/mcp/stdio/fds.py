"""The descriptors of standard input and output, kept from everybody but the protocol.

Nothing heavy is imported, so that `claim_stdio` can run before anything may print.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType


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
