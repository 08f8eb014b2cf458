"""Working memory: held for a task, hidden from every search, and kept or removed when its time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from mcp import Client

from helpers import (
    PATIENCE_S,
    Answer,
    Database,
    Served,
    call,
    connected,
    found,
    read,
    refused,
    remember,
    until,
)
from pgengram.store.schema.tables import metadata

SERVER = {"toolsets": "all"}


async def hold(client: Client, content: str, **more: Any) -> str:
    return str((await call(client, "create_working_memory", content=content, **more))["memory_id"])


async def held(client: Client, **asked: Any) -> list[Answer]:
    return list((await call(client, "get_working_memories", **asked))["memories"])


async def contents(client: Client, **asked: Any) -> list[str]:
    return [memory["content"] for memory in await held(client, **asked)]


def pass_time(db: Database, seconds: float, id_: str | None = None) -> None:
    """Let what is held be older by so many seconds."""
    db.rows(
        """UPDATE memories SET expires_at = (expires_at AT TIME ZONE 'UTC' - make_interval(secs => %s)) AT TIME ZONE 'UTC'
           WHERE status = 'working' AND (%s::uuid IS NULL OR id = %s)""",
        [seconds, id_, id_],
    )


@contextmanager
def slow(db: Database, what: str, when: str = "true") -> Iterator[None]:
    """Let a write take so long that others come in between."""
    db.as_login(
        "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END'",
        f"CREATE TRIGGER linger BEFORE {what} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION linger()",
    )
    try:
        yield
    finally:
        db.as_login("DROP FUNCTION linger CASCADE")


async def sleeping(db: Database) -> bool:
    return bool(db.as_login("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))


def left_behind(db: Database, text: str) -> list[str]:
    """Return the tables in which a text stands anywhere."""
    return [
        name
        for name in metadata.tables
        if db.as_login(f"SELECT 1 FROM {name} AS t WHERE t::text ILIKE '%{text}%' LIMIT 1")
    ]


@pytest.mark.shows(33)
async def test_what_is_held_is_listed_newest_first_and_no_ordinary_search_shows_it(client: Client) -> None:
    first = await hold(client, "The staging database is being copied.", context={"task": 7}, tags=["copy"])
    second = await hold(client, "Row counts differ in the table of orders.")

    listed = await held(client)

    assert [memory["id"] for memory in listed] == [second, first]
    assert listed[1]["context"] == {"task": 7}
    assert listed[1]["tags"] == ["copy"]
    assert 3_600 - PATIENCE_S < listed[1]["seconds_left"] <= 3_600
    assert await found(client, "staging database") == []
    assert await found(client, "staging", mode="substring") == []
    assert await found(client, "staging", mode="text") == []
    assert await found(client) == []
    assert (await call(client, "recall_context", context="staging database copied"))["count"] == 0


async def test_no_search_of_an_earlier_moment_shows_it(client: Client) -> None:
    await hold(client, "The staging database is being copied.")
    lasting = await remember(client, "The staging database runs PostgreSQL 16.")

    assert await found(client, "staging database", as_of="2999-01-01T00:00:00Z") == [lasting]


async def test_it_is_read_by_its_id_and_by_the_end_of_it(client: Client) -> None:
    id_ = await hold(client, "Interim result: 41.")

    memory = await read(client, id_[-8:])

    assert memory["status"] == "working"
    assert memory["content"] == "Interim result: 41."


@pytest.mark.parametrize("seconds", [0, -1, 1.5])
async def test_it_is_held_for_a_second_at_least_and_a_week_at_most(client: Client, seconds: float) -> None:
    error = await refused(client, "create_working_memory", content="Too short or too long.", ttl_seconds=seconds)

    assert error["code"] == "INVALID_INPUT"
    assert await held(client) == []
    await hold(client, "A second.", ttl_seconds=1)
    await hold(client, "A week.", ttl_seconds=604_800)
    longer = await call(client, "create_working_memory", content="A month.", ttl_seconds=2_592_000)
    assert "604800" in longer["read"]["ttl_seconds"]


async def test_importance_zero_and_a_false_context_stay_what_they_are(client: Client) -> None:
    await hold(client, "Of no importance.", importance=0, context=False)

    [memory] = await held(client)

    assert memory["importance"] == 0
    assert memory["context"] is False
    assert memory["promote"] is False


async def test_the_same_text_again_is_held_longer(client: Client, db: Database) -> None:
    id_ = await hold(client, "The build is red.", ttl_seconds=60, tags=["build"])

    again = await call(
        client,
        "create_working_memory",
        content="the build  is red.",
        ttl_seconds=600,
        tags=["ci"],
        promote=True,
        importance=0.6,
    )

    assert again["created"] is False
    assert again["memory_id"] == id_
    [memory] = await held(client)
    assert 600 - PATIENCE_S < memory["seconds_left"] <= 600
    assert memory["tags"] == ["build", "ci"]
    assert memory["promote"] is True
    assert memory["importance"] == 0.6
    outcome = db.history(id_)[-1]
    assert outcome["operation"] == "update"
    assert outcome["changes"].keys() == {"expires_at", "importance", "tags", "promote"}


async def test_the_same_text_for_a_shorter_time_takes_nothing_away(client: Client) -> None:
    await hold(client, "The build is red.", ttl_seconds=600)
    await hold(client, "The build is red.", ttl_seconds=5)

    [memory] = await held(client)

    assert memory["seconds_left"] > 600 - PATIENCE_S


async def test_equal_calls_at_once_hold_one(client: Client, db: Database) -> None:
    with slow(db, "INSERT ON working_memories"):
        ids = await asyncio.gather(*(hold(client, "Told by several at once.") for _ in range(4)))

    assert len(set(ids)) == 1
    assert len(await held(client)) == 1


@pytest.mark.parametrize(
    "where",
    [{"content": "The key is {}."}, {"context": {"note": ["{}"]}}, {"tags": ["{}"]}, {"project": "{}"}],
    ids=lambda where: next(iter(where)),
)
async def test_secrets_are_refused_wherever_they_stand(client: Client, db: Database, where: dict[str, Any]) -> None:
    secret = "ghp_" + "a8Zk3Qp7Rt5Lw9Xc2Vb6Nm4Jh1Gf0Ds3Ty7U"
    given = {"content": "Look at the repository.", **_filled(where, secret)}

    error = await refused(client, "create_working_memory", **given)

    assert error["code"] == "SECRET_REJECTED"
    assert secret not in str(error)
    assert left_behind(db, secret) == []


def _filled(value: Any, secret: str) -> Any:
    if isinstance(value, dict):
        return {key: _filled(one, secret) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, secret) for one in value]
    return value.format(secret)


# -- finding -----------------------------------------------------------------------------------------------------------


async def test_it_is_found_by_meaning_among_what_is_held(client: Client) -> None:
    await hold(client, "Jonas wants his coffee without sugar.")
    await hold(client, "The payment provider rejects cards from Norway.")
    await hold(client, "Tests take nine minutes.")

    found_ones = await contents(client, query="Which customers cannot pay?")

    assert found_ones[0] == "The payment provider rejects cards from Norway."


async def test_it_is_found_by_its_words_without_an_embedder(wordless: Served) -> None:
    async with connected(database_url=wordless.db.url, toolsets="all", embedder="none:") as client:
        await hold(client, "The payment provider rejects cards from Norway.")
        await hold(client, "Tests take nine minutes.")

        assert await contents(client, query="rejected cards") == ["The payment provider rejects cards from Norway."]
        assert await contents(client, query="elephants") == []


async def test_no_more_are_listed_than_asked_for(client: Client) -> None:
    for number in range(4):
        await hold(client, f"Step {number} is done.")

    assert await contents(client, limit=2) == ["Step 3 is done.", "Step 2 is done."]
    assert len(await contents(client, query="step", limit=3)) == 3


async def test_a_lasting_memory_is_never_among_them(client: Client) -> None:
    await remember(client, "Lasting: the payment provider rejects cards.")

    assert await held(client, query="payment provider") == []
    assert await held(client) == []


# -- when the time is over ---------------------------------------------------------------------------------------------


@pytest.mark.shows(33)
async def test_what_is_over_is_removed_without_a_trace_of_its_text(client: Client, db: Database) -> None:
    canary = "zanzibarquokka"
    id_ = await hold(client, f"The {canary} sleeps.", context={canary: [canary]}, tags=[canary], project=canary)
    other = await remember(client, "What it is linked to.")
    db.rows(
        """INSERT INTO memory_relationships (namespace_id, from_id, to_id, type, properties)
           SELECT namespace_id, id, %s, 'about', jsonb_build_object('why', %s::text) FROM memories WHERE id = %s""",
        [other, canary, id_],
    )
    await call(client, "record_belief", belief="Animals sleep.", supported_by=[id_])
    await hold(client, f"The {canary} sleeps.", project=canary, ttl_seconds=7_200, context=[canary])
    assert left_behind(db, canary)
    pass_time(db, 8_000)

    answer = await call(client, "get_working_memories")

    assert answer["memories"] == []
    assert answer["removed"] == 1
    assert answer["kept"] == []
    assert left_behind(db, canary) == []
    assert left_behind(db, id_) == ["deletion_log", "memory_history"]
    assert (await client.call_tool("get_memories", {"ids": [id_]})).is_error


@pytest.mark.shows(33)
@pytest.mark.parametrize(
    ("given", "reads"),
    [({"promote": True, "importance": 0}, 0), ({"importance": 0.75}, 0), ({}, 3)],
    ids=["flagged", "important", "read three times"],
)
async def test_what_is_worth_keeping_becomes_a_lasting_event(
    client: Client, db: Database, given: dict[str, Any], reads: int
) -> None:
    id_ = await hold(client, "The release was stopped at noon.", context={"by": "Mara"}, **given)
    for _ in range(reads):
        await held(client)
    pass_time(db, 4_000)

    answer = await call(client, "get_working_memories")

    assert answer["kept"] == [id_]
    assert answer["removed"] == 0
    assert answer["memories"] == []
    assert await found(client, "release stopped") == [id_]
    assert await found(client, "stopped", mode="text") == [id_]
    memory = await read(client, id_)
    assert (memory["type"], memory["status"]) == ("episodic", "active")
    assert "expires_at" not in memory
    assert memory["detail"]["context"] == {"by": "Mara"}
    outcome = db.history(id_)[-1]
    assert outcome["operation"] == "promote"
    assert outcome["changes"]["status"] == ["working", "active"]
    assert db.value("SELECT count(*) FROM working_memories") == 0


@pytest.mark.parametrize(("given", "reads"), [({"importance": 0.74}, 0), ({}, 2)], ids=["importance", "reads"])
async def test_what_just_misses_the_mark_is_removed(
    client: Client, db: Database, given: dict[str, Any], reads: int
) -> None:
    await hold(client, "The release was stopped at noon.", **given)
    for _ in range(reads):
        await held(client)
    pass_time(db, 4_000)

    answer = await call(client, "get_working_memories")

    assert (answer["kept"], answer["removed"]) == ([], 1)


async def test_readings_by_id_count_as_well(client: Client, db: Database) -> None:
    id_ = await hold(client, "Read by its id.")
    for _ in range(3):
        await read(client, id_)
    pass_time(db, 4_000)

    assert (await call(client, "get_working_memories"))["kept"] == [id_]


async def test_the_server_clears_by_itself_when_the_time_is_over(client: Client, db: Database) -> None:
    kept = await hold(client, "Kept after a second.", ttl_seconds=1, promote=True)
    await hold(client, "Gone after a second.", ttl_seconds=1)

    async def cleared() -> bool:
        return not db.value("SELECT count(*) FROM memories WHERE status = 'working'")

    await until(cleared)

    assert [row["id"] for row in db.rows("SELECT id::text FROM memories")] == [kept]


async def test_a_server_clears_what_an_earlier_one_left(served: Served) -> None:
    kept = await hold(served.client, "Left by the first server.", promote=True)
    await hold(served.client, "Of no use to the second.")
    pass_time(served.db, 4_000)

    async with connected(database_url=served.db.url, toolsets="core") as client:
        await call(client, "search_memories")

        async def cleared() -> bool:
            return await found(client) == [kept]

        await until(cleared)

    assert served.db.value("SELECT count(*) FROM memories") == 1


@pytest.mark.shows(33)
async def test_two_servers_clear_each_one_once(served: Served) -> None:
    ids = [await hold(served.client, f"Note {number}.", promote=number % 2 == 0) for number in range(10)]
    async with connected(database_url=served.db.url, toolsets="all", embedder="none:") as other:
        await held(other)
        pass_time(served.db, 4_000)
        answers = await asyncio.gather(
            *(call(client, "get_working_memories") for client in (served.client, other) for _ in range(5))
        )

    assert sorted(id_ for answer in answers for id_ in answer["kept"]) == sorted(ids[::2])
    assert sum(answer["removed"] for answer in answers) == 5
    assert [len(served.db.history(id_)) for id_ in ids[::2]] == [2] * 5


async def test_those_that_are_over_are_shown_on_request_until_they_are_cleared(client: Client, db: Database) -> None:
    over = await hold(client, "Over.")
    pass_time(db, 4_000)
    await hold(client, "Not over.", ttl_seconds=86_400)
    # creating clears as well, so this one is over only now
    assert db.value("SELECT count(*) FROM memories WHERE id = %s", [over]) == 0
    pass_time(db, 90_000)

    [memory] = await held(client, include_expired=True)

    assert memory["content"] == "Not over."
    assert memory["expired"] is True
    assert memory["seconds_left"] == 0
    assert await held(client) == []
    assert await held(client, include_expired=True) == []


async def test_what_an_active_memory_says_already_confirms_it_and_is_kept_aside(client: Client, db: Database) -> None:
    lasting = await remember(client, "Mara leads the release.")
    note = await hold(client, "mara leads the  release.", promote=True)
    db.rows("UPDATE memories SET last_confirmed_at = '2001-01-01', expires_at = '2001-01-02' WHERE id = %s", [lasting])
    pass_time(db, 4_000)

    answer = await call(client, "get_working_memories")

    assert answer["kept"] == [lasting]
    assert await found(client, "Who leads the release?") == [lasting]
    memory = await read(client, lasting)
    assert memory["last_confirmed_at"] > "2002"
    assert "expires_at" not in memory
    aside = await read(client, note)
    assert aside["status"] == "archived"
    assert aside["replaced_by"] == [lasting]
    assert db.history(lasting)[-1]["operation"] == "confirm"


async def test_it_is_kept_once_when_its_text_is_told_at_the_same_moment(client: Client, db: Database) -> None:
    await hold(client, "Told while it is being kept.", promote=True)
    pass_time(db, 4_000)

    with slow(db, "UPDATE ON memories", "OLD.status = 'working'"):
        clearing = asyncio.create_task(call(client, "get_working_memories"))
        await until(lambda: sleeping(db))
        outcome = await remember(client, "Told while it is being kept.")
        answer = await clearing

    assert answer["kept"] == [outcome]
    assert await found(client, "told while it is being kept") == [outcome]
    assert await held(client, include_expired=True) == []


async def test_when_one_of_them_cannot_be_kept_none_is_lost(client: Client, db: Database) -> None:
    for number in range(3):
        await hold(client, f"Note {number}.", promote=number == 2)
    db.as_login(
        """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''full''; END'""",
        """CREATE TRIGGER refuse BEFORE INSERT ON memory_history FOR EACH ROW WHEN (NEW.operation = 'promote')
           EXECUTE FUNCTION refuse()""",
    )
    pass_time(db, 4_000)

    error = await refused(client, "get_working_memories")

    assert error["code"] == "DATABASE_ERROR"
    assert len(await held(client, include_expired=True)) == 3
    db.as_login("DROP TRIGGER refuse ON memory_history", "DROP FUNCTION refuse")
    answer = await call(client, "get_working_memories")
    assert (len(answer["kept"]), answer["removed"]) == (1, 2)


async def test_one_that_is_forgotten_is_held_no_more_and_never_comes_back(client: Client, db: Database) -> None:
    id_ = await hold(client, "Not wanted any more.", promote=True)

    await call(client, "forget_memories", ids=[id_], reason="Done.")

    assert await held(client) == []
    pass_time(db, 4_000)
    assert (await call(client, "get_working_memories"))["kept"] == []
    assert (await read(client, id_))["status"] == "invalidated"


# -- consolidating -----------------------------------------------------------------------------------------------------


@pytest.mark.shows(33)
async def test_several_become_one_fact_that_leads_to_its_sources(client: Client, db: Database) -> None:
    one = await hold(client, "Cards from Norway are rejected.", project="Shop", context={"run": 1})
    two = await hold(client, "Cards from Sweden are accepted.", project="Shop")
    stays = await hold(client, "Not part of it.")

    answer = await call(
        client,
        "consolidate_working_memory",
        ids=[one, two[-8:], one],
        content="The provider rejects Norwegian cards only.",
        tags=["payment"],
    )

    id_ = answer["memory_id"]
    assert answer["created"] is True
    assert answer["source_ids"] == [one, two]
    memory = await read(client, id_)
    assert (memory["type"], memory["status"], memory["importance"]) == ("semantic", "active", 0.8)
    assert (memory["project"], memory["tags"]) == ("Shop", ["payment"])
    assert await found(client, "Norwegian cards") == [id_]
    edges = db.rows("SELECT from_id::text, to_id::text, type FROM memory_relationships ORDER BY to_id")
    assert edges == [{"from_id": id_, "to_id": source, "type": "consolidation"} for source in (one, two)]
    for source in (one, two):
        kept = await read(client, source)
        assert (kept["type"], kept["status"]) == ("episodic", "archived")
        assert "expires_at" not in kept
        outcome = db.history(source)[-1]
        assert outcome["operation"] == "consolidate"
        assert outcome["changes"]["consolidated_into"] == [None, id_]
    assert (await read(client, one))["detail"]["context"] == {"run": 1}
    explored = await call(client, "explore_memories", ids=[id_], types=["consolidation"])
    assert {one, two} <= {node["id"] for node in explored["nodes"]}
    assert [memory["id"] for memory in await held(client)] == [stays]


async def test_importance_zero_of_a_consolidated_memory_is_kept(client: Client) -> None:
    id_ = await hold(client, "A note.")

    answer = await call(client, "consolidate_working_memory", ids=[id_], content="A fact.", importance=0, confidence=0)

    memory = await read(client, answer["memory_id"])
    assert (memory["importance"], memory["confidence"]) == (0, 0)


async def test_a_fact_that_is_known_is_linked_to_its_new_sources(client: Client, db: Database) -> None:
    known = await remember(client, "The provider rejects Norwegian cards.")
    note = await hold(client, "Rejected again: Oslo.")

    answer = await call(
        client, "consolidate_working_memory", ids=[note], content="The provider rejects Norwegian cards."
    )

    assert (answer["memory_id"], answer["created"]) == (known, False)
    assert db.rows("SELECT from_id::text, to_id::text FROM memory_relationships") == [{"from_id": known, "to_id": note}]
    assert (await read(client, note))["status"] == "archived"


@pytest.mark.parametrize("bad", ["unknown", "over", "lasting", "consolidated"])
async def test_a_bad_source_changes_nothing(client: Client, db: Database, bad: str) -> None:
    good = await hold(client, "A good source.")
    ids = {"unknown": str(uuid4()), "lasting": await remember(client, "A lasting one.")}
    ids["over"] = await hold(client, "A source that is over.")
    ids["consolidated"] = await hold(client, "A source that is used up.")
    await call(client, "consolidate_working_memory", ids=[ids["consolidated"]], content="The first fact.")
    pass_time(db, 4_000, ids["over"])
    before = _everything(db)

    error = await refused(client, "consolidate_working_memory", ids=[good, ids[bad]], content="A fact of two.")

    assert error["code"] == ("NOT_FOUND" if bad == "unknown" else "CONFLICT")
    assert "get_working_memories" in error["hint"]
    assert _everything(db) == before


def _everything(db: Database) -> list[dict[str, Any]]:
    memories = db.rows("SELECT id, status, version, content FROM memories ORDER BY id")
    return [*memories, *db.rows("SELECT from_id, to_id FROM memory_relationships ORDER BY 1, 2")]


async def test_a_secret_in_the_fact_changes_nothing(client: Client) -> None:
    id_ = await hold(client, "A good source.")

    error = await refused(
        client, "consolidate_working_memory", ids=[id_], content="Key AKIA" + "Q7ZJ4XRM2WPL9TDE", metadata={}
    )

    assert error["code"] == "SECRET_REJECTED"
    assert [memory["id"] for memory in await held(client)] == [id_]


async def test_a_source_is_consolidated_once_by_two_calls_at_once(client: Client, db: Database) -> None:
    id_ = await hold(client, "Wanted by two.")

    answers = await asyncio.gather(
        *(client.call_tool("consolidate_working_memory", {"ids": [id_], "content": f"Fact {n}."}) for n in range(2))
    )

    assert sorted(answer.is_error for answer in answers) == [False, True]
    assert db.value("SELECT count(*) FROM memories WHERE type = 'semantic'") == 1
