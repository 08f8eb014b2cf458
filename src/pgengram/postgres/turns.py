"""Waiting for somebody else who starts or stops the same server, for as long as that gets on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pgengram.postgres.process_locks import GONE, START, Lock

ATTEMPT_S: Final = 1.0
REPORT_AT: Final = 2  # attempts; an ordinary start is over by then
MOST_ATTEMPTS: Final = 900  # a slow machine takes minutes to make the data, and so does a recovery


def turn(home: Path, patience_s: float, waits: Callable[[], None]) -> Lock | None:
    """Return the start lock of a home once it is ours, None when its holder has written nothing for `patience_s`.

    Attempts are counted, not seconds: who slept meanwhile with the whole machine has not waited.

    Args:
        home: of the server.
        patience_s: how long nothing may change in the home.
        waits: called once when it takes longer than usual.
    """
    start, seen, still = Lock(str(home), START), (-1, 0, 0), 0
    for attempt in range(1, MOST_ATTEMPTS):
        if start.take(ATTEMPT_S):
            return start
        found = _traces(home)
        still, seen = (still + 1 if found == seen else 0), found
        if attempt == REPORT_AT:
            waits()
        if still * ATTEMPT_S >= patience_s:
            break
    return None


def _traces(home: Path) -> tuple[int, int, int]:
    """Return what differs once something was written below a folder: how many files, their size, the latest change."""
    count = size = latest = 0
    for place, _, names in os.walk(home):
        for name in names:
            try:
                found = os.lstat(os.path.join(place, name))
            except GONE:
                continue
            count, size, latest = count + 1, size + found.st_size, max(latest, found.st_mtime_ns)
    return count, size, latest
