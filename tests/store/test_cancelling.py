"""A task that is cancelled while it waits for the database ends."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from pgengram.store.database import Database


class LosingPool:
    """A pool that gives a connection to a task that was cancelled, as `wait_for` of Python 3.11 makes it do."""

    def __init__(self) -> None:
        self.back: list[object] = []

    async def getconn(self) -> object:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return self
        raise AssertionError

    async def putconn(self, connection: object) -> None:
        self.back.append(connection)


async def test_a_task_cancelled_as_it_gets_its_connection_ends_and_gives_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database, pool = Database("postgresql://nowhere"), LosingPool()
    monkeypatch.setattr(database, "_pool", pool)

    async def use() -> None:
        async with database.transaction(1):
            raise AssertionError

    task = asyncio.create_task(use())
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert pool.back == [pool]


async def test_a_call_cancelled_as_it_gets_its_connection_takes_no_other_call_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = Database("postgresql://nowhere")
    monkeypatch.setattr(database, "_pool", LosingPool())
    done = []

    async def cancelled_call() -> None:
        with anyio.CancelScope() as scope:
            calls.start_soon(other_call, scope)
            async with database.transaction(1):
                raise AssertionError

    async def other_call(scope: anyio.CancelScope) -> None:
        await anyio.sleep(0)
        scope.cancel()
        await anyio.sleep(0.05)
        done.append("other")

    async with anyio.create_task_group() as calls:
        calls.start_soon(cancelled_call)

    assert done == ["other"]
