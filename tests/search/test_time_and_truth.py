"""What was held true at a moment, what is over, and what was forgotten or restored."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from mcp import Client

from door import Database, call, found, hits, read, remember

PAST = "2020-01-01T00:00:00Z"
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
    told = now()
    await call(client, "forget_memories", ids=[id_])
    gone = now()
    assert await found(client, "door code") == []
    assert await found(client, "door code", as_of=gone) == []
    assert await found(client, "door code", as_of=told) == [id_]

    await call(client, "update_memory", id=id_, status="active")

    for moment in (told, gone, now()):
        assert await found(client, "door code", as_of=moment) == [id_]
    assert await found(client, "door code", mode="text") == [id_]


async def test_as_of_is_counted_like_it_is_found(client: Client) -> None:
    ids = [await remember(client, f"Note {n}.", occurred_at=f"202{n}-01-01T00:00:00Z") for n in range(5)]
    await call(client, "forget_memories", ids=ids[:2])

    answer = await call(client, "search_memories", as_of="2022-06-01T00:00:00Z", count_only=True)

    assert answer["total"] == 3


@pytest.mark.parametrize("how", MODES, ids=lambda how: str(*how.values()))
async def test_what_is_over_is_hidden_and_what_will_be_over_is_not(client: Client, how: dict[str, Any]) -> None:
    await remember(client, "The offer on green tea ends.", expires_at=PAST, importance=1)
    later = await remember(client, "The offer on black tea ends.", expires_at=FUTURE)

    assert await found(client, "offer", **how) == [later]
    assert await found(client, "offer", **how, tags=[]) == [later]
    assert (await call(client, "search_memories", query="offer", **how))["hidden"] == {"expired": 1}


@pytest.mark.parametrize("how", MODES, ids=lambda how: str(*how.values()))
async def test_what_is_over_was_true_while_it_lasted(client: Client, how: dict[str, Any]) -> None:
    offer = await remember(
        client, "The offer ends.", occurred_at="2025-01-01T00:00:00Z", expires_at="2025-02-01T00:00:00Z"
    )

    assert await found(client, "offer", **how, as_of="2025-01-15T00:00:00Z") == [offer]
    assert await found(client, "offer", **how, as_of="2025-02-15T00:00:00Z") == []


async def test_an_expiry_that_is_cleared_shows_the_memory_again(client: Client) -> None:
    id_ = await remember(client, "The offer ends.", expires_at=PAST)

    await call(client, "update_memory", id=id_, clear=["expires_at"])

    answer = await call(client, "search_memories", query="offer")
    assert [hit["id"] for hit in answer["results"]] == [id_]
    assert "hidden" not in answer


@pytest.mark.parametrize("hidden", ["expired", "forgotten"])
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
        for start in (0, 150):
            await call(client, "forget_memories", ids=over[start : start + 150])
    else:
        db.rows("UPDATE memories SET expires_at = now() - interval '1 day' WHERE content LIKE %s", ["Green%"])

    for how in MODES:
        assert set(await found(client, "green tea", **how)) == live
        assert set(await found(client, "green tea", **how, user=None)) == live
    answer = await call(client, "search_memories", query="green tea")
    assert answer["hidden"] == {hidden: 300}
    assert set((await call(client, "recall_context", context="green tea"))["memory_ids"]) == live
    assert (await call(client, "search_memories", query="green tea", mode="text", count_only=True))["total"] == 3


async def test_a_forgotten_memory_is_read_by_id_with_the_reason(client: Client) -> None:
    id_ = await remember(client, "Old.")
    await call(client, "forget_memories", ids=[id_], reason="no longer so")

    memory = await read(client, id_)

    assert (memory["status"], memory["reason"]) == ("invalidated", "no longer so")
    assert [hit["id"] for hit in await hits(client, "old", status="invalidated")] == [id_]
