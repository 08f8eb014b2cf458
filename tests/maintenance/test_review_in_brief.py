"""A review that a model reads: what contradicts or no longer holds comes first, and the answer is short."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from mcp import Client

from helpers import Database, call, connected, remember, said

PAIRS = {
    "Tomas drives a red van to the market.": "Tomas no longer drives the red van to the market, he cycles.",
    "The bakery opens at six in the morning.": "The bakery now opens at eight in the morning.",
}


@pytest.fixture
async def model(database: Database) -> AsyncIterator[Client]:
    """A client that is answered as an assistant is."""
    async with connected(database_url=database.url, answers="short") as client:
        yield client


async def test_what_no_longer_holds_stands_before_what_has_no_tag_and_all_is_short(
    model: Client, database: Database
) -> None:
    for old in PAIRS:
        await remember(model, old)
    for n in range(60):
        await remember(model, f"Chair number {n} of the hall was painted in colour {n * 7 % 61} by somebody.")
    database.as_login(
        "UPDATE memories SET created_at = now() - interval '9 days', last_confirmed_at = now() - interval '9 days'"
    )
    for new in PAIRS.values():
        await remember(model, new)

    answer = await model.call_tool("review_memories", {})

    told = json.loads(said(answer))
    assert len(said(answer).encode()) <= 4_000
    first = [finding for finding in told["findings"] if finding["finding"] in ("contradictions", "outdated")]
    assert told["findings"][: len(first)] == first
    assert {finding["excerpts"][0] for finding in first} >= {*PAIRS}
    assert told["found"]["untagged"] == 64
    [one, *_] = [finding for finding in first if finding["finding"] == "outdated"]
    await call(model, "forget_memories", ids=one["propose"]["ids"], replaced_by_ids=one["propose"]["replaced_by"])
