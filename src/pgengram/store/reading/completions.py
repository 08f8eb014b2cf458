"""What there is to choose from: ids, tags and projects that begin as somebody has begun to type."""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

from pgengram.store.connection.database import Transaction
from pgengram.store.schema.visibility import VISIBLE

# Uses memories_pkey, from its end: the newest ids first.
IDS_BY_BEGINNING: Final = f"""
SELECT m.id FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.id BETWEEN %(first)s AND %(last)s AND {VISIBLE}
ORDER BY m.id DESC LIMIT %(limit)s
"""

# Uses memories_by_short_id.
IDS_BY_END: Final = f"""
SELECT m.id FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.short_id >= %(begun)s AND m.short_id < %(begun)s || 'g' AND {VISIBLE}
ORDER BY m.id DESC LIMIT %(limit)s
"""

# Uses memory_tags_by_tag and memories_pkey; all tags are read, as those that are used most come first.
TAGS: Final = f"""
SELECT t.tag AS word FROM memory_tags t JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = t.memory_id
WHERE t.namespace_id = %(namespace_id)s AND starts_with(t.tag, %(begun)s) AND {VISIBLE}
GROUP BY t.tag ORDER BY count(*) DESC, t.tag LIMIT %(limit)s
"""

# Uses memories_by_project.
PROJECTS: Final = f"""
SELECT m.project AS word FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.project IS NOT NULL AND starts_with(lower(m.project), lower(%(begun)s)) AND {VISIBLE}
GROUP BY m.project ORDER BY count(*) DESC, m.project LIMIT %(limit)s
"""


async def ids(tx: Transaction, begun: str, limit: int) -> list[str]:
    """Return whole ids whose first digits, or the first of their last eight, are `begun`; the newest first."""
    digits = begun.strip().lower().replace("-", "")
    if not re.fullmatch(r"[0-9a-f]{0,32}", digits):
        return []
    bounds = {"first": UUID(digits.ljust(32, "0")), "last": UUID(digits.ljust(32, "f")), "limit": limit}
    rows = await tx.rows(IDS_BY_BEGINNING, bounds)
    if 0 < len(digits) <= 8:
        rows += await tx.rows(IDS_BY_END, {"begun": digits, "limit": limit})
    return list(dict.fromkeys(str(row["id"]) for row in rows))[:limit]


async def tags_beginning(tx: Transaction, begun: str, limit: int) -> list[str]:
    """Return the tags of visible memories that begin with `begun`, the most used first."""
    return [row["word"] for row in await tx.rows(TAGS, {"begun": begun, "limit": limit})]


async def projects(tx: Transaction, begun: str, limit: int) -> list[str]:
    """Return the projects of visible memories that begin with `begun`, the most used first."""
    return [row["word"] for row in await tx.rows(PROJECTS, {"begun": begun, "limit": limit})]
