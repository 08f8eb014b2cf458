"""Weights of the ranking, fitted on features that were captured while questions were asked.

Softmax over each question's candidates: the loss is −ln of the share that its answers get, every data set counts the same,
and a small ridge keeps the weights near 0. With one data set left out, the weights are fitted on the others and tried on it.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from corpus import Query
from numpy.typing import NDArray

from pgengram.search import ranking
from pgengram.search.candidates import HIDDEN

RIDGE = 0.003
STEPS = 150
RATE = 0.02
SHARPNESS = 12.0  # of the softmax; it decides how large the weights are
BEGIN = {"meaning": 0.6, "words": 0.35}
LIMIT = 10
Floats = NDArray[np.float64]


@dataclass(slots=True)
class Noted:
    """What the product knew when it answered a question.

    columns: the features of the candidates, by name; others: what is added to their fits besides; ids: of the
    candidates; hits: the best ones; field: what they stand among.
    """

    columns: dict[str, Floats] = field(default_factory=dict)
    others: Floats = field(default_factory=lambda: np.zeros(0))
    ids: list[str] = field(default_factory=list)
    asked: Any = None
    hits: list[Any] = field(default_factory=list)
    field: Any = None


@dataclass(frozen=True, slots=True)
class Seen:
    """One question of a data set and what was noted of it; keys: of the candidates; hit_keys: of the hits."""

    data: str
    query: Query
    group: str
    mode: str
    noted: Noted
    keys: list[str]
    hit_keys: list[str]

    @property
    def right(self) -> NDArray[np.bool_]:
        return np.array([key in self.query.wanted for key in self.keys])


def recall(query: Query, hits: Sequence[str], cut: int) -> float:
    """Return how much of what a question needs is among the first hits, 0 to 1."""
    found = len(query.wanted & set(hits[:cut]))
    whole = {"any": 1, "half": math.ceil(len(query.wanted) / 2)}.get(query.need, len(query.wanted))
    return min(1.0, found / whole)


@contextmanager
def noting() -> Iterator[list[Noted]]:
    """Note what is known of each question that is asked."""
    scored, judge = ranking.scored, ranking.judge
    noted: list[Noted] = []
    latest = Noted()

    def note_scored(columns: dict[str, Floats], rows: list[Any]) -> Floats:
        fits = scored(columns, rows)
        if rows[0]["found_by"] != HIDDEN:
            fitted = sum(weight * columns[name] for name, weight in ranking.weights().items())
            latest.columns, latest.others = columns, fits - fitted
            latest.ids = [str(row["id"]) for row in rows]
        return fits

    def note_judged(asked: Any, hits: list[Any], its_field: Any) -> Any:
        if all(hit.status == "active" for hit in hits):
            noted.append(replace(latest, asked=asked, hits=[*hits], field=its_field))
        return judge(asked, hits, its_field)

    ranking.scored, ranking.judge = note_scored, note_judged
    try:
        yield noted
    finally:
        ranking.scored, ranking.judge = scored, judge


def fitted(seen: Sequence[Seen], left_out: Sequence[str] = ()) -> Floats:
    """Return the weights that fit, those of the names left out being 0; Adam on the whole sample at once."""
    its = [one for one in seen if one.right.any()]
    sizes = np.array([len(one.keys) for one in its])
    starts = np.cumsum([0, *sizes[:-1]])
    all_, right, others = (
        np.concatenate(columns) for columns in zip(*((one.features, one.right, one.others) for one in its), strict=True)
    )
    per_set = Counter(one.data for one in its)
    share = np.repeat([1 / per_set[one.data] / len(per_set) for one in its], sizes)
    spread = all_.std(0)
    mask = (spread > 1e-6) & ~np.isin([*ranking.weights()], left_out)  # what never differs tells nothing
    spread = np.where(mask, spread, 1.0)
    scaled = all_ / spread * mask
    weights = np.array([BEGIN.get(name, 0.0) for name in ranking.weights()]) * spread * mask
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        scores = SHARPNESS * (scaled @ weights + others)
        chance = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
        answers, whole = np.add.reduceat(chance * right, starts) + 1e-12, np.add.reduceat(chance, starts)
        pull = share * chance * (1 / np.repeat(whole, sizes) - right / np.repeat(answers, sizes))
        slope = SHARPNESS * (scaled.T @ pull + RIDGE * weights)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        weights = weights - RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return np.asarray(weights / spread)


def found_with(weights: Floats, seen: Sequence[Seen]) -> dict[str, str]:
    """Return R@1 / R@10 of some weights on each data set, in per cent."""
    of_set: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in seen:
        order = np.argsort(-(one.features @ weights + one.others), kind="stable")[:LIMIT]
        hits = [one.keys[place] for place in order]
        of_set[one.data].append((recall(one.query, hits, 1), recall(one.query, hits, LIMIT)))
    return {
        data: " / ".join(f"{100 * np.mean(column):.1f}" for column in zip(*its, strict=True))
        for data, its in of_set.items()
    }


def table_of(seen: Sequence[Seen]) -> tuple[dict[str, float], dict[str, dict[str, str]]]:
    """Return the weights fitted on everything, and what is found with the weights of the ranking, with these, on each
    data set with those fitted without it, and without each feature.
    """
    names = [*ranking.weights()]
    weights = fitted(seen)
    rows = {
        "of the ranking": found_with(np.array([*ranking.weights().values()]), seen),
        "fitted on all": found_with(weights, seen),
    }
    sets = dict.fromkeys(one.data for one in seen)
    rows["data set left out"] = {
        data: found_with(fitted([one for one in seen if one.data != data]), [one for one in seen if one.data == data])[
            data
        ]
        for data in sets
    }
    for name in names:
        rows[f"without {name}"] = found_with(fitted(seen, [name]), seen)
    return {name: round(float(weight), 3) for name, weight in zip(names, weights, strict=True)}, rows


def keep(weights: dict[str, float], embedder: str) -> None:
    """Write the weights where the ranking reads them."""
    ranking.WEIGHTS.write_text(
        json.dumps({"embedder": embedder, "weights": weights}, indent=1) + "\n", encoding="utf-8"
    )
