"""Weights of the ranking, fitted on features that were captured while questions were asked.

Softmax over each question's candidates: the loss is −ln of the share that its answers get, every data set counts the same,
and a small ridge keeps the weights near 0. With one data set left out, the weights are fitted on the others and tried on it.
"""

from __future__ import annotations

import json
import math
import pickle
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from corpus import Query
from numpy.typing import NDArray

from pgengram.search import ranking
from pgengram.search.candidates import HIDDEN

RIDGE = 0.003
STEPS = 30
SHARPNESS = 12.0  # of the softmax; it decides how large the weights are
BEGIN = {"meaning": 0.6, "words": 0.35}
LIMIT = 10
MODES = ("auto", "text", "semantic")
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
    def features(self) -> Floats:
        """Shape (candidates, features), of what is fitted."""
        return np.column_stack([self.noted.columns[name] for name in ranking.weights()])

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


def of(data: str, query: Query, group: str, mode: str, keys: dict[str, str], noted: Noted) -> Seen:
    """Return what was noted of a question as it is fitted on; all languages of a data set count as one set."""
    named = re.split(r"[ ,]", data)[0] if data.startswith(("XQuAD", "MADial", "languages")) else data
    hit_keys = [keys.get(str(hit.id), "?") for hit in noted.hits]
    return Seen(named, query, group, mode, noted, [keys.get(id_, "?") for id_ in noted.ids], hit_keys)


def kept(seen: Sequence[Seen], path: Path) -> list[Seen]:
    """Return questions with those of other data sets that are kept in a file, and keep all of them there."""
    before: list[Seen] = pickle.loads(path.read_bytes()) if path.exists() else []
    fresh = {one.data for one in seen}
    together = [*seen, *(one for one in before if one.data not in fresh)]
    path.write_bytes(pickle.dumps(together))
    return together


@dataclass(slots=True)
class Sample:
    """The candidates of all questions as one table: their scaled features, which of them answer, and where each
    question begins; share: the weight of its data set.
    """

    scaled: Floats
    spread: Floats
    others: Floats
    right: NDArray[np.bool_]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    share: Floats

    @classmethod
    def of(cls, seen: Sequence[Seen]) -> Sample:
        its = [one for one in seen if one.right.any()]
        sizes = np.array([len(one.keys) for one in its])
        table = np.concatenate([one.features for one in its])
        spread = table.std(0)
        spread = np.where(spread > 1e-6, spread, np.inf)  # what never differs tells nothing
        per_set = Counter(one.data for one in its)
        return cls(
            table / spread,
            spread,
            np.concatenate([one.noted.others for one in its]),
            np.concatenate([one.right for one in its]),
            np.cumsum([0, *sizes[:-1]]),
            sizes,
            np.array([1 / per_set[one.data] / len(per_set) for one in its]),
        )

    def loss(self, weights: Floats) -> tuple[float, Floats, Floats]:
        """Return the loss, its slope and its curvature (Fisher's information), by the scaled weights."""
        scores = SHARPNESS * (self.scaled @ weights + self.others)
        chance = np.exp(scores - np.repeat(np.maximum.reduceat(scores, self.starts), self.sizes))
        whole = np.add.reduceat(chance, self.starts)
        answers = np.add.reduceat(chance * self.right, self.starts) + 1e-12
        chance /= np.repeat(whole, self.sizes)
        pull = np.repeat(self.share, self.sizes) * (
            chance - chance * self.right * np.repeat(whole / answers, self.sizes)
        )
        usual = np.add.reduceat(chance[:, None] * self.scaled, self.starts)
        each = np.repeat(self.share, self.sizes) * chance
        curve = (self.scaled * each[:, None]).T @ self.scaled - (usual * self.share[:, None]).T @ usual
        loss = -float(self.share @ np.log(answers / whole)) + SHARPNESS * RIDGE * float(weights @ weights) / 2
        ridge = SHARPNESS * RIDGE * np.eye(len(weights))
        return loss, SHARPNESS * (self.scaled.T @ pull + RIDGE * weights), SHARPNESS**2 * curve + ridge


def fitted(sample: Sample, left_out: Sequence[str] = ()) -> Floats:
    """Return the weights that fit, those of the names left out being 0; by Newton's method."""
    names = [*ranking.weights()]
    kept = np.flatnonzero(np.isfinite(sample.spread) & ~np.isin(names, left_out))
    weights = np.array([BEGIN.get(name, 0.0) for name in names]) * np.where(
        np.isfinite(sample.spread), sample.spread, 0
    )
    weights[[name in left_out for name in names]] = 0
    loss, slope, curve = sample.loss(weights)
    for _ in range(STEPS):
        step = np.zeros(len(names))
        step[kept] = np.linalg.solve(curve[np.ix_(kept, kept)], slope[kept])
        length = 1.0
        while length > 1e-4 and (tried := sample.loss(weights - length * step))[0] > loss:
            length /= 2
        if length <= 1e-4 or loss - tried[0] < 1e-7:
            break
        weights, (loss, slope, curve) = weights - length * step, tried
    return np.asarray(weights / sample.spread)


def found_with(weights: Floats, seen: Sequence[Seen]) -> dict[str, str]:
    """Return R@1 / R@10 of some weights on each data set, in per cent."""
    of_set: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in seen:
        order = np.argsort(-(one.features @ weights + one.noted.others), kind="stable")[:LIMIT]
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
    whole = Sample.of(seen)
    weights = fitted(whole)
    rows = {
        "of the ranking": found_with(np.array([*ranking.weights().values()]), seen),
        "fitted on all": found_with(weights, seen),
    }
    of_set: dict[str, list[Seen]] = defaultdict(list)
    for one in seen:
        of_set[one.data].append(one)
    without = {data: Sample.of([one for one in seen if one.data != data]) for data in of_set if len(of_set) > 1}
    rows["data set left out"] = {
        data: found_with(fitted(sample), of_set[data])[data] for data, sample in without.items()
    }
    for name in names:
        rows[f"without {name}, data set left out"] = {
            data: found_with(fitted(sample, [name]), of_set[data])[data] for data, sample in without.items()
        }
    return {name: round(float(weight), 3) for name, weight in zip(names, weights, strict=True)}, rows


def keep(weights: dict[str, float], embedder: str) -> None:
    """Write the weights where the ranking reads them."""
    ranking.WEIGHTS.write_text(
        json.dumps({"embedder": embedder, "weights": weights}, indent=1) + "\n", encoding="utf-8"
    )
