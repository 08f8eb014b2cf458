"""Looking after a store: counting what is there, and finding what is doubled, contradicted, stale or incomplete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from pgengram.store.connection.database import Row, Transaction
from pgengram.store.schema import HIDDEN_IDS, UNEXPIRED, VISIBLE
from pgengram.text.derived import TURN

AGES: Final = {1: "under a day", 7: "under a week", 30: "under a month", 90: "under 3 months", 365: "under a year"}
LENGTHS: Final = {50: "under 50", 200: "under 200", 500: "under 500", 2_000: "under 2,000"}
OLDEST: Final = "older"
LONGEST: Final = "longer"
IMPORTANCE_BINS: Final = 10
TOP: Final = 5  # of the most recent and of the most read
DIMENSIONS: Final = (
    "state", "type", "kind", "project", "source_provider", "collection", "importance_bin", "age_bin", "length_bin",
    "rate_per_day",
)  # fmt: skip

# One pass over this namespace's memories; each dimension is counted in it, active memories and all of them. They are
# counted by two groups of dimensions first, of which there are few combinations: ten dimensions at once take twice as
# long over 100,000 memories. Uses memories_pkey, memory_activation_pkey, memory_vectors_pkey and memory_tags_pkey,
# mostly by reading them whole.
COUNTS: Final = """
WITH counted AS (
  SELECT CASE WHEN m.status = 'active' AND m.expires_at <= now() THEN 'expired' ELSE m.status END AS state,
    m.type, coalesce(m.kind, 'none given') AS kind, m.project, m.source_provider, m.collection,
    least(floor(a.importance * 10), 9)::integer AS importance_bin,
    cardinality(%(ages)s::double precision[]) - width_bucket(m.created_at, ARRAY(
      SELECT now() - days * interval '1 day' FROM unnest(%(ages)s::double precision[]) AS days ORDER BY days DESC)) AS age_bin,
    width_bucket(length(m.content), %(lengths)s::integer[]) AS length_bin,
    a.rate_per_day, a.access_count, m.pinned, v.memory_id IS NOT NULL AS embedded, t.memory_id IS NULL AS untagged
  FROM memories m
  JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id
  LEFT JOIN memory_vectors v ON v.namespace_id = %(namespace_id)s AND v.model_id = %(model_id)s AND v.part = 0 AND v.memory_id = m.id
  LEFT JOIN (SELECT DISTINCT memory_id FROM memory_tags WHERE namespace_id = %(namespace_id)s) AS t ON t.memory_id = m.id
  WHERE m.namespace_id = %(namespace_id)s {condition}
), halves AS MATERIALIZED (
  SELECT state, type, kind, project, source_provider, collection, importance_bin, age_bin, length_bin, rate_per_day,
    GROUPING(type) AS of_numbers, count(*) AS memories, count(*) FILTER (WHERE pinned) AS pinned,
    count(*) FILTER (WHERE embedded) AS embedded, count(*) FILTER (WHERE untagged) AS untagged, sum(access_count) AS accesses
  FROM counted GROUP BY GROUPING SETS ((state, type, kind, project, source_provider, collection),
    (state, importance_bin, age_bin, length_bin, rate_per_day))
)
SELECT state, type, kind, project, source_provider, collection, importance_bin, age_bin, length_bin, rate_per_day,
  GROUPING(state, type, kind, project, source_provider, collection, importance_bin, age_bin, length_bin, rate_per_day) AS left_out,
  coalesce(sum(memories), 0)::bigint AS memories, coalesce(sum(memories) FILTER (WHERE state = 'active'), 0)::bigint AS active,
  coalesce(sum(pinned) FILTER (WHERE state = 'active'), 0)::bigint AS pinned,
  coalesce(sum(embedded) FILTER (WHERE state = 'active'), 0)::bigint AS embedded,
  coalesce(sum(untagged) FILTER (WHERE state = 'active'), 0)::bigint AS untagged, coalesce(sum(accesses), 0)::bigint AS accesses
FROM halves
GROUP BY of_numbers, GROUPING SETS ((), (state), (type), (kind), (project), (source_provider), (collection), (importance_bin), (age_bin),
  (length_bin), (rate_per_day))
HAVING (of_numbers = 1) = (GROUPING(importance_bin, age_bin, length_bin, rate_per_day) < 15)
"""
OF_PROJECT: Final = "AND m.project = ANY(%(projects)s::text[])"

# Uses memory_tags_by_tag and memories_pkey.
TAGS: Final = """
SELECT t.tag, count(*) AS memories, count(*) OVER () AS tags
FROM memory_tags t JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = t.memory_id
WHERE t.namespace_id = %(namespace_id)s AND {states} {condition}
GROUP BY t.tag ORDER BY memories DESC, t.tag LIMIT %(limit)s
"""

_SHOWN: Final = """m.id, left(m.content, 200) AS excerpt, m.created_at"""

# Uses memories_by_time.
RECENT: Final = (
    f"SELECT {_SHOWN} FROM memories m WHERE m.namespace_id = %(namespace_id)s AND {VISIBLE} {{condition}} "
    f"ORDER BY m.created_at DESC, m.id DESC LIMIT {TOP}"
)
# The most read are looked up one after the other until there are enough that count. Uses memory_activation_pkey and
# memories_pkey.
MOST_READ: Final = f"""
SELECT m.*, a.access_count, a.last_accessed_at FROM (
  SELECT memory_id, access_count, last_accessed_at FROM memory_activation
  WHERE namespace_id = %(namespace_id)s AND access_count > 0 ORDER BY access_count DESC, memory_id DESC) AS a
CROSS JOIN LATERAL (SELECT {_SHOWN} FROM memories m
  WHERE m.namespace_id = %(namespace_id)s AND m.id = a.memory_id AND {VISIBLE} {{condition}} OFFSET 0) AS m
LIMIT {TOP}
"""

# Uses memory_relationships_pkey and memories_pkey.
RELATIONSHIPS: Final = """
SELECT count(*) AS edges FROM memory_relationships r JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = r.from_id
WHERE r.namespace_id = %(namespace_id)s {condition}
"""
DATABASE_SIZE: Final = """
SELECT CASE WHEN has_database_privilege(current_database(), 'CONNECT') THEN pg_database_size(current_database()) END AS bytes
"""


NO_MODEL: Final = 0  # no model has this key; of a comparison with NULL, Citus would not know on which worker to make it
SUMS: Final = ("memories", "active", "pinned", "embedded", "untagged", "accesses")


@dataclass(frozen=True, slots=True)
class Counted:
    """What is in a store: counts by dimension and value, sums, and a few examples."""

    by: dict[str, dict[Any, int]]
    sums: dict[str, int]
    rates: dict[float, int]
    tags: dict[str, int]
    all_tags: int
    recent: list[Row]
    most_read: list[Row]
    bytes: int | None
    relationships: int


async def count_memories(tx: Transaction, *, projects: Sequence[str] | None, tags: int) -> Counted:
    """Count this namespace's memories, or those of one project.

    Args:
        tx: the namespace's transaction; vectors are those of the model that is active in it.
        projects: of which project, by its names; None for all.
        tags: how many tags to tell, the most used first.
    """
    condition = "" if projects is None else OF_PROJECT
    given = {
        "projects": projects,
        "model_id": tx.model_id or NO_MODEL,
        "limit": tags,
        "ages": [*AGES],
        "lengths": [*LENGTHS],
    }
    by, sums = _by_dimension(await tx.rows(COUNTS.format(condition=condition), given))
    tagged = await tx.rows(TAGS.format(condition=condition, states=VISIBLE), given)
    return Counted(
        by,
        sums,
        by.pop("rate_per_day"),
        {row["tag"]: row["memories"] for row in tagged},
        tagged[0]["tags"] if tagged else 0,
        await tx.rows(RECENT.format(condition=condition), given),
        await tx.rows(MOST_READ.format(condition=condition), given),
        ((await tx.row(DATABASE_SIZE)) or {}).get("bytes"),
        ((await tx.row(RELATIONSHIPS.format(condition=condition), given)) or {}).get("edges", 0),
    )


def _by_dimension(rows: Sequence[Row]) -> tuple[dict[str, dict[Any, int]], dict[str, int]]:
    """Return counts by dimension and value, and the sums, from one row for each grouping set."""
    by: dict[str, dict[Any, int]] = {name: {} for name in DIMENSIONS}
    sums = dict.fromkeys(SUMS, 0)
    for row in rows:
        if row["left_out"] == (1 << len(DIMENSIONS)) - 1:
            sums = {name: int(row[name]) for name in SUMS}
            continue
        [name] = [name for place, name in enumerate(reversed(DIMENSIONS)) if not row["left_out"] >> place & 1]
        number = row["memories"] if name == "state" else row["active"]
        if number:
            by[name][row[name]] = number
    return by, sums


# Uses memories_pkey and memory_activation_pkey, mostly by reading them whole.
HEALTH: Final = f"""
SELECT m.type, count(*) AS total_memories, avg(a.importance) AS avg_importance, avg(a.access_count)::double precision AS avg_access_count,
  count(*) FILTER (WHERE a.last_accessed_at > now() - interval '1 day') AS accessed_last_day,
  avg(pgengram_relevance(a.relevance_anchor, a.rate_per_day, now())) AS avg_relevance
FROM memories m JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id
WHERE m.namespace_id = %(namespace_id)s AND {VISIBLE}
GROUP BY m.type ORDER BY m.type
"""


async def health(tx: Transaction) -> list[Row]:
    """Return how many active memories each type has, with averages of importance, uses and relevance."""
    return await tx.rows(HEALTH)


# Uses memories_pkey and memory_activation_pkey, mostly by reading them whole.
EXTENT: Final = f"""
SELECT avg(a.importance) AS importance, min(m.created_at) AS oldest, max(m.created_at) AS newest
FROM memories m JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id
WHERE m.namespace_id = %(namespace_id)s AND {VISIBLE}
"""


async def extent(tx: Transaction) -> Row:
    """Return how important visible memories are on average, and when the oldest and the newest was stored."""
    return await tx.row(EXTENT) or {}


async def tag_counts(tx: Transaction, *, limit: int, hidden: bool = False) -> dict[str, int]:
    """Return the most used tags of visible memories, or of hidden ones too, with how many have each."""
    states = "m.status IN ('active', 'invalidated')" if hidden else VISIBLE
    rows = await tx.rows(TAGS.format(condition="", states=states), {"limit": limit})
    return {row["tag"]: row["memories"] for row in rows}


# -- what to look into -----------------------------------------------------------------------------------------------

FRAGMENT_BYTES: Final = 16  # UTF-8 bytes, as five Chinese characters say as much as fifteen Latin ones
PRONOUN_CHARACTERS: Final = 120  # a longer text is likely to name whom it means further on
MANY_FACTS_CHARACTERS: Final = 800
MANY_FACTS_SENTENCES: Final = 6
UNSURE: Final = 0.4  # a confidence below
FADED: Final = 0.2  # a live relevance below which an unconfirmed memory is stale

PRONOUN_FIRST: Final = (
    r"^\W*(he|she|it|they|this|that|these|those|him|her|them|his|their|its|"
    r"er|sie|es|il|elle|ils|elles|ella|ellos)\M"
)

# What is wrong with one memory, as conditions on `memories m` and `memory_activation a`; the words of a pronoun's
# language are few, and a text that names somebody in capitals further on stands alone.
CONDITIONS: Final[dict[str, str]] = {
    "expired": "m.expires_at <= now()",
    "stale": f"""NOT m.pinned AND greatest(m.created_at, m.updated_at, m.last_confirmed_at, a.last_accessed_at)
        < now() - %(stale)s
      AND pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) < {FADED}
      AND NOT EXISTS (SELECT 1 FROM memory_history h WHERE h.namespace_id = %(namespace_id)s AND h.memory_id = m.id
        AND h.operation = 'import' AND h.at >= now() - %(stale)s)""",
    "fragments": f"""m.turn_features & {TURN} = 0 AND (octet_length(m.content) < {FRAGMENT_BYTES}
      OR length(m.content) < {PRONOUN_CHARACTERS} AND m.speaker IS NULL AND m."user" IS NULL
        AND m.content ~* '{PRONOUN_FIRST}'
        AND m.content !~ '\\w[^\\n]*[^.!?] [[:upper:]][[:alpha:]]')""",
    "multi_fact": f"""length(m.content) > {MANY_FACTS_CHARACTERS}
      AND regexp_count(m.content, '[.!?。！？]+(\\s|$)|[。！？]|\\n\\s*[-*•]') >= {MANY_FACTS_SENTENCES}""",
    "untagged": """NOT EXISTS (SELECT 1 FROM memory_tags t
      WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = m.id)""",
    "unsourced": f"""coalesce(m.confidence < {UNSURE}, false) OR (m.capture_mode = 'inferred' AND m.source IS NULL
      AND m.sources IS NULL AND (m.last_confirmed_at IS NULL OR m.last_confirmed_at <= m.created_at))""",
}  # fmt: skip

# One pass over the active memories; of each finding the number, and the oldest memories. Uses memories_pkey,
# memory_activation_pkey, memory_tags_pkey and memory_history_pkey.
JUDGE: Final = f"""
WITH judged AS (
  SELECT m.id, f.finding FROM memories m
  JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id
  CROSS JOIN LATERAL (VALUES {{values}}) AS f(finding, holds)
  WHERE m.namespace_id = %(namespace_id)s AND m.status = 'active' AND f.holds
    AND (f.finding = 'expired' OR {UNEXPIRED}) {{condition}}
), ranked AS (
  SELECT id, finding, count(*) OVER (PARTITION BY finding) AS found,
    row_number() OVER (PARTITION BY finding ORDER BY id) AS place FROM judged
)
SELECT r.finding, r.found, m.id, m.content, m.pinned, m.confidence, m.expires_at,
  greatest(m.created_at, m.updated_at, m.last_confirmed_at, a.last_accessed_at) AS touched_at,
  pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance
FROM ranked r JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = r.id
JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = r.id
WHERE r.place <= %(limit)s ORDER BY r.finding, r.place
"""


async def count_findings(
    tx: Transaction, findings: Sequence[str], *, projects: Sequence[str] | None, stale: timedelta, limit: int
) -> tuple[dict[str, int], list[Row]]:
    """Return how many active memories meet each of `findings`, and the oldest of each.

    Args:
        tx: the namespace's transaction.
        findings: names from `CONDITIONS`.
        projects: of which project, by its names; None for all.
        stale: a memory not confirmed, changed or read for so long may be stale.
        limit: how many memories of each finding are returned.
    """
    if not findings:
        return {}, []
    values = ", ".join(f"('{name}', {CONDITIONS[name]})" for name in findings)
    statement = JUDGE.format(values=values, condition="" if projects is None else OF_PROJECT)
    rows = await tx.rows(statement, {"projects": projects, "stale": stale, "limit": limit})
    return {row["finding"]: row["found"] for row in rows}, rows


# -- near duplicates -------------------------------------------------------------------------------------------------

NEIGHBOURS: Final = 10  # looked at around each memory
CHUNK: Final = 100  # memories whose neighbours are looked for in one statement

# The newest first, as ids of version 7 sort by time. Uses memories_pkey backwards.
CANDIDATES: Final = f"""
SELECT m.id FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND {VISIBLE} {{condition}}
ORDER BY m.id DESC LIMIT %(limit)s OFFSET %(offset)s
"""
# Uses memories_by_time or memories_by_project.
COUNT_CANDIDATES: Final = f"""
SELECT count(*) AS memories FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND {VISIBLE} {{condition}}
"""
# The nearest of each memory by their first parts, through the model's index where it is there (its number must stand in
# the text for the partial index to be chosen), else by looking at every vector. Uses memory_vectors_pkey,
# memories_hidden.
NEAREST: Final = """
WITH {hidden}, asked AS MATERIALIZED (
  SELECT v.memory_id AS id, v.embedding FROM memory_vectors v
  WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = ANY(%(ids)s) AND v.model_id = {model} AND v.part = 0
)
SELECT asked.id AS one, near.memory_id AS other, 1 - near.distance AS similarity
FROM asked CROSS JOIN LATERAL (
  SELECT v.memory_id, {distance} AS distance FROM memory_vectors v
  WHERE v.namespace_id = %(namespace_id)s AND v.model_id = {model} AND v.part = 0 AND v.memory_id NOT IN (SELECT id FROM hidden)
  ORDER BY {distance} LIMIT {neighbours}) AS near
WHERE near.memory_id <> asked.id AND near.distance <= 1 - %(threshold)s
"""
EXACTLY: Final = "v.embedding <=> asked.embedding"
BY_INDEX: Final = "(v.embedding::halfvec({dimensions})) <=> (asked.embedding::halfvec({dimensions}))"
# Uses memory_relationships_to and memories_pkey.
CONTRADICTING: Final = """
SELECT r.from_id AS one, r.to_id AS other FROM memory_relationships r
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = r.from_id
JOIN memories o ON o.namespace_id = %(namespace_id)s AND o.id = r.to_id
WHERE r.namespace_id = %(namespace_id)s AND r.type = 'contradicts' AND m.status = 'active' AND o.status = 'active' {condition}
ORDER BY r.updated_at DESC LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two memories and the cosine between them."""

    one: UUID
    other: UUID
    similarity: float


async def candidates(
    tx: Transaction, *, projects: Sequence[str] | None, limit: int, offset: int
) -> tuple[list[UUID], int]:
    """Return active memories, newest first, and how many there are in all."""
    condition = "" if projects is None else OF_PROJECT
    given = {"projects": projects, "limit": limit, "offset": offset}
    ids = [row["id"] for row in await tx.rows(CANDIDATES.format(condition=condition), given)]
    counted = await tx.row(COUNT_CANDIDATES.format(condition=condition), given)
    return ids, counted["memories"] if counted else 0


async def near_pairs(
    tx: Transaction, ids: Sequence[UUID], *, model: int, dimensions: int, indexed: bool, threshold: float
) -> list[Pair]:
    """Return each pair of one of `ids` and one of its ten nearest whose cosine is at least `threshold`."""
    distance = BY_INDEX.format(dimensions=dimensions) if indexed else EXACTLY
    statement = NEAREST.format(hidden=HIDDEN_IDS, model=model, distance=distance, neighbours=NEIGHBOURS + 1)
    rows = await tx.rows(statement, {"ids": list(ids), "threshold": threshold})
    return [Pair(row["one"], row["other"], row["similarity"]) for row in rows]


async def linked_contradictions(
    tx: Transaction, *, projects: Sequence[str] | None, limit: int
) -> list[tuple[UUID, UUID]]:
    """Return the pairs of active memories that somebody has linked as contradicting each other."""
    statement = CONTRADICTING.format(condition="" if projects is None else OF_PROJECT)
    return [(row["one"], row["other"]) for row in await tx.rows(statement, {"projects": projects, "limit": limit})]


def groups(pairs: Sequence[tuple[UUID, UUID]]) -> list[list[UUID]]:
    """Return the sets of ids that pairs connect, each in order; union-find with path halving (Tarjan 1975)."""
    parent: dict[UUID, UUID] = {}

    def root(id_: UUID) -> UUID:
        parent.setdefault(id_, id_)
        while parent[id_] != id_:
            parent[id_] = parent[parent[id_]]
            id_ = parent[id_]
        return id_

    for one, other in pairs:
        first, second = sorted((root(one), root(other)))
        parent[second] = first
    found: dict[UUID, list[UUID]] = {}
    for id_ in sorted(parent):
        found.setdefault(root(id_), []).append(id_)
    return list(found.values())
