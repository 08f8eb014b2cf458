"""One PostgreSQL behind a pool; every statement runs in a transaction that sees one namespace only."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

import psycopg
from anyio.lowlevel import checkpoint_if_cancelled
from psycopg import sql
from psycopg.adapt import PyFormat
from psycopg.rows import dict_row
from psycopg.types.array import ListBinaryDumper
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from pgengram.errors import Conflict, ConnectionLost, DatabaseFailed, NotReady, PgengramError, ShardMoved
from pgengram.runtime.context import ACTOR
from pgengram.store.connection import pooler

log = logging.getLogger(__name__)

APP_ROLE: Final = "pgengram_app"
SCHEMA_HEAD: Final = "0001"  # the newest migration; a test compares it with the migrations folder
POOL_MAX: Final = 8
POOL_TIMEOUT_S: Final = 30.0
PROBE_TIMEOUT_S: Final = 5
# A pooler without a server, or a network that went away, would let a call wait for minutes.
ENTER_TIMEOUT_S: Final = 10.0
STATEMENT_TIMEOUT_MS: Final = 10_000
LOCK_TIMEOUT_MS: Final = 5_000
MOVE_TIMEOUT_MS: Final = 60_000  # on a cluster, where a namespace may be on the way to another machine
PGVECTOR: Final = (0, 8)

Row = dict[str, Any]
Pool = AsyncConnectionPool[psycopg.AsyncConnection[Row]]
Query = str | sql.SQL | sql.Composed

# One round trip: begin, take the application's role, name the namespace, bound the time, and say how far a look into an
# index of vectors goes. All of it ends with the transaction, so a pooled connection (or a pooler in transaction mode)
# never carries one namespace's rights to the next. The switch to another embedding model gives its index a new file, in
# the same transaction: to look at that costs a tenth of looking at the table.
BEGIN: Final = sql.SQL("""
BEGIN {mode};
SELECT pg_relation_filenode('embedding_models_active'::regclass), {settings}
""")
# On Citus row-level security stands on the worker that has the namespace's rows, and the index too. Only SET LOCAL
# travels there; it takes the whole text of its query along, so each has a text of its own inside a block. Plans are
# made anew for each call: a generic one does not know on which worker the namespace is.
BEGIN_ON_CITUS: Final = sql.SQL("""{enter};
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);
{carried}
""")
# How far a look into an index of vectors goes until a filtered search has enough.
INDEX_SETTINGS: Final = {
    "ivfflat.iterative_scan": "relaxed_order",
    "hnsw.ef_search": "200",
    "hnsw.iterative_scan": "relaxed_order",
}
SNAPSHOT: Final = "ISOLATION LEVEL REPEATABLE READ, READ ONLY"
PROBES: Final = 20  # lists of an ivfflat index visited for a question: recall .985 at sqrt(n) lists
# A plan that serves every namespace is made for one of average size: among many small namespaces it would read and sort
# all vectors of a large one, as for a small one that is cheaper than the index. Where the index is to answer, only what
# nothing holds in order is sorted.
NO_SORT: Final = {"enable_sort": "off"}


@lru_cache(maxsize=1_000)
def begin_sql(
    role: str,
    namespace_id: int,
    actor: str = "",
    mode: str = "",
    *,
    probes: int = PROBES,
    distributed: bool = False,
) -> bytes:
    """Return the text that begins a transaction of one namespace as `role`; all but our own `mode` is quoted as a
    literal.

    probes: lists of an ivfflat index visited for a vector; distributed: the namespace's rows are on a worker of a Citus
        cluster.
    """
    carried = {
        "pgengram.namespace_id": str(namespace_id),
        "pgengram.actor": actor,
        "ivfflat.probes": str(probes),
        **INDEX_SETTINGS,
    }
    here = {
        "role": role,
        "statement_timeout": str(STATEMENT_TIMEOUT_MS),
        "lock_timeout": str(LOCK_TIMEOUT_MS),
        "idle_in_transaction_session_timeout": "15000",
        "plan_cache_mode": "force_generic_plan",
    }
    enter = BEGIN.format(mode=sql.SQL(mode), settings=_set_here(here | carried))
    if not distributed:
        return enter.as_bytes()
    # Whoever writes waits while the shard is taken to another machine.
    carried |= {"lock_timeout": "0", "statement_timeout": str(MOVE_TIMEOUT_MS)}
    return BEGIN_ON_CITUS.format(enter=enter, carried=set_local(carried, distributed=True)).as_bytes()


def _set_here(settings: Mapping[str, str]) -> sql.Composed:
    call = sql.SQL("set_config({}, {}, true)")
    return sql.SQL(", ").join(call.format(sql.Literal(name), sql.Literal(value)) for name, value in settings.items())


def set_local(settings: Mapping[str, str], *, distributed: bool) -> sql.Composed:
    """Return the text that makes settings hold until the end of the transaction, also on the workers where it is
    `distributed`.

    Names are our own; values are quoted as literals.
    """
    if not distributed:
        return sql.SQL("SELECT {}").format(_set_here(settings))
    carried = {"citus.propagate_set_commands": "local", **settings}
    each = [sql.SQL("SET LOCAL {} = {};").format(sql.SQL(name), sql.Literal(value)) for name, value in carried.items()]
    return sql.SQL("DO {}").format(sql.Literal(f"BEGIN {sql.SQL(' ').join(each).as_string()} END"))


@lru_cache(maxsize=100)
def _settings(settings: tuple[tuple[str, str], ...], distributed: bool) -> bytes:
    return set_local(dict(settings), distributed=distributed).as_bytes()


@dataclass(slots=True)
class Transaction:
    """An open transaction of one namespace; committed when its block ends well, rolled back when it does not.

    model_id: the active embedding model when it began; None while the store has none.
    read_only: whether writing is refused, as the disk is nearly full.
    distributed: whether the namespace's rows are on a worker of a Citus cluster.
    """

    connection: psycopg.AsyncConnection[Row]
    namespace_id: int
    model_id: int | None
    read_only: bool = False
    distributed: bool = False

    async def rows(self, statement: Query, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run `statement` with `namespace_id` and `parameters`, and return all its rows."""
        cursor = await self._execute(statement, parameters)
        return await cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []

    async def row(self, statement: Query, parameters: Mapping[str, Any] | None = None) -> Row | None:
        """Run `statement` and return its first row, or None."""
        cursor = await self._execute(statement, parameters)
        return await cursor.fetchone()

    async def run(self, statement: Query, parameters: Mapping[str, Any] | None = None) -> int:
        """Run `statement` and return how many rows it touched."""
        return (await self._execute(statement, parameters)).rowcount

    async def set_local(self, settings: Mapping[str, str]) -> None:
        """Make settings hold until the end of the transaction, wherever the namespace's rows are."""
        await self.connection.execute(_settings(tuple(settings.items()), self.distributed))

    async def _execute(self, statement: Query, parameters: Mapping[str, Any] | None) -> psycopg.AsyncCursor[Row]:
        values = {"namespace_id": self.namespace_id, **(parameters or {})}
        if not isinstance(statement, str):
            return await self.connection.execute(statement, values, binary=True)
        text, names = numbered(statement)
        cursor = psycopg.AsyncRawCursor(self.connection)
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
        enter_timeout_s: after which a server that is connected and says nothing is given up.
    """

    def __init__(
        self, url: str, has_room: Callable[[], bool] = lambda: True, *, enter_timeout_s: float = ENTER_TIMEOUT_S
    ) -> None:
        self.url = url
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
        pool = AsyncConnectionPool(
            self.url,
            min_size=1,
            max_size=POOL_MAX,
            timeout=POOL_TIMEOUT_S,
            open=False,
            configure=_configure,
            reset=None,
            kwargs={"row_factory": dict_row, "autocommit": True, "client_encoding": "utf8"},
            reconnect_timeout=5.0,
            name="pgengram",
        )
        await pool.open()
        try:
            await pool.wait(timeout=POOL_TIMEOUT_S)
            async with pool.connection() as connection:
                await _check_vector(connection)
                self.role = await _secured_role(connection)
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
        """Close every connection."""
        if self._pool is not None:
            await self._pool.close(timeout=2.0)
            self._pool = None

    async def describe(self) -> str:
        """Return which PostgreSQL and pgvector this is."""
        async with self.as_login() as connection:
            row = await (await connection.execute(DESCRIBE)).fetchone()
        return f"PostgreSQL {row['server']}, pgvector {row['vector']}" if row else "no answer"

    async def namespace_id(self, name: str) -> int:
        """Return the key of the namespace called `name`, made when first asked for."""
        if name not in self._namespace_ids:
            async with self.as_login() as connection:
                parameters = {"name": name}
                row = await (await connection.execute(FIND_NAMESPACE, parameters)).fetchone()
                if row is None:
                    await connection.execute(ADD_NAMESPACE, parameters)
                    row = await (await connection.execute(FIND_NAMESPACE, parameters)).fetchone()
                if row is None:
                    raise NotReady("The namespace's key could not be made.")
                self._namespace_ids[name] = row["id"]
        return self._namespace_ids[name]

    def forget_namespace(self, name: str) -> None:
        """Look the key of a namespace up anew when next asked for it."""
        self._namespace_ids.pop(name, None)

    @contextlib.asynccontextmanager
    async def transaction(self, namespace_id: int, probes: int = PROBES) -> AsyncIterator[Transaction]:
        """Run a block in one transaction that sees and writes the rows of one namespace only.

        A connection that died while it lay in the pool is replaced before anything was done on it.

        Args:
            namespace_id: the namespace's key.
            probes: lists of an ivfflat index visited for a vector.

        Raises:
            DatabaseFailed: PostgreSQL cannot be used now; nothing of the block was kept unless it had committed.
            Conflict: another transaction holds or has taken what this one needs.
        """
        pool = self._open_pool()
        with _translated():
            connection = await self._entered(pool, namespace_id, probes)
        full = not self._has_room()
        try:
            with _translated():
                if full:
                    await connection.execute("SET TRANSACTION READ ONLY")
                yield Transaction(connection, namespace_id, self._model_id, full, self.distributed)
                await connection.commit()
        except DatabaseFailed as error:
            refused = isinstance(error.__cause__, psycopg.errors.ReadOnlySqlTransaction)
            if refused and not full:
                # It leads to a standby, or to what was one: a new connection may find who takes writes.
                await connection.close()
            await self._give_back(pool, connection)
            if full and refused:
                raise DatabaseFailed(
                    "The disk is nearly full, so nothing is written any more.",
                    "Nothing was changed. Free some room, then call again; reading still works.",
                ) from error
            raise
        except BaseException:
            await self._give_back(pool, connection)
            raise
        else:
            await pool.putconn(connection)  # of a pool that was closed meanwhile, too

    @contextlib.asynccontextmanager
    async def snapshot(self, namespace_id: int) -> AsyncIterator[Transaction]:
        """Run a block that only reads, and to which one namespace's rows stay as they are now.

        Raises:
            DatabaseFailed: PostgreSQL cannot be used now.
        """
        enter = partial(self._begin_sql, namespace_id, SNAPSHOT)
        with _translated():
            async with self._lent(self._open_pool()) as connection:
                await self._note_model(connection, await connection.execute(enter()), enter)
                yield Transaction(connection, namespace_id, self._model_id, distributed=self.distributed)

    @contextlib.asynccontextmanager
    async def as_login(self) -> AsyncIterator[psycopg.AsyncConnection[Row]]:
        """Run a block as the login role, for what belongs to no namespace: namespaces, models and maintenance."""
        with _translated():
            async with self._lent(self._open_pool()) as connection:
                await connection.execute("BEGIN")
                yield connection

    async def one(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Row | None:
        """Run one statement as the login role, a transaction by itself, and return its first row."""
        with _translated():
            async with self._lent(self._open_pool()) as connection:
                cursor = await connection.execute(statement, parameters)
                return await cursor.fetchone() if cursor.description else None

    async def _entered(self, pool: Pool, namespace_id: int, probes: int) -> psycopg.AsyncConnection[Row]:
        enter = partial(self._begin_sql, namespace_id, probes=probes)
        loop = asyncio.get_running_loop()
        for attempt in range(POOL_MAX + 1):
            try:
                connection = await _taken(pool)
            except PoolTimeout as error:
                if await self._answers():
                    raise
                raise ConnectionLost("The connection to the database was lost.") from error
            giving_up = loop.call_later(self._enter_timeout_s, _shutdown_socket, connection)
            try:
                await self._note_model(connection, await connection.execute(enter()), enter)
            except psycopg.OperationalError as error:
                await connection.close()
                await pool.putconn(connection)
                if loop.time() >= giving_up.when():
                    raise DatabaseFailed(
                        "The database does not answer.", "Nothing was changed; call again in a moment."
                    ) from error
                if attempt == POOL_MAX or not await self._answers():
                    raise
            except BaseException:
                await self._give_back(pool, connection)
                raise
            else:
                return connection
            finally:
                giving_up.cancel()
        raise AssertionError("unreachable")

    def _begin_sql(self, namespace_id: int, mode: str = "", probes: int = PROBES) -> bytes:
        actor = ACTOR.get() or ""
        return begin_sql(self.role, namespace_id, actor, mode, probes=probes, distributed=self.distributed)

    async def _note_model(
        self, connection: psycopg.AsyncConnection[Row], entered: psycopg.AsyncCursor[Row], enter: Callable[[], bytes]
    ) -> None:
        """Look up the active embedding model when it may be another than at the last look; the same goes for Citus.

        The look-up is committed before the transaction that it is for begins anew: a writer that held on to the models
        and waited for the switch would have the switch wait for it.
        """
        while (mark := _mark(entered)) != self._models_mark:
            row = await (await connection.execute(FIND_MODEL_OF_STATE, {"state": "active"})).fetchone()
            self.distributed = await has_citus(connection)
            self._model_id, self._models_mark = row["id"] if row else None, mark
            await connection.commit()
            entered = await connection.execute(enter())

    @contextlib.asynccontextmanager
    async def _lent(self, pool: Pool) -> AsyncIterator[psycopg.AsyncConnection[Row]]:
        """Lend a connection; what the block has begun on it is committed when it ends well, else rolled back."""
        connection = await _taken(pool)
        try:
            yield connection
            await connection.commit()
        except BaseException:
            await self._give_back(pool, connection)
            raise
        else:
            await pool.putconn(connection)

    async def _give_back(self, pool: Pool, connection: psycopg.AsyncConnection[Row]) -> None:
        """Give a connection back that was left in the middle, in a task of its own: the caller may be cancelled
        again.
        """
        giving = asyncio.create_task(_given_back(pool, connection), name="giving a connection back")
        self._giving.add(giving)
        giving.add_done_callback(self._giving.discard)
        await asyncio.shield(giving)

    async def _answers(self) -> bool:
        """Whether the server accepts connections; without asking, the pool would wait for it for half a minute."""
        try:
            connection = await psycopg.AsyncConnection.connect(self.url, connect_timeout=PROBE_TIMEOUT_S)
        except psycopg.OperationalError:
            return False
        await connection.close()
        return True

    def _open_pool(self) -> Pool:
        if self._pool is None:
            raise NotReady("The store is not open.")
        return self._pool


DESCRIBE: Final = """
SELECT current_setting('server_version') AS server, (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS vector
"""
HAS_CITUS: Final = "SELECT 1 FROM pg_extension WHERE extname = 'citus'"
FIND_NAMESPACE: Final = "SELECT id FROM namespaces WHERE name = %(name)s"
ADD_NAMESPACE: Final = "INSERT INTO namespaces (name) VALUES (%(name)s) ON CONFLICT (name) DO NOTHING"
RENEW_MARK: Final = "REINDEX INDEX embedding_models_active"
FIND_MODEL_OF_STATE: Final = (
    "SELECT id, name, dimensions, embedder, state FROM embedding_models WHERE state = %(state)s"
)


async def _taken(pool: Pool) -> psycopg.AsyncConnection[Row]:
    """Return a connection of the pool; a task that was cancelled just as it got one ends, too.

    The pool waits with `wait_for`, which in Python 3.11 loses a cancellation of that very moment: whoever had cancelled
    the task would wait for ever. A scope of anyio must cancel by its own hand: it takes any other cancellation for one
    of the whole connection, and would end that with the call.
    """
    task = asyncio.current_task()
    asked_before = 0 if task is None else task.cancelling()
    connection = await pool.getconn()
    if task is not None and task.cancelling() > asked_before:
        await pool.putconn(connection)
        await checkpoint_if_cancelled()
        raise asyncio.CancelledError
    return connection


def _shutdown_socket(connection: psycopg.AsyncConnection[Any]) -> None:
    """End a connection as the other side would: who waits for it has an error at once, where a cancelled driver waits
    on.
    """
    if not connection.closed:
        own = socket.socket(fileno=connection.pgconn.socket)
        with contextlib.suppress(OSError):  # the other side was quicker
            own.shutdown(socket.SHUT_RDWR)
        own.detach()


def _mark(entered: psycopg.AsyncCursor[Row]) -> bytes | None:
    """Return the first value of what entering answers; fetching it as a row would cost each call more."""
    entered.nextset()  # the first set is BEGIN's
    return entered.pgresult.get_value(0, 0) if entered.pgresult else None


async def _configure(connection: psycopg.AsyncConnection[Any]) -> None:
    """Teach a new connection the vector types, which are there once the schema is, and to read JSON as fast as may
    be.
    """
    from pgvector import HalfVector
    from pgvector.psycopg import register_vector_async
    from pydantic_core import from_json

    await pooler.adapt(connection)
    await register_vector_async(connection)
    # The dumper registered last is taken; as text a vector is three times as long, and takes longer to write.
    connection.adapters.register_dumper(HalfVector, connection.adapters.get_dumper(HalfVector, PyFormat.BINARY))
    connection.adapters.register_dumper(Vectors, ListBinaryDumper)
    set_json_loads(from_json, connection)  # each hit has some: a fortieth of the time that the driver's own takes


async def _check_vector(connection: psycopg.AsyncConnection[Row]) -> None:
    """Refuse a pgvector without iterative scans of filtered indexes."""
    row = await (await connection.execute(DESCRIBE)).fetchone()
    version = str(row["vector"]) if row else "none"
    if not version[:1].isdigit() or tuple(int(part) for part in version.split(".")[:2]) < PGVECTOR:
        raise NotReady(
            f"pgvector {version} is too old.", "Install pgvector 0.8 or newer, then run ALTER EXTENSION vector UPDATE."
        )


async def has_citus(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Return whether this database has the extension Citus, so that its tables may be distributed."""
    return await (await connection.execute(HAS_CITUS)).fetchone() is not None


async def _secured_role(connection: psycopg.AsyncConnection[Row]) -> str:
    """Return the role transactions take: the application's, or none where the login itself is held by row-level
    security.
    """
    row = await (await connection.execute(WHO_AM_I, {"role": APP_ROLE})).fetchone()
    if row and row["member"]:
        return APP_ROLE
    if row and (row["rolsuper"] or row["rolbypassrls"]):
        raise NotReady(
            "This login would pass through row-level security, and it cannot take the application's role.",
            f"Run `GRANT {APP_ROLE} TO CURRENT_USER`, or connect as a role without SUPERUSER and BYPASSRLS.",
        )
    return "none"


WHO_AM_I: Final = """
SELECT rolsuper, rolbypassrls,
       EXISTS (SELECT 1 FROM pg_roles WHERE rolname = %(role)s)
       AND CASE WHEN EXISTS (SELECT 1 FROM pg_roles WHERE rolname = %(role)s)
                THEN pg_has_role(current_user, %(role)s,
                  CASE WHEN current_setting('server_version_num')::integer < 160000 THEN 'MEMBER' ELSE 'SET' END)
                ELSE false END AS member
FROM pg_roles WHERE rolname = current_user
"""


async def _given_back(pool: Pool, connection: psycopg.AsyncConnection[Row]) -> None:
    """Roll back what is open, and give the connection back; one that cannot do that is closed."""
    try:
        await connection.rollback()
    except psycopg.Error:
        await connection.close()
    await pool.putconn(connection)


class _translated:  # noqa: N801  # reads as a word at its only use: `with _translated():`
    """The one place where the driver's errors become ours; nothing of a statement's values leaves with them."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        ours = None if error is None else translated(error)
        if ours is not None:
            raise ours from error


FULL: Final = ("53100", "53200", "53300", "53400")
ERASED_NAMESPACE: Final = re.compile(r"_namespace_id_fkey$")
RULE_IN_MESSAGE: Final = re.compile(r'constraint "(\w+)"')
NUMBER_OF_SHARD: Final = re.compile(r"_\d{6,}$")
SHARD_GONE: Final = re.compile(r'could not find valid entry for shard|relation "(public\.)?\w+_\d{6,}" does not exist')
BUSY: Final = ("40001", "40P01", "55P03", "57014")


def translated(error: BaseException) -> PgengramError | None:
    """Return our error for one of the driver's, or None for any other."""
    if isinstance(error, PoolTimeout):
        return DatabaseFailed("All database connections are busy.", "Nothing was changed; call again in a moment.")
    return _refused(error) if isinstance(error, psycopg.Error) else None


def broken_rule(error: psycopg.Error) -> str | None:
    """Return the name of the constraint that a statement broke; a shard's has a number, and only the message names
    it.
    """
    named = RULE_IN_MESSAGE.search(error.diag.message_primary or "")
    name = error.diag.constraint_name or (named[1] if named else None)
    return NUMBER_OF_SHARD.sub("", name) if name else None


# What a unique constraint says when it is broken; every other one is broken only by two calls of the same moment.
CHANGED_AT_ONCE: Final = ("Another call changed the same at this very moment.", "Nothing was changed; call again.")
TAKEN: Final = {
    "memories_active_content": ("Another active memory says exactly this already.",),
    "memories_by_idempotency_key": (
        "Another memory was stored with this idempotency_key.",
        "Nothing was changed; call again to get that memory, or take another key.",
    ),
    "memory_beliefs_namespace_id_belief_hash_key": (
        "Another belief says exactly this already.",
        "Change that one, or remove one of the two.",
    ),
}


def _refused(error: psycopg.Error) -> PgengramError:
    state = error.sqlstate or ""
    log.info("PostgreSQL refused a statement: SQLSTATE %s %s", state or "none", type(error).__name__)
    if state == "23503" and ERASED_NAMESPACE.search(broken_rule(error) or ""):
        return NotReady(
            "This namespace was erased while the server ran; nothing was stored.", "Start the server again."
        )
    if state == "23505":
        return Conflict(*TAKEN.get(broken_rule(error) or "", CHANGED_AT_ONCE))
    if state in BUSY:
        return DatabaseFailed(
            "The database is busy with another change, or the call took too long.", "Nothing was changed; call again."
        )
    if state in FULL:
        return DatabaseFailed(
            "The database has no room left (disk, memory or connections).",
            "Free some room, then call again; reading still works.",
        )
    if state == "25006":
        return DatabaseFailed("The database accepts no writes now.", "Nothing was changed; call again in a moment.")
    if state in ("42P01", "XX000") and SHARD_GONE.search(error.diag.message_primary or ""):
        return ShardMoved()
    if state in ("42P01", "42703", "42883"):
        return NotReady("The database's schema does not fit this version.", "Run `pgengram migrate`.")
    if isinstance(error, psycopg.OperationalError):
        return ConnectionLost("The connection to the database was lost.")
    return DatabaseFailed(f"PostgreSQL refused the statement (SQLSTATE {state or 'unknown'}).")


class Vectors(list[Any]):
    """What psycopg sends as halfvec[], in binary."""


def vectors_parameter(vectors: Sequence[Any]) -> Vectors:
    """Return float vectors, shape (dims,) each, as what psycopg sends as halfvec[]."""
    from pgvector import HalfVector

    return Vectors(HalfVector(vector) for vector in vectors)
