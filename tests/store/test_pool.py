"""The pool of connections."""

from __future__ import annotations

import asyncio
import socket

from helpers import until
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
