"""What was put before a model unasked: a receipt for each memory and conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from pgengram.store.connection.database import Row, Transaction

MOST: Final = 20_000  # receipts of a namespace: over two hundred a day for ninety days


@dataclass(frozen=True, slots=True)
class Receipt:
    """That a version of a memory was put before a model.

    Args:
        score: of the search that found it; None where nothing was asked.
        tokens: about how many it took.
    """

    memory_id: UUID
    version: int
    score: float | None
    tokens: int


# Uses recall_receipts_by_conversation.
GIVEN: Final = """
SELECT memory_id, version FROM recall_receipts
WHERE namespace_id = %(namespace_id)s AND client = %(client)s AND conversation = %(conversation)s
"""
# Uses recall_receipts_pkey.
ADD: Final = """
INSERT INTO recall_receipts (namespace_id, memory_id, client, conversation, version, event, project, score, evidence, tokens,
  milliseconds)
SELECT %(namespace_id)s, r.memory_id, %(client)s, %(conversation)s, r.version, %(event)s, %(project)s, r.score, %(evidence)s,
  r.tokens, %(milliseconds)s
FROM jsonb_to_recordset(%(receipts)s) AS r(memory_id uuid, version integer, score real, tokens integer)
ON CONFLICT DO NOTHING
"""
# Read, changed or linked to since, by whomever. There are few beside the memories; uses memories_pkey,
# memory_activation_pkey and memory_relationships_to.
LIST: Final = """
SELECT r.at, r.client, r.conversation, r.event, r.project, r.memory_id, r.score, r.evidence, r.tokens, r.milliseconds,
  left(m.content, %(chars)s) AS content, coalesce(a.last_accessed_at > r.at, false) OR m.updated_at > r.at OR EXISTS (
    SELECT 1 FROM memory_relationships e
    WHERE e.namespace_id = %(namespace_id)s AND e.to_id = m.id AND e.created_at > r.at) AS used
FROM recall_receipts r
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = r.memory_id
JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = r.memory_id
WHERE r.namespace_id = %(namespace_id)s AND (%(conversation)s::text IS NULL OR r.conversation = %(conversation)s)
ORDER BY r.at DESC, r.memory_id LIMIT %(limit)s OFFSET %(offset)s
"""
# Uses recall_receipts_by_conversation; there are a few for each conversation.
FORGET_OLD: Final = """
DELETE FROM recall_receipts WHERE namespace_id = %(namespace_id)s AND (at <= now() - make_interval(days => %(keep_days)s)
  OR at < (SELECT at FROM recall_receipts WHERE namespace_id = %(namespace_id)s ORDER BY at DESC OFFSET %(most)s LIMIT 1))
"""


async def given(tx: Transaction, client: str, conversation: str) -> set[tuple[UUID, int]]:
    """Return which memories were put before the model in a conversation, each with its version."""
    rows = await tx.rows(GIVEN, {"client": client, "conversation": conversation})
    return {(row["memory_id"], row["version"]) for row in rows}


async def add_receipts(tx: Transaction, receipts: Sequence[Receipt], **about: Any) -> None:
    """Log what is put before the model at one moment.

    Args:
        tx: the namespace's transaction.
        receipts: one for each memory.
        about: client, conversation, event, project, evidence and milliseconds.
    """
    rows = [
        {"memory_id": str(r.memory_id), "version": r.version, "score": r.score, "tokens": r.tokens} for r in receipts
    ]
    await tx.run(ADD, {**about, "receipts": Jsonb(rows)})


async def list_receipts(
    tx: Transaction, *, conversation: str | None, limit: int, offset: int = 0, chars: int
) -> list[Row]:
    """Return receipts, the latest first, each with the memory's text and whether it was read or changed since."""
    return await tx.rows(LIST, {"conversation": conversation, "limit": limit, "offset": offset, "chars": chars})


async def remove_old_receipts(tx: Transaction, keep_days: int) -> None:
    """Take away receipts that were kept as long as turns are, and the oldest of more than `MOST`."""
    await tx.run(FORGET_OLD, {"keep_days": keep_days, "most": MOST - 1})
