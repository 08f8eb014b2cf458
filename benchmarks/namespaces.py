"""Two namespaces on one pool of two connections, many calls at once, a fifth of them cancelled: does anything get through?

    python benchmarks/namespaces.py [--namespaces 2] [--tasks 8] [--calls 500] [--embedder none:] [--seed 1] [--json PATH]

Every text that a namespace stores has the namespace's own word in it. An answer that has another's word in it, or the id of a
memory of another's that was not asked for, is a foreign row. Afterwards the rows themselves are looked through, and what the
pooled connections still carry. Ends with 1 when anything foreign was seen or a connection was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from pgengram.errors import PgengramError
from pgengram.mcp.binding import ToolBinding
from pgengram.postgres import start_embedded
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.connection import pool as pools
from pgengram.store.connection.begin import APP_ROLE

POOL = 2
CANCELLED = 0.2  # of the calls
LONGEST_S = 0.03  # until a call is cancelled; most take less than half of that
ABOUT = ["tea", "harbour", "the gate", "Oslo", "a debt", "the dog", "green paint", "Monday"]
NOUNS = ["ledger", "walnut", "candle", "bicycle", "window", "violin", "parcel", "lantern", "anchor", "orchard"]


def word_of(namespace: str) -> str:
    """Return the word that is in everything a namespace stores."""
    return f"canary{namespace}"


class Namespace:
    """One namespace: its manager, its tools, and the ids it has seen."""

    def __init__(self, name: str, manager: MemoryManager, dice: random.Random) -> None:
        self.name, self.manager, self.dice = name, manager, dice
        self.offers = {tool.name: ToolBinding(tool) for tool in manager.tools}
        self.ids: list[str] = []

    def text(self) -> str:
        return f"{word_of(self.name)} keeps {self.dice.choice(NOUNS)} {self.dice.randrange(10**9)} about {self.dice.choice(ABOUT)}."

    def call(self, anyone: list[str]) -> tuple[str, dict[str, Any]]:
        """Return a call to make; its ids may be those of others."""
        dice = self.dice
        some = (
            [dice.choice(anyone) for _ in range(dice.randint(1, 3))]
            if anyone
            else ["01a1fc39-4afe-78fc-937c-e480e8d03e19"]
        )
        some = [id_[-12:] if dice.random() < 0.3 else id_ for id_ in some]
        asked = dice.choice([*ABOUT, *NOUNS, *(word_of(namespace) for namespace in ("ada", "ben"))])
        return dice.choice([
            ("create_memory", {"content": self.text(), "tags": [word_of(self.name)], "dedup_policy": "insert"}),
            ("create_memory", {"content": self.text(), "kind": dice.choice(["fact", "decision", "process", "error"])}),
            ("create_memories", {"items": [{"content": self.text()} for _ in range(5)]}),
            ("search_memories", {"query": asked, "limit": 50, "detail": True}),
            ("search_memories", {"query": asked, "mode": dice.choice(["text", "substring"]), "limit": 50}),
            ("search_memories", {"sort": "created", "limit": 100, "status": dice.choice(["active", "invalidated"])}),
            ("recall_context", {"context": asked}),
            ("get_memories", {"ids": some, "include": ["history", "relations", "clusters"]}),
            ("update_memory", {"id": some[0], "content": self.text()}),
            ("forget_memories", {"ids": some[:1], "reason": f"{word_of(self.name)} is over."}),
            ("link_memories", {"from_id": some[0], "to_ids": some[1:] or some, "properties": {"by": word_of(self.name)}}),
            ("explore_memories", {"ids": some, "depth": 3, "min_strength": 0}),
            ("create_memory_cluster", {"name": self.text(), "memory_ids": some}),
            ("get_memory_clusters", {"insights": True, "days": 7, "members": 50}),
            ("create_working_memory", {"content": self.text()}),
            ("get_working_memories", {}),
            ("record_belief", {"belief": self.text(), "supported_by": some[:1]}),
            ("get_worldview", {}),
            ("record_identity", {"self_concept": self.text()}),
            ("get_identity_core", {}),
            ("memory_stats", {}),
            ("review_memories", {}),
            ("tidy_memories", {"action": "archive", "older_than_days": 0, "below_importance": 0.01}),
        ])  # fmt: skip


class Run:
    """What was seen."""

    def __init__(self, namespaces: list[Namespace], dice: random.Random) -> None:
        self.namespaces, self.dice = namespaces, dice
        self.seen: Counter[str] = Counter()
        self.foreign: list[str] = []

    async def one(self, namespace: Namespace) -> None:
        """Make one call, perhaps cancel it, and judge what it answers."""
        everybody = [id_ for one in self.namespaces for id_ in one.ids[-40:]]
        tool, given = namespace.call(everybody)
        running = asyncio.create_task(self._made(namespace, tool, given))
        if self.dice.random() < CANCELLED:
            await asyncio.sleep(self.dice.random() * LONGEST_S)
            running.cancel()
        await asyncio.wait({running})
        if running.cancelled():
            self.seen["cancelled"] += 1
            return
        text = running.result()
        self.judge(namespace, tool, given, text)

    async def _made(self, namespace: Namespace, tool: str, given: dict[str, Any]) -> str:
        binding = namespace.offers[tool]
        try:
            answer = await binding.read(given).run()
        except PgengramError as error:
            self.seen[error.code] += 1
            return json.dumps(error.as_dict())
        self.seen["answered"] += 1
        outcome = json.loads(answer.model_dump_json(exclude_none=True))
        namespace.ids += [outcome["memory_id"]] if "memory_id" in outcome else []
        namespace.ids += [
            one["memory_id"] for one in outcome.get("results", []) if isinstance(one, dict) and "memory_id" in one
        ]
        return json.dumps(outcome)

    def judge(self, namespace: Namespace, tool: str, given: dict[str, Any], text: str) -> None:
        for other in self.namespaces:
            if other is namespace:
                continue
            if word_of(other.name) in text and word_of(other.name) not in json.dumps(given):
                self.foreign.append(f"{namespace.name} saw a text of {other.name} in {tool}")
            theirs = [
                id_ for id_ in other.ids if id_ in text and not any(id_.endswith(asked) for asked in _strings(given))
            ]
            self.foreign += [f"{namespace.name} saw the id {id_} of {other.name} in {tool}" for id_ in theirs]


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in _strings(one)]


async def left_behind(namespaces: list[Namespace]) -> dict[str, int]:
    """Return how many rows of each namespace hold another's word, and what pooled connections still carry."""
    pool = namespaces[0].manager.store.database
    wrong: Counter[str] = Counter()
    for namespace in namespaces:
        others = [word_of(other.name) for other in namespaces if other is not namespace]
        async with namespace.manager.store.transaction() as tx:
            tables = [row["name"] for row in await tx.rows(
                """SELECT c.relname AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
                   WHERE a.attname = 'namespace_id' AND c.relkind = 'r'"""
            )]  # fmt: skip
            for table in tables:
                for word in others:
                    found = await tx.row(
                        f"SELECT count(*) AS n FROM {table} t WHERE position(%(word)s IN t::text) > 0", {"word": word}
                    )
                    wrong["rows with another's word"] += found["n"] if found else 0
    connections = [pool.as_login() for _ in range(POOL)]
    for one in connections:
        connection = await one.__aenter__()
        carried = await (await connection.execute(
            "SELECT current_setting('pgengram.namespace_id', true) AS owner, current_user AS role"
        )).fetchone()  # fmt: skip
        wrong["connections that carry a namespace"] += bool(carried and carried["owner"])
        wrong["connections in the application's role"] += bool(carried and carried["role"] == APP_ROLE)
    for one in connections:
        await one.__aexit__(None, None, None)
    return {
        "rows with another's word": 0,
        "connections that carry a namespace": 0,
        "connections in the application's role": 0,
    } | dict(wrong)


async def run(
    url: str, *, namespaces: int, tasks: int, calls: int, embedder: str, seed: int, bar: Progress
) -> dict[str, Any]:
    """Let every namespace make `calls` calls in each of `tasks` tasks, and return the figures."""
    dice = random.Random(seed)
    usual, pools.POOL_MAX = pools.POOL_MAX, POOL  # type: ignore[misc]
    names = ["ada", "ben", "cyd", "dan", "eve", "fay"][:namespaces]
    settings = Settings(database_url=url, embedder=embedder, toolsets="all")
    host = MemoryManager(settings)
    try:
        await host.ready()
        made = [
            Namespace(
                name,
                MemoryManager(Settings(database_url=url, embedder=embedder, toolsets="all", namespace=name), host),
                dice,
            )
            for name in names
        ]
        for namespace in made:
            await namespace.manager.ready()
        plan = Run(made, dice)
        task = bar.add_task("calls", total=namespaces * tasks * calls)
        began = time.monotonic()

        async def some(namespace: Namespace) -> None:
            for _ in range(calls):
                await plan.one(namespace)
                bar.advance(task)

        await asyncio.gather(*(some(namespace) for namespace in made for _ in range(tasks)))
        took = time.monotonic() - began
        left = await left_behind(made)
        pooled = host.store.database._pool.get_stats()["pool_size"]  # type: ignore[union-attr]
        for namespace in made:
            await namespace.manager.close()
    finally:
        await host.close()
        pools.POOL_MAX = usual  # type: ignore[misc]
    return {
        "calls": namespaces * tasks * calls, "seconds": round(took, 1), "answers": dict(plan.seen),
        "foreign rows": len(plan.foreign), **left, "connections in the pool, at most 2": pooled, "seen": plan.foreign[:20],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--namespaces", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=8, help="of each namespace, at once")
    parser.add_argument("--calls", type=int, default=500, help="of each task")
    parser.add_argument("--embedder", default="none:")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    screen = Console()
    with tempfile.TemporaryDirectory() as folder, Progress(console=screen) as bar:
        postgres = start_embedded(Path(folder))
        try:
            figures = asyncio.run(
                run(postgres.url, namespaces=options.namespaces, tasks=options.tasks, calls=options.calls,
                    embedder=options.embedder, seed=options.seed, bar=bar)
            )  # fmt: skip
        finally:
            postgres.stop()
    table = Table("measure", "value", title="owners", title_justify="left")
    for name, value in figures.items():
        table.add_row(name, str(value))
    screen.print(table)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    wrong = (
        "foreign rows",
        "rows with another's word",
        "connections that carry a namespace",
        "connections in the application's role",
    )
    return int(any(figures[name] for name in wrong) or figures["connections in the pool, at most 2"] != POOL)


if __name__ == "__main__":
    sys.exit(main())
