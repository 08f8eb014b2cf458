"""get_memories with include: what became of a memory, what it is linked to, and where it belongs."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import Implementation

from helpers import Answer, Database, Served, call, environment, read, refused, remember
from pgengram.cli.clients.mcp_client import connected_client as by_the_cli
from pgengram.settings import Settings


async def whole(client: Client, id_: str, *include: str) -> Answer:
    """Read one memory with what is asked for."""
    [memory] = (await call(client, "get_memories", ids=[id_], include=list(include)))["memories"]
    return dict(memory)


@pytest.mark.shows(22, 35)
async def test_the_history_tells_every_write_newest_first_with_old_and_new(client: Client) -> None:
    id_, other = await remember(client, "The door code is 4711."), await remember(client, "The lock was changed.")
    await call(client, "update_memory", id=id_, content="The door code is 4712.", importance=0.9)
    await call(client, "update_memory", id=id_, confirm=True)
    await call(client, "link_memories", from_id=id_, to_ids=[other])
    await call(client, "update_memory", id=id_, status="archived")
    await call(client, "forget_memories", ids=[id_], reason="No code any more.")
    await call(client, "update_memory", id=id_, status="active")

    history = (await whole(client, id_, "history"))["history"]

    assert [one["operation"] for one in history] == [
        "restore", "forget", "archive", "link", "confirm", "update", "create",
    ]  # fmt: skip
    assert [one["version"] for one in history] == [7, 6, 5, 4, 3, 2, 1]
    assert history[5]["changes"] == {
        "content": ["The door code is 4711.", "The door code is 4712."], "importance": [0.5, 0.9],
        "last_confirmed_at": history[5]["changes"]["last_confirmed_at"],
    }  # fmt: skip
    assert history[1]["changes"]["reason"] == [None, "No code any more."]
    assert history[0]["changes"]["reason"] == ["No code any more.", None]
    assert history[0]["changes"]["status"] == ["invalidated", "active"]
    assert {one["actor"] for one in history} == {"mcp"}
    assert {one["session_id"] for one in history} == {(await read(client, id_))["session_id"]}
    assert sorted((one["at"] for one in history), reverse=True) == [one["at"] for one in history]


@pytest.mark.shows(35)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_history_names_the_client(wordless: Served, mode: Any) -> None:
    settings = environment(database_url=wordless.db.url, embedder="none:")
    server = StdioServerParameters(command=sys.executable, args=["-m", "pgengram"], env=settings)
    named = Implementation(name="notebook\n\x07", version="1")
    async with Client(server, mode=mode, client_info=named) as client:
        id_ = await remember(client, "Told by the notebook.", source_provider="somebody")
        await call(client, "update_memory", id=id_, importance=1)
    await call(wordless.client, "update_memory", id=id_, importance=0)

    assert [row["actor"] for row in wordless.db.history(id_)] == ["notebook", "notebook", "mcp"]


async def test_the_history_names_the_command_line(wordless: Served) -> None:
    async with by_the_cli(Settings(database_url=wordless.db.url, embedder="none:", answers="full")) as client:
        id_ = await remember(client, "Told at the command line.")

    assert wordless.db.history(id_)[0]["actor"] == "cli"


async def test_a_long_history_shows_its_newest_fifty_entries(wordless: Served) -> None:
    client = wordless.client
    id_ = await remember(client, "Often changed.")
    for n in range(52):
        await call(client, "update_memory", id=id_, importance=n / 100)

    history = (await whole(client, id_, "history"))["history"]

    assert [one["version"] for one in history] == list(range(53, 3, -1))


@pytest.mark.shows(22)
async def test_relations_are_shown_from_both_ends_strongest_first(client: Client) -> None:
    well, pump, garden = [await remember(client, text) for text in ("The well.", "The pump.", "The garden.")]
    await call(client, "link_memories", from_id=well, to_ids=[pump], type="feeds", strength=0.5)
    await call(client, "link_memories", from_id=garden, to_ids=[well], type="needs", properties={"why": "drought"})

    relations = (await whole(client, well, "relations"))["relations"]

    assert relations == [
        {"id": garden, "direction": "in", "type": "needs", "strength": 1, "properties": {"why": "drought"},
         "content": "The garden.", "status": "active"},
        {"id": pump, "direction": "out", "type": "feeds", "strength": 0.5, "content": "The pump.", "status": "active"},
    ]  # fmt: skip


@pytest.mark.shows(22)
async def test_the_clusters_of_a_memory_are_shown(client: Client, db: Database) -> None:
    id_ = await remember(client, "The garden needs rain.")
    cluster = "11111111-1111-7111-8111-111111111111"
    db.rows(
        f"INSERT INTO memory_clusters (namespace_id, id, type, name) SELECT namespace_id, '{cluster}', 'theme', 'Garden' FROM memories"
    )
    db.rows(
        f"""INSERT INTO memory_cluster_members (namespace_id, cluster_id, memory_id, strength)
        SELECT namespace_id, '{cluster}', id, 0.75 FROM memories"""
    )

    assert (await whole(client, id_, "clusters"))["clusters"] == [
        {"id": cluster, "name": "Garden", "type": "theme", "strength": 0.75, "automatic": False}
    ]


async def test_nothing_more_is_shown_than_was_asked_for(client: Client) -> None:
    id_ = await remember(client, "Alone.")

    assert not {"history", "relations", "clusters"} & (await read(client, id_)).keys()
    memory = await whole(client, id_, "relations", "clusters")
    assert (memory["relations"], memory["clusters"]) == ([], [])
    assert "history" not in memory


async def test_what_cannot_be_included_is_refused(client: Client) -> None:
    id_ = await remember(client, "Alone.")

    error = await refused(client, "get_memories", ids=[id_], include=["future"])

    assert error["code"] == "INVALID_INPUT"
    assert "history, relations, clusters" in error["message"]


async def test_a_memory_said_to_have_happened_later_is_told_with_its_date_of_then(client: Client) -> None:
    id_ = await remember(client, "The regatta is on Tuesday.", occurred_at="2020-05-12")
    await call(client, "update_memory", id=id_, content="The regatta is on Thursday.", occurred_at="2020-05-14")

    [then] = (await call(client, "search_memories", query="regatta", as_of="2020-05-31", detail=True))["results"]
    [now] = (await call(client, "search_memories", query="regatta", detail=True))["results"]

    assert ("Tuesday" in then["content"], then["occurred_at"][:10]) == (True, "2020-05-12")
    assert ("Thursday" in now["content"], now["occurred_at"][:10]) == (True, "2020-05-14")
