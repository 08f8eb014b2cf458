"""The tutorial of three sessions: what it says stands before the model does."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

from hooked_assistant import Assistant
from mcp import Client

from helpers import call, connected
from pgengram.ids import short

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "three-sessions-with-hooks.md"
BLOCK = re.compile(r"<!-- (talk|given|store) -->\n```\w+\n(.*?)```", re.DOTALL)


def begun(assistant: Assistant, name: str) -> str:
    """Start a session, again if a busy machine has let the hook give up, and return what stands before the model."""
    log = None
    while assistant.log != log:
        log = assistant.log
        printed = assistant.hook("SessionStart", session_id=name, source="startup")
    return str(json.loads(printed)["hookSpecificOutput"]["additionalContext"])


def said(assistant: Assistant, name: str, talk: str) -> None:
    """Say what stands on the page, in a session that ends with it."""
    path, now = assistant.folder / f"{name}.jsonl", datetime.now(UTC).isoformat()
    for line in talk.splitlines():
        who, _, text = line.partition(": ")
        role = "user" if who == "you" else who
        entry = {"type": role, "message": {"role": role, "content": text}, "timestamp": now, "sessionId": name}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
    assistant.hook("SessionEnd", session_id=name, transcript_path=str(path))


async def stored(client: Client, command: str) -> str:
    """Store what a command of the page stores, and return the end of its id."""
    words = dict(word.split("=", 1) for word in shlex.split(command)[3:])
    return short((await call(client, "create_memory", **words))["memory_id"])


async def test_each_of_three_sessions_begins_with_what_the_tutorial_shows(assistant: Assistant) -> None:
    assistant.settings["embedder"] = "builtin:"
    (assistant.folder / "ark").mkdir()
    assistant.session = {"cwd": str(assistant.folder / "ark")}
    today, id_, given = f"{datetime.now(UTC):%Y-%m-%d}", "", 0
    sessions = PAGE.read_text(encoding="utf-8").split("\n## Session ")[1:]
    async with connected(**assistant.settings) as client:
        await client.call_tool("memory_stats", {})
        for number, session in enumerate(sessions, 1):
            context = begun(assistant, f"session-{number}").replace(today, "DATE").replace(id_ or "no id", "ID")
            for kind, text in BLOCK.findall(session):
                if kind == "given":
                    shown = [line for line in context.splitlines() if line.startswith("- ")]
                    assert shown == text.splitlines()
                    given += 1
                elif kind == "talk":
                    said(assistant, f"session-{number}", text)
                else:
                    id_ = await stored(client, text)

    assert (len(sessions), given) == (3, 2)
