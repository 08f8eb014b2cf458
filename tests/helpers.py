"""What tests share: a real client of a real server process, and a look at the tables behind it."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Final
from urllib.parse import urlsplit

import hypothesis
import psycopg
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from pgengram.store.citus import citus
from pgengram.store.connection.begin import APP_ROLE

NAMESPACE = "default"
SERVER = os.environ.get("PGENGRAM_TEST_DATABASE_URL", "")  # where the databases of tests are
REPLICA = os.environ.get("PGENGRAM_TEST_REPLICA_URL", "")  # from which every server of a test reads
POOLER = os.environ.get("PGENGRAM_TEST_PGBOUNCER_URL", "")  # through which every database of a test is reached
MOST_MACHINES = 8
FEW = 200  # memories that are deleted rather than truncated
DROPS = 5  # of a database that is in use, before that is an error
THOROUGH: Final = "thorough"  # the profile of hypothesis for the nightly run
PATIENCE_S: Final = 300.0  # for whatever is only slow, on however busy a machine
LONGEST_PAUSE_S: Final = 0.3  # between two looks at what takes its time
Answer = dict[str, Any]


USED = "core,review,graph,maintenance"  # toolsets of the servers of the tests
default_data: list[str] = []  # the data folder of whoever names none, while tests run


def environment(**settings: str) -> dict[str, str]:
    """Return the environment of a server: the machine's, and of ours only `settings`; unless told otherwise answers are
    full, no backups are made, the folder of this repository is not what a test works on, and no data folder is that of
    whoever runs the tests.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PGENGRAM_")}
    if REPLICA and "database_url" in settings:
        settings = {"read_url": read_url(settings["database_url"]), **settings}
    settings = {"answers": "full", "backup_days": "0", "project": "off", "toolsets": USED, **settings}
    settings = {"data_dir": default_data[0], **settings} if default_data else settings
    return inherited | {f"PGENGRAM_{name.upper()}": value for name, value in settings.items()}


def read_url(database_url: str) -> str:
    """Return where a test's database is read from: the replica of this run, or nowhere else."""
    return in_database(REPLICA, str(psycopg.conninfo.conninfo_to_dict(database_url)["dbname"])) if REPLICA else ""


def nightly(*cases: Any) -> list[Any]:
    """Mark cases of a test that only the nightly run takes."""
    return [pytest.param(case, marks=pytest.mark.nightly) for case in cases]


def diagonal(*axes: Iterable[Any]) -> list[Any]:
    """Return all combinations of some values: in every run each value once at least, in the nightly run all of them."""
    listed = [list(axis) for axis in axes]
    longest = max(map(len, listed))
    usual = {tuple(number % len(axis) for axis in listed) for number in range(longest)}
    places = product(*(range(len(axis)) for axis in listed))
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(listed, one, strict=True)),
            marks=[] if one in usual else pytest.mark.nightly,
        )
        for one in places
    ]


def examples(few: int, many: int = 0) -> int:
    """Return how many examples of a law to try: a few, and `many` with `--hypothesis-profile thorough`, ten times as many
    where that is not given.
    """
    return (many or 10 * few) if hypothesis.settings.get_current_profile_name() == THOROUGH else few


@asynccontextmanager
async def connected(**settings: str) -> AsyncIterator[Client]:
    """Start `pgengram` as an assistant would, and be its client.

    The client lives in a task of its own, so that a fixture may open it in one task and close it in another.
    """
    server = StdioServerParameters(command=sys.executable, args=["-m", "pgengram"], env=environment(**settings))
    client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def talk() -> None:
        try:
            async with Client(server) as opened:
                client.set_result(opened)
                await done.wait()
        except BaseException as error:
            if client.done():
                raise
            client.set_exception(error)

    talking = asyncio.create_task(talk())
    try:
        yield await client
    finally:
        done.set()
        await talking


def said(answer: CallToolResult) -> str:
    """Return the text of an answer."""
    [block] = answer.content
    assert isinstance(block, TextContent)
    return block.text


async def call(client: Client, tool: str, **arguments: Any) -> Answer:
    """Call a tool that must succeed and return what it answers."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, said(answer)
    assert answer.structured_content == json.loads(said(answer))
    return dict(answer.structured_content)


async def refused(client: Client, tool: str, **arguments: Any) -> dict[str, str]:
    """Call a tool that must refuse, and return the error's code, message and hint."""
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, said(answer)
    outcome = json.loads(said(answer))
    assert outcome.keys() == {"ok", "error"}
    assert outcome["ok"] is False
    assert outcome["error"].keys() == {"code", "message", "hint"}
    return dict(outcome["error"])


async def remember(client: Client, content: str, **more: Any) -> str:
    """Store a memory and return its id."""
    answer = await call(client, "create_memory", content=content, **more)
    return str(answer["memory_id"])


async def remember_expired(client: Client, content: str, expires_at: str = "2020-01-01T00:00:00Z", **more: Any) -> str:
    """Store a memory, end it in the past, and return its id; a new one would be refused that way."""
    id_ = await remember(client, content, **more)
    await call(client, "update_memory", id=id_, expires_at=expires_at)
    return id_


async def read(client: Client, id_: str) -> Answer:
    """Read one memory whole."""
    [memory] = (await call(client, "get_memories", ids=[id_]))["memories"]
    return dict(memory)


async def hits(client: Client, query: str | list[str] = "", **filters: Any) -> list[Answer]:
    """Return what a search finds, best first."""
    found = await call(client, "search_memories", query=query, **filters)
    assert found["count"] == len(found["results"])
    return list(found["results"])


async def found(client: Client, query: str | list[str] = "", **filters: Any) -> list[str]:
    """Return the ids that a search finds, best first."""
    return [hit["id"] for hit in await hits(client, query, **filters)]


async def until(true: Callable[[], Awaitable[object]], timeout_s: float = PATIENCE_S) -> None:
    """Ask again and again until `true` holds, less and less often, and fail when it does not within `timeout_s`."""
    deadline, pause_s = time.monotonic() + timeout_s, 0.01
    while not await true():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(pause_s)
        pause_s = min(1.3 * pause_s, LONGEST_PAUSE_S)


@contextmanager
def _if_citus_knows() -> Iterator[None]:
    """Skip a test that prepares or asks something by a statement of its own that Citus cannot run over several machines."""
    try:
        yield
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.InternalError_) as error:
        if on_citus():
            pytest.skip(f"on Citus: {error.diag.message_primary}")
        raise


def in_database(url: str, name: str) -> str:
    """Return `url` with another database in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/{name}" + (f"?{parts.query}" if parts.query else "")


def add_postgres(url: str) -> None:
    """Make the database `postgres`, which an embedded server lacks; restores may stay in it while others copy the template."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE postgres")


class Database:
    """A database of a test's own, looked into as the application's role, subject to row-level security.

    Args:
        url: of the database.
        keeps: whether one connection is kept for all looks, which cost a tenth then; not where a connection keeps a
            server going, or a restore from taking place.
    """

    def __init__(self, url: str, *, keeps: bool = False) -> None:
        self.url = url
        self._keeps = keeps
        self._connection: psycopg.Connection[Any] | None = None

    def rows(
        self, statement: str, parameters: Any = None, *, namespace: str | None = NAMESPACE, role: str = APP_ROLE
    ) -> list[dict[str, Any]]:
        """Run a statement that needs no namespace condition, and return its rows."""
        with self._looking() as connection, connection.transaction(), connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute("SELECT set_config('citus.propagate_set_commands', 'local', true)")  # nothing elsewhere
            if namespace is not None:
                key = cursor.execute("SELECT id FROM namespaces WHERE name = %s", [namespace]).fetchone()
                assert key is not None
                cursor.execute(f"SET LOCAL pgengram.namespace_id = '{key['id']}'")
            cursor.execute("SELECT set_config('role', %s, true)", [role])
            with _if_citus_knows():
                cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def _looking(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield the connection that is kept, and where none is one for this look alone."""
        if self._keeps or self._connection is not None:
            yield self.keep()
        else:
            with psycopg.connect(self.url, autocommit=True) as connection:
                yield connection

    def keep(self) -> psycopg.Connection[Any]:
        """Return a connection for this look and all later ones, made anew if the server was restarted since."""
        if self._connection is not None:
            with suppress(psycopg.OperationalError):
                self._connection.execute("SELECT")
                return self._connection
            self.close()
        # may go through a pooler
        self._connection = psycopg.connect(self.url, autocommit=True, prepare_threshold=None)
        return self._connection

    def value(self, statement: str, parameters: Any = None, **how: Any) -> Any:
        """Run a statement that gives one row of one column."""
        [row] = self.rows(statement, parameters, **how)
        [value] = row.values()
        return value

    def as_login(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements as the namespace of the tables, and return the rows of the last."""
        if on_citus() and any("TRIGGER" in statement for statement in statements):
            pytest.skip("on Citus: triggers are not supported on distributed tables")
        with self._looking() as connection, _if_citus_knows():
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def history(self, id_: str) -> list[dict[str, Any]]:
        """Return what happened to a memory, oldest first."""
        return self.rows("SELECT * FROM memory_history WHERE memory_id = %s ORDER BY version", [id_])

    def empty(self, tables: Sequence[str]) -> None:
        """Take every memory away.

        Few are deleted, as a truncated table gets new files for itself and each of its indexes, which costs thirty times as much;
        on Citus it would even be emptied shard by shard. A server that still notes which memories were used locks them in
        another order; if PostgreSQL lets it go first, they are taken away after that.
        """
        try:
            self._take_away(tables)
        except psycopg.errors.DeadlockDetected:
            self._take_away(tables)

    def _take_away(self, tables: Sequence[str]) -> None:
        connection = self.keep()
        few = f"SELECT count(*) < {FEW} FROM (SELECT FROM memories LIMIT {FEW}) AS counted"
        if on_citus() or connection.execute(few).fetchone() == (True,):
            connection.execute("; ".join(f"DELETE FROM {table}" for table in tables))  # one transaction
        else:
            connection.execute(f"TRUNCATE {', '.join(tables)}")

    @property
    def name(self) -> str:
        """Its name on the server."""
        return str(psycopg.conninfo.conninfo_to_dict(self.url)["dbname"])

    def as_template(self) -> str:
        """Return its name for copies, which can be made while nobody is connected to it."""
        self.close()
        return self.name

    def close(self) -> None:
        """Close the connection that is kept."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def database_of(postgres: str, template: str = "template1", *, keeps: bool = True) -> Iterator[Database]:
    """Make a copy of a template for a while; `keeps` as for `Database`."""
    name = f"pgengram_test_{secrets.token_hex(6)}"
    how = "" if SERVER else " STRATEGY file_copy"  # a fifth of the work where nothing waits for the disk
    _on_each_machine(postgres, f"CREATE DATABASE {name} TEMPLATE {template}{how}", like=template)
    if REPLICA:
        _wait_until_it_has_all(REPLICA, postgres)
    made = Database(in_database(POOLER or postgres, name), keeps=keeps)
    try:
        yield made
    finally:
        made.close()
        _on_each_machine(postgres, f"DROP DATABASE {name} WITH (FORCE)")


def _wait_until_it_has_all(replica: str, primary: str) -> None:
    """Wait until a replica has what the primary has now."""
    with psycopg.connect(primary, autocommit=True) as there, psycopg.connect(replica, autocommit=True) as here:
        now = there.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
        deadline = time.monotonic() + PATIENCE_S
        while here.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", now).fetchone() != (True,):
            assert time.monotonic() < deadline, "the replica stays behind"
            time.sleep(0.05)


def on_citus() -> bool:
    """Whether the databases of the tests are spread over the machines of a cluster."""
    return bool(SERVER) and len(machines(SERVER)) > 1


@cache
def machines(postgres: str) -> list[str]:
    """Return the URL of the server, and where it is a coordinator of Citus those of its workers."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'").fetchone() is None:
            return [postgres]
        workers = connection.execute("SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY groupid")
        return [postgres, *(make_conninfo(postgres, host=host, port=port) for host, port in workers)]


def clustered(postgres: str, database: Database, shards: int = 4) -> None:
    """Spread an empty database over the machines of a cluster, as `pgengram citus` does."""
    name = database.name
    places = []
    for url in machines(postgres):
        with psycopg.connect(make_conninfo(url, dbname=name), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION citus")
            places.append((connection.info.host, connection.info.port))
    coordinator, *workers = places
    for host, port in workers:
        asyncio.run(citus.add_node(database.url, host, port, coordinator))
    asyncio.run(citus.distribute_tables(database.url, shards))


def _on_each_machine(postgres: str, statement: str, like: str = "template1") -> None:
    urls = machines(postgres)

    def run(url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            # Citus keeps a connection to each of its databases, which making a copy does not bear.
            if len(urls) > 1 and like != "template1":
                connection.execute(f"ALTER DATABASE {like} ALLOW_CONNECTIONS false")
            if (len(urls) > 1 or POOLER) and like != "template1":  # so does a pooler, for a while
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [like])
            for _ in range(DROPS):
                with suppress(psycopg.errors.ObjectInUse):  # machines of a cluster come to each other as they like
                    connection.execute(statement)
                    return
            connection.execute(statement)

    run(urls[0])
    with ThreadPoolExecutor(MOST_MACHINES) as at_once:
        list(at_once.map(run, urls[1:]))


@dataclass(frozen=True)
class Served:
    """A server process, its client and the database behind it."""

    client: Client
    db: Database


def owned_tables() -> list[str]:
    from pgengram.store.schema.tables import OWNED

    return [table.name for table in OWNED]
