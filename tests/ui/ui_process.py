"""A real `pgengram ui` on a real store, and a way in."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import httpx

from helpers import PATIENCE_S, Database, environment
from pgengram.inputs import NewMemory
from pgengram.service.conversations import Conversations
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.clusters import Clusters, NewCluster
from pgengram.service.toolsets.graph import Graph
from pgengram.settings import Settings
from pgengram.store import conversations
from pgengram.store.conversations import Conversation, Turn

HOSTILE = "<script>alert('x')</script> \"quoted\" & <b>bold</b> 'single' {{ 7 * 7 }} </script>"
TALK = Conversation("claude-code", "c-1", "harbour")
PLAIN = 45  # memories beside the few that the tests speak of; more than two pages


@dataclass
class Ui:
    """A running page: its link, who is let in, the database behind it, ids by what they are, and how many memories were invented."""

    link: str
    client: httpx.AsyncClient
    db: Database
    ids: dict[str, str]
    entered: httpx.Response
    size: int = 0

    async def page(self, path: str, *, code: int = 200, headers: dict[str, str] | None = None, **params: Any) -> str:
        """Return a page once it is worked out, with what it said of the last change while it still counted."""
        told = ""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self.client.get(path, params=params or None, headers=headers)
                if not re.search('class="waiting"|id="work"|>Counting …<', answer.text):
                    assert answer.status_code == code, answer.text
                    return answer.text + told
                told += "".join(re.findall('<div class="said".*?</div>', answer.text))
                await asyncio.sleep(0.05)

    async def give(self, content: bytes, *, name: str = "notes.jsonl", system: str = "jsonl") -> httpx.Response:
        """Send a file as the form of the import does."""
        fields = {"mark": marks(await self.page("/tokens"))[0], "system": system}
        return await self.client.post(
            "/import", data=fields, files={"file": (name, content)}, headers={"origin": self.origin}
        )

    async def send(self, path: str, *, shown_on: str = "/tokens", **fields: str) -> httpx.Response:
        """Send a form as a browser does, with the mark that the pages carry and the address of the page it is on."""
        mark = marks(await self.page("/tokens"))[0]
        headers = {"origin": self.origin, "referer": self.origin + shown_on}
        return await self.client.post(path, data={"mark": mark, **fields}, headers=headers)

    @property
    def origin(self) -> str:
        return self.link.partition("/enter")[0]


def marks(page: str) -> list[str]:
    return re.findall(r'name="mark" value="([^"]+)"', page)


def shown(page: str) -> list[str]:
    """Return the contents of the memories in a list, as a reader sees them."""
    return [
        unescape(re.sub("</?mark>", "", text))
        for text in re.findall(r'<a class="content" dir="auto" href="/memory/[^"]+">(.*?)</a>', page, re.DOTALL)
    ]


@asynccontextmanager
async def run_ui(database_url: str, port: str = "0", **settings: str) -> AsyncIterator[str]:
    """Start `pgengram ui` and give its link; it remembers browsers in a folder of its own unless one is given."""
    if "data_dir" not in settings:
        with TemporaryDirectory() as folder:
            async with run_ui(database_url, port, **settings, data_dir=folder) as link:
                yield link
        return
    process = await asyncio.to_thread(
        subprocess.Popen[str], [sys.executable, "-m", "pgengram", "ui", "--no-browser", "--port", port],
        env=environment(database_url=database_url, **settings),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8",
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            link = (await asyncio.to_thread(process.stdout.readline)).strip()
        yield link
    finally:
        process.terminate()
        await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)


async def talk(manager: MemoryManager, *said: str, first: int = 0) -> None:
    """Keep turns of the conversation TALK: of the user, the assistant and a tool in their order."""
    roles, now = ("user", "assistant", "tool"), datetime.now(UTC)
    turns = [Turn(first + place, roles[place % 3], text, now) for place, text in enumerate(said)]
    await Conversations(manager).keep(TALK, lambda conversation, _: (conversation, turns))


async def fill(settings: Settings) -> dict[str, str]:
    """Store what the tests look at, and return ids by name."""
    manager = MemoryManager(settings)
    ids: dict[str, str] = {}

    async def one(name: str, content: str, **more: Any) -> None:
        new = NewMemory.model_validate({"content": content, "dedup_policy": "insert", **more})
        ids[name] = (await manager.create_memory(new)).memory_id

    try:
        days = [f"2025-0{1 + n % 9}-{1 + n % 28:02}T10:00:00Z" for n in range(PLAIN)]
        await manager.create_memories(
            [
                {"content": f"Shelf {n} of the archive holds {n * 7} maps.", "tags": ["archive"], "occurred_at": day,
                 "dedup_policy": "insert"}
                for n, day in enumerate(days)
            ]
        )  # fmt: skip
        await one(
            "jonas", "Jonas is allergic to peanuts.", kind="person", importance=0.9, tags=["health"], speaker="Mara"
        )
        await one("stripe", "Mara moved billing to Stripe.", kind="decision", project="harbour", source="chat")
        await one("twelve", "The office in Bern has 12 desks and a green door.")
        await one("fourteen", "The office in Bern has 14 desks and a green door.")
        await one("one", "The harbour gate is opened at dawn by the old supervisor.")
        await one("other", "The harbour gate is opened at dawn by the old supervisor, as always.")
        await one("old", "The office is in Basel.")
        await one("hostile", HOSTILE)
        await Graph(manager).link_memories(ids["stripe"], [ids["jonas"], ids["hostile"]], type="causes", strength=0.9)
        made = await Clusters(manager).create_memory_cluster(
            NewCluster(name="People", keywords=["who"], memory_ids=[ids["jonas"]])
        )
        ids["cluster"] = made.cluster_id
        await manager.forget_memories([ids["old"]], "moved to Bern")
        await talk(manager, "Who pays for the **harbour**?", "The city does. " + HOSTILE, "Read 3 files")
        receipt = conversations.Receipt(UUID(ids["stripe"]), 1, 0.91, 14)
        async with manager.store.transaction() as tx:
            await conversations.add_receipts(
                tx, [receipt], **TALK.key, event="prompt", project="harbour", evidence="strong", milliseconds=21
            )
    finally:
        await manager.close()
    return ids
