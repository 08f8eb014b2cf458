"""Memories and other rows as they are now, and setting them to what all machines together say."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from pgengram.embedders import Passage
from pgengram.store.connection.database import Transaction
from pgengram.store.memory import changes, memories, merging
from pgengram.store.memory import statements as s
from pgengram.store.reading import newer_states, transferring
from pgengram.store.reading.transferring import Arrival, Table
from pgengram.store.sync import state

# Uses memories_pkey.
CONTENTS: Final = "SELECT id, content FROM memories WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s)"
SILENTLY: Final = "SELECT set_config('pgengram.syncing', %(on)s, true)"
SAME_ELSEWHERE: Final = "The same was stored on another machine."
# Uses the table's primary key.
READ_ROWS: Final = sql.SQL("""
SELECT jsonb_build_array({texts})::text AS key, to_jsonb(t) - {derived}::text[] AS row FROM {table} t
JOIN jsonb_populate_recordset(NULL::{table}, %(rows)s) AS given USING (namespace_id, {key})
""")
PUT_ROWS: Final = sql.SQL("""
INSERT INTO {table} AS t ({columns}) SELECT {columns} FROM jsonb_populate_recordset(NULL::{table}, %(rows)s)
ON CONFLICT (namespace_id, {key}) DO UPDATE SET {assigned} RETURNING 1
""")
DROP_ROWS: Final = sql.SQL("""
DELETE FROM {table} t USING jsonb_populate_recordset(NULL::{table}, %(rows)s) AS g WHERE {same} RETURNING 1
""")
# Uses memory_history_pkey.
ADD_HISTORY: Final = """
INSERT INTO memory_history (namespace_id, memory_id, version, operation, actor, session_id, changes, at)
SELECT %(namespace_id)s, e.id, e.number + coalesce((SELECT max(version) FROM memory_history h
  WHERE h.namespace_id = %(namespace_id)s AND h.memory_id = e.id), 0), e.operation, e.actor, e.session_id, e.changes, e.at
FROM jsonb_to_recordset(%(events)s)
  AS e(id uuid, number integer, operation text, actor text, session_id text, changes jsonb, at timestamptz)
RETURNING 1
"""
DROP_HISTORY: Final = """
DELETE FROM memory_history WHERE namespace_id = %(namespace_id)s AND memory_id = %(id)s AND version = ANY(%(versions)s)
"""
COUNT_ON: Final = """
UPDATE memories m SET version = greatest(m.version, coalesce((SELECT max(version) FROM memory_history h
  WHERE h.namespace_id = %(namespace_id)s AND h.memory_id = m.id), 1))
WHERE m.namespace_id = %(namespace_id)s AND m.id = ANY(%(ids)s)
"""
SET_USES: Final = """
UPDATE memory_activation a SET access_count = g.uses, reinforcement = g.strength,
  last_accessed_at = CASE WHEN g.used > 0 THEN to_timestamp(g.used) END
FROM jsonb_to_recordset(%(rows)s) AS g(id uuid, uses integer, strength double precision, used double precision)
WHERE a.namespace_id = %(namespace_id)s AND a.memory_id = g.id
"""
SET_OUTCOMES: Final = """
UPDATE procedural_memories p SET success_count = g.successes, total_attempts = greatest(g.attempts, g.successes)
FROM jsonb_to_recordset(%(rows)s) AS g(id uuid, successes integer, attempts integer)
WHERE p.namespace_id = %(namespace_id)s AND p.memory_id = g.id
"""
COLUMNS: Final = """
SELECT t AS name_of_table, a.attname AS name FROM unnest(%(tables)s::text[]) AS t
JOIN pg_attribute a ON a.attrelid = to_regclass(t) AND a.attnum > 0 AND NOT a.attisdropped
"""
FIND_BELIEF: Final = """
SELECT id::text AS id FROM memory_beliefs WHERE namespace_id = %(namespace_id)s AND belief_hash = %(hash)s::bytea
"""
DROP_BELIEF: Final = "DELETE FROM memory_beliefs WHERE namespace_id = %(namespace_id)s AND id = %(id)s::uuid"


async def silently(tx: Transaction, *, on: bool) -> None:
    """Have triggers note nothing of what is done from here on, or again all of it."""
    await tx.run(SILENTLY, {"on": "on" if on else ""})


async def known_names(tx: Transaction) -> dict[str, set[str]]:
    """Return the names that fields of memories and of each kind of row can have, as documents have them."""
    own = {table.name: table.record for table in state.ROWS}
    found: dict[str, set[str]] = {record: set() for record in (*own.values(), state.MEMORY)}
    found[state.MEMORY] |= {"importance", "started_at"}
    for row in await tx.rows(COLUMNS, {"tables": [*own, "memories", *transferring.DETAIL_TABLES]}):
        detail = "detail." if row["name_of_table"] in transferring.DETAIL_TABLES else ""
        found[own.get(row["name_of_table"], state.MEMORY)].add(detail + row["name"])
    return found


# -- memories ----------------------------------------------------------------------------------------------------------


async def records(tx: Transaction, ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return memories by their ids as an export has them."""
    found = await transferring.memory_records(tx, [UUID(id_) for id_ in ids])
    return {str(id_): record for id_, record in found.items()}


async def contents(tx: Transaction, ids: Collection[str]) -> dict[str, str]:
    """Return what memories say, by their ids."""
    return {str(row["id"]): row["content"] for row in await tx.rows(CONTENTS, {"ids": [UUID(id_) for id_ in ids]})}


async def erased(tx: Transaction, ids: Collection[str]) -> set[str]:
    """Return the ids of those of these memories that were erased here."""
    return {str(id_) for id_ in await transferring.erased_here(tx, [UUID(id_) for id_ in ids])}


async def take_in(tx: Transaction, fresh: Sequence[Arrival], model_id: int | None) -> None:
    """Store memories that were not here."""
    await transferring.store_arrivals(tx, fresh, model_id)


async def change(tx: Transaction, one: Arrival, parts: Passage | None, model_id: int | None) -> None:
    """Give a locked memory that is here another state.

    Raises:
        StoreMoved: its text becomes another, and no vectors were made of that.
    """
    for newer in await newer_states.compared(tx, [one], {one.id: None}):
        await newer_states.take_over(tx, newer, parts, model_id, tells=False)


async def tell(tx: Transaction, events: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Add what happened elsewhere to the histories of memories, for each in order."""
    numbered = [
        {**event, "id": id_, "number": number} for id_, told in events.items() for number, event in enumerate(told, 1)
    ]
    if numbered:
        await tx.run(ADD_HISTORY, {"events": Jsonb(numbered)})
        await tx.run(COUNT_ON, {"ids": [UUID(id_) for id_ in events]})


async def untell(tx: Transaction, id_: str, versions: Sequence[int]) -> None:
    """Take out of a memory's history what was stripped of its text elsewhere."""
    if versions:
        await tx.run(DROP_HISTORY, {"id": UUID(id_), "versions": list(versions)})


async def set_counts(tx: Transaction, counts: Mapping[str, Sequence[float]], never: float) -> None:
    """Set what was counted of memories, for each: uses, successes, attempts, strength (`never` for none), last use."""
    rows = [
        {"id": id_, "uses": int(one[0]), "strength": None if one[3] <= never else one[3], "used": one[4],
         "successes": int(one[1]), "attempts": int(one[2])}
        for id_, one in counts.items()
    ]  # fmt: skip
    if rows:
        await tx.run(SET_USES, {"rows": Jsonb(rows)})
    if attempted := [row for row in rows if row["attempts"]]:
        await tx.run(SET_OUTCOMES, {"rows": Jsonb(attempted)})


async def twins(tx: Transaction, hashes: Collection[bytes]) -> dict[bytes, UUID]:
    """Return the active memories that say what has these hashes."""
    rows = await tx.rows(s.FIND_TWINS, {"hashes": list(hashes)})
    return {bytes(row["content_hash"]): row["id"] for row in rows}


async def retire(tx: Transaction, id_: UUID, instead: UUID) -> None:
    """Forget a memory because another one that is older says the same."""
    [row] = (await memories.read_memories(tx, [id_], None)).values()
    await changes.forget_memory(tx, row, reason=SAME_ELSEWHERE, replaced_by=[instead], session_id=None)


async def unite(tx: Transaction, into: UUID, other: UUID) -> None:
    """Give a memory the tags, sources, metadata and links of another that says the same."""
    rows = await memories.read_memories(tx, [into, other], None)
    if into not in rows or other not in rows or rows[into]["status"] != "active":
        return
    made = changes.plan(rows[into], merging.merged_change(rows[into], [rows[other]]))
    if made.changes:
        made.operation = "merge"
        await changes.apply(tx, rows[into], made, parts=None, model_id=tx.model_id, session_id=None)
    await merging.move_edges(tx, into, [other], None)


# -- other rows --------------------------------------------------------------------------------------------------------


def table_of(kind: str) -> Table | None:
    """Return the table of rows of a kind; None where this version knows no such."""
    return next((table for table in state.ROWS if table.record == kind), None)


def key_row(table: Table, key: str) -> dict[str, Any]:
    """Return the columns of a key from its text."""
    return dict(zip((name for name, _ in table.key), json.loads(key), strict=True))


async def rows_now(tx: Transaction, table: Table, keys: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return rows by the texts of their keys, without their keys and what is made again."""
    await tx.rows(transferring.BEGIN_READING)
    names = [name for name, _ in table.key]
    statement = READ_ROWS.format(
        texts=sql.SQL(", ").join(sql.SQL("t.{}::text").format(sql.Identifier(name)) for name in names),
        derived=sql.Literal(["namespace_id", *names, *table.derived]),
        table=sql.Identifier(table.name),
        key=sql.SQL(", ").join(map(sql.Identifier, names)),
    )
    given = Jsonb([{**key_row(table, key), "namespace_id": tx.namespace_id} for key in keys])
    return {row["key"]: row["row"] for row in await tx.rows(statement, {"rows": given})}


async def put_rows(tx: Transaction, table: Table, given: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Set rows, by the texts of their keys, to these fields, or remove those that have none; return the keys of those
    that could not be set.

    They could not where what they lead to is not here yet, another row has what only one may have, or a newer version
    wrote what this one cannot hold.
    """
    whole = {key: {**fields, **key_row(table, key), "namespace_id": tx.namespace_id} for key, fields in given.items()}
    await _drop_rows(tx, table, [row for key, row in whole.items() if not given[key]])
    there = {key: row for key, row in whole.items() if given[key]}
    if not there:
        return set()
    statement = await _put(tx, table)
    if table.record != "belief" and await _is_put(tx, statement, list(there.values())):
        return set()
    return {key for key, row in there.items() if not await _is_one_put(tx, table, statement, row)}


async def _is_one_put(tx: Transaction, table: Table, statement: sql.Composed, row: Mapping[str, Any]) -> bool:
    if table.record == "belief":
        await _settle_belief(tx, row)
    return await _is_put(tx, statement, [row])


async def _drop_rows(tx: Transaction, table: Table, gone: Sequence[Mapping[str, Any]]) -> None:
    if gone:
        names = ("namespace_id", *(name for name, _ in table.key))
        same = sql.SQL(" AND ").join(sql.SQL("t.{0} = g.{0}").format(sql.Identifier(name)) for name in names)
        await tx.rows(DROP_ROWS.format(table=sql.Identifier(table.name), same=same), {"rows": Jsonb(gone)})


async def _is_put(tx: Transaction, statement: sql.Composed, given: Sequence[Mapping[str, Any]]) -> bool:
    """Set rows, all or none, and return whether that could be done."""
    try:
        async with tx.connection.transaction():
            return bool(await tx.rows(statement, {"rows": Jsonb(list(given))}))
    except (psycopg.errors.IntegrityError, psycopg.errors.CardinalityViolation):  # the latter: one row twice
        return False


async def _settle_belief(tx: Transaction, row: Mapping[str, Any]) -> None:
    """Of two beliefs that say the same, let the older one stay; the machine that has the other removes it as well."""
    there = await tx.row(FIND_BELIEF, {"hash": row["belief_hash"]})
    if there and there["id"] > row["id"]:
        await tx.run(DROP_BELIEF, {"id": there["id"]})
        await state.note_changed(tx, "belief", [json.dumps([there["id"]])])


async def _put(tx: Transaction, table: Table) -> sql.Composed:
    given = {"table": table.name, "derived": list(table.derived)}
    columns = [row["name"] for row in await tx.rows(transferring.FIND_COLUMNS, given)]
    key = [name for name, _ in table.key]
    assigned = [name for name in columns if name not in {"namespace_id", *key}] or key
    return PUT_ROWS.format(
        table=sql.Identifier(table.name),
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        key=sql.SQL(", ").join(map(sql.Identifier, key)),
        assigned=sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in assigned),
    )


async def renew_clusters(tx: Transaction, ids: Collection[str], model_id: int | None) -> None:
    """Work out the centroids of clusters of which members came or went."""
    if ids:
        await transferring.renew_imported_clusters(tx, list(ids), model_id)
