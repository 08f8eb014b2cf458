"""A sign of life on a terminal while a command is busy for longer than a moment."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

AFTER_S: Final = 0.3  # what is quicker shows nothing
EVERY_S: Final = 0.1
FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ERASED: Final = "\r\x1b[2K"


class Spinner:
    """A turning sign on standard error, drawn by a thread of its own until it is stopped."""

    def __init__(self) -> None:
        self.says = "Working …"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._turn, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the sign away; what is printed next begins at the start of the line."""
        self._over.set()
        self._thread.join()

    def _turn(self) -> None:
        if self._over.wait(AFTER_S):
            return
        turn = 0
        while not self._over.wait(EVERY_S):
            sys.stderr.write(f"{ERASED}{FRAMES[turn % len(FRAMES)]} {self.says}")
            sys.stderr.flush()
            turn += 1
        sys.stderr.write(ERASED)
        sys.stderr.flush()


_shown: list[Spinner] = []


@contextmanager
def sign_of_life() -> Iterator[None]:
    """Show a sign of life while the block is busy, where a person sees it and none is shown yet."""
    if _shown or not sys.stderr.isatty():
        yield
        return
    _shown.append(Spinner())
    try:
        yield
    finally:
        end_waiting()


async def show_progress(message: str) -> None:
    """Say beside the sign how far the command is."""
    for one in _shown:
        one.says = message


def end_waiting() -> None:
    """Take the sign away, as before a question."""
    while _shown:
        _shown.pop().stop()
