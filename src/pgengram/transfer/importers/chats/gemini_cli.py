"""Gemini CLI's sessions: the folder ~/.gemini/tmp, or one of its session-*.json or session-*.jsonl files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pgengram.store.assistant.conversations import FROM_FILE, Conversation
from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.reading import files_of
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.records import Left, Read, said_or_left
from pgengram.transfer.transcripts import gemini_cli, time_of

CLIENT: Final = "gemini-cli"
_HASH: Final = re.compile(r"[0-9a-f]{32,}")


def read(source: Source) -> Read:
    """Read the turns of every session."""
    for file in files_of(source, "session-*.json", "session-*.jsonl"):
        if isinstance(file, Left):
            yield file
            continue
        raw: dict[str, Any] = {}
        messages: dict[str, tuple[str, dict[str, Any]]] = {}  # a message that grows is written again
        for place, entry in _entries(source, file):
            if isinstance(entry, Left):
                yield entry
            elif "type" in entry:
                messages[str(entry.get("id") or place)] = place, entry
            else:
                raw |= entry
        conversation = Conversation(CLIENT, str(raw.get("sessionId") or file.path.stem), _project(file))
        for number, (place, entry) in enumerate(messages.values(), FROM_FILE):
            role, text = gemini_cli(entry)
            yield said_or_left(place, conversation, number, role, text, time_of(entry))


def _entries(source: Source, file: File) -> Iterator[tuple[str, dict[str, Any] | Left]]:
    """Yield what is said of the whole session, and its messages."""
    if file.path.suffix == ".jsonl":
        for number, entry in source.objects(file):
            place = f"{file.place}, line {number + 1}"
            yield place, Left(entry.place, entry.reason) if isinstance(entry, Broken) else entry
        return
    raw = source.whole(file)
    if isinstance(raw, Broken):
        yield file.place, Left(raw.place, raw.reason)
    elif not isinstance(raw, dict) or not isinstance(raw.get("messages"), list):
        yield file.place, Left(file.place, "it is not a session of Gemini CLI")
    else:
        yield file.place, {name: value for name, value in raw.items() if name not in ("messages", "type")}
        for number, message in enumerate(raw["messages"]):
            place = f"{file.place}, message {number + 1}"
            yield place, message if isinstance(message, dict) else Left(place, "it is not a JSON object")


def _project(file: File) -> str | None:
    """Return the project by the name of the folder above `chats`; older versions name it by a hash."""
    above = [part for part in file.path.parts[:-1] if part != "chats"]
    return above[-1] if above and not _HASH.fullmatch(above[-1]) else None
