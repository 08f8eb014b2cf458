"""Conversations are kept word for word, each turn once, without secrets, and as long as their user wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest_asyncio
from hooked_assistant import Assistant
from mcp import Client

from helpers import Database, call, connected, database_of, found, remember
from pgengram.store import conversations

NOW = datetime.now(UTC)
KEPT = "SELECT role, text FROM conversation_turns ORDER BY conversation, number"
LONG = "x" * 50_000


@pytest_asyncio.fixture
async def client(assistant: Assistant) -> AsyncIterator[Client]:
    """A server of the assistant's store."""
    async with connected(**assistant.settings) as made:
        await made.call_tool("memory_stats", {})
        yield made


async def typed(assistant: Assistant, *words: str, as_json: bool = True) -> Any:
    """Run a command in a thread, as each has a loop of its own."""
    return await asyncio.to_thread(assistant.typed, *words, as_json=as_json)


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    """Return a line of a transcript as Claude Code 2.1 writes it."""
    return {
        "type": role, "message": {"role": role, "content": content}, "timestamp": NOW.isoformat(), "sessionId": "s-1",
        "isSidechain": False, **more,
    }  # fmt: skip


def text(words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words}]


def write(assistant: Assistant, *lines: dict[str, Any], name: str = "s-1", end: str = "\n") -> Path:
    """Add lines to a transcript, and make it the one of the session."""
    path = assistant.folder / f"{name}.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(line) + end for line in lines))
    assistant.session = {"session_id": name, "transcript_path": str(path)}
    return path


def kept(database: Database) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in database.rows(KEPT)]


async def test_what_was_said_is_kept_word_for_word_and_once(
    assistant: Assistant, client: Client, database: Database
) -> None:
    write(
        assistant,
        {"type": "queue-operation", "sessionId": "s-1"},
        said("user", "We deploy from Lyon.\n\nAlways."),
        said("user", "Caveat: made by the client.", isMeta=True),
        said("assistant", text("From Lyon, always."), isSidechain=True),
        said("assistant", text("Noted: from Lyon.")),
    )
    assistant.hook("Stop")
    assistant.hook("Stop")
    write(assistant, said("user", "And on Fridays?"))
    assistant.hook("SessionEnd", reason="exit")

    assert kept(database) == [
        ("user", "We deploy from Lyon.\n\nAlways."), ("assistant", "Noted: from Lyon."), ("user", "And on Fridays?"),
    ]  # fmt: skip
    assert await found(client, "deploy Lyon") == []


async def test_a_line_that_is_still_being_written_is_kept_once_it_is_whole(
    assistant: Assistant, client: Client, database: Database
) -> None:
    path = write(assistant, said("user", "Begun."))
    write(assistant, said("assistant", text("Half")), end="")
    assistant.hook("Stop")
    assert kept(database) == [("user", "Begun.")]

    with path.open("a", encoding="utf-8") as file:
        file.write("\n")
    assistant.hook("Stop")

    assert kept(database) == [("user", "Begun."), ("assistant", "Half")]


async def test_secrets_are_redacted_and_what_tools_print_is_cut(
    assistant: Assistant, client: Client, database: Database
) -> None:
    write(
        assistant,
        said("user", "The password: hunter2-Zx9!kQ is new."),
        said("assistant", [{"type": "tool_use", "name": "Bash", "input": {"command": "cat log"}}]),
        said("user", [{"type": "tool_result", "content": LONG}]),
    )
    assistant.hook("Stop")

    [(_, prompt), (_, called), (role, printed)] = kept(database)
    assert "hunter2" not in prompt
    assert "[redacted: password]" in prompt
    assert called == 'Bash {"command": "cat log"}'
    assert role == "tool"
    assert printed.endswith("[48,000 characters left out]")
    assert len(printed) < 2_100


async def test_what_a_killed_client_had_said_is_kept_at_the_next_start(
    assistant: Assistant, client: Client, database: Database
) -> None:
    write(assistant, said("user", "First."))
    assistant.hook("Stop")
    write(assistant, said("assistant", text("Never told by a hook.")))
    write(assistant, said("user", "Next.", sessionId="s-2"), name="s-2")

    begun = assistant.context("SessionStart", source="startup")

    assert ("assistant", "Never told by a hook.") in kept(database)
    assert "ended with the assistant saying: Never told by a hook." in begun


async def test_events_that_no_server_could_take_are_kept_by_the_next_one(
    assistant: Assistant, database: Database
) -> None:
    write(assistant, said("user", "Nobody listens."))
    assistant.hook("SessionEnd")
    assistant.wait()

    assert kept(database) == [("user", "Nobody listens.")]


async def test_recalling_alone_keeps_nothing(assistant: Assistant, client: Client, database: Database) -> None:
    await remember(client, "The office is in Lyon.")
    write(assistant, said("user", "Not for keeping."))
    assistant.options = ("--recall",)

    assert "Lyon" in assistant.context("SessionStart")
    assistant.hook("Stop")

    assert kept(database) == []
    assert database.rows("SELECT FROM conversations") == []


async def test_old_turns_are_forgotten(assistant: Assistant, client: Client, database: Database) -> None:
    old = (NOW - timedelta(days=91)).isoformat()
    write(assistant, said("user", "Long ago.", timestamp=old), said("user", "Today."))
    assistant.hook("Stop")
    assert kept(database) == [("user", "Today.")]

    database.rows("UPDATE conversation_turns SET time = now() - interval '91 days'")
    write(assistant, said("user", "Another.", sessionId="s-2"), name="s-2")
    assistant.hook("SessionStart")

    assert kept(database) == [("user", "Another.")]


async def test_receipts_are_forgotten_with_the_turns_of_their_time(
    assistant: Assistant, client: Client, database: Database
) -> None:
    await remember(client, "Mara prefers tea.")
    assistant.hook("SessionStart", session_id="s-1")
    assistant.hook("SessionStart", session_id="s-2")
    database.rows("UPDATE recall_receipts SET at = now() - interval '91 days' WHERE conversation = 's-1'")

    assistant.hook("SessionStart", session_id="s-3")

    assert {row["conversation"] for row in await assistant.answered("receipts")} == {"s-2", "s-3"}


async def test_of_many_receipts_the_oldest_are_forgotten(
    assistant: Assistant, client: Client, database: Database
) -> None:
    await remember(client, "Mara prefers tea.")
    assistant.hook("SessionStart", session_id="s-1")
    database.rows(f"""
        INSERT INTO recall_receipts (namespace_id, memory_id, client, conversation, version, event, tokens, milliseconds, at)
        SELECT namespace_id, memory_id, client, 'old ' || n, version, event, tokens, milliseconds, at - n * interval '1 second'
        FROM recall_receipts, generate_series(1, {conversations.MOST_RECEIPTS}) AS n""")

    assistant.hook("SessionStart", session_id="s-2")

    left = {row["conversation"] for row in database.rows("SELECT conversation FROM recall_receipts")}
    assert len(left) <= conversations.MOST_RECEIPTS + 1  # and what the last session was given
    assert {"s-1", "s-2", "old 1"} <= left
    assert f"old {conversations.MOST_RECEIPTS}" not in left


async def test_a_transcript_that_is_no_such_thing_stops_nothing(
    assistant: Assistant, client: Client, database: Database
) -> None:
    path = assistant.folder / "odd.jsonl"
    path.write_bytes(b'\xff\xfe\n[]\n{"type": "user"}\n{"type":"user","message":{"content":[1,{"type":"text"}]}}\n')

    for event in ("Stop", "SessionEnd", "UserPromptSubmit", "PreCompact", "SessionStart"):
        assistant.hook(event, transcript_path=str(path), prompt="x")
        assistant.hook(event, transcript_path=str(assistant.folder / "missing.jsonl"), prompt="x")
        assert assistant.log == "", event

    assert kept(database) == []


async def test_conversations_are_listed_shown_and_erased_by_typing(
    assistant: Assistant, client: Client, database: Database
) -> None:
    path = write(assistant, said("user", "We deploy from Lyon."), said("assistant", text("Noted.")))
    assistant.hook("Stop")

    [listed] = (await typed(assistant, "conversations", "list"))["conversations"]
    shown = (await typed(assistant, "conversations", "show", listed["conversation"][:3]))["turns"]
    erased = await typed(assistant, "conversations", "erase", "--yes")
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(said("user", "After that.")) + "\n")
    assistant.hook("Stop")

    assert (listed["client"], listed["turns"], listed["begins"]) == ("claude-code", 2, "We deploy from Lyon.")
    assert [turn["text"] for turn in shown] == ["We deploy from Lyon.", "Noted."]
    assert erased == {"erased": 2}
    assert kept(database) == [("user", "After that.")]


async def test_while_conversations_are_off_nothing_is_kept_and_it_does_not_come_later(
    assistant: Assistant, client: Client, database: Database
) -> None:
    await typed(assistant, "conversations", "off")
    path = write(assistant, said("user", "Off the record."))
    assistant.hook("Stop")
    state = await typed(assistant, "conversations", "on", "--days", "30")
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(said("user", "On the record.")) + "\n")
    assistant.hook("Stop")

    counted = (await call(client, "memory_stats"))["conversations"]
    assert (state["kept"], state["keep_days"]) == (True, 30)
    assert kept(database) == [("user", "On the record.")]
    assert (counted["turns"], counted["conversations"], counted["keep_days"]) == (1, 1, 30)


async def test_conversations_are_carried_over_by_an_export_and_go_with_their_namespace(
    assistant: Assistant, client: Client, database: Database, postgres: str, template: str
) -> None:
    write(assistant, said("user", "We deploy from Lyon."))
    assistant.hook("Stop")
    export = assistant.folder / "all.jsonl"
    await typed(assistant, "export", str(export), as_json=False)
    await typed(assistant, "erase-namespace", "default", "--yes")
    assert database.as_login("SELECT count(*) FROM conversation_turns") == [(0,)]

    with database_of(postgres, template) as other:
        assistant.settings["database_url"] = other.url
        await typed(assistant, "import", str(export))

        assert kept(other) == [("user", "We deploy from Lyon.")]
