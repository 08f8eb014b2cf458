"""A task that is cancelled while it waits for the database ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import anyio.lowlevel
import pytest

from pgengram.runtime import process_setup
from pgengram.store.connection.database import Database


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
        await anyio.lowlevel.checkpoint()
        scope.cancel()
        await anyio.sleep(0.05)
        done.append("other")

    async with anyio.create_task_group() as calls:
        calls.start_soon(cancelled_call)

    assert done == ["other"]


# -- the end of a task in the background -------------------------------------------------------------------------------


async def never() -> None:
    await asyncio.Event().wait()


async def reluctant(may_end: asyncio.Event) -> None:
    try:
        await never()
    finally:
        await may_end.wait()


async def begun(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(work, name="some supervisor")
    await asyncio.sleep(0)
    return task


async def test_a_task_in_the_background_is_over_once_it_was_ended() -> None:
    task = await begun(never())

    await process_setup.end_task(task)
    await process_setup.end_task(task)
    await process_setup.end_task(None)

    assert task.cancelled()


async def test_whoever_is_cancelled_while_he_ends_a_task_is_cancelled() -> None:
    may_end = asyncio.Event()
    task = await begun(reluctant(may_end))
    closing = await begun(process_setup.end_task(task))

    closing.cancel()
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await closing


async def test_a_task_that_does_not_end_is_left_behind_and_named(caplog: pytest.LogCaptureFixture) -> None:
    may_end = asyncio.Event()
    task = await begun(reluctant(may_end))

    await process_setup.end_task(task, timeout_s=0.01)

    assert not task.done()
    assert "some supervisor" in caplog.text
    may_end.set()
    await asyncio.wait({task})


async def test_what_a_task_failed_with_is_told_when_it_is_ended() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    task = await begun(fail())

    with pytest.raises(ZeroDivisionError):
        await process_setup.end_task(task)


class SlowConnection:
    """A connection that is never done with a statement, and takes its time to roll back."""

    def __init__(self) -> None:
        self.rolled_back = False
        self.pgconn = self  # as its library's

    def consume_input(self) -> None:
        """Nothing has come."""

    async def execute(self, _: object) -> None:
        await asyncio.sleep(60)

    async def rollback(self) -> None:
        await asyncio.sleep(0.05)
        self.rolled_back = True


class OnePool:
    """A pool of one connection."""

    def __init__(self) -> None:
        self.connection = SlowConnection()
        self.back: list[object] = []

    async def getconn(self) -> SlowConnection:
        return self.connection

    async def putconn(self, connection: object) -> None:
        self.back.append(connection)


async def test_a_call_that_is_cancelled_again_and_again_still_gives_its_connection_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database, pool = Database("postgresql://nowhere"), OnePool()
    monkeypatch.setattr(database, "_pool", pool)

    with anyio.move_on_after(0.01):  # a scope of anyio cancels until its block is left
        async with database.transaction(1):
            raise AssertionError
    await asyncio.sleep(0.2)

    assert pool.connection.rolled_back
    assert pool.back == [pool.connection]
