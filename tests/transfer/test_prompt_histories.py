"""Of sessions whose files are gone, what their client's history of prompts still has is kept; of all others, nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transcript_lines import DAY, at, chain, codex, codex_meta, gemini, imported, passed, said, written

from helpers import Database
from pgengram.service.conversations import Conversations
from pgengram.service.manager import MemoryManager
from pgengram.store.conversations import Conversation

REPEATED = "it repeats what was said"
COMMAND = "it is a command of the client"
MS = int(DAY.timestamp()) * 1_000


def typed(text: str, second: int, session: str = "s1", **pasted: str) -> dict[str, Any]:
    """Return a line of Claude Code's history."""
    contents = {name[1:]: {"id": int(name[1:]), "type": "text", "content": one} for name, one in pasted.items()}
    return {"display": text, "pastedContents": contents, "timestamp": MS + second * 1_000, "project": "/w/ark",
            "sessionId": session}  # fmt: skip


def of_claude(home: Path) -> tuple[str, Path]:
    written(
        home / "history.jsonl",
        typed("moor at dawn", 1),
        typed("/clear", 2),
        typed("take down: [Pasted text #1 +2 lines]", 3, "gone", _1="a\nb"),
    )
    written(home / "projects" / "-w-ark" / "s1.jsonl", *chain("moor at dawn", "aye"))
    return "claude-code", home / "history.jsonl"  # fmt: skip


def of_codex(home: Path) -> tuple[str, Path]:
    seconds = int(DAY.timestamp())
    lines = [("s1", "moor at dawn"), ("s1", "/clear"), ("gone", "take down: a\nb")]
    written(home / "history.jsonl", *({"session_id": id_, "ts": seconds, "text": text} for id_, text in lines))
    written(
        home / "sessions" / "rollout-s1.jsonl",
        codex_meta("s1"),
        codex("user", "moor at dawn", 1),
        codex("assistant", "aye", 2),
    )
    return "codex", home / "history.jsonl"  # fmt: skip


def of_gemini(home: Path) -> tuple[str, Path]:
    folder = home / "tmp" / "ark"
    lines = [("s1", "moor at dawn"), ("s1", "/clear"), ("gone", "take down: a\nb")]
    logs = [{"sessionId": id_, "messageId": number, "type": "user", "message": text, "timestamp": at(number)}
            for number, (id_, text) in enumerate(lines)]  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "logs.json").write_text(json.dumps(logs))
    header = {"sessionId": "s1", "projectHash": "h", "startTime": at(0)}
    written(
        folder / "chats" / "session-1.jsonl", header, gemini("a", "user", "moor at dawn"), gemini("b", "gemini", "aye")
    )
    return "gemini-cli", folder / "logs.json"  # fmt: skip


@pytest.mark.parametrize("of", [of_claude, of_codex, of_gemini])
async def test_a_prompt_whose_session_is_gone_is_kept_and_one_whose_session_is_there_is_not_said_twice(
    manager: MemoryManager, database: Database, tmp_path: Path, of: Any
) -> None:
    client, history = of(tmp_path)

    report = await imported(manager, tmp_path)

    both = {"gone": ["take down: a\nb"], "s1": ["moor at dawn", "aye"]}
    assert (report.system, said(database)) == (client, both)
    # /clear of a session that is there repeats nothing that counts; it is told once, in whichever way.
    assert not report.left
    assert sum(passed(report).get(reason, 0) for reason in (REPEATED, COMMAND)) == 2

    alone = await imported(manager, history)  # by itself it is recognised, and brings nothing that is there

    assert (alone.system, said(database)) == (client, both)


@pytest.mark.parametrize("of", [of_claude, of_codex, of_gemini])
async def test_a_history_that_comes_before_the_sessions_comes_to_the_same(
    manager: MemoryManager, database: Database, tmp_path: Path, of: Any
) -> None:
    _, history = of(tmp_path)
    first = await imported(manager, history)
    assert passed(first) == {COMMAND: 1}
    assert said(database) == {"gone": ["take down: a\nb"], "s1": ["moor at dawn"]}

    await imported(manager, tmp_path)

    assert said(database) == {"gone": ["take down: a\nb"], "s1": ["moor at dawn", "aye"]}


async def test_what_hooks_kept_is_not_said_again_by_a_history(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    _, history = of_gemini(tmp_path)
    await Conversations(manager).keep_told(Conversation("gemini-cli", "s1"), ("user", "moor at dawn"), DAY)

    await imported(manager, history)

    assert said(database) == {"gone": ["take down: a\nb"], "s1": ["moor at dawn"]}


async def test_a_session_of_the_first_codex_which_is_one_object_is_read_wherever_it_lies(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    items = [codex("user", "stow the oars")["payload"], codex("assistant", "stowed")["payload"]]
    session = {"session": {"timestamp": at(0), "id": "first", "instructions": ""}, "items": items}
    (tmp_path / "rollout-2025-05-01-first.json").write_text(json.dumps(session))

    await imported(manager, tmp_path / "rollout-2025-05-01-first.json")
    written(tmp_path / "rollout-2.jsonl", codex_meta("second"), codex("user", "row on"))
    await imported(manager, tmp_path)

    assert said(database) == {"first": ["stow the oars", "stowed"], "second": ["row on"]}
