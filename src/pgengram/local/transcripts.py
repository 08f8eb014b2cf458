"""The transcripts that clients keep of their conversations, read as turns by what an import reads them by.

A turn's number is the place of its line in the file, which only grows. A line that is still being written is left for
the next time. What a client puts into a conversation by itself is not a turn.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pgengram.errors import InvalidInput
from pgengram.store.assistant.conversations import Conversation, Turn

if TYPE_CHECKING:
    from pgengram.transfer.transcripts import Entries, Line

READ: Final = ("claude-code", "codex")  # clients whose transcripts are
WHERE: Final = "Nothing of it is kept. Look at the transcript_path that the client gives its hooks."
MAX_BYTES: Final = 200_000_000  # of a transcript
CONTEXT: Final = 200  # lines before the new ones that are read again, as new ones may take them back


def read_transcript(conversation: Conversation, after: int = -1) -> tuple[Conversation, Sequence[Turn]]:
    """Return a conversation with what its transcript says of it, and its turns. The last one has no text, and says how
    far the transcript goes; there are none where there is no file yet.

    Args:
        conversation: whose transcript is read.
        after: the number of a turn that was read before; of those up to there, only the last ones and those that were
            taken back are needed, so that a long transcript is not parsed at each event.

    Raises:
        InvalidInput: it can't be read, or is not an ordinary file.
    """
    lines = _whole_lines(conversation.transcript or "")
    if not lines:
        return conversation, []
    entries = _latest(conversation.client, lines, after) or _numbered_entries(lines, 0)
    from pgengram.transfer.records import Said  # with all importers: no start waits for them

    known, found = _read_lines(conversation, lambda: iter(entries))
    now = datetime.now(UTC)
    said = (
        one
        for line in found
        if line.conversation == conversation.id
        for one in replace(line, time=line.time or now).as_turns("", known)
    )
    turns = [one.turn for one in said if isinstance(one, Said)]
    return known, [*turns, Turn(len(lines) - 1, "tool", "", now)]


def _latest(client: str, lines: Sequence[bytes], after: int) -> list[tuple[int, dict[str, Any]]]:
    """Return the new entries with those before them that they are about; nothing where that is not enough to tell what
    the new ones take back.
    """
    from pgengram.transfer.importers.chats import claude_code, codex

    begin = after + 1 - CONTEXT if after < len(lines) else 0
    if begin <= 0:
        return []
    if client == claude_code.CLIENT:
        entries = _numbered_entries(lines, begin)
        return entries if claude_code.goes_on(entries, after) else []
    begins = next((number for number in range(begin, after + 1) if codex.BEGINS_TURN in lines[number]), None)
    if begins is None or any(codex.ROLLED_BACK in line for line in lines[after + 1 :]):
        return []
    return [*_numbered_entries(lines[:1], 0), *_numbered_entries(lines, begins)]


def _numbered_entries(lines: Sequence[bytes], begin: int) -> list[tuple[int, dict[str, Any]]]:
    """Return what the lines from a number on say, each with its number."""
    numbered = enumerate(lines[begin:], begin)
    return [(number, entry) for number, line in numbered if (entry := _entry(line)) is not None]


def _read_lines(conversation: Conversation, entries: Entries) -> tuple[Conversation, Iterator[Line]]:
    """Return a conversation with what its lines say of it, and what each comes to."""
    from pgengram.transfer.importers.chats import claude_code, codex

    if conversation.client == claude_code.CLIENT:
        of_claude = claude_code.Survey(entries)
        of_claude.unsent.clear()  # a prompt stands there as waiting before it does as sent
        found = claude_code.transcript_lines(entries, of_claude, conversation.id)
        known = replace(conversation, as_of=of_claude.as_of)
    else:
        header = replace(codex.Header.among((entry for _, entry in entries()), ""), id=conversation.id)
        of_codex = codex.Survey(entries)
        found = codex.session_lines(entries, of_codex, header)
        known = replace(conversation, as_of=of_codex.as_of, forked_from=header.copied_from, began_at=header.began_at)
    return known, (line for _, line in found if line)


def _whole_lines(path: str) -> list[bytes]:
    """Return the whole lines of a file; nothing where there is none yet.

    It is opened without waiting: a pipe would be read for ever.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    try:
        opened = os.open(path, flags)
        if stat.S_ISREG(os.fstat(opened).st_mode):
            with open(opened, "rb") as file:
                return file.read(MAX_BYTES).split(b"\n")[:-1]
        os.close(opened)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InvalidInput(f"The transcript can't be read: {error.strerror}.", WHERE) from None
    raise InvalidInput("The transcript is not a regular file.", WHERE)


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None
