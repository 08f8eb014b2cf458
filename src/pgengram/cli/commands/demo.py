"""`pgengram demo`: invented memories stored and searched through a real client."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape
from rich.table import Table

from pgengram.cli.clients.client_configs import CLIENTS
from pgengram.cli.clients.mcp_client import call, connected, entry
from pgengram.cli.options import AsJson
from pgengram.cli.progress import ProgressBar
from pgengram.cli.runtime import command, print_json, say, screen
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

    def as_dict(self) -> dict[str, Any]:
        """Return it without the hits."""
        return {name: value for name, value in asdict(self).items() if name != "hits"}


@command
async def demo(
    keep: Annotated[Path | None, typer.Option(help="Keep the demo's memories in this folder.", file_okay=False)] = None,
    as_json: AsJson = False,
) -> int:
    """Starts a server as a client would, stores an invented life, and asks about it.

    The exit code is 0 when nine in ten expected memories are among the first three.

    Example: `pgengram demo --keep ./demo-data`
    """
    settings, corpus = Settings.from_environment(), load()
    with _folder(settings, keep) as chosen:
        async with connected(chosen) as client:
            ids = await _store(client, corpus)
            asked = [await _ask(client, question, ids[question.expects]) for question in corpus.questions]
    good = sum(one.rank is not None and one.rank <= SHOWN for one in asked)
    if as_json:
        print_json({"questions": [one.as_dict() for one in asked], "in_first_three": good, "asked": len(asked)})
    else:
        for one in asked:
            _show(one)
        screen.print(f"\n[bold]{good} of {len(asked)} expected memories are among the first {SHOWN}.[/bold]")
        _show_next_steps(settings, chosen if keep else None)
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
    with ProgressBar("Starting PostgreSQL and remembering") as progress:
        for start in range(0, len(corpus.memories), BATCH):
            batch = corpus.memories[start : start + BATCH]
            answer = await call(client, "create_memories", {"items": [memory.arguments() for memory in batch]})
            ids |= {memory.key: result["memory_id"] for memory, result in zip(batch, answer["results"], strict=True)}
            progress(len(ids), len(corpus.memories))
    return ids


async def _ask(client: Any, question: Any, expected: str) -> Asked:
    answer = await call(client, "search_memories", {"query": question.question, "limit": 10})
    hits = answer["results"]
    rank = next((place for place, hit in enumerate(hits, 1) if hit["id"] == expected), None)
    score = hits[rank - 1].get("score") if rank else None
    return Asked(question.question, expected, rank, score, hits)


def _show(one: Asked) -> None:
    table = Table(title=f"[bold]{escape(one.question)}[/bold]", title_justify="left", expand=True)
    for name in ("", "memory", "score", "meaning", "words", "relevance"):
        table.add_column(name, justify="left" if name == "memory" else "right", ratio=1 if name == "memory" else None)
    for place, hit in enumerate(one.hits[:SHOWN], 1):
        why = hit.get("why", {})
        parts = (hit.get("score"), why.get("similarity"), why.get("words"), hit.get("relevance"))
        mark = "✓" if hit["id"] == one.expected_id else str(place)
        table.add_row(mark, escape(hit["content"]), *("–" if part is None else f"{part:.2f}" for part in parts))
    screen.print(table)


def _show_next_steps(settings: Settings, kept: Settings | None) -> None:
    if kept is None:
        say("These memories were in a temporary folder, which is removed; --keep FOLDER keeps them.")
        say(f"Your own memories will be in {settings.data_path}.")
    else:
        say(f"These memories are in {kept.data_path}.")
    say(f"\nConnect an assistant with `pgengram connect CLIENT`: {', '.join(CLIENTS)}.")
    say("By hand the entry is this, for Claude Desktop and Cursor; then restart the client:\n")
    say(json.dumps({"mcpServers": {"memory": entry(kept or settings)}}, indent=2))
