"""No answer is longer than a language model takes: the rest comes with a cursor, or is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client

from helpers import Answer, Served, call, said
from pgengram import Memory

MOST = 50_000  # bytes: about 12,500 tokens, which clients get as text and as an object
COUNT = 20


async def asked(client: Client, tool: str, **arguments: Any) -> Answer:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, said(answer)
    assert len(said(answer).encode()) <= MOST
    assert len(json.dumps(answer.structured_content, ensure_ascii=False).encode()) <= MOST * 1.05
    told: Answer = json.loads(said(answer))
    return told


@pytest.fixture
async def ids(wordless: Served) -> list[str]:
    """Twenty memories as long as they may be, half of them in a script of three bytes a character."""
    texts = [f"Harbour {n}. " + f"buoy {n} was lit. " * 930 for n in range(COUNT // 2)]
    texts += [f"Harbour {n}. " + f"浮标{n}亮了。" * 1_900 for n in range(COUNT // 2)]
    items = [{"content": text, "metadata": {"log": "x" * 500}, "tags": ["sea"]} for text in texts]
    told = await call(wordless.client, "create_memories", items=items)
    return [one["memory_id"] for one in told["results"]]


@pytest.mark.parametrize(
    "question", [{"query": "harbour"}, {"query": ""}, {"query": "buoy", "mode": "substring"}, {"sort": "importance"}]
)
async def test_a_search_in_detail_goes_on_with_the_cursor(
    wordless: Served, ids: list[str], question: dict[str, Any]
) -> None:
    found: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(2 * COUNT):
        answer = await asked(wordless.client, "search_memories", limit=100, detail=True, **question, **cursor)
        found += [hit["id"] for hit in answer["results"]]
        cursor = {name: answer[name] for name in ("next_cursor", "next_offset") if name in answer}
        cursor = {name.removeprefix("next_"): value for name, value in cursor.items()}
        if not cursor:
            break

    assert len(found) == len({*found})
    assert {*found} == ({*ids[: COUNT // 2]} if "mode" in question else {*ids})


async def test_memories_that_do_not_fit_are_named_to_be_read_next(wordless: Served, ids: list[str]) -> None:
    left, read, calls = ids, list[str](), 0
    while left:
        answer = await asked(wordless.client, "get_memories", ids=left)
        read += [memory["id"] for memory in answer["memories"]]
        left, calls = answer.get("not_shown", []), calls + 1

    assert sorted(read) == sorted(ids)
    assert 1 < calls <= COUNT


async def test_a_long_history_is_cut_and_the_memory_is_not(wordless: Served, ids: list[str]) -> None:
    for n in range(6):
        await call(wordless.client, "update_memory", id=ids[0], content=f"Version {n}. " + "The tide came in. " * 850)

    answer = await asked(wordless.client, "get_memories", ids=[ids[0]], include=["history"])

    [memory] = answer["memories"]
    assert memory["content"].endswith("The tide came in.")
    assert len(memory["history"]) == 7
    assert "…" in json.dumps(memory["history"], ensure_ascii=False)


async def test_previews_of_much_are_bounded_and_say_what_is_missing(wordless: Served) -> None:
    items = [{"content": f"Boat {n} of the harbour. " + "It is green. " * 40, "user": "u" * 200} for n in range(200)]
    told = await call(wordless.client, "create_memories", items=items)
    ids = [one["memory_id"] for one in told["results"]]

    plan = [{"action": "tag", "ids": ids[n : n + 50], "tags": [f"t{n}"]} for n in range(0, 200, 50)]
    answer = await asked(wordless.client, "tidy_memories", action="apply", plan=plan)
    again = await asked(wordless.client, "forget_memories", ids=ids, hard=True)

    assert answer["confirm_token"]
    assert again["confirm_token"]
    for one in (answer, again):
        assert one.get("left_out") is None or "left_out" in one["note"]


async def test_a_program_gets_all_of_it(wordless: Served, ids: list[str]) -> None:
    async with Memory(database_url=wordless.db.url, embedder="none:") as memory:
        assert len((await memory.search("harbour", limit=100, detail=True)).results) == COUNT


@pytest.mark.parametrize("mode", ["auto", "text", "semantic", "substring"])
@pytest.mark.parametrize("query", ["*", "*:*", ".*", " \n"])
async def test_a_wildcard_lists_the_days_memories_with_a_cursor(wordless: Served, mode: str, query: str) -> None:
    items = [{"content": f"Note {n} of the day.", "occurred_at": "2026-05-12"} for n in range(30)]
    other = {"content": "A note of another day.", "occurred_at": "2026-05-13"}
    await call(wordless.client, "create_memories", items=[*items, other])
    when = {"since": "2026-05-12", "until": "2026-05-12"}

    first = await asked(wordless.client, "search_memories", query=query, mode=mode, limit=20, **when)
    rest = await asked(
        wordless.client, "search_memories", query=query, mode=mode, limit=20, cursor=first["next_cursor"], **when
    )
    counted = await asked(wordless.client, "search_memories", query=[query], mode=mode, count_only=True, **when)

    assert (len(first["results"]), len(rest["results"]), counted["total"]) == (20, 10, 30)
    assert "evidence" not in first


@pytest.mark.parametrize("query", ["%", "?", "_", "..."])
async def test_other_signs_of_anything_list_where_characters_do_not_count(wordless: Served, query: str) -> None:
    await call(wordless.client, "create_memory", content="The rent rose by 3%.")

    assert len((await asked(wordless.client, "search_memories", query=query))["results"]) == 1
    exact = await asked(wordless.client, "search_memories", query=query, mode="substring")
    assert len(exact["results"]) == (query == "%")
