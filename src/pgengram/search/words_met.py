"""The best turns of conversations once more, by how well each word of the question is met in them and beside them.

One vector tells what a turn is about; which of its words answer which word of the question shows only when they are
compared one by one, and what a turn leaves out stands in those around it. Outside a conversation it was no gain: where
question and memory have no word in common it misleads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from pgengram.embedders.word_bits import met
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.reading.outdated import TOGETHER
from pgengram.store.schema.turns import SPOKEN
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

# The turns asked for and those beside them, each once; uses memories_pkey, memories_by_session and memory_vectors_pkey.
WORDS: Final = f"""
SELECT beside.*, (SELECT string_agg(v.words, ''::bytea) FROM memory_vectors v
  WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = beside.id AND v.model_id = %(model_id)s) AS words
FROM (SELECT DISTINCT n.id, n.session_id, n.session_sequence
  FROM unnest(%(ids)s::uuid[]) AS turn(id)
  CROSS JOIN LATERAL (SELECT m.session_id, m.session_sequence FROM memories m
    WHERE m.namespace_id = %(namespace_id)s AND m.id = turn.id OFFSET 0) AS m
  CROSS JOIN LATERAL (SELECT id, session_id, session_sequence FROM memories
    WHERE namespace_id = %(namespace_id)s AND session_id = m.session_id AND {SPOKEN.format("memories")}
      AND session_sequence BETWEEN m.session_sequence - {NEAR} AND m.session_sequence + {NEAR}
      AND (NOT ({HIDDEN}) OR id = ANY(%(ids)s::uuid[])) OFFSET 0) AS n) AS beside
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
    beside = await tx.rows(WORDS, {"ids": [row["id"] for row in turns], "model_id": model_id})
    fits = _met(asked, [row["words"] for row in beside])
    if fits is None:
        return [*rows]
    own, near = _own_and_near(turns, beside, fits)
    for row, gain, *both in zip(turns, _gains(turns, own, near), own, near, strict=True):
        row["why_met"], row["gain"] = sum(both) / len(both), gain
        row["score"] += gain
    best = max(row["score"] for row in first)
    for row in rows:
        row["best_score"] = best
    return [*sorted(first, key=itemgetter("score"), reverse=True), *rest]


def _met(asked: NDArray[float32], words: Sequence[bytes | None]) -> NDArray[float32] | None:
    """Return how well the words of each text meet each word of a question, shape (texts, words); None where too few
    texts have any.
    """
    import numpy as np

    known = [place for place, one in enumerate(words) if one]
    if len(known) <= ENOUGH * len(words):
        return None
    found = met(asked, [one for one in words if one])
    fits = np.repeat(found.mean(axis=0, keepdims=True), len(words), axis=0)
    fits[known] = found
    return fits


def _own_and_near(
    turns: Sequence[Row], beside: Sequence[Row], fits: NDArray[float32]
) -> tuple[list[float], list[float]]:
    """Return for each turn how well its own words meet the question, and how well these and those of the turns beside
    it do.
    """
    place_of = {row["id"]: place for place, row in enumerate(beside)}
    said: dict[tuple[str, int], list[int]] = defaultdict(list)
    for place, row in enumerate(beside):
        said[row["session_id"], row["session_sequence"]].append(place)
    own, near = [], []
    for turn in turns:
        its = beside[place_of[turn["id"]]]
        steps = range(its["session_sequence"] - NEAR, its["session_sequence"] + NEAR + 1)
        around = [place for step in steps for place in said.get((its["session_id"], step), ())]
        own.append(float(fits[place_of[turn["id"]]].sum()))
        near.append(float(fits[around].max(axis=0).sum()))
    return own, near


def _gains(turns: Sequence[Row], own: Sequence[float], near: Sequence[float]) -> list[float]:
    """Return what is added to the score of each turn, 0 on average."""
    gains = [
        WEIGHT_MEANING * (row["similarity"] or 0) + WEIGHT_MET * of_its_own + WEIGHT_MET_NEAR * with_others
        for row, of_its_own, with_others in zip(turns, own, near, strict=True)
    ]
    usual = sum(gains) / len(gains)
    return [gain - usual for gain in gains]
