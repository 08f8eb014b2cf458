"""Ids that sort by the time they were made (UUID version 7, RFC 9562)."""

from __future__ import annotations

import secrets
import threading
import time
from typing import Final
from uuid import UUID

SHORT_DIGITS: Final = 8  # the last ones of an id, by which there is an index; random, as the first ones are the time
BEFORE_ALL: Final = UUID(int=0)  # where reading in the order of ids begins

_lock = threading.Lock()
_last = 0


def short(id_: UUID | str) -> str:
    """Return the end of an id, which every tool and command takes for it."""
    return str(id_)[-SHORT_DIGITS:]


def uuid7() -> UUID:
    """Return a new UUIDv7, greater than every one this process made before.

    48 bits of milliseconds, then 12 bits of sub-millisecond time (RFC 9562, section 6.2, method 3), then 62 random
    bits.
    """
    global _last  # the order of ids is a property of the process
    with _lock:
        # 1/4096 ms steps since 1970; never the same twice
        _last = max(_last + 1, time.time_ns() * 4096 // 1_000_000)
        milliseconds, fraction = divmod(_last, 4096)
    return UUID(int=milliseconds << 80 | 7 << 76 | fraction << 64 | 0b10 << 62 | secrets.randbits(62))
