"""What holds for every tool of every group, whatever it does."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
import pytest_asyncio
from mcp import Client
from mcp.types import Tool

from helpers import Answer, Served, call, found, refused, remember

SERVER = {"toolsets": "all"}
DIMENSIONS = 384
VECTOR = [0.05] * DIMENSIONS
A_FEW = 50  # numbers in one list; a histogram has fewer, a vector more

# Listed unless other groups are chosen: every byte of these counts, so the errors stand in the answers alone.
SHORT = {"link_memories", "explore_memories", "memory_stats", "review_memories", "tidy_memories"}


@pytest_asyncio.fixture(scope="module")
async def tools(serving: Served) -> dict[str, Tool]:
    return {tool.name: tool for tool in (await serving.client.list_tools()).tools}


async def one_call_of_each(client: Client) -> dict[str, Answer]:
    """Call every tool once so that it has something to show, and return the answers by name."""
    made: dict[str, Answer] = {}

    async def do(tool: str, **arguments: Any) -> Answer:
        made[tool] = await call(client, tool, **arguments)
        return made[tool]

    first = (await do("create_memory", content="The provider rejects cards from Norway.", embedding=VECTOR))[
        "memory_id"
    ]
    items = [{"content": f"The provider rejects {n} cards from Norway.", "tags": ["cards"]} for n in range(3)]
    others = [result["memory_id"] for result in (await do("create_memories", items=items))["results"]]
    await do("search_memories", query="Norway", detail=True)
    await do("recall_context", context="rejected cards from Norway")
    await do("link_memories", from_id=first, to_ids=others)
    cluster = await do("create_memory_cluster", name="Payment", type="theme", memory_ids=[first, *others[:1]])
    cluster_id = cluster["cluster"]["id"]
    await do("update_cluster_members", cluster_id=cluster_id, add=others[1:])
    await do("activate_cluster", cluster_id=cluster_id)
    await do("get_memory_clusters", ids=[cluster_id], insights=True, similar_threshold=0.1)
    await do("explore_memories", ids=[first])
    await do("get_memories", ids=[first], include=["history", "relations", "clusters"])
    await do("update_memory", id=first, content="The provider rejects all cards from Norway.")
    note = (await do("create_working_memory", content="Oslo was rejected.", embedding=VECTOR))["memory_id"]
    await do("get_working_memories", query="Oslo")
    await do("consolidate_working_memory", ids=[note], content="Cards of Oslo are rejected.", embedding=VECTOR)
    await do("record_identity", self_concept="A bookkeeper.")
    await do("get_identity_core")
    await do("record_belief", belief="Norway is difficult.", supported_by=[first])
    await do("get_worldview")
    await do("memory_stats")
    await do("review_memories")
    await do("tidy_memories", action="archive")
    await do("forget_memories", ids=others[:1])
    return made


@pytest.mark.shows(2, 21)
async def test_no_answer_of_any_tool_holds_a_vector(client: Client, tools: dict[str, Tool]) -> None:
    answers = await one_call_of_each(client)

    assert answers.keys() == tools.keys()
    for name, answer in answers.items():
        assert longest_list_of_numbers(answer) <= A_FEW, name
        assert not {"embedding", "centroid"} & keys_in(answer), name


async def test_every_answer_fits_the_schema_that_was_promised(client: Client, tools: dict[str, Tool]) -> None:
    for name, answer in (await one_call_of_each(client)).items():
        schema = tools[name].output_schema
        assert schema is not None
        jsonschema.validate(answer, schema)


def test_each_description_says_what_when_and_what_goes_wrong_in_ninety_words(tools: dict[str, Tool]) -> None:
    for name, tool in tools.items():
        text, _, _ = (tool.description or "").partition(" Also: ")  # the arguments that are only named
        assert 30 <= len(text.split()) <= 90, name
        assert re.search(r"\bUse\b", text), name
        assert re.search(r"[Ee]rrors?\b", text) or name in SHORT, name
        assert any(other in text for other in tools if other != name), name


def test_each_schema_is_flat_and_excludes_nothing_that_is_taken_unlisted(tools: dict[str, Tool]) -> None:
    for name, tool in tools.items():
        assert "additionalProperties" not in tool.input_schema, name
        assert not re.search(r'"(\$ref|\$defs|oneOf|anyOf|allOf)"', json.dumps(tool.input_schema)), name


@pytest.mark.shows(45)
async def test_each_tool_takes_a_call_without_arguments(client: Client, tools: dict[str, Tool]) -> None:
    for name, tool in tools.items():
        answer = await client.call_tool(name)

        required = tool.input_schema.get("required")
        if required:
            assert answer.is_error, name
        if answer.is_error:
            [block] = answer.content
            assert json.loads(block.text)["error"]["code"] == "INVALID_INPUT", name  # type: ignore[union-attr]


@pytest.mark.shows(5)
async def test_each_tool_refuses_an_argument_that_it_does_not_know_or_says_that_it_left_it_out(
    client: Client, tools: dict[str, Tool]
) -> None:
    for name, tool in tools.items():
        answer = await client.call_tool(name, {"nobody_knows_this": "canary-value"})

        [block] = answer.content
        if not answer.is_error:  # it only lists, and is asked for nothing else
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint, name
            assert "canary-value" not in block.text  # type: ignore[union-attr]
            assert json.loads(block.text)["read"] == {"nobody_knows_this": "ignored: no such argument"}  # type: ignore[union-attr]
            continue
        error = json.loads(block.text)["error"]  # type: ignore[union-attr]
        assert error["code"] == "INVALID_INPUT"
        assert "nobody_knows_this" in error["message"]
        assert "canary-value" not in block.text  # type: ignore[union-attr]


@pytest.mark.shows(17)
async def test_a_similarity_of_zero_is_a_bound(client: Client) -> None:
    near = await remember(client, "Alike.", embedding=VECTOR)
    await remember(client, "The opposite.", embedding=[-number for number in VECTOR])

    assert len(await found(client, "", embedding=VECTOR, mode="semantic")) == 2
    assert await found(client, "", embedding=VECTOR, mode="semantic", min_similarity=0) == [near]


def longest_list_of_numbers(value: Any) -> int:
    if isinstance(value, dict):
        return max(map(longest_list_of_numbers, value.values()), default=0)
    if isinstance(value, list):
        return max([sum(isinstance(one, float) for one in value), *map(longest_list_of_numbers, value)])
    return 0


def keys_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for one in value.values() for key in keys_in(one)}
    return {key for one in value for key in keys_in(one)} if isinstance(value, list) else set()


@pytest.mark.shows(20)
async def test_names_in_camel_case_are_understood(client: Client) -> None:
    outcome = await call(
        client,
        "create_memory",
        content="Mara likes tea.",
        sourceProvider="mail",
        lastConfirmedAt="2026-01-01T00:00:00Z",
    )
    await call(
        client, "create_memories", items=[{"content": "Jonas likes tea.", "captureMode": "inferred", "importance": 0.1}]
    )

    [hit] = (await call(client, "search_memories", query="tea", minImportance=0.5))["results"]

    assert hit["id"] == outcome["memory_id"]
    assert (outcome["memory"]["source_provider"], outcome["memory"]["last_confirmed_at"]) == (
        "mail",
        "2026-01-01T00:00:00Z",
    )
    error = await refused(client, "search_memories", minImportance=0.5, min_importance=0.6)
    assert "minImportance" in error["message"]
