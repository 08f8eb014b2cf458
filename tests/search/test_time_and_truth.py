"""What was held true at a moment, what is over, and what was forgotten or restored."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from mcp import Client

from helpers import Database, call, found, hits, nightly, read, remember, remember_expired

FUTURE = "2099-01-01T00:00:00Z"
MODES: list[dict[str, Any]] = [
    {"mode": "auto"},
    {"mode": "semantic"},
    {"mode": "text"},
    {"mode": "substring"},
    {"sort": "relevance"},
]


def now() -> str:
    return datetime.now(UTC).isoformat()


@pytest.mark.parametrize("how", MODES, ids=lambda how: str(*how.values()))
async def test_what_was_forgotten_was_true_until_then(client: Client, how: dict[str, Any]) -> None:
    oslo = await remember(client, "Mira lives in Oslo.", occurred_at="2024-01-01T00:00:00Z")
    known = now()
    bergen = await remember(client, "Mira lives in Bergen.")
    await call(client, "forget_memories", ids=[oslo], reason="moved", replaced_by_ids=[bergen])

    question = {"query": "lives in", **how}

    assert await found(client, **question) == [bergen]
    assert await found(client, **question, as_of=known) == [oslo]
    assert await found(client, **question, as_of="2024-01-01T00:00:00Z") == [oslo]
    assert await found(client, **question, as_of="2023-12-31T00:00:00Z") == []
    assert await found(client, **question, as_of=now()) == [bergen]


async def test_what_was_restored_is_true_again_and_has_been_all_along(client: Client) -> None:
    id_ = await remember(client, "The door code is 4711.")
    outcome = now()
    await call(client, "forget_memories", ids=[id_])
    gone = now()
    assert await found(client, "door code") == []
    assert await found(client, "door code", as_of=gone) == []
    assert await found(client, "door code", as_of=outcome) == [id_]

    await call(client, "update_memory", id=id_, status="active")

    for moment in (outcome, gone, now()):
        assert await found(client, "door code", as_of=moment) == [id_]
    assert await found(client, "door code", mode="text") == [id_]


@pytest.mark.parametrize("how", MODES, ids=lambda how: str(*how.values()))
async def test_what_is_only_held_for_a_task_was_true_at_no_moment(
    client: Client, db: Database, how: dict[str, Any]
) -> None:
    held, lasting = await remember(client, "The tea is brewing."), await remember(client, "The tea is from Assam.")
    db.rows("UPDATE memories SET status = 'working' WHERE id = %s", [held])

    assert await found(client, "tea", **how, as_of=now()) == [lasting]


async def test_as_of_is_counted_like_it_is_found(client: Client) -> None:
    ids = [await remember(client, f"Note {n}.", occurred_at=f"202{n}-01-01T00:00:00Z") for n in range(5)]
    await call(client, "forget_memories", ids=ids[:2])

    answer = await call(client, "search_memories", as_of="2022-06-01T00:00:00Z", count_only=True)

    assert answer["total"] == 3


@pytest.mark.shows(13)
@pytest.mark.parametrize("how", MODES, ids=lambda how: str(*how.values()))
async def test_what_is_over_is_hidden_and_what_will_be_over_is_not(client: Client, how: dict[str, Any]) -> None:
    await remember_expired(client, "The offer on green tea ends.", importance=1)
    later = await remember(client, "The offer on black tea ends.", expires_at=FUTURE)

    assert await found(client, "offer", **how) == [later]
    assert await found(client, "offer", **how, tags=[]) == [later]
    assert (await call(client, "search_memories", query="offer", **how))["hidden"] == {"expired": 1}


@pytest.mark.parametrize("how", MODES, ids=lambda how: str(*how.values()))
async def test_what_is_over_was_true_while_it_lasted(client: Client, how: dict[str, Any]) -> None:
    binding = await remember(
        client, "The offer ends.", occurred_at="2025-01-01T00:00:00Z", expires_at="2025-02-01T00:00:00Z"
    )

    assert await found(client, "offer", **how, as_of="2025-01-15T00:00:00Z") == [binding]
    assert await found(client, "offer", **how, as_of="2025-02-15T00:00:00Z") == []


@pytest.mark.shows(13)
async def test_an_expiry_that_is_cleared_shows_the_memory_again(client: Client) -> None:
    id_ = await remember_expired(client, "The offer ends.")

    await call(client, "update_memory", id=id_, clear=["expires_at"])

    answer = await call(client, "search_memories", query="offer")
    assert [hit["id"] for hit in answer["results"]] == [id_]
    assert "hidden" not in answer


@pytest.mark.parametrize("hidden", ["expired", *nightly("forgotten")])
async def test_three_hundred_better_matches_that_are_hidden_leave_room_for_the_others(
    client: Client, db: Database, hidden: str
) -> None:
    over: list[str] = []
    for start in (0, 150):
        items = [
            {"content": f"Green tea, green tea, green tea {n}.", "importance": 1.0} for n in range(start, start + 150)
        ]
        over += [result["memory_id"] for result in (await call(client, "create_memories", items=items))["results"]]
    live = {await remember(client, f"{what} goes well with green tea.") for what in ("Cake", "Bread", "Rice")}
    if hidden == "forgotten":
        for start in range(0, 300, 150):
            many = {"ids": over[start : start + 150]}
            shown = await call(client, "forget_memories", **many)
            await call(client, "forget_memories", **many, confirm_token=shown["confirm_token"])
    else:
        db.rows("UPDATE memories SET expires_at = now() - interval '1 day' WHERE content LIKE %s", ["Green%"])

    for how in MODES:
        assert set(await found(client, "green tea", **how)) == live
        assert set(await found(client, "green tea", **how, user=None)) == live
    answer = await call(client, "search_memories", query="green tea")
    assert answer["hidden"] == {hidden: 10}  # as many as the answer could hold
    assert set((await call(client, "recall_context", context="green tea"))["memory_ids"]) == live
    assert (await call(client, "search_memories", query="green tea", mode="text", count_only=True))["total"] == 3


async def test_a_forgotten_memory_is_read_by_id_with_the_reason(client: Client) -> None:
    id_ = await remember(client, "Old.")
    await call(client, "forget_memories", ids=[id_], reason="no longer so")

    memory = await read(client, id_)

    assert (memory["status"], memory["reason"]) == ("invalidated", "no longer so")
    assert [hit["id"] for hit in await hits(client, "old", status="invalidated")] == [id_]


# -- supersession ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", MODES, ids=lambda how: str(*how.values()))
async def test_each_moment_has_the_one_that_held_then(client: Client, how: dict[str, Any]) -> None:
    years = ("2019", "2021", "2023")
    homes = [
        await remember(client, f"Mira lives in {town}.", occurred_at=f"{year}-01-01T00:00:00Z", dedup_policy="insert")
        for town, year in zip(("Oslo", "Bergen", "Lyon"), years, strict=True)
    ]
    for old, new in pairwise(homes):
        await call(client, "forget_memories", ids=[old], reason="moved", replaced_by_ids=[new])

    for home, year in zip(homes, years, strict=True):
        assert await found(client, "lives in", **how, as_of=f"{year}-06-01T00:00:00Z") == [home]
    assert await found(client, "lives in", **how, as_of="2022-12-31T23:59:59Z") == [homes[1]]
    assert await found(client, "lives in", **how) == [homes[2]]


async def test_what_will_be_replaced_holds_until_then(client: Client) -> None:
    old = await remember(client, "The office is in Ghent.", occurred_at="2020-01-01T00:00:00Z")
    new = await remember(client, "The office is in Bruges.", occurred_at="2098-01-01T00:00:00Z")

    await call(client, "forget_memories", ids=[old], replaced_by_ids=[new])

    assert await found(client, "office", as_of="2097-12-31T00:00:00Z") == [old]
    assert await found(client, "office", as_of="2098-01-02T00:00:00Z") == [new]


async def test_what_was_replaced_ends_where_its_replacement_is_corrected_to_begin(client: Client) -> None:
    old = await remember(client, "The office is in Ghent.", occurred_at="2020-01-01T00:00:00Z")
    new = await remember(client, "The office is in Bruges.", occurred_at="2023-01-01T00:00:00Z")
    await call(client, "forget_memories", ids=[old], replaced_by_ids=[new])

    await call(client, "update_memory", id=new, occurred_at="2022-01-01T00:00:00Z")

    assert await found(client, "office", as_of="2021-12-31T00:00:00Z") == [old]
    assert await found(client, "office", as_of="2022-06-01T00:00:00Z") == [new]


async def test_a_hit_that_was_superseded_points_to_the_newest(client: Client) -> None:
    one, two, three, other = [
        await remember(client, text) for text in ("Port 5432.", "Port 5433.", "Port 5434.", "Port 5435 too.")
    ]
    outcome = now()
    await call(client, "forget_memories", ids=[one], replaced_by_ids=[two])
    await call(client, "forget_memories", ids=[two], replaced_by_ids=[three, other])

    newest = {hit["id"]: hit["superseded_by"] for hit in await hits(client, "port", status="invalidated")}
    assert newest == {one: [three, other], two: [three, other]}
    newest = {hit["id"]: hit.get("superseded_by") for hit in await hits(client, "port", as_of=outcome)}
    assert newest == {three: None, other: None}
    memory = await read(client, one)
    assert (memory["replaced_by"], memory["superseded_by"]) == ([two], [three, other])


async def test_memories_that_replaced_each_other_in_a_circle_point_to_whoever_holds(client: Client) -> None:
    one, two = await remember(client, "The gate is red."), await remember(client, "The gate is blue.")
    await call(client, "forget_memories", ids=[one], replaced_by_ids=[two])
    await call(client, "update_memory", id=one, status="active")
    await call(client, "forget_memories", ids=[two], replaced_by_ids=[one])
    assert (await read(client, two))["superseded_by"] == [one]

    await call(client, "forget_memories", ids=[one])

    assert "superseded_by" not in await read(client, two)


# -- correction in place -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", MODES, ids=lambda how: str(*how.values()))
async def test_a_text_that_was_corrected_since_is_shown_as_it_was_told(client: Client, how: dict[str, Any]) -> None:
    id_ = await remember(client, "Mira lives in Oslo.", tags=["home"], importance=0.5)
    first = now()
    await call(client, "update_memory", id=id_, content="Mira lives in Bergen.", tags=["move"])
    second = now()
    await call(client, "update_memory", id=id_, content="Mira lives in Lyon.", importance=1)

    [then] = await hits(client, "lives in", **how, as_of=first)
    [later] = await hits(client, "lives in", **how, as_of=second)
    [today] = await hits(client, "lives in", **how)

    assert (then["content"], then["tags"], then["importance"]) == ("Mira lives in Oslo.", ["home"], 0.5)
    assert then["changed_since"] == ["content", "importance", "tags"]
    assert (later["content"], later["tags"], later["importance"]) == ("Mira lives in Bergen.", ["move"], 0.5)
    assert later["changed_since"] == ["content", "importance"]
    assert (today["content"], today["importance"]) == ("Mira lives in Lyon.", 1)
    assert "changed_since" not in today


async def test_what_was_changed_and_changed_back_is_told_as_it_is(client: Client) -> None:
    id_ = await remember(client, "The gate is red.")
    outcome = now()
    await call(client, "update_memory", id=id_, content="The gate is blue.")
    await call(client, "update_memory", id=id_, content="The gate is red.")

    [hit] = await hits(client, "gate", as_of=outcome)

    assert hit["content"] == "The gate is red."
    assert "changed_since" not in hit


async def test_a_moment_after_the_correction_shows_the_corrected_text(client: Client) -> None:
    id_ = await remember(client, "The gate is red.")
    await call(client, "update_memory", id=id_, content="The gate is blue.")

    [hit] = await hits(client, "gate", as_of=now(), detail=True)

    assert (hit["content"], hit.get("changed_since")) == ("The gate is blue.", None)


@pytest.mark.shows(14)
async def test_of_two_that_say_the_same_the_newly_confirmed_one_comes_first(client: Client, db: Database) -> None:
    ids = [
        await remember(client, "The gate is red.", user=user, dedup_policy="insert")
        for user in ("Mira", "Ines", "Jonas")
    ]
    db.rows("UPDATE memories SET last_confirmed_at = now() - interval '100 days'")

    for id_ in ids:
        await call(client, "update_memory", id=id_, confirm=True)
        assert (await found(client, "gate"))[0] == id_
        db.rows("UPDATE memories SET last_confirmed_at = now() - interval '100 days'")
        db.rows("UPDATE memory_activation SET reinforcement = NULL")


@pytest.mark.shows(14)
async def test_hits_that_disagree_name_each_other(client: Client) -> None:
    older = await remember(client, "The database of the shop listens on port 5432.")
    newer = await remember(client, "The database of the shop listens on port 5433.")
    same = await remember(client, "The database of the shop is looked after by Ines.")
    other_project = await remember(client, "The database of the shop listens on port 5434.", project="bakery")

    outcome = {
        hit["id"]: hit.get("conflicts_with") for hit in await hits(client, "Which port has the shop's database?")
    }

    assert outcome[older] == [{"id": newer, "why": "differs in numbers"}]
    assert outcome[newer] == [{"id": older, "why": "differs in numbers"}]
    assert outcome[same] is None
    assert outcome[other_project] is None
    recalled = (await call(client, "recall_context", context="the port of the shop's database"))["context"]
    assert f"; {newer[-8:]}; disagrees with {older[-8:]})" in recalled


async def test_what_is_linked_as_contradicting_is_told_until_it_is_forgotten(client: Client) -> None:
    outcome = await remember(client, "Jonas drinks coffee in the morning.")
    against = await remember(client, "A doctor forbade Jonas all caffeine.")
    await call(client, "link_memories", from_id=outcome, to_ids=[against], type="contradicts")

    [hit] = await hits(client, "coffee", limit=1)
    assert hit["conflicts_with"] == [{"id": against, "why": "linked as contradicting"}]

    await call(client, "forget_memories", ids=[against])
    [hit] = await hits(client, "coffee", limit=1)
    assert "conflicts_with" not in hit


async def test_the_entries_of_a_series_do_not_contradict_each_other(client: Client) -> None:
    for week in range(6):
        await remember(client, f"In week {week} the team closed {week + 3} tickets.", dedup_policy="insert")

    assert not any("conflicts_with" in hit for hit in await hits(client, "tickets closed by the team"))
