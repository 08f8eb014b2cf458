"""Folding the words of memories from rows into arrays: in the background, when nobody writes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

import psycopg

from pgengram.errors import PgengramError
from pgengram.store import background, pooler
from pgengram.store import statements as s

if TYPE_CHECKING:
    from pgengram.store.database import Row, Transaction
    from pgengram.store.store import Store

log = logging.getLogger(__name__)

SEGMENT: Final = 4_096  # memories in one segment; larger ones make a change of one memory dearer
FOLD_FROM: Final = 256  # memories of an owner from which on arrays take clearly less room than rows
FOLD_AT: Final = (
    1_024  # memories with rows that are worth a segment, of an owner with many; of others as many as are folded
)
SWEEP_SHARE: Final = 0.02  # of all memories, folded, that are worth a VACUUM: it reads the indexes of all owners
QUIET_S: Final = 2.0  # without a new memory, before folding begins
TIMEOUT_MS: Final = 120_000  # for a segment; nobody waits for it but who changes one of its memories
FULL: Final = 200_000  # memories with rows at which folding no longer waits for quiet
BYTES_PER_ROW: Final = 45  # of that index when it is well filled
LARGE_INDEX_BYTES: Final = 4_000_000  # an index of rows that is larger and nearly empty is built anew

# Forgotten memories keep their words and have no rows: were they counted, each start would fold the few new ones into a
# segment of their own. Uses memory_words_unfolded, memories_pkey and memory_words_pkey.
COUNT_WAITING: Final = """
SELECT count(*) AS memories, (SELECT count(*) FROM (
  SELECT 1 FROM memory_words WHERE namespace_id = %(namespace_id)s AND segment IS NOT NULL LIMIT %(limit)s) AS others) AS folded
FROM (
  SELECT 1 FROM memory_words w JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = w.memory_id
  WHERE w.namespace_id = %(namespace_id)s AND w.segment IS NULL AND m.status = 'active' LIMIT %(limit)s) AS some_of_them
"""
COUNT_ALL: Final = "SELECT reltuples FROM pg_class WHERE oid = 'memory_words'::regclass"
# The server's own count of live rows: no owner's wall hides any of them from it.
INDEX_SIZE: Final = """
SELECT pg_relation_size('memory_postings_pkey') AS bytes, n_live_tup AS rows FROM pg_stat_user_tables
WHERE relid = 'memory_postings'::regclass
"""
# Folding empties the end of the table. Were its last dead rows left in their pages, as VACUUM does with few, the room before
# them could not be given back.
VACUUM: Final = "VACUUM (INDEX_CLEANUP ON) memory_postings, memory_words"
# Folding writes each memory's words anew; the next segment can take the room of the one before.
VACUUM_WORDS: Final = "VACUUM (INDEX_CLEANUP ON) memory_words"
REBUILD: Final = (
    "REINDEX INDEX CONCURRENTLY memory_posting_lists_pkey",
    "REINDEX INDEX CONCURRENTLY memory_words_unfolded",
    "REINDEX INDEX CONCURRENTLY memory_postings_pkey",
)


class WordKeeper:
    """Folds one owner's postings once there are enough of them.

    Args:
        store: whose memories.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows = FOLD_AT  # look once after the first new memory: an earlier process may have left rows
        self._quiet = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def notice(self, rows: int) -> None:
        """Say that `rows` memories were added."""
        self._rows += rows
        self._quiet.set()
        if self._rows >= FOLD_AT and self._task is None:
            self._task = asyncio.create_task(self._run(), name="word keeper")

    async def close(self) -> None:
        """Stop; what is not folded yet is searched as rows."""
        await background.end(self._task)

    async def _run(self) -> None:
        try:
            await self._wait_for_quiet()
            self._rows = 0
            await self._fold()
        except PgengramError as error:
            log.warning("Words were not folded: %s", error.message)
        except psycopg.Error as error:
            log.warning("Words were folded, but their old room was not freed: SQLSTATE %s", error.sqlstate)
        finally:
            self._task = None

    async def _wait_for_quiet(self) -> None:
        while self._rows < FULL:
            self._quiet.clear()
            try:
                async with asyncio.timeout(QUIET_S):
                    await self._quiet.wait()
            except TimeoutError:
                return

    async def _fold(self) -> int:
        return await fold(self._store.transaction, self._store.database.url)


async def fold(begin: Callable[[], AbstractAsyncContextManager[Transaction]], url: str) -> int:
    """Fold all rows of an owner once enough wait; return how many memories were folded.

    None is left over: the newest rows lie at the end of the table, and would keep all the room before them.

    Args:
        begin: begins a transaction of the owner.
        url: where the room of what was folded is given back, if it is much.
    """
    folded, swept, done = 0, 0, SEGMENT
    while done == SEGMENT:
        async with begin() as tx:
            await tx.set_local({"statement_timeout": str(TIMEOUT_MS)})
            waiting = None if folded else await tx.row(COUNT_WAITING, {"limit": FOLD_AT})
            if waiting is not None and not _is_worth_it(waiting):
                return 0
            row = await tx.row(s.FOLD, {"limit": SEGMENT})
        done = row["folded"] if row else 0
        folded += done
        async with await pooler.connect(url) as connection:
            if folded - swept >= await _much(connection):
                await connection.execute(VACUUM_WORDS)
                swept = folded
            is_worth_shrinking = swept > 0 or await _is_slack(connection, 2 * BYTES_PER_ROW)
    if is_worth_shrinking:
        await shrink(url)
    return folded


def _is_worth_it(waiting: Row) -> bool:
    """Whether as many memories wait as are folded, so that each segment is as large as all before it until it is large enough."""
    return bool(waiting["memories"] >= min(FOLD_AT, max(FOLD_FROM, waiting["folded"])))


async def _much(connection: psycopg.AsyncConnection[Any]) -> float:
    """Return how many memories, once folded, leave room that is worth giving back."""
    row = await (await connection.execute(COUNT_ALL)).fetchone()
    return SWEEP_SHARE * row[0] if row else 0.0


async def shrink(url: str) -> None:
    """Give back the room of rows that were folded, when it is much."""
    async with await pooler.connect(url) as connection:
        size = await (await connection.execute(INDEX_SIZE)).fetchone()
        if size is not None and size[0] > LARGE_INDEX_BYTES:
            await connection.execute(VACUUM)  # counts the live rows anew
            if await _is_slack(connection, 2 * BYTES_PER_ROW):
                for statement in REBUILD:
                    await connection.execute(statement)


async def _is_slack(connection: psycopg.AsyncConnection[Any], bytes_per_row: int) -> bool:
    """Whether the index of the rows is large, and larger than its live rows need."""
    size = await (await connection.execute(INDEX_SIZE)).fetchone()
    return size is not None and bool(size[0] > LARGE_INDEX_BYTES and size[0] > bytes_per_row * (size[1] or 0))
