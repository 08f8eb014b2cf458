"""How the C library of Linux keeps memory; elsewhere, and with musl, nothing is done."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

M_ARENA_MAX: Final = -8


def share_one_arena() -> None:
    """Have all threads take memory from one arena: with one for each, what a thread has freed is of use to no other."""
    _call("mallopt", M_ARENA_MAX, 1)


def return_what_is_free() -> None:
    """Give freed memory back to the system."""
    _call("malloc_trim", 0)


def _call(name: str, *values: int) -> None:
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    if function is not None:
        function(*values)
