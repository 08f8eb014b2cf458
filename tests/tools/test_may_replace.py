"""Storing tells which memories the new one may change, and the call that would do it; nothing is changed by itself."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from helpers import Database, call, found, read, remember

OLD = "The choir of Esther rehearses on Wednesdays in the parish hall."
NEW = "The choir of Esther now meets on Mondays in the library."
BESIDE = (
    "Esther is allergic to wasps.",
    "Esther's brother Otto mends clocks.",
    "The choir of Esther sang in Bruges in May.",
)


async def known(client: Client, **more: Any) -> str:
    """Store some memories and return the id of the one that will not hold for long."""
    for content in BESIDE:
        await remember(client, content, **more)
    return await remember(client, OLD, **more)


@pytest.mark.shows(14)
async def test_what_a_new_memory_may_change_is_told_with_the_call_that_does_it(client: Client, db: Database) -> None:
    old = await known(client)
    db.as_login("UPDATE memories SET last_confirmed_at = '2026-03-01T12:00:00Z'")

    answer = await call(client, "create_memory", content=NEW)

    new = answer["memory_id"]
    assert answer["may_replace"][0] == {"id": old, "stated": "2026-03-01", "text": OLD}
    assert f'forget_memories(ids=[…], replaced_by_ids=["{new[-8:]}"])' in answer["message"]
    assert (await read(client, old))["status"] == "active"
    await call(client, "forget_memories", ids=[old], replaced_by_ids=[new[-8:]])
    assert old not in await found(client, "choir of Esther")
    assert (await read(client, old))["replaced_by"] == [new]


async def test_each_item_of_a_batch_is_told_of_what_it_may_change(client: Client) -> None:
    old = await known(client)

    answer = await call(client, "create_memories", items=[{"content": "Otto is learning to juggle."}, {"content": NEW}])

    assert "may_replace" not in answer["results"][0]
    assert answer["results"][1]["may_replace"][0]["id"] == old
    assert "replaced_by_ids" in answer["message"]


@pytest.mark.parametrize(
    "more",
    [{"project": "opera"}, {"user": "Otto"}, {"type": "episodic"}, {"dedup_policy": "insert"}],
    ids=lambda more: next(iter(more)),
)
async def test_what_is_of_something_else_or_happened_or_is_not_looked_for_is_not_told(
    client: Client, more: dict[str, Any]
) -> None:
    theirs = {"project": "parish", "user": "Esther"}
    await known(client, **theirs)

    answer = await call(client, "create_memory", content=NEW, **theirs | more)

    assert "may_replace" not in answer
    assert "forget_memories" not in answer["message"]


@pytest.mark.parametrize("named", ["of the old one alone", "of the new one alone"])
async def test_a_user_who_is_named_once_may_be_meant_both_times(client: Client, named: str) -> None:
    theirs = {"user": "Esther", "project": "parish"}
    old = await known(client, **theirs if "old" in named else {})

    answer = await call(client, "create_memory", content=NEW, **theirs if "new" in named else {})

    assert answer["may_replace"][0]["id"] == old


async def test_the_same_again_changes_nothing(client: Client) -> None:
    await known(client)

    assert "may_replace" not in await call(client, "create_memory", content=OLD)


async def test_what_is_forgotten_or_expired_may_not_be_replaced(client: Client, db: Database) -> None:
    old = await known(client)
    expired = await remember(client, "The choir of Esther meets in the barn.")
    await call(client, "forget_memories", ids=[old])
    db.as_login(f"UPDATE memories SET expires_at = now() - interval '1 hour' WHERE id = '{expired}'")

    answer = await call(client, "create_memory", content=NEW)

    assert not {one["id"] for one in answer.get("may_replace", ())} & {old, expired}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Deadline: 5 March", "Deadline: 12 March"),
        ("Database URL: port 5433 on kestrel", "Database URL: port 5432 on kestrel"),
        ("Abgabetermin: 5. März", "Abgabetermin: 12. März"),
        ("Gym code: 4417 at the side door", "Gym code: 9032 at the side door"),
    ],
)
async def test_a_note_with_a_label_may_replace_the_one_with_another_value(client: Client, old: str, new: str) -> None:
    for content in BESIDE:
        await remember(client, content)
    earlier = await remember(client, old)

    answer = await call(client, "create_memory", content=new)

    assert earlier in {one["id"] for name in ("may_replace", "near_duplicates") for one in answer.get(name, ())}


async def test_an_event_that_says_most_of_a_plan_again_may_replace_it(client: Client) -> None:
    plan = await remember(client, "Otto wants to sell the green canoe for 900 euros.")
    await remember(client, "Esther's canoe trip was in May.")

    answer = await call(
        client, "create_memory", content="Otto sold the green canoe for 820 euros on 15 November.", type="episodic"
    )

    assert [one["id"] for one in answer["may_replace"]] == [plan]
