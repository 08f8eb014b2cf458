"""Whether an answer tells that there is none: answerable against unanswerable questions, through a real MCP client.

    python benchmarks/abstention.py [locomo10.json …] [--questions N] [--json PATH]

The files are LoCoMo's JSON (not part of this project). Of each conversation questions of categories 1 to 4 count as
answerable; unanswerable are its questions of category 5 ("adversarial"), and questions of categories 1 to 4 of the next
conversation ("foreign"). The corpus of assistant.py is asked as well: its unanswerable questions, and its greetings and
unrelated prompts.

AUC is the chance that an answerable question has the higher best score than an unanswerable one (.5 is chance); where
answers tell their evidence, that is ranked first and the score decides between equals. Calibration: hits are put into
ten bins by score, and the error is the mean distance between a bin's mean score and its share of hits that answer,
weighted by the hits in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from assistant import rows_of
from corpus import asked, id_of, live_through
from corpus import read as read_corpus
from locomo import ADVERSARIAL, database, evidence, store
from rich.console import Console
from rich.progress import Progress

from pgengram.cli.clients.mcp_client import connected
from pgengram.settings import Settings

LIMIT = 10
BINS = 10
WIDTH = 130
LEVELS = ("strong", "weak", "none")
UNKNOWN = "absent"


@dataclass(frozen=True, slots=True)
class Told:
    """What one question was answered: the scores of the hits, which of them answer, the evidence told, and the probability
    that one of them answers.
    """

    data: str
    group: str
    scores: list[float]
    right: list[bool]
    evidence: str
    answered: float

    @property
    def best(self) -> float:
        """The best score, 0 where nothing was found."""
        return max(self.scores, default=0.0)


async def put(client: Any, text: str, more: dict[str, Any]) -> dict[str, Any]:
    """Ask one question and return the answer."""
    answer, _ = await asked(client, "search_memories", {"query": text, "limit": LIMIT, "detail": True, **more})
    return answer


def outcome(data: str, group: str, answer: dict[str, Any], right: list[bool]) -> Told:
    """Return what an answer says."""
    scores = [float(hit.get("score", 0.0)) for hit in answer["results"]]
    return Told(data, group, scores, right, str(answer.get("evidence", UNKNOWN)), answer.get("answered", 0.0))


async def ask_corpus(settings: Settings) -> list[Told]:
    """Store the own corpus and ask it everything."""
    stored = await live_through(read_corpus(), settings)
    found = []
    async with connected(settings) as client:
        for question in stored.corpus["questions"]:
            answer = await put(client, question["question"], {"now": stored.corpus["now"]})
            wanted = set(question.get("answers", ()))
            right = [stored.key_of(id_of(hit)) in wanted for hit in answer["results"]]
            found.append(outcome("corpus", "answerable" if wanted else question["category"], answer, right))
    return found


def some(questions: list[Any], most: int) -> list[Any]:
    """Return at most that many questions, evenly spread; all of them for 0."""
    step = max(1, -(-len(questions) // most)) if most else 1
    return questions[::step]


async def ask_locomo(data: list[dict[str, Any]], settings: Settings, most: int, progress: Progress) -> list[Told]:
    """Store each conversation apart, and ask it its own questions, its adversarial ones and the next one's."""
    found = []
    for place, one in enumerate(progress.track(data, description="LoCoMo")):
        namespace = replace(settings, namespace=f"abstention {one['sample_id']}")
        turn_of: dict[str, set[tuple[str, str]]] = {}
        await store(one, namespace, turn_of, plain=False, apart="")
        known = {turn for turns in turn_of.values() for _, turn in turns}
        ordinary = [q for q in one["qa"] if q["category"] != ADVERSARIAL and evidence(q, known)]
        other = data[(place + 1) % len(data)]
        groups = {
            "answerable": ordinary,
            "adversarial": [q for q in one["qa"] if q["category"] == ADVERSARIAL],
            "foreign": [q for q in other["qa"] if q["category"] != ADVERSARIAL] if other is not one else [],
        }
        async with connected(namespace) as client:
            for group, questions in groups.items():
                for question in some(questions, most):
                    answer = await put(client, question["question"], {})
                    wanted = evidence(question, known) if group == "answerable" else set()
                    turns = [{turn for _, turn in turn_of.get(id_of(hit), ())} for hit in answer["results"]]
                    found.append(outcome("LoCoMo", group, answer, [bool(its & wanted) for its in turns]))
    return found


def auc(positive: list[Any], negative: list[Any]) -> float:
    """Return the chance that one of `positive` is greater than one of `negative`; equal ones count half."""
    wins = sum((p > n) + (p == n) / 2 for p in positive for n in negative)
    return wins / (len(positive) * len(negative))


def calibration_error(pairs: list[tuple[float, bool]]) -> float:
    """Return the expected calibration error of scores as probabilities; scores beyond 0 and 1 count as these."""
    if not pairs:
        return 0.0
    score = np.clip(np.array([one for one, _ in pairs]), 0, 1)
    right = np.array([one for _, one in pairs], dtype=float)
    bins = np.minimum((score * BINS).astype(int), BINS - 1)
    error = 0.0
    for one in range(BINS):
        inside = bins == one
        if inside.any():
            error += inside.mean() * abs(score[inside].mean() - right[inside].mean())
    return float(error)


def reliability(answers: list[Told]) -> list[dict[str, float]]:
    """Return each bin of scores: how many hits, their mean score and the share that answers."""
    pairs = [pair for one in answers for pair in zip(one.scores, one.right, strict=True)]
    rows = []
    for low in range(BINS):
        its = [(s, r) for s, r in pairs if min(int(max(s, 0) * BINS), BINS - 1) == low]
        if its:
            mean_score, share = (float(np.mean(column)) for column in zip(*its, strict=True))
            rows.append({"from": low / BINS, "hits": len(its), "mean score": mean_score, "answer": share})
    return rows


def figures(answers: list[Told]) -> dict[str, Any]:
    """Return AUC for each group without an answer, calibration by data set, and evidence by group."""
    found: dict[str, Any] = {"auc": {}, "calibration": {}, "evidence": {}}
    for data in dict.fromkeys(one.data for one in answers):
        its = [one for one in answers if one.data == data]
        yes = [one for one in its if one.group == "answerable"]
        groups = [group for group in dict.fromkeys(one.group for one in its) if group != "answerable"]
        for group in groups:
            no = [one for one in its if one.group == group]
            found["auc"][f"{data}: {group}"] = {
                "answerable": len(yes),
                "without answer": len(no),
                "best score": round(auc([one.best for one in yes], [one.best for one in no]), 3),
                "answered": round(auc([one.answered for one in yes], [one.answered for one in no]), 3),
            }
        hits = [pair for one in its for pair in zip(one.scores, one.right, strict=True)]
        first = [(one.scores[0], one.right[0]) for one in its if one.scores]
        found["calibration"][data] = {
            "all hits": round(calibration_error(hits), 3),
            "first hits": round(calibration_error(first), 3),
            "bins": reliability(its),
        }
        for group in ("answerable", *groups):
            told_by = Counter(one.evidence for one in its if one.group == group)
            total = sum(told_by.values())
            found["evidence"][f"{data}: {group}"] = {
                "n": total, **{level: f"{100 * told_by[level] / total:.0f} %" for level in (*LEVELS, UNKNOWN)}
            }  # fmt: skip
    return found


def show(found: dict[str, Any], screen: Console) -> None:
    """Print the tables."""
    columns = ("answerable", "without answer", "best score", "answered")
    screen.print(rows_of("AUC, answerable against", "questions", columns, found["auc"]))
    screen.print(
        rows_of("expected calibration error of score", "data", ("all hits", "first hits"), found["calibration"])
    )
    screen.print(rows_of("evidence told", "questions", ("n", *LEVELS, UNKNOWN), found["evidence"]))
    for data, its in found["calibration"].items():
        rows = {f"{row['from']:.1f}": {k: f"{v:.3g}" for k, v in row.items()} for row in its["bins"]}
        screen.print(rows_of(f"{data}: hits by score", "from", ("hits", "mean score", "answer"), rows))


async def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="LoCoMo's JSON")
    parser.add_argument("--questions", type=int, default=40, help="of each group of a conversation; 0 asks all")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    screen = Console(width=max(Console().width, WIDTH))
    with database() as settings, Progress() as progress:
        answers = await ask_corpus(settings)
        for file in arguments.files:
            data = json.loads(file.read_text(encoding="utf-8"))
            answers += await ask_locomo(data, settings, arguments.questions, progress)
    found = figures(answers)
    show(found, screen)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
