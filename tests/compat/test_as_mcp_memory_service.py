"""The clients of mcp-memory-service go on as they were: its core tools, with the names of its memories."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mcp import Client

from compat.conftest import refuses, says

SYSTEM = "mcp-memory-service"


async def stored(client: Client, content: str, **metadata: Any) -> str:
    answer = await says(client, "memory_store", content=content, metadata=metadata)
    assert answer["success"], answer
    return str(answer["content_hash"])


async def test_it_has_its_core_tools(client: Client) -> None:
    assert {tool.name for tool in (await client.list_tools()).tools} == {
        "memory_store", "memory_search", "memory_list", "memory_delete", "memory_update", "memory_health",
    }  # fmt: skip


async def test_what_is_stored_comes_back_with_tags_type_and_metadata(client: Client) -> None:
    hash_ = await stored(client, "Deploys happen on Tuesdays.", tags="ops,Deploy", type="note", author="Ada")

    [memory] = (await says(client, "memory_search", query="When do we release?"))["memories"]

    assert (memory["content_hash"], memory["tags"], memory["memory_type"]) == (hash_, ["ops", "deploy"], "note")
    assert memory["metadata"] == {"author": "Ada"}
    assert abs(memory["created_at"] - datetime.now(UTC).timestamp()) < 3_600
    assert memory["relevance_score"] > 0


async def test_nearly_the_same_is_stored_within_a_conversation_only(client: Client) -> None:
    await stored(client, "The cat likes to sleep on the red sofa in the living room.")
    call = {"content": "In the living room the cat likes to sleep on the red sofa."}

    assert not (await says(client, "memory_store", **call))["success"]
    assert (await says(client, "memory_store", **call, conversation_id="c1"))["success"]


async def test_modes_tags_and_time_narrow_a_search(client: Client) -> None:
    tea = await stored(client, "Tea comes from China.", tags=["drink", "asia"])
    await stored(client, "Coffee comes from Ethiopia.", tags=["drink"])
    today = datetime.now(UTC).date().isoformat()

    for asked in (
        {"query": "a chin", "mode": "exact"}, {"query": "China", "mode": "exact"}, {"tags": "drink,asia", "tag_match": "all"},
        {"query": "tea", "mode": "hybrid", "limit": 1}, {"query": "tea", "time_expr": "today", "limit": 1},
        {"tags": ["asia"], "after": today},
    ):  # fmt: skip
        expected = [] if asked.get("query") == "a chin" else [tea]
        assert [one["content_hash"] for one in (await says(client, "memory_search", **asked))["memories"]] == expected
    assert (await says(client, "memory_search", before="2001-01-01"))["total"] == 0
    assert (await refuses(client, "memory_search", after="whenever"))["code"] == "INVALID_INPUT"


async def test_pages_are_counted_and_told_by_type(client: Client) -> None:
    for number in range(3):
        await stored(client, f"Decision number {number} of the board.", type="decision")
    await stored(client, "A learning.", type="learning")

    page = await says(client, "memory_list", page=2, page_size=2, memory_type="decision")

    assert (len(page["memories"]), page["total"], page["has_more"]) == (1, 3, False)
    assert (await says(client, "memory_health"))["statistics"]["total_memories"] == 4


async def test_an_update_changes_what_is_named_and_deleting_needs_a_condition(client: Client) -> None:
    one, other = await stored(client, "One.", tags=["old"], a=1), await stored(client, "Other.", tags=["new"])

    updates = {"tags": ["old", "kept"], "memory_type": "decision", "metadata": {"b": 2}}
    changed = await says(client, "memory_update", content_hash=one, updates=updates)
    assert (changed["tags"], changed["memory_type"], changed["metadata"]) == (
        ["old", "kept"],
        "decision",
        {"a": 1, "b": 2},
    )
    assert (await refuses(client, "memory_delete"))["code"] == "INVALID_INPUT"
    preview = await says(client, "memory_delete", tags=["old"], dry_run=True)
    assert (preview["deleted_hashes"], preview["dry_run"]) == ([one], True)
    assert (await says(client, "memory_delete", tags=["old"]))["deleted_count"] == 1
    assert (await says(client, "memory_delete", content_hash=other))["deleted_hashes"] == [other]
    assert (await says(client, "memory_list"))["memories"] == []
    assert (await refuses(client, "memory_delete", content_hash="deadbeef" * 4))["code"] == "NOT_FOUND"
