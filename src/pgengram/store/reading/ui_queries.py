"""What only somebody who looks at the store asks for: days, the strongest links, all vectors, a memory's last uses."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from pgengram.errors import NotFound
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.schema import VISIBLE

if TYPE_CHECKING:
    from numpy import float16
    from numpy.typing import NDArray
    from psycopg import AsyncConnection

MAX_DAYS: Final = 20_000
MAX_ASSISTANTS: Final = 50

# Reads all of the namespace's memories, as memories without a day of their own count on the day they were stored. Uses
# memories_by_time for finding the namespace's.
DAYS: Final = f"""
SELECT (CASE WHEN m.occurred_at IS NULL THEN m.created_at ELSE m.occurred_at END AT TIME ZONE 'UTC')::date AS day, count(*) AS memories FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND {VISIBLE}
GROUP BY day ORDER BY day DESC LIMIT %(limit)s
"""
# Reads all of the namespace's edges; uses memory_relationships_pkey and memories_pkey.
STRONGEST: Final = """
SELECT r.from_id, r.to_id, r.type, r.strength FROM memory_relationships r
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = r.from_id
JOIN memories o ON o.namespace_id = %(namespace_id)s AND o.id = r.to_id
WHERE r.namespace_id = %(namespace_id)s AND m.status = 'active' AND o.status = 'active'
ORDER BY r.strength DESC, r.from_id DESC, r.to_id DESC, r.type LIMIT %(limit)s
"""
# The same sample each time: memories in the order of a hash of their ids. Uses memory_vectors_pkey.
SAMPLE: Final = """
SELECT v.embedding FROM memory_vectors v
WHERE v.namespace_id = %(namespace_id)s AND v.model_id = %(model_id)s AND v.part = 0
ORDER BY hashtext(v.memory_id::text) LIMIT %(limit)s
"""
# Goes through memory_vectors_pkey and memories_pkey side by side; uses memory_cluster_members_by_memory and
# memory_clusters_pkey and memory_tags_pkey.
VECTORS: Final = f"""
SELECT m.id, m.type, v.embedding, left(m.content, 240) AS excerpt, c.name AS cluster,
  ARRAY(SELECT tag FROM memory_tags t WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = m.id) AS tags FROM memory_vectors v
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = v.memory_id
LEFT JOIN LATERAL (SELECT c.name FROM memory_cluster_members b
  JOIN memory_clusters c ON c.namespace_id = %(namespace_id)s AND c.id = b.cluster_id
  WHERE b.namespace_id = %(namespace_id)s AND b.memory_id = m.id ORDER BY b.strength DESC, c.id LIMIT 1) AS c ON true
WHERE v.namespace_id = %(namespace_id)s AND v.model_id = %(model_id)s AND v.part = 0 AND v.memory_id > %(after)s
  AND {VISIBLE}
ORDER BY v.memory_id LIMIT %(limit)s
"""
# Uses memory_activation_pkey.
ACTIVATION: Final = """
SELECT started_at, importance, rate_per_day, reinforcement, last_accessed_at, used_at, use_weights FROM memory_activation
WHERE namespace_id = %(namespace_id)s AND memory_id = %(id)s
"""
# Of the memories stored last, and of one that is looked at. Uses memories_by_time and memories_pkey.
NEWEST: Final = f"""
(SELECT id, version FROM memories m WHERE m.namespace_id = %(namespace_id)s AND {VISIBLE}
ORDER BY created_at DESC LIMIT %(limit)s)
UNION SELECT id, version FROM memories WHERE namespace_id = %(namespace_id)s AND id = %(id)s
"""
# What others did since a moment; an import is what somebody chose. Reads the namespace's history; uses
# memory_history_pkey and memories_pkey.
NEWS: Final = """
SELECT h.memory_id AS id, h.version, h.operation, h.at, h.actor, h.changes, m.version = h.version AS newest, count(*) OVER () AS in_all
FROM memory_history h JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = h.memory_id
WHERE h.namespace_id = %(namespace_id)s AND h.at > %(since)s AND h.operation <> 'import' AND h.actor IS DISTINCT FROM %(own)s
ORDER BY h.at DESC, h.memory_id DESC, h.version DESC LIMIT %(limit)s
"""
# Reads all of the namespace's memories. Uses memories_by_time.
ASSISTANTS: Final = f"""
SELECT m.source_provider AS name, count(*) AS memories, max(m.created_at) AS last FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND {VISIBLE} AND m.source_provider IS NOT NULL
GROUP BY m.source_provider ORDER BY last DESC LIMIT %(limit)s
"""
# Uses namespaces_name_key.
NAMESPACES: Final = "SELECT name FROM namespaces ORDER BY name"


async def days(tx: Transaction) -> dict[date, int]:
    """Return the days (UTC) on which something happened or was stored, newest first, with counts."""
    return {row["day"]: row["memories"] for row in await tx.rows(DAYS, {"limit": MAX_DAYS})}


async def news(tx: Transaction, since: datetime, own: str, *, limit: int) -> list[Row]:
    """Return what others than `own` did since a moment, latest first; each row has how much there is, as `in_all`."""
    return await tx.rows(NEWS, {"since": since, "own": own, "limit": limit})


async def assistants(tx: Transaction) -> list[Row]:
    """Return who stored memories, the latest first: name, memories, last."""
    return await tx.rows(ASSISTANTS, {"limit": MAX_ASSISTANTS})


async def namespaces(login: AsyncConnection[Row]) -> list[str]:
    """Return the names of all namespaces, in order."""
    return [row["name"] for row in await (await login.execute(NAMESPACES)).fetchall()]


async def strongest(tx: Transaction, *, nodes: int, edges: int) -> list[Row]:
    """Return the strongest edges between at most so many active memories."""
    found: list[Row] = []
    seen: set[UUID] = set()
    for row in await tx.rows(STRONGEST, {"limit": edges}):
        ends = {row["from_id"], row["to_id"]}
        if len(seen | ends) <= nodes:
            seen |= ends
            found.append(row)
    return found


async def newest_versions(tx: Transaction, id_: UUID | None, *, limit: int) -> dict[str, int]:
    """Return the versions of the memories stored last, and of the one with an id, by their ids."""
    return {str(row["id"]): row["version"] for row in await tx.rows(NEWEST, {"id": id_, "limit": limit})}


async def activation(tx: Transaction, id_: UUID) -> Row:
    """Return what makes the relevance of a memory, and its last uses.

    Raises:
        NotFound: it was erased meanwhile.
    """
    row = await tx.row(ACTIVATION, {"id": id_})
    if row is None:
        raise NotFound("memory", id_)
    return row


async def sample(tx: Transaction, *, limit: int) -> list[NDArray[float16]]:
    """Return the vectors of up to `limit` memories, whatever has become of them; each of shape (dims,)."""
    rows = await tx.rows(SAMPLE, {"model_id": tx.model_id, "limit": limit})
    return [row["embedding"].to_numpy() for row in rows]


async def vectors(tx: Transaction, after: UUID, *, limit: int) -> list[Row]:
    """Return the next active memories that have a vector, by their ids: id, type, embedding, excerpt, cluster, tags."""
    return await tx.rows(VECTORS, {"model_id": tx.model_id, "after": after, "limit": limit})
