"""Histories of prompts: what a user typed, kept by a client beside its sessions, and longer than these.

A prompt is taken where nothing else tells of its session: a session's own file says what of it stands, and what was
answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pgengram.store.conversations import FROM_FILE, Conversation, Turn
from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.reading import Projects
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.records import Left, Read, Said, mapping, moment
from pgengram.transfer.transcripts import REPEATED, by_person
from pgengram.transfer.wrappers import COMMAND

NO_TIME: Final = "it has no time that can be read"
_BARE: Final = re.compile(r"[/?][\w:-]*")  # a command without an argument
_PASTED: Final = re.compile(r"\[Pasted text #(\d+)[^\]]*\]")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of a history.

    Args:
        text: what was typed.
        time: when.
        session: as the client calls it; empty where the history doesn't say.
        project: what it was about.
    """

    text: str
    time: datetime | None
    session: str
    project: str | None = None


Prompts = Iterable[tuple[str, Prompt | Broken]]  # each with its place


def prompts_left(client: str, prompts: Prompts, sessions: Collection[str]) -> Read:
    """Yield the prompts of a history as turns of their sessions.

    Args:
        client: whose history it is.
        prompts: its own.
        sessions: those that files of their own tell.
    """
    for number, (place, one) in enumerate(prompts, FROM_FILE):
        if isinstance(one, Broken):
            yield Left(one.place, one.reason)
            continue
        said = by_person(client, one.text)
        if one.session in sessions:
            yield Left(place, REPEATED, by_design=True)
        elif _BARE.fullmatch(one.text.strip()):
            yield Left(place, COMMAND, by_design=True)
        elif said.role != "user" or not said.text:
            yield Left(place, said.why, by_design=True)
        elif one.time is None:
            yield Left(place, NO_TIME)
        else:
            conversation = Conversation(client, one.session or f"prompts of {one.time:%Y-%m-%d}", one.project)
            yield Said(place, conversation, Turn(number, "user", said.text, one.time, from_history=True))


def prompts_of_claude(source: Source, file: File, projects: Projects) -> Prompts:
    """Yield the prompts of Claude Code's history.jsonl, with what was pasted into them."""

    def as_prompt(entry: Mapping[str, Any]) -> Prompt:
        pasted = mapping(entry.get("pastedContents"))
        text = _PASTED.sub(
            lambda found: str(mapping(pasted.get(found[1])).get("content") or found[0]), str(entry.get("display") or "")
        )
        session, project = str(entry.get("sessionId") or ""), projects.named(entry.get("project"))
        return Prompt(text, moment(entry.get("timestamp")), session, project)

    return _prompts_of_lines(source, file, as_prompt)


def prompts_of_codex(source: Source, file: File) -> Prompts:
    """Yield the prompts of Codex's history.jsonl."""
    return _prompts_of_lines(
        source,
        file,
        lambda entry: Prompt(str(entry.get("text") or ""), moment(entry.get("ts")), str(entry.get("session_id"))),
    )


def prompts_of_gemini(source: Source, file: File, project: str | None) -> Prompts:
    """Yield the prompts of Gemini CLI's logs.json."""
    for record in source.records(file):
        one = record if isinstance(record, Broken) else mapping(record.value)
        yield (
            record.place,
            one
            if isinstance(one, Broken)
            else Prompt(
                str(one.get("message") or ""), moment(one.get("timestamp")), str(one.get("sessionId")), project
            ),
        )


def _prompts_of_lines(
    source: Source, file: File, as_prompt: Callable[[Mapping[str, Any]], Prompt]
) -> Iterator[tuple[str, Any]]:
    for number, entry in source.objects(file):
        yield f"{file.place}, line {number + 1}", entry if isinstance(entry, Broken) else as_prompt(entry)
