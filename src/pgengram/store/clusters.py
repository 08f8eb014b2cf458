"""Clusters: memories that belong together, where they lie, and when they were called up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from pgengram.fields import TYPES
from pgengram.ids import uuid7
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.schema import VISIBLE

ALIKE: Final = 0.7  # cosine from which a memory belongs to a cluster by itself, and clusters are similar
MOST_ASSIGNED: Final = 3  # clusters a new memory is put into by itself
TOGETHER: Final = "30 minutes"  # clusters called up so close in time are called up together
MOST_AVERAGED: Final = (
    1_000  # strongest members that decide where a cluster lies: more would hardly move it, and slow every write
)
RECALLED: Final = 10  # memories that a called-up cluster brings
PAIRED: Final = 200  # newest activations of a cluster that are looked at for what was called up with it

Sort = Literal["importance", "activity", "name", "created"]

ACTIVE_MODEL: Final = "(SELECT id FROM embedding_models WHERE state = 'active')"
# A memory is reached by its key, and only then judged: with the status inside, an index of active memories might be
# walked from end to end while nothing is known of a table that has just been filled.
MEMORY: Final = """CROSS JOIN LATERAL (SELECT m.type, m.content, m.created_at, m.status, m.expires_at FROM memories m
  WHERE m.namespace_id = %(namespace_id)s AND m.id = {id} OFFSET 0) AS m"""
OF_GIVEN: Final = MEMORY.format(id="given.id")
OF_MEMBER: Final = MEMORY.format(id="s.memory_id")

ADD: Final = """
INSERT INTO memory_clusters (namespace_id, id, type, name, description, keywords, emotional_signature, importance)
VALUES (%(namespace_id)s, %(id)s, %(type)s, %(name)s, %(description)s, %(keywords)s, %(emotional_signature)s, %(importance)s)
"""
DROP: Final = "DELETE FROM memory_clusters WHERE namespace_id = %(namespace_id)s AND id = %(id)s"

# A namespace has few clusters, so the end of an id is compared with each. Uses memory_clusters_pkey.
FIND_BY_END: Final = """
SELECT id FROM memory_clusters WHERE namespace_id = %(namespace_id)s AND replace(id::text, '-', '') LIKE '%%' || %(digits)s
"""

# Rows are written in the order of their keys, and always members before clusters, so that two calls cannot wait for
# each other in a circle. Use memory_cluster_members_pkey.
ADD_MEMBERS: Final = """
INSERT INTO memory_cluster_members AS s (namespace_id, cluster_id, memory_id, strength)
SELECT %(namespace_id)s, %(cluster_id)s, m.id, %(strength)s FROM unnest(%(ids)s::uuid[]) AS m(id) ORDER BY m.id
ON CONFLICT (namespace_id, cluster_id, memory_id) DO UPDATE SET strength = excluded.strength, automatic = false
RETURNING memory_id, xmax = 0 AS added
"""
DROP_MEMBERS: Final = """
DELETE FROM memory_cluster_members
WHERE namespace_id = %(namespace_id)s AND cluster_id = %(cluster_id)s AND memory_id = ANY(%(ids)s::uuid[])
RETURNING memory_id
"""

# Puts active memories into the clusters they lie near, by the mean of their parts. A cosine that is no number is in no
# range. Uses memory_clusters_pkey and memory_vectors_pkey.
ASSIGN: Final = f"""
WITH active AS MATERIALIZED (
  SELECT {ACTIVE_MODEL} AS model_id
), near AS MATERIALIZED (
  SELECT id, centroid FROM memory_clusters
  WHERE namespace_id = %(namespace_id)s AND centroid IS NOT NULL AND model_id = (SELECT model_id FROM active)
), placed AS MATERIALIZED (
  SELECT v.memory_id, avg(v.embedding) AS place FROM unnest(%(ids)s::uuid[]) AS given(id) CROSS JOIN active
  CROSS JOIN LATERAL (SELECT v.memory_id, v.embedding FROM memory_vectors v
    WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = given.id AND v.model_id = active.model_id OFFSET 0) AS v
  {OF_GIVEN}
  WHERE EXISTS (SELECT 1 FROM near) AND {VISIBLE} GROUP BY v.memory_id
), fits AS (
  SELECT placed.memory_id, near.id AS cluster_id, 1 - (placed.place <=> near.centroid) AS cosine,
    row_number() OVER (PARTITION BY placed.memory_id ORDER BY placed.place <=> near.centroid, near.id) AS rank
  FROM placed CROSS JOIN near
)
INSERT INTO memory_cluster_members (namespace_id, cluster_id, memory_id, strength, automatic)
SELECT %(namespace_id)s, cluster_id, memory_id, least(cosine, 1), true FROM fits
WHERE cosine BETWEEN {ALIKE} AND 1.01 AND rank <= {MOST_ASSIGNED} ORDER BY cluster_id, memory_id
ON CONFLICT DO NOTHING
RETURNING cluster_id
"""
# Uses memory_cluster_members_by_memory.
DROP_AUTOMATIC: Final = """
DELETE FROM memory_cluster_members WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s) AND automatic
RETURNING cluster_id
"""
FIND_OF_MEMORIES: Final = """
SELECT DISTINCT cluster_id FROM memory_cluster_members WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s)
"""
FIND_ALL: Final = "SELECT id FROM memory_clusters WHERE namespace_id = %(namespace_id)s"

# Locked by a statement of its own: the next one sees what others did while this one waited. Uses memory_clusters_pkey.
LOCK: Final = """
SELECT id FROM memory_clusters WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE
"""
# A cluster lies at the mean of its members, each at the mean of its parts. Vectors that cancel each other out have no
# mean to speak of. Uses memory_clusters_pkey, memory_cluster_members_pkey, memories_pkey and memory_vectors_pkey.
RENEW: Final = f"""
UPDATE memory_clusters c SET centroid = fresh.centroid, updated_at = now(),
  model_id = CASE WHEN fresh.centroid IS NULL THEN NULL ELSE fresh.model_id END
FROM (
  SELECT t.id, active.model_id, CASE WHEN l2_norm(t.middle) > 1e-3 THEN l2_normalize(t.middle) END AS centroid
  FROM (SELECT coalesce(%(model_id)s::smallint, {ACTIVE_MODEL}) AS model_id) AS active CROSS JOIN LATERAL (
    SELECT given.id, (SELECT avg(p.place) FROM (
        SELECT s.memory_id FROM (SELECT s.memory_id, s.strength FROM memory_cluster_members s
          WHERE s.namespace_id = %(namespace_id)s AND s.cluster_id = given.id ORDER BY s.strength DESC, s.memory_id DESC OFFSET 0) AS s
        {OF_MEMBER}
        WHERE {VISIBLE} LIMIT {MOST_AVERAGED}) AS s
      CROSS JOIN LATERAL (SELECT avg(v.embedding) AS place FROM memory_vectors v
        WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = s.memory_id AND v.model_id = active.model_id OFFSET 0) AS p) AS middle
    FROM unnest(%(ids)s::uuid[]) AS given(id) OFFSET 0) AS t
) AS fresh
WHERE c.namespace_id = %(namespace_id)s AND c.id = fresh.id
"""

# Members that are forgotten or expired do not count. Uses memory_clusters_pkey and memory_cluster_members_pkey.
LIST: Final = f"""
SELECT c.*, inside.memory_count, inside.memory_ids
FROM (
  SELECT c.id, c.type, c.name, c.description, c.keywords, c.emotional_signature, c.importance, c.activation_count,
    c.last_activated_at, c.created_at, c.updated_at, c.centroid IS NOT NULL AS has_centroid
  FROM memory_clusters c
  WHERE c.namespace_id = %(namespace_id)s AND (%(ids)s::uuid[] IS NULL OR c.id = ANY(%(ids)s))
    AND (%(type)s::text IS NULL OR c.type = %(type)s)
  ORDER BY {{order}} LIMIT %(limit)s) AS c
CROSS JOIN LATERAL (
  SELECT count(*) AS memory_count,
    coalesce((array_agg(s.memory_id ORDER BY s.strength DESC, s.memory_id))[:%(members)s], ARRAY[]::uuid[]) AS memory_ids
  FROM memory_cluster_members s
  {OF_MEMBER}
  WHERE s.namespace_id = %(namespace_id)s AND s.cluster_id = c.id AND {VISIBLE} OFFSET 0) AS inside
ORDER BY {{order}}
"""
COUNT: Final = """
SELECT count(*) AS total FROM memory_clusters
WHERE namespace_id = %(namespace_id)s AND (%(type)s::text IS NULL OR type = %(type)s)
"""
ORDERS: Final[dict[Sort, str]] = {
    "importance": "c.importance DESC, c.activation_count DESC, c.last_activated_at DESC NULLS LAST, c.id DESC",
    "activity": "c.last_activated_at DESC NULLS LAST, c.activation_count DESC, c.importance DESC, c.id DESC",
    "name": "lower(c.name), c.id",
    "created": "c.created_at DESC, c.id DESC",
}

# Uses memory_cluster_members_pkey, memories_pkey and memory_activation_pkey.
INSIGHTS: Final = f"""
SELECT s.cluster_id AS id, count(*) AS total_memories, avg(a.importance) AS average_importance,
  avg(s.strength) AS average_strength, max(a.last_accessed_at) AS last_accessed_at,
  count(*) FILTER (WHERE m.created_at > now() - interval '7 days') AS recent_memories,
  count(*) FILTER (WHERE s.automatic) AS automatic_members,
  {", ".join(f"count(*) FILTER (WHERE m.type = '{type_}') AS {type_}" for type_ in TYPES)}
FROM memory_cluster_members s
{OF_MEMBER}
CROSS JOIN LATERAL (SELECT a.importance, a.last_accessed_at FROM memory_activation a
  WHERE a.namespace_id = %(namespace_id)s AND a.memory_id = s.memory_id OFFSET 0) AS a
WHERE s.namespace_id = %(namespace_id)s AND s.cluster_id = ANY(%(ids)s) AND {VISIBLE} GROUP BY s.cluster_id
"""
# A cluster without a centroid is similar to nothing, nor is one of another model. Uses memory_clusters_pkey.
SIMILAR: Final = """
SELECT c.id AS of, other.id, other.name, other.type, 1 - (c.centroid <=> other.centroid) AS similarity
FROM memory_clusters c JOIN memory_clusters other
  ON other.namespace_id = %(namespace_id)s AND other.id <> c.id AND other.model_id = c.model_id
WHERE c.namespace_id = %(namespace_id)s AND c.id = ANY(%(ids)s) AND c.centroid IS NOT NULL AND other.centroid IS NOT NULL
  AND 1 - (c.centroid <=> other.centroid) BETWEEN %(threshold)s AND 1.01
ORDER BY similarity DESC, other.id
"""

# +1 exactly, whoever else calls it up at the same time. Uses memory_clusters_pkey.
ACTIVATE: Final = """
WITH counted AS (
  UPDATE memory_clusters SET activation_count = activation_count + 1, last_activated_at = now()
  WHERE namespace_id = %(namespace_id)s AND id = %(id)s RETURNING name, activation_count, last_activated_at
), history AS (
  INSERT INTO memory_cluster_activations (namespace_id, cluster_id, id, context, strength, session_id, at)
  SELECT %(namespace_id)s, %(id)s, %(activation_id)s, %(context)s, %(strength)s, %(session_id)s, last_activated_at FROM counted
  RETURNING 1
)
SELECT * FROM counted
"""
# Uses memory_cluster_members_pkey, memories_pkey and memory_activation_pkey.
BRING: Final = f"""
SELECT s.memory_id AS id, m.type, m.content, a.importance, s.strength, s.automatic,
  pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance
FROM memory_cluster_members s
{OF_MEMBER}
CROSS JOIN LATERAL (SELECT a.importance, a.relevance_anchor, a.rate_per_day FROM memory_activation a
  WHERE a.namespace_id = %(namespace_id)s AND a.memory_id = s.memory_id OFFSET 0) AS a
WHERE s.namespace_id = %(namespace_id)s AND s.cluster_id = %(id)s AND {VISIBLE}
ORDER BY s.strength DESC, relevance DESC, s.memory_id DESC LIMIT {RECALLED}
"""

# For each cluster the others called up in the same conversation or about the same time, and at how many of its newest
# activations. Uses memory_cluster_activations_pkey and memory_cluster_activations_by_time.
TOGETHER_WITH: Final = f"""
WITH lately AS MATERIALIZED (
  SELECT cluster_id, session_id, at FROM memory_cluster_activations WHERE namespace_id = %(namespace_id)s AND at >= %(since)s
), mine AS MATERIALIZED (
  SELECT given.id AS cluster_id, a.id, a.session_id, a.at FROM unnest(%(ids)s::uuid[]) AS given(id)
  CROSS JOIN LATERAL (SELECT a.id, a.session_id, a.at FROM memory_cluster_activations a
    WHERE a.namespace_id = %(namespace_id)s AND a.cluster_id = given.id AND a.at >= %(since)s ORDER BY a.id DESC LIMIT {PAIRED}) AS a
), pairs AS (
  SELECT mine.cluster_id, mine.id, lately.cluster_id AS other FROM mine JOIN lately USING (session_id)
  UNION
  SELECT mine.cluster_id, mine.id, near.cluster_id FROM mine CROSS JOIN LATERAL (SELECT a.cluster_id FROM memory_cluster_activations a
    WHERE a.namespace_id = %(namespace_id)s AND a.at >= greatest(%(since)s, mine.at - interval '{TOGETHER}')
      AND a.at <= mine.at + interval '{TOGETHER}' OFFSET 0) AS near
)
SELECT pairs.cluster_id AS of, c.id, c.name, c.type, count(DISTINCT pairs.id) AS times
FROM pairs JOIN memory_clusters c ON c.namespace_id = %(namespace_id)s AND c.id = pairs.other
WHERE pairs.other <> pairs.cluster_id
GROUP BY 1, 2, 3, 4 ORDER BY times DESC, c.id
"""
# Uses memory_cluster_activations_by_time and memory_clusters_pkey.
THEMES: Final = """
SELECT c.id, c.type, c.name, c.emotional_signature, c.keywords, lately.recent_activations, lately.last_activated_at
FROM (SELECT cluster_id, count(*) AS recent_activations, max(at) AS last_activated_at FROM memory_cluster_activations
      WHERE namespace_id = %(namespace_id)s AND at >= %(since)s GROUP BY cluster_id) AS lately
JOIN memory_clusters c ON c.namespace_id = %(namespace_id)s AND c.id = lately.cluster_id
WHERE (%(type)s::text IS NULL OR c.type = %(type)s) AND (%(ids)s::uuid[] IS NULL OR c.id = ANY(%(ids)s))
ORDER BY lately.recent_activations DESC, lately.last_activated_at DESC, c.id DESC LIMIT %(limit)s
"""
SINCE: Final = "SELECT now() - make_interval(days => %(days)s) AS since"


async def add_cluster(tx: Transaction, fields: dict[str, Any]) -> UUID:
    """Make a cluster without members from its columns, and return its key."""
    id_ = uuid7()
    signature = fields["emotional_signature"]
    await tx.run(ADD, {**fields, "id": id_, "emotional_signature": None if signature is None else Jsonb(signature)})
    return id_


async def change_cluster(tx: Transaction, id_: UUID, fields: dict[str, Any]) -> None:
    """Set columns of a cluster; their names come from our own request, never from a caller."""
    values = dict(fields)
    if values.get("emotional_signature") is not None:
        values["emotional_signature"] = Jsonb(values["emotional_signature"])
    assignments = [sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in values]
    statement = sql.SQL(
        "UPDATE memory_clusters SET {}, updated_at = now() WHERE namespace_id = %(namespace_id)s AND id = %(key)s"
    )
    await tx.run(statement.format(sql.SQL(", ").join(assignments)), {**values, "key": id_})


async def drop(tx: Transaction, id_: UUID) -> None:
    """Remove a cluster with its membership and activations; its memories stay."""
    await tx.run(DROP, {"id": id_})


async def resolve_clusters(tx: Transaction, given: str) -> list[UUID]:
    """Return the clusters that an id or the end of one may mean."""
    digits = given.replace("-", "").lower()
    return [row["id"] for row in await tx.rows(FIND_BY_END, {"digits": digits})]


async def put(tx: Transaction, id_: UUID, memories: Sequence[UUID], strength: float) -> set[UUID]:
    """Put memories into a cluster, or change how strongly they belong to it; return those that were new."""
    rows = await tx.rows(ADD_MEMBERS, {"cluster_id": id_, "ids": list(memories), "strength": strength})
    return {row["memory_id"] for row in rows if row["added"]}


async def take(tx: Transaction, id_: UUID, memories: Sequence[UUID]) -> set[UUID]:
    """Take memories out of a cluster, and return those that were in it."""
    rows = await tx.rows(DROP_MEMBERS, {"cluster_id": id_, "ids": list(memories)})
    return {row["memory_id"] for row in rows}


async def assign(tx: Transaction, memories: Sequence[UUID]) -> None:
    """Put new memories into the clusters they are most like, at most three each, and move those clusters' centroids."""
    if memories:
        await renew_centroids(tx, {row["cluster_id"] for row in await tx.rows(ASSIGN, {"ids": list(memories)})})


async def reassign(tx: Transaction, memories: Sequence[UUID]) -> None:
    """Let memories whose text has changed leave and join clusters by themselves."""
    given = {"ids": list(memories)}
    touched = {row["cluster_id"] for row in await tx.rows(DROP_AUTOMATIC, given)}
    touched |= {row["cluster_id"] for row in await tx.rows(ASSIGN, given)}
    await renew_centroids(tx, touched | await of(tx, memories))


async def of(tx: Transaction, memories: Sequence[UUID]) -> set[UUID]:
    """Return the clusters that any of these memories is in."""
    return {row["cluster_id"] for row in await tx.rows(FIND_OF_MEMORIES, {"ids": list(memories)})}


async def renew_of(tx: Transaction, memories: Sequence[UUID]) -> None:
    """Move the centroids of the clusters of memories that were forgotten, restored or embedded again."""
    await renew_centroids(tx, await of(tx, memories))


async def renew_centroids(tx: Transaction, ids: set[UUID], model_id: int | None = None) -> None:
    """Work out the centroids of clusters from their members, by the active model unless told another."""
    if ids:
        given = {"ids": sorted(ids)}
        await tx.rows(LOCK, given)
        await tx.run(RENEW, {**given, "model_id": model_id})


async def recompute(tx: Transaction, model_id: int) -> None:
    """Work out the centroids of all clusters of the namespace again, after the store has moved to another model."""
    await renew_centroids(tx, {row["id"] for row in await tx.rows(FIND_ALL)}, model_id)


async def list_clusters(
    tx: Transaction, *, ids: Sequence[UUID] | None, type_: str | None, sort: Sort, members: int, limit: int
) -> list[Row]:
    """Return clusters in the order asked for, each with how many memories it shows and its strongest ones."""
    given = {"ids": None if ids is None else list(ids), "type": type_, "members": members, "limit": limit}
    return await tx.rows(LIST.format(order=ORDERS[sort]), given)


async def count_clusters(tx: Transaction, type_: str | None) -> int:
    """Return how many clusters there are."""
    row = await tx.row(COUNT, {"type": type_})
    return 0 if row is None else int(row["total"])


async def insights(tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, Row]:
    """Return what can be said of the members of each cluster that has any."""
    return {row["id"]: row for row in await tx.rows(INSIGHTS, {"ids": list(ids)})}


async def similar(tx: Transaction, ids: Sequence[UUID], threshold: float) -> list[Row]:
    """Return the clusters like these ones (`of`), most similar first."""
    return await tx.rows(SIMILAR, {"ids": list(ids), "threshold": threshold})


async def activate(
    tx: Transaction, id_: UUID, *, context: str | None, strength: float, session_id: str
) -> tuple[Row | None, list[Row]]:
    """Call a cluster up: count it, tell it, and return the count and the memories it brings."""
    counted = await tx.row(
        ACTIVATE,
        {"id": id_, "activation_id": uuid7(), "context": context, "strength": strength, "session_id": session_id},
    )
    return counted, await tx.rows(BRING, {"id": id_})


async def themes(
    tx: Transaction, days: int, *, ids: Sequence[UUID] | None, type_: str | None, limit: int
) -> tuple[list[Row], list[Row]]:
    """Return the clusters called up within `days`, most often first, and what was called up with them."""
    moment = await tx.row(SINCE, {"days": days})
    since = None if moment is None else moment["since"]
    given = {"since": since, "type": type_, "limit": limit, "ids": None if ids is None else list(ids)}
    found = await tx.rows(THEMES, given)
    return found, await tx.rows(TOGETHER_WITH, {"since": since, "ids": [row["id"] for row in found]})


async def together_with(tx: Transaction, id_: UUID, days: int) -> list[Row]:
    """Return the clusters called up together with one within the last `days`."""
    moment = await tx.row(SINCE, {"days": days})
    return await tx.rows(TOGETHER_WITH, {"since": None if moment is None else moment["since"], "ids": [id_]})
