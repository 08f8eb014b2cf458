"""How memory is kept: by the garbage collector, and on Linux by the C library (with musl, that is left alone).

Also the event loop that psycopg can use, and the end of a task that works in the background.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import sys
from typing import Any, Final

log = logging.getLogger(__name__)

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


END_TASK_S: Final = 1.0  # longer than a backup takes to break off; a driver waits 5 s for a database that is silent


async def end_task(task: asyncio.Task[Any] | None, timeout_s: float = END_TASK_S) -> None:
    """Cancel a task, if there is one, and wait until it is over; one that does not end in time is left behind.

    The task's cancellation ends here. The caller's own does not: it is raised at once, and the task is not waited for.

    Raises:
        Exception: what the task failed with, as nobody else was there to hear of it.
    """
    if task is None:
        return
    task.cancel()
    over, _ = await asyncio.wait({task}, timeout=timeout_s)
    if not over:
        log.warning("The task %r did not end; it is left behind.", task.get_name())
    elif not task.cancelled():
        task.result()
