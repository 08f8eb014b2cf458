"""Counting: one call tells what is there, how old, how important and how well it is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client

from helpers import Answer, Database, Served, call, read, refused, remember

BINS = [f"{n / 10:.1f}–{(n + 1) / 10:.1f}" for n in range(10)]


async def stats(client: Client, **arguments: Any) -> Answer:
    return await call(client, "memory_stats", **arguments)


@pytest.mark.shows(37)
async def test_each_memory_is_counted_in_the_state_it_is_in(client: Client, db: Database) -> None:
    archived, forgotten, expired, pinned = [
        await remember(client, f"{word} lives by the harbour.", pinned=word == "Dora")
        for word in ("Anna", "Berta", "Carla", "Dora")
    ]
    await remember(client, "Emil paints boats.")
    await call(client, "update_memory", id=archived, status="archived")
    await call(client, "forget_memories", ids=[forgotten])
    db.rows("UPDATE memories SET expires_at = now() - interval '1 hour' WHERE id = %s", [expired])

    totals = (await stats(client))["totals"]

    assert totals == {
        "memories": 5, "active": 2, "expired": 1, "archived": 1, "forgotten": 1, "working": 0, "pinned": 1,
        "embedded": 2, "untagged": 2, "tags": 0, "relationships": 0, "accesses": totals["accesses"],
    }  # fmt: skip
    assert pinned


async def test_active_memories_are_counted_by_everything_they_are_sorted_by(client: Client) -> None:
    await remember(
        client, "We ship on Fridays.", kind="decision", project="ark", source_provider="me", tags=["ship", "week"]
    )
    await remember(client, "Tea is at four.", kind="fact", project="ark", collection="house", tags=["week"])
    await remember(client, "The lift is broken.", type="episodic")
    gone = await remember(client, "We ship on Mondays.", kind="decision", project="ark", tags=["ship"], importance=1)
    await call(client, "forget_memories", ids=[gone])

    answer = await stats(client)

    assert answer["by_type"] == {"episodic": 1, "semantic": 1, "strategic": 1}
    assert answer["by_kind"] == {"decision": 1, "fact": 1, "none given": 1}
    assert answer["by_project"] == {"ark": 2, "none given": 1}
    assert answer["by_source_provider"] == {"me": 1, "none given": 2}
    assert answer["by_collection"] == {"house": 1, "none given": 2}
    assert answer["tags"] == {"week": 2, "ship": 1}
    assert [(one["half_life_days"], one["memories"]) for one in answer["half_lives"]] == [
        (693.1, 1),
        (231.0, 1),
        (69.3, 1),
    ]


async def test_a_project_alone_can_be_counted(client: Client) -> None:
    await remember(client, "The ark has two decks.", project="ark", tags=["deck"])
    await remember(client, "The shed has a roof.", project="shed", tags=["roof"])

    answer = await stats(client, project="ark")

    assert answer["totals"]["memories"] == 1
    assert answer["by_project"] == {"ark": 1}
    assert answer["tags"] == {"deck": 1}
    assert [one["excerpt"] for one in answer["recent"]] == ["The ark has two decks."]


async def test_histograms_have_all_their_bins_and_both_ends(client: Client, db: Database) -> None:
    low, middle, high = [
        await remember(client, text, importance=importance)
        for text, importance in (("Nothing.", 0), ("x" * 300, 0.55), ("y" * 3_000, 1))
    ]
    db.rows("UPDATE memories SET created_at = now() - interval '40 days' WHERE id = %s", [middle])
    db.rows("UPDATE memories SET created_at = now() - interval '400 days' WHERE id = %s", [high])

    answer = await stats(client)

    assert list(answer["importance"]) == BINS
    assert {name for name, number in answer["importance"].items() if number} == {"0.0–0.1", "0.5–0.6", "0.9–1.0"}
    assert {name: number for name, number in answer["age"].items() if number} == {
        "under a day": 1, "under 3 months": 1, "older": 1,
    }  # fmt: skip
    assert {name: number for name, number in answer["length"].items() if number} == {
        "under 50": 1, "under 500": 1, "longer": 1,
    }  # fmt: skip
    assert low


async def test_as_many_tags_are_told_as_are_asked_for_the_most_used_first(client: Client) -> None:
    for n in range(30):
        await remember(client, f"Note {n} of the log.", tags=["log", f"page-{n:02}"])

    assert len((await stats(client))["tags"]) == 20
    assert list((await stats(client, tags=2))["tags"].items()) == [("log", 30), ("page-00", 1)]
    everything = await stats(client, tags=500)
    assert len(everything["tags"]) == everything["totals"]["tags"] == 31
    assert (await stats(client, tags=0))["tags"] == {}
    assert "0 and 500" in (await refused(client, "memory_stats", tags=501))["message"]


async def test_the_newest_and_the_most_read_are_shown(client: Client) -> None:
    ids = [await remember(client, f"Boat {n} is moored at pier {n}.") for n in range(7)]
    for _ in range(2):
        await read(client, ids[1])
    await read(client, ids[2])

    answer = await stats(client)

    assert [one["id"] for one in answer["recent"]] == ids[:1:-1]
    assert [(one["id"], one["access_count"]) for one in answer["most_accessed"]] == [(ids[1], 2), (ids[2], 1)]


@pytest.mark.shows(37)
async def test_the_state_of_vectors_embedder_and_database_is_told(client: Client, db: Database) -> None:
    kept, bare = [await remember(client, text) for text in ("Rain in May.", "Snow in June.")]
    db.rows("DELETE FROM memory_vectors WHERE memory_id = %s", [bare])

    answer = await stats(client)

    assert answer["vectors"]["coverage_percent"] == 50
    assert "MiniLM" in answer["vectors"]["embedder"]
    assert answer["vectors"]["index"].startswith("exact search")
    assert answer["database"]["namespace"] == "default"
    assert answer["database"]["bytes"] > 1_000_000
    assert kept


async def test_an_empty_store_without_an_embedder_can_be_counted(wordless: Served) -> None:
    answer = await stats(wordless.client)

    assert set(answer["totals"].values()) == {0}
    assert answer["vectors"]["embedder"] == "none"
    assert "coverage_percent" not in answer["vectors"] or answer["vectors"]["coverage_percent"] is None
    assert json.dumps(answer).count("embedding") == 0
