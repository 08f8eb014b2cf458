"""Working memories: held for a task until their time is over, then kept or removed.

They are memories of status `working` with a row in `working_memories` and a moment at which they expire. Whoever
changes one locks it first, so that two servers neither keep nor consolidate it twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from pgengram import fields as f
from pgengram.errors import Conflict, PgengramError
from pgengram.runtime import process_setup
from pgengram.store import clusters
from pgengram.store.connection import locks
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory import memories, merging, statements
from pgengram.store.memory import statements as s
from pgengram.store.memory.deletion import erase_memories
from pgengram.views import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgengram.store.store import Store

log = logging.getLogger(__name__)

WORTH_KEEPING: Final = 0.75  # importance from which on it is kept when its time is over
READS_WORTH_KEEPING: Final = 3
BATCH: Final = 200  # cleared in one transaction
ATTEMPTS: Final = 3  # when somebody tells the text of a memory that is just being kept, the next attempt sees it
LOOK_AGAIN_S: Final = 900.0  # a server that ended may have left some
RETRY_S: Final = 60.0  # after the database was away
LEAST_PAUSE_S: Final = 0.05

# All of these use memories_hidden; there are few working memories.
SECONDS_LEFT: Final = """
SELECT extract(epoch FROM min(expires_at) - statement_timestamp())::double precision + %(grace_s)s AS seconds FROM memories
WHERE namespace_id = %(namespace_id)s AND status = 'working'
"""
OVER: Final = """
SELECT m.id, coalesce(w.promote, false) OR a.importance >= %(importance)s OR a.access_count >= %(reads)s AS keep
FROM memories m
JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id
LEFT JOIN working_memories w ON w.namespace_id = %(namespace_id)s AND w.memory_id = m.id
WHERE m.namespace_id = %(namespace_id)s AND m.status = 'working'
  AND m.expires_at <= statement_timestamp() - make_interval(secs => %(grace_s)s)
ORDER BY m.id LIMIT %(limit)s FOR UPDATE OF m
"""
FIND_HELD: Final = """
SELECT id FROM memories
WHERE namespace_id = %(namespace_id)s AND status = 'working' AND expires_at > statement_timestamp() AND content_hash = %(hash)s
ORDER BY id LIMIT 1 FOR UPDATE
"""
LIST: Final = """
SELECT m.id FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.status = 'working'
  AND (%(include_expired)s OR m.expires_at IS NULL OR m.expires_at > statement_timestamp())
ORDER BY m.created_at DESC, m.id DESC LIMIT %(limit)s
"""
# By meaning where there is a vector, and by the share of the asked words that each one has. There are few, so each is
# looked at (memory_vectors_pkey, memory_words_pkey).
FIND: Final = """
WITH asked AS MATERIALIZED (
  SELECT coalesce(array_agg(term), '{}') AS terms FROM pgengram_terms(%(query)s::text, %(extra)s::text[])
), measured AS (
  SELECT m.id, m.created_at,
    (SELECT 1 - min(v.embedding <=> %(vector)b::halfvec) FROM memory_vectors v
     WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = m.id AND v.model_id = %(model_id)s::smallint) AS similarity,
    (SELECT count(*) FROM memory_words w, unnest(w.terms) AS t(term)
     WHERE w.namespace_id = %(namespace_id)s AND w.memory_id = m.id AND t.term = ANY(asked.terms))::double precision
      / greatest(cardinality(asked.terms), 1) AS words
  FROM memories m, asked
  WHERE m.namespace_id = %(namespace_id)s AND m.status = 'working'
    AND (%(include_expired)s OR m.expires_at IS NULL OR m.expires_at > statement_timestamp())
)
SELECT id FROM measured WHERE similarity IS NOT NULL OR words > 0
ORDER BY %(meaning)s * coalesce(similarity, 0) + %(words)s * words DESC, created_at DESC, id DESC LIMIT %(limit)s
"""

# Uses memories_pkey and working_memories_pkey.
READ_HELD: Final = """
SELECT m.id, coalesce(w.promote, false) AS promote, w.context,
  extract(epoch FROM m.expires_at - statement_timestamp())::double precision AS seconds_left
FROM memories m LEFT JOIN working_memories w ON w.namespace_id = %(namespace_id)s AND w.memory_id = m.id
WHERE m.namespace_id = %(namespace_id)s AND m.id = ANY(%(ids)s) AND m.status = 'working'
"""
# Uses memories_pkey. The database's clock decides how long, as it decides when the time is over.
HOLD: Final = """
WITH held AS (
  INSERT INTO working_memories (namespace_id, memory_id, promote, context)
  VALUES (%(namespace_id)s, %(id)s, %(promote)s, %(context)s)
)
UPDATE memories SET expires_at = statement_timestamp() + make_interval(secs => %(seconds)s)
WHERE namespace_id = %(namespace_id)s AND id = %(id)s
"""
# Uses memories_pkey, working_memories_pkey and memory_activation_pkey.
HOLD_LONGER: Final = """
WITH flagged AS (
  UPDATE working_memories SET promote = promote OR %(promote)s, context = coalesce(%(context)s::jsonb, context)
  WHERE namespace_id = %(namespace_id)s AND memory_id = %(id)s
), weighed AS (
  UPDATE memory_activation SET importance = greatest(importance, %(importance)s)
  WHERE namespace_id = %(namespace_id)s AND memory_id = %(id)s
)
UPDATE memories SET expires_at = greatest(expires_at, moment.until),
  last_confirmed_at = moment.at, updated_at = moment.at, version = version + 1
FROM (SELECT now() AS at, statement_timestamp() + make_interval(secs => %(seconds)s) AS until OFFSET 0) AS moment
WHERE namespace_id = %(namespace_id)s AND id = %(id)s RETURNING version, expires_at
"""
# Uses memories_pkey, and memories_active_content to see whether an active memory says the same.
KEEP: Final = """
WITH twin AS MATERIALIZED (
  SELECT t.id FROM memories t JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.content_hash = t.content_hash
  WHERE t.namespace_id = %(namespace_id)s AND t.status = 'active' AND m.id = %(id)s
)
UPDATE memories SET status = CASE WHEN EXISTS (SELECT 1 FROM twin) THEN 'archived' ELSE 'active' END,
  replaced_by = coalesce((SELECT array_agg(id) FROM twin), replaced_by),
  expires_at = NULL, updated_at = now(), version = version + 1
WHERE namespace_id = %(namespace_id)s AND id = %(id)s RETURNING status, version, (SELECT id FROM twin) AS twin
"""
# Uses memories_pkey.
ARCHIVE: Final = """
UPDATE memories SET status = 'archived', expires_at = NULL, updated_at = now(), version = version + 1
WHERE namespace_id = %(namespace_id)s AND id = %(id)s RETURNING version
"""
# What a working memory was about stays with the event that it becomes. Uses working_memories_pkey and
# episodic_memories_pkey.
RELEASE: Final = """
WITH released AS (
  DELETE FROM working_memories WHERE namespace_id = %(namespace_id)s AND memory_id = %(id)s RETURNING context
)
UPDATE episodic_memories e SET context = coalesce(released.context, e.context) FROM released
WHERE e.namespace_id = %(namespace_id)s AND e.memory_id = %(id)s
"""
# What is told again lives again. Uses memories_pkey.
CONFIRM: Final = """
UPDATE memories SET last_confirmed_at = moment.at, updated_at = moment.at, version = version + 1,
  expires_at = CASE WHEN expires_at > moment.at THEN expires_at END
FROM (SELECT now() AS at OFFSET 0) AS moment
WHERE namespace_id = %(namespace_id)s AND id = %(id)s RETURNING version
"""


@dataclass(frozen=True, slots=True)
class Cleared:
    """A working memory whose time was over, as it was, and whether it was kept; kept_as is the memory it is now."""

    row: Row
    kept_as: UUID | None


async def hold(
    tx: Transaction, draft: memories.Draft, model_id: int | None, *, seconds: int, promote: bool, context: Any
) -> tuple[UUID, bool]:
    """Hold a draft of status `working` for so many seconds; one that is held already is held so much longer.

    Returns its id and whether it is new.
    """
    await tx.row(locks.WAIT_IN_NAMESPACE, {"key": locks.WORKING})
    given = {"seconds": seconds, "promote": promote, "context": None if context is None else Jsonb(context)}
    there = await tx.row(FIND_HELD, {"hash": draft.hash})
    if there is None:
        [outcome] = await memories.insert(tx, [draft], model_id)
        await tx.run(HOLD, {**given, "id": outcome.id})
        return outcome.id, True
    id_: UUID = there["id"]
    before = (await read_working(tx, [id_]))[id_]
    await tx.run(
        s.ADD_TAGS, {"id": id_, "tags": merging.united_tags(before["tags"], draft.tags)[len(before["tags"]) :]}
    )
    longer = await tx.row(HOLD_LONGER, {**given, "id": id_, "importance": draft.row["importance"]})
    after = (await read_working(tx, [id_]))[id_]
    if after["tags"] != before["tags"]:
        await statements.set_words(tx, [after])
    names = ("expires_at", "importance", "tags", "promote", "context")
    differences = {name: [as_text(before[name]), as_text(after[name])] for name in names if before[name] != after[name]}
    if longer is not None:
        await memories.add_history(
            tx, id_, longer["version"], "update", changes=differences, session_id=draft.row["session_id"]
        )
    return id_, False


async def read_working(tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, Row]:
    """Return those memories that are working ones whole, with promote, context and seconds_left, in the order given."""
    held = {row["id"]: row for row in await tx.rows(READ_HELD, {"ids": list(ids)})}
    rows = await memories.read_memories(tx, list(held), None)
    return {id_: {**rows[id_], **held[id_]} for id_ in ids if id_ in rows}


async def consolidate(tx: Transaction, row: Row, into: UUID, *, session_id: str | None) -> None:
    """Keep the locked working memory in `row` as an archived event, as `into` says now what it said."""
    archived = await tx.row(ARCHIVE, {"id": row["id"]})
    if archived is None:
        return
    await tx.run(RELEASE, {"id": row["id"]})
    changes = {
        "status": ["working", "archived"],
        "expires_at": [f.as_utc(row["expires_at"]), None],
        "consolidated_into": [None, str(into)],
    }
    await memories.add_history(
        tx, row["id"], archived["version"], "consolidate", changes=changes, session_id=session_id
    )


async def clear(store: Store, grace_s: float = 0) -> list[Cleared]:
    """Keep or remove every working memory whose time has been over for `grace_s` seconds, and return them as they were.

    Each transaction clears some of them whole, so nothing is lost by a server that dies meanwhile.
    """
    cleared: list[Cleared] = []
    while True:
        some = await _clear_some(store, grace_s)
        cleared += some
        if len(some) < BATCH:
            return cleared


async def _clear_some(store: Store, grace_s: float) -> list[Cleared]:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            async with store.transaction() as tx:
                left = await tx.row(SECONDS_LEFT, {"grace_s": grace_s})
                if left is None or left["seconds"] is None or left["seconds"] > 0:
                    return []
                return await _clear(tx, grace_s)
        except Conflict:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("unreachable")


async def _clear(tx: Transaction, grace_s: float) -> list[Cleared]:
    kept = {"importance": WORTH_KEEPING, "reads": READS_WORTH_KEEPING}
    over = await tx.rows(OVER, {**kept, "grace_s": grace_s, "limit": BATCH})
    rows = await read_working(tx, [row["id"] for row in over])
    gone = [row["id"] for row in over if not row["keep"]]
    kept_as = {row["id"]: await _keep(tx, rows[row["id"]]) for row in over if row["keep"]}
    if gone:
        await erase_memories(tx, gone, session_id=None)
    await clusters.assign(tx, [id_ for id_, now in kept_as.items() if now == id_])
    return [Cleared(row, kept_as.get(id_)) for id_, row in rows.items()]


async def _keep(tx: Transaction, row: Row) -> UUID:
    """Make a working memory an active one, or the archived twin of an active one; return the active one."""
    id_: UUID = row["id"]
    kept = await tx.row(KEEP, {"id": id_})
    if kept is None:
        raise AssertionError("a locked memory is there")
    await tx.run(RELEASE, {"id": id_})
    changes: dict[str, list[Any]] = {
        "status": ["working", kept["status"]],
        "expires_at": [f.as_utc(row["expires_at"]), None],
    }
    twin: UUID | None = kept["twin"]
    if twin is None:
        await statements.set_words(tx, [(await memories.read_memories(tx, [id_], None))[id_]])
    else:
        changes["replaced_by"] = [None, [str(twin)]]
        confirmed = await tx.row(CONFIRM, {"id": twin})
        if confirmed is not None:
            differences = {"confirmed_by": [None, str(id_)]}
            await memories.add_history(tx, twin, confirmed["version"], "confirm", changes=differences, session_id=None)
    await memories.add_history(tx, id_, kept["version"], "promote", changes=changes, session_id=None)
    return twin or id_


class WorkingMemoryExpirer:
    """Clears one namespace's working memories when their time is over, at the start and then whenever one is due.

    Args:
        store: whose memories.

    Attributes:
        grace_s: seconds for which they are left, as expired ones, when their time is over.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.grace_s = 0.0
        self._changed = asyncio.Event()
        self._due = math.inf  # as the monotonic clock has it
        self._task: asyncio.Task[None] | None = None

    def notice(self, in_s: float = 0) -> None:
        """Look in so many seconds at the latest: at once when the server has started, else when a new one is over."""
        self._due = min(self._due, time.monotonic() + in_s)
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="working memories")

    async def close(self) -> None:
        """Stop; whoever comes next clears what is over by then."""
        await process_setup.end_task(self._task)
        self._task = None

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            pause_s = self._due - time.monotonic()
            if pause_s > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._changed.wait()
            else:
                self._due = math.inf
                pause_s = await self._maintain()
                self._due = min(self._due, time.monotonic() + pause_s)

    async def _maintain(self) -> float:
        """Clear what is over, and return after how many seconds the next one is due."""
        try:
            await clear(self._store, self.grace_s)
            async with self._store.transaction() as tx:
                left = await tx.row(SECONDS_LEFT, {"grace_s": self.grace_s})
        except PgengramError as error:
            log.warning("Working memories were not cleared: %s", error.message)
            return RETRY_S
        if left is None or left["seconds"] is None:
            return LOOK_AGAIN_S
        return float(min(LOOK_AGAIN_S, max(LEAST_PAUSE_S, left["seconds"])))
