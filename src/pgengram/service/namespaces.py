"""The namespaces that a process serves over one database and one embedder, each kept while it is in use."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

MAX_KEPT: Final = 64  # that wait for their next call; a manager costs about half a megabyte
IDLE_S: Final = 900.0  # without a call, after which one is let go


class Closable(Protocol):
    """What serves one namespace."""

    async def close(self) -> None:
        """Write what waits to be written, and end the background work."""


Served = TypeVar("Served", bound=Closable)
Name = TypeVar("Name", bound=Hashable)


@dataclass(slots=True)
class _Entry(Generic[Served]):
    """What serves a namespace, how many calls are under way, and when the last one ended."""

    served: Served
    calls: int
    last_use: float


class Namespaces(Generic[Name, Served]):
    """What serves each namespace, made when it is first called; the longest idle ones are closed.

    Args:
        make: makes it from the namespace's name, or what else tells it from others, at no cost.
    """

    def __init__(self, make: Callable[[Name], Served]) -> None:
        self._make = make
        self._kept: OrderedDict[Name, _Entry[Served]] = OrderedDict()
        self._leaving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def of(self, namespace: Name) -> AsyncIterator[Served]:
        """Keep what serves a namespace for as long as a block lasts."""
        entry = self._kept.get(namespace)
        if entry is None:
            entry = self._kept[namespace] = _Entry(self._make(namespace), 0, time.monotonic())
        self._kept.move_to_end(namespace)
        entry.calls += 1
        try:
            yield entry.served
        finally:
            entry.calls -= 1
            entry.last_use = time.monotonic()
            self._let_go()

    def __len__(self) -> int:
        return len(self._kept)

    async def close(self) -> None:
        """Close all of them."""
        await asyncio.gather(*(entry.served.close() for entry in self._kept.values()), *self._leaving)
        self._kept.clear()

    def _let_go(self) -> None:
        """Close those that have been idle for long, or are the longest idle of too many."""
        now = time.monotonic()
        too_many = len(self._kept) - MAX_KEPT
        idle = [
            name
            for place, (name, entry) in enumerate(self._kept.items())
            if not entry.calls and (place < too_many or now - entry.last_use > IDLE_S)
        ]
        for name in idle:
            task = asyncio.create_task(self._kept.pop(name).served.close(), name="letting go of a namespace")
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
