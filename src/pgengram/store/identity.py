"""Who the assistant is, and what it believes, with the memories that are evidence."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from pgengram.errors import Conflict, InvalidInput, NotFound
from pgengram.ids import uuid7
from pgengram.store.connection import locks
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory.changes import merge_patch, same_json
from pgengram.text.sameness import folded

JSON_ASPECTS: Final = (
    "self_concept", "agency_beliefs", "purpose_framework", "group_identifications", "boundary_definitions",
    "emotional_baseline",
)  # fmt: skip
ASPECTS: Final = (*JSON_ASPECTS, "threat_sensitivity", "change_resistance")
EVIDENCE_EXCERPT_CHARS: Final = 160  # characters of a memory that is evidence

# A namespace has few of these; the newest is told by the moment it was recorded. Uses memory_identities_pkey.
IDENTITIES: Final = """
SELECT *, count(*) OVER () AS recordings FROM memory_identities WHERE namespace_id = %(namespace_id)s
ORDER BY created_at DESC, id DESC LIMIT %(limit)s
"""
# The clock, not the transaction's beginning: who waited for the lock is later.
ADD_IDENTITY: Final = """
INSERT INTO memory_identities (namespace_id, id, self_concept, agency_beliefs, purpose_framework, group_identifications,
  boundary_definitions, emotional_baseline, threat_sensitivity, change_resistance, session_id, created_at)
VALUES (%(namespace_id)s, %(id)s, %(self_concept)s, %(agency_beliefs)s, %(purpose_framework)s, %(group_identifications)s,
  %(boundary_definitions)s, %(emotional_baseline)s, %(threat_sensitivity)s, %(change_resistance)s, %(session_id)s,
  statement_timestamp())
"""

# Uses memory_beliefs_pkey and memory_belief_evidence_pkey; a namespace has few beliefs.
WORLDVIEW: Final = """
SELECT b.*, e.supporting, e.contradicting, count(*) OVER () AS beliefs FROM memory_beliefs b CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE supports) AS supporting, count(*) FILTER (WHERE NOT supports) AS contradicting
  FROM memory_belief_evidence WHERE namespace_id = %(namespace_id)s AND belief_id = b.id) AS e
WHERE b.namespace_id = %(namespace_id)s AND (%(id)s::uuid IS NULL OR b.id = %(id)s)
  AND (%(category)s::text IS NULL OR b.category = %(category)s)
  AND (%(min_confidence)s::double precision IS NULL OR b.confidence >= %(min_confidence)s)
ORDER BY b.confidence DESC, b.stability DESC, b.updated_at DESC, b.id LIMIT %(limit)s
"""
# Uses memory_belief_evidence_pkey and memories_pkey.
EVIDENCE: Final = """
SELECT e.belief_id, e.memory_id, e.supports, m.status, m.reason, m.replaced_by, left(m.content, %(excerpt)s) AS excerpt
FROM memory_belief_evidence e JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = e.memory_id
WHERE e.namespace_id = %(namespace_id)s AND e.belief_id = ANY(%(ids)s) ORDER BY e.supports DESC, e.added_at, e.memory_id
"""
# Uses memory_beliefs_pkey.
FIND_BELIEFS: Final = """
SELECT * FROM memory_beliefs WHERE namespace_id = %(namespace_id)s AND right(replace(id::text, '-', ''), %(length)s) = %(digits)s
LIMIT 2
"""
# Uses the unique index of belief_hash.
FIND_TWIN: Final = "SELECT * FROM memory_beliefs WHERE namespace_id = %(namespace_id)s AND belief_hash = %(hash)s"
ADD_BELIEF: Final = """
INSERT INTO memory_beliefs (namespace_id, id, category, belief, belief_hash, confidence, stability, emotional_valence, details)
VALUES (%(namespace_id)s, %(id)s, %(category)s, %(belief)s, %(belief_hash)s, %(confidence)s, %(stability)s,
  %(emotional_valence)s, %(details)s)
"""
SET_BELIEF: Final = """
UPDATE memory_beliefs SET category = %(category)s, belief = %(belief)s, belief_hash = %(belief_hash)s,
  confidence = %(confidence)s, stability = %(stability)s, emotional_valence = %(emotional_valence)s, details = %(details)s,
  version = version + 1, updated_at = statement_timestamp()
WHERE namespace_id = %(namespace_id)s AND id = %(id)s
"""
DROP_BELIEF: Final = "DELETE FROM memory_beliefs WHERE namespace_id = %(namespace_id)s AND id = %(id)s"
# Uses memory_belief_evidence_pkey.
ADD_EVIDENCE: Final = """
INSERT INTO memory_belief_evidence AS e (namespace_id, belief_id, memory_id, supports)
SELECT %(namespace_id)s, %(belief_id)s, memory_id, supports
FROM unnest(%(memory_ids)s::uuid[], %(supports)s::boolean[]) AS given(memory_id, supports) ORDER BY memory_id
ON CONFLICT (namespace_id, belief_id, memory_id) DO UPDATE SET supports = excluded.supports, added_at = excluded.added_at
  WHERE e.supports <> excluded.supports
"""
DROP_EVIDENCE: Final = """
DELETE FROM memory_belief_evidence
WHERE namespace_id = %(namespace_id)s AND belief_id = %(belief_id)s AND memory_id = ANY(%(memory_ids)s)
"""

WHERE_TO_LOOK: Final = "Use get_worldview to find the right id."
USUAL: Final[dict[str, Any]] = {
    "category": "general", "confidence": 0.8, "stability": 0.5, "emotional_valence": 0.0, "details": {},
}  # fmt: skip


async def newest_identities(tx: Transaction, limit: int) -> list[Row]:
    """Return the newest recordings of who the assistant is, each with `recordings`, how many there are in all."""
    return await tx.rows(IDENTITIES, {"limit": limit})


async def record(tx: Transaction, given: Mapping[str, Any], *, session_id: str | None) -> list[str]:
    """Record the aspects given; the others are taken along from the newest recording.

    Returns the names of those that differ from it; when none does, nothing is recorded.
    """
    await tx.row(locks.WAIT_IN_NAMESPACE, {"key": locks.IDENTITY})
    before = next(iter(await newest_identities(tx, 1)), dict.fromkeys(ASPECTS))
    after = {name: given[name] if name in given else before[name] for name in ASPECTS}
    changed = [name for name in ASPECTS if not same_json(before[name], after[name])]
    if changed:
        for name in JSON_ASPECTS:
            after[name] = None if after[name] is None else Jsonb(after[name])
        await tx.run(ADD_IDENTITY, {**after, "id": uuid7(), "session_id": session_id})
    return changed


def belief_hash(belief: str) -> bytes:
    """Return 16 bytes that are equal for beliefs in the same words."""
    return hashlib.sha256(folded(belief).encode()).digest()[:16]


async def worldview(
    tx: Transaction,
    *,
    id_: UUID | None = None,
    category: str | None = None,
    min_confidence: float | None = None,
    limit: int = 1,
) -> tuple[list[Row], dict[UUID, list[Row]]]:
    """Return beliefs, the surest and then the most stable first, and the evidence of each by its id."""
    asked = {"id": id_, "category": category, "min_confidence": min_confidence, "limit": limit}
    rows = await tx.rows(WORLDVIEW, asked)
    evidence: dict[UUID, list[Row]] = {row["id"]: [] for row in rows}
    for row in await tx.rows(EVIDENCE, {"ids": list(evidence), "excerpt": EVIDENCE_EXCERPT_CHARS + 1}):
        evidence[row["belief_id"]].append(row)
    return rows, evidence


async def belief(tx: Transaction, given: str) -> Row:
    """Return the one belief that an id or its end means.

    Raises:
        NotFound: there is none.
        Conflict: there are several.
    """
    digits = given.replace("-", "").lower()
    rows = await tx.rows(FIND_BELIEFS, {"digits": digits, "length": len(digits)})
    if not rows:
        raise NotFound("belief", given, WHERE_TO_LOOK)
    if len(rows) > 1:
        raise Conflict(f"Several beliefs end in {given}.", "Give more digits.")
    return rows[0]


async def believe(
    tx: Transaction,
    given: Mapping[str, Any],
    *,
    id_: str | None,
    evidence: Mapping[UUID, bool],
    withdrawn: Sequence[UUID],
) -> tuple[UUID, bool, list[str]]:
    """Record a belief; the one with this id, or in the same words, is changed and keeps what is not given.

    Args:
        given: columns of the belief; `details` is merged into what is there, null removes a key.
        id_: of the belief that is meant, or the end of it.
        evidence: for each memory whether it speaks for the belief.
        withdrawn: memories that are evidence no more.

    Returns:
        Its id, whether it is new, and the names of what was changed.

    Raises:
        InvalidInput: there is neither an id nor a text.
        NotFound: no belief has the id.
        Conflict: the text is that of another belief.
    """
    await tx.row(locks.WAIT_IN_NAMESPACE, {"key": locks.IDENTITY})
    there = await _same_belief(tx, id_, given.get("belief"))
    if there is None:
        if given.get("belief") is None:
            raise InvalidInput("Give a belief in words, or the id of a recorded one.")
        key = uuid7()
        await tx.run(ADD_BELIEF, _belief_columns(key, merge_patch(USUAL, dict(given))))
        await _weigh(tx, key, evidence, withdrawn)
        return key, True, []
    given = dict(given)
    if id_ is None:
        given.pop("belief")  # found by its words, which stay as they were written first
    before = {name: there[name] for name in (*USUAL, "belief")}
    after = merge_patch(before, given)
    changed = [name for name in before if not same_json(before[name], after[name])]
    if await _weigh(tx, there["id"], evidence, withdrawn):
        changed.append("evidence")
    if changed:
        await tx.run(SET_BELIEF, _belief_columns(there["id"], after))
    return there["id"], False, changed


async def _same_belief(tx: Transaction, id_: str | None, text: str | None) -> Row | None:
    """Return the belief with this id, or without one the belief in the same words; refuse the words of another."""
    there = None if id_ is None else await belief(tx, id_)
    twin = None if text is None else await tx.row(FIND_TWIN, {"hash": belief_hash(text)})
    if there is not None and twin is not None and twin["id"] != there["id"]:
        raise Conflict("Another belief already says exactly this.", "Change that one, or remove one of the two.")
    return there or twin


def _belief_columns(id_: UUID, values: Mapping[str, Any]) -> dict[str, Any]:
    return {**values, "id": id_, "belief_hash": belief_hash(values["belief"]), "details": Jsonb(values["details"])}


async def _weigh(tx: Transaction, belief_id: UUID, evidence: Mapping[UUID, bool], withdrawn: Sequence[UUID]) -> int:
    """Tell which memories are evidence, and return for how many that is news."""
    found = {"belief_id": belief_id, "memory_ids": list(evidence), "supports": list(evidence.values())}
    news = await tx.run(ADD_EVIDENCE, found) if evidence else 0
    return news + (await tx.run(DROP_EVIDENCE, {**found, "memory_ids": list(withdrawn)}) if withdrawn else 0)
