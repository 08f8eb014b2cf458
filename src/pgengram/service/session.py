"""The conversation that memories of one connection belong to when they name none."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from pgengram.ids import uuid7

PAUSE_S: Final = 1_800.0  # a longer silence begins a new session
SILENCE_S: Final = 60.0  # for which nobody looks for turns again where there were none; another process may keep some


def new_id() -> str:
    """Return a short id that sorts by time: milliseconds and 32 random bits."""
    digits = uuid7().hex
    return f"s-{digits[:12]}-{digits[-8:]}"


class Session:
    """One connection's session: a new id after thirty idle minutes, and the order in which memories arrive.

    Args:
        clock: seconds that only grow; monotonic time by default.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_use = clock()
        self._last_sequence = 0
        self._id = new_id()

    def current(self) -> str:
        """Return the id of the session that is on, and note that it is in use."""
        now = self._clock()
        if now - self._last_use > PAUSE_S:
            self._id, self._last_sequence = new_id(), 0
        self._last_use = now
        return self._id

    def next(self) -> tuple[str, int]:
        """Return the session that is on and the place of its next memory: 1, 2, 3 in the order of arrival."""
        session_id = self.current()
        self._last_sequence += 1
        return session_id, self._last_sequence


class Silence:
    """Whether a namespace was found to have no turns of conversations, so that not every search looks for some."""

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def lasts(self) -> bool:
        """Whether nobody has to look."""
        return time.monotonic() < self._until

    def note(self, *, spoken: bool) -> None:
        """Say whether there are turns."""
        self._until = 0.0 if spoken else time.monotonic() + SILENCE_S
