"""Which of the memories found disagree: somebody linked them so, or they say nearly the same and differ in what
counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Final
from uuid import UUID

from pgengram.search.results.hits import Hit
from pgengram.store.connection.database import Transaction
from pgengram.store.schema.visibility import VISIBLE
from pgengram.text.similarity.differences import ALIKE, differences, other_subjects, overlap

COMPARED: Final = 10  # of the best hits: pairs grow with the square
LONGEST: Final = 1_000  # characters; of longer texts a share of words tells little, and it costs more
SERIES: Final = 3  # a text that is like more others than this is one of a series, such as the entries of a log
LINKED: Final = "linked as contradicting"

# Uses memory_relationships_pkey for the edges that go out, memory_relationships_to for the others, and memories_pkey.
CONTRADICTED: Final = f"""
SELECT e.one, e.other FROM (
  SELECT r.from_id AS one, r.to_id AS other FROM memory_relationships r
  WHERE r.namespace_id = %(namespace_id)s AND r.from_id = ANY(%(ids)s) AND r.type = 'contradicts'
  UNION
  SELECT r.to_id, r.from_id FROM memory_relationships r
  WHERE r.namespace_id = %(namespace_id)s AND r.to_id = ANY(%(ids)s) AND r.type = 'contradicts') AS e
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = e.other
WHERE {VISIBLE}
"""


async def note(tx: Transaction, hits: Sequence[Hit]) -> None:
    """Add `conflicts_with` to each active hit that disagrees with another memory: its id, and why that is thought.

    What was linked with the type `contradicts` is told wherever the other memory is; what only looks like it, among
    `hits`.
    """
    active = {hit.id: hit for hit in hits if hit.status == "active"}
    why: dict[tuple[UUID, UUID], str] = {}
    for one, other, differing in _unlike([*active.values()][:COMPARED]):
        why[one, other] = why[other, one] = f"differs in {' and '.join(differing)}"
    linked = [id_ for id_, hit in active.items() if hit.contradicted]
    for edge in await tx.rows(CONTRADICTED, {"ids": linked}) if linked else ():
        why[edge["one"], edge["other"]] = LINKED
    for (one, other), reason in why.items():
        active[one].conflicts_with.append({"id": str(other), "why": reason})


def _differing(one: Hit, other: Hit) -> list[str]:
    """Return in what two hits differ that say nearly the same of the same; nothing for any others."""
    same = one.statement.scope == other.statement.scope and one.speaker == other.speaker
    texts = one.content, other.content
    if not same or one.occurred_at != other.occurred_at or overlap(*texts) < ALIKE or other_subjects(*texts):
        return []
    return differences(*texts)


def _unlike(hits: Sequence[Hit]) -> list[tuple[UUID, UUID, list[str]]]:
    """Return the pairs that say nearly the same of the same, and in what they differ."""
    short = [hit for hit in hits if len(hit.content) <= LONGEST]
    found = [
        (one.id, other.id, differing) for one, other in combinations(short, 2) if (differing := _differing(one, other))
    ]
    alike = Counter(id_ for one, other, _ in found for id_ in (one, other))
    return [pair for pair in found if alike[pair[0]] <= SERIES and alike[pair[1]] <= SERIES]
