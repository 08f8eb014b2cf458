"""The life of a cluster: made of a store with memories, grown by a machine, dealt anew, one namespace moved away while it works."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator

import psycopg
import pytest
from life import Life
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from helpers import Database, clustered, database_of, machines
from pgengram.errors import Conflict, InvalidInput, NotReady
from pgengram.inputs import NewMemory, Question
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.citus import citus
from pgengram.store.citus.status import cluster_status
from pgengram.store.connection.begin import APP_ROLE

SHARDS = 4


@pytest.fixture
def apart(citus_url: str) -> Iterator[Database]:
    """A database on every machine with Citus in it, none of which knows another yet."""
    with database_of(citus_url) as database:
        name = database.name
        for url in machines(citus_url):
            with psycopg.connect(make_conninfo(url, dbname=name), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION citus")
        yield database


def manager_of(database: Database, namespace: str = "default") -> MemoryManager:
    return MemoryManager(Settings(database_url=database.url, namespace=namespace, embedder="none:"))


async def contents(manager: MemoryManager, query: str) -> list[str]:
    found = await manager.search_memories(Question(query=query, limit=100))
    return sorted(hit["content"] for hit in found.results)


def places(citus_url: str) -> list[tuple[str, int]]:
    """Host and port of each machine, the coordinator first."""
    return [
        (str(conninfo_to_dict(url)["host"]), int(str(conninfo_to_dict(url)["port"]))) for url in machines(citus_url)
    ]


def on_machine(citus_url: str, database: Database, place: tuple[str, int]) -> str:
    name = database.name
    return make_conninfo(machines(citus_url)[places(citus_url).index(place)], dbname=name)


def shard_of(database: Database, namespace: str) -> tuple[int, tuple[str, int]]:
    [(shard, host, port)] = database.as_login(
        f"""SELECT s.shardid, s.nodename, s.nodeport FROM citus_shards s JOIN namespaces n
            ON s.shardid = get_shard_id_for_distribution_column('memories', n.id) WHERE n.name = '{namespace}'"""
    )
    return shard, (host, port)


async def test_a_store_with_memories_becomes_a_cluster_under_a_server_that_runs(
    citus_url: str, apart: Database
) -> None:
    coordinator, *workers = places(citus_url)
    manager = manager_of(apart)
    try:
        await manager.create_memory(NewMemory(content="The harbour freezes in January."))
        for place in workers:
            await citus.add_node(apart.url, *place, coordinator)

        made = await citus.distribute_tables(apart.url, SHARDS)

        assert made.distributed
        assert made.missing == []
        assert made.row_level_security
        assert sum(node.shards for node in made.nodes) == SHARDS
        assert all(node.shards for node in made.nodes if not node.coordinator)
        assert await contents(manager, "harbour") == ["The harbour freezes in January."]
        await manager.create_memory(NewMemory(content="The harbour thaws in March."))
        assert len(await contents(manager, "harbour")) == 2
        assert apart.as_login("SELECT count(*) FROM ONLY pg_class WHERE relname = 'memories'") == [(1,)]
    finally:
        await manager.close()


@pytest.fixture
def owned(citus_url: str) -> Iterator[Database]:
    """A database on every machine, with the extensions in it, of a login that may do nothing else; the URL is the login's."""
    login = f"pgengram_test_{secrets.token_hex(6)}"
    commands = ["SET citus.enable_create_role_propagation = off", f"CREATE ROLE {login} LOGIN"]
    for url in machines(citus_url):
        with psycopg.connect(url, autocommit=True) as connection:
            for command in commands:
                connection.execute(command.encode())
    try:
        with database_of(citus_url) as database:
            name = database.name
            for url in machines(citus_url):
                with psycopg.connect(make_conninfo(url, dbname=name), autocommit=True) as connection:
                    connection.execute(f"ALTER DATABASE {name} OWNER TO {login}".encode())
                    connection.execute("CREATE EXTENSION citus")
                    connection.execute("CREATE EXTENSION vector")
            yield Database(make_conninfo(database.url, user=login))
    finally:
        for url in machines(citus_url):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("SET citus.enable_create_role_propagation = off")
                connection.execute(f"DROP ROLE {login}".encode())


async def test_a_login_that_owns_the_database_is_enough_to_make_a_cluster_and_to_serve(
    citus_url: str, owned: Database
) -> None:
    coordinator, *workers = places(citus_url)
    administrator = conninfo_to_dict(citus_url)["user"]
    for place in workers:
        await citus.add_node(make_conninfo(owned.url, user=administrator), *place, coordinator)
    ada = manager_of(owned, "ada")
    await ada.create_memory(NewMemory(content="The harbour freezes in January."))

    made = await citus.distribute_tables(owned.url, SHARDS)

    assert made.distributed
    assert made.row_level_security
    assert await contents(ada, "harbour") == ["The harbour freezes in January."]
    await ada.close()
    manager = MemoryManager(Settings(database_url=owned.url, toolsets="all"))
    life = Life(manager)
    try:
        await life.one_of_each()
        assert life.called == life.tools
    finally:
        await manager.close()


async def test_only_a_login_that_sees_all_rows_may_move_them(citus_url: str, owned: Database) -> None:
    coordinator, *workers = places(citus_url)
    login = conninfo_to_dict(owned.url)["user"]
    administrator = make_conninfo(owned.url, user=conninfo_to_dict(citus_url)["user"])
    for place in workers:
        await citus.add_node(administrator, *place, coordinator)
    await citus.distribute_tables(owned.url, SHARDS)
    acme = manager_of(owned, "acme")
    await acme.create_memory(NewMemory(content="The harbour freezes in January."))

    with pytest.raises(NotReady, match="Row-level security applies"):
        await citus.isolate(owned.url, "acme")
    with pytest.raises(NotReady, match="Row-level security applies"):
        await citus.rebalance(owned.url)
    assert await contents(acme, "harbour") == ["The harbour freezes in January."]

    for url in machines(citus_url):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET citus.enable_alter_role_propagation = off")
            connection.execute(f"ALTER ROLE {login} BYPASSRLS".encode())
    alone = (await citus.isolate(owned.url, "acme")).alone
    assert [one.namespace for one in alone] == ["acme"]
    assert (await citus.rebalance(owned.url)).row_level_security
    assert await contents(acme, "harbour") == ["The harbour freezes in January."]
    await acme.close()


async def test_making_a_cluster_again_changes_nothing(cluster_db: Database) -> None:
    before = await cluster_status(cluster_db.url)

    assert await citus.distribute_tables(cluster_db.url, 2 * SHARDS) == before


async def test_a_coordinator_without_workers_says_so(apart: Database) -> None:
    with pytest.raises(NotReady, match="has no workers"):
        await citus.distribute_tables(apart.url)
    with pytest.raises(InvalidInput, match="reach the coordinator"):
        await citus.add_node(apart.url, "127.0.0.1", 1)
    with pytest.raises(Conflict, match="Nothing is distributed"):
        await citus.rebalance(apart.url)


async def test_a_machine_that_comes_later_takes_its_share(citus_url: str, apart: Database) -> None:
    coordinator, first, second = places(citus_url)[:3]
    await citus.add_node(apart.url, *first, coordinator)
    await citus.distribute_tables(apart.url, SHARDS)
    manager = manager_of(apart)
    try:
        await manager.create_memory(NewMemory(content="The harbour freezes in January."))
        await citus.add_node(apart.url, *second)

        dealt = await citus.rebalance(apart.url)

        assert {(node.host, node.port): node.shards for node in dealt.nodes if node.takes_shards} == {
            first: 2,
            second: 2,
        }
        assert dealt.row_level_security
        assert await contents(manager, "harbour") == ["The harbour freezes in January."]
    finally:
        await manager.close()


async def test_an_unknown_namespace_or_machine_is_refused(cluster_db: Database) -> None:
    with pytest.raises(InvalidInput, match="no namespace"):
        await citus.isolate(cluster_db.url, "nobody")
    manager = manager_of(cluster_db, "ada")
    await manager.create_memory(NewMemory(content="A note."))
    await manager.close()
    with pytest.raises(InvalidInput, match="takes shards"):
        await citus.isolate(cluster_db.url, "ada", ("192.0.2.1", 5432))


async def test_a_namespace_that_moves_to_a_machine_of_its_own_is_served_meanwhile(
    citus_url: str, cluster_db: Database
) -> None:
    manager = manager_of(cluster_db, "acme")
    life = Life(manager)
    answer: list[str] = []
    searches = 0
    moved = asyncio.Event()

    async def write() -> None:
        while not moved.is_set():
            content = f"Pallet {len(answer)} stands in the harbour."
            await life.call("create_memory", content=content)
            answer.append(content)

    async def search() -> None:
        nonlocal searches
        while not moved.is_set():
            before = len(answer)
            found = await life.call("search_memories", query="harbour", count_only=True)
            assert found["total"] >= before
            searches += 1

    try:
        await manager.create_memory(NewMemory(content="The first pallet stands in the harbour."))
        shard, start = shard_of(cluster_db, "acme")
        writing, searching = asyncio.create_task(write()), asyncio.create_task(search())
        status = await citus.isolate(cluster_db.url, "acme")
        during = (len(answer), searches)
        moved.set()
        await asyncio.gather(writing, searching)

        _, end = shard_of(cluster_db, "acme")
        assert [(alone.namespace, (alone.host, alone.port)) for alone in status.alone] == [("acme", end)]
        assert end != start
        assert status.row_level_security
        assert all(during)
        assert cluster_db.value("SELECT count(*) FROM memories", namespace="acme") == len(answer) + 1
        again = await citus.isolate(cluster_db.url, "acme", start)
        assert [(alone.host, alone.port) for alone in again.alone] == [start]
        assert shard_of(cluster_db, "acme")[0] != shard
    finally:
        moved.set()
        await manager.close()


@pytest.fixture
def of_one_shard(citus_url: str) -> Iterator[Database]:
    """A cluster in which all namespaces share a shard."""
    with database_of(citus_url) as database:
        clustered(citus_url, database, shards=1)
        yield database


async def test_statements_that_forget_the_namespace_are_held_by_the_worker(of_one_shard: Database) -> None:
    for namespace in ("ada", "ben"):
        manager = manager_of(of_one_shard, namespace)
        await manager.create_memory(NewMemory(content=f"{namespace} sails."))
        await manager.close()

    assert of_one_shard.rows("SELECT content FROM memories", namespace="ada") == [{"content": "ada sails."}]
    assert of_one_shard.rows("SELECT content FROM memories", namespace=None) == []
    changed = of_one_shard.rows("UPDATE memories SET version = 9 RETURNING content", namespace="ben")
    assert changed == [{"content": "ben sails."}]
    assert of_one_shard.rows("DELETE FROM memory_tags RETURNING 1", namespace=None) == []


async def test_whoever_comes_to_a_shard_directly_stands_before_the_wall(citus_url: str, of_one_shard: Database) -> None:
    for namespace in ("ada", "ben"):
        manager = manager_of(of_one_shard, namespace)
        await manager.create_memory(NewMemory(content=f"{namespace} sails."))
        await manager.close()
    [(ada,)] = of_one_shard.as_login("SELECT id FROM namespaces WHERE name = 'ada'")
    shard, place = shard_of(of_one_shard, "ada")

    with psycopg.connect(on_machine(citus_url, of_one_shard, place), autocommit=True) as worker:
        worker.execute(f"SET ROLE {APP_ROLE}")
        assert worker.execute(f"SELECT count(*) FROM memories_{shard}").fetchone() == (0,)
        worker.execute(f"SET pgengram.namespace_id = '{ada}'")
        assert worker.execute(f"SELECT content FROM memories_{shard}").fetchall() == [("ada sails.",)]


async def test_an_open_wall_on_one_shard_is_seen(citus_url: str, cluster_db: Database) -> None:
    manager = manager_of(cluster_db, "ada")
    await manager.create_memory(NewMemory(content="A note."))
    await manager.close()
    shard, place = shard_of(cluster_db, "ada")
    with psycopg.connect(on_machine(citus_url, cluster_db, place), autocommit=True) as worker:
        worker.execute("SET citus.enable_manual_changes_to_shards = on")
        worker.execute(f"ALTER TABLE memories_{shard} NO FORCE ROW LEVEL SECURITY")

    assert (await cluster_status(cluster_db.url)).row_level_security is False
