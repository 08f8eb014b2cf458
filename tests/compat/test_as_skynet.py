"""Skynet's clients go on as they were: the calls of its document, with the answers it documents."""

from __future__ import annotations

import pytest
from mcp import Client

from compat.conftest import refuses, says

SYSTEM = "skynet"
STORED = [
    {
        "content": "User prefers concise responses without verbose explanations",
        "metadata": {"type": "preference", "user": "alice", "importance": 0.9, "confidence": 0.95,
                     "tags": ["communication", "style"]},
    },
    {
        "content": "User tends to ask about authentication on Monday mornings",
        "metadata": {"type": "pattern", "user": "alice", "importance": 0.7, "emotion": "curiosity",
                     "tags": ["temporal", "authentication"]},
    },
    {
        "content": "User's production environment uses PostgreSQL 14",
        "metadata": {"type": "fact", "user": "alice", "importance": 0.8, "confidence": 1.0,
                     "tags": ["infrastructure", "database"]},
    },
]  # fmt: skip


async def outcome(client: Client) -> list[dict[str, object]]:
    return [await says(client, "memory_store", **call) for call in STORED]


async def test_it_has_these_two_tools(client: Client) -> None:
    assert [tool.name for tool in (await client.list_tools()).tools] == ["memory_store", "memory_search"]


async def test_storing_answers_with_the_memory_and_its_whole_metadata(client: Client) -> None:
    for call, answer in zip(STORED, await outcome(client), strict=True):
        assert answer["collection"] == "skynet_memories"
        assert answer["content"] == call["content"]
        metadata = answer["metadata"]
        assert isinstance(metadata, dict)
        assert metadata.items() >= call["metadata"].items()
        assert metadata["timestamp"] > 1_700_000_000_000
        assert str(answer["id"]).startswith(f"mem_{metadata['timestamp']}")


async def test_what_is_left_out_has_the_documented_default(client: Client) -> None:
    answer = await says(client, "memory_store", content="Tea is better than coffee.", metadata={"type": "insight"})

    assert (answer["metadata"]["importance"], answer["metadata"]["confidence"]) == (0.5, 0.8)
    assert answer["metadata"]["tags"] == []


@pytest.mark.shows(17, 43)
async def test_a_search_gives_the_nearest_first_with_their_distance(client: Client) -> None:
    await outcome(client)

    answer = await says(client, "memory_search", query="user preferences for API responses", nResults=3)

    assert (answer["query"], answer["count"]) == ("user preferences for API responses", 3)
    assert answer["results"][0]["content"] == STORED[0]["content"]
    distances = [one["distance"] for one in answer["results"]]
    assert distances == sorted(distances)
    assert 0 <= distances[0] < distances[-1] <= 2


@pytest.mark.shows(20)
async def test_the_documented_filters_work_together(client: Client) -> None:
    await outcome(client)

    facts = await says(client, "memory_search", query="database configuration", nResults=5,
                       filter={"type": "fact", "user": "alice", "minImportance": 0.7})  # fmt: skip
    curious = await says(client, "memory_search", query="performance issues", filter={"emotion": "curiosity"})
    of_bob = await says(client, "memory_search", query="database", filter={"user": "bob"})

    assert [one["content"] for one in facts["results"]] == [STORED[2]["content"]]
    assert [one["content"] for one in curious["results"]] == [STORED[1]["content"]]
    assert of_bob["results"] == []


async def test_another_collection_is_another_place(client: Client) -> None:
    await outcome(client)
    await says(client, "memory_store", content="The garden has roses.", metadata={"type": "fact"}, collection="garden")

    answer = await says(client, "memory_search", query="roses", collection="garden")

    assert [one["content"] for one in answer["results"]] == ["The garden has roses."]
    assert answer["results"][0]["collection"] == "garden"


async def test_an_unknown_type_is_refused(client: Client) -> None:
    assert (await refuses(client, "memory_store", content="x", metadata={"type": "secret"}))["code"] == "INVALID_INPUT"
