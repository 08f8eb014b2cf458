"""The pool of connections."""

from __future__ import annotations

import asyncio
import inspect
import socket
import tomllib
from collections import deque
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

import helpers
from helpers import until
from pgengram.errors import Unreachable
from pgengram.store.connection import pool
from pgengram.store.connection.database import Database
from pgengram.store.connection.pool import Pool, PoolLimits, new_pool


async def test_a_program_that_ends_while_a_connection_is_opened_does_not_wait_for_it() -> None:
    """As at the end of asyncio.run: every task is cancelled once, and all are waited for."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        made = new_pool(f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/postgres", PoolLimits())
        await made.open()
        workers = {task for task in asyncio.all_tasks() if task.get_name().startswith("pgengram-worker")}
        silent.setblocking(False)
        await until(lambda: asyncio.get_running_loop().sock_accept(silent))  # one of them is opening a connection

        for worker in workers:
            worker.cancel()
        _, left = await asyncio.wait(workers, timeout=5)
        for worker in left:
            worker.cancel()

        assert workers
        assert not left


async def test_a_connection_that_the_server_ended_while_it_lay_in_the_pool_costs_no_call(
    database: helpers.Database,
) -> None:
    made = Database(database.url)
    await made.open()
    try:
        async with made.as_login() as connection:
            pid = connection.info.backend_pid
        with psycopg.connect(database.url) as other:
            other.execute("SELECT pg_terminate_backend(%s::integer, 60000)", [pid])

        assert await made.one("SELECT 1 AS number") == {"number": 1}
    finally:
        await made.close()


def test_the_library_has_what_the_pool_changes_of_it_and_no_other_release_is_taken() -> None:
    for name in ("worker", "_connect", "reconnect_failed", "getconn", "_get_ready_connection", "_maybe_grow_pool"):
        ours, theirs = (inspect.signature(getattr(one, name)) for one in (Pool, AsyncConnectionPool))
        assert list(ours.parameters) == list(theirs.parameters), name
    made = new_pool("postgresql://postgres@127.0.0.1/postgres", PoolLimits())
    assert isinstance(made._pool, deque), "the last one that was given back is at its right end"
    assert (made._min_size, made._nconns, len(made._waiting), made._closed) == (1, 1, 0, True)
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["dependencies"]
    assert "psycopg-pool>=3.3.3,<3.4" in declared


async def test_a_server_that_falls_silent_after_its_greeting_is_told_of_as_one_that_does_not_answer(
    database: helpers.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asks(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("SELECT pg_sleep(3600)")

    monkeypatch.setattr(pool, "configure", asks)
    monkeypatch.setattr(pool, "CONNECT_S", 0.2)
    made = new_pool(database.url, PoolLimits(2, helpers.PATIENCE_S))
    await made.open()
    try:
        with pytest.raises(Unreachable, match="cannot be reached: it does not answer"):
            await made.getconn()
    finally:
        await made.close()
