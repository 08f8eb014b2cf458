"""Nobody waits for ever: statements, locks and connections each have their time, and the answer says what to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from door import Database
from pgengram.errors import DatabaseFailed
from pgengram.inputs import Change, NewMemory
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.connection import database as limits

LINGER = """CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(30); RETURN NEW; END';
CREATE TRIGGER linger BEFORE INSERT ON memories FOR EACH ROW EXECUTE FUNCTION linger()"""
PATIENCE_S = 10  # far below what the hooks would take without a limit


@pytest_asyncio.fixture
async def impatient(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MemoryManager]:
    """A manager with two connections, and a third of a second for every statement and lock."""
    monkeypatch.setattr(limits, "STATEMENT_TIMEOUT_MS", 300)
    monkeypatch.setattr(limits, "LOCK_TIMEOUT_MS", 300)
    monkeypatch.setattr(limits, "POOL_MAX", 2)
    limits.begin_sql.cache_clear()
    manager = MemoryManager(Settings(database_url=database.url, embedder="none:"))
    await manager.ready()
    yield manager
    await manager.close()
    limits.begin_sql.cache_clear()


async def test_a_statement_that_takes_too_long_is_ended_and_nothing_is_stored(
    impatient: MemoryManager, database: Database
) -> None:
    database.as_login(*LINGER.split(";\n"))
    began = time.monotonic()

    with pytest.raises(DatabaseFailed, match="took too long") as caught:
        await impatient.create_memory(NewMemory(content="Slow."))

    assert time.monotonic() - began < PATIENCE_S
    assert "call again" in caught.value.hint
    assert database.value("SELECT count(*) FROM memories") == 0
    database.as_login("DROP TRIGGER linger ON memories")
    assert (await impatient.create_memory(NewMemory(content="Quick."))).created


async def test_a_lock_that_somebody_else_holds_is_not_waited_for_for_ever(
    impatient: MemoryManager, database: Database
) -> None:
    id_ = (await impatient.create_memory(NewMemory(content="Held."))).memory_id
    began = time.monotonic()

    with psycopg.connect(database.url) as holder:
        holder.execute("LOCK TABLE memories IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DatabaseFailed, match="busy with another change") as caught:
            await impatient.update_memory(Change(id=id_, content="Changed."))

    assert time.monotonic() - began < PATIENCE_S
    assert "Nothing was changed" in caught.value.hint
    assert (await impatient.update_memory(Change(id=id_, content="Changed."))).memory["version"] == 2


async def test_whoever_finds_every_connection_taken_is_told_so(impatient: MemoryManager) -> None:
    store = impatient.store
    store.database._pool.timeout = 0.3  # type: ignore[union-attr]

    async with store.transaction(), store.transaction():
        with pytest.raises(DatabaseFailed, match="connections are busy") as caught:
            await impatient.create_memory(NewMemory(content="No room."))

    assert "call again" in caught.value.hint
    assert (await impatient.create_memory(NewMemory(content="Room again."))).created


async def test_a_hundred_calls_at_once_share_two_connections(impatient: MemoryManager) -> None:
    made = await asyncio.gather(*(impatient.create_memory(NewMemory(content=f"Number {n}.")) for n in range(100)))

    assert len({one.memory_id for one in made}) == 100


async def test_every_transaction_bounds_its_statements_its_locks_and_its_idleness(manager: MemoryManager) -> None:
    async with manager.store.transaction() as tx:
        row = await tx.row(
            "SELECT current_setting('statement_timeout') AS s, current_setting('lock_timeout') AS l, current_setting('idle_in_transaction_session_timeout') AS i"
        )

    assert row == {"s": "10s", "l": "5s", "i": "15s"}
