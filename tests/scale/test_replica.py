"""Reading from a streaming replica: what a client wrote it finds, and a replica that is away or behind costs nobody anything.

The primary and the replica are the tests' own, of the PostgreSQL that comes along.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import replication
from http_server import HttpServer, client_of, serving_http
from mcp import Client
from mcp.types import PromptReference

from helpers import PATIENCE_S, Database, call, connected, found, in_database, read, refused, remember, said, until
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store import membership, persons
from pgengram.store.schema.migrate import migrate
from relay import Relay

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="these servers find each other by sockets of Unix")

PROMPT = PromptReference(name="context")
NOWHERE = "postgresql://nobody@/nothing?host=/nowhere/at/all"


@dataclass
class Store:
    """A store, and how it is reached."""

    pair: replication.Pair
    name: str

    @property
    def settings(self) -> dict[str, str]:
        return {
            "database_url": in_database(self.pair.primary, self.name),
            "read_url": in_database(self.pair.replica, self.name),
            "embedder": "none:",
        }

    @property
    def primary(self) -> Database:
        return Database(self.settings["database_url"])


@pytest.fixture(scope="module")
def pair() -> Iterator[replication.Pair]:
    """A primary and its replica."""
    with replication.replicated() as made:
        yield made


@pytest.fixture
def store(pair: replication.Pair, request: pytest.FixtureRequest) -> Iterator[Store]:
    """A migrated store that both know, and that remembers nothing yet."""
    name = f"store_{abs(hash(request.node.name))}"
    with psycopg.connect(pair.primary, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    made = Store(pair, name)
    migrate(made.settings["database_url"])
    pair.catch_up()
    yield made
    pair.go_on_replaying()


async def state(client: Client) -> str:
    """Return what the health of the store says of the replica."""
    return str((await call(client, "memory_stats"))["database"]["replica"])


async def in_use(client: Client) -> bool:
    """Whether a search is answered by the replica."""
    await found(client, "anything")
    return await state(client) == "in use"


def answered(store: Store) -> int:
    """Return how many transactions the replica has answered in this database."""
    with psycopg.connect(store.pair.replica, autocommit=True) as connection:
        row = connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s", [store.name]
        ).fetchone()
    assert row is not None
    return int(row[0])


async def test_searches_are_answered_by_the_replica_and_hits_counted_on_the_primary(store: Store) -> None:
    async with connected(**store.settings) as client:
        id_ = await remember(client, "The ferry to the island leaves at seven.")
        await until(lambda: in_use(client))
        before = answered(store)
        for _ in range(5):
            assert await found(client, "ferry island") == [id_]

        async def counted() -> bool:
            return answered(store) >= before + 5

        await until(counted)  # numbers of this kind are told with a delay

    times = store.primary.value("SELECT access_count FROM memory_activation WHERE memory_id = %s", [id_])
    assert times >= 5


@pytest.mark.nightly
async def test_completions_and_readings_that_leave_no_trace_are_answered_by_the_replica(store: Store) -> None:
    async with connected(**store.settings) as client:
        id_ = await remember(client, "The ferry to the island leaves at seven.", tags=["ferries"])
        await until(lambda: in_use(client))
        before = answered(store)
        for _ in range(20):
            offered = await client.complete(PROMPT, {"name": "tags", "value": "fer"})
            assert offered.completion.values == ["ferries"]
            seen = await call(client, "get_memories", ids=[id_], touch=False)
            assert [memory["id"] for memory in seen["memories"]] == [id_]

        async def counted() -> bool:
            return answered(store) >= before + 40

        await until(counted)

        await remember(client, "The ferry is full in July.", tags=["fernweh"])
        offered = await client.complete(PROMPT, {"name": "tags", "value": "fer"})
        assert sorted(offered.completion.values) == ["fernweh", "ferries"]


async def test_a_client_finds_what_it_has_just_written(store: Store) -> None:
    async with connected(**store.settings) as client:
        await until(lambda: in_use(client))
        for number in range(10):
            id_ = await remember(client, f"Locker {number} belongs to the diving club.")
            assert id_ in await found(client, f"locker {number} diving", limit=50)


async def test_a_replica_that_lags_is_not_read_from_and_health_says_so(store: Store) -> None:
    async with connected(**store.settings) as client:
        await until(lambda: in_use(client))
        store.pair.stop_replaying()
        id_ = await remember(client, "The lighthouse was painted red in May.")

        assert await found(client, "lighthouse red") == [id_]
        assert "lagging" in await state(client)

        store.pair.go_on_replaying()
        await until(lambda: in_use(client))
        assert await found(client, "lighthouse red") == [id_]


@pytest.mark.nightly
async def test_whoever_has_not_written_goes_on_reading_from_a_replica_that_has_all_there_is(store: Store) -> None:
    async with connected(**store.settings) as writer, connected(**store.settings) as reader:
        id_ = await remember(writer, "The chandlery closes on Sundays.")
        await until(lambda: in_use(reader))

        assert await found(reader, "chandlery Sundays") == [id_]
        assert await state(reader) == "in use"


async def test_a_replica_that_is_nowhere_costs_no_search_and_is_told(store: Store) -> None:
    async with connected(**{**store.settings, "read_url": NOWHERE}) as client:
        id_ = await remember(client, "The pump in the cellar is serviced in autumn.")

        assert await found(client, "pump cellar") == [id_]
        assert (await state(client)).startswith("not ")


async def test_a_replica_that_falls_silent_is_left_as_soon_as_it_does_not_answer(store: Store, tmp_path: Path) -> None:
    relay = Relay(tmp_path, store.settings["read_url"])
    async with relay.running(), connected(**{**store.settings, "read_url": relay.url}) as client:
        id_ = await remember(client, "The ferry is painted every winter.")
        await until(lambda: in_use(client))

        relay.on.clear()
        assert await found(client, "ferry painted") == [id_]
        assert await state(client) == "not used, lost: The database does not answer."

        relay.on.set()
        await until(lambda: in_use(client))


async def test_searches_go_on_from_the_replica_while_the_primary_is_away_and_say_so(
    store: Store, tmp_path: Path
) -> None:
    relay = Relay(tmp_path, store.settings["database_url"])
    async with AsyncExitStack() as reachable:
        await reachable.enter_async_context(relay.running())
        async with connected(**{**store.settings, "database_url": relay.url}) as client:
            id_ = await remember(client, "The ferry is painted every winter.")
            await until(lambda: in_use(client))

            relay.cut()
            await reachable.aclose()
            for _ in range(3):
                answer = await call(client, "search_memories", query="ferry painted")
                assert [hit["id"] for hit in answer["results"]] == [id_]
                assert answer["stale"] is True
            recalled = await call(client, "recall_context", context="Who paints the ferry?")
            assert "painted every winter" in recalled["context"]
            assert recalled["stale"] is True
            error = await refused(client, "create_memory", content="Meanwhile.")
            assert "connection refused" in error["message"]
            assert str(tmp_path) in error["message"]

            relay = Relay(tmp_path, store.settings["database_url"])
            async with relay.running():
                later = await remember(client, "The ferry is back.")
                answer = await call(client, "search_memories", query="ferry back")
                assert later in [hit["id"] for hit in answer["results"]]
                assert "stale" not in answer


async def test_a_server_that_starts_while_the_primary_is_away_answers_from_the_replica_until_it_is_back(
    store: Store, tmp_path: Path
) -> None:
    with_vectors = {**store.settings, "embedder": "builtin:"}
    async with connected(**with_vectors) as client:
        id_ = await remember(client, "The ferry is painted every winter.")
    await asyncio.to_thread(store.pair.catch_up)
    relay = Relay(tmp_path, store.settings["database_url"])

    async with connected(**{**with_vectors, "database_url": relay.url}) as client:
        answer = await call(client, "search_memories", query="When does the ship get its new coat?")
        assert [(hit["id"], answer["stale"], "degraded" in answer) for hit in answer["results"]] == [(id_, True, False)]
        assert (await call(client, "recall_context", context="Who paints the ferry?"))["stale"] is True
        assert (await read(client, id_))["content"] == "The ferry is painted every winter."
        error = await refused(client, "create_memory", content="Meanwhile.")
        assert "connection refused" in error["message"]
        assert "Nothing was changed" in error["hint"]

        async with relay.running():
            later = await remember(client, "The ferry is back.")
            answer = await call(client, "search_memories", query="ferry back")
            assert later in [hit["id"] for hit in answer["results"]]
            assert "stale" not in answer


@pytest.mark.nightly
async def test_a_server_over_http_that_starts_while_the_primary_is_away_answers_from_the_replica_too(
    store: Store, tmp_path: Path
) -> None:
    async with connected(**store.settings) as client:
        id_ = await remember(client, "The ferry is painted every winter.")
    await asyncio.to_thread(store.pair.catch_up)
    relay = Relay(tmp_path, store.settings["database_url"])

    with serving_http("--no-auth", **{**store.settings, "database_url": relay.url}) as server:
        async with client_of(server, None) as client:
            answer = await call(client, "search_memories", query="ferry painted")
            assert [(hit["id"], answer["stale"]) for hit in answer["results"]] == [(id_, True)]
            assert str(await client.read_resource(f"memory://{id_}")).count("painted every winter") == 1
            assert "connection refused" in (await refused(client, "create_memory", content="Meanwhile."))["message"]
            ready = await asyncio.to_thread(httpx.get, f"{server.base}/ready", timeout=PATIENCE_S)
            assert ready.status_code == 503
            async with relay.running():
                later = await remember(client, "The ferry is back.")
                assert later in await found(client, "ferry back")


async def test_a_standby_that_is_given_as_the_primary_is_read_and_says_that_it_takes_no_writes(store: Store) -> None:
    async with connected(**store.settings) as client:
        id_ = await remember(client, "The ferry is painted every winter.")
    await asyncio.to_thread(store.pair.catch_up)

    async with connected(database_url=store.settings["read_url"], embedder="none:") as client:
        assert await found(client, "ferry painted") == [id_]
        assert (await read(client, id_))["content"] == "The ferry is painted every winter."
        error = await refused(client, "create_memory", content="Meanwhile.")
        assert error["message"] == "The database accepts no writes now."
        assert "Nothing was changed" in error["hint"]


async def test_a_primary_that_takes_no_writes_any_more_leaves_searches_to_the_replica(store: Store) -> None:
    writable = {**store.settings, "database_url": f"{store.settings['database_url']}&target_session_attrs=read-write"}
    async with connected(**writable) as client:
        id_ = await remember(client, "The ferry is painted every winter.")
        await until(lambda: in_use(client))
        with psycopg.connect(store.pair.primary, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {store.name} SET default_transaction_read_only = on".encode())
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [store.name]
            )

        await until(lambda: is_stale(client))
        assert await found(client, "ferry painted") == [id_]
        error = await refused(client, "create_memory", content="Meanwhile.")
        assert "takes no writes now: session is read-only" in error["message"]


async def is_stale(client: Client) -> bool:
    """Whether a search says that the newest memories may be missing."""
    answer = await client.call_tool("search_memories", {"query": "ferry"})
    return not answer.is_error and json.loads(said(answer)).get("stale", False)


async def test_the_primary_named_twice_is_not_taken_for_a_replica(store: Store) -> None:
    async with connected(**{**store.settings, "read_url": store.settings["database_url"]}) as client:
        id_ = await remember(client, "Two names, one server.")

        assert await found(client, "two names server") == [id_]
        assert "doesn't point to a replica" in await state(client)


@pytest.mark.nightly
async def test_what_was_written_through_one_http_server_is_read_through_another(store: Store) -> None:
    with serving_http(**store.settings) as one, serving_http(**store.settings) as other:
        token = one.token()
        async with client_of(one, token) as writer, client_of(other, token) as reader:
            await until(lambda: in_use(reader))
            for number in range(15):
                id_ = await remember(writer, f"Berth {number} is let to a fishing boat.")
                assert id_ in await found(reader, f"berth {number} fishing", limit=50)
            store.pair.stop_replaying()
            id_ = await remember(writer, "Berth ninety is kept free for the pilot.")
            assert await found(reader, "ninety pilot") == [id_]
        assert "lagging" in ready(other)["replica"]
        assert ready(other)["status"] == "ready"


def ready(server: HttpServer) -> dict[str, str]:
    """Return what the server says of itself."""
    return dict(httpx.get(f"{server.base}/ready", timeout=PATIENCE_S).json())


class Caller:
    """Creates memories one after the other, each until it is acknowledged, and keeps what it was told."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.acknowledged: dict[str, str] = {}
        self.refusals: list[dict[str, Any]] = []
        self.go_on = True

    async def run(self) -> None:
        """Create until told to stop."""
        while self.go_on:
            await self.one(f"{self.name}-{len(self.acknowledged)}")

    async def one(self, key: str) -> None:
        """Create one memory, with a key, until that is acknowledged."""
        arguments = {"content": f"{key} was moved to the new store room.", "idempotency_key": key}
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await self.client.call_tool("create_memory", arguments)).is_error:
                self.refusals.append(json.loads(said(answer))["error"])
                await asyncio.sleep(0.05)
        self.acknowledged[key] = json.loads(said(answer))["memory_id"]


@pytest.mark.nightly
async def test_a_replica_that_is_promoted_under_load_is_followed_without_a_restart() -> None:
    with replication.replicated(synchronous=True) as pair:
        store = Store(pair, "pgengram")
        settings = {**store.settings, "database_url": pair.both}
        async with connected(**settings) as client:
            callers = [Caller(client, f"crate{number}") for number in range(8)]
            running = [asyncio.create_task(caller.run()) for caller in callers]

            async def busy() -> bool:
                return all(len(caller.acknowledged) >= 3 for caller in callers)

            await until(busy)
            before = {key: id_ for caller in callers for key, id_ in caller.acknowledged.items()}
            await asyncio.to_thread(pair.kill_primary)
            await asyncio.to_thread(pair.promote)
            had = [len(caller.acknowledged) for caller in callers]

            async def resumed() -> bool:
                return all(len(caller.acknowledged) > n + 2 for caller, n in zip(callers, had, strict=True))

            await until(resumed)
            for caller in callers:
                caller.go_on = False
            await asyncio.gather(*running)
            assert await found(client, f"{callers[0].name}-0 store room", limit=1)
            assert "promoted" in await state(client)

        acknowledged = {key: id_ for caller in callers for key, id_ in caller.acknowledged.items()}
        kept = {
            row["idempotency_key"]: str(row["id"])
            for row in Database(pair.replica).rows("SELECT idempotency_key, id FROM memories")
        }
    refusals = [refusal for caller in callers for refusal in caller.refusals]
    assert before.items() <= kept.items()
    assert kept == acknowledged
    assert refusals
    assert {refusal["code"] for refusal in refusals} == {"DATABASE_ERROR"}
    assert all("retried" in refusal["hint"] or "call again" in refusal["hint"] for refusal in refusals)


async def test_while_the_primary_is_away_ones_own_memories_are_found_and_no_space_is_asked() -> None:
    with replication.replicated() as pair:
        with psycopg.connect(pair.primary, autocommit=True) as connection:
            connection.execute("CREATE DATABASE team")
        store = Store(pair, "team")
        migrate(store.settings["database_url"])
        pair.catch_up()
        async with connected(**store.settings, namespace="ben") as ben:
            own = await remember(ben, "The ferry is painted by Kofi.")
        home = MemoryManager(Settings(database_url=store.settings["database_url"], namespace="ben", embedder="none:"))
        await home.ready()
        person = await persons.add(home.store, "Ben", "ben")
        await membership.create(home.store, "Yard", person)
        await home.close()
        async with connected(**store.settings, namespace="ben", spaces="Yard") as ben:
            shared = (await call(ben, "create_memory", content="The ferry has a yard.", space="Yard"))["memory_id"]
            answer = await call(ben, "search_memories", query="ferry")
            assert {hit["id"] for hit in answer["results"]} == {own, shared}
            pair.catch_up()

            pair.kill_primary()

            answer = await call(ben, "search_memories", query="ferry")
            assert [hit["id"] for hit in answer["results"]] == [own]
            await until(lambda: is_stale(ben))
            told = await refused(ben, "search_memories", query="ferry", space="Yard")
            assert told["code"] in ("NOT_READY", "DATABASE_ERROR")
