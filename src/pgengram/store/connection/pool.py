"""The connections that wait for the next transaction."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from pgengram.errors import NotReady
from pgengram.store.connection.adapters import configure
from pgengram.store.connection.translation import no_connection_left

Connection = psycopg.AsyncConnection[dict[str, Any]]

POOL_MAX: Final = 8
POOL_TIMEOUT_S: Final = 30.0
POOL_IDLE_S: Final = 10.0  # until a connection that nobody needed is closed: each holds 20 MB in PostgreSQL
GROWN_AFTER_S: Final = 0.2  # somebody has waited for so long; most calls are over sooner, also the first ones
REUSED_AFTER: Final = 1  # a statement is prepared when it comes again; to plan the ranking takes as long as to run it


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How many connections a process opens at most, and for how many seconds a call waits for one."""

    connections: int = field(default_factory=lambda: POOL_MAX)
    wait_s: float = field(default_factory=lambda: POOL_TIMEOUT_S)


class Pool(AsyncConnectionPool[Connection]):
    """Lends the connection that was given back last, which has planned the statements and has their tables at hand.

    By turns, each connection would have to plan and to keep what one of them is enough for. Another one is opened when
    somebody has waited for a while: what is written behind an answer would else cost 20 MB and a start of a process.
    """

    last_error: psycopg.Error | None = None  # why no connection could be opened, the last time that was so

    async def _connect(self, timeout: float | None = None) -> Connection:  # noqa: ASYNC109 - the pool's
        try:
            return await super()._connect(timeout)
        except psycopg.Error as error:
            self.last_error = error
            raise

    async def _get_ready_connection(self, timeout: float | None) -> Connection | None:  # noqa: ASYNC109 - the pool's
        self._pool.rotate(1)
        return await super()._get_ready_connection(timeout)

    def _maybe_grow_pool(self) -> None:
        if self._nconns < self._min_size:
            super()._maybe_grow_pool()
        else:
            asyncio.get_running_loop().call_later(GROWN_AFTER_S, self._grow_for_who_waits)

    def _grow_for_who_waits(self) -> None:
        if self._waiting and not self._closed:
            super()._maybe_grow_pool()

    def exhausted(self) -> NotReady | None:
        """Return the error where the server has no connection left; None where something else is wrong with it."""
        return no_connection_left(self.last_error)


def new_pool(url: str, limits: PoolLimits) -> Pool:
    """Return a pool of connections to a database, not yet open."""
    return Pool(
        url,
        min_size=1,
        max_size=limits.connections,
        max_idle=POOL_IDLE_S,
        timeout=limits.wait_s,
        open=False,
        configure=configure,
        reset=None,
        kwargs={
            "row_factory": dict_row,
            "autocommit": True,
            "client_encoding": "utf8",
            "prepare_threshold": REUSED_AFTER,
        },
        reconnect_timeout=5.0,
        name="pgengram",
    )
