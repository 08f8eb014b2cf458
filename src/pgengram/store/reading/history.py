"""What became of memories: their history, what surrounds them, what they said at a moment, and what holds instead."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pgengram.store.connection.database import Row, Transaction

MAX_HISTORY: Final = 50  # entries of one memory that are shown, the newest ones
MAX_EDGES: Final = 100  # of one memory that are shown, the strongest ones

# Uses memory_history_pkey from its end.
HISTORY: Final = """
SELECT asked.id AS memory_id, h.version, h.operation, h.at, h.actor, h.session_id, h.person_id, h.changes, h.in_all
FROM unnest(%(ids)s::uuid[]) AS asked(id) CROSS JOIN LATERAL (
  SELECT *, count(*) OVER () AS in_all FROM memory_history h WHERE h.namespace_id = %(namespace_id)s AND h.memory_id = asked.id
  ORDER BY h.version DESC LIMIT %(limit)s) AS h
ORDER BY asked.id, h.version DESC
"""
# Uses memory_relationships_pkey for the edges that go out, memory_relationships_to for the others, and memories_pkey.
RELATIONS: Final = """
SELECT asked.id AS memory_id, e.id, e.direction, e.type, e.strength, e.properties, left(m.content, 80) AS content, m.status, e.in_all
FROM unnest(%(ids)s::uuid[]) AS asked(id) CROSS JOIN LATERAL (
  SELECT *, count(*) OVER () AS in_all FROM (
    SELECT r.to_id AS id, 'out' AS direction, r.type, r.strength, r.properties FROM memory_relationships r
    WHERE r.namespace_id = %(namespace_id)s AND r.from_id = asked.id
    UNION ALL
    SELECT r.from_id, 'in', r.type, r.strength, r.properties FROM memory_relationships r
    WHERE r.namespace_id = %(namespace_id)s AND r.to_id = asked.id) AS both_ways
  ORDER BY strength DESC, id DESC, type LIMIT %(limit)s) AS e
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = e.id
ORDER BY asked.id, e.strength DESC, e.id DESC, e.type
"""
# Uses memory_cluster_members_by_memory and memory_clusters_pkey.
CLUSTERS: Final = """
SELECT b.memory_id, c.id, c.name, c.type, b.strength, b.automatic
FROM memory_cluster_members b JOIN memory_clusters c ON c.namespace_id = %(namespace_id)s AND c.id = b.cluster_id
WHERE b.namespace_id = %(namespace_id)s AND b.memory_id = ANY(%(ids)s)
ORDER BY b.memory_id, b.strength DESC, c.id
"""
AROUND: Final = {"history": HISTORY, "relations": RELATIONS, "clusters": CLUSTERS}
LIMIT: Final = {"history": MAX_HISTORY, "relations": MAX_EDGES, "clusters": None}


async def around(tx: Transaction, ids: Sequence[UUID], include: Sequence[str]) -> dict[UUID, dict[str, list[Row]]]:
    """Return for each memory what is asked for of `AROUND`; each list is there, even when it is empty.

    History comes newest first, edges and clusters strongest first. `in_all` of an entry or an edge is how many there
    are.
    """
    found: dict[UUID, dict[str, list[Row]]] = {id_: {name: [] for name in include} for id_ in ids}
    for name in dict.fromkeys(include):
        for row in await tx.rows(AROUND[name], {"ids": list(ids), "limit": LIMIT[name]}):
            found[row.pop("memory_id")][name].append(row)
    return found


# -- what was said then ----------------------------------------------------------------------------------------------

RESTORED: Final = frozenset(
    {
        "content", "kind", "importance", "tags", "metadata", "confidence", "emotion", "source", "source_provider",
        "capture_mode", "speaker", "user", "project", "collection", "pinned", "occurred_at",
    }
)  # fmt: skip
# Uses memory_history_pkey: memories have few changes.
CHANGED_SINCE: Final = """
SELECT memory_id, changes FROM memory_history
WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s) AND at > %(as_of)s AND changes IS NOT NULL
ORDER BY memory_id, version DESC
"""
# Follows the replacements to those that hold now. UNION drops what was met before, so a circle ends. Uses
# memories_pkey.
NEWEST: Final = """
WITH RECURSIVE walk(old, id) AS (
  SELECT m.id, r.id FROM memories m, unnest(m.replaced_by) AS r(id)
  WHERE m.namespace_id = %(namespace_id)s AND m.id = ANY(%(ids)s)
  UNION
  SELECT walk.old, r.id FROM walk JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = walk.id,
    unnest(m.replaced_by) AS r(id)
)
SELECT walk.old, array_agg(walk.id ORDER BY walk.id) AS newest
FROM walk JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = walk.id
WHERE m.status <> 'invalidated' GROUP BY walk.old
"""


async def rows_as_of(tx: Transaction, rows: list[Row], as_of: datetime | None) -> list[Row]:
    """Return `rows` as they were at `as_of`, and with what holds now instead of each that was replaced.

    A row that said something else then has its fields of that time, and their names in `changed_since`. Validity is
    told as it is known now, as it was asked for. A row that was replaced has `superseded_by`: the ids at the end of the
    chain.
    """
    if as_of is not None and rows:
        await _set_back(tx, rows, as_of)
    if replaced := [row["id"] for row in rows if row["replaced_by"]]:
        newest = {one["old"]: one["newest"] for one in await tx.rows(NEWEST, {"ids": replaced})}
        for row in rows:
            if row["id"] in newest:
                row["superseded_by"] = newest[row["id"]]
    return rows


async def _set_back(tx: Transaction, rows: Sequence[Row], as_of: datetime) -> None:
    """Give rows that said something else at `as_of` their fields of that time."""
    by_id = {row["id"]: row for row in rows}
    then: dict[UUID, dict[str, Any]] = {}
    for change in await tx.rows(CHANGED_SINCE, {"ids": list(by_id), "as_of": as_of}):
        # The newest come first, so that the oldest value of all stays.
        old = {
            name: _restored_value(name, pair[0])
            for name, pair in change["changes"].items()
            if name in RESTORED and len(pair) == 2
        }
        then.setdefault(change["memory_id"], {}).update(old)
    for id_, fields in then.items():
        row = by_id[id_]
        differs = {name: value for name, value in fields.items() if value != row.get(name)}
        row.update(differs)
        row["changed_since"] = sorted(differs)


def _restored_value(name: str, value: Any) -> Any:
    """Return a value as a row has it; a history has moments as text."""
    return datetime.fromisoformat(value) if name == "occurred_at" and value is not None else value
