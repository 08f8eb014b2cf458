"""The transcripts that clients keep of their conversations, read as turns from a number on.

A turn's number is the place of its line in the file, which only grows. A line that is still being written is left for
the next time. What a client puts into a conversation by itself is no turn.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

from pgengram.store.assistant.conversations import Turn

READ: Final = ("claude-code", "codex")  # clients whose transcripts are
MAX_BYTES: Final = 200_000_000  # of a transcript


def turns_after(client: str, path: str, conversation: str, last: int) -> list[Turn]:
    """Return the turns of a client's transcript after the number `last`; the last one may have no text, to say how far
    it goes.

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
        if (turn := _turn(client, number, line, conversation)) is not None
    ]
    if lines and len(lines) - 1 > last and (not found or found[-1].number < len(lines) - 1):
        found.append(Turn(len(lines) - 1, "tool", "", datetime.now(UTC)))
    return found


def _turn(client: str, number: int, line: bytes, conversation: str) -> Turn | None:
    """Return what a line of a transcript says; None for what nobody said."""
    from pgengram.transfer.transcripts import claude_code, codex, time_of  # with all importers: no start waits for them

    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("sessionId", conversation) != conversation:
        return None
    role, text = {"claude-code": claude_code, "codex": codex}[client](entry)
    return Turn(number, role, text, time_of(entry) or datetime.now(UTC)) if text else None
