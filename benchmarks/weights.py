"""How weights of the ranking, chosen without a conversation, do on it: from signals that were captured once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import mean, pstdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgengram.inputs import Question
from pgengram.search import ranking
from pgengram.search.question import Frequencies, parse, understand
from pgengram.search.vector_index import Embedded, VectorIndex
from pgengram.service.manager import MemoryManager

CUT = 10
CANDIDATES = 1_000  # more than a question has
STEPS = (-0.3, -0.15, -0.05, 0.05, 0.15, 0.3)  # tried for each weight in turn, meaning left as it is
ROUNDS = 3
FEWEST = 1e-4  # of R@10: a smaller gain is none

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Captured:
    """The signals of one question's candidates.

    values: shape (candidates, signals); right: whether each is evidence; wanted: pieces of evidence there are.
    """

    conversation: str
    values: Floats
    right: Floats
    wanted: int


async def captured(manager: MemoryManager, query: str) -> list[tuple[str, list[float]]]:
    """Return each candidate's id and signals for a question, every vector being looked at."""
    usual = ranking.score
    question, model = Question(query=query).model_copy(update={"limit": CANDIDATES}), await manager.current_model()
    if model is None or manager.embedder is None:
        raise RuntimeError("weights are chosen with an embedder")
    async with manager.store.transaction() as tx:
        asked = await understand(tx, parse(question, datetime.now(UTC)), Frequencies())
    index = VectorIndex(model.id, model.dimensions)
    embedded = Embedded(index, [await manager.embedder.query(asked.meaning)])
    ranking.score = lambda: f"ARRAY[{', '.join(value for _, value in ranking.signals().values())}]::double precision[]"
    try:
        async with manager.store.transaction() as tx:
            text = ranking.statement(
                ranking.searched(asked.parsed.scope, index, tx.namespace_id), index, reach=CANDIDATES
            )
            given = ranking.parameters(asked, embedded, 0) | {"offset": 0, "limit": CANDIDATES}
            rows = await tx.rows(text, given)
    finally:
        ranking.score = usual
    return [(str(row["id"]), row["score"]) for row in rows if row["id"] is not None]


class Sample:
    """Questions of some conversations as arrays, so that many weights can be tried."""

    def __init__(self, questions: list[Captured]) -> None:
        most = max(len(one.values) for one in questions)
        signals = questions[0].values.shape[1]
        self.values = np.zeros((len(questions), most, signals))
        self.right = np.zeros((len(questions), most))
        self.there = np.zeros((len(questions), most), dtype=bool)
        self.wanted = np.array([one.wanted for one in questions], dtype=float)
        for row, one in enumerate(questions):
            self.values[row, : len(one.values)] = one.values
            self.right[row, : len(one.values)] = one.right
            self.there[row, : len(one.values)] = True

    def recall(self, weights: Floats) -> float:
        """Return R@10 under `weights`, shape (signals,)."""
        scores = np.where(self.there, self.values @ weights, -np.inf)
        best = np.argpartition(-scores, CUT, axis=1)[:, :CUT]
        return float((np.take_along_axis(self.right, best, axis=1).sum(axis=1) / self.wanted).mean())


def chosen(sample: Sample, names: list[str]) -> Floats:
    """Return the weights that find most, each tried in turn; begins with meaning and words alone."""
    weights = np.array([{"meaning": 0.6, "words": 0.25}.get(name, 0.0) for name in names])
    best = sample.recall(weights)
    for _ in range(ROUNDS):
        for place, name in enumerate(names):
            if name == "meaning":
                continue
            for step in STEPS:
                tried = weights.copy()
                tried[place] += step
                if (got := sample.recall(tried)) > best + FEWEST:
                    best, weights = got, tried
    return weights


def leave_one_out(questions: list[Captured]) -> list[dict[str, Any]]:
    """Return for each conversation R@10 under weights chosen on the others, and under those of the ranking."""
    names = list(ranking.signals())
    shipped = np.array([weight for weight, _ in ranking.signals().values()])
    results = []
    for left_out in sorted({one.conversation for one in questions}):
        others = Sample([one for one in questions if one.conversation != left_out])
        its_own = Sample([one for one in questions if one.conversation == left_out])
        weights = chosen(others, names)
        results.append({
            "left out": left_out,
            "chosen": its_own.recall(weights),
            "shipped": its_own.recall(shipped),
            "weights": dict(zip(names, weights.round(3).tolist(), strict=True)),
        })  # fmt: skip
    return results


def spread(values: list[float]) -> str:
    """Return mean ± standard deviation, in per cent."""
    return f"{100 * mean(values):.1f} ± {100 * pstdev(values):.1f}"
