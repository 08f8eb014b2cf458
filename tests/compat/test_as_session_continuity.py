"""The clients of session continuity go on as they were: typed knowledge by project, and the graph between it."""

from __future__ import annotations

import json

import pytest
from mcp import Client

from compat.conftest import refuses, says
from helpers import Database, said

SYSTEM = "session-continuity"


async def stored(client: Client, content: str, **more: object) -> int:
    return int((await says(client, "memory_store", **{"content": content, "type": "learning", **more}))["id"])


async def test_storing_answers_as_documented(client: Client) -> None:
    answer = await says(client, "memory_store", content="We chose PostgreSQL over MySQL.", type="decision",
                        project="shop", tags=["database", "performance"], importance=8)  # fmt: skip

    assert answer == {
        "success": True, "id": answer["id"], "type": "decision", "importance": 8, "consolidated": False,
        "embeddingQueued": False,
    }  # fmt: skip


async def test_importance_is_five_when_it_is_left_out(client: Client) -> None:
    assert (await says(client, "memory_store", content="Tests live in tests.", type="pattern"))["importance"] == 5


@pytest.mark.parametrize("project", ["shop", None])
@pytest.mark.shows(9)
async def test_nearly_the_same_is_consolidated_and_found_by_its_new_words(client: Client, project: str | None) -> None:
    scope = {"project": project} if project else {}
    first = await says(client, "memory_store", content="The login page caches user sessions in Redis for speed.",
                       type="learning", tags=["auth"], **scope)  # fmt: skip
    second = await says(
        client, "memory_store", content="The login page caches user sessions in Redis for speed. It is behind a reverse proxy.",
        type="learning", tags=["proxy"], **scope,
    )  # fmt: skip

    assert (second["consolidated"], second["id"]) == (True, first["id"])
    [found] = (await says(client, "memory_search", query="reverse proxy", detail=True))["memories"]
    assert "reverse proxy" in found["content"]
    assert set(found["tags"]) == {"auth", "proxy"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The database listens on port 5432 in production.", "The database listens on port 5433 in production."),
        ("The team decided to use feature flags for the release.", "The team decided not to use feature flags for the release."),
    ],
)  # fmt: skip
@pytest.mark.shows(9)
async def test_what_contradicts_is_never_consolidated(client: Client, one: str, other: str) -> None:
    assert await stored(client, one) != await stored(client, other)

    texts = {hit["content"] for hit in (await says(client, "memory_search", query=one, detail=True))["memories"]}
    assert texts == {one, other}


async def test_identical_korean_text_is_consolidated(client: Client) -> None:
    assert await stored(client, "서버를 다시 시작하면 해결된다") == await stored(
        client, "서버를 다시 시작하면 해결된다"
    )


@pytest.mark.shows(21, 22)
async def test_hits_are_short_and_memories_whole(client: Client) -> None:
    text = "The payment service retries three times. " + "It waits between the tries. " * 20
    id_ = await stored(client, text)

    found = await says(client, "memory_search", query="payment retries")
    whole = await says(client, "memory_get", ids=[id_])

    assert (found["query"], found["found"], found["searchType"]) == ("payment retries", 1, "hybrid")
    assert len(found["memories"][0]["summary"]) == 81
    detailed = await says(client, "memory_search", query="payment retries", detail=True)
    assert len(detailed["memories"][0]["content"]) == 301
    assert whole["memories"][0]["content"] == text.strip() or whole["memories"][0]["content"] == text


async def test_filters_hold_together(client: Client) -> None:
    wanted = await stored(client, "Sessions expire after an hour.", project="shop", tags=["auth"], importance=9)
    await stored(client, "Sessions are stored in a table.", project="blog", tags=["auth"], importance=9)
    await stored(client, "Sessions have an id.", project="shop", tags=["auth"], importance=2)
    await stored(client, "Sessions failed to load.", type="error", project="shop", tags=["auth"], importance=9)

    found = await says(client, "memory_search", query="sessions", project="shop", type="learning", tags=["auth"],
                       minImportance=5)  # fmt: skip

    assert [hit["id"] for hit in found["memories"]] == [wanted]


@pytest.mark.shows(17)
async def test_a_low_importance_match_is_found_by_meaning(client: Client) -> None:
    wanted = await stored(client, "The kitten drinks milk.", importance=1)
    for number in range(12):
        await stored(client, f"Meeting number {number} of the board was about budgets.", importance=10)

    found = await says(client, "memory_search", query="small cat having a drink", semantic=True, limit=1)

    assert found["searchType"] == "semantic"
    assert [hit["id"] for hit in found["memories"]] == [wanted]


async def test_what_is_deleted_no_tool_shows_and_erasing_asks_first(client: Client, db: Database) -> None:
    id_ = await stored(client, "Obsolete.")

    assert await says(client, "memory_delete", id=id_) == {"success": True, "deleted": True, "memoryId": id_}
    assert (await says(client, "memory_search", query="obsolete"))["found"] == 0
    gone = await says(client, "memory_get", ids=[id_])
    assert (gone["found"], gone["missing"]) == (0, [f"No memory has id {id_}."])
    for unknown in (id_, 12345):
        assert (await refuses(client, "memory_delete", id=unknown))["code"] == "NOT_FOUND"
    assert db.value("SELECT count(*) FROM memories") == 1
    preview = await says(client, "memory_delete", id=id_, erase=True)
    assert not preview["deleted"]
    done = await says(client, "memory_delete", id=id_, erase=True, confirm_token=preview["confirmToken"])
    assert done == {"success": True, "deleted": True, "memoryId": id_}
    assert db.value("SELECT count(*) FROM memories") == 0


async def test_what_is_told_again_has_the_type_and_metadata_of_the_last_time(client: Client) -> None:
    id_ = await stored(client, "Sessions expire after an hour.")
    call = {"content": " Sessions expire after an hour. ", "type": "decision", "metadata": {"why": "safety"}}

    again = await says(client, "memory_store", **call)

    assert (again["id"], again["type"], again["consolidated"]) == (id_, "decision", True)
    [memory] = (await says(client, "memory_get", ids=[id_]))["memories"]
    assert (memory["type"], memory["metadata"]) == ("decision", {"why": "safety"})


async def test_a_relation_given_when_storing_is_found_again(client: Client) -> None:
    cause = await stored(client, "The disk was full.", type="error")
    effect = await stored(client, "Backups stopped on Tuesday.", type="observation", relatedTo=cause)

    related = await says(client, "memory_related", memoryId=effect, includeSemantic=False)

    assert [(one["id"], one["type"], one["source"]) for one in related["related"]] == [(cause, "error", "graph")]


@pytest.mark.shows(30, 31)
async def test_connections_are_told_once_and_explored(client: Client) -> None:
    one, two, three = [
        await stored(client, text) for text in ("Rain fell.", "The cellar flooded.", "The boiler broke.")
    ]
    await says(client, "graph_connect", sourceId=one, targetId=two, relation="causes")
    again = await says(client, "graph_connect", sourceId=one, targetId=two, relation="causes", strength=0.5)
    await says(client, "graph_connect", sourceId=two, targetId=three, relation="causes")

    assert (again["created"], again["strength"]) == (False, 0.5)
    near = await says(client, "graph_explore", memoryId=one, depth=1)
    far = await says(client, "graph_explore", memoryId=one, depth=2, relation="causes", direction="outgoing")
    assert await says(client, "graph_explore", memoryId=one, depth=1, relation="all") == near
    assert {node["id"] for node in near["nodes"]} == {one, two}
    assert {node["id"] for node in far["nodes"]} == {one, two, three}
    assert {"source": one, "target": two, "relation": "causes", "strength": 0.5} in far["edges"]
    assert (await refuses(client, "graph_connect", sourceId=one, targetId=99, relation="solves"))["code"] == "NOT_FOUND"


@pytest.mark.shows(37)
async def test_the_statistics_count_by_type_and_project(client: Client) -> None:
    await stored(client, "Sessions expire after an hour.", project="shop")
    await stored(client, "Posts are cached.", project="blog")

    everything, shop = await says(client, "memory_stats"), await says(client, "memory_stats", project="shop")

    assert (everything["total"], shop["total"]) == (2, 1)
    assert everything["byProject"] == {"blog": 1, "shop": 1}
    assert (everything["relations"], everything["embeddingCoverage"]) == (0, 100.0)
    assert [one["content"] for one in everything["recent"]] == ["Posts are cached.", "Sessions expire after an hour."]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.shows(2)
async def test_vectors_are_made_again(client: Client, db: Database, force: bool) -> None:
    id_ = await stored(client, "The kitten drinks milk.")
    await stored(client, "Budgets were discussed.")
    db.rows("DELETE FROM memory_vectors WHERE memory_id IN (SELECT id FROM memories WHERE content LIKE 'The kitten%%')")

    told: list[str | None] = []

    async def hear(_: float, __: float | None, message: str | None) -> None:
        told.append(message)

    done = await client.call_tool("rebuild_embeddings", {"force": force}, progress_callback=hear)

    assert json.loads(said(done)) == {"success": True, "rebuilt": 2 if force else 1}
    assert ("2 memories are embedded." if force else "embedding: 1 of 2 memories") in told
    found = await says(client, "memory_search", query="small cat having a drink", semantic=True, limit=1)
    assert [hit["id"] for hit in found["memories"]] == [id_]


@pytest.mark.shows(4)
async def test_what_is_out_of_range_is_refused(client: Client) -> None:
    for wrong in ({"importance": 11}, {"importance": 0}, {"type": "rumour"}, {"content": ""}, {"tags": ["x" * 51]}):
        call = {"content": "x", "type": "learning", **wrong}
        assert (await refuses(client, "memory_store", **call))["code"] == "INVALID_INPUT"
