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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from corpus import Query
from numpy.typing import NDArray

from pgengram.search import ranking, succession
from pgengram.search.candidates import HIDDEN
from pgengram.search.features import WEIGHTS
from pgengram.search.features import weights as stored
from pgengram.search.results.evidence import JUDGED, Signals, level, signals, way_of
from pgengram.service import core

RIDGE = 0.003
STEPS = 30
SHARPNESS = 12.0  # of the softmax; it decides how large the weights are
BEGIN = {"meaning": 0.6, "words": 0.35}
LIMIT = 10
MODES = ("auto", "text", "semantic")
SUCCESSION = ("cosine", "crowding", "same_kind", "change", "number", "repeated")
OWN = "own corpus"  # whose questions without an answer also stand against those of sets that have none
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
        return np.column_stack([self.noted.columns[name] for name in stored("ranking")])

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
    scored, judge = ranking.scored, ranking.add_probabilities
    noted: list[Noted] = []
    latest = Noted()

    def note_scored(columns: dict[str, Floats], found: Any) -> Floats:
        fits = scored(columns, found)
        if found.found_by[0] != HIDDEN:
            fitted = sum(weight * columns[name] for name, weight in stored("ranking").items())
            latest.columns, latest.others = columns, fits - fitted
            latest.ids = [*map(str, found.ids)]
        return fits

    def note_judged(asked: Any, hits: list[Any], its_field: Any) -> Any:
        if all(hit.status == "active" for hit in hits):
            noted.append(replace(latest, asked=asked, hits=[*hits], field=its_field))
        return judge(asked, hits, its_field)

    ranking.scored, ranking.add_probabilities = note_scored, note_judged
    try:
        yield noted
    finally:
        ranking.scored, ranking.add_probabilities = scored, judge


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
    names = [*stored("ranking")]
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
    names = [*stored("ranking")]
    whole = Sample.of(seen)
    found = fitted(whole)
    rows = {
        "of the ranking": found_with(np.array([*stored("ranking").values()]), seen),
        "fitted on all": found_with(found, seen),
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
    return {name: round(float(weight), 3) for name, weight in zip(names, found, strict=True)}, rows


# ----------------------------------------------------------------------------------------------- is there an answer?


@dataclass(frozen=True, slots=True)
class Judged:
    """What tells of one question whether it has an answer; rivals: the fits of its hits less that of the best, and which
    of them answer.
    """

    data: str
    group: str
    way: str
    signals: Signals
    no_claim: bool
    rivals: Floats
    right: NDArray[np.bool_]


def judged(seen: Iterable[Seen]) -> list[Judged]:
    """Return the signals of questions that were noted."""
    found = []
    for one in seen:
        matches = [hit.match for hit in one.noted.hits if hit.match is not None]
        if matches and not matches[0].is_named:
            long_talk = sum(match.is_of_long_talk for match in matches[:JUDGED])
            told = signals(one.noted.asked, one.noted.hits, one.noted.field)
            found.append(
                Judged(
                    one.data,
                    one.group,
                    way_of(one.noted.asked, by_meaning=any(match.similarity is not None for match in matches)),
                    told,
                    2 * long_talk > len(matches[:JUDGED]),
                    np.array([match.fit for match in matches]) - one.noted.field.best_fit,
                    np.array([key in one.query.wanted for key in one.hit_keys]),
                )
            )
    return found


def logistic(table: Floats, answers: Floats, share: Floats, ridge: float = RIDGE) -> Floats:
    """Return the weights of a logistic formula, the first of them the constant's, by Newton's method.

    Args:
        table: shape (questions, signals), without a column for the constant.
        answers: 1 or 0, of each.
        share: how much each counts; together 1.
        ridge: on the weights of signals as multiples of their spread.
    """
    spread = np.where(table.std(0) > 1e-9, table.std(0), 1.0)
    scaled = np.column_stack([np.ones(len(table)), table / spread])
    weights = np.zeros(scaled.shape[1])
    pulls = ridge * np.r_[1e-9, np.ones(table.shape[1])]
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-np.clip(scaled @ weights, -30, 30)))
        slope = scaled.T @ (share * (chance - answers)) + pulls * weights
        curve = (scaled * (share * chance * (1 - chance))[:, None]).T @ scaled + np.diag(pulls)
        weights = weights - np.linalg.solve(curve, slope)
    return np.r_[weights[0], weights[1:] / spread]


def _shares(its: Sequence[Judged]) -> Floats:
    """Return how much each question counts: each data set as much as any other, and in it those with an answer as much as
    those without.
    """
    counts = Counter((one.data, one.group == "answerable") for one in its)
    shares = np.array([1 / counts[one.data, one.group == "answerable"] for one in its])
    return np.asarray(shares / shares.sum())


def _is_of_topic(one: Judged) -> bool:
    """Whether it tells if the memories tell of the topic: a question about the wrong speaker has its topic there."""
    return not one.no_claim and (one.group != "unanswerable" or one.signals.speaker is None)


def fitted_evidence(its: Sequence[Judged]) -> dict[str, Any]:
    """Return the weights of the evidence for one way of searching, and how sharp the chances of hits are."""
    both = {one.data for one in its} & {one.data for one in its if one.group != "answerable"}
    of_topic = [replace(one, data=one.data if one.data in both else OWN) for one in its if _is_of_topic(one)]
    table = np.array([one.signals[:-1] for one in of_topic])
    answers = np.array([one.group == "answerable" for one in of_topic], dtype=float)
    found = logistic(table, answers, _shares(of_topic))
    weights = dict(zip(("constant", *Signals._fields[:-1]), map(float, found), strict=True))
    return {"weights": weights, "speaker": _fitted_speaker(its, weights), "sharpness": _fitted_sharpness(its)}


def topic(weights: dict[str, float], found: Signals) -> float:
    """Return the probability that the memories tell of the topic."""
    odds = weights["constant"] + sum(weights[name] * getattr(found, name) for name in Signals._fields[:-1])
    return float(1 / (1 + math.exp(-odds)))


def _fitted_speaker(its: Sequence[Judged], weights: dict[str, float]) -> dict[str, float] | None:
    """Return the weights of the lead of the one named speaker, given the topic's; by descent, as there are two."""
    named = [one for one in its if one.signals.speaker is not None and one.group in ("answerable", "unanswerable")]
    if len({one.group for one in named}) < 2:
        return None
    ahead = np.array([one.signals.speaker for one in named], dtype=float)
    about = np.array([topic(weights, one.signals) for one in named])
    answers = np.array([one.group == "answerable" for one in named])
    share, found = _shares(named), np.array([1.0, 10.0])
    for _ in range(4_000):
        chance = 1 / (1 + np.exp(-(found[0] + found[1] * ahead)))
        whole = np.clip(about * chance, 1e-9, 1 - 1e-9)
        pull = share * np.where(answers, -(1 - chance), whole * (1 - chance) / (1 - whole))
        found = found - np.array([1.0, 30.0]) * np.array([pull.sum(), (pull * ahead).sum()])
    return {"constant": float(found[0]), "lead": float(found[1])}


def _fitted_sharpness(its: Sequence[Judged]) -> float:
    """Return the sharpness of the softmax over fits that makes the answers likeliest."""
    known = [one for one in its if one.group == "answerable" and one.right.any()]
    share = _shares(known)

    def loss(sharpness: float) -> float:
        chances = [np.exp(sharpness * one.rivals) for one in known]
        return float(
            sum(w * -math.log(c[one.right].sum() / c.sum()) for w, c, one in zip(share, chances, known, strict=True))
        )

    return min(np.arange(2.0, 40.5, 0.5), key=loss) if known else SHARPNESS


def evidence_table(its: Sequence[Judged]) -> dict[str, dict[str, str]]:
    """Return for each data set the AUC and the levels of its groups, with weights fitted without it."""
    rows = {}
    for data in dict.fromkeys(one.data for one in its):
        fit = fitted_evidence([one for one in its if one.data != data])
        speaker = fit["speaker"] or fitted_evidence(its)["speaker"]
        chances: dict[str, list[float]] = defaultdict(list)
        for one in (one for one in its if one.data == data and not one.no_claim):
            chance = topic(fit["weights"], one.signals)
            if speaker and one.signals.speaker is not None:
                chance /= 1 + math.exp(-(speaker["constant"] + speaker["lead"] * one.signals.speaker))
            chances[one.group].append(chance)
        sure = chances["answerable"]
        rows[data] = {
            f"AUC {group}": f"{auc(sure, its_):.2f}" for group, its_ in chances.items() if group != "answerable"
        }
        rows[data] |= {f"{group}: strong/weak/none": _levels(its_) for group, its_ in chances.items()}
    return rows


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return the chance that one of `positive` is greater than one of `negative`; equal ones count half."""
    if not positive or not negative:
        return math.nan
    wins = sum((p > n) + (p == n) / 2 for p in positive for n in negative)
    return wins / (len(positive) * len(negative))


def _levels(chances: Sequence[float]) -> str:
    return "/".join(str(sum(level(chance) == name for chance in chances)) for name in ("strong", "weak", "none"))


# --------------------------------------------------------------------------------------------------- what holds now


@contextmanager
def noting_pairs() -> Iterator[list[tuple[str, Floats, str]]]:
    """Note of each memory that is stored its text, and the signals and id of each older one that it may replace."""
    noted: list[tuple[str, Floats, str]] = []
    usual = core.may_replace

    def note(draft: Any, near: Sequence[Any], **of_model: float) -> list[Any]:
        new = succession.Statement.of(draft)
        for row in near[: succession.MAX_REPLACED]:
            crowded = succession.crowding(other["similarity"] for other in near if other is not row)
            if told := succession.signals_of(new, succession.Statement.of(row), row["similarity"], crowded):
                noted.append((draft["content"], np.array([float(told[name]) for name in SUCCESSION]), str(row["id"])))
        return usual(draft, near, **of_model)

    core.may_replace = note
    try:
        yield noted
    finally:
        core.may_replace = usual


def fitted_succession(signals_of_pairs: Floats, replaces: Floats) -> dict[str, float]:
    """Return the weights of the rule for what holds, from pairs and whether the newer one replaces the older."""
    share = np.full(len(replaces), 1 / len(replaces))
    found = logistic(signals_of_pairs, replaces, share)
    return dict(zip(("constant", *SUCCESSION), map(float, found), strict=True))


# Of the share of a question's names that a note has. No set has enough questions that name somebody to find it: what is
# about that person comes before what shares a verb with the question, in every language.
NAMES: Final = 0.26


def keep(found: dict[str, Any], embedder: str) -> None:
    """Write weights where the search reads them, rounded to three digits; parts that were not fitted stay."""
    if "ranking" in found:
        found["ranking"]["names"] = max(found["ranking"]["names"], NAMES)
    before = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    rounded = json.loads(
        json.dumps(before | {"embedder": embedder} | found), parse_float=lambda text: round(float(text), 3)
    )
    WEIGHTS.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")
