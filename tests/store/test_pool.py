"""The pool of connections."""

from __future__ import annotations

import asyncio
import socket

import psycopg

import helpers
from helpers import until
from pgengram.store.connection.database import Database
from pgengram.store.connection.pool import PoolLimits, new_pool


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
