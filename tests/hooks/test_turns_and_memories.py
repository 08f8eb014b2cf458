"""What was said beside what is remembered: found apart, cited by memories, and erased with them if that is wanted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest_asyncio
from hooked_assistant import Assistant
from mcp import Client

from helpers import call, connected, remember

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
    assistant.hook("SessionEnd", session_id=name, transcript_path=str(path))


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
