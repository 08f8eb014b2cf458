"""What a namespace has, out of the tables as JSON and back into them, exactly; vectors and words are made again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from pgengram.embedders import Passage
from pgengram.ids import BEFORE_ALL
from pgengram.store import clusters
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory import memories, statements
from pgengram.store.memory import statements as s
from pgengram.store.schema import VISIBLE

PAGE: Final = 500  # records read or looked up at once


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is carried over row by row.

    record: what a row of it is called; key: its columns and their types, in order; derived: columns that are made
    again; dated: `updated_at` says when somebody changed a row.
    """

    record: str
    name: str
    key: tuple[tuple[str, str], ...]
    derived: tuple[str, ...] = ()
    dated: bool = False


# In the order in which they can be filled.
TABLES: Final = (
    Table("synonym", "memory_tag_synonyms", (("alias", "text"),)),
    Table(
        "relationship", "memory_relationships", (("from_id", "uuid"), ("to_id", "uuid"), ("type", "text")), dated=True
    ),
    Table("cluster", "memory_clusters", (("id", "uuid"),), ("model_id", "centroid")),
    Table("cluster_member", "memory_cluster_members", (("cluster_id", "uuid"), ("memory_id", "uuid"))),
    Table("cluster_activation", "memory_cluster_activations", (("cluster_id", "uuid"), ("id", "uuid"))),
    Table("identity", "memory_identities", (("id", "uuid"),)),
    Table("belief", "memory_beliefs", (("id", "uuid"),), dated=True),
    Table("evidence", "memory_belief_evidence", (("belief_id", "uuid"), ("memory_id", "uuid"))),
    Table("history", "memory_history", (("memory_id", "uuid"), ("version", "integer"))),
    Table("conversation", "conversations", (("client", "text"), ("conversation", "text")), ("transcript",)),
    Table(
        "turn",
        "conversation_turns",
        (("client", "text"), ("conversation", "text"), ("number", "integer"), ("id", "bigint")),
    ),
    Table(
        "hidden_turn",
        "hidden_turns",
        (
            ("client", "text"),
            ("conversation", "text"),
            ("source_key", "bigint"),
            ("withdrawn", "boolean"),
            ("digest", "text"),
        ),
    ),
)
# Parts of a memory's record that are rows of tables of their own, keyed by the memory.
PARTS: Final = {"activation": "memory_activation", "working": "working_memories"}
DETAIL_TABLES: Final = tuple(memories.DETAIL_TABLE.values())
WITH_MEMORY: Final = ("memories", "memory_tags", *PARTS.values(), *DETAIL_TABLES)
MADE_ANEW: Final = ("memory_vectors", "memory_words", "memory_posting_lists", "memory_confirmations")
# How this store is set, what it was asked, where it has its memories from, and what it knows of other machines.
STAYS: Final = (
    "conversation_settings", "recall_receipts", "sync_settings", "sync_changes", "sync_documents", "sync_files",
    "shared_copies", "project_spaces", "memory_imports", "imported_memories", "imported_turns",
)  # fmt: skip

BEGIN_READING: Final = "SELECT set_config('idle_in_transaction_session_timeout', '0', true)"
# Uses memories_by_time.
COUNT: Final = "SELECT count(*) AS memories FROM memories WHERE namespace_id = %(namespace_id)s"
# Uses memories_pkey, and the key of every other table for each memory that is read.
READ_MEMORIES: Final = """
SELECT m.id, (to_jsonb(m) - '{namespace_id,short_id,content_hash,person_id}'::text[] || jsonb_build_object('record', 'memory',
  'tags', (SELECT coalesce(jsonb_agg(t.tag ORDER BY t.position, t.tag), '[]') FROM memory_tags t
           WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = m.id),
  'detail', coalesce([details], '{}') - '{namespace_id,memory_id,success_rate}'::text[],
  'activation', to_jsonb(a) - '{namespace_id,memory_id,relevance_anchor}'::text[],
  'working', to_jsonb(w) - '{namespace_id,memory_id}'::text[],
  'history', (SELECT coalesce(jsonb_agg(to_jsonb(h) - '{namespace_id,memory_id,person_id}'::text[] ORDER BY h.version), '[]')
              FROM memory_history h WHERE h.namespace_id = %(namespace_id)s AND h.memory_id = m.id)))::text AS record
FROM memories m
JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id
[joins]
LEFT JOIN working_memories w ON w.namespace_id = %(namespace_id)s AND w.memory_id = m.id
WHERE m.namespace_id = %(namespace_id)s AND [which] ORDER BY m.id
""".replace("[details]", ", ".join(f"to_jsonb({table})" for table in DETAIL_TABLES)).replace(
    "[joins]",
    "\n".join(
        f"LEFT JOIN {table} ON {table}.namespace_id = %(namespace_id)s AND {table}.memory_id = m.id"
        for table in DETAIL_TABLES
    ),
)
READ_PAGE: Final = (
    READ_MEMORIES.replace("[which]", "m.id > %(after)s AND (%(author)s::integer IS NULL OR m.person_id = %(author)s)")
    + "LIMIT %(limit)s"
)
READ_NAMED: Final = READ_MEMORIES.replace("[which]", "m.id = ANY(%(ids)s)")
# History of what was erased; that of the others goes with its memory. Uses memory_history_pkey and memories_pkey.
ERASED_ONLY: Final = sql.SQL(
    "AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.namespace_id = %(namespace_id)s AND m.id = t.memory_id)"
)
# Uses the table's primary key.
READ_ROWS: Final = sql.SQL("""
SELECT {key}, (to_jsonb(t) - {derived}::text[] || jsonb_build_object('record', {record}::text))::text AS record FROM {table} t
WHERE t.namespace_id = %(namespace_id)s AND (%(first)s OR ({key}) > ({after})) {more} ORDER BY {key} LIMIT %(limit)s
""")

# Who stored something is set by the database, whatever a file says.
FIND_COLUMNS: Final = """
SELECT attname AS name FROM pg_attribute
WHERE attrelid = to_regclass(%(table)s) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname <> 'person_id' AND NOT attname = ANY(%(derived)s)
ORDER BY attnum
"""
# Uses memories_pkey and memories_active_content.
FIND_KNOWN: Final = """
SELECT id, content_hash, status = 'active' AS active, updated_at, version FROM memories
WHERE namespace_id = %(namespace_id)s AND (id = ANY(%(ids)s) OR (status = 'active' AND content_hash = ANY(%(hashes)s)))
"""
# What was erased is in the history alone. Uses memory_history_pkey and memories_pkey.
FIND_ERASED: Final = """
SELECT DISTINCT h.memory_id AS id FROM memory_history h
WHERE h.namespace_id = %(namespace_id)s AND h.memory_id = ANY(%(ids)s) AND h.operation = 'erase'
  AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.namespace_id = %(namespace_id)s AND m.id = h.memory_id)
"""
ADD_ROWS: Final = sql.SQL("""
INSERT INTO {table} ({columns}) SELECT {columns} FROM jsonb_populate_recordset(NULL::{table}, %(rows)s)
ON CONFLICT DO NOTHING RETURNING 1 AS added
""")
# What was erased here told of that under a number of its own; brought in again, a memory counts on from there. Uses
# memory_history_pkey and memories_pkey.
COUNT_ON: Final = """
UPDATE memories m SET version = erased.version
FROM (SELECT memory_id, max(version) AS version FROM memory_history
      WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s) GROUP BY memory_id) AS erased
WHERE m.namespace_id = %(namespace_id)s AND m.id = erased.memory_id AND m.version < erased.version
"""
ADD_TAGS: Final = """
INSERT INTO memory_tags (namespace_id, memory_id, tag, position)
SELECT %(namespace_id)s, g.id, t.tag, min(t.position) FROM jsonb_to_recordset(%(rows)s) AS g(id uuid, tags text[]),
  unnest(g.tags) WITH ORDINALITY AS t(tag, position) GROUP BY g.id, t.tag RETURNING 1
"""
# Uses the table's primary key.
RENEW_ROWS: Final = sql.SQL("""
UPDATE {table} t SET {assigned} FROM jsonb_populate_recordset(NULL::{table}, %(rows)s) AS g
WHERE t.namespace_id = %(namespace_id)s AND {same} AND t.updated_at < g.updated_at RETURNING 1 AS changed
""")
COUNT_NEWER: Final = sql.SQL("""
SELECT count(*) AS changed FROM {table} t JOIN jsonb_populate_recordset(NULL::{table}, %(rows)s) AS g ON {same}
WHERE t.namespace_id = %(namespace_id)s AND t.updated_at < g.updated_at
""")
# Uses the table's primary key.
FIND_PRESENT: Final = sql.SQL("""
SELECT to_jsonb(t) AS row FROM {table} t JOIN jsonb_populate_recordset(NULL::{table}, %(rows)s) AS given USING ({key})
""")
FIND_CLUSTERS_CHANGED: Final = """
SELECT id::text AS id, updated_at::text AS at FROM memory_clusters WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s::uuid[])
"""
SET_CLUSTERS_CHANGED: Final = """
UPDATE memory_clusters c SET updated_at = g.at FROM jsonb_to_recordset(%(rows)s) AS g(id uuid, at timestamptz)
WHERE c.namespace_id = %(namespace_id)s AND c.id = g.id
"""
FIND_IDS: Final = "SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s)"


@dataclass(slots=True)
class Arrival:
    """A memory about to be taken in: the row of each table, by table, its hash, tags, words and vectors.

    rows: columns as JSON has them, without namespace; history: its rows; searched, extra: what it is found by;
    parts: its vectors, none without an embedder.
    """

    id: UUID
    hash: bytes
    active: bool
    rows: dict[str, dict[str, Any]]
    history: list[dict[str, Any]]
    tags: list[str]
    searched: str
    extra: list[str]
    parts: Passage = field(default_factory=Passage)


# Of what holds now the day that it tells of, else the day it was stored; what matters most first. Not from the view
# that people have for this, which no cluster has. Uses memories_pkey and memory_activation_pkey, by reading them whole.
CURRENT: Final = f"""
SELECT m.content, coalesce(m.kind, CASE m.type WHEN 'episodic' THEN 'observation' ELSE 'general' END) AS kind, m.project,
       coalesce(m.occurred_at, m.created_at) AS at
FROM memories m JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id
WHERE m.namespace_id = %(namespace_id)s AND {VISIBLE}
ORDER BY pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) DESC, m.id
"""


async def current(tx: Transaction) -> list[Row]:
    """Return content, kind, project and day (`at`) of every memory that holds now, those that matter most first."""
    return await tx.rows(CURRENT)


async def begin_reading(tx: Transaction) -> int:
    """Have moments written in UTC and take all the time that is needed; return how many memories there are."""
    await tx.rows(BEGIN_READING)
    row = await tx.row(COUNT)
    return row["memories"] if row else 0


async def memory_pages(
    tx: Transaction, after: UUID = BEFORE_ALL, author: int | None = None
) -> AsyncIterator[list[str]]:
    """Yield the memories after an id as JSON, oldest first, a page at a time; of an author only theirs."""
    while rows := await tx.rows(READ_PAGE, {"after": after, "limit": PAGE, "author": author}):
        yield [row["record"] for row in rows]
        after = rows[-1]["id"]


async def row_pages(tx: Transaction, table: Table) -> AsyncIterator[list[str]]:
    """Yield a table's rows as JSON in the order of its key, a page at a time."""
    names = [name for name, _ in table.key]
    key = sql.SQL(", ").join(sql.SQL("t.") + sql.Identifier(name) for name in names)
    places = sql.SQL(", ").join(
        sql.SQL("%({})s::{}").format(sql.SQL(f"key_{name}"), sql.SQL(type_)) for name, type_ in table.key
    )
    statement = READ_ROWS.format(
        key=key,
        after=places,
        table=sql.Identifier(table.name),
        record=sql.Literal(table.record),
        derived=sql.Literal(["namespace_id", "person_id", *table.derived]),
        more=ERASED_ONLY if table.record == "history" else sql.SQL(""),
    )
    given = {**{f"key_{name}": None for name in names}, "first": True, "limit": PAGE}
    while rows := await tx.rows(statement, given):
        yield [row["record"] for row in rows]
        given |= {**{f"key_{name}": rows[-1][name] for name in names}, "first": False}


@dataclass(slots=True)
class Known:
    """What is here of memories that are about to be taken in.

    same: for each that is here the id under which it is: its own, or that of one that says the same.
    states: of those that are here under their own id, when they were changed last, and their version.
    erased: those that were erased here.
    """

    same: dict[UUID, UUID]
    states: dict[UUID, tuple[datetime, int]]
    erased: set[UUID]


async def known_memories(tx: Transaction, arrivals: Sequence[Arrival]) -> Known:
    """Return what is here of these memories."""
    ids = {a.id for a in arrivals}
    rows = await tx.rows(FIND_KNOWN, {"ids": [*ids], "hashes": [a.hash for a in arrivals if a.active]})
    states = {row["id"]: (row["updated_at"], row["version"]) for row in rows if row["id"] in ids}
    return Known(_twins(arrivals, rows) | {id_: id_ for id_ in states}, states, await erased_here(tx, [*ids]))


def _twins(arrivals: Sequence[Arrival], rows: Sequence[Row]) -> dict[UUID, UUID]:
    """Return the ids of memories that say what one of `rows` says, each with the id of that one."""
    by_hash = {bytes(row["content_hash"]): row["id"] for row in rows if row["active"]}
    return {a.id: by_hash[a.hash] for a in arrivals if a.active and a.hash in by_hash}


async def erased_here(tx: Transaction, ids: Sequence[UUID]) -> set[UUID]:
    """Return which of these memories were erased here."""
    return {row["id"] for row in await tx.rows(FIND_ERASED, {"ids": list(ids)})}


async def memory_records(tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """Return memories by their ids, each as an export has it."""
    await tx.rows(BEGIN_READING)
    return {row["id"]: json.loads(row["record"]) for row in await tx.rows(READ_NAMED, {"ids": list(ids)})}


async def store_arrivals(tx: Transaction, arrivals: Sequence[Arrival], model_id: int | None) -> None:
    """Store memories that are not there yet, each with everything that belongs to it."""
    for table in WITH_MEMORY:
        if table != "memory_tags":
            await add_rows(
                tx, table, [{**a.rows[table], **_history_key(table, a.id)} for a in arrivals if table in a.rows]
            )
    await add_rows(tx, "memory_history", [{**row, "memory_id": str(a.id)} for a in arrivals for row in a.history])
    await tx.run(COUNT_ON, {"ids": [a.id for a in arrivals]})
    rows = Jsonb([_found_by(a) for a in arrivals])
    await tx.run(ADD_TAGS, {"rows": rows})
    await tx.run(s.ADD_WORDS, {"rows": rows})
    await statements.add_vectors(tx, [(a.id, a.parts) for a in arrivals], model_id)


def _found_by(a: Arrival) -> dict[str, Any]:
    return {"id": str(a.id), "active": a.active, "tags": a.tags, "searched": a.searched, "extra": a.extra}


def _history_key(table: str, id_: UUID) -> dict[str, str]:
    return {"id" if table == "memories" else "memory_id": str(id_)}


async def add_rows(tx: Transaction, table: str, rows: Sequence[Mapping[str, Any]]) -> int:
    """Add rows to a table, all of whose columns they name, and return how many were not there yet."""
    if not rows:
        return 0
    derived = list(next((t.derived for t in TABLES if t.name == table), ()))
    columns = [row["name"] for row in await tx.rows(FIND_COLUMNS, {"table": table, "derived": derived})]
    statement = ADD_ROWS.format(
        table=sql.Identifier(table), columns=sql.SQL(", ").join(sql.Identifier(name) for name in columns)
    )
    owned = Jsonb([{**row, "namespace_id": tx.namespace_id} for row in rows])
    return len(await tx.rows(statement, {"rows": owned}))  # Citus would count what was to be added


async def renew_rows(tx: Transaction, table: Table, rows: Sequence[Mapping[str, Any]], *, dry_run: bool) -> int:
    """Let rows that are there take over newer ones, and return how many did."""
    if not rows:
        return 0
    names = [row["name"] for row in await tx.rows(FIND_COLUMNS, {"table": table.name, "derived": list(table.derived)})]
    key = [name for name, _ in table.key]
    parts = {
        "table": sql.Identifier(table.name),
        "same": sql.SQL(" AND ").join(sql.SQL("t.{0} = g.{0}").format(sql.Identifier(name)) for name in key),
        "assigned": sql.SQL(", ").join(
            sql.SQL("{0} = g.{0}").format(sql.Identifier(name))
            for name in names
            if name not in {"namespace_id", "created_at", *key}
        ),
    }
    owned = {"rows": Jsonb([{**row, "namespace_id": tx.namespace_id} for row in rows])}
    if dry_run:
        found = await tx.row(COUNT_NEWER.format(**parts), owned)
        return found["changed"] if found else 0
    return len(await tx.rows(RENEW_ROWS.format(**parts), owned))


async def keys_present(tx: Transaction, table: Table, rows: Sequence[Mapping[str, Any]]) -> set[tuple[str, ...]]:
    """Return the keys, as texts, of those of these rows that are there already."""
    names = [name for name, _ in table.key]
    key = sql.SQL(", ").join(sql.Identifier(name) for name in ("namespace_id", *names))
    owned = Jsonb([{**row, "namespace_id": tx.namespace_id} for row in rows])
    found = await tx.rows(FIND_PRESENT.format(table=sql.Identifier(table.name), key=key), {"rows": owned})
    return {tuple(str(one["row"][name]) for name in names) for one in found}


async def renew_imported_clusters(tx: Transaction, ids: Sequence[str], model_id: int | None) -> None:
    """Work out the centroids of clusters whose members came in; that is not a change of theirs."""
    before = Jsonb([{"id": row["id"], "at": row["at"]} for row in await tx.rows(FIND_CLUSTERS_CHANGED, {"ids": ids})])
    await clusters.renew_centroids(tx, {UUID(id_) for id_ in ids}, model_id)
    await tx.run(SET_CLUSTERS_CHANGED, {"rows": before})


async def there(tx: Transaction, ids: Sequence[UUID]) -> set[UUID]:
    """Return which of these memories exist."""
    return {row["id"] for row in await tx.rows(FIND_IDS, {"ids": list(ids)})}
