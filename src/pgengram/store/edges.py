"""Edges between memories: storing them, removing them, and walking along them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal
from uuid import UUID

from psycopg.types.json import Jsonb

from pgengram import fields as f
from pgengram.errors import InvalidInput, NotFound
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.schema import UNEXPIRED

# The from-memory is locked, so that its version grows by one for each change of its edges. The lock lets others point
# at it meanwhile: two memories that are linked to each other at once do not wait in a circle. Uses memories_pkey.
LOCK_FROM: Final = """
SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE
"""
# Uses memories_pkey.
FIND_ENDS: Final = "SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND id IN (%(from_id)s, %(to_id)s)"

# Writes the edge, and when that changes anything the from-memory's version and history. Uses memory_relationships_pkey
# and memories_pkey.
LINK: Final = """
WITH old AS MATERIALIZED (
  SELECT to_id, type, strength, properties FROM memory_relationships
  WHERE namespace_id = %(namespace_id)s AND from_id = %(from_id)s AND to_id = %(to_id)s AND type = %(type)s
), written AS (
  INSERT INTO memory_relationships AS r (namespace_id, from_id, to_id, type, strength, properties)
  VALUES (%(namespace_id)s, %(from_id)s, %(to_id)s, %(type)s, %(strength)s, %(properties)s)
  ON CONFLICT (namespace_id, from_id, to_id, type) DO UPDATE
    SET strength = excluded.strength, properties = excluded.properties, updated_at = excluded.updated_at
    WHERE (r.strength, r.properties) IS DISTINCT FROM (excluded.strength, excluded.properties)
  RETURNING to_id, type, strength, properties
), bumped AS (
  UPDATE memories SET version = version + 1, updated_at = now()
  WHERE namespace_id = %(namespace_id)s AND id = %(from_id)s AND EXISTS (SELECT 1 FROM written)
  RETURNING version
), history AS (
  INSERT INTO memory_history (namespace_id, memory_id, version, operation, session_id, changes)
  SELECT %(namespace_id)s, %(from_id)s, version, 'link', %(session_id)s,
    jsonb_build_object('relationship', jsonb_build_array((SELECT to_jsonb(old) FROM old), (SELECT to_jsonb(written) FROM written)))
  FROM bumped RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM old) AS known
"""

# Takes back the edges of one type, or of any, from one memory to another. Uses memory_relationships_pkey and
# memories_pkey.
UNLINK: Final = """
WITH gone AS (
  DELETE FROM memory_relationships
  WHERE namespace_id = %(namespace_id)s AND from_id = %(from_id)s AND to_id = %(to_id)s
    AND (%(type)s::text IS NULL OR type = %(type)s)
  RETURNING to_id, type, strength, properties
), bumped AS (
  UPDATE memories SET version = version + (SELECT count(*) FROM gone)::integer, updated_at = now()
  WHERE namespace_id = %(namespace_id)s AND id = %(from_id)s AND EXISTS (SELECT 1 FROM gone)
  RETURNING version
), history AS (
  INSERT INTO memory_history (namespace_id, memory_id, version, operation, session_id, changes)
  SELECT %(namespace_id)s, %(from_id)s, bumped.version + 1 - row_number() OVER (ORDER BY gone.type DESC), 'unlink',
    %(session_id)s, jsonb_build_object('relationship', jsonb_build_array(to_jsonb(gone), NULL))
  FROM bumped, gone RETURNING 1
)
SELECT type FROM gone ORDER BY type
"""


def normalised_type(word: str) -> str:
    """Return the type of an edge as it is stored: lower case, words joined by underscores.

    Raises:
        InvalidInput: nothing is left, or it is too long.
    """
    type_ = re.sub(r"[\s\-_]+", "_", word.casefold().strip()).strip("_")
    if not 1 <= len(type_) <= f.MAX_TAG:
        raise InvalidInput(f"The type of a relationship must have 1 to {f.MAX_TAG} characters.")
    return type_


async def store_link(
    tx: Transaction,
    from_id: UUID,
    to_id: UUID,
    type_: str,
    strength: float,
    properties: dict[str, Any],
    *,
    session_id: str | None = None,
) -> bool:
    """Store that one memory leads to another; storing it again replaces strength and properties.

    Args:
        type_: any word, see `normalised_type`.
        strength: 0 to 1.
        properties: a JSON object.
        session_id: the conversation in which it is stored, for the from-memory's history.

    Returns:
        Whether there was no such edge before.

    Raises:
        InvalidInput: both ends are the same memory, or the type is not a word.
        NotFound: one of the memories is not there.
    """
    if from_id == to_id:
        raise InvalidInput("A memory cannot be linked to itself.")
    edge = {"from_id": from_id, "to_id": to_id, "type": normalised_type(type_)}
    await tx.rows(LOCK_FROM, {"ids": [from_id]})
    there = {row["id"] for row in await tx.rows(FIND_ENDS, edge)}
    for id_ in (from_id, to_id):
        if id_ not in there:
            raise NotFound("memory", id_)
    found = await tx.row(
        LINK, {**edge, "strength": strength, "properties": Jsonb(properties), "session_id": session_id}
    )
    return found is not None and not found["known"]


async def unlink(
    tx: Transaction, from_id: UUID, to_id: UUID, type_: str | None, *, session_id: str | None = None
) -> list[str]:
    """Take back the edges of one type, or of all, from one memory to another; return their types."""
    await tx.rows(LOCK_FROM, {"ids": [from_id]})
    edge = {"from_id": from_id, "to_id": to_id, "type": None if type_ is None else normalised_type(type_)}
    return [row["type"] for row in await tx.rows(UNLINK, {**edge, "session_id": session_id})]


# -- walking -------------------------------------------------------------------------------------------------------

Direction = Literal["out", "in", "both"]

# One step from every memory of the frontier to those it leads to, each by its best edge: memories met for the first
# time, and those now reached more strongly than before. Sets are small and materialised; edges are read by
# memory_relationships_pkey (out) and memory_relationships_to (in), memories by memories_pkey, best first and only until
# there are enough: the neighbours of a hub are not all looked at. What a memory was consolidated from is archived, and
# still where its edge of that type leads.
STEP: Final = f"""
WITH frontier AS MATERIALIZED (
  SELECT * FROM unnest(%(ids)s::uuid[], %(strengths)s::double precision[]) AS f(id, strength)
), known AS MATERIALIZED (
  SELECT * FROM unnest(%(known_ids)s::uuid[], %(known_strengths)s::double precision[]) AS k(id, strength)
), steps AS MATERIALIZED (
  SELECT f.id AS came_from, e.to_id AS id, e.type, f.strength * e.strength AS strength
  FROM frontier f CROSS JOIN LATERAL (SELECT r.to_id, r.type, r.strength FROM memory_relationships r
    WHERE r.namespace_id = %(namespace_id)s AND r.from_id = f.id AND %(out)s OFFSET 0) AS e
  WHERE (%(types)s::text[] IS NULL OR e.type = ANY(%(types)s))
  UNION ALL
  SELECT f.id, e.from_id, e.type, f.strength * e.strength
  FROM frontier f CROSS JOIN LATERAL (SELECT r.from_id, r.type, r.strength FROM memory_relationships r
    WHERE r.namespace_id = %(namespace_id)s AND r.to_id = f.id AND %(into)s OFFSET 0) AS e
  WHERE (%(types)s::text[] IS NULL OR e.type = ANY(%(types)s))
), best AS MATERIALIZED (
  SELECT DISTINCT ON (s.id) s.* FROM steps s LEFT JOIN known k USING (id)
  WHERE s.strength >= %(min_strength)s AND (k.id IS NULL OR s.strength > k.strength)
  ORDER BY s.id, s.strength DESC, s.came_from
)
SELECT b.* FROM (SELECT * FROM best ORDER BY strength DESC, id OFFSET 0) AS b
CROSS JOIN LATERAL (SELECT m.status, m.expires_at FROM memories m
  WHERE m.namespace_id = %(namespace_id)s AND m.id = b.id OFFSET 0) AS m
WHERE (m.status = 'active' OR m.status = 'archived' AND b.type = 'consolidation') AND {UNEXPIRED}
ORDER BY b.strength DESC, b.id LIMIT %(limit)s
"""

# The edges between memories that are shown, those of the paths first. Uses memory_relationships_pkey.
BETWEEN: Final = """
WITH shown AS MATERIALIZED (
  SELECT * FROM unnest(%(ids)s::uuid[]) AS s(id)
), steps AS MATERIALIZED (
  SELECT * FROM unnest(%(step_from)s::uuid[], %(step_to)s::uuid[]) AS s(one, other)
)
SELECT e.* FROM shown CROSS JOIN LATERAL (
  SELECT r.from_id, r.to_id, r.type, r.strength, r.properties, r.created_at FROM memory_relationships r
  WHERE r.namespace_id = %(namespace_id)s AND r.from_id = shown.id OFFSET 0) AS e
WHERE e.to_id IN (SELECT id FROM shown) AND e.strength >= %(min_strength)s
  AND (%(types)s::text[] IS NULL OR e.type = ANY(%(types)s))
ORDER BY (e.from_id, e.to_id) IN (SELECT one, other FROM steps) OR (e.to_id, e.from_id) IN (SELECT one, other FROM steps) DESC,
  e.strength DESC, e.from_id, e.to_id, e.type
LIMIT %(limit)s
"""
# Uses memories_pkey.
LOOK_AT: Final = """
SELECT id, type, kind, content FROM memories WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s)
"""

ROUNDING: Final = 1e-9  # of products of strengths
EDGES_A_MEMORY: Final = 4  # shown at most for each memory shown, on average


@dataclass(frozen=True, slots=True)
class Path:
    """How a memory was reached: the memories on the way, itself included, and the product of the strengths."""

    ids: tuple[UUID, ...]
    strength: float

    @property
    def depth(self) -> int:
        """How many edges it has."""
        return len(self.ids) - 1


@dataclass(frozen=True, slots=True)
class Walk:
    """Which edges may be walked, and how far.

    depth: in edges; min_strength: of the product along a path; limit: memories besides those it starts from.
    """

    depth: int
    direction: Direction
    types: list[str] | None
    min_strength: float
    limit: int


async def explore(tx: Transaction, starts: Sequence[UUID], walk: Walk) -> tuple[dict[UUID, Path], bool]:
    """Return the shortest path to each active memory in reach, nearest and strongest first, and whether some were cut.

    Of several shortest paths the strongest counts. A longer but stronger path may lead on where the shortest is too
    weak, so a memory is walked on from whenever it is reached more strongly; as no product of strengths grows with
    length, a cycle never does that, and the walk ends.
    """
    shortest = {id_: Path((id_,), 1.0) for id_ in starts}
    strongest = dict(shortest)
    frontier = dict(shortest)
    for _ in range(walk.depth):
        steps = await tx.rows(STEP, _walk_step(frontier, strongest, walk))
        paths = {row["id"]: Path((*frontier[row["came_from"]].ids, row["id"]), row["strength"]) for row in steps}
        frontier = paths
        strongest |= paths
        shortest |= {id_: path for id_, path in paths.items() if id_ not in shortest}
        if len(shortest) - len(starts) > walk.limit or not frontier:
            break
    most = len(starts) + walk.limit
    return dict(list(shortest.items())[:most]), len(shortest) > most


def _walk_step(frontier: dict[UUID, Path], known: dict[UUID, Path], walk: Walk) -> dict[str, Any]:
    return {
        "ids": list(frontier),
        "strengths": [path.strength for path in frontier.values()],
        "known_ids": list(known),
        "known_strengths": [path.strength for path in known.values()],
        "types": walk.types,
        "min_strength": walk.min_strength - ROUNDING,
        "out": walk.direction != "in",
        "into": walk.direction != "out",
        "limit": len(known) + walk.limit + 1,  # however many are known ones, enough are new
    }


async def between(tx: Transaction, paths: dict[UUID, Path], walk: Walk) -> tuple[list[Row], bool]:
    """Return the edges between the memories of `paths`, those walked first, and whether some were cut."""
    pairs = {pair for path in paths.values() for pair in pairwise(path.ids)}
    most = EDGES_A_MEMORY * len(paths)
    rows = await tx.rows(
        BETWEEN,
        {
            "ids": list(paths),
            "step_from": [one for one, _ in pairs],
            "step_to": [other for _, other in pairs],
            "types": walk.types,
            "min_strength": walk.min_strength - ROUNDING,
            "limit": most + 1,
        },
    )
    return rows[:most], len(rows) > most


async def look_at(tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, Row]:
    """Return id, type, kind and content of memories, by id."""
    return {row["id"]: row for row in await tx.rows(LOOK_AT, {"ids": list(ids)})}
