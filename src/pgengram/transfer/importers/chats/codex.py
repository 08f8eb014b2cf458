"""Codex's sessions: the folder ~/.codex/sessions, or one of its rollout-*.jsonl files."""

from __future__ import annotations

from typing import Final

from pgengram.store.assistant.conversations import Conversation
from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.reading import Projects, files_of
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.records import Left, Read, said_or_left
from pgengram.transfer.transcripts import codex, time_of

CLIENT: Final = "codex"
OF_A_NAME: Final = 36  # characters of the id at the end of a file's name


def read(source: Source) -> Read:
    """Read the turns of every session."""
    projects = Projects()
    for file in files_of(source, "rollout-*.jsonl"):
        if isinstance(file, Left):
            yield file
        else:
            yield from _turns(source, file, projects)


def _turns(source: Source, file: File, projects: Projects) -> Read:
    conversation = Conversation(CLIENT, file.path.stem[-OF_A_NAME:])
    for number, entry in source.objects(file):
        if isinstance(entry, Broken):
            yield Left(entry.place, entry.reason)
            continue
        payload = entry.get("payload")
        raw = payload if isinstance(payload, dict) else entry
        if (entry.get("type") == "session_meta" or number == 0) and raw.get("id"):
            conversation = Conversation(CLIENT, str(raw["id"]), projects.named(raw.get("cwd")))
        role, text = codex(entry)
        yield said_or_left(f"{file.place}, line {number + 1}", conversation, number, role, text, time_of(entry))
