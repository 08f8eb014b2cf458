"""Which memories a plan of changes may be about: those that faded, those with certain tags."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from pgengram.store.connection.database import Transaction

# Those that are long stored, matter little and were hardly read; the oldest first. Pinned ones are left alone. Uses
# memories_by_time or memories_hidden, and memory_activation_pkey.
FADED: Final = """
SELECT m.id, count(*) OVER () AS found FROM memories m
JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id
WHERE m.namespace_id = %(namespace_id)s AND m.status = %(status)s AND NOT m.pinned
  AND m.created_at < now() - %(age)s AND a.importance < %(importance)s AND a.access_count <= %(accesses)s
  AND (%(projects)s::text[] IS NULL OR m.project = ANY(%(projects)s))
ORDER BY m.created_at, m.id LIMIT %(limit)s
"""

# Uses memory_tags_by_tag and memories_pkey.
TAGGED: Final = """
SELECT m.id, count(*) OVER () AS found, ARRAY(SELECT tag FROM memory_tags t
  WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = m.id AND t.tag = ANY(%(tags)s)) AS tags
FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.status IN ('active', 'archived')
  AND m.id IN (SELECT memory_id FROM memory_tags WHERE namespace_id = %(namespace_id)s AND tag = ANY(%(tags)s))
  AND (%(projects)s::text[] IS NULL OR m.project = ANY(%(projects)s))
ORDER BY m.id LIMIT %(limit)s
"""


async def faded(
    tx: Transaction,
    *,
    status: str,
    age: timedelta,
    importance: float,
    accesses: int,
    projects: Sequence[str] | None,
    limit: int,
) -> tuple[list[UUID], int]:
    """Return memories of `status` that were stored longer ago than `age`, are less important than `importance` and were
    read at most `accesses` times, the oldest first; and how many there are.
    """
    given = {"status": status, "age": age, "importance": importance, "accesses": accesses}
    rows = await tx.rows(FADED, {**given, "projects": projects, "limit": limit})
    return [row["id"] for row in rows], rows[0]["found"] if rows else 0


async def tagged(
    tx: Transaction, tags: Sequence[str], *, projects: Sequence[str] | None, limit: int
) -> tuple[dict[UUID, list[str]], int]:
    """Return memories that have some of `tags`, the oldest first, each with those; and how many memories there are."""
    rows = await tx.rows(TAGGED, {"tags": list(tags), "projects": projects, "limit": limit})
    return {row["id"]: row["tags"] for row in rows}, rows[0]["found"] if rows else 0
