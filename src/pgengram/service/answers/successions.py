"""Which of some memories tell what holds now of what others among them told before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from pgengram.search.results import upcoming
from pgengram.search.succession import HINTED, crowding, may_have_changed, succeeds, surest, told_at
from pgengram.text.lexical.vocabulary import announces_change
from pgengram.text.similarity.subject import same_subject

if TYPE_CHECKING:
    from pgengram.search.results.hits import Hit
    from pgengram.service.core import Core

UNNAMED: Final = 0.0  # the evidence for what is only near enough to be shown beside an older memory
Successors = dict[UUID, dict[UUID, float]]  # of each older memory those that may hold instead, with the evidence


async def successors(core: Core, hits: Sequence[Hit]) -> Successors:
    """Return for each of some memories those among them that may tell what holds instead, with the evidence, `UNNAMED`
    where they share no words; nothing without an embedder.
    """
    model_id = core.model_key
    if model_id is None or len(hits) < 2:
        return {}
    by_id = {hit.id: hit for hit in hits}
    pairs = await core.store.read_transaction(lambda tx: upcoming.near(tx, list(by_id), model_id))
    cosines: dict[UUID, dict[UUID, float]] = defaultdict(dict)
    for pair in pairs:
        cosines[pair["one"]][pair["other"]] = cosines[pair["other"]][pair["one"]] = pair["cosine"]
    found: Successors = defaultdict(dict)
    judged = []
    for one, near in cosines.items():
        for other, cosine in near.items():
            newer, older = by_id[one], by_id[other]
            if _is_later(newer, older):
                judged.append(
                    ((one, other), succeeds(newer.statement, older.statement, cosine, _crowding(cosines, one, other)))
                )
    for (new, old), evidence in surest(judged, HINTED):
        found[old][new] = evidence if _same_subject(by_id[new], by_id[old]) else UNNAMED
    return found


def _is_later(newer: Hit, older: Hit) -> bool:
    """Whether one was told so much later than the other that it may have changed, or later and as a change."""
    told = told_at(vars(newer)) > told_at(vars(older))
    return told and (may_have_changed(newer.statement, older.statement) or announces_change(newer.content))


def _same_subject(newer: Hit, older: Hit) -> bool:
    return same_subject(newer.content, older.content, " ".join(filter(None, newer.statement.scope)))


def _crowding(cosines: Mapping[UUID, Mapping[UUID, float]], one: UUID, other: UUID) -> float:
    """Return how near others are to the two."""
    return (
        sum(crowding(value for id_, value in cosines[a].items() if id_ != b) for a, b in ((one, other), (other, one)))
        / 2
    )
