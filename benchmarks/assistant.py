"""What an answer costs a model and whether what it is told is true: through a real MCP client, in answers as assistants have them.

    python benchmarks/assistant.py [--weeks FILE] [--mistakes] [--json PATH]

With `--weeks`, weeks of notes (see corpus.py) are lived through: each session begins with its opening and once without a
topic, as of its day. Counted are empty beginnings, outdated facts without what replaced them, events of the next two weeks that
are named by their day in ISO 8601 or by `occurred_at` and not shown, and hints at what a new memory replaces that are right. With `--mistakes`,
the calls of tests/tools that models get wrong are made. The memories of the own corpus are stored one by one, and each of its questions is asked by search_memories and recall_context.
Tokens are estimated as bytes of the answer's text / 3.7, what JSON with ids costs large models.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
from corpus import CORPUS, Session, World, shift, worlds
from retrieval import WIDTH, Filled, database, mean, table
from rich.console import Console

from pgengram.cli.clients.mcp_client import connected_client
from pgengram.inputs import Change, NewMemory
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

BYTES_PER_TOKEN = 3.7
LIMIT = 10
TEXT = ("text", "content")
AHEAD = timedelta(days=14)
DAY = re.compile(r"\b(20\d\d-\d\d-\d\d)\b")
CLOCKS = ("digest", "reading", "names_asked")  # modules of service.answers that ask what time it is


async def asked(client: Any, tool: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Call a tool and return its structured answer and the bytes of the text that a model reads.

    Raises:
        ValueError: the tool refused.
    """
    answer = await client.call_tool(tool, arguments)
    text = answer.content[0].text
    if answer.is_error:
        raise ValueError(f"{tool}: {text}")
    return dict(answer.structured_content), len(text.encode())


async def answers_of(world: World, settings: Settings) -> dict[str, list[tuple[dict[str, Any], int]]]:
    """Return every answer of each tool with its size."""
    found: dict[str, list[tuple[dict[str, Any], int]]] = defaultdict(list)
    async with connected_client(settings) as client:
        for step in (step for session in world.sessions for step in session.steps if step.does == "create"):
            found["create_memory"].append(await asked(client, "create_memory", step.arguments))
        for query in world.queries:
            if query.wanted:
                search = await asked(client, "search_memories", {"query": query.text, "limit": LIMIT, "now": world.now})
                is_list = len(search[0]["results"]) > LIMIT
                found[f"search_memories{', for all there is' * is_list}"].append(search)
                found["recall_context"].append(await asked(client, "recall_context", {"context": query.text}))
    return found


def cost(answers: list[tuple[dict[str, Any], int]]) -> dict[str, Any]:
    """Return the size of an answer, on average, and the share of its bytes that the memories' own words take."""
    said = [sum(len(str(hit[name]).encode()) for hit in one.get("results", ()) for name in TEXT if name in hit)
            + len(one.get("context", "").encode()) for one, _ in answers]  # fmt: skip
    whole = [size for _, size in answers]
    return {"answers": len(answers), "bytes": round(mean(whole)), "tokens": round(mean(whole) / BYTES_PER_TOKEN),
            "content, %": 100 * sum(said) / sum(whole)}  # fmt: skip


def by_field(answers: list[tuple[dict[str, Any], int]]) -> dict[str, float]:
    """Return the bytes of each field of a hit, on average over the answers."""
    counted = Counter[str]()
    for one, _ in answers:
        for hit in one.get("results", ()):
            counted.update(
                {name: len(json.dumps({name: its}, ensure_ascii=False).encode()) - 1 for name, its in hit.items()}
            )
    return {name: size / len(answers) for name, size in counted.most_common()}


@dataclass
class Lived:
    """What became of the sessions of some weeks."""

    starts: int = 0
    empty: list[str] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)
    events: int = 0
    missed: list[str] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    hinted: int = 0
    right: int = 0

    def figures(self) -> dict[str, Any]:
        """Return the counts, and the size of a beginning."""
        tokens = [size / BYTES_PER_TOKEN for size in self.bytes]
        return {
            "session starts": self.starts, "empty": len(self.empty), "outdated alone": len(self.outdated),
            "events due": self.events, "not shown": len(self.missed), "tokens": round(mean(tokens)), "most": round(max(tokens, default=0)),
            "hints": self.hinted, "of these asked about": self.right,
        }  # fmt: skip


async def lived_through(world: World, raw: dict[str, Any], host: MemoryManager) -> Lived:
    """Live through weeks of notes session by session, and judge each beginning."""
    filled = Filled(world, MemoryManager(replace(host.settings, namespace="weeks"), host))
    await filled.manager.ready(embeds=False)
    after = defaultdict[str, set[str]](set)
    for new, its in world.replaces.items():
        for old in its:
            after[old].add(new)
    lived = Lived()
    for session, told in zip(world.sessions, raw["sessions"], strict=True):
        assert session.date is not None
        if filled.ids:
            for asked in ({"context": told.get("opening", "Hello!")}, {}):
                scope = {name: told[name] for name in ("user", "project") if told.get(name)}
                with as_of(session.date):
                    begun = await filled.manager.recall_context(**asked, **scope)
                judge(lived, begun.context, filled, session.date, after, told, whole=not asked)
        with psycopg.connect(host.settings.database_url) as connection:
            [began] = connection.execute("SELECT now()").fetchone() or ()
        await store_session(session, filled, lived.fields)
        shift(host.settings.database_url, began, session.date)
    lived.hinted = len([1 for its in filled.hinted.values() if its])
    lived.right = sum(bool(its & world.replaces.get(new, set())) for new, its in filled.hinted.items())
    return lived


def judge(
    lived: Lived,
    text: str,
    filled: Filled,
    now: datetime,
    after: dict[str, set[str]],
    told: dict[str, Any],
    *,
    whole: bool,
) -> None:
    """Add what is wrong with one beginning; only one without a topic has to show what is due."""
    lived.starts += 1
    lived.bytes.append(len(text.encode()))
    if not text:
        lived.empty.append(f"{now:%Y-%m-%d}")
    shown = {key for key, id_ in filled.ids.items() if id_[-8:] in text}
    there = filled.ids.keys()
    lived.outdated += [old for old in shown for new in [after.get(old, set()) & there] if new and not new & shown]
    if whole:
        current = [key for key in there if not after.get(key, set()) & there]
        due = {key for key in current if is_due(lived.fields[key], now) and is_for(lived.fields[key], told)}
        lived.events += len(due)
        lived.missed += [f"{now:%Y-%m-%d}: {key}" for key in sorted(due - shown)]


def is_due(fields: dict[str, Any], now: datetime) -> bool:
    """Whether a memory names a day of the next two weeks."""
    days = [*DAY.findall(fields["content"]), fields.get("occurred_at", "")[:10]]
    return any(f"{now:%Y-%m-%d}" <= day <= f"{now + AHEAD:%Y-%m-%d}" for day in days)


def is_for(fields: dict[str, Any], told: dict[str, Any]) -> bool:
    """Whether a memory is of the person and the project that a session is about."""
    return all(not told.get(name) or fields.get(name) in (None, told[name]) for name in ("user", "project"))


async def store_session(session: Session, filled: Filled, fields: dict[str, dict[str, Any]]) -> None:
    """Do what a session does, one call after the other, as an assistant does."""
    for step in session.steps:
        if step.does == "create":
            stored = await filled.manager.create_memory(NewMemory.model_validate(step.arguments))
            filled.ids[step.key], filled.keys[stored.memory_id] = stored.memory_id, step.key
            filled.hinted[step.key] = {filled.keys.get(one["id"], "") for one in stored.may_replace or ()}
            fields[step.key] = dict(step.arguments)
        elif step.does == "update":
            await filled.manager.update_memory(Change.model_validate({"id": filled.ids[step.key], **step.arguments}))
            fields[step.key] |= step.arguments
        elif step.key in filled.ids:
            instead = [filled.ids[key] for key in step.others if key in filled.ids]
            await filled.manager.forget_memories([filled.ids[step.key]], replaced_by_ids=instead, **step.arguments)
            del filled.ids[step.key]


@contextmanager
def as_of(moment: datetime) -> Iterator[None]:
    """Let the answers of this process be given at a moment."""
    modules = [import_module(f"pgengram.service.answers.{name}") for name in CLOCKS]
    before = [module.here for module in modules]
    for module in modules:
        module.here = lambda: moment.astimezone()
    try:
        yield
    finally:
        for module, clock in zip(modules, before, strict=True):
            module.here = clock


async def sizes(settings: Settings) -> dict[str, dict[str, int]]:
    """Return the bytes of each tool in tools/list, and of the instructions."""
    async with connected_client(settings) as client:
        listed = (await client.list_tools()).tools
        instructions = client.instructions or ""
    each = {
        tool.name: {"bytes": len(tool.model_dump_json(by_alias=True, exclude_none=True).encode())} for tool in listed
    }
    whole = {
        "tools/list": {"bytes": sum(one["bytes"] for one in each.values())},
        "instructions": {"bytes": len(instructions.encode())},
    }
    return {**whole, **each}


async def mistakes(settings: Settings) -> dict[str, Any]:
    """Return what becomes of the calls that models get wrong."""
    sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / "tools"), str(Path(__file__).parents[1] / "tests")]
    generated, judges = import_module("generated_mistakes"), import_module("mistakes")
    found: dict[str, dict[str, Any]] = {}
    async with connected_client(replace(settings, answers="full", toolsets="core,review,graph,maintenance")) as client:
        for title, cases in {"one by one": judges.CASES, "by rule": generated.cases()}.items():
            verdicts = Counter[str]()
            for case in cases:
                await client.call_tool("search_memories", {})
                with psycopg.connect(settings.database_url, autocommit=True) as connection:
                    connection.execute("TRUNCATE memories, memory_history CASCADE")
                verdicts[(await judges.judged(client, case)).word] += 1
            found[title] = {"calls": len(cases), **verdicts}
    return found


async def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--weeks", type=Path, help="weeks of notes to live through; the own corpus if left out")
    parser.add_argument("--mistakes", action="store_true", help="also make the calls that models get wrong")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    screen = Console(width=max(Console().width, WIDTH))
    [world] = worlds(CORPUS)
    with database() as settings:
        short = replace(settings, answers="short")
        answers = await answers_of(world, short)
        figures = {
            "one answer, on average": {tool: cost(its) for tool, its in answers.items()},
            "bytes of each field of the hits": {"search_memories": by_field(answers["search_memories"])},
            "what a client reads at the start": await sizes(short),
        }
    weeks = arguments.weeks or CORPUS
    [world] = worlds(weeks)
    with database() as settings:
        host = MemoryManager(settings)
        lived = await lived_through(world, json.loads(weeks.read_text(encoding="utf-8")), host)
        await host.close()
        figures["weeks lived through"] = {world.data: lived.figures()}
        if arguments.mistakes:
            figures["calls that models get wrong"] = await mistakes(settings)
    for title, rows in figures.items():
        screen.print(table(title, rows))
    for what in ("empty", "outdated", "missed"):
        for one in getattr(lived, what):
            screen.print(f"{what}: {one}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
