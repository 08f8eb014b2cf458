"""The clients of basic-memory go on as they were: its tools for notes, by title and permalink."""

from __future__ import annotations

from typing import Any

from mcp import Client

from compat.conftest import refuses, says
from helpers import said

SYSTEM = "basic-memory"


async def text(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, said(answer)
    return said(answer)


async def written(client: Client, title: str, content: str, **more: Any) -> dict[str, Any]:
    call = {"title": title, "content": content, "directory": "notes/2025", "output_format": "json", **more}
    return dict(await says(client, "write_note", **call))


async def test_it_has_its_tools_for_notes(client: Client) -> None:
    assert {tool.name for tool in (await client.list_tools()).tools} == {
        "write_note", "read_note", "edit_note", "move_note", "delete_note", "search_notes", "recent_activity",
    }  # fmt: skip


async def test_a_note_is_read_by_title_permalink_and_address_and_replaced_only_on_demand(client: Client) -> None:
    note = await written(client, "Our Test Runner", "# Our Test Runner\nWe chose Vitest.", tags=["js"])

    assert (note["permalink"], note["action"]) == ("notes/2025/our-test-runner", "created")
    for name in ("our test runner", note["permalink"], f"memory://{note['permalink']}"):
        assert await text(client, "read_note", identifier=name) == "# Our Test Runner\nWe chose Vitest."
    whole = await says(client, "read_note", identifier=note["permalink"], output_format="json")
    assert (whole["title"], whole["tags"]) == ("Our Test Runner", ["js"])
    call = {"title": "Our Test Runner", "content": "We chose Jest.", "directory": "notes/2025"}
    assert (await refuses(client, "write_note", **call))["code"] == "CONFLICT"
    assert "Updated note" in await text(client, "write_note", **call, overwrite=True)
    assert await text(client, "read_note", identifier="Our Test Runner") == "We chose Jest."


async def test_every_edit_changes_what_it_names(client: Client) -> None:
    await written(client, "Plan", "# Plan\n## Now\nWrite.\n## Later\nRest.")

    for edit in (
        {"operation": "append", "content": "The end."},
        {"operation": "find_replace", "content": "Sleep.", "find_text": "Rest."},
        {"operation": "replace_section", "content": "Write tests.", "section": "## Now"},
    ):
        await text(client, "edit_note", identifier="Plan", **edit)

    assert await text(client, "read_note", identifier="Plan") == (
        "# Plan\n## Now\nWrite tests.\n## Later\nSleep.\nThe end."
    )
    twice = {"operation": "find_replace", "content": "x", "find_text": "n"}
    assert (await refuses(client, "edit_note", identifier="Plan", **twice))["code"] == "INVALID_INPUT"
    gone = {"operation": "replace_section", "content": "x", "section": "## Never"}
    assert (await refuses(client, "edit_note", identifier="Plan", **gone))["code"] == "INVALID_INPUT"


async def test_notes_are_found_listed_moved_and_deleted(client: Client) -> None:
    await written(client, "Kittens", "The kitten drinks milk.")
    await written(client, "Budget", "Budgets were discussed with [[Kittens]].")

    found = await says(client, "search_notes", query="small cat having a drink", page_size=1)
    assert [one["title"] for one in found["results"]] == ["Kittens"]
    assert [one["title"] for one in await says(client, "recent_activity", timeframe="1d")] == ["Budget", "Kittens"]
    moved = {"identifier": "Kittens", "destination_path": "animals/cats.md", "output_format": "json"}
    assert (await says(client, "move_note", **moved))["permalink"] == "animals/cats"
    assert await text(client, "read_note", identifier="animals/cats") == "The kitten drinks milk."
    assert await says(client, "delete_note", identifier="Kittens") is True
    assert await says(client, "delete_note", identifier="Kittens") is False
    assert (await refuses(client, "read_note", identifier="Kittens"))["code"] == "NOT_FOUND"
