"""Nobody waits for ever: statements, locks and connections each have their time, and the answer says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import psycopg
import pytest
import pytest_asyncio

from helpers import Database
from pgengram.errors import DatabaseFailed
from pgengram.inputs import Change, NewMemory
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.connection import begin
from pgengram.store.connection import pool as pools

LINGER = """CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NEW; END';
CREATE TRIGGER linger BEFORE INSERT ON memories FOR EACH ROW EXECUTE FUNCTION linger()"""


@pytest_asyncio.fixture
async def narrow(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MemoryManager]:
    """A manager with two connections."""
    monkeypatch.setattr(pools, "POOL_MAX", 2)
    manager = MemoryManager(Settings(database_url=database.url, embedder="none:"))
    await manager.ready()
    yield manager
    await manager.close()


@contextmanager
def a_third_of_a_second(limit: str) -> Iterator[None]:
    """Set a limit of every transaction that begins meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(begin, limit, 300)
        begin.begin_sql.cache_clear()
        yield
    begin.begin_sql.cache_clear()


async def test_a_statement_that_takes_too_long_is_ended_and_nothing_is_stored(
    narrow: MemoryManager, database: Database
) -> None:
    database.as_login(*LINGER.split(";\n"))

    with (
        a_third_of_a_second("STATEMENT_TIMEOUT_MS"),
        pytest.raises(DatabaseFailed, match="took too long") as caught,
    ):
        await narrow.create_memory(NewMemory(content="Slow."))

    assert "call again" in caught.value.hint
    assert database.value("SELECT count(*) FROM memories") == 0
    database.as_login("DROP TRIGGER linger ON memories")
    assert (await narrow.create_memory(NewMemory(content="Quick."))).created


async def test_a_lock_that_somebody_else_holds_is_not_waited_for_for_ever(
    narrow: MemoryManager, database: Database
) -> None:
    id_ = (await narrow.create_memory(NewMemory(content="Held."))).memory_id

    with psycopg.connect(database.url) as holder:
        holder.execute("LOCK TABLE memories IN ACCESS EXCLUSIVE MODE")
        with (
            a_third_of_a_second("LOCK_TIMEOUT_MS"),
            pytest.raises(DatabaseFailed, match="busy with another change") as caught,
        ):
            await narrow.update_memory(Change(id=id_, content="Changed."))

    assert "Nothing was changed" in caught.value.hint
    assert (await narrow.update_memory(Change(id=id_, content="Changed."))).memory["version"] == 2


async def test_whoever_finds_every_connection_taken_is_told_so(narrow: MemoryManager) -> None:
    store = narrow.store
    pool = store.database._pool
    assert pool is not None

    async with store.transaction(), store.transaction():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pool, "timeout", 0.3)
            with pytest.raises(DatabaseFailed, match="connections are busy") as caught:
                await narrow.create_memory(NewMemory(content="No room."))

    assert "call again" in caught.value.hint
    assert (await narrow.create_memory(NewMemory(content="Room again."))).created


async def test_a_hundred_calls_at_once_share_two_connections(narrow: MemoryManager) -> None:
    made = await asyncio.gather(*(narrow.create_memory(NewMemory(content=f"Number {n}.")) for n in range(100)))

    assert len({one.memory_id for one in made}) == 100


async def test_one_call_after_the_other_needs_one_connection_only(narrow: MemoryManager) -> None:
    async def answers() -> int:
        async with narrow.store.transaction() as tx:
            row = await tx.row("SELECT pg_backend_pid() AS pid")
            return row["pid"] if row else 0

    async with narrow.store.transaction(), narrow.store.transaction():
        pass  # so that there are two
    pids = [await answers() for _ in range(6)]

    assert len(set(pids)) == 1


async def test_every_transaction_bounds_its_statements_its_locks_and_its_idleness(manager: MemoryManager) -> None:
    async with manager.store.transaction() as tx:
        row = await tx.row(
            "SELECT current_setting('statement_timeout') AS s, current_setting('lock_timeout') AS l, current_setting('idle_in_transaction_session_timeout') AS i"
        )

    assert row == {"s": "10s", "l": "5s", "i": "15s"}
