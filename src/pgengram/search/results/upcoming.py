"""What a digest needs to know of memories beside their texts: which happen soon, and which are near to each other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from pgengram.search.filters import WITH_ACTIVATION
from pgengram.search.results.hits import HIT_COLUMNS, Hit, hits_of
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.schema.visibility import VISIBLE

LOOKED_AT: Final = 5_000  # of the newest memories, whose texts are read for dates
MOST: Final = 50
NEIGHBOURS: Final = 5  # of each memory that are told

# Those that happen or end in a time, or whose text has one of its days. Uses memories_by_time
# and memories_pkey.
SOON: Final = f"""
WITH soon AS MATERIALIZED (SELECT id FROM (
  SELECT m.id, m.content, m.occurred_at, m.expires_at FROM memories m
  WHERE m.namespace_id = %(namespace_id)s AND {VISIBLE} ORDER BY m.created_at DESC, m.id DESC LIMIT {LOOKED_AT}) AS newest
WHERE occurred_at >= %(start)s AND occurred_at < %(end)s OR expires_at < %(end)s OR content ~* %(written)s
LIMIT {MOST})
SELECT {HIT_COLUMNS} FROM soon JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = soon.id {WITH_ACTIVATION}
"""
# By the first parts of two texts, each with its nearest among those asked for. Uses memory_vectors_pkey.
NEAR: Final = f"""
WITH chosen AS MATERIALIZED (
  SELECT h.id AS memory_id, v.embedding FROM unnest(%(ids)s::uuid[]) AS h(id)
  CROSS JOIN LATERAL (SELECT v.embedding FROM memory_vectors v
    WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = h.id AND v.model_id = %(model_id)s AND v.part = 0 OFFSET 0) AS v
)
SELECT one.memory_id AS one, near.memory_id AS other, near.cosine FROM chosen AS one CROSS JOIN LATERAL (
  SELECT other.memory_id, 1 - (one.embedding <=> other.embedding) AS cosine FROM chosen AS other
  WHERE other.memory_id <> one.memory_id ORDER BY one.embedding <=> other.embedding LIMIT {NEIGHBOURS}) AS near
"""


async def soon(tx: Transaction, start: datetime, end: datetime, written: str) -> list[Hit]:
    """Return memories that happen from `start` to before `end`, end before that, or name one of its days.

    Args:
        tx: the namespace's transaction.
        start: of the time.
        end: of the time.
        written: a regular expression of PostgreSQL for its days as texts have them.
    """
    return hits_of(await tx.rows(SOON, {"start": start, "end": end, "written": written}))


async def near(tx: Transaction, ids: Sequence[UUID], model_id: int) -> list[Row]:
    """Return `one`, `other` and `cosine` for each of some memories and its nearest among them."""
    return await tx.rows(NEAR, {"ids": list(ids), "model_id": model_id})
