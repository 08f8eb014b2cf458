"""`pgengram demo`: the whole way once, through a real client, on memories invented for it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pgengram.cli.client import call, connected, entry
from pgengram.cli.progress import Told
from pgengram.demo import Corpus, load
from pgengram.settings import Settings

SHOWN: Final = 3  # ranked answers printed for each question, and the rank an expected one must reach
ENOUGH: Final = 0.9  # share of questions whose memory is among the first three
BATCH: Final = 50


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, what was expected and what came."""

    question: str
    expected_id: str
    rank: int | None
    score: float | None
    hits: list[dict[str, Any]]


async def run_demo(settings: Settings, *, keep: Path | None, as_json: bool) -> int:
    """Store the corpus, ask its questions, show the answers; 0 when nine in ten are among the first three."""
    screen = Console()
    corpus = load()
    with _folder(settings, keep) as chosen:
        async with connected(chosen) as client:
            ids = await _store(client, corpus)
            asked = [await _ask(client, question, ids[question.expects]) for question in corpus.questions]
    good = sum(one.rank is not None and one.rank <= SHOWN for one in asked)
    if as_json:
        screen.print_json(json.dumps(_as_json(asked, good)))
    else:
        for one in asked:
            _show(screen, one)
        _close(screen, settings, chosen, keep, f"{good} of {len(asked)} expected memories are among the first {SHOWN}.")
    return 0 if good >= ENOUGH * len(asked) else 1


@contextmanager
def _folder(settings: Settings, keep: Path | None) -> Iterator[Settings]:
    """Yield the settings with a folder and a namespace of the demo's own; the folder goes when it is not kept."""
    apart = replace(settings, namespace="demo", toolsets="core")
    if keep is not None:
        yield replace(apart, data_dir=str(keep.absolute()), database_url="")
        return
    with tempfile.TemporaryDirectory(prefix="pgengram-demo-", ignore_cleanup_errors=True) as folder:
        yield replace(apart, data_dir=folder, database_url="")


async def _store(client: Any, corpus: Corpus) -> dict[str, str]:
    """Store every memory and return its id by its key."""
    ids: dict[str, str] = {}
    with Told("Starting PostgreSQL and remembering") as told:
        for start in range(0, len(corpus.memories), BATCH):
            batch = corpus.memories[start : start + BATCH]
            answer = await call(client, "create_memories", {"items": [memory.arguments() for memory in batch]})
            ids |= {memory.key: result["memory_id"] for memory, result in zip(batch, answer["results"], strict=True)}
            told(len(ids), len(corpus.memories))
    return ids


async def _ask(client: Any, question: Any, expected: str) -> Asked:
    answer = await call(client, "search_memories", {"query": question.question, "limit": 10})
    hits = answer["results"]
    rank = next((place for place, hit in enumerate(hits, 1) if hit["id"] == expected), None)
    score = hits[rank - 1].get("score") if rank else None
    return Asked(question.question, expected, rank, score, hits)


def _show(screen: Console, one: Asked) -> None:
    table = Table(title=f"[bold]{escape(one.question)}[/bold]", title_justify="left", expand=True)
    for name in ("", "memory", "score", "meaning", "words", "relevance"):
        table.add_column(name, justify="left" if name == "memory" else "right", ratio=1 if name == "memory" else None)
    for place, hit in enumerate(one.hits[:SHOWN], 1):
        why = hit.get("why", {})
        parts = (hit.get("score"), why.get("similarity"), why.get("words"), hit.get("relevance"))
        mark = "✓" if hit["id"] == one.expected_id else str(place)
        table.add_row(mark, escape(hit["content"]), *("–" if part is None else f"{part:.2f}" for part in parts))
    screen.print(table)


def _as_json(asked: list[Asked], good: int) -> dict[str, Any]:
    questions = [
        {"question": one.question, "expected_id": one.expected_id, "rank": one.rank, "score": one.score}
        for one in asked
    ]
    return {"questions": questions, "in_first_three": good, "asked": len(asked)}


def _close(screen: Console, settings: Settings, chosen: Settings, keep: Path | None, result: str) -> None:
    screen.print(f"\n[bold]{result}[/bold]")
    if keep is None:
        screen.print("These memories lay in a folder of their own, which is gone now; --keep FOLDER keeps them.")
        screen.print(f"Your own memories will lie in {settings.data_path}.", soft_wrap=True)
    else:
        screen.print(f"These memories lie in {chosen.data_path}.", soft_wrap=True)
    connection = json.dumps({"mcpServers": {"memory": entry(chosen if keep else settings)}}, indent=2)
    screen.print(
        "\nConnect an assistant with `pgengram connect CLIENT`: claude-desktop, claude-code, cursor, vscode or codex."
    )
    screen.print("By hand the entry is this, for Claude Desktop and Cursor; then restart the client:\n")
    screen.print(connection, markup=False, highlight=False, soft_wrap=True)
