"""No answer is longer than a language model takes: the rest comes with a cursor, or is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import cycle, islice
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from mcp import Client
from pydantic import BaseModel

from helpers import Answer, Database, Served, call, connected, examples, said
from pgengram import Memory
from pgengram.mcp.short_answers import in_brief, in_full
from pgengram.service.answers.room import LONGER, bounded_as_it_is, within_room
from pgengram.views import Found, Page, Read, Recalled, Stored, StoredMany

MOST = 48_000  # bytes: about 12,000 tokens, which clients get as text and as an object
COUNT = 20
LONG_IN_JSON = '"\\\x01\n\t\u2028😀浮a'  # characters of one to four bytes, which JSON writes with up to six


async def asked(client: Client, tool: str, **arguments: Any) -> Answer:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, said(answer)
    assert len(said(answer).encode()) <= MOST
    told: Answer = json.loads(said(answer))
    assert answer.structured_content == told
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


def bytes_of(answer: Any) -> int:
    return len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode())


def of_length(unit: str, length: int) -> str:
    return "".join(islice(cycle(unit), length))


def as_hit(number: int, text: str) -> Answer:
    at = datetime(2026, 5, 12, tzinfo=UTC).isoformat()
    return {"id": str(UUID(int=number)), "content": text, "status": "active", "created_at": at}


def as_found(hits: list[Answer], more: list[str]) -> Found:
    page = Page(lambda count: {"next_cursor": f"after {count}"}, lambda _: None)
    turns = [{"cite": f"turn {number}", "role": "user", "text": text} for number, text in enumerate(more)]
    return Found(query=more[0], count=len(hits), results=hits, search="words", turns=turns or None, page=page)


def as_read(memories: list[Answer], more: list[str]) -> Read:
    changes = [{"version": number, "content": text} for number, text in enumerate(more)]
    return Read(memories=[{**memory, "history": changes} for memory in memories], missing=[])


def as_recalled(hits: list[Answer], more: list[str]) -> Recalled:
    lines = ["<memories>", *(hit["content"] for hit in hits), *more, "</memories>"]
    return Recalled(count=len(hits), context="\n".join(lines), memory_ids=[hit["id"] for hit in hits])


def as_stored(hits: list[Answer], more: list[str]) -> StoredMany:
    results = [{**hit, "ok": True, "memory_id": hit["id"], "may_replace": hits[:5]} for hit in hits]
    return StoredMany(results=results, created=len(hits), failed=0, message=more[0], read=dict(enumerate_as_text(more)))


def enumerate_as_text(values: list[str]) -> list[tuple[str, str]]:
    return [(str(number), value) for number, value in enumerate(values)]


@effort(max_examples=examples(40))
@given(
    form=st.sampled_from([as_found, as_read, as_recalled, as_stored]),
    shown=st.sampled_from([in_brief, in_full]),
    unit=st.text(LONG_IN_JSON, min_size=1, max_size=3),
    lengths=st.lists(st.sampled_from([1, 300, 2_000, 7_000]), min_size=1, max_size=100),
    beside=st.lists(st.sampled_from([1, 300, 7_000, 20_000]), min_size=1, max_size=60),
)
def test_whatever_the_texts_are_made_of_an_answer_has_no_more_bytes_than_it_may(
    form: Any, shown: Any, unit: str, lengths: list[int], beside: list[int]
) -> None:
    """Counted as it is sent: a quote or a control character takes more room in JSON than in a text."""
    hits = [as_hit(number, of_length(unit, length)) for number, length in enumerate(lengths)]
    view = form(hits, [of_length(unit, length) for length in beside])

    answer = within_room(view, shown)

    assert bytes_of(answer) <= MOST
    whole = [one.get("content", one.get("text")) for one in answer.get("results", []) if isinstance(view, Found)]
    assert whole == [hit["content"] for hit in hits][: len(whole)]
    if isinstance(view, Found):
        assert whole
        assert len(whole) == len(hits) or answer["next_cursor"] == f"after {len(whole)}"
    if isinstance(view, Read):
        ids = [memory["id"] for memory in answer["memories"]] + answer.get("not_shown", [])
        assert ids == [hit["id"] for hit in hits]
        assert all(memory["content"] == hit["content"] for memory, hit in zip(answer["memories"], hits, strict=False))
    if isinstance(view, Recalled):
        assert answer["context"].endswith("</memories>")


@pytest.mark.parametrize(
    "view",
    [
        as_read([as_hit(1, "\x01" * 16_000)], []),
        Stored(memory_id=str(UUID(int=1)), message="Remembered.", created=True, memory=as_hit(1, "\x01" * 16_000)),
    ],
)
def test_a_memory_that_is_longer_alone_comes_whole_and_the_answer_says_so(view: BaseModel) -> None:
    answer = within_room(view, in_full)

    [memory] = answer.get("memories") or [answer["memory"]]
    assert answer.get("memory_id", memory["id"]) == memory["id"]
    assert memory["content"] == "\x01" * 16_000
    assert LONGER in answer["note"]


@given(
    unit=st.text(LONG_IN_JSON, min_size=1, max_size=3), lengths=st.lists(st.sampled_from([1, 300, 7_000]), max_size=90)
)
def test_what_another_systems_tool_answers_is_counted_as_it_is_sent(unit: str, lengths: list[int]) -> None:
    texts = [of_length(unit, length) for length in lengths]
    for answer in ("\n".join(texts), texts, {"memories": texts, "count": len(texts), "tags": texts}):
        shown, note = bounded_as_it_is(answer)

        sent = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
        assert len(sent.encode()) + len(note.encode()) <= MOST
        assert bool(note) == (shown != answer)


@pytest.mark.parametrize("character", ['"', "\x01", "😀"])
async def test_memories_of_such_characters_fit_into_every_answer(database: Database, character: str) -> None:
    items = [{"content": f"{n} harbour {character * 290}", "user": "u" + character * 20} for n in range(100)]
    async with connected(database_url=database.url, embedder="none:", answers="short") as client:
        ids = (await asked(client, "create_memories", items=items))["ids"]
        found = await asked(client, "search_memories", query="harbour", limit=100)
        page = await asked(client, "search_memories", query="harbour", limit=100, cursor=found.get("next_cursor", "0"))
        await asked(client, "search_memories", query="harbour", limit=100, detail=True)
        await asked(client, "get_memories", ids=ids[:20], include=["history"])
        await asked(client, "recall_context", max_chars=50_000)
        await asked(client, "forget_memories", ids=ids, hard=True)

    assert len({hit["id"] for one in (found, page) for hit in one["results"]}) == 100
