"""`pgengram demo`: invented memories stored and searched through a real client."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from pgengram.cli.clients.mcp_client import call_tool, connected_client
from pgengram.cli.options import AsJson
from pgengram.cli.output import print_hits
from pgengram.cli.progress import ProgressBar
from pgengram.cli.runtime import command, print_json, say, screen, shell_line
from pgengram.demo import Corpus, load_corpus
from pgengram.settings import Settings

SHOWN: Final = 3  # the rank that an expected memory must reach
RANKED: Final = 2  # answers printed for each question
FEW: Final = (
    "Why did we enlarge the controls?",
    "Has our pet been poisoned?",
    "Why did Quillwort refuse external capital?",
)
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

    @property
    def is_good(self) -> bool:
        """Whether what was expected is among the hits that are shown."""
        return self.rank is not None and self.rank <= SHOWN

    def as_dict(self) -> dict[str, Any]:
        """Return it without the hits."""
        return {name: value for name, value in asdict(self).items() if name != "hits"}


@command
async def demo(
    everything: Annotated[bool, typer.Option("--all", help="Ask all questions, not three.")] = False,
    keep: Annotated[Path | None, typer.Option(help="Keep the memories in this folder.", file_okay=False)] = None,
    as_json: AsJson = False,
) -> int:
    """Stores memories of a fictional company in a server of its own, and asks about them.

    --json asks all questions. The exit code is 0 if at least 90% of the expected memories are among the first three.

    Examples: `pgengram demo`, `pgengram demo --all --keep ./demo-data`
    """
    settings, corpus = Settings.from_environment(), load_corpus()
    questions = [one for one in corpus.questions if everything or as_json or one.question in FEW]
    with _folder(settings, keep) as chosen:
        async with connected_client(replace(chosen, toolsets="core", answers="full")) as client:
            ids = await _store_corpus(client, corpus)
            asked = [await _ask(client, question, ids[question.expects]) for question in questions]
    good = sum(one.is_good for one in asked)
    if as_json:
        print_json({"questions": [one.as_dict() for one in asked], "in_first_three": good, "asked": len(asked)})
    else:
        _print_answer(asked, stored=len(ids), good=good)
        _show_next_steps(settings, chosen if keep else None)
    return 0 if good >= ENOUGH * len(asked) else 1


@contextmanager
def _folder(settings: Settings, keep: Path | None) -> Iterator[Settings]:
    """Yield the settings with a folder and a namespace of the demo's own; the folder goes when it is not kept."""
    apart = replace(settings, namespace="demo")
    if keep is not None:
        yield replace(apart, data_dir=str(keep.absolute()), database_url="")
        return
    with tempfile.TemporaryDirectory(prefix="pgengram-demo-", ignore_cleanup_errors=True) as folder:
        yield replace(apart, data_dir=folder, database_url="")


async def _store_corpus(client: Any, corpus: Corpus) -> dict[str, str]:
    """Store every memory and return its id by its key."""
    ids: dict[str, str] = {}
    with ProgressBar("Starting PostgreSQL and storing memories") as progress:
        for start in range(0, len(corpus.memories), BATCH):
            batch = corpus.memories[start : start + BATCH]
            answer = await call_tool(client, "create_memories", {"items": [memory.arguments() for memory in batch]})
            ids |= {memory.key: result["memory_id"] for memory, result in zip(batch, answer["results"], strict=True)}
            progress(len(ids), len(corpus.memories))
    return ids


async def _ask(client: Any, question: Any, expected: str) -> Asked:
    answer = await call_tool(client, "search_memories", {"query": question.question, "limit": 10})
    hits = answer["results"]
    rank = next((place for place, hit in enumerate(hits, 1) if hit["id"] == expected), None)
    score = hits[rank - 1].get("score") if rank else None
    return Asked(question.question, expected, rank, score, hits)


def _print_answer(asked: list[Asked], *, stored: int, good: int) -> None:
    say(f"Stored {stored} memories of a fictional company. The questions use different words than the memories:")
    for one in asked:
        screen.print(Text(f"\n{one.question}", style="bold"))
        print_hits(one.hits[:RANKED], {}, mark=one.expected_id)
    say(f"\n{good} of {len(asked)} expected memories are among the first {SHOWN}, marked ✓.")


def _show_next_steps(settings: Settings, kept: Settings | None) -> None:
    if kept is None:
        say("The demo's memories were removed. To explore them in the web app, keep them:\n")
        say("  pgengram demo --keep pgengram-demo")
    else:
        say("To look at these memories in the web app:\n")
        say(f"  {shell_line('pgengram ui', kept.variables)}")
    say("\nTo give an assistant a memory of its own:\n\n  pgengram connect\n")
    say(f"Its memories will be in {settings.data_path}.")
