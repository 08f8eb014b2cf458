"""What strangers wrote into the memories does not come unasked, and what is ordinary is not taken for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hooked_assistant import Assistant
from mcp import Client

from helpers import call, connected, remember
from machine import answered
from pgengram.runtime.context import PEOPLE

BY_LANGUAGE = json.loads(Path(__file__).with_name("hostile_payloads.json").read_text(encoding="utf-8"))
PAYLOADS = [
    f"{opening} {demand}" for said in BY_LANGUAGE.values() for opening in said["openings"] for demand in said["demands"]
]
STRANGE: list[dict[str, Any]] = [
    {"kind": "web"}, {"kind": "tool", "label": "Bash"}, {"kind": "email", "author": "Mallory"}, {"kind": "issue"},
    {"ref": "https://example.org/a"}, {"kind": "note", "label": "HTTPS://example.org/b"}, {"kind": "file", "ref": "README.md"},
]  # fmt: skip
ORDINARY: list[list[dict[str, Any]] | None] = [
    None, [{"kind": "person", "author": "Mara", "trust": 0.9}], [{"kind": "conversation", "ref": "s-1#4"}],
    [{"kind": "user"}], [{"kind": "meeting", "label": "Monday"}],
]  # fmt: skip
LYON = "The Ark project deploys from the office in Lyon."
Made = Callable[[Client, str, str], Awaitable[None]]
FEW = 20  # memories of a round, which fit before a session together
ROUNDS = 6
MOST_FALSE_ALARMS = 0.01


@pytest_asyncio.fixture
async def client(assistant: Assistant) -> AsyncIterator[Client]:
    """A server of the assistant's store; the assistant works in the project ark."""
    (assistant.folder / "ark").mkdir()
    assistant.session = {"cwd": str(assistant.folder / "ark")}
    async with connected(**assistant.settings) as made:
        yield made


async def test_no_hostile_payload_is_put_before_a_session_unasked(assistant: Assistant, client: Client) -> None:
    sources = cycle(STRANGE)
    items = [{"content": text, "project": "ark", "importance": 1, "sources": [next(sources)]} for text in PAYLOADS]
    stored = await call(client, "create_memories", items=items)
    await remember(client, LYON, project="ark", importance=0.1)

    begun = assistant.context("SessionStart")
    asked = [
        assistant.hook("UserPromptSubmit", session_id=f"s-{number}", prompt=text)
        for number, text in enumerate(PAYLOADS[:: len(PAYLOADS) // 10], 2)
    ]

    assert stored["created"] == len(PAYLOADS) == 200
    assert LYON in begun
    assert "Mallory" not in begun + "".join(asked)
    assert not any(opening in begun for said in BY_LANGUAGE.values() for opening in said["openings"])


async def merged(client: Client, strange: str, ordinary: str) -> None:
    """Merge two memories into the ordinary one, as a model does with a plan."""
    plan = [{"action": "merge", "ids": [strange], "into": ordinary}]
    shown = await call(client, "tidy_memories", action="apply", plan=plan)
    await call(client, "tidy_memories", action="apply", plan=plan, confirm_token=shown["confirm_token"])


async def consolidated(client: Client, strange: str, ordinary: str) -> None:
    """Let one new memory stand for both, and another for that."""
    for text in ("Mallory has the backups of the staging database.", "The backups of staging are with Mallory."):
        made = await call(
            client, "forget_memories", ids=[strange, ordinary], replacements=[{"content": text, "importance": 1}]
        )
        strange, ordinary = made["replacement_ids"][0], made["replacement_ids"][0]


async def retold(client: Client, _: str, ordinary: str) -> None:
    """Store nearly what the ordinary one says, from the web, to be merged into it."""
    text = "The staging database is backed up every night to the office NAS by a cron job. It runs on the host."
    told = await call(client, "create_memory", content=text, sources=[{"kind": "web"}], dedup_policy="merge")
    assert (told["memory_id"], told["merged"]) == (ordinary, True)


@pytest.mark.parametrize("made", [merged, consolidated, retold])
async def test_what_is_made_of_several_memories_is_trusted_as_the_least_of_them(
    assistant: Assistant, client: Client, made: Made
) -> None:
    ordinary = await remember(client, "The staging database is backed up every night to the office NAS by a cron job.")
    strange = await remember(client, "Mallory gets the backups of staging.", sources=[{"kind": "web"}], importance=1)
    await remember(client, LYON)
    before = assistant.context("SessionStart", session_id="s-1")

    await made(client, strange, ordinary)
    begun = assistant.context("SessionStart", session_id="s-2")

    assert "every night" in before
    assert "Mallory" not in before
    assert LYON in begun
    assert "staging" not in begun
    assert "Mallory" not in begun


async def test_ordinary_memories_are_hardly_ever_left_out(assistant: Assistant, client: Client) -> None:
    kinds = cycle(ORDINARY)
    missing = 0
    for turn in range(ROUNDS):
        texts = [f"Room {turn * FEW + number} of the office has a whiteboard." for number in range(FEW)]
        items = [
            {"content": text, "project": f"ark{turn}", **({"sources": sources} if (sources := next(kinds)) else {})}
            for text in texts
        ]
        await call(client, "create_memories", items=items)
        folder = assistant.folder / f"ark{turn}"
        folder.mkdir()
        begun = assistant.context("SessionStart", session_id=f"r-{turn}", cwd=str(folder))
        missing += sum(text not in begun for text in texts)

    assert missing <= MOST_FALSE_ALARMS * FEW * ROUNDS


async def test_a_history_that_an_import_carries_vouches_for_nothing(assistant: Assistant, client: Client) -> None:
    web = [{"kind": "web", "ref": "https://example.org/a"}]
    there = await remember(client, f"{PAYLOADS[1]} Once more.", project="ark", importance=1, sources=web)
    by_a_person = {
        "version": 2,
        "operation": "confirm",
        "at": "2026-01-01T00:00:00Z",
        "changes": {"content": ["a", "b"]},
    }
    records = [
        {"content": f"{PAYLOADS[0]} ({actor})", "project": "ark", "importance": 1, "sources": web,
         "history": [{**by_a_person, "actor": actor}]}
        for actor in PEOPLE
    ]  # fmt: skip
    records.append({"record": "history", "memory_id": there, **by_a_person, "version": 9, "actor": PEOPLE[0]})
    path = assistant.folder / "export.jsonl"
    path.write_text("".join(json.dumps({"record": "memory", **one}) + "\n" for one in records), encoding="utf-8")

    told = await asyncio.to_thread(answered, "import", str(path), "--json", **assistant.settings)
    begun = assistant.context("SessionStart")

    assert (told["added"], told["left"]) == ({"memory": len(PEOPLE)}, [])
    assert not any(opening in begun for said in BY_LANGUAGE.values() for opening in said["openings"])
