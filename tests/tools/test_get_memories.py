"""get_memories: reading chosen memories whole."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

import pytest
from mcp import Client

from helpers import Served, call, read, refused, remember, said
from pgengram.inputs import Change
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings


@pytest.mark.shows(5)
async def test_a_client_that_asks_for_a_lost_memory_is_told_to_search(client: Client) -> None:
    answer = await client.call_tool("get_memories", {"ids": [str(uuid4())]})

    assert answer.is_error
    assert "search_memories" in said(answer)


@pytest.mark.shows(22)
async def test_what_is_not_there_is_listed_beside_what_is(client: Client) -> None:
    id_, lost = await remember(client, "There."), str(uuid4())

    answer = await call(client, "get_memories", ids=[lost, id_])

    assert answer["ok"] is True
    assert [memory["id"] for memory in answer["memories"]] == [id_]
    [missing] = answer["missing"]
    assert missing["id"] == lost
    assert missing["error"]["code"] == "NOT_FOUND"
    assert "error" not in answer


async def test_memories_come_in_the_order_in_which_they_were_asked_for(client: Client) -> None:
    ids = [await remember(client, f"Memory {n}.") for n in range(6)]
    asked = [ids[3], ids[5][-8:], ids[0], ids[4][-12:], ids[1].upper(), ids[2].replace("-", "")]

    answer = await call(client, "get_memories", ids=asked)

    assert [memory["id"] for memory in answer["memories"]] == [ids[n] for n in (3, 5, 0, 4, 1, 2)]


async def test_a_memory_asked_for_twice_comes_once(client: Client) -> None:
    id_ = await remember(client, "Once.")

    answer = await call(client, "get_memories", ids=[id_, id_[-8:], id_.upper()])

    assert [memory["id"] for memory in answer["memories"]] == [id_]
    assert answer["missing"] == []


@pytest.mark.parametrize("digits", [8, 11, 12, 16, 31])
async def test_the_end_of_an_id_is_enough(client: Client, digits: int) -> None:
    ids = [await remember(client, f"Memory {n}.") for n in range(3)]

    memory = await read(client, ids[1].replace("-", "")[-digits:])

    assert memory["id"] == ids[1]


async def test_an_end_that_two_memories_share_is_a_conflict_and_more_digits_decide(served: Served) -> None:
    client, db = served.client, served.db
    ends = ["aaaa-00000000beef", "bbbb-00000000beef"]
    for end in ends:
        db.rows(
            """WITH made AS (
                 INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from)
                 SELECT current_setting('pgengram.namespace_id')::integer, %s, 'semantic', 'x', %s, now() RETURNING *
               ), active AS (
                 INSERT INTO memory_activation (namespace_id, memory_id, importance, rate_per_day, started_at)
                 SELECT namespace_id, id, 0.5, 0.003, now() FROM made)
               INSERT INTO semantic_memories (namespace_id, memory_id) SELECT namespace_id, id FROM made""",
            [UUID(f"01a00000-0000-7000-{end}"), end.encode()],
        )

    for tool, arguments in (("get_memories", {}), ("forget_memories", {})):
        answer = await client.call_tool(tool, {"ids": ["0000beef"], **arguments})
        assert answer.is_error
        assert "CONFLICT" in said(answer)
    assert (await refused(client, "update_memory", id="0000beef", importance=1))["code"] == "CONFLICT"
    assert (await read(client, "bbbb00000000beef"))["id"].endswith(ends[1])


@pytest.mark.parametrize(
    "ids",
    [[], ["1234567"], ["xyzxyzxyz"], [""], ["0" * 33], [f"{n:032x}" for n in range(21)], [7]],
    ids=["none", "seven digits", "no hex", "empty", "33 digits", "21 ids", "a number"],
)
@pytest.mark.parametrize("tool", ["get_memories", "forget_memories"])
async def test_what_is_no_list_of_ids_is_refused(client: Client, tool: str, ids: list[object]) -> None:
    if tool == "forget_memories" and len(ids) == 21:
        ids = [f"{n:032x}" for n in range(201)]

    error = await refused(client, tool, ids=ids)

    assert error["code"] == ("LIMIT_EXCEEDED" if len(ids) > 20 else "INVALID_INPUT")
    assert "ids" in error["message"]


async def test_twenty_memories_are_read_at_once(client: Client) -> None:
    items = [{"content": f"Memory {n}."} for n in range(20)]
    ids = [result["memory_id"] for result in (await call(client, "create_memories", items=items))["results"]]

    answer = await call(client, "get_memories", ids=ids)

    assert [memory["id"] for memory in answer["memories"]] == ids


async def test_a_reading_is_counted(client: Client) -> None:
    id_ = await remember(client, "Read me.")

    first, second = await read(client, id_), await read(client, id_)

    assert (first["access_count"], second["access_count"]) == (1, 2)
    assert first["last_accessed_at"] < second["last_accessed_at"]


async def test_reading_needs_no_embedder_to_know_what_is_embedded(served: Served) -> None:
    id_ = await remember(served.client, "Embedded by another server.")
    manager = MemoryManager(Settings(database_url=served.db.url))

    [memory] = (await manager.get_memories([id_])).memories
    changed = await manager.update_memory(Change(id=id_, importance=1))
    await manager.close()

    assert memory["embedded"] is True
    assert changed.memory["embedded"] is True


@pytest.mark.shows(16)
async def test_thirty_readings_leave_the_importance_alone(client: Client) -> None:
    id_ = await remember(client, "Read often.", importance=0.3)

    for _ in range(30):
        memory = await read(client, id_)

    assert memory["importance"] == 0.3
    assert memory["relevance"] <= 1


@pytest.mark.shows(16)
async def test_a_reading_without_a_touch_is_not_counted(client: Client) -> None:
    id_ = await remember(client, "The gate is red.")

    for touch in (False, False, True):
        answer = await call(client, "get_memories", ids=[id_], touch=touch)

    assert answer["memories"][0]["access_count"] == 1


async def test_an_answer_without_any_memory_has_an_error_of_its_own(client: Client) -> None:
    lost = "00000000-0000-7000-8000-000000000000"

    answer = await client.call_tool("get_memories", {"ids": [lost]})

    told = json.loads(said(answer))
    assert (answer.is_error, told["ok"], told["error"]["code"]) == (True, False, "NOT_FOUND")
    assert lost in told["error"]["message"]
