"""Counting which memories searches have shown: off the read path, in batches, without any effect on ranking."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from pgengram.errors import PgengramError
from pgengram.runtime import process_setup
from pgengram.store.connection.database import Role
from pgengram.store.memory import statements as s

if TYPE_CHECKING:
    from pgengram.store.store import Store

log = logging.getLogger(__name__)

FLUSH_AFTER_S: Final = 2.0
FLUSH_HITS: Final = 100
LAST_S: Final = 0.4  # for the last hits to be written: a database that does not answer holds up no end


class AccessLog:
    """Hits that wait to be counted.

    Only reading, confirming and changing a memory strengthen it: were hits to do so, the order in which questions are
    asked would change the answers. A crash loses at most the hits of two seconds.

    Args:
        store: whose memories.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hits: Counter[UUID] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._full = asyncio.Event()

    def note(self, ids: Sequence[UUID]) -> None:
        """Remember that these memories were shown once."""
        self._hits.update(ids)
        if self._hits.total() >= FLUSH_HITS:
            self._full.set()
        if self._hits and self._task is None:
            self._task = asyncio.create_task(self._flush_later(), name="access log")

    async def flush(self) -> None:
        """Write what waits."""
        hits, self._hits = self._hits, Counter()
        if not hits:
            return
        ordered = sorted(hits)
        try:
            async with self._store.transaction() as tx:
                if tx.role is Role.READ:  # a guest of a space changes nothing in it
                    return
                await tx.run(s.COMMIT_WITHOUT_WAITING)
                await tx.run(s.COUNT_HITS, {"ids": ordered, "times": [hits[id_] for id_ in ordered]})
        except PgengramError as error:  # the database is away: searches fail loudly then, their counts need not
            log.info("hits were not counted: %s", error.message)

    async def close(self) -> None:
        """Write what waits and stop."""
        await process_setup.end_task(self._task, LAST_S)
        if self._store.is_open:
            last = asyncio.create_task(self.flush(), name="last hits")
            await asyncio.wait({last}, timeout=LAST_S)
            await process_setup.end_task(last, LAST_S)

    async def _flush_later(self) -> None:
        try:
            while self._hits:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(FLUSH_AFTER_S):
                        await self._full.wait()
                self._full.clear()
                await self.flush()
        finally:
            self._task = None
