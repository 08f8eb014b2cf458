"""What shared spaces cost, and whether they hold under load.

    python benchmarks/spaces.py [--memories 2000] [--rounds 60]
    python benchmarks/spaces.py --minutes 5

The first searches one's own memories alone, then with those of one, two and three spaces besides, in turns. It prints the time of
each, and the processor time of this process and of PostgreSQL, which says more on a machine with other work; and the ratios to
the first.
With --minutes eight people store, search, correct and read over HTTP, on two servers, while PostgreSQL is restarted once; it
ends with 1 if anything that was acknowledged is missing, or anybody was shown what is another's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
from builds import fields, postgres_s

from pgengram.inputs import Question
from pgengram.postgres import EmbeddedPostgres, start_embedded
from pgengram.service import merged
from pgengram.service.calls.arguments import Arguments
from pgengram.service.manager import MemoryManager
from pgengram.service.spaces import SpaceManagers, Spaces
from pgengram.settings import PREFIX, Settings
from pgengram.store import membership, persons
from pgengram.store.clients import tokens
from pgengram.store.connection.database import Role
from pgengram.store.store import Store

NOUNS = ["ledger", "walnut", "candle", "bicycle", "window", "violin", "parcel", "lantern", "anchor", "orchard"]
PLACES = ["attic", "garden", "cellar", "harbour", "office", "kitchen", "station", "library"]
PEOPLE = ["mara", "ben", "cleo", "dora", "emil", "fay", "gus", "hana"]
SPACE = "Workshop"
BATCH = 200
BLOCK = 10  # searches, as the processor time of PostgreSQL is told in hundredths of a second
VERSION = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def text(dice: random.Random, word: str = "") -> str:
    return f"The {dice.choice(NOUNS)} {dice.randrange(10**6)} {word} is in the {dice.choice(PLACES)} beside the {dice.choice(NOUNS)}."


# -- what it costs ---------------------------------------------------------------------------------------------------


async def filled(manager: MemoryManager, memories: int, dice: random.Random) -> None:
    [create] = [Arguments(tool) for tool in manager.tools if tool.name == "create_memories"]
    for _ in range(0, memories, BATCH):
        await create.read({"items": [{"content": text(dice)} for _ in range(BATCH)]}).run()


async def cost(url: str, memories: int, rounds: int) -> dict[str, float]:
    dice = random.Random(1)
    async with AsyncExitStack() as stack:
        home = MemoryManager(Settings(database_url=url, namespace="mara"))
        await home.ready()
        stack.push_async_callback(home.close)
        person = await persons.add(home.store, "Mara", "mara")
        made = [await membership.create(home.store, f"Space {number}", person) for number in range(3)]
        managers = SpaceManagers(home)
        stack.push_async_callback(managers.close)
        spaces = [Spaces(managers, {space.id: "write" for space in made[:number]}) for number in range(4)]
        await filled(home, memories, dice)
        for space in await spaces[-1].listed():
            async with spaces[-1].manager(space) as manager:
                await filled(manager, memories, dice)
        with psycopg.connect(url) as login:
            postmaster = int(fields(login.info.backend_pid)[1])
        clock, processor = [list[float]() for _ in spaces], [list[float]() for _ in spaces]
        for block in range(rounds // BLOCK + 1):
            for number, some in enumerate(spaces):
                used = time.process_time() + postgres_s(postmaster)
                for _ in range(BLOCK):
                    text_ = f"where is the {dice.choice(NOUNS)} near the {dice.choice(PLACES)} {dice.randrange(1_000)}"
                    began = time.perf_counter()
                    await (
                        merged.searched(some, Question(query=text_))
                        if number
                        else home.search_memories(Question(query=text_))
                    )
                    if block:  # the first ones load what all others have
                        clock[number].append((time.perf_counter() - began) * 1000)
                if block:
                    processor[number].append((time.process_time() + postgres_s(postmaster) - used) * 1000 / BLOCK)
    told = {}
    for name, ms in (
        ("ms", [statistics.median(one) for one in clock]),
        ("cpu_ms", [statistics.fmean(one) for one in processor]),
    ):
        for number, one in enumerate(ms):
            what = f"with_{number}_spaces" if number else "own"
            told |= {f"{what}_{name}": round(one, 2)} | (
                {f"{what}_{name}_ratio": round(one / ms[0], 2)} if number else {}
            )
    return told


# -- whether it holds ------------------------------------------------------------------------------------------------


@dataclass
class Member:
    """Somebody who calls, and what must be there in the end."""

    name: str
    role: Role | None
    token: str
    client: httpx.AsyncClient
    own: dict[str, str] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    calls: int = 0
    unanswered: int = 0
    foreign: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    @property
    def word(self) -> str:
        return f"canary{self.name}"

    async def call(self, servers: list[str], dice: random.Random, tool: str, **given: Any) -> dict[str, Any] | None:
        """Return what a tool answers; None where no server could."""
        self.calls += 1
        body = {
            "jsonrpc": "2.0",
            "id": self.calls,
            "method": "tools/call",
            "params": {"name": tool, "arguments": given, "_meta": ENVELOPE},
        }
        headers = {
            "authorization": f"Bearer {self.token}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            "mcp-method": "tools/call",
            "mcp-name": tool,
        }
        try:
            answer = await self.client.post(dice.choice(servers), json=body, headers=headers)
        except httpx.HTTPError:
            self.unanswered += 1
            return None
        shown = answer.text
        self.foreign += [f"{tool}: {one}" for one in PEOPLE if one != self.name and f"canary{one} own" in shown]
        if self.role is None and "workshop text" in shown:
            self.foreign.append(f"{tool}: of the space")
        kind = answer.headers.get("content-type", "")
        if answer.status_code != 200 or "json" not in kind or "result" not in answer.json():
            self.unanswered += 1
            self.refused.add(shown[:200])
            return None
        result = answer.json()["result"]
        return None if result.get("isError") else result.get("structuredContent")

    async def lives(self, servers: list[str], until: float, seed: int) -> None:
        dice = random.Random(seed)
        while time.monotonic() < until:
            kind = dice.random()
            if kind < 0.25:
                content = text(dice, f"{self.word} own")
                if stored := await self.call(servers, dice, "create_memory", content=content):
                    self.own[stored["memory_id"]] = content
            elif kind < 0.45:
                content = text(dice, f"{self.word} workshop text")
                stored = await self.call(servers, dice, "create_memory", content=content, space=SPACE)
                if stored:
                    self.shared[stored["memory_id"]] = content
            elif kind < 0.75:
                await self.call(
                    servers, dice, "search_memories", query=f"{dice.choice(NOUNS)} canary{dice.choice(PEOPLE)}"
                )
            elif kind < 0.85:
                await self.call(
                    servers, dice, "recall_context", context=f"the {dice.choice(NOUNS)} in the {dice.choice(PLACES)}"
                )
            elif self.own:
                await self.call(servers, dice, "get_memories", ids=[dice.choice([*self.own])])


def settings_of(url: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return inherited | {f"{PREFIX}DATABASE_URL": url, f"{PREFIX}EMBEDDER": "none:", f"{PREFIX}ANSWERS": "full"}


def started(url: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "pgengram", "serve", "--http", "--port", "0", "--rate", "100000"]
    process = subprocess.Popen(command, env=settings_of(url), stderr=subprocess.PIPE, encoding="utf-8")
    assert process.stderr is not None
    for line in process.stderr:
        if " at http" in line:
            return process, line.split()[-1]
    raise RuntimeError("the server did not start")


async def people(store: Store, stack: AsyncExitStack) -> list[Member]:
    made = {name: await persons.add(store, name.title(), name) for name in PEOPLE}
    space = await membership.create(store, SPACE, made["mara"])
    roles: list[Role | None] = [Role.ADMIN, *[Role.WRITE] * 4, Role.READ, None, None]
    members = []
    for name, role in zip(PEOPLE, roles, strict=True):
        if role is not None and name != "mara":
            await membership.put(store, space.id, made[name], role, by=made["mara"])
        token, _ = await tokens.create(store, name, name, "read-write", None, {space.id: "write"})
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=30))
        members.append(Member(name, role, token, client))
    return members


async def load(folder: Path, server: EmbeddedPostgres, minutes: float) -> bool:
    """Have everybody live for so long; return whether all was well."""
    async with AsyncExitStack() as stack:
        store = Store(Settings(database_url=server.url, embedder="none:"))
        await store.open()
        members = await people(store, stack)
        await store.close()
        servers = [started(server.url) for _ in range(2)]
        addresses = [address for _, address in servers]
        try:
            until = time.monotonic() + minutes * 60
            tasks = [asyncio.create_task(one.lives(addresses, until, seed)) for seed, one in enumerate(members)]
            await asyncio.sleep(minutes * 30)
            await asyncio.to_thread(server.stop)
            server = await asyncio.to_thread(start_embedded, folder)
            await asyncio.gather(*tasks)
            missing = await lost(members, addresses)
        finally:
            for process, _ in servers:
                process.terminate()
            for process, _ in servers:
                process.wait(timeout=20)
            server.stop()
    told = {
        "calls": sum(one.calls for one in members),
        "unanswered": sum(one.unanswered for one in members),
        "stored": sum(len(one.own) + len(one.shared) for one in members),
        "stored_by_those_who_may_not": sum(len(one.shared) for one in members if one.role in (None, Role.READ)),
        "refused": [*{text for one in members for text in one.refused}][:3],
        "lost": missing,
        "foreign": [shown for one in members for shown in one.foreign][:10],
    }
    print(json.dumps(told, indent=2))
    return bool(told["stored"]) and not (missing or told["foreign"] or told["stored_by_those_who_may_not"])


async def lost(members: list[Member], addresses: list[str]) -> int:
    """Return how many memories that were acknowledged are not there, or say something else."""
    missing = 0
    for one in members:
        for kept in (one.own, one.shared):
            ids = [*kept]
            for begin in range(0, len(ids), 20):
                answer = await one.call(addresses, random.Random(0), "get_memories", ids=ids[begin : begin + 20])
                found = {memory["id"]: memory["content"] for memory in (answer or {}).get("memories", [])}
                found |= dict.fromkeys((answer or {}).get("not_shown") or [], None)
                missing += sum(found.get(id_, "") not in (kept[id_], None) for id_ in ids[begin : begin + 20])
    return missing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgengram-spaces-") as name:
        folder = Path(name)
        server = start_embedded(folder)
        if given.minutes:
            return 0 if asyncio.run(load(folder, server, given.minutes)) else 1
        try:
            print(json.dumps(asyncio.run(cost(server.url, given.memories, given.rounds)), indent=2))
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
