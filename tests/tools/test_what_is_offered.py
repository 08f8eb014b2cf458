"""What a client sees of the tools for single memories before it calls: small, plain and complete."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import Tool

from helpers import Answer, Served, call, connected
from pgengram.compat import adapter_for
from pgengram.mcp.binding import DESCRIBED_ONCE, ToolBinding
from pgengram.service.manager import MemoryManager
from pgengram.service.tools import tools_of
from pgengram.settings import COMPAT, Settings

TOOLS = ["create_memory", "create_memories", "search_memories", "get_memories", "update_memory", "forget_memories"]
OBVIOUS = {"boolean", "number", "integer"}  # their bounds and their name say it all


BY_DEFAULT = [*TOOLS[:3], "recall_context", *TOOLS[3:], "review_memories"]
MOST_BYTES = 11_500  # of an assistant's attention, whatever it does


@pytest.fixture(scope="module")
async def tools(serving_words: Served) -> list[Tool]:
    return [tool for tool in (await serving_words.client.list_tools()).tools if tool.name in TOOLS]


def compact(tools: list[Tool]) -> bytes:
    dumped = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    return json.dumps({"tools": dumped}, separators=(",", ":"), ensure_ascii=False).encode()


def parts(schema: Any) -> list[dict[str, Any]]:
    """Return every schema inside a schema, itself included."""
    if not isinstance(schema, dict):
        return []
    inner = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return [schema, *(part for one in inner for part in parts(one))]


def test_the_six_tools_of_a_memory_are_there_in_this_order(tools: list[Tool]) -> None:
    assert [tool.name for tool in tools] == TOOLS


async def test_by_default_only_what_most_sessions_need_is_listed_and_a_client_can_ask_for_more(
    serving_words: Served,
) -> None:
    settings = {"database_url": serving_words.db.url, "embedder": "none:", "answers": "short", "namespace": "asked"}
    async with connected(**settings, toolsets=Settings().toolsets) as client:
        few = (await client.list_tools()).tools
        past = {"occurred_at": "2020-01-01", "expires_at": "2020-02-01"}
        await call(client, "create_memory", content="The winter fair is on.", **past)
        reviewed = await call(client, "review_memories")
        with pytest.raises(MCPError, match="Use one of create_memory"):
            await client.call_tool("tidy_memories", {"action": "archive"})
    async with connected(**settings, toolsets=f"{Settings().toolsets},maintenance") as client:
        asked = [tool.name for tool in (await client.list_tools()).tools]
        planned = await call(client, "review_memories")

    assert [tool.name for tool in few] == BY_DEFAULT
    assert len(compact(few)) <= MOST_BYTES
    assert [len(answer["found"]) for answer in (reviewed, planned)] == [9, 9]
    assert reviewed["found"]["expired"] == 1
    assert (reviewed["plan"], len(planned["plan"])) == ([], 1)
    assert asked == [*BY_DEFAULT, "memory_stats", "tidy_memories"]


async def test_every_argument_that_is_only_named_says_what_it_means(serving_words: Served) -> None:
    for tool in (await serving_words.client.list_tools()).tools:
        _, _, named = (tool.description or "").partition(" Also: ")
        told = re.sub(r"(by the fields|the other fields) of create_memory[^(]*(, |$)", "", named)
        for one in filter(None, re.split(r", (?=\w+ \()", told.removesuffix("."))):
            assert re.fullmatch(r"\w+ \(.{4,}\)", one), (tool.name, one)


def test_what_matters_most_is_listed_first(tools: list[Tool]) -> None:
    first = {tool.name: next(iter(tool.input_schema["properties"])) for tool in tools}

    assert first["create_memory"] == "content"
    assert first["search_memories"] == "query"


async def test_every_argument_is_listed_or_named_and_is_taken(serving_words: Served) -> None:
    [create] = [tool for tool in (await serving_words.client.list_tools()).tools if tool.name == "create_memory"]
    _, _, named = (create.description or "").partition(" Also: ")

    assert {"speaker", "confidence", "idempotency_key"} <= {*re.findall(r"\w+", named)}
    answer: Answer = await call(serving_words.client, "create_memory", content="The gate is green.", speaker="Ines")
    assert answer["memory"]["speaker"] == "Ines"


async def test_the_essential_tools_are_five_in_at_most_six_thousand_bytes(serving_words: Served) -> None:
    async with connected(database_url=serving_words.db.url, embedder="none:", toolsets="essential") as client:
        listed = (await client.list_tools()).tools
        stored = await call(client, "create_memory", content="The hinge is oiled in May.", emotion="neutral")
        found = await call(client, "search_memories", query="hinge", count_only=True)

    assert [tool.name for tool in listed] == [
        "create_memory", "search_memories", "recall_context", "update_memory", "forget_memories",
    ]  # fmt: skip
    assert len(compact(listed)) <= 6_000
    assert stored["memory"]["emotion"] == "neutral"
    assert found["total"] == 1


@pytest.mark.parametrize("name", TOOLS)
def test_each_description_says_what_when_and_what_instead_in_ninety_words(tools: list[Tool], name: str) -> None:
    [tool] = [tool for tool in tools if tool.name == name]
    text, _, _ = (tool.description or "").partition(" Also: ")  # the arguments that are only named

    assert 30 <= len(text.split()) <= 90
    assert re.search(r"\bUse (when|at|after|for|it)\b", text)
    assert any(other in text for other in TOOLS if other != name)
    assert re.search(r"[Ee]rror", text)


async def test_each_of_the_twelve_says_when_to_use_it_what_else_there_is_and_what_can_go_wrong(
    serving_words: Served,
) -> None:
    listed = (await serving_words.client.list_tools()).tools
    names = {tool.name for tool in listed}

    for tool in listed:
        text = tool.description or ""
        assert re.search(r"\bUse (when|to|for|after)\b", text), tool.name
        assert {*re.findall(r"\w+", text)} & (names - {tool.name}), tool.name
        assert re.search(r"[Ee]rror", text), tool.name
        assert tool.annotations is not None
        assert tool.annotations.open_world_hint is False
        assert tool.annotations.read_only_hint or tool.annotations.destructive_hint is not None
        assert tool.output_schema, tool.name


@pytest.mark.parametrize("name", TOOLS)
def test_each_input_schema_is_flat(tools: list[Tool], name: str) -> None:
    [tool] = [tool for tool in tools if tool.name == name]

    assert not re.search(r'"(\$ref|\$defs|oneOf|anyOf|allOf)"', json.dumps(tool.input_schema))
    assert tool.input_schema["type"] == "object"
    assert "additionalProperties" not in tool.input_schema  # as more is taken than is listed


@pytest.mark.parametrize("name", TOOLS)
def test_each_property_has_a_description_unless_it_is_obvious(tools: list[Tool], name: str) -> None:
    [tool] = [tool for tool in tools if tool.name == name]

    for property_, schema in tool.input_schema["properties"].items():
        obvious = "enum" in schema or "enum" in schema.get("items", {}) or str(schema.get("type")) in OBVIOUS
        named = property_ in ("user", "project", "collection", "session_id", "speaker", "source", "ids", "id")
        named = named or (name != "create_memory" and property_ in DESCRIBED_ONCE)
        assert schema.get("description") or obvious or named, property_


@pytest.mark.parametrize("name", TOOLS)
def test_each_answer_has_a_schema(tools: list[Tool], name: str) -> None:
    [tool] = [tool for tool in tools if tool.name == name]

    assert tool.output_schema is not None
    assert "ok" in tool.output_schema["properties"]
    assert all("embedding" not in part.get("properties", {}) for part in parts(tool.output_schema))


def test_the_annotations_say_what_a_call_does(tools: list[Tool]) -> None:
    answer = {
        tool.name: (
            tool.annotations.read_only_hint,
            tool.annotations.destructive_hint,
            tool.annotations.open_world_hint,
        )
        for tool in tools
        if tool.annotations
    }

    assert answer == {
        "create_memory": (False, False, False),
        "create_memories": (False, False, False),
        "search_memories": (True, None, False),
        "get_memories": (True, None, False),
        "update_memory": (False, True, False),
        "forget_memories": (False, True, False),
    }


@pytest.mark.shows(4)
def test_the_bounds_of_the_fields_are_told(tools: list[Tool]) -> None:
    schemas = {tool.name: tool.input_schema["properties"] for tool in tools}
    descriptions = {tool.name: tool.description or "" for tool in tools}

    assert schemas["create_memory"]["content"]["maxLength"] == 16_000
    assert schemas["create_memory"]["importance"]["default"] == 0.5
    assert "up to 200" in descriptions["create_memories"]
    assert "up to 20" in descriptions["get_memories"]
    assert schemas["search_memories"]["limit"]["maximum"] == 100


def test_every_argument_of_the_core_tools_is_described(tools: list[Tool]) -> None:
    told = {(tool.name, name): one for tool in tools for name, one in tool.input_schema["properties"].items()}

    assert {key for key, one in told.items() if not one.get("description") and "enum" not in one} == set()


# What the function declarations of Gemini's API, OpenAI and Anthropic all have; Gemini takes one type for each place.
SCALARS = {"string", "number", "integer", "boolean"}
KEYWORDS = {
    "type", "description", "enum", "default", "format", "items", "properties", "required", "pattern", "minimum", "maximum",
    "minItems", "maxItems", "minLength", "maxLength",
}  # fmt: skip


def everything_listed() -> dict[str, dict[str, Any]]:
    """Return the schema of each tool's arguments in each toolset and drop-in mode, as tools/list has it."""
    manager = MemoryManager(Settings(toolsets="all"))
    offered = {"all": manager.tools, "essential": MemoryManager(Settings(toolsets="essential")).tools}
    offered |= {system: tools_of(adapter_for(system, manager)) for system in COMPAT}
    return {
        f"{mode} {tool.name}": ToolBinding(tool).listed["inputSchema"] for mode, its in offered.items() for tool in its
    }


def test_each_schema_of_each_toolset_and_mode_is_what_every_models_api_takes() -> None:
    listed = everything_listed()

    assert len(listed) > 100
    for name, schema in listed.items():
        assert schema["type"] == "object", name
        for part in parts(schema):
            assert part.keys() <= KEYWORDS, f"{name}: {part.keys() - KEYWORDS}"
            assert part["type"] in SCALARS | {"array", "object"}, f"{name}: {part}"
            assert (part["type"] == "array") == bool(part.get("items")), f"{name}: {part}"
            assert part.get("format", "date-time") == "date-time", f"{name}: {part}"
            assert all(isinstance(one, str) for one in part.get("enum", ())), f"{name}: {part}"
            assert part["type"] == "string" or "enum" not in part, f"{name}: {part}"
            assert {*part.get("required", ())} <= part.get("properties", {}).keys(), f"{name}: {part}"


async def test_several_questions_are_taken_as_a_list_and_as_text(serving_words: Served) -> None:
    await call(serving_words.client, "create_memory", content="The lock of the shed is greased in autumn.")

    for query in (["lock", "shed"], '["lock", "shed"]', "lock"):
        assert (await call(serving_words.client, "search_memories", query=query))["results"], query
