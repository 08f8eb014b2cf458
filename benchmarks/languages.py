"""Retrieval across languages, through a real MCP client.

    python benchmarks/languages.py [FOLDER...] [--questions 60] [--json PATH]

Without a folder: a probe of 40 memories with a paraphrased question each, in eight languages (data/languages_probe.tsv). A folder is a
clone of one of these, which are not part of this project:

- github.com/google-deepmind/xquad (CC BY-SA 4.0): paragraphs of Wikipedia in English, asked in twelve languages, and in their own.
- github.com/hejunqing/MADial-Bench (MIT): what a child lived through, to be remembered in a talk, in English and Chinese.

R@k is the mean share of what answers a question that is among the first k.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from locomo import WIDTH, database
from rich.console import Console
from rich.table import Table

from pgengram.cli.clients.mcp_client import call, connected
from pgengram.settings import Settings

PROBE = Path(__file__).parent / "data" / "languages_probe.tsv"
XQUAD = ("en", "de", "es", "ro", "el", "zh", "ru", "tr", "ar", "hi", "vi", "th")
BATCH = 100
ASKED = 10  # hits
SEED = 1


@dataclass(frozen=True, slots=True)
class Task:
    """Memories, and questions with the places of the memories that answer them."""

    name: str
    memories: Sequence[str]
    questions: dict[str, list[tuple[str, set[int]]]]


def probe() -> Iterator[Task]:
    """Yield the memories of each language, asked in each."""
    with PROBE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    languages = list(dict.fromkeys(row["language"] for row in rows))
    asked = {
        one: [(row["question"], {i}) for i, row in enumerate(r for r in rows if r["language"] == one)]
        for one in languages
    }
    for one in languages:
        yield Task(f"probe, memories {one}", [row["memory"] for row in rows if row["language"] == one], asked)


def xquad(folder: Path, most: int) -> Iterator[Task]:
    """Yield the English paragraphs asked in each language, then those of each language asked in it."""
    paragraphs, questions = {}, {}
    for language in XQUAD:
        articles = json.loads((folder / f"xquad.{language}.json").read_text(encoding="utf-8"))["data"]
        flat = [paragraph for article in articles for paragraph in article["paragraphs"]]
        every = [(qa["question"], {i}) for i, paragraph in enumerate(flat) for qa in paragraph["qas"]]
        some = sorted(random.Random(SEED).sample(range(len(every)), min(most, len(every))))
        paragraphs[language] = [paragraph["context"] for paragraph in flat]
        questions[language] = [every[i] for i in some]
    yield Task("XQuAD, paragraphs en", paragraphs["en"], questions)
    for language in XQUAD[1:]:
        yield Task(f"XQuAD, paragraphs {language}", paragraphs[language], {language: questions[language]})


def madial(folder: Path) -> Iterator[Task]:
    """Yield the memories of a language, asked with the three lines before the one that should remember."""
    for language, place in (("en", "en/MADial-Bench-en"), ("zh", "ch/MADial-Bench-zh")):
        talks = [
            [
                json.loads(line)
                for line in (folder / "data" / f"{place}-{part}.json").open(encoding="utf-8")
                if line.strip()
            ]
            for part in ("memory", "dialogue")
        ]
        lived = {int(key): one for entry in talks[0] for key, one in entry.items()}
        at = {key: i for i, key in enumerate(lived)}
        questions = [
            ("".join(talk["dialogue"][max(1, turn - 3) : turn]), {at[one] for one in talk["relevant-id"] if one in at})
            for talk in talks[1]
            for turn in talk["test-turn"][:1]
        ]
        memories = [f"{one['event']} ({one['time']})" for one in lived.values()]
        yield Task(f"MADial, memories {language}", memories, {language: questions})


async def measure(task: Task, settings: Settings) -> dict[str, dict[str, float]]:
    """Store the memories in a namespace of their own, ask, and return the measures by language of the questions."""
    found: dict[str, dict[str, float]] = {}
    async with connected(replace(settings, namespace=task.name)) as client:
        place: dict[str, int] = {}
        for start in range(0, len(task.memories), BATCH):
            batch = task.memories[start : start + BATCH]
            answer = await call(client, "create_memories", {"items": [{"content": text} for text in batch]})
            place |= {one["memory_id"]: start + one["index"] for one in answer["results"] if one["ok"]}
        for language, questions in task.questions.items():
            hits = [await _asked(client, question) for question, _ in questions]
            firsts = [[place.get(hit, -1) for hit in one] for one in hits]
            found[language] = {
                f"R@{k}": _mean(
                    [
                        len(set(first[:k]) & wanted) / len(wanted)
                        for first, (_, wanted) in zip(firsts, questions, strict=True)
                    ]
                )
                for k in (1, 10)
            }
    return found


async def _asked(client: Any, question: str) -> list[str]:
    answer = await call(client, "search_memories", {"query": question, "limit": ASKED})
    return [hit["id"] for hit in answer["results"]]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def tasks(folders: Sequence[Path], most: int) -> Iterator[Task]:
    """Yield what the folders hold, then the probe."""
    for folder in folders:
        yield from xquad(folder, most) if (folder / "xquad.en.json").exists() else madial(folder)
    yield from probe()


async def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="*", help="clones of xquad and MADial-Bench")
    parser.add_argument("--questions", type=int, default=60, help="of XQuAD in each language; all are 1,190")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    results = {}
    screen = Console(width=max(Console().width, WIDTH))
    with database() as settings:
        for task in tasks(arguments.folders, arguments.questions):
            results[task.name] = await measure(task, settings)
            table = Table(title=f"{task.name}: R@1 / R@10 by language of the question, in per cent")
            for language in results[task.name]:
                table.add_column(language, justify="right")
            table.add_row(*(f"{100 * m['R@1']:.0f} / {100 * m['R@10']:.0f}" for m in results[task.name].values()))
            screen.print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
