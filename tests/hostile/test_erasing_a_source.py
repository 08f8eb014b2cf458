"""What came from one source goes in one call, by everything that a source is called, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from helpers import Database, connected, found, remember
from machine import answered, pgengram
from pgengram import Memory

RUMOURS = "https://example.org/rumours.html"


def contents(database: Database, namespace: str = "default") -> list[str]:
    return sorted(row["content"] for row in database.rows("SELECT content FROM memories", namespace=namespace))


async def poisoned(database: Database, tmp_path: Path) -> dict[str, Any]:
    """Leave memories of the rumours in every way that a source is named, forgotten ones too, and others beside them."""
    url: dict[str, Any] = {"database_url": database.url, "embedder": "none:"}
    async with connected(**url) as client:
        await remember(client, "Told on the page.", source=RUMOURS)
        ref = await remember(client, "Referred to.", sources=[{"kind": "web", "ref": RUMOURS}, {"label": "Mara"}])
        forgotten = await remember(client, "Labelled.", sources=[{"label": RUMOURS}])
        await client.call_tool("forget_memories", {"ids": [forgotten], "reason": "Untrue."})
        other = await remember(client, "Told by Mara.", source=RUMOURS + "?page=2", metadata={"about": RUMOURS})
        await client.call_tool("link_memories", {"from_id": ref, "to_ids": [other]})
    async with connected(**url, namespace="ben") as ben:
        await remember(ben, "Ben read it, too.", source=RUMOURS)
    foreign = tmp_path / "memory.jsonl"
    line = {"type": "entity", "name": "Billing", "entityType": "system", "observations": ["Brought in."]}
    foreign.write_text(json.dumps(line) + "\n")
    pgengram("import", "--from", "mcp-memory", str(foreign), **url)
    return url


async def test_all_that_came_from_a_source_is_erased_after_a_preview_with_its_token(
    database: Database, tmp_path: Path
) -> None:
    url = await poisoned(database, tmp_path)
    before = contents(database)

    shown = answered("erase-source", RUMOURS, "--json", expect=1, **url)

    assert shown["memories"] == 3
    assert shown["would_remove"]["relationships"] == 1
    assert {one["content"] for one in shown["first"]} == {"Told on the page.", "Referred to.", "Labelled."}
    assert contents(database) == before

    answer = answered("erase-source", RUMOURS, "--confirm-token", shown["confirm_token"], "--json", **url)

    assert len(answer["ids"]) == 3
    assert [text for text in before if text not in contents(database)] == [
        "Labelled.", "Referred to.", "Told on the page.",
    ]  # fmt: skip
    assert contents(database, "ben") == ["Ben read it, too."]
    assert database.value("SELECT count(*) FROM memory_history WHERE operation = 'erase'") == 3


async def test_a_token_is_good_once_and_for_what_was_shown(database: Database, tmp_path: Path) -> None:
    url = await poisoned(database, tmp_path)
    token = answered("erase-source", RUMOURS, "--json", expect=1, **url)["confirm_token"]
    pgengram("call", "create_memory", "content=One more.", f"source={RUMOURS}", **url)
    before = contents(database)

    changed = pgengram("erase-source", RUMOURS, "--confirm-token", token, expect=1, **url)
    other = pgengram("erase-source", "mcp-memory", "--confirm-token", token, expect=1, **url)
    nowhere = pgengram("erase-source", "https://example.org/", "--yes", expect=2, **url)

    assert "changed since" in changed.stderr
    assert "of other memories" in other.stderr
    assert "No memory comes from" in nowhere.stderr
    assert contents(database) == before

    token = answered("erase-source", RUMOURS, "--json", expect=1, **url)["confirm_token"]
    pgengram("erase-source", RUMOURS, "--confirm-token", token, **url)
    pgengram("call", "create_memory", "content=And another.", f"source={RUMOURS}", **url)
    pgengram("erase-source", RUMOURS, "--confirm-token", token, expect=1, **url)
    assert "And another." in contents(database)


async def test_an_import_is_taken_back_by_the_name_of_its_system(database: Database, tmp_path: Path) -> None:
    url = await poisoned(database, tmp_path)
    assert "Brought in." in " ".join(contents(database))

    shown = pgengram("erase-source", "mcp-memory", expect=1, **url)
    pgengram("erase-source", "mcp-memory", "--yes", **url)

    assert "--confirm-token" in shown.stdout
    assert "Brought in." not in " ".join(contents(database))


async def test_a_program_erases_a_source_unasked(database: Database, tmp_path: Path) -> None:
    url = await poisoned(database, tmp_path)

    async with Memory(**url) as memory:
        assert await memory.erase_source("https://example.org/") == 0
        assert await memory.erase_source(RUMOURS) == 3
        assert await memory.erase_source(RUMOURS) == 0

    async with connected(**url) as client:
        assert await found(client, "page referred labelled") == []
