"""Which memories come from somewhere that anybody can write to, such as a web page or what a tool printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from pgengram.runtime.context import PEOPLE
from pgengram.store.connection.database import Transaction

# Kinds of sources that say what strangers wrote; any with a web address is one, too, and a turn that a tool printed.
STRANGERS: Final = (
    "web", "webpage", "web page", "website", "page", "url", "link", "search", "tool", "tool output", "tool_output",
    "mcp", "api", "email", "mail", "message", "issue", "comment", "document", "file", "pdf", "download", "rss", "feed",
)  # fmt: skip
# A memory is trusted as little as the least trusted of those that it replaces or was merged from, unless a person
# confirmed or wrote what it says now. Uses memories_hidden,
# memories_pkey and memory_history_pkey.
UNTRUSTED: Final = """
WITH RECURSIVE made_of AS (
  SELECT id AS shown, id FROM unnest(%(ids)s::uuid[]) AS id
  UNION
  SELECT made_of.shown, m.id FROM made_of JOIN memories m
  ON m.namespace_id = %(namespace_id)s AND m.status <> 'active' AND made_of.id = ANY(m.replaced_by)
)
SELECT DISTINCT made_of.shown AS id FROM made_of
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = made_of.id
CROSS JOIN LATERAL jsonb_array_elements(coalesce(m.sources, '[]'::jsonb)) AS s
WHERE (lower(s ->> 'kind') = ANY(%(strangers)s) OR s ->> 'ref' ~* '^(https?://|tool:)' OR s ->> 'label' ~* '^https?://')
  AND NOT coalesce((
    SELECT h.actor = ANY(%(people)s) FROM memory_history h
    WHERE h.namespace_id = %(namespace_id)s AND h.memory_id = made_of.shown
      AND (h.operation = 'confirm' AND h.actor = ANY(%(people)s) OR h.changes ? 'content')
    ORDER BY h.version DESC LIMIT 1), false)
"""


async def untrusted(tx: Transaction, ids: Sequence[UUID]) -> set[UUID]:
    """Return those of the memories that strangers may have written, and that no person has confirmed."""
    given = {"ids": list(ids), "strangers": list(STRANGERS), "people": list(PEOPLE)}
    return {row["id"] for row in await tx.rows(UNTRUSTED, given)}
