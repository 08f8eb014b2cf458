"""What is given otherwise than the schema says: read as it is meant, told in the answer, the same by every door."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from helpers import call, read, refused, remember
from pgengram import Memory
from pgengram.errors import InvalidInput
from pgengram.inputs import Question
from pgengram.service.calls.moments import moment_of, read_moment
from pgengram.service.calls.vocabulary import split
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.transfer.importing import import_from

SAID = {"text": "Edda keeps bees.", "importance": "8/10", "kind": "Bug", "occurredAt": "7 November 2026"}


def of(memory: dict[str, Any]) -> tuple[Any, ...]:
    """Return what became of SAID."""
    return memory["content"], memory["importance"], memory["kind"], memory["occurred_at"]


MEANT = ("Edda keeps bees.", 0.8, "error", "2026-11-07T00:00:00Z")


async def test_an_answer_says_how_arguments_were_read_and_nothing_where_they_were_right(client: Client) -> None:
    told = await call(client, "create_memory", **SAID)
    right = await call(client, "create_memory", content="Edda sails.", importance=0.8, kind="fact")

    assert of(told["memory"]) == MEANT
    assert told["read"]["text"] == "content"
    assert told["read"]["importance"] == "8/10 → 0.8"
    assert told["read"]["kind"] == "Bug → error"
    assert "read" not in right


async def test_an_item_of_a_batch_says_how_it_was_read(client: Client) -> None:
    told = await call(client, "create_memories", items=[SAID, {"content": "Edda sails."}])

    assert told["results"][0]["read"]["importance"] == "8/10 → 0.8"
    assert "read" not in told["results"][1]


async def test_the_library_reads_moments_as_the_tools_do_and_nothing_else(settings: Settings) -> None:
    async with Memory(settings) as memory:
        stored = await memory.add("Edda keeps bees.", importance=0.8, kind="error", occurred_at="7 November 2026")

        assert of(dict(stored.memory)) == MEANT
        assert (await memory.get(f"memory://{stored.memory_id}"))["content"] == "Edda keeps bees."
        with pytest.raises(InvalidInput, match="importance"):
            await memory.add("Edda sails.", importance="8/10")  # type: ignore[arg-type]


async def test_an_import_reads_records_as_the_tools_do(manager: MemoryManager, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    said = {"record": "memory", **SAID, "occurred_at": SAID["occurredAt"]}
    del said["occurredAt"]
    file.write_text(json.dumps(said) + "\n", encoding="utf-8")

    report = await import_from(manager, "jsonl", str(file), dry_run=False, report=lambda *_: None)

    assert report.left == []
    [hit] = (await manager.search_memories(Question())).results
    assert of(hit) == MEANT


async def test_fields_beside_the_items_hold_for_every_item(client: Client) -> None:
    told = await call(client, "create_memories", items=["Edda sails.", {"content": "Edda reads.", "user": "Jon"}], user="Edda")  # fmt: skip

    users = [(await read(client, one["memory_id"]))["user"] for one in told["results"]]
    assert users == ["Edda", "Jon"]


async def test_a_note_beside_a_change_is_not_taken_for_its_content(client: Client) -> None:
    id_ = await remember(client, "Edda keeps bees.")

    error = await refused(client, "update_memory", id=id_, note="as she told", importance=0.9)

    assert "note" in error["message"]
    assert (await read(client, id_))["content"] == "Edda keeps bees."


@pytest.mark.parametrize(
    "given",
    [
        {"input": '{"query": "bees", "limit": 1}'},
        {"arguments": {"query": "bees", "limit": 1}},
        {"kwargs": {"q": "bees", "top_k": 1}},
        {"tool_input": '{"query": "bees", "limit": "1"}'},
        {"query": "bees", "limit": 1, "filters": "{}"},
    ],
    ids=repr,
)
async def test_arguments_may_be_in_an_object_or_its_text(client: Client, given: dict[str, Any]) -> None:
    await remember(client, "Edda sails.")
    wanted = await remember(client, "Edda keeps bees.")

    answer = await call(client, "search_memories", **given)

    assert [hit["id"] for hit in answer["results"]] == [wanted]
    assert "its fields" in answer["read"].values()


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("update_memory", {"id": "{id}", "before": {"content": "Edda keeps geese."}}),
        ("forget_memories", {"keep": {"ids": ["{id}"]}}),
        ("search_memories", {"kwargs": {"query": "bees", "nonsense": 1}}),
        ("search_memories", {"__arg1": "bees"}),
    ],
    ids=repr,
)
async def test_an_object_that_may_be_something_else_is_refused(
    client: Client, tool: str, given: dict[str, Any]
) -> None:
    id_ = await remember(client, "Edda keeps bees.")

    await refused(client, tool, **json.loads(json.dumps(given).replace("{id}", id_)))

    assert ((await read(client, id_))["content"], (await read(client, id_))["status"]) == ("Edda keeps bees.", "active")


@pytest.mark.parametrize("tool", ["memory_stats", "review_memories"])
async def test_what_a_client_adds_is_left_out_and_told_where_nothing_is_looked_for(client: Client, tool: str) -> None:
    answer = await call(client, tool, random_string="dummy", kwargs={})

    assert answer["read"]["random_string"] == "ignored: no such argument"


@pytest.mark.parametrize("query", [[], "*", None])
async def test_no_question_asks_for_all(client: Client, query: object) -> None:
    id_ = await remember(client, "Edda keeps bees.")

    assert [hit["id"] for hit in (await call(client, "search_memories", query=query, limit=1e9))["results"]] == [id_]


@pytest.mark.parametrize("value", [True, "many"])
async def test_a_limit_that_is_no_number_is_refused(client: Client, value: object) -> None:
    assert "limit" in (await refused(client, "search_memories", query="x", limit=value))["message"]


async def test_a_small_number_is_no_moment(client: Client) -> None:
    error = await refused(client, "create_memory", content="x", occurred_at=12)

    assert "occurred_at" in error["message"]


@pytest.mark.parametrize(("given", "read"), [
    ("yesterday 19:30", "2026-11-27 19:30"), ("gestern um 7:30", "2026-11-27 07:30"), ("next friday at 8:00 pm", "2026-12-04 20:00"),
    ("3 March 2026 at 12:15 am", "2026-03-03 00:15"), ("tomorrow at 9", "2026-11-29 09:00"), ("übermorgen um 19 Uhr", "2026-11-30 19:00"),
    ("next friday at 8 pm", "2026-12-04 20:00"), ("last week 9:00", None), ("yesterday 25:00", None), ("19:30", None),
])  # fmt: skip
def test_a_day_with_a_time_is_that_moment_and_no_longer_stretch_is(given: str, read: str | None) -> None:
    moment = read_moment(given, datetime(2026, 11, 28, 12, tzinfo=UTC))

    assert (moment and f"{moment:%Y-%m-%d %H:%M}") == read


@pytest.mark.parametrize(("given", "read"), [
    ("in zwei Wochen", "2026-12-12"), ("in 2 months", "2027-01-27"), ("December 3", "2026-12-03"), ("20 November", "2026-11-20"), ("next Friday", "2026-12-04"),
    ("Friday", "2026-11-27 or 2026-12-04"), ("am Donnerstag", "2026-11-26 or 2026-12-03"), ("March 3", "2026-03-03 or 2027-03-03"),
    ("3 March 2026", "2026-03-03"), ("yesterday", "2026-11-27"),
])  # fmt: skip
def test_when_a_thing_happens_is_asked_where_it_may_have_been_or_be_to_come(given: str, read: str) -> None:
    now = datetime(2026, 11, 28, 12, tzinfo=UTC)

    if " or " in read:
        with pytest.raises(InvalidInput, match=read):
            moment_of("occurred_at", given, now)
    else:
        assert f"{moment_of('occurred_at', given, now):%Y-%m-%d}" == read


def test_an_end_lies_ahead_and_the_beginning_of_a_search_behind() -> None:
    now = datetime(2026, 11, 28, 12, tzinfo=UTC)

    ends, since = (moment_of(name, "am Donnerstag", now) for name in ("expires_at", "since"))

    assert [f"{ends:%Y-%m-%d}", f"{since:%Y-%m-%d}"] == ["2026-12-03", "2026-11-26"]


async def test_before_a_day_leaves_that_day_out(client: Client) -> None:
    await remember(client, "Edda keeps bees.", occurred_at="2026-11-07T10:00:00Z")

    assert (await call(client, "search_memories", query="bees", until="2026-11-07"))["count"] == 1
    assert (await call(client, "search_memories", query="bees", before="2026-11-07"))["count"] == 0


async def test_tags_can_be_added_and_taken_away_without_naming_the_others(client: Client) -> None:
    id_ = await remember(client, "Edda keeps bees.", tags=["garden", "summer"])

    await call(client, "update_memory", id=id_, add_tags="honey", remove_tags=["Summer"])

    assert (await read(client, id_))["tags"] == ["garden", "honey"]


# -- filters -----------------------------------------------------------------------------------------------------------


async def test_a_filter_finds_every_spelling_of_a_name(client: Client) -> None:
    for project in ("Order Flow", "orderflow", "order-flow"):
        await remember(client, f"{project} has a budget.", project=project)

    told = await call(client, "search_memories", query="budget", project="ORDER_FLOW")

    assert {hit["project"] for hit in told["results"]} == {"Order Flow", "orderflow", "order-flow"}
    assert "ORDER_FLOW → " in told["read"]["project"]


async def test_a_filter_that_lets_nothing_through_names_what_there_is_and_counts_without_it(client: Client) -> None:
    await remember(client, "The budget is 40.", project="orderflow", user="Edda")

    told = await call(client, "search_memories", query="budget", project="orderfolw", user="Edda")

    assert told["count"] == 0
    assert "orderflow" in told["note"]
    assert "Without project: 1 found." in told["note"]


async def test_a_count_of_nothing_says_why_too(client: Client) -> None:
    await remember(client, "The budget is 40.", project="orderflow")

    told = await call(client, "search_memories", query="", project="ledger", count_only=True)

    assert told["total"] == 0
    assert "orderflow" in told["note"]


async def test_a_speaker_and_a_tag_are_found_in_another_spelling(client: Client) -> None:
    await remember(client, "The budget is 40.", speaker="Anna-Lena", tags=["year end"])

    assert (await call(client, "search_memories", query="budget", speaker="anna lena"))["count"] == 1
    assert (await call(client, "search_memories", query="budget", tags=["YearEnd"]))["count"] == 1


# -- ids ---------------------------------------------------------------------------------------------------------------


async def test_what_two_unknown_names_have_in_common_is_said_once(client: Client) -> None:
    await remember(client, "Edda keeps bees.")

    told = await call(client, "search_memories", query="bees", tags=["garden", "honey"])

    assert told["note"] == "No memory has a tag yet. Without tags: 1 found."


async def test_a_beginning_that_several_ids_share_names_their_ends(client: Client) -> None:
    # The clock's first eight digits change once in 65 seconds: two of three that follow each other share them.
    made = [await remember(client, text) for text in ("Edda sails.", "Edda reads.", "Edda sings.")]
    pairs = [(shared, ids) for ids in pairwise(made) for shared in range(8, 36) if ids[0][:shared] == ids[1][:shared]]
    shared, ids = max(pairs)

    error = await refused(client, "update_memory", id=ids[0][:shared], importance=0.9)

    assert all(id_[-8:] in error["message"] for id_ in ids)


# -- the same text elsewhere -------------------------------------------------------------------------------------------


async def test_the_same_text_about_another_user_is_stored_and_both_are_told(client: Client) -> None:
    one = await remember(client, "Prefers an aisle seat.", user="Edda")

    told = await call(client, "create_memory", content="Prefers an aisle seat.", user="Jon")

    [near] = told["near_duplicates"]
    assert told["created"] is True
    assert (near["id"], near["differs_in"], near["possible_conflict"]) == (one, ["user"], False)


async def test_a_similar_text_about_another_user_is_no_duplicate(client: Client) -> None:
    await remember(client, "Prefers an aisle seat when flying.", user="Edda")

    told = await call(client, "create_memory", content="Likes an aisle seat on flights.", user="Jon")

    assert "near_duplicates" not in told


# -- too long ----------------------------------------------------------------------------------------------------------


def test_a_text_in_parts_is_the_whole_text() -> None:
    text = "The mill stands by the river. " * 700 + "x" * 9_000

    parts = split(text, 4_000)

    assert max(map(len, parts)) <= 4_000
    assert "".join("".join(parts).split()) == "".join(text.split())


async def test_content_that_is_too_long_is_refused_with_the_call_that_stores_it_in_parts(client: Client) -> None:
    text = "The mill stands by the river. " * 700
    error = await refused(client, "create_memory", content=text)

    items = json.loads(error["hint"].partition("items=")[2].partition("), each")[0])
    assert len(items) == len(split(text, 4_000))
    assert (await call(client, "search_memories"))["count"] == 0


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_memories", {f"k{n}": 1 for n in range(60_000)}),
        ("search_memories", {"filters": {f"k{n}": 1 for n in range(60_000)}}),
        ("create_memory", {"content": "x", "metadata": {f"k{n}": 1 for n in range(60_000)}}),
        ("create_memories", {"items": [{f"k{n}": 1 for n in range(400)}] * 190}),
        ("get_memories", {"ids": [f"{n:08x}" for n in range(60_000)]}),
    ],
)
async def test_more_names_and_elements_than_any_call_needs_are_refused_unread(
    client: Client, tool: str, arguments: dict[str, Any]
) -> None:
    assert (await refused(client, tool, **arguments))["code"] == "LIMIT_EXCEEDED"
    assert (await refused(client, tool, **{f"k{n}": 1 for n in range(101)}))["message"].startswith("101 arguments")


@pytest.mark.parametrize("nothing", ["null", "undefined", "None"])
async def test_an_argument_that_a_program_left_empty_is_left_out(client: Client, nothing: str) -> None:
    stored = await call(client, "create_memory", content="Ada likes rum.", user=nothing, project=nothing, kind=nothing)

    shown = await read(client, stored["memory_id"])

    assert not {"user", "project", "kind"} & shown.keys()
    assert stored["read"]["project"] == f"{nothing} → left out"
