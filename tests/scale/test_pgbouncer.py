"""Behind pgbouncer in transaction mode, where two transactions of a client may run in two sessions of the server.

The whole suite runs behind one with `python tests/scale/pgbouncer.py pytest`; these tests start their own where it is installed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pgbouncer
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from helpers import Database, call, connected, found, in_database, read, remember
from machine import pgengram
from pgengram.errors import NotReady
from pgengram.store.connection import locks, pooler
from pgengram.store.connection.database import Database as Store
from pgengram.store.maintenance import indexes
from pgengram.store.recovery import backup
from pgengram.store.schema.migrate import migrate, state

GIVEN = os.environ.get("PGENGRAM_TEST_PGBOUNCER_URL", "")
KEY = 4711


@pytest.fixture(scope="module", params=[0, 100], ids=["without prepared statements", "with prepared statements"])
def bouncer(request: pytest.FixtureRequest, postgres: str) -> Iterator[str]:
    """The URL of a pgbouncer before the tests' server."""
    if GIVEN:
        if request.param:
            pytest.skip("the pgbouncer of PGENGRAM_TEST_PGBOUNCER_URL is as it is")
        yield GIVEN
        return
    program = pgbouncer.program()
    if program is None:
        pytest.skip("pgbouncer is not installed, and no PGENGRAM_TEST_PGBOUNCER_URL is given")
    if not str(conninfo_to_dict(postgres)["host"]).startswith("/"):
        pytest.skip("the tests' server has no socket of this machine; give PGENGRAM_TEST_PGBOUNCER_URL")
    if request.param and pgbouncer.version(program) < pgbouncer.PREPARED_SINCE:
        pytest.skip("this pgbouncer is older than 1.21 and knows no prepared statements")
    with pgbouncer.before(postgres, prepared=request.param) as url:
        yield url


@pytest.fixture
def pooled(bouncer: str, database: Database) -> Database:
    """A migrated database, reached through pgbouncer."""
    return Database(in_database(bouncer, database.name))


async def test_a_pooler_is_noticed_and_a_server_is_not_taken_for_one(pooled: Database, postgres: str) -> None:
    for url, expected in ((pooled.url, True), (postgres, False)):
        async with await pooler.connect(url) as connection:
            assert await pooler.is_behind(connection) is expected


async def test_statements_are_prepared_only_where_they_are_found_again(
    pooled: Database, postgres: str, request: pytest.FixtureRequest
) -> None:
    prepared = {}
    for url in (pooled.url, postgres):
        async with await pooler.connect(url) as connection:
            connection.prepare_threshold = 5
            await pooler.adapt(connection)
            prepared[url] = connection.prepare_threshold is not None
            for _ in range(20):
                await connection.execute("SELECT %s::integer", [1])

    assert prepared[postgres]
    if not GIVEN:
        assert prepared[pooled.url] is bool(request.node.callspec.params["bouncer"])


async def test_clients_that_call_at_once_share_sessions_and_each_sees_its_own_namespace(pooled: Database) -> None:
    async def live(namespace: str) -> list[str]:
        async with connected(database_url=pooled.url, embedder="none:", namespace=namespace) as client:
            for number in range(12):
                await remember(client, f"{namespace} keeps wine number {number} in the cellar.")
            for _ in range(12):
                await found(client, "wine cellar", limit=20)
            answer = await call(client, "search_memories", query="wine cellar", limit=50)
            return [hit["content"].split()[0] for hit in answer["results"]]

    seen = await asyncio.gather(*(live(namespace) for namespace in ("mara", "jonas", "tove")))

    assert [set(names) for names in seen] == [{"mara"}, {"jonas"}, {"tove"}]
    assert [len(names) for names in seen] == [12, 12, 12]


async def test_no_setting_of_a_call_is_left_in_a_session_of_the_server(pooled: Database) -> None:
    async with connected(database_url=pooled.url, embedder="none:") as client:
        id_ = await remember(client, "The harbour office opens at six.")
        await read(client, id_)
        await call(client, "memory_stats")
        for _ in range(10):
            with psycopg.connect(pooled.url, autocommit=True) as connection:
                left = connection.execute(
                    "SELECT current_user = session_user, nullif(current_setting('pgengram.namespace_id', true), ''), "
                    "nullif(current_setting('pgengram.maintenance', true), ''), current_setting('plan_cache_mode')"
                ).fetchone()
            assert left == (True, None, None, "auto")


async def test_a_lock_is_held_for_as_long_as_its_block_and_no_longer(pooled: Database) -> None:
    async with pooler.alone(pooled.url, KEY) as first, pooler.alone(pooled.url, KEY) as second:
        assert first is not None
        assert second is None

    async with pooler.alone(pooled.url, KEY) as third:
        assert third is not None


async def test_whoever_holds_a_lock_keeps_no_index_from_being_built(pooled: Database) -> None:
    async with pooler.alone(pooled.url, KEY) as holder:
        seen = pooled.as_login(f"SELECT state, backend_xmin FROM pg_stat_activity WHERE pid = {holder}")

    assert seen == [("idle in transaction", None)]


def test_a_database_is_migrated_through_it_once_and_the_lock_is_given_back(bouncer: str, blank: Database) -> None:
    url = in_database(bouncer, blank.name)

    migrate(url)
    migrate(url)

    assert state(url).version is not None
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", [locks.MIGRATION]).fetchone()
    assert row == (True,)


async def test_an_index_is_built_and_measured_through_it(pooled: Database) -> None:
    pooled.as_login(
        "INSERT INTO namespaces (name) VALUES ('default')",
        "INSERT INTO embedding_models (name, dimensions, embedder, state) VALUES ('m', 8, 'none:', 'active')",
    )
    [(namespace,)] = pooled.as_login("SELECT id FROM namespaces WHERE name = 'default'")
    [(model,)] = pooled.as_login("SELECT id FROM embedding_models WHERE name = 'm'")
    pooled.as_login(
        "ALTER TABLE memory_vectors DISABLE TRIGGER ALL",
        "INSERT INTO memory_vectors (namespace_id, memory_id, model_id, part, embedding) "
        f"SELECT {namespace}, gen_random_uuid(), {model}, 0, ARRAY(SELECT random() + n * 0 FROM generate_series(1, 8))::real[]::halfvec "
        f"FROM generate_series(1, {indexes.FIRST_BUILD_ROWS}) AS n",
    )

    assert await indexes.maintain(pooled.url, model, 8)

    async with await pooler.connect(pooled.url) as connection:
        assert await indexes.measured_recall(connection, model, 8) > 0.5
        left = await (await connection.execute("SELECT current_setting('pgengram.maintenance', true)")).fetchone()
    assert left in [("",), (None,)]


def test_a_backup_through_it_is_refused_with_what_to_do_instead(
    pooled: Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(NotReady, match="pooler") as refused:
        backup.write_backup(pooled.url, tmp_path_factory.mktemp("backup") / "store.pgengram")

    assert "own address" in refused.value.hint


def test_psql_through_it_is_refused_as_the_session_would_be_that_of_others_too(pooled: Database) -> None:
    refused = pgengram("psql", "SELECT 1", expect=1, database_url=pooled.url, embedder="none:")

    assert "connection pooler" in refused.stderr
    assert "own address" in refused.stderr


async def test_a_server_that_lost_its_pooled_session_goes_on(pooled: Database, postgres: str) -> None:
    name = pooled.name
    store = Store(pooled.url)
    await store.open()
    namespace = await store.namespace_id("default")
    with psycopg.connect(postgres, autocommit=True) as direct:
        direct.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [name],
        )

    async with store.transaction(namespace) as tx:
        row = await tx.row("SELECT 1 AS one")

    assert row == {"one": 1}
    await store.close()
