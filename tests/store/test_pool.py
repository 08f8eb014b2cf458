"""The pool of connections."""

from __future__ import annotations

import asyncio
import inspect
import socket
import tomllib
from collections import deque
from pathlib import Path

import psycopg
from psycopg_pool import AsyncConnectionPool

import helpers
from helpers import until
from pgengram.store.connection.database import Database
from pgengram.store.connection.pool import Pool, PoolLimits, new_pool


async def test_a_program_that_ends_while_a_connection_is_opened_does_not_wait_for_it() -> None:
    """As at the end of asyncio.run: every task is cancelled once, and all are waited for."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        pool = new_pool(f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/postgres", PoolLimits())
        await pool.open()
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
            other.execute("SELECT pg_terminate_backend(%s, 60000)", [pid])

        assert await made.one("SELECT 1 AS number") == {"number": 1}
    finally:
        await made.close()


def test_the_library_has_what_the_pool_changes_of_it_and_no_other_release_is_taken() -> None:
    for name in ("worker", "_connect", "reconnect_failed", "getconn", "_get_ready_connection", "_maybe_grow_pool"):
        ours, theirs = (inspect.signature(getattr(one, name)) for one in (Pool, AsyncConnectionPool))
        assert list(ours.parameters) == list(theirs.parameters), name
    pool = new_pool("postgresql://postgres@127.0.0.1/postgres", PoolLimits())
    assert isinstance(pool._pool, deque), "the last one that was given back is at its right end"
    assert (pool._min_size, pool._nconns, len(pool._waiting), pool._closed) == (1, 1, 0, True)
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["dependencies"]
    assert "psycopg-pool>=3.3.3,<3.4" in declared
