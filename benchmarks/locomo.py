"""Retrieval quality on LoCoMo (Maharana et al. 2024), through a real MCP client.

    python benchmarks/locomo.py locomo10.json [--modes …] [--leave-one-out]

The file is the data set's own JSON (its authors publish it under CC BY-NC 4.0; it is not part of this project). Each turn
of a conversation becomes one memory, stored by create_memories; each question of categories 1 to 4 is asked by
search_memories, and its evidence turns are looked for among the first k. R@k is the mean share of them found. Zero-overlap
questions share no stem with any of their evidence turns: words cannot find those.

--leave-one-out chooses the weights of the ranking anew on all conversations but one, and tries them on that one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from weights import Captured, captured, leave_one_out, spread

from pgengram.cli.clients.mcp_client import call, connected
from pgengram.postgres import start_embedded
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

CUTS = (1, 5, 10, 20)
ADVERSARIAL = 5
WIDTH = 150  # columns of the tables, also where nobody watches
MODES = ("conversation", "content", "pooled", "vectors", "words")
TURN_ID = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, slots=True)
class Turn:
    """One line of a conversation: its id in the data set, and what create_memories takes."""

    id: str
    memory: dict[str, Any]


def turns(conversation: dict[str, Any], *, plain: bool) -> Iterator[Turn]:
    """Yield the turns in order; `plain` puts speaker and date into the text instead of fields of their own."""
    talk, number = conversation["conversation"], 1
    while (key := f"session_{number}") in talk:
        said_at = talk[f"{key}_date_time"]
        moment = datetime.strptime(said_at, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for turn in talk[key]:
            caption = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            text = f"{turn['speaker']}: {turn['text']}{caption}"
            fields = {"speaker": turn["speaker"], "session_id": key, "occurred_at": moment.isoformat()}
            memory = {"content": f"{text} ({said_at})"} if plain else {"content": text, **fields}
            yield Turn(turn["dia_id"], {**memory, "type": "episodic"})
        number += 1


def evidence(question: dict[str, Any], known: set[str]) -> set[str]:
    """Return the turns that answer a question, those that the conversation has."""
    return {turn for text in question["evidence"] for turn in TURN_ID.findall(text)} & known


async def measure(data: list[dict[str, Any]], mode: str, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Store the conversations, ask every question, and return the mean of each measure and R@10 by conversation."""
    scores: list[dict[str, float]] = []
    by_conversation: list[float] = []
    pool = mode == "pooled"
    settings = replace(settings, embedder="none:" if mode == "words" else settings.embedder)
    strangers = zero_overlap(data, settings.database_url)
    task = progress.add_task(mode, total=sum(len(one["qa"]) for one in data))
    turn_of: dict[str, set[tuple[str, str]]] = {}
    if pool:
        for one in data:
            await store(one, replace(settings, namespace=mode), turn_of, plain=False, apart=one["sample_id"])
    for one in data:
        namespace = replace(settings, namespace=mode if pool else f"{mode} {one['sample_id']}")
        if not pool:
            await store(one, namespace, turn_of, plain=mode == "content", apart="")
        found = await ask(one, namespace, turn_of, strangers, mode, progress, task)
        scores += found
        by_conversation.append(mean([score["R@10"] for score in found]))
    names = scores[0].keys()
    return {
        "mode": mode,
        "questions": len(scores),
        **{name: mean([score[name] for score in scores if not math.isnan(score[name])]) for name in names},
        "zero-overlap questions": sum(not math.isnan(score["zero-overlap R@10"]) for score in scores),
        "R@10 by conversation": by_conversation,
    }


async def store(
    one: dict[str, Any], namespace: Settings, turn_of: dict[str, set[tuple[str, str]]], *, plain: bool, apart: str
) -> None:
    """Store one conversation and remember which turn each memory is."""
    said = list(turns(one, plain=plain))
    async with connected(namespace) as client:
        for start in range(0, len(said), 200):
            batch = said[start : start + 200]
            items = [with_session_apart(turn.memory, apart) for turn in batch]
            answer = await call(client, "create_memories", {"items": items})
            for turn, result in zip(batch, answer["results"], strict=True):
                turn_of.setdefault(result["memory_id"], set()).add((one["sample_id"], turn.id))


def with_session_apart(memory: dict[str, Any], apart: str) -> dict[str, Any]:
    """Keep the sessions of different conversations apart where they share a namespace."""
    return {**memory, "session_id": f"{apart} {memory['session_id']}"} if apart else memory


async def ask(
    one: dict[str, Any],
    namespace: Settings,
    turn_of: dict[str, set[tuple[str, str]]],
    strangers: set[tuple[str, str]],
    mode: str,
    progress: Progress,
    task: Any,
) -> list[dict[str, float]]:
    """Ask every question of one conversation and return its measures."""
    known = {turn for sample, turn in set().union(*turn_of.values()) if sample == one["sample_id"]}
    found = []
    async with connected(namespace) as client:
        for question in one["qa"]:
            progress.advance(task)
            wanted = {(one["sample_id"], turn) for turn in evidence(question, known)}
            if not wanted or question["category"] == ADVERSARIAL:
                continue
            asked: dict[str, Any] = {"query": question["question"], "limit": max(CUTS)}
            if mode == "vectors":
                asked["mode"] = "semantic"
            hits = [turn_of.get(hit["id"], set()) for hit in (await call(client, "search_memories", asked))["results"]]
            its = measures(hits, wanted)
            stranger = (one["sample_id"], question["question"]) in strangers
            found.append({**its, "zero-overlap R@10": its["R@10"] if stranger else math.nan})
    return found


STEMS = "SELECT t.place, tsvector_to_array(to_tsvector('english', t.text)) FROM unnest(%s::text[]) WITH ORDINALITY AS t(text, place)"


def zero_overlap(data: list[dict[str, Any]], url: str) -> set[tuple[str, str]]:
    """Return the questions, by conversation and text, none of whose stems stands in what their evidence turns say."""
    found: set[tuple[str, str]] = set()
    for one in data:
        said = {turn.id: turn.memory["content"].split(": ", 1)[1] for turn in turns(one, plain=False)}
        asked = [(q["question"], evidence(q, set(said))) for q in one["qa"] if q["category"] != ADVERSARIAL]
        texts = [text for text, _ in asked] + [" ".join(said[turn] for turn in sorted(its)) for _, its in asked]
        with psycopg.connect(url) as connection:
            stems = [set(row[1]) for row in sorted(connection.execute(STEMS, [texts]).fetchall())]
        pairs = zip(asked, stems[: len(asked)], stems[len(asked) :], strict=True)
        found |= {(one["sample_id"], text) for (text, its), of_it, of_them in pairs if its and not of_it & of_them}
    return found


async def capture(data: list[dict[str, Any]], settings: Settings, progress: Progress) -> list[Captured]:
    """Store the conversations and return the signals of every question's candidates."""
    questions: list[Captured] = []
    turn_of: dict[str, set[tuple[str, str]]] = {}
    task = progress.add_task("signals", total=sum(len(one["qa"]) for one in data))
    for one in data:
        namespace = replace(settings, namespace=f"signals {one['sample_id']}")
        await store(one, namespace, turn_of, plain=False, apart="")
        known = {turn for sample, turn in set().union(*turn_of.values()) if sample == one["sample_id"]}
        manager = MemoryManager(namespace)
        await manager.open()
        for question in one["qa"]:
            progress.advance(task)
            wanted = {(one["sample_id"], turn) for turn in evidence(question, known)}
            if wanted and question["category"] != ADVERSARIAL:
                found = await captured(manager, question["question"])
                right = np.array([len(turn_of.get(id_, set()) & wanted) for id_, _ in found], dtype=float)
                values = np.array([signals for _, signals in found])
                questions.append(Captured(one["sample_id"], values, right, len(wanted)))
        await manager.close()
    return questions


def print_leave_one_out(questions: list[Captured], screen: Console) -> list[dict[str, Any]]:
    """Print what weights chosen without a conversation find in it, and how much each weight moves."""
    results = leave_one_out(questions)
    table = Table(title=f"R@10 of weights chosen on the other conversations, {len(questions)} questions, in per cent")
    for name in ("left out", "chosen without it", "of the ranking", "weights"):
        table.add_column(name)
    for one in results:
        said = " ".join(f"{name} {weight:g}" for name, weight in one["weights"].items())
        table.add_row(one["left out"], f"{100 * one['chosen']:.1f}", f"{100 * one['shipped']:.1f}", said)
    moved = {name: [one["weights"][name] for one in results] for name in results[0]["weights"]}
    said = " ".join(f"{name} {min(values):g} to {max(values):g}" for name, values in moved.items())
    chosen, shipped = (spread([one[key] for one in results]) for key in ("chosen", "shipped"))
    table.add_row("mean ± spread", chosen, shipped, said)
    screen.print(table)
    return results


def measures(hits: list[set[tuple[str, str]]], wanted: set[tuple[str, str]]) -> dict[str, float]:
    """Return recall of turns and of sessions, whether any or all of the turns are found, and nDCG of one ranking."""
    at: dict[str, float] = {f"R@{k}": len(wanted & set().union(*hits[:k])) / len(wanted) for k in CUTS}
    at["any@10"] = float(bool(wanted & set().union(*hits[:10])))
    at["all@10"] = float(wanted <= set().union(*hits[:10]))
    sessions = {(sample, turn.split(":")[0]) for sample, turn in wanted}
    seen = {(sample, turn.split(":")[0]) for hit in hits[:10] for sample, turn in hit}
    at["session R@10"] = len(sessions & seen) / len(sessions)
    gain = sum(1 / math.log2(place + 2) for place, hit in enumerate(hits[:10]) if hit & wanted)
    at["nDCG@10"] = gain / sum(1 / math.log2(place + 2) for place in range(min(10, len(wanted))))
    return at


def mean(values: list[float]) -> float:
    """Return the mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


async def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, help="LoCoMo's JSON")
    parser.add_argument("--modes", default=",".join(MODES), help=f"of {', '.join(MODES)}")
    parser.add_argument("--leave-one-out", action="store_true", help="choose weights instead")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    data = json.loads(arguments.file.read_text(encoding="utf-8"))
    screen = Console(width=max(Console().width, WIDTH))
    with database() as settings, Progress() as progress:
        if arguments.leave_one_out:
            results = print_leave_one_out(await capture(data, settings, progress), screen)
        else:
            results = [await measure(data, mode, settings, progress) for mode in arguments.modes.split(",")]
            print_measures(results, len(data), screen)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


@contextmanager
def database(answers: str = "full") -> Iterator[Settings]:
    """Yield the settings of the environment, with a database for this run where they name none.

    Args:
        answers: `full`, with whole ids and scores, or `short`, as assistants have them.
    """
    settings = replace(Settings.from_environment(), answers=answers)
    if settings.database_url:
        yield settings
        return
    with tempfile.TemporaryDirectory(prefix="pgengram-locomo-", ignore_cleanup_errors=True) as folder:
        server = start_embedded(Path(folder) / "data")
        try:
            yield replace(settings, database_url=server.url)
        finally:
            server.stop()


def print_measures(results: list[dict[str, Any]], conversations: int, screen: Console) -> None:
    """Print one row for each way of asking."""
    table = Table(title=f"LoCoMo, {conversations} conversations, categories 1 to 4, in per cent")
    apart = ("mode", "questions", "zero-overlap questions", "R@10 by conversation")
    names = [name for name in results[0] if name not in apart]
    for name in ("mode", "n", *names, "of n", "R@10 by conversation"):
        table.add_column(name, justify="right")
    for result in results:
        by_conversation = " ".join(f"{100 * value:.0f}" for value in result["R@10 by conversation"])
        table.add_row(
            result["mode"], str(result["questions"]), *(f"{100 * result[name]:.1f}" for name in names),
            str(result["zero-overlap questions"]), by_conversation,
        )  # fmt: skip
    screen.print(table)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
