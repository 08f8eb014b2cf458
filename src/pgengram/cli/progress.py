"""How far a long command is: a bar with the time left on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import MofNCompleteColumn as CountColumn
from rich.text import Text

EVERY_S: Final = 5.0  # between two lines where nobody draws a bar


class _Count(CountColumn):
    """The count and the total; nothing while the total is unknown."""

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else super().render(task)


class ProgressBar:
    """A context manager that shows on standard error how far some work is; call it with what is done and the total.

    Args:
        what: the work in a word or two, such as "Importing".
        quiet: print nothing.
    """

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        console = Console(stderr=True)
        self._plain = not quiet and not console.is_terminal
        self._console = console
        columns = TextColumn("{task.description}"), BarColumn(), _Count(), TimeElapsedColumn()
        self._bar = Progress(*columns, TimeRemainingColumn(), console=console, disable=quiet or not console.is_terminal)
        self._task = self._bar.add_task(what, total=None)
        self._what = what
        self._first: int | None = None
        self._begun = self._last = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int | None = None) -> None:
        """Report that `done` of `total` are done; None stands for an unknown total."""
        self._bar.update(self._task, completed=done, total=total)
        now = time.monotonic()
        if self._first is None:
            self._first = done
        if self._plain and now - self._last >= EVERY_S:
            self._last = now
            self._console.print(self._line(done, total, now), highlight=False, markup=False, soft_wrap=True)

    def step(self, what: str) -> None:
        """Report that the work is another from now on, of unknown length."""
        if what == self._what:
            return
        self._what, self._first = what, None
        self._begun = time.monotonic()
        self._bar.reset(self._task, description=what, total=None)
        if self._plain:
            self._last = self._begun
            self._console.print(f"{what} …", highlight=False, markup=False, soft_wrap=True)

    def seconds_left(self, done: int, total: int | None) -> float | None:
        """Return how long the rest takes at the rate so far; None while that is unknown."""
        made = done - (self._first or 0)
        return None if total is None or made <= 0 else (time.monotonic() - self._begun) / made * (total - done)

    def _line(self, done: int, total: int | None, now: float) -> str:
        left = self.seconds_left(done, total)
        of = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        rest = f"{now - self._begun:.0f} s so far" if left is None else f"{left:.0f} s left"
        return f"{self._what}: {of}, {rest}"
