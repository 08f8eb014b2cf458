"""What was said beside what is remembered: found apart, cited by memories, and erased with them if that is wanted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hooked_assistant import Assistant
from mcp import Client

from helpers import Database, call, connected, refused, remember
from pgengram.inputs import Question
from pgengram.service.conversations import Conversations
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store import conversations
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.conversations import Conversation

LYON = "We deploy the Ark project from the office in Lyon."


@pytest_asyncio.fixture
async def client(assistant: Assistant) -> AsyncIterator[Client]:
    """A server of the assistant's store, which answers as briefly as it does for a model; the project is ark."""
    (assistant.folder / "ark").mkdir()
    assistant.session = {"cwd": str(assistant.folder / "ark")}
    async with connected(**assistant.settings, answers="short") as made:
        await made.call_tool("memory_stats", {})
        yield made


def talk(assistant: Assistant, *turns: tuple[str, str], name: str = "s-1") -> None:
    """Have a conversation with Claude Code, and end it."""
    lines = [
        {"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "content": text}]}}
        if role == "tool" else {"type": role, "message": {"role": role, "content": text}}
        for role, text in turns
    ]  # fmt: skip
    path = assistant.folder / f"{name}.jsonl"
    beside = {"timestamp": datetime.now(UTC).isoformat(), "sessionId": name, "isSidechain": False}
    path.write_text("".join(json.dumps(line | beside) + "\n" for line in lines), encoding="utf-8")
    patiently(assistant, "SessionEnd", session_id=name, transcript_path=str(path))


def patiently(assistant: Assistant, event: str, **fields: Any) -> str:
    """Run a hook, again if a busy machine has let it give up, and return what it prints."""
    log = None
    while assistant.log != log:
        log = assistant.log
        printed = assistant.hook(event, **fields)
    return printed


async def search(client: Client, query: str, **more: Any) -> dict[str, Any]:
    return await call(client, "search_memories", query=query, **more)


async def test_an_answer_without_strong_evidence_says_how_many_turns_match_and_shows_them_when_asked(
    assistant: Assistant, client: Client
) -> None:
    talk(assistant, ("user", LYON), ("assistant", "Noted, Lyon it is."), ("user", "山田さんは東京の事務所にいます。"))
    await remember(client, "Mara prefers tea.")

    told = await search(client, "From which office do we deploy the Ark project?")
    shown = await search(client, "From which office do we deploy the Ark project?", include="turns")
    tokyo = await search(client, "東京の事務所", include=["turns"])
    sure = await search(client, "Which tea does Mara prefer?")
    elsewhere = await search(client, "office of the Ark project", include="turns", project="other")

    assert (told["turns_match"], told["results"]) == (1, [])
    [turn] = shown["turns"]
    assert turn == {
        "cite": "turn:claude-code/s-1/0",
        "role": "user",
        "date": turn["date"],
        "project": "ark",
        "text": LYON,
    }
    assert [one["cite"] for one in tokyo["turns"]] == ["turn:claude-code/s-1/2"]
    assert "turns_match" not in sure
    assert elsewhere["turns"] == []


async def test_where_nothing_was_said_a_search_looks_for_turns_once_until_something_is(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    find = conversations.find_turns

    async def noted(tx: Transaction, words: str, **more: Any) -> list[Row]:
        looks.append(words)
        return await find(tx, words, **more)

    monkeypatch.setattr(conversations, "find_turns", noted)
    manager = MemoryManager(Settings(database_url=database.url, data_dir=str(tmp_path), embedder="none:"))
    question = Question(query="the office of the Ark project")

    nothing = [await manager.search_memories(question) for _ in range(3)]
    asked = len(looks)
    await Conversations(manager).keep_told(Conversation("codex", "c-1"), ("user", LYON), datetime.now(UTC))
    found = await manager.search_memories(question)
    await manager.close()

    assert [one.turns_match for one in nothing] == [None, None, None]
    assert asked == 1
    assert found.turns_match == 1


CITE = "turn:claude-code/s-1/0"
KEPT = "SELECT number FROM conversation_turns ORDER BY number"


async def test_a_session_begins_with_what_is_likely_to_last_of_the_last_one_and_has_no_memory_yet(
    assistant: Assistant, client: Client
) -> None:
    talk(
        assistant,
        ("user", "We decided that Ines signs all contracts from now on."),
        ("assistant", "We decided to note that, always."),
        ("user", "Could you rename this variable to count?"),
        ("user", "Wir haben beschlossen, dass das Archiv nach Bern umzieht."),
        ("user", "I prefer tabs to spaces in the Makefile of the Ark project."),
        ("user", "Remember that the fair of Milan is never in May."),
    )
    await remember(client, "Contracts are signed by Ines.", sources=["turn:claude-code/s-1/0"])
    await remember(client, "In the Makefile of the Ark project Mara prefers tabs to spaces.")

    begun = patiently(assistant, "SessionStart", session_id="s-2", source="startup")

    context = json.loads(begun)["hookSpecificOutput"]["additionalContext"]
    told = [line for line in context.splitlines() if line.startswith("- Not stored yet")]
    assert [line.partition("): ")[2] for line in told] == [
        "Remember that the fair of Milan is never in May.", "Wir haben beschlossen, dass das Archiv nach Bern umzieht.",
    ]  # fmt: skip
    assert "(turn:claude-code/s-1/5)" in told[0]
    assert "not stored yet" in context.partition("\n")[0]
    talk(assistant, ("user", "Thanks."), name="s-3")
    assert "ot stored yet" not in patiently(assistant, "SessionStart", session_id="s-4", source="startup")


async def test_erasing_a_memory_offers_to_erase_the_turns_that_it_cites(
    assistant: Assistant, client: Client, database: Database
) -> None:
    talk(assistant, ("user", LYON), ("user", "Mara's door code changes in May."), ("user", "Good night."))
    id_ = await remember(client, LYON, sources=[CITE, "turn:claude-code/s-1/9", "https://example.org/"])

    offered = await call(client, "forget_memories", ids=[id_], hard=True)
    shown = await call(client, "forget_memories", ids=[id_], hard=True, turns=True)
    other = await refused(client, "forget_memories", ids=[id_], hard=True, confirm_token=shown["confirm_token"])
    assert "1 cited turns of conversations stay; turns=true erases them, too." in offered["message"]
    assert other["code"] == "CONFIRM_REQUIRED"
    shown = await call(client, "forget_memories", ids=[id_], hard=True, turns=True)
    await call(client, "forget_memories", ids=[id_], hard=True, turns=True, confirm_token=shown["confirm_token"])

    assert [row["number"] for row in database.rows(KEPT)] == [1, 2]
    alone = await refused(client, "forget_memories", ids=[id_], turns=True)
    assert "hard" in alone["hint"]


async def test_the_command_line_erases_turns_with_the_memory_that_cites_them_if_told_to(
    assistant: Assistant, client: Client, database: Database
) -> None:
    talk(assistant, ("user", LYON), ("user", "Good night."))
    kept, erased = [
        await remember(client, text, sources=[f"turn:claude-code/s-1/{number}"])
        for number, text in enumerate(("Mara prefers tea.", "The night was good."))
    ]

    await asyncio.to_thread(assistant.typed, "forget", kept, "--hard", "--yes")
    assert len(database.rows(KEPT)) == 2
    await asyncio.to_thread(assistant.typed, "forget", erased, "--hard", "--turns", "--yes")

    assert [row["number"] for row in database.rows(KEPT)] == [0]


async def test_what_a_tool_printed_makes_a_memory_that_does_not_come_unasked(
    assistant: Assistant, client: Client
) -> None:
    talk(assistant, ("tool", "The fair of Milan is in the week after Easter."))
    [turn] = (await search(client, "When is the fair of Milan?", include="turns"))["turns"]

    await remember(client, "The fair of Milan follows Easter.", sources=[turn["cite"]])

    assert turn["cite"] == "tool:claude-code/s-1/0"
    assert "Milan" not in patiently(assistant, "SessionStart", session_id="s-2", source="startup")


async def test_the_end_of_a_session_says_what_was_really_stored_since_it_began(
    assistant: Assistant, client: Client
) -> None:
    before = await remember(client, "The Ark project deploys from Nantes.", project="ark")
    talk(assistant, ("user", LYON))
    await call(client, "update_memory", id=before, content="The Ark project deploys from Lyon.")
    await remember(client, "Ines signs the contracts of the Ark project.")

    ended = patiently(assistant, "SessionEnd", reason="exit")

    assert json.loads(ended) == {"systemMessage": "pgengram: 1 memory stored, 1 changed, 1 turn kept."}


async def test_a_receipt_is_used_once_another_memory_cites_its_memory(assistant: Assistant, client: Client) -> None:
    id_ = await remember(client, LYON, project="ark")
    patiently(assistant, "SessionStart", source="startup")
    [before] = await assistant.answered("receipts")

    await remember(client, "The office in Lyon has two floors.", related_to=[id_])

    [after] = await assistant.answered("receipts")
    assert (before["used"], after["used"]) == (False, True)
