"""idempotency_key: the same key again is the same call, whatever has become of the memory since."""

from __future__ import annotations

import asyncio

import pytest
from mcp import Client

from helpers import Database, Served, call, connected, read, refused, remember


async def stored(db: Database) -> int:
    return int(db.value("SELECT count(*) FROM memories"))


@pytest.mark.shows(29)
async def test_the_same_key_again_gives_the_memory_of_the_first_call_whatever_is_told(
    client: Client, db: Database
) -> None:
    first = await remember(client, "The key is under the mat.", idempotency_key="note 1", tags=["key"])

    answer = await call(
        client, "create_memory", content="Something else altogether.", idempotency_key="note 1", tags=["other"]
    )

    assert (answer["memory_id"], answer["created"]) == (first, False)
    assert "idempotency_key" in answer["message"]
    assert answer["memory"]["content"] == "The key is under the mat."
    assert answer["memory"]["tags"] == ["key"]
    assert answer["memory"]["version"] == 1
    assert await stored(db) == 1


async def test_a_key_holds_when_its_memory_was_changed_or_forgotten_since(client: Client, db: Database) -> None:
    first = await remember(client, "The key is under the mat.", idempotency_key="note 1")
    await call(client, "update_memory", id=first, content="The key is in the shed.")
    again = await call(client, "create_memory", content="The key is under the mat.", idempotency_key="note 1")
    assert (again["memory_id"], again["memory"]["content"]) == (first, "The key is in the shed.")
    await call(client, "forget_memories", ids=[first])

    answer = await call(client, "create_memory", content="The key is under the mat.", idempotency_key="note 1")

    assert (answer["memory_id"], answer["created"]) == (first, False)
    assert answer["memory"]["status"] == "invalidated"
    assert await stored(db) == 1


async def test_a_key_that_was_used_merges_nothing(client: Client) -> None:
    first = await remember(client, "The key is under the mat.", idempotency_key="note 1")
    backup = await remember(client, "The staging database is backed up to the office NAS every night.")

    answer = await call(
        client, "create_memory", content="The staging database is backed up to the office NAS every single night.",
        idempotency_key="note 1", dedup_policy="merge",
    )  # fmt: skip

    assert answer["memory_id"] == first
    assert (await read(client, backup))["version"] == 1


async def test_other_keys_and_no_key_are_other_calls(client: Client, db: Database) -> None:
    await remember(client, "One.", idempotency_key="a")
    await remember(client, "Two.", idempotency_key="b")
    await remember(client, "Three.")

    assert await stored(db) == 3


async def test_a_key_that_led_to_a_known_memory_leads_there_again(client: Client, db: Database) -> None:
    known = await remember(client, "Told before.")
    assert await remember(client, "told  before.", idempotency_key="k") == known

    answer = await call(client, "create_memory", content="Something else.", idempotency_key="k")

    assert (answer["memory_id"], answer["created"]) == (known, False)
    assert await stored(db) == 1


async def test_calls_with_one_key_at_the_same_moment_store_one_memory(served: Served) -> None:
    async with connected(database_url=served.db.url) as other:
        await call(other, "search_memories")

        answers = await asyncio.gather(
            *(
                call(client, "create_memory", content=f"Text number {n}.", idempotency_key="one", dedup_policy="insert")
                for n, client in enumerate((served.client, other) * 20)
            )
        )

    assert len({answer["memory_id"] for answer in answers}) == 1
    assert sum(answer["created"] for answer in answers) == 1
    assert await stored(served.db) == 1


async def test_items_of_a_batch_have_keys_of_their_own(client: Client, db: Database) -> None:
    items = [
        {"content": "First.", "idempotency_key": "x"},
        {"content": "Another text, the same key.", "idempotency_key": "x"},
        {"content": "Second.", "idempotency_key": "y"},
    ]

    one = await call(client, "create_memories", items=items)
    two = await call(client, "create_memories", items=[*items, {"content": "Third.", "idempotency_key": "z"}])

    assert [result["created"] for result in one["results"]] == [True, False, True]
    assert one["results"][0]["memory_id"] == one["results"][1]["memory_id"]
    assert (await read(client, one["results"][0]["memory_id"]))["content"] == "First."
    assert [result["created"] for result in two["results"]] == [False, False, False, True]
    assert [r["memory_id"] for r in two["results"][:3]] == [r["memory_id"] for r in one["results"]]
    assert await stored(db) == 3


async def test_the_keys_of_one_namespace_are_not_those_of_another(served: Served) -> None:
    mine = await remember(served.client, "Mine.", idempotency_key="k")
    async with connected(database_url=served.db.url, namespace="another") as other:
        answer = await call(other, "create_memory", content="Theirs.", idempotency_key="k")

    assert answer["created"] is True
    assert answer["memory_id"] != mine


async def test_a_key_has_at_most_256_characters_and_a_blank_one_is_none(client: Client) -> None:
    error = await refused(client, "create_memory", content="x", idempotency_key="x" * 257)
    blank = await call(client, "create_memory", content="x", idempotency_key="  ")

    assert error["code"] == "INVALID_INPUT"
    assert "left out" in blank["read"]["idempotency_key"]
