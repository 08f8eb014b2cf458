"""How much each project has, and what belongs to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from pgengram.store.connection.database import Row, Transaction

# Uses memories_by_project and conversations_pkey.
COUNTED: Final = """
SELECT name, sum(memories)::int AS memories, sum(conversations)::int AS conversations FROM (
  SELECT m.project AS name, count(*) AS memories, 0 AS conversations FROM memories m
  WHERE m.namespace_id = %(namespace_id)s AND m.project IS NOT NULL AND m.status = 'active' GROUP BY m.project
  UNION ALL
  SELECT c.project, 0, count(*) FROM conversations c
  WHERE c.namespace_id = %(namespace_id)s AND c.project IS NOT NULL GROUP BY c.project
) AS each GROUP BY name ORDER BY 2 DESC, 3 DESC, 1
"""
# Uses memories_by_project.
MEMORIES: Final = """
SELECT m.id FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.project = ANY(%(names)s::text[]) AND m.project <> %(new)s
  AND m.status IN ('active', 'archived')
ORDER BY m.id
"""
# Uses conversations_pkey and conversation_turns_pkey.
MOVE_CONVERSATIONS: Final = """
WITH turns AS (
  UPDATE conversation_turns SET project = %(new)s
  WHERE namespace_id = %(namespace_id)s AND project = ANY(%(names)s::text[])
)
UPDATE conversations SET project = %(new)s
WHERE namespace_id = %(namespace_id)s AND project = ANY(%(names)s::text[]) AND project <> %(new)s
"""


async def stored_projects(tx: Transaction) -> list[Row]:
    """Return the stored projects, each with how many memories and conversations it has, the largest first."""
    return await tx.rows(COUNTED)


async def memories_of(tx: Transaction, names: Sequence[str], new: str) -> list[UUID]:
    """Return the memories of a project by its names that don't have its new name."""
    return [row["id"] for row in await tx.rows(MEMORIES, {"names": [*names], "new": new})]


async def move_conversations(tx: Transaction, names: Sequence[str], new: str) -> int:
    """Give the conversations of a project its new name; return how many there were."""
    return await tx.run(MOVE_CONVERSATIONS, {"names": [*names], "new": new})
