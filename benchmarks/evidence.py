"""Fits the formulas of search/results/evidence.py, and prints how well each signal and each formula tells answerable questions.

    python benchmarks/evidence.py [locomo10.json …] [--questions N] [--json PATH]

Stores: LoCoMo's conversations (not part of this project), each once with speakers and sessions in fields and once with
the speakers in the text; the corpus of assistant.py; one half of the memories of each language of languages.py; the demo. Each is asked
what it answers, its adversarial or unanswerable questions, questions of another store, and greetings and prompts that
ask for nothing remembered. Each question is asked by meaning and words, by words alone and by meaning alone.

Fitted is on three of five conversations and every other question of the languages and the corpus, so that each data
set counts as much, and in each answerable questions as much as the others. The rest and the demo are held out.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from abstention import auc, calibration_error, some
from assistant import IDLE, rows_of
from corpus import live_through
from corpus import read as read_corpus
from languages import PROBE
from locomo import ADVERSARIAL, database, evidence, store
from numpy.typing import NDArray
from rich.console import Console

from pgengram.cli.clients.mcp_client import call, connected
from pgengram.demo import load as load_demo
from pgengram.inputs import Question
from pgengram.search import ranking
from pgengram.search.question import Frequencies, parse, understand
from pgengram.search.results import evidence as formulas
from pgengram.search.vector_index import Embedded, VectorIndex
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

ARMS = ("both", "words", "meaning")
TUNED_CONVERSATIONS = (0, 2, 4)
RIDGE = 2.0  # of the fit, on standardised signals
RIDGE_COVERED = (
    30.0  # what is asked in other words has an answer that shares none: the fit trusts shared words too much
)
STEPS = 60
ROUNDS = 60  # of fitting two formulas in turn
WIDTH = 150
Floats = NDArray[np.float64]
Seen = tuple[formulas.Signals | None, float, list[float], list[str]]


@dataclass(frozen=True, slots=True)
class Case:
    """One question to one store: its data set and group, which memories answer it, and whether it is fitted on."""

    data: str
    group: str
    text: str
    right: frozenset[str]
    tuned: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one case was answered in one way: the signals, how many hits score as well as the best, and of each hit how
    far it is below the best and whether it answers; no signals where there was no hit.
    """

    case: Case
    arm: str
    signals: formulas.Signals | None
    crowd: float
    below: list[float]
    right: list[bool]
    small_talk: bool

    @property
    def answerable(self) -> bool:
        """Whether the store holds an answer, found or not."""
        return self.case.group == "answerable"


def every_other(text: str) -> bool:
    """Whether a question is among those fitted on, where a store is halved."""
    return zlib.crc32(text.encode()) % 2 == 0


def idle(corpus: dict[str, Any], data: str, *, tuned: bool) -> list[Case]:
    """Return greetings and unrelated prompts; what one data set was fitted on is not held out in another."""
    asked = [q for q in corpus["questions"] if q["category"] in IDLE]
    return [
        Case(data, q["category"], q["question"], frozenset(), tuned)
        for q in asked
        if every_other(q["question"]) == tuned
    ]


async def put(settings: Settings, items: Sequence[dict[str, Any]]) -> list[str]:
    """Store memories and return their ids."""
    ids: list[str] = []
    async with connected(settings) as client:
        for start in range(0, len(items), 200):
            answer = await call(client, "create_memories", {"items": items[start : start + 200]})
            ids += [result["memory_id"] for result in answer["results"]]
    return ids


async def ask(settings: Settings, cases: Iterable[Case]) -> list[Outcome]:
    """Ask one store everything in each way."""
    manager, found = MemoryManager(settings), list[Outcome]()
    await manager.open()
    for case in cases:
        found += await in_each_way(manager, case)
    await manager.close()
    return found


async def in_each_way(manager: MemoryManager, case: Case) -> list[Outcome]:
    """Ask a question by both arms and by each alone, its vector being made once."""
    model = await manager.current_model()
    if model is None or manager.embedder is None:
        raise RuntimeError("formulas are fitted with an embedder")
    outcomes, read = [], None
    for arm in ARMS:
        question = Question(query=case.text, mode="semantic" if arm == "meaning" else "auto")
        parsed = parse(question, datetime.now(UTC))
        seen: list[Seen] = []
        usual, ranking.judge = ranking.judge, noting(seen)
        try:
            async with manager.store.transaction() as tx:
                asked = await understand(tx, parsed, Frequencies())
            read = await manager.embedder.question(asked.meaning) if read is None else read
            index = VectorIndex(model.id, model.dimensions)
            embedded = Embedded() if arm == "words" else Embedded(index, [read.vector], words=read.words)
            async with manager.store.transaction() as tx:
                await ranking.ranked(tx, asked, embedded)
        finally:
            ranking.judge = usual
        [(signals, crowd, below, ids)] = seen
        right = [id_ in case.right for id_ in ids]
        outcomes.append(Outcome(case, arm, signals, crowd, below, right, formulas.is_small_talk(parsed.text)))
    return outcomes


def noting(seen: list[Seen]) -> Callable[..., float]:
    """Return what stands in for `judge`: it notes the signals and leaves the scores as they are."""

    def judge(asked: Any, rows: Sequence[dict[str, Any]], alone: formulas.Fit) -> float:
        its = formulas.signals(asked, rows, alone) if rows else None
        seen.append(
            (its, formulas.crowd(rows), [formulas.below(row) for row in rows], [str(row["id"]) for row in rows])
        )
        return 0.0

    return judge


# ------------------------------------------------------------------------------------------------------------- stores


async def of_corpus(settings: Settings, corpus: dict[str, Any]) -> list[Outcome]:
    """Return the outcomes of the own corpus, asked its own questions and those of the demo."""
    stored = await live_through(corpus, settings)
    cases = []
    for q in corpus["questions"]:
        right = frozenset(stored.ids[key] for key in q.get("answers", ()))
        group = "answerable" if right else q["category"]
        cases.append(Case("corpus", group, q["question"], right, every_other(q["question"])))
    foreign = [
        Case("corpus", "foreign", q.question, frozenset(), every_other(q.question)) for q in load_demo().questions
    ]
    return await ask(settings, [*cases, *foreign])


async def of_demo(settings: Settings, corpus: dict[str, Any]) -> list[Outcome]:
    """Return the outcomes of the demo, asked its own questions and those of the corpus; all of them are held out."""
    memories = load_demo().memories
    ids = dict(
        zip([one.key for one in memories], await put(settings, [one.arguments() for one in memories]), strict=True)
    )
    cases = [
        Case("demo", "answerable", q.question, frozenset([ids[q.expects]]), tuned=False) for q in load_demo().questions
    ]
    foreign = [
        Case("demo", "foreign" if q.get("answers") else q["category"], q["question"], frozenset(), tuned=False)
        for q in corpus["questions"]
        if not every_other(q["question"])
    ]
    return await ask(settings, [*cases, *foreign])


async def of_languages(settings: Settings) -> list[Outcome]:
    """Return the outcomes of each language's even memories, asked about all of them."""
    with PROBE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    found = []
    for language in dict.fromkeys(row["language"] for row in rows):
        its = [row for row in rows if row["language"] == language]
        namespace = replace(settings, namespace=f"evidence {language}")
        ids = await put(namespace, [{"content": row["memory"]} for row in its[::2]])
        cases = [
            Case("languages", "answerable", row["question"], frozenset([id_]), every_other(row["question"]))
            for row, id_ in zip(its[::2], ids, strict=True)
        ]
        foreign = [
            Case("languages", "foreign", row["question"], frozenset(), every_other(row["question"]))
            for row in its[1::2]
        ]
        found += await ask(namespace, [*cases, *foreign])
    return found


async def of_locomo(
    data: list[dict[str, Any]], settings: Settings, most: int, corpus: dict[str, Any], *, plain: bool
) -> list[Outcome]:
    """Return the outcomes of each conversation, asked as abstention.py does."""
    found, name = [], "LoCoMo, text only" if plain else "LoCoMo"
    for place, one in enumerate(data):
        namespace = replace(settings, namespace=f"{name} {one['sample_id']}")
        turn_of: dict[str, set[tuple[str, str]]] = {}
        await store(one, namespace, turn_of, plain=plain, apart="")
        known = {turn for turns in turn_of.values() for _, turn in turns}
        tuned, other = place % len(data) in TUNED_CONVERSATIONS, data[(place + 1) % len(data)]
        groups = {
            "answerable": [q for q in one["qa"] if q["category"] != ADVERSARIAL and evidence(q, known)],
            "adversarial": [q for q in one["qa"] if q["category"] == ADVERSARIAL],
            "foreign": [q for q in other["qa"] if q["category"] != ADVERSARIAL],
        }
        cases = []
        for group, questions in groups.items():
            for q in some(questions, most):
                wanted = evidence(q, known) if group == "answerable" else set()
                right = frozenset(id_ for id_, turns in turn_of.items() if {turn for _, turn in turns} & wanted)
                cases.append(Case(name, group, q["question"], right, tuned))
        found += await ask(namespace, [*cases, *idle(corpus, name, tuned=tuned)])
    return found


# ---------------------------------------------------------------------------------------------------------------- fit


def logistic(signals: Floats, right: Floats, weights: Floats, ridges: Sequence[float] = ()) -> Floats:
    """Return the constant and the weights of a logistic regression with a small ridge, by Newton's method.

    Args:
        signals: shape (cases, signals).
        right: 0 or 1 for each case.
        weights: how much each case counts.
        ridges: of each signal; the usual one where there are none.
    """
    mean, spread = signals.mean(0), signals.std(0) + 1e-9
    known = np.column_stack([np.ones(len(signals)), (signals - mean) / spread])
    weights, ridge = weights / weights.mean(), np.diag([0.0, *(ridges or [RIDGE] * signals.shape[1])])
    found = np.zeros(known.shape[1])
    for _ in range(STEPS):
        expected = 1 / (1 + np.exp(-known @ found))
        slope = known.T @ (weights * (right - expected)) - ridge @ found
        curve = (known * (weights * expected * (1 - expected))[:, None]).T @ known + ridge
        found += np.linalg.solve(curve, slope)
    found[1:] /= spread
    found[0] -= found[1:] @ mean
    return found


def evenly(outcomes: Sequence[Outcome]) -> Floats:
    """Return weights under which each data set counts as much, and in it answerable questions as much as the others."""
    sizes = Counter((one.case.data, one.answerable) for one in outcomes)
    return np.array([1 / sizes[one.case.data, one.answerable] for one in outcomes])


def fitted(outcomes: Sequence[Outcome]) -> formulas.Formula:
    """Return the formula that fits these outcomes best."""
    weights = evenly(outcomes)
    answerable = np.array([float(one.answerable) for one in outcomes])
    topic, of_speaker = fit_both([one.signals for one in outcomes if one.signals], answerable, weights)
    names = formulas.Signals._fields[:-1]
    formula = formulas.Formula(topic[0], **dict(zip(names, topic[1:], strict=True)), named=of_speaker[0], speaker=of_speaker[1],
                               hit=0, sure=0, drop=0, crowd=0)  # fmt: skip
    pairs = [
        ((sure_of(formula, one), -below, -one.crowd), right, weight)
        for one, weight in zip(outcomes, weights, strict=True)
        for below, right in zip(one.below, one.right, strict=True)
    ]
    known, right, counts = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    of_hits = dict(zip(("hit", "sure", "drop", "crowd"), logistic(known, right, counts), strict=True))
    return formulas.Formula(**{name: round(float(value), 2) for name, value in {**asdict(formula), **of_hits}.items()})


def fit_both(signals: Sequence[formulas.Signals], answerable: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return constant and weights of both formulas whose probabilities are multiplied, by expectation maximisation.

    Where there is no answer, one of both is not so: either gets the share that the other leaves it (Dempster, Laird and
    Rubin 1977).
    """
    names = formulas.Signals._fields[:-1]
    ridges = [RIDGE_COVERED if name == "covered" else RIDGE for name in names]
    topics = np.array([one[:-1] for one in signals])
    named = np.array([one.speaker is not None for one in signals])
    leads = np.array([[one.speaker or 0.0] for one in signals])
    topic, of_speaker = np.zeros(topics.shape[1] + 1), np.zeros(2)
    for _ in range(ROUNDS):
        one = 1 / (1 + np.exp(-topic[0] - topics @ topic[1:]))
        other = np.where(named, 1 / (1 + np.exp(-of_speaker[0] - leads @ of_speaker[1:])), 1.0)
        left = np.maximum(1 - one * other, 1e-12)
        topic = logistic(topics, np.maximum(answerable, one * (1 - other) / left), weights, ridges)
        share = np.maximum(answerable, other * (1 - one) / left)
        of_speaker = logistic(leads[named], share[named], weights[named])
    return topic, of_speaker


def sure_of(formula: formulas.Formula, one: Outcome) -> float:
    """Return the log odds that a question has an answer."""
    if one.small_talk or not one.signals:
        return formulas.SMALL_TALK
    return formulas.combined(formula, one.signals)


def chances_of(formula: formulas.Formula, one: Outcome) -> list[float]:
    """Return the probability of each hit that it answers."""
    common = formula.hit + formula.sure * sure_of(formula, one) - formula.crowd * one.crowd
    return [formulas.probability(common - formula.drop * below) for below in one.below]


def figures(formula: formulas.Formula, outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """Return AUC and calibration errors for each data set's groups without an answer, tuned and held out."""
    found: dict[str, dict[str, Any]] = {}
    for data in dict.fromkeys(one.case.data for one in outcomes):
        for tuned in (True, False):
            its = [one for one in outcomes if one.case.data == data and one.case.tuned == tuned]
            yes = [sure_of(formula, one) for one in its if one.answerable]
            if not yes:
                continue
            row: dict[str, Any] = {"answerable": len(yes)}
            hard = [sure_of(formula, one) for one in its if not one.answerable and one.case.group not in IDLE]
            for group in dict.fromkeys(one.case.group for one in its if not one.answerable):
                no = [sure_of(formula, one) for one in its if one.case.group == group]
                row[group] = f"{auc(yes, no):.3f}"
            row["without answer"] = f"{auc(yes, hard):.3f}"
            chances = [chances_of(formula, one) for one in its]
            pairs = [pair for p, one in zip(chances, its, strict=True) for pair in zip(p, one.right, strict=True)]
            row["ECE"] = f"{calibration_error(pairs):.3f}"
            first = [(p[0], one.right[0]) for p, one in zip(chances, its, strict=True) if p]
            row["ECE, first"] = f"{calibration_error(first):.3f}"
            found[f"{data}, {'tuned' if tuned else 'held out'}"] = row
    return found


def by_signal(outcomes: Sequence[Outcome]) -> dict[str, dict[str, str]]:
    """Return the AUC of each signal alone for each data set, held out and tuned together; below .5 it speaks against."""
    found: dict[str, dict[str, str]] = {}
    for place, name in enumerate(formulas.Signals._fields):
        found[name] = {}
        for data, group in dict.fromkeys((one.case.data, one.case.group) for one in outcomes if not one.answerable):
            its = [one for one in outcomes if one.signals and one.case.data == data]
            yes = [one.signals[place] or 0.0 for one in its if one.answerable]
            no = [one.signals[place] or 0.0 for one in its if one.case.group == group]
            if yes and no:
                found[name][f"{data}: {group}"] = f"{auc(yes, no):.2f}"
    return found


async def everything(files: Iterable[Path], most: int) -> list[Outcome]:
    """Fill all stores and ask them."""
    corpus = read_corpus()
    with database() as settings:
        found = await of_corpus(replace(settings, namespace="evidence corpus"), corpus)
        found += await of_demo(replace(settings, namespace="evidence demo"), corpus)
        found += await of_languages(settings)
        for file in files:
            data = json.loads(file.read_text(encoding="utf-8"))
            for plain in (False, True):
                found += await of_locomo(data, settings, most, corpus, plain=plain)
    return found


async def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="LoCoMo's JSON")
    parser.add_argument("--questions", type=int, default=60, help="of each group of a conversation; 0 asks all")
    parser.add_argument("--json", type=Path, help="write the outcomes here")
    arguments = parser.parse_args()
    screen = Console(width=max(Console().width, WIDTH))
    outcomes = await everything(arguments.files, arguments.questions)
    if arguments.json:
        kept = [{"arm": one.arm, "data": one.case.data, "group": one.case.group, "tuned": one.case.tuned, "text": one.case.text,
                 "signals": one.signals, "crowd": one.crowd, "below": one.below, "right": one.right, "small_talk": one.small_talk} for one in outcomes]  # fmt: skip
        arguments.json.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    for arm in ARMS:
        its = [one for one in outcomes if one.arm == arm]
        formula = fitted([one for one in its if one.case.tuned and one.signals and not one.small_talk])
        screen.print(f"by {arm}: {formula}")
        for title, rows in (("fitted", figures(formula, its)), ("each signal alone, AUC", by_signal(its))):
            columns = dict.fromkeys(name for row in rows.values() for name in row)
            screen.print(rows_of(f"by {arm}, {title}", "", columns, rows))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
