"""One PostgreSQL behind a pool; every statement runs in a transaction that sees one namespace only."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache, partial
from typing import Any, Final

import psycopg
from anyio.lowlevel import checkpoint_if_cancelled
from psycopg import sql
from psycopg.rows import AsyncRowFactory, dict_row, tuple_row
from psycopg_pool import PoolTimeout

from pgengram.errors import DatabaseFailed, InvalidInput, NoSuchSpace, NotReady, WritesRefused
from pgengram.runtime.context import ACTOR
from pgengram.store.connection import begin
from pgengram.store.connection.begin import (
    DESCRIBE,
    PROBES,
    SNAPSHOT,
    Member,
    asks_for_role,
    begin_sql,
    check_vector,
    has_citus,
    secured_role,
    settings_sql,
)
from pgengram.store.connection.pool import Pool, PoolLimits, new_pool, shut
from pgengram.store.connection.translation import our_errors

# A pooler without a server, or a network that went away, would let a call wait for minutes.
ENTER_TIMEOUT_S: Final = 10.0
SPACE: Final = "space:"  # begins the names of the namespaces that people share
NOBODYS: Final = 0  # no namespace's key
GIVING_S: Final = 0.5  # that closing waits for connections that are being given back
POOL_CLOSE_S: Final = 0.75  # that it waits, then, for those that are being opened

Row = dict[str, Any]
Entered = tuple[psycopg.AsyncConnection[Row], psycopg.AsyncCursor[Row]]
Query = str | sql.SQL | sql.Composed


class Role(IntEnum):
    """What somebody may do with the memories of a namespace: in their own, everything."""

    READ = 1
    WRITE = 2
    ADMIN = 3


@dataclass(slots=True)
class Transaction:
    """An open transaction of one namespace; committed when its block ends well, rolled back when it does not.

    model_id: the active embedding model when it began; None while the store has none.
    read_only: whether writing is refused, as the disk is nearly full.
    distributed: whether the namespace's rows are on a worker of a Citus cluster.
    member: who asks, where the namespace is a space; role: what they may do there.
    """

    connection: psycopg.AsyncConnection[Row]
    namespace_id: int
    model_id: int | None
    read_only: bool = False
    distributed: bool = False
    member: Member | None = None
    role: Role = Role.ADMIN

    async def rows(self, statement: Query, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run `statement` with `namespace_id` and `parameters`, and return all its rows."""
        cursor = await self._execute(statement, parameters)
        return await cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []

    async def columns(self, statement: Query, parameters: Mapping[str, Any] | None = None) -> dict[str, Sequence[Any]]:
        """Run `statement` and return each of its columns by its name, a value for each row."""
        cursor = await self._execute(statement, parameters, tuple_row)
        names = [column.name for column in cursor.description or ()]
        rows = await cursor.fetchall()
        return dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())

    async def row(self, statement: Query, parameters: Mapping[str, Any] | None = None) -> Row | None:
        """Run `statement` and return its first row, or None."""
        cursor = await self._execute(statement, parameters)
        return await cursor.fetchone()

    async def run(self, statement: Query, parameters: Mapping[str, Any] | None = None) -> int:
        """Run `statement` and return how many rows it touched."""
        return (await self._execute(statement, parameters)).rowcount

    async def set_local(self, settings: Mapping[str, str]) -> None:
        """Make settings hold until the end of the transaction, wherever the namespace's rows are."""
        await self.connection.execute(settings_sql(tuple(settings.items()), self.distributed))

    async def allow_for(self, memories: int) -> None:
        """Give each statement to come the time that so many memories may take on a slow machine."""
        if memories > 1:
            timeout_ms = begin.STATEMENT_TIMEOUT_MS + begin.EACH_TIMEOUT_MS * memories
            await self.set_local({"statement_timeout": str(timeout_ms)})

    async def _execute(
        self, statement: Query, parameters: Mapping[str, Any] | None, rows_as: AsyncRowFactory[Any] = dict_row
    ) -> psycopg.AsyncCursor[Any]:
        values = {"namespace_id": self.namespace_id, **(parameters or {})}
        if not isinstance(statement, str):
            return await self.connection.execute(statement, values, binary=True)
        text, names = numbered(statement)
        cursor = psycopg.AsyncRawCursor(self.connection, row_factory=rows_as)
        cursor.format = psycopg.pq.Format.BINARY
        return await cursor.execute(text, [values[name] for name in names])


PARAMETER: Final = re.compile(r"%(?:\((\w+)\)[sb]|%)")


@lru_cache(maxsize=300)
def numbered(statement: str) -> tuple[bytes, list[str]]:
    """Return a statement with $1, $2, … for its named parameters, and their names in that order.

    The driver would look for them in each call: it remembers what it has found in short statements only.
    """
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] is None:
            return "%"
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    return PARAMETER.sub(number, statement).encode(), names


class Database:
    """A pool of connections to one migrated database.

    Args:
        url: a libpq connection string or URL.
        has_room: asked before each transaction; while it says no, transactions may only read. PostgreSQL ends, and does
            not
            come up again, when it has no room for its log, and with it reading would end too.
        limits: of the pool.
        enter_timeout_s: after which a server that is connected and says nothing is given up.
    """

    def __init__(
        self,
        url: str,
        has_room: Callable[[], bool] = lambda: True,
        *,
        limits: PoolLimits | None = None,
        enter_timeout_s: float = ENTER_TIMEOUT_S,
    ) -> None:
        self.url = url
        self._limits = limits or PoolLimits()
        self._enter_timeout_s = enter_timeout_s
        self._has_room = has_room
        self.role = "none"
        self.distributed = False  # whether namespaces' rows are on the workers of a Citus cluster
        self._pool: Pool | None = None
        self._giving: set[asyncio.Task[None]] = set()  # held, as the loop alone would let them be collected
        self._namespace_ids: dict[str, int] = {}
        self._model_id: int | None = None  # the active one when its index had the file
        self._models_mark: bytes | None = None

    async def open(self) -> None:
        """Open the pool and find out which role holds row-level security.

        Raises:
            NotReady: the database cannot be reached, or its login would bypass row-level security.
        """
        pool = new_pool(self.url, self._limits)
        await pool.open()
        try:
            async with pool.connection() as connection:
                await check_vector(connection)
                self.role = await secured_role(connection)
                self.distributed = await has_citus(connection)
        except PoolTimeout as error:
            await pool.close()
            raise NotReady(
                "The database does not answer.", "Check PGENGRAM_DATABASE_URL; `pgengram doctor` says more."
            ) from error
        except BaseException:
            await pool.close()
            raise
        self._pool = pool

    async def close(self) -> None:
        """Close every connection, once those that are being given back are there."""
        if self._giving:
            await asyncio.wait(self._giving, timeout=GIVING_S)
        if self._pool is not None:
            await self._pool.close(timeout=POOL_CLOSE_S)
            self._pool = None

    async def describe(self) -> str:
        """Return which PostgreSQL and pgvector this is."""
        async with self.as_login() as connection:
            row = await (await connection.execute(DESCRIBE)).fetchone()
        return f"PostgreSQL {row['server']}, pgvector {row['vector']}" if row else "no answer"

    async def namespace_id(self, name: str) -> int:
        """Return the key of the namespace called `name`, made when first asked for.

        Where the database takes no writes, a new one has the key `NOBODYS`, under which nothing is, until it does.
        """
        if name.startswith(SPACE):
            raise InvalidInput(
                "A namespace's name cannot begin with 'space:'.", "Spaces are shared: name one as `space`."
            )
        if name not in self._namespace_ids:
            try:
                await self._find_namespace(name)
            except WritesRefused:
                return NOBODYS
        return self._namespace_ids[name]

    async def _find_namespace(self, name: str) -> None:
        async with self.as_login() as connection:
            parameters = {"name": name}
            row = await (await connection.execute(FIND_NAMESPACE, parameters)).fetchone()
            if row is None:
                await connection.execute(ADD_NAMESPACE, parameters)
                row = await (await connection.execute(FIND_NAMESPACE, parameters)).fetchone()
            if row is None:
                raise NotReady("The namespace's key could not be created.")
            self._namespace_ids[name] = row["id"]

    def forget_namespace(self, name: str) -> None:
        """Look the key of a namespace up again when next asked for it."""
        self._namespace_ids.pop(name, None)

    @contextlib.asynccontextmanager
    async def transaction(
        self, namespace_id: int, probes: int = PROBES, *, reads: bool = False, member: Member | None = None
    ) -> AsyncIterator[Transaction]:
        """Run a block in one transaction that sees and writes the rows of one namespace only.

        A connection that died while it lay in the pool is replaced before anything was done on it.

        Args:
            namespace_id: the namespace's key.
            probes: lists of an ivfflat index visited for a vector.
            reads: whether the block only reads: nobody waits for its end then, as there is nothing to keep.
            member: who asks, where the namespace is a space.

        Raises:
            NotFound: whoever asks is not in the space.
            DatabaseFailed: PostgreSQL cannot be used now; nothing of the block was kept unless it had committed.
            Conflict: another transaction holds or has taken what this one needs.
        """
        pool = self._open_pool()
        with our_errors():
            enter = partial(self._begin_sql, namespace_id, probes=probes, member=member)
            connection, entered = await self._entered(pool, enter)
        full = not self._has_room()
        try:
            with our_errors():
                if full:
                    await connection.execute("SET TRANSACTION READ ONLY")
                role = _role(entered, namespace_id, member)
                yield Transaction(connection, namespace_id, self._model_id, full, self.distributed, member, role)
                if not reads:
                    await connection.commit()
        except WritesRefused as error:
            if not full:
                # It leads to a standby, or to what was one: a new connection may find who takes writes.
                await connection.close()
            await self._give_back(pool, connection)
            if full:
                raise DatabaseFailed(
                    "The disk is almost full, so writes are refused.",
                    "Nothing was changed. Free some space, then call again; reads still work.",
                ) from error
            raise
        except BaseException:
            await self._give_back(pool, connection)
            raise
        else:
            if reads:
                self._giving_back(pool, connection, connection.commit)
            else:
                await pool.putconn(connection)  # of a pool that was closed meanwhile, too

    @contextlib.asynccontextmanager
    async def snapshot(self, namespace_id: int, member: Member | None = None) -> AsyncIterator[Transaction]:
        """Run a block that only reads, and to which one namespace's rows stay as they are now.

        Raises:
            NotFound: whoever asks is not in the space.
            DatabaseFailed: PostgreSQL cannot be used now.
        """
        enter = partial(self._begin_sql, namespace_id, SNAPSHOT, member=member)
        with our_errors():
            async with self._lent(self._open_pool(), enter) as (connection, entered):
                role = _role(entered, namespace_id, member)
                yield Transaction(connection, namespace_id, self._model_id, False, self.distributed, member, role)

    @contextlib.asynccontextmanager
    async def as_login(self) -> AsyncIterator[psycopg.AsyncConnection[Row]]:
        """Run a block as the login role, for what belongs to no namespace: namespaces, models and maintenance."""
        with our_errors():
            async with self._lent(self._open_pool(), _begin_as_login) as (connection, _):
                yield connection

    async def one(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Row | None:
        """Run one statement as the login role, a transaction by itself, and return its first row."""
        return next(iter(await self.login_rows(statement, parameters)), None)

    async def login_rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run one statement as the login role, a transaction by itself, and return its rows."""
        with our_errors():
            pool = self._open_pool()
            connection = await _acquire(pool)
            giving_up = self._give_up_later(connection)
            try:
                cursor = await connection.execute(statement, parameters)
                rows = await cursor.fetchall() if cursor.description else []
            except BaseException as error:
                if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                    await connection.close()  # a new one may find who takes writes
                await self._give_back(pool, connection)
                raise
            finally:
                giving_up.cancel()
            await pool.putconn(connection)
            return rows

    async def _entered(self, pool: Pool, enter: Callable[[], bytes]) -> Entered:
        """Return a connection on which `enter` began a transaction, and its answer; dead ones are replaced."""
        for attempt in range(self._limits.connections + 1):
            connection = await _acquire(pool)
            giving_up = self._give_up_later(connection)
            try:
                entered = await connection.execute(enter())
                if enter is not _begin_as_login:
                    entered = await self._note_model(connection, entered, enter)
            except psycopg.OperationalError as error:
                await connection.close()
                await pool.putconn(connection)
                if asyncio.get_running_loop().time() >= giving_up.when():
                    raise DatabaseFailed(
                        "The database does not answer.", "Nothing was changed; call again in a moment."
                    ) from error
                if attempt == self._limits.connections:
                    raise
            except BaseException:
                await self._give_back(pool, connection)
                raise
            else:
                return connection, entered
            finally:
                giving_up.cancel()
        raise AssertionError("unreachable")

    def _give_up_later(self, connection: psycopg.AsyncConnection[Row]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._enter_timeout_s, shut, connection)

    def _begin_sql(
        self, namespace_id: int, mode: str = "", probes: int = PROBES, member: Member | None = None
    ) -> bytes:
        actor = ACTOR.get() or ""
        return begin_sql(
            self.role, namespace_id, actor, mode, probes=probes, distributed=self.distributed, member=member
        )

    async def _note_model(
        self, connection: psycopg.AsyncConnection[Row], entered: psycopg.AsyncCursor[Row], enter: Callable[[], bytes]
    ) -> psycopg.AsyncCursor[Row]:
        """Look up the active embedding model when it may be another than at the last look; the same goes for Citus.
        Return what entering answered last.

        The look-up is committed before the transaction that it is for begins again: a writer that held on to the models
        and waited for the switch would have the switch wait for it.
        """
        while (mark := _mark(entered)) != self._models_mark:
            row = await (await connection.execute(FIND_MODEL_OF_STATE, {"state": "active"})).fetchone()
            self.distributed = await has_citus(connection)
            self._model_id, self._models_mark = row["id"] if row else None, mark
            await connection.commit()
            entered = await connection.execute(enter())
        return entered

    @contextlib.asynccontextmanager
    async def _lent(self, pool: Pool, enter: Callable[[], bytes]) -> AsyncIterator[Entered]:
        """Lend a connection on which what `enter` gives has begun a transaction, which is committed when the block ends
        well, else rolled back; and what that answered.
        """
        connection, entered = await self._entered(pool, enter)
        try:
            yield connection, entered
            await connection.commit()
        except BaseException as error:
            if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                await connection.close()  # a new one may find who takes writes
            await self._give_back(pool, connection)
            raise
        else:
            await pool.putconn(connection)

    async def _give_back(self, pool: Pool, connection: psycopg.AsyncConnection[Row]) -> None:
        """Give a connection back that was left midway, in a task of its own: the caller may be cancelled again."""
        await asyncio.shield(self._giving_back(pool, connection, connection.rollback))

    def _giving_back(
        self, pool: Pool, connection: psycopg.AsyncConnection[Row], end: Callable[[], Awaitable[None]]
    ) -> asyncio.Task[None]:
        giving = asyncio.create_task(_given_back(pool, connection, end), name="giving a connection back")
        self._giving.add(giving)
        giving.add_done_callback(self._giving.discard)
        return giving

    def _open_pool(self) -> Pool:
        if self._pool is None:
            raise NotReady("The store is not open.")
        return self._pool


FIND_NAMESPACE: Final = "SELECT id FROM namespaces WHERE name = %(name)s"
ADD_NAMESPACE: Final = "INSERT INTO namespaces (name) VALUES (%(name)s) ON CONFLICT (name) DO NOTHING"
RENEW_MARK: Final = "REINDEX INDEX embedding_models_active"
FIND_MODEL_OF_STATE: Final = (
    "SELECT id, name, dimensions, embedder, state FROM embedding_models WHERE state = %(state)s"
)


def _role(entered: psycopg.AsyncCursor[Row], namespace_id: int, member: Member | None) -> Role:
    """Return what whoever asks may do in a namespace, which entering it has answered.

    Raises:
        NotFound: it is a space that they are not in.
    """
    if not asks_for_role(namespace_id, member):
        return Role.ADMIN
    result = entered.pgresult
    role = result.get_value(0, result.nfields - 1) if result else None
    if role is None:
        raise NoSuchSpace
    return Role(int(role))


def _begin_as_login() -> bytes:
    return b"BEGIN"


async def _acquire(pool: Pool) -> psycopg.AsyncConnection[Row]:
    """Return a connection of the pool that the other side has not ended; a task cancelled as it got one ends, too.

    The pool waits with `wait_for`, which in Python 3.11 loses a cancellation of that very moment: whoever had cancelled
    the task would wait for ever. A scope of anyio must cancel by its own hand: it takes any other cancellation for one
    of the whole connection, and would end that with the call.
    """
    task = asyncio.current_task()
    asked_before = 0 if task is None else task.cancelling()
    while True:
        connection = await pool.getconn()
        if task is not None and task.cancelling() > asked_before:
            await pool.putconn(connection)
            await checkpoint_if_cancelled()
            raise asyncio.CancelledError
        if not _has_ended(connection):
            return connection
        await connection.close()
        await pool.putconn(connection)


def _has_ended(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether the other side has ended a connection that lay in the pool, as a server does that stops; asks nobody.

    What it said before that comes first, so that only a second look sees the end.
    """
    try:
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return True
    return False


def _mark(entered: psycopg.AsyncCursor[Row]) -> bytes | None:
    """Return the first value of what entering answers; fetching it as a row would cost each call more."""
    entered.nextset()  # the first set is BEGIN's
    return entered.pgresult.get_value(0, 0) if entered.pgresult else None


async def _given_back(pool: Pool, connection: psycopg.AsyncConnection[Row], end: Callable[[], Awaitable[None]]) -> None:
    """End what is open, and give the connection back; one that cannot do that is closed."""
    try:
        await end()
    except psycopg.Error:
        await connection.close()
    await pool.putconn(connection)
