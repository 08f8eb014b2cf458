"""The clients of the official memory server go on as they were: its nine tools, with its answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from compat.conftest import refuses, says
from helpers import Database, call, connected, said
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.transfer.importing import import_from

SYSTEM = "mcp-memory"
TOOLS = {
    "create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations",
    "delete_relations", "read_graph", "search_nodes", "open_nodes",
}  # fmt: skip
ADA = {"name": "Ada", "entityType": "person", "observations": ["bakes rye bread", "is up at four"]}
BAKERY = {"name": "Corner Bakery", "entityType": "Shop", "observations": []}
RUNS = {"from": "Ada", "to": "Corner Bakery", "relationType": "runs daily"}


async def does(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, said(answer)
    return said(answer)


async def filled(client: Client) -> None:
    assert await says(client, "create_entities", entities=[ADA, BAKERY]) == [ADA, BAKERY]
    assert await says(client, "create_relations", relations=[RUNS]) == [RUNS]


async def test_it_has_these_nine_tools(client: Client) -> None:
    assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS


async def test_a_graph_is_read_as_it_was_told_and_nothing_is_told_twice(client: Client) -> None:
    await filled(client)

    assert await says(client, "create_entities", entities=[ADA]) == []
    assert await says(client, "create_relations", relations=[RUNS]) == []
    more = {"entityName": "Ada", "contents": ["is up at four", "likes tea"]}
    added = await says(client, "add_observations", observations=[more])
    assert added == [{"entityName": "Ada", "addedObservations": ["likes tea"]}]
    ada = {**ADA, "observations": [*ADA["observations"], "likes tea"]}
    assert await says(client, "read_graph") == {"entities": [ada, BAKERY], "relations": [RUNS]}


@pytest.mark.parametrize("query", ["RYE", "ada", "person", "Who bakes loaves?"])
async def test_nodes_are_found_by_any_part_and_by_meaning_with_their_relations(client: Client, query: str) -> None:
    await filled(client)

    found = await says(client, "search_nodes", query=query)

    assert found == {"entities": [ADA], "relations": [RUNS]}
    assert await says(client, "open_nodes", names=["Ada", "Nobody"]) == found


async def test_what_is_deleted_is_in_the_graph_no_more(client: Client) -> None:
    await filled(client)

    gone = [{"entityName": "Ada", "observations": ["is up at four", "never said"]}]
    assert await does(client, "delete_observations", deletions=gone) == "Observations deleted successfully"
    [ada] = (await says(client, "open_nodes", names=["Ada"]))["entities"]
    assert ada["observations"] == ["bakes rye bread"]
    assert await does(client, "delete_relations", relations=[RUNS]) == "Relations deleted successfully"
    assert (await says(client, "read_graph"))["relations"] == []
    await says(client, "create_relations", relations=[RUNS])
    assert await does(client, "delete_entities", entityNames=["Ada", "Nobody"]) == "Entities deleted successfully"
    assert await says(client, "read_graph") == {"entities": [BAKERY], "relations": []}
    assert await says(client, "create_entities", entities=[ADA]) == [ADA]


async def test_an_unknown_entity_is_named_in_the_error(client: Client) -> None:
    for tool, given in (
        ("add_observations", {"observations": [{"entityName": "Nobody", "contents": ["x"]}]}),
        ("create_relations", {"relations": [{"from": "Nobody", "to": "Ada", "relationType": "knows"}]}),
    ):
        error = await refuses(client, tool, **given)
        assert (error["code"], "Nobody" in error["message"]) == ("NOT_FOUND", True)


async def test_a_secret_refuses_the_call_and_stores_nothing(client: Client) -> None:
    bad = {**ADA, "observations": ["has the key sk-proj-Zx8Kq2mN4vB7cL1pR9tY6wE3uH5jF0aS"]}

    assert (await refuses(client, "create_entities", entities=[bad]))["code"] == "SECRET_REJECTED"
    assert (await says(client, "read_graph"))["entities"] == []


async def test_its_file_is_imported_and_gone_on_with(client: Client, db: Database, tmp_path: Path) -> None:
    lines = [{"type": "entity", **ADA}, {"type": "entity", **BAKERY}, {"type": "relation", **RUNS}]
    (tmp_path / "memory.jsonl").write_text("\n".join(map(json.dumps, lines)))
    manager = MemoryManager(Settings(database_url=db.url, embedder="none:"))
    await import_from(manager, SYSTEM, str(tmp_path / "memory.jsonl"), dry_run=False, report=lambda *_: None)
    await manager.close()

    graph = await says(client, "read_graph")

    told = {entity["name"]: {**entity, "observations": sorted(entity["observations"])} for entity in graph["entities"]}
    assert told == {"Ada": ADA, "Corner Bakery": BAKERY}
    assert graph["relations"] == [RUNS]


async def test_the_usual_tools_find_what_was_told(client: Client, db: Database) -> None:
    await filled(client)

    async with connected(database_url=db.url) as usual:
        found = await call(usual, "search_memories", query="When is Ada up?", limit=1)

    assert found["results"][0]["content"] == "Ada: is up at four"
