"""Two operations that promise the same effect leave the same rows, column by column; only ids and the present moment may differ."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from helpers import Database, environment, examples, owned_tables
from pgengram import Memory
from pgengram.compat.ownsona import Ownsona
from pgengram.inputs import NewMemory
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.maintenance import Maintenance
from pgengram.settings import Settings
from pgengram.transfer.exporting import export_to
from pgengram.transfer.importing import import_from

LAW = settings(max_examples=examples(4), phases=[Phase.generate], suppress_health_check=list(HealthCheck))
STAYS = "The staging database is backed up to the office NAS every night by a cron job. It runs on the host."
GOES = "The staging database is backed up to the office NAS every night by a cron job."
NEVER_COMPARED = {"namespace_id", "short_id", "actor", "session_id", "session_sequence"}  # of whom, and in which call
UUIDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
A_MOMENT_AGO = timedelta(hours=1)
Worlds = tuple[MemoryManager, MemoryManager]

words = st.sampled_from(["ops", "night", "nas", "staging", "backup"])
moments = st.datetimes(datetime(2001, 1, 1), datetime(2024, 1, 1), timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=0)
)
sources = st.lists(
    st.fixed_dictionaries({"kind": st.just("url"), "ref": words.map("https://example.org/{}".format)}), max_size=3
)
metadata = st.dictionaries(
    st.sampled_from(["rack", "room", "owner", "category", "related_concepts"]),
    st.lists(words, min_size=1, max_size=3),
    max_size=4,
)
facts = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.lists(words, max_size=4, unique=True),
        "importance": st.sampled_from([0.2, 0.5, 0.9]),
        "confidence": st.sampled_from([0.1, 0.6, 0.95]),
        "sources": sources,
        "metadata": metadata,
        "kind": st.sampled_from(["fact", "preference"]),
        "emotion": st.sampled_from(["concern", "neutral"]),
        "source": st.just("runbook"),
        "source_provider": st.just("tests"),
        "capture_mode": st.sampled_from(["explicit", "inferred"]),
        "expires_at": st.sampled_from(["2090-01-01T00:00:00Z", "2091-01-01T00:00:00Z"]),
    },
)


@pytest_asyncio.fixture
async def worlds(database: Database) -> AsyncIterator[tuple[MemoryManager, MemoryManager]]:
    """Two namespaces of one database, in which the same things can be done in two ways."""
    one, other = (
        MemoryManager(Settings(database_url=database.url, embedder="none:", namespace=name))
        for name in ("one", "other")
    )
    await one.ready()
    await other.ready()
    yield one, other
    await one.close()
    await other.close()


def picture(db: Database, manager: MemoryManager, *only: str, of: str | None = None) -> dict[str, list[Any]]:
    """Return the rows of a namespace by table, with ids told by the order of the memories and the present moment as such.

    Args:
        only: of which tables; of all without.
        of: which memory's rows; all without.
    """
    db.keep()
    found = {
        table: db.rows(f"SELECT * FROM {table}", namespace=manager.settings.namespace)
        for table in only or owned_tables()
    }
    ids = db.rows("SELECT id FROM memories ORDER BY id", namespace=manager.settings.namespace)
    names = {str(row["id"]): f"memory {place}" for place, row in enumerate(ids)}
    now = datetime.now(UTC)

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [plain(one) for one in value]
        if isinstance(value, str | UUID):
            text = UUIDS.sub(lambda match: names.get(match[0], "an id"), str(value))
            try:
                return plain(datetime.fromisoformat(text)) if len(text) > 18 else text
            except ValueError:
                return text
        if isinstance(value, datetime):
            return "now" if abs(value - now) < A_MOMENT_AGO else value.astimezone(UTC).isoformat()
        return round(value, 4) if isinstance(value, float) else value  # what use has earned grows by the microsecond

    def shown(row: dict[str, Any]) -> dict[str, Any]:
        return {name: plain(value) for name, value in row.items() if name not in NEVER_COMPARED}

    mine = {
        table: [shown(row) for row in rows if of is None or str(row.get("memory_id", row.get("id"))) == of]
        for table, rows in found.items()
    }
    return {table: sorted(rows, key=repr) for table, rows in mine.items() if rows}


async def created(manager: MemoryManager, content: str, **more: Any) -> str:
    stored = await manager.create_memory(
        NewMemory.model_validate({"content": content, "dedup_policy": "insert"} | more)
    )
    return stored.memory_id


async def carried_out(manager: MemoryManager, *steps: dict[str, Any]) -> None:
    upkeep = Maintenance(manager)
    shown = await upkeep.tidy_memories("apply", plan=list(steps))
    await upkeep.tidy_memories("apply", confirm_token=shown.confirm_token or "")


@LAW
@given(
    old=moments,
    begins=st.lists(moments, max_size=2),
    reason=st.sampled_from(["", "She moved."]),
    fields=facts,
)
async def test_forgetting_and_forgetting_in_a_plan_are_the_same(
    database: Database, worlds: Worlds, old: datetime, begins: list[datetime], reason: str, fields: dict[str, Any]
) -> None:
    database.empty(owned_tables())
    one, other = worlds
    for manager in (one, other):
        gone = await created(manager, "Mira lives in Porto.", occurred_at=old, **fields)
        new = [await created(manager, f"Mira lives in town {n}.", occurred_at=at) for n, at in enumerate(begins)]
        if manager is one:
            await manager.forget_memories([gone], reason, new)
        else:
            await carried_out(
                manager, {"action": "forget", "ids": [gone], "reason": reason or None, "replaced_by": new}
            )

    assert picture(database, one) == picture(database, other)


@LAW
@given(stays=facts, goes=facts)
async def test_merging_on_writing_and_merging_in_a_plan_are_the_same(
    database: Database, worlds: Worlds, stays: dict[str, Any], goes: dict[str, Any]
) -> None:
    tables = ("memories", "semantic_memories", "memory_tags", "memory_words", "memory_activation")
    database.empty(owned_tables())
    one, other = worlds
    kept = await created(one, STAYS, **stays)
    answer = await one.create_memory(NewMemory.model_validate({"content": GOES, "dedup_policy": "merge"} | goes))
    assert answer.memory_id == kept
    also = await created(other, STAYS, **stays)
    await carried_out(other, {"action": "merge", "ids": [await created(other, GOES, **goes)], "into": also})

    assert picture(database, one, *tables, of=kept) == picture(database, other, *tables, of=also)


async def by_library(manager: MemoryManager, id_: str, url: str) -> None:
    async with Memory(database_url=url, embedder="none:", namespace=manager.settings.namespace) as memory:
        await memory.forget(id_, reason="She moved.")


async def by_command_line(manager: MemoryManager, id_: str, url: str) -> None:
    env = environment(database_url=url, embedder="none:", namespace=manager.settings.namespace)
    arguments = ("-m", "pgengram", "forget", id_, "--reason", "She moved.")
    command = [sys.executable, *arguments]
    await asyncio.to_thread(subprocess.run, command, env=env, stdout=subprocess.DEVNULL, check=True)


async def by_drop_in_mode(manager: MemoryManager, id_: str, _: str) -> None:
    await Ownsona(manager).forget(id_, reason="She moved.")


async def by_plan(manager: MemoryManager, id_: str, _: str) -> None:
    await carried_out(manager, {"action": "forget", "ids": [id_], "reason": "She moved."})


@pytest.mark.parametrize("way", [by_library, by_command_line, by_drop_in_mode, by_plan])
async def test_whoever_forgets_leaves_the_same_as_the_tool(
    database: Database, worlds: Worlds, way: Callable[[MemoryManager, str, str], Awaitable[None]]
) -> None:
    database.empty(owned_tables())
    one, other = worlds
    ids = [await created(manager, "Mira lives in Porto.", tags=["mira"]) for manager in (one, other)]
    await one.forget_memories(ids[:1], "She moved.")
    await way(other, ids[1], database.url)

    assert picture(database, one) == picture(database, other)


@LAW
@given(fields=facts, when=st.none() | moments)
async def test_a_record_that_is_brought_in_is_the_same_as_the_one_that_was_created(
    database: Database, worlds: Worlds, tmp_path: Path, fields: dict[str, Any], when: datetime | None
) -> None:
    database.empty(owned_tables())
    one, other = worlds
    await created(one, "Mira lives in Porto.", occurred_at=when, **fields)
    file = tmp_path / "memories.jsonl"
    with file.open("w", encoding="utf-8") as opened:
        await export_to(opened, one, lambda *_: None)
    await import_from(other, "jsonl", str(file), dry_run=False, report=lambda *_: None)

    # These tell how each came to be there.
    answer = {"memory_history", "memory_imports", "imported_memories", "imported_turns"} & {*owned_tables()}
    assert len(answer) > 2
    tables = [table for table in owned_tables() if table not in answer]
    assert picture(database, one, *tables) == picture(database, other, *tables)
