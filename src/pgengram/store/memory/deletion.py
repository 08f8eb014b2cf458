"""Erasing memories permanently: what would go, and taking all of it away, with a receipt."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from pgengram.runtime.process_setup import event_loop
from pgengram.store import clusters
from pgengram.store.connection.begin import UPKEEP
from pgengram.store.connection.database import Database, Row, Transaction
from pgengram.store.maintenance import namespaces
from pgengram.store.maintenance.namespaces import PATIENTLY, as_login
from pgengram.store.memory import memories, statements
from pgengram.store.memory import statements as s

# What belongs to each memory, by its table. Uses the primary keys, memory_relationships_to,
# memory_cluster_members_by_memory, memory_belief_evidence_by_memory, and memories_hidden for those that name it as what
# holds instead.
BELONGINGS: Final = """
SELECT asked.id,
  (SELECT count(*) FROM memory_vectors t WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = asked.id) AS vectors,
  (SELECT coalesce(sum(cardinality(terms)), 0) FROM memory_words t
   WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = asked.id) AS words,
  (SELECT count(*) FROM memory_tags t WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = asked.id) AS tags,
  (SELECT count(*) FROM memory_history t WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = asked.id
    AND t.changes IS NOT NULL) AS history,
  (SELECT count(*) FROM memory_relationships t WHERE t.namespace_id = %(namespace_id)s AND t.from_id = asked.id)
  + (SELECT count(*) FROM memory_relationships t WHERE t.namespace_id = %(namespace_id)s AND t.to_id = asked.id) AS relationships,
  (SELECT count(*) FROM memory_cluster_members t
   WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = asked.id) AS clusters,
  (SELECT count(*) FROM memory_belief_evidence t
   WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = asked.id) AS evidence,
  (SELECT count(*) FROM memories m WHERE m.namespace_id = %(namespace_id)s AND m.status <> 'active'
    AND asked.id = ANY(m.replaced_by)) AS replaces
FROM unnest(%(ids)s::uuid[]) AS asked(id) ORDER BY asked.id
"""
# Uses memories_hidden: only what was forgotten names what holds instead.
POINTING: Final = """
SELECT id, version, replaced_by FROM memories
WHERE namespace_id = %(namespace_id)s AND status <> 'active' AND replaced_by && %(ids)s::uuid[]
"""
# Names of fields stay, values go; so do the words of the caller's own for who stored it and in which conversation.
# Uses memory_history_pkey.
STRIP_HISTORY: Final = """
UPDATE memory_history h SET actor = NULL, session_id = NULL,
  changes = (SELECT jsonb_object_agg(name, '[]'::jsonb) FROM jsonb_object_keys(h.changes) AS name)
WHERE h.namespace_id = %(namespace_id)s AND h.memory_id = ANY(%(ids)s)
"""
# The history of others tells of their edges to a memory, with whatever was written on them. Reads all of this
# namespace's history: nothing indexes what was changed.
STRIP_EDGES: Final = """
UPDATE memory_history h SET changes = '{"relationship": []}'
WHERE h.namespace_id = %(namespace_id)s AND h.operation IN ('link', 'unlink')
  AND (h.changes #>> '{relationship,0,to_id}' = ANY(%(names)s) OR h.changes #>> '{relationship,1,to_id}' = ANY(%(names)s))
"""
# A plan that waits for a yes may hold words about what it is for; the versions that were shown stay, so that whoever
# agrees is told what was erased meanwhile. Reads all of this namespace's, which are few.
STRIP_PLANS: Final = """
UPDATE memory_confirmations c SET arguments = c.arguments - 'steps' WHERE c.namespace_id = %(namespace_id)s
  AND EXISTS (SELECT 1 FROM unnest(%(names)s::text[]) AS name WHERE position(name IN c.arguments::text) > 0)
"""
# What other machines said of it, and of rows that lead to it. Reads all of this namespace's: a link is known by two
# ids.
STRIP_DOCUMENTS: Final = """
DELETE FROM sync_documents d WHERE d.namespace_id = %(namespace_id)s
  AND EXISTS (SELECT 1 FROM unnest(%(names)s::text[]) AS name WHERE position(name IN d.key) > 0)
"""
# Uses memory_history_pkey.
LIST_DELETED: Final = """
INSERT INTO memory_history (namespace_id, memory_id, version, operation, session_id)
SELECT %(namespace_id)s, asked.id, 1 + (SELECT coalesce(max(version), 0) FROM memory_history h
  WHERE h.namespace_id = %(namespace_id)s AND h.memory_id = asked.id), 'erase', %(session_id)s
FROM unnest(%(ids)s::uuid[]) AS asked(id)
RETURNING memory_id, at
"""
# A backup that is older does not bring back what stands here. Uses the unique index of deletion_log.
LIST: Final = """
INSERT INTO deletion_log (former_namespace_id, namespace_since, memory_id)
SELECT n.id, n.created_at, asked.id FROM namespaces n, unnest(%(ids)s::uuid[]) AS asked(id) WHERE n.id = %(namespace_id)s
ON CONFLICT (former_namespace_id, namespace_since, memory_id) DO UPDATE SET at = excluded.at
"""


# Reads all memories of this namespace: nothing indexes what their sources are called.
FROM_SOURCE: Final = """
SELECT id, version, status, content FROM memories
WHERE namespace_id = %(namespace_id)s AND (source = %(source)s OR metadata #>> '{imported,from}' = %(source)s
  OR EXISTS (SELECT 1 FROM jsonb_array_elements(sources) AS s WHERE %(source)s IN (s ->> 'ref', s ->> 'label')))
ORDER BY id FOR UPDATE
"""


# Uses conversation_turns_pkey.
CITED: Final = """FROM conversation_turns t, jsonb_to_recordset(%(cited)s)
  AS c(memory_id uuid, client text, conversation text, number integer)
WHERE t.namespace_id = %(namespace_id)s AND t.client = c.client AND t.conversation = c.conversation AND t.number = c.number"""
COUNT_CITED: Final = f"SELECT count(DISTINCT (t.client, t.conversation, t.id)) AS turns {CITED}"
CITED_BY: Final = f"SELECT c.memory_id, count(*) AS turns {CITED} GROUP BY c.memory_id"
ERASE_CITED: Final = f"DELETE {CITED.replace(', jsonb', ' USING jsonb', 1)}"
CITATION: Final = re.compile(r"(?:turn|tool):([^/]+)/(.+)/(\d{1,9})")


def cited_turns(row: Row) -> list[Row]:
    """Return the turns of conversations that a memory names among its `sources`."""
    refs = [str(source.get("ref") or "") for source in row.get("sources") or ()]
    return [
        {"memory_id": row["id"], "client": found[1], "conversation": found[2], "number": int(found[3])}
        for ref in refs
        if (found := CITATION.fullmatch(ref))
    ]


async def count_cited(tx: Transaction, turns: Sequence[Row]) -> int:
    """Return how many of the cited turns are there."""
    row = await tx.row(COUNT_CITED, {"cited": _turns_json(turns)}) if turns else None
    return int(row["turns"]) if row else 0


def _turns_json(turns: Sequence[Row]) -> Jsonb:
    return Jsonb([turn | {"memory_id": str(turn["memory_id"])} for turn in turns])


async def from_source(tx: Transaction, source: str) -> dict[UUID, Row]:
    """Lock the memories that come from a source, of every status; return version, status and content of each by its id.

    Args:
        tx: of the namespace.
        source: a memory's `source`, the `ref` or `label` of one of its `sources`, or the system that it was imported
            from.
    """
    await tx.run(PATIENTLY)  # they may be many, and so may those that are erased next
    return {row["id"]: row for row in await tx.rows(FROM_SOURCE, {"source": source})}


async def belongings(tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    """Return for each memory how much there is of it in each table; what there is none of is left out."""
    rows = await tx.rows(BELONGINGS, {"ids": list(ids)})
    return {row.pop("id"): {name: int(number) for name, number in row.items() if number} for row in rows}


async def _erase_cited(tx: Transaction, cited: Sequence[Row]) -> dict[UUID, int]:
    """Take turns away; return how many of them each memory cited."""
    given = {"cited": _turns_json(cited)}
    turns = {row["memory_id"]: int(row["turns"]) for row in await tx.rows(CITED_BY, given)}
    await tx.run(ERASE_CITED, given)
    return turns


async def erase_memories(
    tx: Transaction, ids: Sequence[UUID], *, session_id: str | None, listed: bool = True, cited: Sequence[Row] = ()
) -> list[dict[str, Any]]:
    """Take memories away permanently, and return a receipt for each: `id`, `erased_at` and what was `removed`.

    No text, vector, word, tag, edge or membership stays, and no text in the history either: its rows tell only when
    which fields were changed. What named an erased memory as its replacement no longer does. Their ids are listed, so
    that an older backup does not bring them back. The turns `cited` go, too.
    """
    pointing = await tx.rows(POINTING, {"ids": list(ids)})
    await tx.rows(s.LOCK, {"ids": [*ids, *(row["id"] for row in pointing)]})
    named = {"ids": list(ids), "names": [str(id_) for id_ in ids], "session_id": session_id}
    removed = await belongings(tx, ids)
    for memory_id, turns in (await _erase_cited(tx, cited)).items() if cited else ():
        removed[memory_id]["turns"] = turns
    await statements.unpost(tx, ids)
    for row in await tx.rows(POINTING, named):
        if row["id"] not in ids:
            await _point_elsewhere(tx, row, set(ids), session_id)
    await tx.run(STRIP_HISTORY, named)
    await tx.run(STRIP_EDGES, named)
    await tx.run(STRIP_PLANS, named)
    await tx.run(STRIP_DOCUMENTS, named)
    entries = await tx.rows(LIST_DELETED, named)
    touched = await clusters.of(tx, ids)
    await tx.run(s.ERASE, named)
    await clusters.renew_centroids(tx, touched)
    if listed:
        await as_login(tx, LIST, {"ids": list(ids), "namespace_id": tx.namespace_id})
    at = {row["memory_id"]: row["at"] for row in entries}
    return [{"id": id_, "erased_at": at[id_], "removed": removed[id_]} for id_ in ids]


async def _point_elsewhere(tx: Transaction, row: Row, gone: set[UUID], session_id: str | None) -> None:
    """Take erased memories out of what a forgotten one names as its replacements."""
    left = [id_ for id_ in row["replaced_by"] if id_ not in gone] or None
    version = row["version"] + 1
    await memories.set_columns(tx, "memories", row["id"], {"replaced_by": left, "version": version})
    changes = {"replaced_by": [[str(id_) for id_ in row["replaced_by"]], left and [str(id_) for id_ in left]]}
    await memories.add_history(tx, row["id"], version, "update", changes=changes, session_id=session_id)


BATCH: Final = 200  # memories erased in one transaction

HAS_LIST: Final = "SELECT to_regclass('deletion_log') IS NOT NULL"
# What is there again was brought back on purpose, by an import. Reads the whole list.
ERASED: Final = """
SELECT e.former_namespace_id, e.namespace_since, e.memory_id, e.at FROM deletion_log e
WHERE NOT EXISTS (SELECT 1 FROM namespaces n JOIN memories m ON m.namespace_id = n.id
  WHERE n.id = e.former_namespace_id AND n.created_at = e.namespace_since AND m.id = e.memory_id)
"""
# Only what is newer than the restored list itself was erased after the backup; of that, what the backup has brought
# back. Uses the unique index and the primary keys.
ADD: Final = """
WITH new AS (
  INSERT INTO deletion_log AS e (former_namespace_id, namespace_since, memory_id, at)
  SELECT * FROM unnest(%s::integer[], %s::timestamptz[], %s::uuid[], %s::timestamptz[])
  ON CONFLICT (former_namespace_id, namespace_since, memory_id) DO UPDATE SET at = excluded.at WHERE e.at < excluded.at
  RETURNING former_namespace_id, namespace_since, memory_id)
SELECT n.name, new.memory_id FROM new JOIN namespaces n ON n.id = new.former_namespace_id AND n.created_at = new.namespace_since
WHERE new.memory_id IS NULL OR EXISTS (SELECT 1 FROM memories m WHERE m.namespace_id = n.id AND m.id = new.memory_id)
"""
SEEING_ALL: Final = "SELECT set_config('pgengram.maintenance', 'on', true)"  # as the tables' owner


@dataclass(slots=True)
class Gone:
    """What a store has erased: rows of its deletion_log, as they are stored."""

    rows: list[tuple[int, datetime, UUID | None, datetime]] = field(default_factory=list)


@dataclass(slots=True)
class Again:
    """What a restore has erased again, as it had been after the backup was made."""

    memories: int = 0
    namespaces: int = 0


def erased_in_store(connection: psycopg.Connection[Any]) -> Gone:
    """Return what the store has erased; nothing where there is no store, or one without a list.

    The login must be able to read past row-level security, or own the tables.
    """
    connection.execute(SEEING_ALL)
    row = connection.execute(HAS_LIST).fetchone()
    if row is None or not row[0]:
        return Gone()
    return Gone(connection.execute(ERASED).fetchall())


def repeat(url: str, before: Gone, report: Callable[[str], None]) -> Again:
    """Erase in a restored database what had been gone from the one it takes the place of.

    The list is copied, too, so that a restore of a still older backup knows of it too. The files are cleared of what
    was erased.

    Raises:
        DatabaseFailed: that failed.
    """
    with psycopg.connect(url) as connection:
        connection.execute(SEEING_ALL)
        columns = [list(column) for column in zip(*before.rows, strict=True)]
        there = connection.execute(ADD, columns).fetchall() if columns else []
    names = {name for name, memory_id in there if memory_id is None}
    ids: dict[str, list[UUID]] = {}
    for name, memory_id in there:
        if name not in names:
            ids.setdefault(name, []).append(memory_id)
    if there:
        report("Erasing again what was erased since the backup")
        with asyncio.Runner(loop_factory=event_loop) as runner:
            runner.run(_erase(url, names, ids, report))
    return Again(sum(map(len, ids.values())), len(names))


async def _erase(url: str, names: set[str], ids: dict[str, list[UUID]], report: Callable[[str], None]) -> None:
    database = Database(url)
    await database.open()

    async def relay(message: str) -> None:
        report(message)

    try:
        for name in names:
            await namespaces.take_away_namespace(database, name)
        for name, some in ids.items():
            key, rest = await namespaces.namespace_key(database, name), iter(some)
            while batch := list(islice(rest, BATCH)):
                async with database.transaction(key, member=UPKEEP) as tx:
                    await erase_memories(tx, batch, session_id=None)
        await namespaces.scrub_files(database, relay)
    finally:
        await database.close()
