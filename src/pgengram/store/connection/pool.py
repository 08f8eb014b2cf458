"""The connections that wait for the next transaction, and how values travel on them to PostgreSQL and back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

import psycopg
from psycopg.adapt import PyFormat
from psycopg.rows import dict_row
from psycopg.types.array import ListBinaryDumper
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from pgengram.errors import Unreachable
from pgengram.store.connection import pooler
from pgengram.store.connection.translation import parsed, unreachable

if TYPE_CHECKING:
    from pgengram.embedders import Passage

Connection = psycopg.AsyncConnection[dict[str, Any]]

POOL_MAX: Final = 8
POOL_TIMEOUT_S: Final = 30.0
POOL_IDLE_S: Final = 10.0  # until a connection that nobody needed is closed: each holds 20 MB in PostgreSQL
GROWN_AFTER_S: Final = 0.2  # somebody has waited for so long; most calls are over sooner, also the first ones
CONNECT_S: Final = 5  # for a host to accept a connection, where the URL doesn't say; a driver waits for two minutes
NAME: Final = "pgengram"
REUSED_AFTER: Final = 1  # a statement is prepared when it comes again; to plan the ranking takes as long as to run it


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How many connections a process opens at most, and for how many seconds a call waits for one."""

    connections: int = field(default_factory=lambda: POOL_MAX)
    wait_s: float = field(default_factory=lambda: POOL_TIMEOUT_S)


class _Tasks:
    """The tasks of a pool's worker, which ends when it is cancelled: the library's goes on if it was connecting.

    The event loop of a program that ends without closing its pool would wait for it for ever.
    """

    def __init__(self, tasks: Any) -> None:
        self._tasks = tasks

    async def get(self) -> Any:
        worker = asyncio.current_task()
        if worker is not None and worker.cancelling():
            raise asyncio.CancelledError
        return await self._tasks.get()


class Pool(AsyncConnectionPool[Connection]):
    """Lends the connection that was given back last, which has planned the statements and has their tables at hand.

    By turns, each connection would have to plan and to keep what one of them is enough for. Another one is opened when
    somebody has waited for a while: what is written behind an answer would else cost 20 MB and a start of a process.

    Where no connection is open, and none can be opened, whoever waits for one is told so at once, and why. Each call
    tries again, so that a server that is back is noticed by the next one.
    """

    _opening = 0  # connections that are being opened
    _failed: psycopg.Error | None = None  # why the last one could not be

    @classmethod
    async def worker(cls, q: Any) -> None:
        """Do the pool's maintenance until it is closed, or the task is cancelled."""
        await super().worker(cast("Any", _Tasks(q)))

    async def _connect(self, timeout: float | None = None) -> Connection:  # noqa: ASYNC109 - the pool's
        self._opening += 1
        try:
            connection = await super()._connect(timeout)
        except psycopg.Error as error:
            self._failed = error
            raise
        finally:
            self._opening -= 1
        self._failed = None
        return connection

    async def reconnect_failed(self) -> None:
        """Let nobody wait for a connection where there is none, nor one to come."""
        if self._nconns <= self._opening:
            for client in [*self._waiting]:
                await client.fail(self._error() or PoolTimeout())

    async def getconn(self, timeout: float | None = None) -> Connection:  # noqa: ASYNC109 - the pool's
        """As the pool's own; who waited in vain is told why there was no other connection to be had."""
        try:
            return await super().getconn(timeout)
        except PoolTimeout:
            if (error := self._error()) is not None:
                raise error from self._failed
            raise

    def _error(self) -> Unreachable | None:
        if self._failed is None:
            return None
        error = unreachable(str(self.conninfo), self._failed)
        error.__cause__ = self._failed
        return error

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


class Vectors(list[Any]):
    """What psycopg sends as halfvec[], in binary."""


def vectors_parameter(vectors: Sequence[Any]) -> Vectors:
    """Return float vectors, shape (dims,) each, as what psycopg sends as halfvec[]."""
    from pgvector import HalfVector

    return Vectors(HalfVector(vector) for vector in vectors)


def vectors_of(parts_of: Iterable[tuple[UUID, Passage]]) -> dict[str, Any]:
    """Return the vectors of memories part by part, as statements take them."""
    flat = [(id_, number, part) for id_, parts in parts_of for number, part in enumerate(parts)]
    return {
        "vector_ids": [id_ for id_, _, _ in flat],
        "vector_parts": [number for _, number, _ in flat],
        "vectors": vectors_parameter([part for _, _, part in flat]),
    }


async def configure(connection: psycopg.AsyncConnection[Any]) -> None:
    """Teach a new connection the vector types, which are there once the schema is, and to read JSON quickly."""
    from pgvector import HalfVector
    from pgvector.psycopg import register_vector_async
    from pydantic_core import from_json

    await pooler.adapt(connection)
    await register_vector_async(connection)
    # The dumper registered last is taken; as text a vector is three times as long, and takes longer to write.
    connection.adapters.register_dumper(HalfVector, connection.adapters.get_dumper(HalfVector, PyFormat.BINARY))
    connection.adapters.register_dumper(Vectors, ListBinaryDumper)
    set_json_loads(from_json, connection)  # each hit has some: a fortieth of the time that the driver's own takes


async def _configured(connection: Connection) -> None:
    """Configure a new connection; a server that says nothing after the greeting is given up like one that has none.

    Else nobody would be told why there is no connection, nor another one be opened.

    Raises:
        ConnectionTimeout: it says nothing.
    """
    loop = asyncio.get_running_loop()
    giving_up = loop.call_later(CONNECT_S, shut, connection)
    try:
        await configure(connection)
    except psycopg.OperationalError as error:
        if loop.time() >= giving_up.when():
            raise psycopg.errors.ConnectionTimeout("connection timeout expired") from error
        raise
    finally:
        giving_up.cancel()


def shut(connection: Connection) -> None:
    """End a connection as the other side would: who waits for it has an error at once; a cancelled driver waits on."""
    if not connection.closed:
        own = socket.socket(fileno=connection.pgconn.socket)
        with contextlib.suppress(OSError):  # the other side was quicker
            own.shutdown(socket.SHUT_RDWR)
        own.detach()


def _is_told_otherwise(record: logging.LogRecord) -> bool:
    """Whether a record of psycopg's is about another pool: why ours cannot connect, its callers are told."""
    return isinstance(record.args, Mapping) or NAME not in (record.args or ())


logging.getLogger("psycopg.pool").addFilter(_is_told_otherwise)


def connect_timeout(url: str) -> dict[str, int]:
    """Return how long opening a connection may take, where the URL doesn't say and can be read."""
    try:
        return {} if "connect_timeout" in parsed(url) else {"connect_timeout": CONNECT_S}
    except psycopg.Error:
        return {}


def new_pool(url: str, limits: PoolLimits) -> Pool:
    """Return a pool of connections to a database, not yet open."""
    return Pool(
        url,
        min_size=1,
        max_size=limits.connections,
        max_idle=POOL_IDLE_S,
        timeout=limits.wait_s,
        open=False,
        configure=_configured,
        reset=None,
        kwargs={
            "row_factory": dict_row,
            "autocommit": True,
            "client_encoding": "utf8",
            "prepare_threshold": REUSED_AFTER,
            **connect_timeout(url),
        },
        reconnect_timeout=0.0,  # the next call tries again
        name=NAME,
    )
