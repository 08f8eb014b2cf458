"""Claude Code's transcripts: the folder ~/.claude/projects, one of its folders, or one file.

Turns have the numbers that they have when hooks keep them, so that a conversation is there once. The CLAUDE.md and
MEMORY.md files beside them become memories.
"""

from __future__ import annotations

from typing import Final

from pgengram.store.assistant.conversations import Conversation
from pgengram.transfer.importers.markdown import document, facts
from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.reading import Projects, files_of
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.records import Left, Read, said_or_left
from pgengram.transfer.transcripts import claude_code, time_of

CLIENT: Final = "claude-code"


def read(source: Source) -> Read:
    """Read the turns of every transcript, and the facts of every file of memories."""
    projects = Projects()
    for file in files_of(source, "*.jsonl", "*.md"):
        if isinstance(file, Left):
            yield file
        elif file.path.suffix != ".md":
            yield from _turns(source, file, projects)
        else:
            note = document(source, file)
            yield from (note,) if isinstance(note, Left) else facts(CLIENT, file.place, note)


def _turns(source: Source, file: File, projects: Projects) -> Read:
    for number, entry in source.objects(file):
        if isinstance(entry, Broken):
            yield Left(entry.place, entry.reason)
            continue
        id_ = str(entry.get("sessionId") or file.path.stem)
        conversation = Conversation(CLIENT, id_, projects.named(entry.get("cwd")))
        role, text = claude_code(entry)
        yield said_or_left(f"{file.place}, line {number + 1}", conversation, number, role, text, time_of(entry))
