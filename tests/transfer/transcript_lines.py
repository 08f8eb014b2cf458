"""Lines as clients write them into their transcripts, and what came of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from helpers import Database
from pgengram.service.manager import MemoryManager
from pgengram.transfer.importing import import_from
from pgengram.transfer.report import Imported

DAY = datetime(2026, 9, 2, 10, tzinfo=UTC)


def at(second: int) -> str:
    """Return a moment of the day of all these conversations."""
    return (DAY + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")


def written(path: Path, *lines: Mapping[str, Any]) -> Path:
    """Write lines of JSON into a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def claude(
    role: str, content: Any, uuid: str, parent: str | None = None, second: int = 0, **more: Any
) -> dict[str, Any]:
    """Return a line of Claude Code."""
    return {
        "type": role, "uuid": uuid, "parentUuid": parent, "timestamp": at(second), "sessionId": "s1", "cwd": "/w/ark",
        "isSidechain": False, "message": {"role": role, "content": content}, **more,
    }  # fmt: skip


def chain(*said: str, session: str = "s1", name: str = "m", **more: Any) -> list[dict[str, Any]]:
    """Return a conversation of Claude Code: what the user and the assistant said in turn."""
    return [
        claude("assistant" if place % 2 else "user", text, f"{name}{place}", f"{name}{place - 1}" if place else None, place,
               sessionId=session, **more)
        for place, text in enumerate(said)
    ]  # fmt: skip


def codex_meta(id_: str, second: int = 0, cwd: str = "/w/ark", **more: Any) -> dict[str, Any]:
    return {"type": "session_meta", "timestamp": at(second), "payload": {"id": id_, "cwd": cwd, **more}}


def codex(role: str, text: str, second: int = 0) -> dict[str, Any]:
    """Return an item of Codex."""
    kind = "output_text" if role == "assistant" else "input_text"
    message = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"type": "response_item", "timestamp": at(second), "payload": message}


def codex_event(kind: str, second: int = 0, **payload: Any) -> dict[str, Any]:
    return {"type": "event_msg", "timestamp": at(second), "payload": {"type": kind, **payload}}


def gemini(id_: str, role: str, text: Any, second: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": id_, "timestamp": at(second), "type": role, "content": text, **more}


async def imported(manager: MemoryManager, path: Path, system: str = "") -> Imported:
    """Import, see that doing it again adds nothing, and return what the first time told."""
    first = await import_from(manager, system, str(path), dry_run=False, report=lambda *_: None)
    again = await import_from(manager, system, str(path), dry_run=False, report=lambda *_: None)
    assert sum(again.added.values()) == 0, again
    return first


def said(database: Database, *, roles: Sequence[str] = ("user", "assistant")) -> dict[str, list[str]]:
    """Return what was said in each conversation, in its order."""
    found: dict[str, list[str]] = {}
    for row in database.rows(
        "SELECT conversation, role, text FROM conversation_turns ORDER BY conversation, time, number"
    ):
        if row["role"] in roles:
            found.setdefault(row["conversation"], []).append(row["text"])
    return found


def passed(report: Imported) -> dict[str, int]:
    """Return how much was left out by design, by reason."""
    return {reason: one.count for reason, one in report.passed.items()}
