"""A newer state of a memory that is here, from another copy of its store: what it changes, and changing it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from pgengram import fields as f
from pgengram.embedders import Passage
from pgengram.errors import Conflict, StoreMoved
from pgengram.store import clusters
from pgengram.store.connection.database import Transaction
from pgengram.store.memory import memories, statements
from pgengram.store.memory import statements as s
from pgengram.store.reading.transferring import Arrival, Known, add_rows, memory_records
from pgengram.text.derived import IDENTITY, TURN, derived

# Columns that say nothing of a memory's state, or follow from the others.
KEPT: Final = frozenset({"namespace_id", "id", "short_id", "idempotency_key", "version", "created_at", "updated_at"})
FOLLOWING: Final = frozenset({"content_hash", "speaker_key", "turn_features"})
OPERATIONS: Final = {"invalidated": "forget", "archived": "archive", "active": "restore"}  # by the status that is new
SKEW: Final = timedelta(days=1)  # by which another machine's clock may be ahead
# What a record is as a row of its table, written as the table writes it.
NORMALISE: Final = sql.SQL("SELECT to_jsonb(g) AS row FROM jsonb_populate_recordset(NULL::{table}, %(rows)s) AS g")
# Uses the table's primary key.
SET_ROW: Final = sql.SQL("""
UPDATE {table} t SET {assigned} FROM jsonb_populate_record(NULL::{table}, %(row)s) AS g
WHERE t.namespace_id = %(namespace_id)s AND t.{key} = %(id)s
""")
DROP_ROW: Final = sql.SQL("DELETE FROM {table} WHERE namespace_id = %(namespace_id)s AND memory_id = %(id)s")
# When edges were taken back here. Uses memory_history_pkey.
UNLINKED: Final = """
SELECT memory_id::text AS from_id, changes #>> '{relationship,0,to_id}' AS to_id, changes #>> '{relationship,0,type}' AS type,
  max(at) AS at
FROM memory_history
WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s) AND operation = 'unlink' AND changes #>> '{relationship,0,to_id}' IS NOT NULL
GROUP BY 1, 2, 3
"""
# Uses memory_relationships_pkey.
TAKE_BACK: Final = """
DELETE FROM memory_relationships WHERE namespace_id = %(namespace_id)s AND from_id = %(from_id)s::uuid AND to_id = %(to_id)s::uuid
  AND type = %(type)s AND updated_at < %(at)s
RETURNING 1
"""
# Uses memory_relationships_pkey.
EDGE_SINCE: Final = """
SELECT 1 FROM memory_relationships WHERE namespace_id = %(namespace_id)s AND from_id = %(from_id)s::uuid AND to_id = %(to_id)s::uuid
  AND type = %(type)s AND updated_at >= %(at)s
"""
# The memory's own time stays: what is said of its edges is no newer state of it. Uses memories_pkey.
TELL: Final = """
WITH told AS (UPDATE memories SET version = version + 1 WHERE namespace_id = %(namespace_id)s AND id = %(id)s RETURNING version)
INSERT INTO memory_history (namespace_id, memory_id, version, operation, changes, at)
SELECT %(namespace_id)s, %(id)s, version, %(operation)s, %(changes)s, %(at)s FROM told RETURNING 1
"""
# Uses memories_pkey and memory_history_pkey.
UNSEEN: Final = """
SELECT g.id FROM jsonb_to_recordset(%(texts)s) AS g(id uuid, text text)
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = g.id AND m.content <> g.text
WHERE NOT EXISTS (
  SELECT 1 FROM memory_history h WHERE h.namespace_id = %(namespace_id)s AND h.memory_id = g.id
    AND g.text IN (h.changes #>> '{content,0}', h.changes #>> '{content,1}'))
"""
# Uses memories_pkey.
SET_HASHES: Final = """
UPDATE memories m SET content_hash = coalesce(decode(s.hash, 'hex'), sha256(('no text ' || m.id)::bytea))
FROM jsonb_to_recordset(%(hashes)s) AS s(id uuid, hash text) WHERE m.namespace_id = %(namespace_id)s AND m.id = s.id
"""
Edge = tuple[str, str, str]  # from, to, type


@dataclass(slots=True)
class Newer:
    """A newer state of one memory.

    before: the memory as it is here, as an export has it; columns: those of its own row that differ; detail: the type's
    row, where that differs; changes: every field that differs, as history shows it.
    """

    arrival: Arrival
    before: Mapping[str, Any]
    columns: dict[str, Any] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def id(self) -> UUID:
        """The memory's id."""
        return self.arrival.id

    @property
    def operation(self) -> str:
        """What history calls it."""
        return OPERATIONS.get(self.columns.get("status", ""), "update")


def is_newer(arrival: Arrival, known: Known) -> bool:
    """Whether an arrival is a later state of a memory than the one that is here.

    Raises:
        Conflict: it is from the future, so that it would win over whatever is done here.
    """
    row = arrival.rows["memories"]
    at = datetime.fromisoformat(row["updated_at"])
    if at > datetime.now(UTC) + SKEW:
        raise Conflict("Its updated_at is in the future.", "Set the clock of the machine that exported it.")
    return (at, row["version"]) > known.states[arrival.id]


async def unseen(tx: Transaction, texts: Mapping[UUID, str]) -> set[UUID]:
    """Return the memories that never said these texts, by their ids."""
    given = Jsonb([{"id": str(id_), "text": text} for id_, text in texts.items()])
    return {row["id"] for row in await tx.rows(UNSEEN, {"texts": given})}


async def set_hashes(tx: Transaction, hashes: Mapping[UUID, bytes | None]) -> None:
    """Set the hashes of what memories say; None for one that no text has."""
    given = [{"id": str(id_), "hash": hash_ and bytes(hash_).hex()} for id_, hash_ in hashes.items()]
    await tx.run(SET_HASHES, {"hashes": Jsonb(given)})


async def compared(
    tx: Transaction, arrivals: Sequence[Arrival], said: Mapping[UUID, Collection[str] | None]
) -> list[Newer]:
    """Return what newer states of memories that are here change.

    Args:
        tx: of the namespace.
        arrivals: the newer states.
        said: for each the fields that its record names; None where it names all.
    """
    before = await memory_records(tx, [one.id for one in arrivals])
    rows = await _normalised(tx, "memories", [one.rows["memories"] for one in arrivals])
    found = []
    for one, row in zip(arrivals, rows, strict=True):
        if one.id not in before:
            continue
        table = memories.DETAIL_TABLE[row["type"]]
        [detail] = await _normalised(tx, table, [one.rows.get(table) or {}])
        found.append(_compared(one, before[one.id], row, detail, said[one.id]))
    return found


async def _normalised(tx: Transaction, table: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found = await tx.rows(NORMALISE.format(table=sql.Identifier(table)), {"rows": Jsonb(list(rows))})
    return [row["row"] for row in found]


def _compared(
    arrival: Arrival,
    before: Mapping[str, Any],
    row: dict[str, Any],
    detail: dict[str, Any],
    said: Collection[str] | None,
) -> Newer:
    new = Newer(arrival, before)
    if said is not None:  # what another system says of a memory is part of what is known here
        row["metadata"] = {**before["metadata"], **row["metadata"]}
    left_out = KEPT | FOLLOWING | (before.keys() - set(said) if said is not None else set())
    for name in row.keys() & before.keys() - left_out:
        _note_change(new, name, before[name], row[name])
        if before[name] != row[name]:
            new.columns[name] = row[name]
    if said is None:
        _compare_details(new, before["detail"], detail)
    if said is None or "importance" in said:
        importance = arrival.rows["memory_activation"].get("importance")
        _note_change(new, "importance", before["activation"]["importance"], importance)
    if said is None or "tags" in said:
        _note_change(new, "tags", before["tags"], arrival.tags)
    return new


def _compare_details(new: Newer, before: Mapping[str, Any], detail: dict[str, Any]) -> None:
    for name in detail.keys() - {"namespace_id", "memory_id", "success_rate"}:
        _note_change(new, f"detail.{name}", before.get(name), detail[name])
    if "type" in new.columns or any(name.startswith("detail.") for name in new.changes):
        new.detail = detail


def _note_change(new: Newer, name: str, was: Any, now: Any) -> None:
    if was != now:
        new.changes[name] = [was, now]


async def twin_of(tx: Transaction, new: Newer) -> UUID | None:
    """Return the other active memory that already says what this one would say."""
    after = {**new.before, **new.columns}
    if after["status"] != "active" or not {"status", *IDENTITY} & new.columns.keys():
        return None
    twins = await tx.rows(s.FIND_TWINS, {"hashes": [bytes.fromhex(_following(new)["content_hash"][2:])]})
    return next((twin["id"] for twin in twins if twin["id"] != new.id), None)


async def take_over(
    tx: Transaction, new: Newer, parts: Passage | None, model_id: int | None, *, tells: bool = True
) -> None:
    """Give a locked memory its newer state; if it `tells`, history has what it was.

    Its time of change is that of the newer state, so that an older one never comes back, in whichever order they come.

    Raises:
        StoreMoved: its text changed since `parts` were made of it.
    """
    if "content" in new.columns and parts is None:
        raise StoreMoved("The memory just changed.")
    row = new.arrival.rows["memories"]
    version = max(new.before["version"] + bool(new.changes), row["version"])
    columns = {**new.columns, "updated_at": row["updated_at"], "version": version}
    if new.columns:
        columns |= _following(new)
    await _set_row(tx, "memories", new.id, columns)
    if not new.changes:
        return
    await _set_parts(tx, new)
    if "content" in new.columns and parts is not None:
        await statements.set_vectors(tx, new.id, parts, model_id)
    [whole] = (await memories.read_memories(tx, [new.id], model_id)).values()
    await statements.set_words(tx, [whole])
    if tells:
        await memories.add_history(tx, new.id, version, new.operation, changes=new.changes, session_id=None)
    if "content" in new.columns:
        await clusters.reassign(tx, [new.id])
    else:
        await clusters.renew_of(tx, [new.id])


def _following(new: Newer) -> dict[str, Any]:
    """Return the columns that follow from what the memory says now."""
    after = {**new.before, **new.columns}
    at = after["occurred_at"]
    fields = {**after, "occurred_at": at and datetime.fromisoformat(at), "metadata": {}}
    follows = derived(fields, tags=(), detail=None, in_conversation=bool(after["turn_features"] & TURN))
    digest = "\\x" + follows.content_hash.hex()
    return {"content_hash": digest, "speaker_key": follows.speaker_key, "turn_features": follows.turn_features}


async def _set_parts(tx: Transaction, new: Newer) -> None:
    """Set what other tables hold of a memory."""
    rows, before = new.arrival.rows, new.before
    table = memories.DETAIL_TABLE[new.columns.get("type", before["type"])]
    if "type" in new.columns:
        old = sql.Identifier(memories.DETAIL_TABLE[before["type"]])
        await tx.run(DROP_ROW.format(table=old), {"id": new.id})
        await add_rows(tx, table, [{**new.detail, "memory_id": str(new.id)}])
    elif new.detail:
        kept = {"namespace_id", "memory_id", "success_rate"}
        await _set_row(tx, table, new.id, {name: value for name, value in new.detail.items() if name not in kept})
    if {"importance", "type", "kind", "pinned"} & new.changes.keys():
        after = {**before, **new.columns}
        importance = new.changes.get("importance", [before["activation"]["importance"]])[-1]
        rate = f.rate_per_day(after["type"], after["kind"], pinned=after["pinned"])
        await tx.run(s.SET_ACTIVATION, {"id": new.id, "importance": importance, "rate_per_day": rate})
    if "tags" in new.changes:
        await tx.run(s.SET_TAGS, {"id": new.id, "tags": new.arrival.tags})
    if before["status"] == "working" != new.columns.get("status", "working"):
        await tx.run(DROP_ROW.format(table=sql.Identifier("working_memories")), {"id": new.id})
    elif "working_memories" in rows:
        await add_rows(tx, "working_memories", [{**rows["working_memories"], "memory_id": str(new.id)}])


async def _set_row(tx: Transaction, table: str, id_: UUID, row: Mapping[str, Any]) -> None:
    assigned = sql.SQL(", ").join(sql.SQL("{0} = g.{0}").format(sql.Identifier(name)) for name in row)
    key = sql.Identifier("id" if table == "memories" else "memory_id")
    statement = SET_ROW.format(table=sql.Identifier(table), assigned=assigned, key=key)
    await tx.run(statement, {"row": Jsonb(dict(row)), "id": id_})


# -- edges that were taken back ----------------------------------------------------------------------------------------


async def unlinked(tx: Transaction, ids: Collection[UUID]) -> dict[Edge, datetime]:
    """Return the edges from these memories that were ever taken back here, and when last."""
    rows = await tx.rows(UNLINKED, {"ids": list(ids)})
    return {(row["from_id"], row["to_id"], row["type"]): row["at"] for row in rows}


async def take_edges_back(tx: Transaction, edges: Mapping[Edge, datetime]) -> None:
    """Take back the edges of locked memories that were taken back elsewhere, but for those that were made again here
    after that; history tells it, so that no older file brings them again.
    """
    there = await unlinked(tx, {UUID(from_id) for from_id, _, _ in edges})
    for edge, at in edges.items():
        from_id, to_id, type_ = edge
        given = {"from_id": from_id, "to_id": to_id, "type": type_, "at": at}
        if there.get(edge, datetime.min.replace(tzinfo=UTC)) >= at or await tx.rows(EDGE_SINCE, given):
            continue
        await tx.rows(TAKE_BACK, given)
        changes = {"relationship": [{"to_id": to_id, "type": type_}, None]}
        await append_history(tx, UUID(from_id), "unlink", changes, at)


async def append_history(tx: Transaction, id_: UUID, operation: str, changes: dict[str, Any], at: Any) -> None:
    """Tell in a memory's history what became of its edges, and when."""
    await tx.rows(TELL, {"id": id_, "operation": operation, "changes": Jsonb(changes), "at": at})
