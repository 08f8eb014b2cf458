"""The best turns of conversations once more, by how well each word of the question is met in them and beside them.

One vector tells what a turn is about; which of its words answer which word of the question shows only when they are
compared one by one, and what a turn leaves out stands in those around it. Outside a conversation it was no gain: where
question and memory have no word in common it misleads.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from pgengram.embedders.word_bits import met
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.reading.outdated import TOGETHER
from pgengram.store.schema.visibility import HIDDEN

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

# Chosen on the even conversations of LoCoMo and tried on others, see docs/performance.md.
WEIGHT_MEANING: Final = -0.3  # of the cosine, which tells part of the same
WEIGHT_MET: Final = 0.5  # how well the words of the turn meet those of the question
WEIGHT_MET_NEAR: Final = 0.5  # the same with the words of the turns beside it
NEAR: Final = 2  # turns before and after
ENOUGH: Final = 0.5  # share of the turns that have words; the others are taken to meet as much as these on average

# Uses memory_vectors_pkey, memories_pkey and memories_by_session.
WORDS: Final = f"""
SELECT turn.id, (SELECT string_agg(v.words, ''::bytea) FROM memory_vectors v
    WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = turn.id AND v.model_id = %(model_id)s) AS own,
  (SELECT string_agg(v.words, ''::bytea)
    FROM (SELECT session_id, session_sequence FROM memories WHERE namespace_id = %(namespace_id)s AND id = turn.id OFFSET 0) AS m
    CROSS JOIN LATERAL (SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND session_id = m.session_id
      AND session_sequence BETWEEN m.session_sequence - {NEAR} AND m.session_sequence + {NEAR} AND NOT ({HIDDEN}) OFFSET 0) AS beside
    CROSS JOIN LATERAL (SELECT v.words FROM memory_vectors v
      WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = beside.id AND v.model_id = %(model_id)s OFFSET 0) AS v) AS near
FROM unnest(%(ids)s::uuid[]) AS turn(id)
"""


async def ranked_by_words(tx: Transaction, rows: Sequence[Row], asked: NDArray[float32], model_id: int) -> list[Row]:
    """Return hits with the turns among the first `TOGETHER` in a better order, with new scores of the same mean.

    Each of these gets its `gain`, by which its score has changed, and `why_met`, how well words are met, up to about 1.

    Args:
        tx: the namespace's transaction.
        rows: the best hits, best first.
        asked: the words of the question, as `WordAxes.asked` gives them.
        model_id: the model whose words are compared.
    """
    first, rest = rows[:TOGETHER], rows[TOGETHER:]
    turns = [row for row in first if row["why_near_by"] is not None]
    if not turns or not len(asked):  # "?"
        return [*rows]
    found = await tx.rows(WORDS, {"ids": [row["id"] for row in turns], "model_id": model_id})
    words = {row["id"]: (row["own"], row["near"]) for row in found}
    own = _met(asked, [words[row["id"]][0] for row in turns])
    near = _met(asked, [words[row["id"]][1] for row in turns])
    if own is None or near is None:
        return [*rows]
    for row, gain, *both in zip(turns, _gains(turns, own, near), own, near, strict=True):
        row["why_met"], row["gain"] = sum(both) / len(both), gain
        row["score"] += gain
    best = max(row["score"] for row in first)
    for row in rows:
        row["best_score"] = best
    return [*sorted(first, key=itemgetter("score"), reverse=True), *rest]


def _met(asked: NDArray[float32], words: Sequence[bytes | None]) -> list[float] | None:
    """Return how well the words of each text meet those of a question; None where too few have any."""
    known = [one for one in words if one]
    if len(known) <= ENOUGH * len(words):
        return None
    found = met(asked, known).sum(axis=1).tolist()
    usual, each = sum(found) / len(found), iter(found)
    return [next(each) if one else usual for one in words]


def _gains(turns: Sequence[Row], own: Sequence[float], near: Sequence[float]) -> list[float]:
    """Return what is added to the score of each turn, 0 on average."""
    gains = [
        WEIGHT_MEANING * (row["similarity"] or 0) + WEIGHT_MET * of_its_own + WEIGHT_MET_NEAR * with_others
        for row, of_its_own, with_others in zip(turns, own, near, strict=True)
    ]
    usual = sum(gains) / len(gains)
    return [gain - usual for gain in gains]
