"""Compaction of the words of memories: from lists of their own into lists by word, in the background, in segments."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

import psycopg

from pgengram.errors import PgengramError
from pgengram.runtime import process_setup
from pgengram.store.connection import locks, pooler

if TYPE_CHECKING:
    from pgengram.store.connection.database import Transaction
    from pgengram.store.store import Store

log = logging.getLogger(__name__)

SEGMENT: Final = 4_096  # memories in one segment; larger ones make a change of one memory dearer
COMPACT_AT: Final = 256  # memories that wait: a search looks at each of them, in 3 µs
SEGMENTS_LOOKED_AT: Final = 8  # of the newest; as many as doubling leads from COMPACT_AT to SEGMENT, and some
SWEEP_SHARE: Final = 0.02  # of all memories, compacted, that are worth a VACUUM: it reads the indexes of all namespaces
QUIET_S: Final = 2.0  # without a new memory, before compaction begins
LATEST_S: Final = 10.0  # after which it begins all the same, unless this is an import
FULL: Final = 65_536  # memories of an import at which it begins in its midst: until then it would slow the import down
TIMEOUT_MS: Final = 120_000  # for a segment; nobody waits for it but who changes one of its memories

# Uses memory_words_waiting.
COUNT_WAITING: Final = """
SELECT count(*) AS memories FROM (
  SELECT 1 FROM memory_words WHERE namespace_id = %(namespace_id)s AND segment IS NULL LIMIT %(limit)s) AS some_of_them
"""
# Uses memory_words_by_segment.
NEWEST_SEGMENTS: Final = """
SELECT segment, count(*) AS memories FROM memory_words WHERE namespace_id = %(namespace_id)s AND segment > 0
GROUP BY segment ORDER BY segment DESC LIMIT %(limit)s
"""
# Waits for nobody: a memory that somebody changes at this moment keeps its place, and its segment is not merged. Uses
# memory_words_waiting and memory_words_by_segment.
TAKE: Final = """
WITH waiting AS MATERIALIZED (
  SELECT memory_id, 0 AS segment FROM memory_words WHERE namespace_id = %(namespace_id)s AND segment IS NULL
  ORDER BY memory_id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), merged AS MATERIALIZED (
  SELECT memory_id, segment FROM memory_words
  WHERE namespace_id = %(namespace_id)s AND segment > 0 AND segment = ANY(%(segments)s::integer[])
  FOR UPDATE SKIP LOCKED
)
SELECT memory_id, segment FROM waiting UNION ALL SELECT memory_id, segment FROM merged
"""
# One statement, so that no search sees a memory twice or not at all. Whoever wants to change one of those taken waits.
# Uses memory_words_pkey and memory_posting_lists_pkey.
COMPACT: Final = """
WITH marked AS (
  UPDATE memory_words SET segment = %(segment)s WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s)
  RETURNING memory_id, terms, counts, length
), parts AS MATERIALIZED (
  SELECT marked.memory_id, t.term, t.count, marked.length FROM marked, unnest(marked.terms, marked.counts) AS t(term, count)
), dropped AS (
  DELETE FROM memory_posting_lists l USING (SELECT DISTINCT term FROM parts) AS t
  WHERE l.namespace_id = %(namespace_id)s AND l.term = t.term AND l.segment = ANY(%(merged)s::integer[])
), listed AS (
  INSERT INTO memory_posting_lists (namespace_id, term, segment, memory_ids, measures)
  SELECT %(namespace_id)s, term, %(segment)s, array_agg(memory_id ORDER BY memory_id),
    array_agg(count::integer << 16 | least(length, 32767) ORDER BY memory_id)
  FROM parts GROUP BY term RETURNING 1
)
SELECT count(*) AS memories FROM marked
"""
COUNT_ALL: Final = "SELECT reltuples FROM pg_class WHERE oid = 'memory_words'::regclass"
# Words come in no order, so the index of the lists is half empty after a few large segments: 50 bytes a list where 32
# would do.
SPARSE_BYTES: Final = 48
LARGE_BYTES: Final = 1_000_000  # an index that is worth building anew
INDEX_SIZE: Final = """
SELECT pg_relation_size('memory_posting_lists_pkey') AS bytes, reltuples AS lists FROM pg_class
WHERE oid = 'memory_posting_lists'::regclass
"""
REBUILD: Final = "REINDEX INDEX CONCURRENTLY memory_posting_lists_pkey"
# Compaction rewrites each memory's words, and merging the lists; what comes next can take the room of what was before.
VACUUM: Final = "VACUUM (INDEX_CLEANUP ON) memory_words, memory_posting_lists"
ANALYZE: Final = "ANALYZE memory_words, memory_posting_lists"


class PostingsCompactor:
    """Compacts one namespace's words once enough memories wait.

    Args:
        store: whose memories.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows = COMPACT_AT  # look once in any case: an earlier process may have left some
        self._quiet = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def notice(self, rows: int) -> None:
        """Say that `rows` memories were added."""
        self._rows += rows
        self._quiet.set()
        if self._rows >= COMPACT_AT and self._task is None:
            self._task = asyncio.create_task(self._run(), name="postings compactor")

    async def close(self) -> None:
        """Stop; what is not compacted yet is found all the same."""
        await process_setup.end_task(self._task)

    async def _run(self) -> None:
        try:
            while self._rows >= COMPACT_AT:  # more may come while some are compacted
                await self._wait_for_quiet()
                self._rows = 0
                await self._compact()
        except PgengramError as error:
            self._rows = COMPACT_AT  # the next new memory has it tried again
            log.warning("Words were not compacted: %s", error.message)
        except psycopg.Error as error:
            log.warning("Words were compacted, but their old room was not freed: SQLSTATE %s", error.sqlstate)
        finally:
            self._task = None

    async def _wait_for_quiet(self) -> None:
        latest = asyncio.get_running_loop().time() + LATEST_S
        while self._rows < FULL:
            if self._rows < SEGMENT and asyncio.get_running_loop().time() > latest:
                return
            self._quiet.clear()
            try:
                async with asyncio.timeout(QUIET_S):
                    await self._quiet.wait()
            except TimeoutError:
                return

    async def _compact(self) -> int:
        return await compact(self._store.transaction, self._store.database.url)


async def compact(begin: Callable[[], AbstractAsyncContextManager[Transaction]], url: str) -> int:
    """Compact all words of a namespace that wait, once they are enough; return how many memories were compacted.

    Args:
        begin: begins a transaction of the namespace.
        url: where the room of what was compacted is given back, if it is much.
    """
    compacted, swept, done = 0, 0, SEGMENT
    while done == SEGMENT:
        async with begin() as tx:
            await tx.set_local({"statement_timeout": str(TIMEOUT_MS)})
            done = await _compact_some(tx, at_least=1 if compacted else COMPACT_AT)
        compacted += done
        if compacted > swept:
            async with await pooler.connect(url) as connection:
                if compacted - swept >= await _much(connection):
                    await connection.execute(VACUUM)
                    swept = compacted
    if swept:
        async with await pooler.connect(url) as connection:
            await connection.execute(ANALYZE)
            if await _is_sparse(connection):
                await connection.execute(REBUILD)
    return compacted


async def _compact_some(tx: Transaction, *, at_least: int) -> int:
    """Compact what waits into a new segment, together with newer ones that are no larger; return how many
    memories waited.

    As each merging at least doubles a segment, the words of a memory are rewritten few times until it is full.
    """
    turn = await tx.row(locks.TRY_IN_NAMESPACE, {"key": locks.POSTINGS})
    waiting = await tx.row(COUNT_WAITING, {"limit": SEGMENT})
    if not (turn and turn["taken"] and waiting and waiting["memories"] >= at_least):
        return 0
    sizes = await _newest_segments(tx)
    wanted = to_merge(waiting["memories"], list(sizes.items()))
    taken = await tx.rows(TAKE, {"limit": SEGMENT, "segments": wanted})
    got = Counter(row["segment"] for row in taken)
    merged = [segment for segment in wanted if got[segment] == sizes[segment]]
    ids = [row["memory_id"] for row in taken if row["segment"] in (0, *merged)]
    await tx.row(COMPACT, {"ids": ids, "segment": max(sizes, default=0) + 1, "merged": merged})
    return got[0]


async def _newest_segments(tx: Transaction) -> dict[int, int]:
    """Return how many memories each of the last segments holds, the newest first."""
    newest = await tx.rows(NEWEST_SEGMENTS, {"limit": SEGMENTS_LOOKED_AT})
    return {row["segment"]: row["memories"] for row in newest}


def to_merge(waiting: int, newest: Sequence[tuple[int, int]]) -> list[int]:
    """Return which segments to compact again with those that wait: the newest as long as they are no larger than what
    is gathered.

    Args:
        waiting: how many memories wait.
        newest: number and size of the last segments, the newest first.
    """
    merged, gathered = [], waiting
    for segment, memories in newest:
        if memories > gathered or gathered + memories > SEGMENT:
            break
        merged.append(segment)
        gathered += memories
    return merged


async def _is_sparse(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether the index of the lists is large and takes clearly more room than it needs."""
    row = await (await connection.execute(INDEX_SIZE)).fetchone()
    return row is not None and row[0] > max(LARGE_BYTES, SPARSE_BYTES * row[1])


async def _much(connection: psycopg.AsyncConnection[Any]) -> float:
    """Return how many memories, once compacted, leave room that is worth giving back."""
    row = await (await connection.execute(COUNT_ALL)).fetchone()
    return SWEEP_SHARE * row[0] if row else 0.0
