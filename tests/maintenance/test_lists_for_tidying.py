"""Lists for whoever tidies up: by what memories lack, by their length and by when they were confirmed."""

from __future__ import annotations

import pytest
from mcp import Client

from helpers import Database, call, found, refused, remember


@pytest.mark.shows(23)
async def test_memories_can_be_listed_by_what_they_lack_their_length_and_their_confirmation(
    client: Client, db: Database
) -> None:
    short = await remember(client, "Tea at four.", importance=0.9)
    tagged = await remember(client, "The tide table hangs in the hall.", tags=["house"], importance=0.1)
    long = await remember(client, "The harbour was dug by hand. " * 20, importance=0.5)
    db.rows("UPDATE memories SET last_confirmed_at = '2020-01-01' WHERE id = %s", [long])
    db.rows("UPDATE memories SET last_confirmed_at = NULL, created_at = '2019-01-01' WHERE id = %s", [tagged])

    assert await found(client, untagged=True) == [long, short]
    assert await found(client, untagged=False) == [tagged]
    assert await found(client, min_length=30, max_length=40) == [tagged]
    assert await found(client, max_length=12) == [short]
    assert await found(client, min_length=0) == [long, short, tagged]
    assert await found(client, not_confirmed_since="2021-01-01T00:00:00Z") == [long, tagged]
    assert await found(client, untagged=True, sort="importance") == [short, long]
    assert await found(client, sort="importance", limit=1, offset=1) == [long]
    assert (await call(client, "search_memories", untagged=True, count_only=True))["total"] == 2


async def test_they_narrow_a_search_by_meaning_too(client: Client) -> None:
    await remember(client, "Green tea is best in the morning.", tags=["tea"])
    bare = await remember(client, "Black tea is best in the afternoon.")

    assert await found(client, "when to drink tea", untagged=True) == [bare]


@pytest.mark.parametrize("bad", [{"min_length": -1}, {"max_length": 16_001}, {"not_confirmed_since": "yesterday"}])
async def test_bounds_that_make_no_sense_are_refused(client: Client, bad: dict[str, object]) -> None:
    assert (await refused(client, "search_memories", **bad))["code"] == "INVALID_INPUT"
