"""What takes longer than a page may: worked out beside the requests, and shown when it is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

PATIENCE_S: Final = 0.08  # that a page waits; what is quick stands in it at once
FRESH_S: Final = 10.0
MAX_KEPT: Final = 64
Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Kept:
    task: asyncio.Task[Any]
    made_at: float | None = None
    outdated: bool = False  # something was changed while it was made
    before: _Kept | None = None  # stands in for it meanwhile


class BackgroundCache:
    """Answers by name: each is made once at a time and kept for some seconds."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    async def get(
        self,
        key: Hashable,
        make: Callable[[], Awaitable[Answer]],
        *,
        fresh_s: float = FRESH_S,
        stale_s: float = 0.0,
        patience_s: float = PATIENCE_S,
    ) -> Answer | None:
        """Return the answer, or None while it is made.

        Args:
            key: its name; make: makes it.
            fresh_s: how long it is good.
            stale_s: how long it still stands in for the next one, while that is made.
            patience_s: how long to wait for it.

        Raises:
            Exception: what `make` raised; the next call tries again.
        """
        before = self._kept.get(key)
        age_s = 0.0 if before is None or before.made_at is None else time.monotonic() - before.made_at
        if before is not None and age_s <= fresh_s:
            kept = before
        else:
            kept = self._kept[key] = _Kept(asyncio.ensure_future(make()))
            kept.before = before if age_s <= stale_s else None
            self._let_go()
        done, _ = await asyncio.wait({kept.task}, timeout=0 if kept.before else patience_s)
        if not done:
            return None if kept.before is None else cast("Answer", kept.before.task.result())
        kept.before = None
        if kept.outdated or kept.task.exception() is not None:
            self._kept.pop(key, None)
        elif kept.made_at is None:
            kept.made_at = time.monotonic()
        return cast("Answer", kept.task.result())

    def forget(self) -> None:
        """Make everything again when it is next asked for, as memories were changed."""
        for key, kept in [*self._kept.items()]:
            kept.outdated, kept.before = True, None
            if kept.task.done():
                del self._kept[key]

    def _let_go(self) -> None:
        for key in list(self._kept)[: max(0, len(self._kept) - MAX_KEPT)]:
            if self._kept[key].task.done():
                del self._kept[key]

    async def close(self) -> None:
        """Cancel what is being made."""
        tasks = [kept.task for kept in self._kept.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
