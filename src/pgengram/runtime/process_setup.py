"""How memory is kept: by the garbage collector, and on Linux by the C library (with musl, that is left alone)."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from typing import Final

M_ARENA_MAX: Final = -8
COLLECTED_AFTER: Final = (20_000, 20, 50)  # objects of an answer are few in cycles; to look after each 700 costs 5 %


def collect_rarely() -> None:
    """Look for garbage from now on, though not often, and never among what is imported: a fifth of the start is saved.

    Until then a server has the collector disabled.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)
    gc.enable()


def share_one_arena() -> None:
    """Have all threads take memory from one arena: with one for each, what a thread has freed is of use to no other."""
    _call_libc("mallopt", M_ARENA_MAX, 1)


def return_what_is_free() -> None:
    """Give freed memory back to the system."""
    _call_libc("malloc_trim", 0)


def _call_libc(name: str, *values: int) -> None:
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    if function is not None:
        function(*values)


NEEDED: Final = ("msvcp140.dll", "msvcp140_1.dll") if sys.platform == "win32" else ()
INSTALL: Final = "Run `winget install Microsoft.VCRedist.2015+.x64`, then start again."


def missing_libraries() -> list[str]:
    """Return the names of those that cannot be loaded; none on other systems than Windows."""
    return [name for name in NEEDED if not _loads(name)]


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


# Windows' selector loop registers a pipe without an error and fails later, when it waits for it.
WAITS_FOR_PIPES = sys.platform != "win32"


def event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that psycopg can use: on Windows that is the selector loop, not the default."""
    return asyncio.SelectorEventLoop() if sys.platform == "win32" else asyncio.new_event_loop()
