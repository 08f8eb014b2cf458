"""Pages: together they are the whole, without a repetition or a gap; budgets, counts and what is hidden."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from mcp import Client

from helpers import Served, call, examples, found, hits, owned_tables, read, refused, remember, remember_expired
from pgengram.errors import InvalidInput
from pgengram.inputs import Question
from pgengram.search.results import parse_cursor
from pgengram.service.manager import MemoryManager

SORTS = ("created", "updated", "occurred", "importance", "relevance", "accessed")
KINDS = ("fact", "person", "observation", "error", None)
MEMORIES = 60


@pytest.fixture(scope="module")
async def stored(serving: Served) -> list[str]:
    """Memories that differ, and often do not differ, in all that can be sorted by."""
    serving.db.empty(owned_tables())
    items = [
        {
            "content": f"Tea of sort {n} is {'green' if n % 3 else 'black'}.",
            "importance": n % 7 / 6,
            "kind": KINDS[n % 5],
            "pinned": n % 11 == 0,
            "tags": ["even"] if n % 2 == 0 else [],
            **({"occurred_at": f"20{10 + n % 9}-01-01T00:00:00Z"} if n % 4 else {}),
        }
        for n in range(MEMORIES)
    ]
    items = [{name: value for name, value in item.items() if value is not None} for item in items]
    answers = [await call(serving.client, "create_memories", items=items[start : start + 20]) for start in (0, 20, 40)]
    ids = [result["memory_id"] for answer in answers for result in answer["results"]]
    await call(serving.client, "get_memories", ids=ids[10:20])
    await call(serving.client, "update_memory", id=ids[30], importance=0.99)
    return ids


async def pages(client: Client, **question: Any) -> list[list[str]]:
    """Follow the cursors to the end."""
    answer = await call(client, "search_memories", **question)
    found_so_far = [[hit["id"] for hit in answer["results"]]]
    while cursor := answer.get("next_cursor"):
        answer = await call(client, "search_memories", **question, cursor=cursor)
        found_so_far.append([hit["id"] for hit in answer["results"]])
        assert len(found_so_far) <= 2 * MEMORIES, "the pages do not end"
    return found_so_far


def joined(parts: list[list[str]]) -> list[str]:
    return [id_ for part in parts for id_ in part]


@pytest.mark.shows(23)
@pytest.mark.parametrize("filters", [{}, {"tags": ["even"]}], ids=["all", "some"])
@pytest.mark.parametrize("sort", [sort for sort in SORTS if sort != "accessed"])
async def test_the_pages_of_a_list_are_the_whole_list(
    serving: Served, stored: list[str], sort: str, filters: dict[str, Any]
) -> None:
    whole = await found(serving.client, sort=sort, limit=100, **filters)
    parts = await pages(serving.client, sort=sort, limit=7, **filters)
    by_offset = [await found(serving.client, sort=sort, limit=7, offset=n, **filters) for n in range(0, len(whole), 7)]

    assert set(whole) == set(stored if not filters else stored[::2])
    assert joined(parts) == joined(by_offset) == whole
    assert all(len(part) == 7 for part in parts[:-1])


SHOWN = {"created": "created_at", "updated": "updated_at", "importance": "importance", "relevance": "relevance"}


@pytest.mark.shows(23)
@pytest.mark.parametrize("sort", SHOWN)
async def test_a_list_is_in_its_order(serving: Served, stored: list[str], sort: str) -> None:
    values = [hit[SHOWN[sort]] for hit in await hits(serving.client, sort=sort, limit=100, detail=True)]

    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1]


async def test_a_list_by_the_day_takes_the_day_of_storing_where_there_is_no_other(
    serving: Served, stored: list[str]
) -> None:
    listed = await hits(serving.client, sort="occurred", limit=100)

    days = [hit.get("occurred_at") or hit["created_at"] for hit in listed]
    assert days == sorted(days, reverse=True)


async def test_a_list_by_use_begins_with_what_was_read_last(serving: Served, stored: list[str]) -> None:
    await read(serving.client, stored[5])

    assert (await found(serving.client, sort="accessed"))[0] == stored[5]


async def test_the_pages_of_a_list_by_use_are_the_whole_list_though_being_shown_is_a_use(
    manager: MemoryManager,
) -> None:
    items = [{"content": f"Note {n}."} for n in range(30)]
    ids = [result["memory_id"] for result in (await manager.create_memories(items)).results]
    used = [ids[n] for n in (7, 21, 3)]
    for id_ in used:
        await manager.get_memories([id_])

    shown: list[str] = []
    cursor = ""
    for _ in range(10):
        answer = await manager.search_memories(Question(sort="accessed", limit=4, cursor=cursor))
        shown += [hit["id"] for hit in answer.results]
        await manager.accesses.flush()
        cursor = answer.next_cursor or ""
        if not cursor:
            break

    assert shown[:3] == used[::-1]
    assert len(shown) == 30
    assert set(shown) == set(ids)


@pytest.mark.parametrize("mode", ["auto", "semantic", "text"])
async def test_the_pages_of_a_ranking_are_the_whole_ranking(serving: Served, stored: list[str], mode: str) -> None:
    question = {"query": "which tea is green?", "mode": mode}

    whole = await found(serving.client, limit=100, **question)
    parts = await pages(serving.client, limit=9, **question)

    assert len(whole) == MEMORIES
    assert joined(parts) == whole


@pytest.mark.parametrize("query", ["", "green tea"])
async def test_pages_cut_by_a_budget_are_the_whole_all_the_same(serving: Served, stored: list[str], query: str) -> None:
    whole = await found(serving.client, query, limit=100)

    parts = await pages(serving.client, query=query, limit=20, max_chars=100)

    assert joined(parts) == whole
    assert {len(part) for part in parts[:-1]} <= {3, 4}


@pytest.mark.shows(23)
async def test_only_a_count_is_given_when_only_a_count_is_asked_for(serving: Served, stored: list[str]) -> None:
    answer = await call(serving.client, "search_memories", count_only=True, tags=["even"])

    assert (answer["total"], answer["count"], answer["results"], answer["search"]) == (MEMORIES // 2, 0, [], "count")
    assert "next_cursor" not in answer


@pytest.mark.shows(23)
@pytest.mark.parametrize("sort", [None, *SORTS])
async def test_a_memory_added_between_two_pages_of_a_list_moves_none_of_the_others(
    client: Client, sort: str | None
) -> None:
    question: dict[str, Any] = {"limit": 4} | ({"sort": sort} if sort else {})
    for n in range(12):
        await remember(client, f"Note {n}.", importance=n / 20)
    whole = await found(client, **(question | {"limit": 100}))

    first = await call(client, "search_memories", **question)
    await remember(client, "In between.", importance=1, kind="person")
    second = await call(client, "search_memories", **question, cursor=first["next_cursor"])
    await remember(client, "In between again.", importance=1, pinned=True)
    third = await call(client, "search_memories", **question, cursor=second["next_cursor"])

    assert [hit["id"] for page in (first, second, third) for hit in page["results"]] == whole


async def test_a_memory_forgotten_between_two_pages_leaves_no_gap(client: Client) -> None:
    ids = [await remember(client, f"Note {n}.") for n in range(9)][::-1]

    first = await call(client, "search_memories", limit=3)
    await call(client, "forget_memories", ids=ids[:2])
    second = await call(client, "search_memories", limit=3, cursor=first["next_cursor"])

    assert [hit["id"] for hit in second["results"]] == ids[3:6]


OTHER = [
    {"query": "other"},
    {"sort": "updated"},
    {"tags": ["even"]},
    {"mode": "text"},
    {"status": "archived"},
    {"user": "Ines"},
]


@pytest.mark.parametrize("other", OTHER, ids=str)
async def test_a_cursor_is_no_good_for_another_question(
    serving: Served, stored: list[str], other: dict[str, Any]
) -> None:
    first = await call(serving.client, "search_memories", query="tea", limit=3)

    error = await refused(
        serving.client, "search_memories", **({"query": "tea"} | other), limit=3, cursor=first["next_cursor"]
    )

    assert error["code"] == "INVALID_INPUT"
    assert "different query" in error["message"]


async def test_a_cursor_is_good_for_pages_of_another_length(serving: Served, stored: list[str]) -> None:
    whole = await found(serving.client, limit=100)
    first = await call(serving.client, "search_memories", limit=3)

    second = await found(serving.client, limit=50, detail=True, cursor=first["next_cursor"])

    assert second == whole[3:53]


def changed(cursor: str, place: int, value: Any) -> str:
    parts = json.loads(base64.urlsafe_b64decode(cursor))
    parts[place] = value
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


GARBAGE = [
    "x", "é", "AAAA", "!!!!", base64.urlsafe_b64encode(b"[1,2,3,4,5]").decode(), base64.urlsafe_b64encode(b'{"a":1}').decode(),
    base64.urlsafe_b64encode(b"[[[[[[[[").decode(), base64.urlsafe_b64encode(b"null").decode(),
]  # fmt: skip


@pytest.mark.parametrize("cursor", GARBAGE)
async def test_a_cursor_of_nobodys_making_is_refused(serving: Served, stored: list[str], cursor: str) -> None:
    error = await refused(serving.client, "search_memories", cursor=cursor)

    assert error["code"] == "INVALID_INPUT"
    assert "cursor" in error["message"]


CHANGES = [
    ("another moment", -3, "2020-01-01T00:00:00Z"), ("no moment", -3, "soon"), ("the first moment", -3, "0001-01-01T00:00:00+14:00"),
    ("another offset", -2, 3), ("before the beginning", -2, -1), ("an endless offset", -2, float("inf")),
    ("another key", -1, ["garbage", str(uuid4())]), ("no key", -1, [1, 5]), ("an object", -1, {"a": 1}), ("a word", -1, "word"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value"), [change[1:] for change in CHANGES], ids=[change[0] for change in CHANGES])
async def test_a_cursor_that_was_tampered_with_is_refused(
    serving: Served, stored: list[str], place: int, value: Any
) -> None:
    first = await call(serving.client, "search_memories", sort="updated", limit=3)

    error = await refused(
        serving.client, "search_memories", sort="updated", cursor=changed(first["next_cursor"], place, value)
    )

    assert error["code"] == "INVALID_INPUT"


@effort(max_examples=examples(100))
@given(st.text(max_size=512) | st.binary(max_size=380).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_any_other_text_is_no_cursor(cursor: str) -> None:
    with pytest.raises(InvalidInput):
        parse_cursor(cursor, "0" * 12)


# -- counts, budgets, detail ---------------------------------------------------------------------------------------


@pytest.mark.shows(21)
@pytest.mark.parametrize("detail", [False, True])
async def test_contents_together_stay_within_the_budget_unless_the_first_is_longer(
    client: Client, detail: bool
) -> None:
    for n in range(6):
        await remember(client, f"{n} " + "word " * 100)  # 502 characters, shown at 300

    def total(shown: list[dict[str, Any]]) -> int:
        return sum(len(hit["content"].removesuffix("…")) for hit in shown)

    for query in ("", "word"):
        assert 0 < total(await hits(client, query, max_chars=1_100, detail=detail)) <= 1_100
        assert len(await hits(client, query, max_chars=1_100, detail=detail)) == (2 if detail else 3)
        assert len(await hits(client, query, max_chars=100, detail=detail)) == 1


@pytest.mark.shows(13)
async def test_what_is_hidden_is_counted_by_reason(client: Client) -> None:
    ids = [await remember(client, f"Note {n}.") for n in range(4)]
    assert "hidden" not in await call(client, "search_memories")
    await remember_expired(client, "Over.")
    await remember(client, "Not yet over.", expires_at="2099-01-01T00:00:00Z")
    await call(client, "forget_memories", ids=ids[:2])
    await call(client, "update_memory", id=ids[2], status="archived")

    listed = await call(client, "search_memories")
    assert listed["hidden"] == {"expired": 1, "archived": 1, "forgotten": 2}
    for question in ({"query": "note"}, {"query": "Note", "mode": "substring"}):
        answer = await call(client, "search_memories", **question)
        assert answer["hidden"] == {"archived": 1, "forgotten": 2}
    assert await found(client, "Note", mode="text") == [ids[3]]
    assert set(await found(client, "Note", status="invalidated")) == set(ids[:2])
    assert await found(client, "Note", status="archived") == [ids[2]]


async def test_pages_by_meaning_alone_go_on_beyond_the_first_hundred(client: Client) -> None:
    items = [{"content": f"Kettle number {n} whistles.", "dedup_policy": "insert"} for n in range(130)]
    await call(client, "create_memories", items=items)

    pages_ = await pages(client, query="a kettle", mode="semantic", limit=50)

    seen = [id_ for page in pages_ for id_ in page]
    assert len(seen) == len({*seen}) == 130


@pytest.mark.parametrize("mode", ["auto", "semantic", "text"])
async def test_what_is_hidden_is_told_only_where_it_would_have_been_a_hit(client: Client, mode: str) -> None:
    gone = await remember(client, "The ladder leans on the barn.")
    await call(client, "forget_memories", ids=[gone])
    await remember(client, "Ines drinks tea.")

    async def hidden(query: str, **filters: str) -> dict[str, int]:
        return dict((await call(client, "search_memories", query=query, mode=mode, **filters)).get("hidden", {}))

    assert await hidden("ladder") == {"forgotten": 1}
    assert await hidden("What is the capital of Mongolia?") == {}
    assert await hidden("ladder", collection="elsewhere") == {}
    assert await hidden("ladder", status="archived") == {}


@pytest.mark.parametrize("mode", ["auto", "semantic", "text", "substring"])
@pytest.mark.parametrize("query", ["", "zebra quantum", "deploy"])
async def test_a_count_is_what_all_pages_hold_together(client: Client, mode: str, query: str) -> None:
    texts = ["Deploy on Fridays.", "Deploy with care.", "Ines drinks tea.", "The shed is red."]
    await call(client, "create_memories", items=[{"content": text} for text in texts])

    counted = await call(client, "search_memories", query=query, mode=mode, count_only=True)

    pages = [await hits(client, query, mode=mode, limit=3, offset=offset) for offset in (0, 3)]
    assert counted["total"] == sum(map(len, pages))


async def test_without_an_embedder_a_count_counts_what_holds_the_words(wordless: Served) -> None:
    for text in ("Deploy on Fridays.", "Ines drinks tea."):
        await remember(wordless.client, text)

    async def count(query: str) -> int:
        return int((await call(wordless.client, "search_memories", query=query, count_only=True))["total"])

    assert [await count(query) for query in ("", "deploy", "zebra quantum")] == [2, 1, 0]
