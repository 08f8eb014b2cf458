"""The transcripts that clients keep of their conversations, read as turns from a number on.

A turn's number is the place of its line in the file, which only grows. A line that is still being written is left for
the next time. What a client puts into a conversation by itself is no turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pgengram.store.assistant.conversations import Turn

MAX_BYTES: Final = 200_000_000  # of a transcript
MAX_INPUT: Final = 500  # characters of what a tool was called with
BY_THE_CLIENT: Final = ("<command-", "<local-command-", "<system-reminder>", "<task-notification>")


def turns_after(path: str, conversation: str, last: int) -> list[Turn]:
    """Return the turns of a transcript after the number `last`; the last one may have no text, to say how far it goes.

    None are returned where there is no file yet.
    """
    try:
        with open(path, "rb") as file:
            lines = file.read(MAX_BYTES).split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    found = [
        turn
        for number, line in enumerate(lines[last + 1 :], last + 1)
        if (turn := _turn(number, line, conversation)) is not None
    ]
    if lines and len(lines) - 1 > last and (not found or found[-1].number < len(lines) - 1):
        found.append(Turn(len(lines) - 1, "tool", "", datetime.now(UTC)))
    return found


def _turn(number: int, line: bytes, conversation: str) -> Turn | None:
    """Return what a line of a transcript of Claude Code says; None for what nobody said."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("type") not in ("user", "assistant"):
        return None
    if any(entry.get(name) for name in ("isSidechain", "isMeta", "isCompactSummary")):
        return None
    if entry.get("sessionId", conversation) != conversation:
        return None
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    said = "\n\n".join(_said(content)).strip()
    if said and not said.startswith(BY_THE_CLIENT):
        return Turn(number, entry["type"], said, _moment(entry))
    done = "\n\n".join(_done(content)).strip()
    return Turn(number, "tool", done, _moment(entry)) if done else None


def _said(content: Any) -> Iterator[str]:
    """Yield the texts of a message."""
    if isinstance(content, str):
        yield content
    for block in _blocks(content):
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            yield block["text"]


def _done(content: Any) -> Iterator[str]:
    """Yield which tools a message calls, and what they answered."""
    for block in _blocks(content):
        if block.get("type") == "tool_use":
            yield f"{block.get('name')} {json.dumps(block.get('input'), ensure_ascii=False)[:MAX_INPUT]}"
        elif block.get("type") == "tool_result":
            yield "\n".join(_said(block.get("content")))


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def _moment(entry: Mapping[str, Any]) -> datetime:
    try:
        return datetime.fromisoformat(str(entry.get("timestamp"))).astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)
