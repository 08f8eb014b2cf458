"""Several machines of one person: each a store, and a folder of its own that a program for files keeps like the others'."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from helpers import Database, owned_tables
from pgengram.inputs import Change, NewMemory, Question
from pgengram.service.conversations import Conversations
from pgengram.service.core import Core
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.graph import Graph
from pgengram.settings import Settings
from pgengram.store.connection.database import Transaction
from pgengram.store.conversations import Conversation
from pgengram.store.sync import state
from pgengram.sync import devices, documents, exchange
from pgengram.sync.exchange import Exchange
from pgengram.sync.folder import NAME
from pgengram.sync.intake import Outcome
from pgengram.sync.keys import Key
from pgengram.sync.memories import ON
from pgengram.transfer import export_to

DAY_US = 24 * 3600 * 1_000_000
CONFLICT = " (conflicted copy)"  # ends the name that a program for files gives one of two


@dataclass
class Machine:
    """A machine with a namespace of its own, whose clock may be wrong."""

    database: Database
    folder: Path
    name: str
    ahead_us: int = 0
    address: str = ""  # where the machines meet; empty: in the folder
    token: str | None = None
    embedder: str = "none:"
    device: str = ""  # once it takes part
    known_ids: list[str] | None = None  # of its memories, until some may have come or gone
    namespace: str = field(default_factory=lambda: f"m-{uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = self.folder.with_name(f"{self.folder.name}-data")
        settings = Settings(
            database_url=self.database.url, namespace=self.namespace, embedder=self.embedder, data_dir=str(self.data)
        )
        self.memories = MemoryManager(settings)
        self.restarted()

    def restarted(self) -> None:
        """Begin a new process."""
        self.exchange = Exchange(self.memories, lambda: time.time_ns() // 1000 + self.ahead_us)

    async def begins(self, key: Key | None = None) -> Key:
        key = await devices.begin(self.memories, self.address or str(self.folder), key, self.name, self.token)
        self.device = (await self.exchange_settings()).device
        return key

    async def syncs(self) -> Outcome:
        """Exchange once, while all clocks of this machine are wrong, the database's too."""
        self.known_ids = None
        right = documents.microseconds
        documents.microseconds = exchange.microseconds = lambda moment: right(moment) + self.ahead_us
        try:
            outcome = await self.exchange.run()
        finally:
            documents.microseconds = exchange.microseconds = right
        assert outcome is not None
        return outcome

    async def is_killed(self, step: int) -> None:
        """Exchange until the process is killed at a step: before a transaction, or before it ends."""
        whole = exchange._alone
        steps = count()

        @asynccontextmanager
        async def alone(core: Core) -> AsyncIterator[Transaction]:
            if next(steps) == step:
                raise KeyboardInterrupt
            async with whole(core) as tx:
                yield tx
                if next(steps) == step:
                    raise KeyboardInterrupt

        exchange._alone = alone
        try:
            with suppress(KeyboardInterrupt):
                await self.syncs()
        finally:
            exchange._alone = whole
        self.restarted()

    async def exchange_settings(self) -> state.Settings:
        async with self.memories.store.transaction() as tx:
            settings = await state.settings(tx)
        assert settings is not None
        return settings

    async def status(self) -> devices.Status:
        return await devices.status(self.memories)

    # -- what a person does --------------------------------------------------------------------------------------------

    async def adds(self, text: str, **more: Any) -> str:
        self.known_ids = None
        return str((await self.memories.create_memory(NewMemory(content=text, **more))).memory_id)

    async def edits(self, id_: str, **change: Any) -> bool:
        """Change a memory, and return whether it was not so before."""
        return bool((await self.memories.update_memory(Change(id=id_, **change))).changed_fields)

    async def forgets(self, id_: str, **more: Any) -> None:
        await self.memories.forget_memories([id_], **more)

    async def erases(self, id_: str) -> None:
        self.known_ids = None
        await self.memories.erase([id_])

    async def links(self, id_: str, other: str, type_: str = "about", **more: Any) -> None:
        await Graph(self.memories).link_memories(id_, [other], type_, **more)

    async def unlinks(self, id_: str, other: str) -> None:
        await Graph(self.memories).link_memories(id_, [other], remove=True)

    async def hears(self, conversation: str, text: str, at: datetime | None = None) -> None:
        """Keep a turn that a hook tells of."""
        talk = Conversation("claude-code", conversation, "ark")
        await Conversations(self.memories).keep_told(talk, ("user", text), at or datetime.now(UTC))

    async def said(self, conversation: str) -> list[str]:
        """Return what is kept of a conversation, in order."""
        return [row["text"] for row in await Conversations(self.memories).turns(conversation)]

    async def finds(self, words: str) -> list[str]:
        found = await self.memories.search_memories(Question(query=words, mode="text"))
        return [str(one["content"]) for one in found.results]

    # -- what is there -------------------------------------------------------------------------------------------------

    async def lines(self) -> list[dict[str, Any]]:
        file = io.StringIO()
        await export_to(file, self.memories, lambda *_: None)
        return [json.loads(line) for line in file.getvalue().split("\n")[1:] if line]

    async def ids(self) -> list[str]:
        """Return the ids of all memories that are here."""
        if self.known_ids is None:
            async with self.memories.store.transaction(reads=True) as tx:
                self.known_ids = [row["id"] for row in await tx.rows(f"{state.ALL_IDS} ORDER BY id")]
        return self.known_ids

    async def texts(self) -> dict[str, str]:
        return {one["id"]: one["content"] for one in await self.lines() if one["record"] == "memory"}

    async def states(self, here: str = "") -> list[str]:
        """Return all that the machines must agree on; each numbers versions for itself, and says of what was done
        elsewhere on which machine that was. What says nothing of it was done here, or wherever you say.
        """
        found = (_agreed(line, here or self.name) for line in await self.lines())
        return sorted(json.dumps(agreed, sort_keys=True) for agreed in found if agreed)

    def where(self, text: str) -> list[str]:
        """Return the tables in which a text stands anywhere."""
        statement = "SELECT count(*) FROM {} t WHERE position(%s IN t::text) > 0"
        return [
            name
            for name in owned_tables()
            if self.database.value(statement.format(name), [text], namespace=self.namespace)
        ]


def _agreed(line: dict[str, Any], here: str) -> dict[str, Any] | None:
    if line["record"] == "history":  # of what was erased: each machine notes when it heard of it
        return None
    for name in ("version", "read_to"):
        line.pop(name, None)
    if line["record"] == "memory":
        for row in line["history"]:
            actor = str(row["actor"] or "somebody")
            row["actor"] = actor if ON in actor else f"{actor}{ON}{here}"
        line["history"] = sorted(
            json.dumps([row[name] for name in ("operation", "at", "changes", "actor")], sort_keys=True)
            for row in line["history"]
        )
        for name in ("idempotency_key", "speaker_key", "turn_features"):
            line.pop(name, None)
        activation = line.pop("activation")
        line["activation"] = [
            activation["importance"], activation["access_count"], round(activation["reinforcement"] or 0, 6),
        ]  # fmt: skip
    return line


def differences(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return the fields in which two machines differ, each with what either has."""
    one, other = ({_id(json.loads(line)): json.loads(line) for line in lines} for lines in (ours, theirs))
    return [
        f"{id_} {name}: {(one.get(id_) or {}).get(name)!r} / {(other.get(id_) or {}).get(name)!r}"
        for id_ in sorted(one.keys() | other.keys())
        for name in sorted((one.get(id_) or {}).keys() | (other.get(id_) or {}).keys())
        if (one.get(id_) or {}).get(name) != (other.get(id_) or {}).get(name)
    ]


def _id(line: dict[str, Any]) -> str:
    return f"{line['record']} {line.get('id') or [line[name] for name in ('from_id', 'to_id', 'type') if name in line]}"


def carry(machines: Sequence[Machine], chance: random.Random | None = None) -> None:
    """Bring files from each machine's folder to the others', all of them, or as a program for files that is interrupted."""
    there = {one.name: dict(_files(one.folder / NAME)) for one in machines}
    for source in machines:
        for target in machines:
            if source is not target:
                found, copies = there[source.name], there[target.name]
                for path, at in found.items():
                    if path.split("/")[1] != target.device and copies.get(path, 0) < at:
                        _bring(source.folder / NAME / path, target.folder / NAME / path, at, chance)
                for path in copies.keys() - found.keys():
                    if path.split("/")[1] == source.device:
                        (target.folder / NAME / path).unlink()
                        del copies[path]


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the files of all machines in a folder, each with the time of its last change."""
    for memory in os.scandir(folder) if folder.is_dir() else ():
        for device in _by_name(memory):
            for file in _by_name(device):
                if file.name.endswith(".sync") and CONFLICT not in file.name:
                    yield f"{memory.name}/{device.name}/{file.name}", file.stat().st_mtime_ns


def _by_name(folder: os.DirEntry[str]) -> list[os.DirEntry[str]]:
    """Return what is in a folder in the order in which it is everywhere, so that a seed can be tried again."""
    return sorted(os.scandir(folder), key=lambda entry: entry.name)


def _bring(path: Path, copy: Path, at: int, chance: random.Random | None) -> None:
    luck = 0.0 if chance is None else chance.random()
    if luck > 0.5:  # not yet
        return
    copy.parent.mkdir(parents=True, exist_ok=True)
    if luck > 0.4:  # half of it
        copy.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        os.utime(copy, ns=(0, at - 1))
        return
    shutil.copy2(path, copy)
    if luck > 0.3:
        shutil.copy2(path, copy.with_name(f"{copy.stem}{CONFLICT}.sync"))


async def all_have_all(machines: Sequence[Machine]) -> None:
    """Let the machines exchange until nothing is new to any, not even how often something was found."""
    for one in machines:
        await one.memories.accesses.flush()
    quiet = 0
    for _ in range(16):
        carry(machines)
        outcomes = [await one.syncs() for one in machines]
        quiet = 0 if any(one.taken or one.written or one.erased for one in outcomes) else quiet + 1
        if quiet == 2:
            assert [one.unread for one in outcomes] == [{}] * len(machines)
            return
    raise AssertionError("the machines never come to an end")
