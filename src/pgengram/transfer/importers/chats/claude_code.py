"""Claude Code's transcripts: the folder ~/.claude/projects, one of its folders, or one file.

Turns have the numbers and names that they have when hooks keep them, so that a conversation is there once. The
CLAUDE.md and MEMORY.md files beside them become memories. Of sessions whose transcripts are gone, history.jsonl still
has the prompts.

A line has a uuid, and that of the line before it as `parentUuid`, so a transcript is a tree; it only grows, and ends
with its last message. What a rewind has left has a prompt at its beginning; the answers of tools that run at the same
time branch off, too, and belong to the conversation. A session that was forked repeats lines of the one before it with
their uuids, which `forkedFrom` names in newer versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pgengram.store.conversations import Conversation
from pgengram.transfer.importers.markdown import document, facts
from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.reading import Projects, files_of
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.prompt_history import prompts_left, prompts_of_claude
from pgengram.transfer.records import Left, Read, mapping
from pgengram.transfer.transcripts import (
    REPEATED,
    SUBAGENT,
    Entries,
    Line,
    Uttered,
    answered,
    by_assistant,
    by_person,
    entries_of,
    message_blocks,
    time_of,
    trees,
    withdrawn,
)
from pgengram.transfer.wrappers import BY_CLIENT, BY_PROGRAM

CLIENT: Final = "claude-code"
HISTORY: Final = re.compile(rb'\s*\{\s*"display"\s*:')  # how the file of all prompts begins
_BEGINNING: Final = ""  # before the first prompt
GOES_ON: Final = timedelta(hours=1)  # after its last line a session may still send the prompts that wait
# How the answer of a tool begins that the user refused with a remark, or that has answered questions.
REFUSED: Final = re.compile(
    r"The user doesn't want to [^\n]*the user said:\n(.*?)(?:\n\nNote: The user's next message may .*)?\Z", re.DOTALL
)
ANSWERED: Final = re.compile(r"User has answered your questions?:")
ANSWER: Final = re.compile(r'"([^"]*)"="(.*?)"(?=, "|\. You can |\.?\s*\Z| user notes:| selected )', re.DOTALL)
PEOPLE: Final = (None, "human", "user", "unclassified")  # kinds of origin


def read(source: Source) -> Read:
    """Read the turns of every transcript, and the facts of every file of memories."""
    projects = Projects()
    sessions: set[str] = set()
    histories: list[File] = []
    for file in files_of(source, "*.jsonl", "*.md"):
        if isinstance(file, Left):
            yield file
        elif file.path.suffix != ".md" and HISTORY.match(source.begins(file)):
            histories.append(file)
        elif file.path.suffix != ".md":
            yield from _transcript_turns(source, file, projects, sessions)
        else:
            note = document(source, file)
            yield from (note,) if isinstance(note, Left) else facts(CLIENT, file.place, note)
    for file in histories:
        yield from prompts_left(CLIENT, prompts_of_claude(source, file, projects), sessions)


def _transcript_turns(source: Source, file: File, projects: Projects, sessions: set[str]) -> Read:
    entries = entries_of(source, file)
    survey = Survey(entries)
    if survey.as_of and survey.as_of > datetime.now(UTC) - GOES_ON:
        survey.unsent.clear()
    for entry, line in transcript_lines(entries, survey, file.path.stem):
        if isinstance(entry, Broken):
            yield Left(entry.place, entry.reason)
        elif line:
            if line.uttered.if_said():
                sessions.add(line.conversation)
            project = projects.named(entry.get("cwd") or survey.folder)
            conversation = Conversation(CLIENT, line.conversation, project, as_of=survey.as_of)
            yield from line.as_turns(f"{file.place}, line {line.number + 1}", conversation)


@dataclass(slots=True)
class Survey:
    """What is to be known of a transcript before its lines are read.

    Args:
        entries: its lines.

    Attributes:
        session: what its first line calls the conversation.
        folder: in which its first line was written.
        as_of: when it was written last.
        copied_as_of: when that other one, by its name, was written last as far as it was copied.
        withdrawn: uuids of lines that were taken back.
        repeated: numbers of lines whose uuid was there before.
        unsent: numbers of lines with a prompt that waited when the session ended.
        queued: numbers of lines with a prompt that waited, and does no longer; an import may have kept it until then.
    """

    entries: Entries
    session: str = ""
    folder: str = ""
    as_of: datetime | None = None
    copied_as_of: dict[str, datetime | None] = field(default_factory=dict)
    withdrawn: set[str] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)
    unsent: set[int] = field(default_factory=set)
    queued: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        tree = _Tree()
        queue = _Queue()
        for number, entry in self.entries():
            if isinstance(entry, Broken):
                continue
            self._note(entry)
            queue.note(number, entry)
            if isinstance(entry.get("uuid"), str) and not entry.get("isSidechain") and not tree.add(entry):
                self.repeated.add(number)
        self.unsent = queue.unsent()
        self.queued = queue.all - self.unsent
        self.withdrawn = tree.withdrawn()

    def _note(self, entry: Mapping[str, Any]) -> None:
        self.session = self.session or str(entry.get("sessionId") or "")
        self.folder = self.folder or str(entry.get("cwd") or "")
        time = time_of(entry)
        self.as_of = max(filter(None, (self.as_of, time)), default=None)
        if origin := mapping(entry.get("forkedFrom")).get("sessionId"):
            self.copied_as_of[str(origin)] = max(filter(None, (self.copied_as_of.get(str(origin)), time)), default=None)


class _Tree:
    """The lines of a transcript, each with the one before it."""

    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}
        self._said: dict[str, Uttered] = {}
        self._answers: set[str] = (
            set()
        )  # of tools, which may run side by side, so that each has a line before it of its own
        self._queued: set[str] = set()
        self._beginnings: list[str] = []
        self._latest: datetime | None = None

    def add(self, entry: Mapping[str, Any]) -> bool:
        """Add a line; return whether it doesn't repeat one."""
        uuid, one = str(entry["uuid"]), said_in_line(entry)
        if list(_results(entry)):
            self._answers.add(uuid)
        if uuid in self._parents:
            return one != self._said[uuid]
        if entry.get("type") == "attachment" and one.role == "user":
            self._queued.add(uuid)
        self._parents[uuid] = _parent(entry)
        self._said[uuid] = one
        time = time_of(entry)
        if _begins(entry, one) and (self._latest is None or (time and time > self._latest)):
            self._beginnings.append(uuid)
        self._latest = max(filter(None, (self._latest, time)), default=None)
        return True

    def withdrawn(self) -> set[str]:
        """Return the uuids of what was taken back.

        A prompt without a line before it, later than all lines so far, was typed after going back to the very
        beginning; but only where lines name each other, so that each earlier beginning was answered.
        """
        parents, said = dict(self._parents), self._said
        if self._beginnings_are_answered():
            parents |= dict.fromkeys(self._beginnings, _BEGINNING)
            parents[_BEGINNING] = None
        prompts = {name for name, one in said.items() if one.role == "user"} - self._answers - self._queued
        asked_anew = {parents[name] for name in prompts}
        prompts |= {name for name in self._queued if parents[name] in asked_anew}
        found: set[str] = set()
        for names in trees(parents).values():
            last = next((name for name in reversed(names) if name in said and self._is_said(name)), names[-1])
            found |= withdrawn({name: parents[name] for name in names}, last, prompts)
        return found

    def _beginnings_are_answered(self) -> bool:
        """Whether lines name each other, and each beginning but the last was answered."""
        parents, said = self._parents, self._said
        if None in {parents[name] for name, one in said.items() if one.role == "assistant"}:
            return False
        pairs = [(said[name].role, above) for name, above in parents.items() if above in said]
        answered = {above for role, above in pairs if not role == said[above].role == "user"}
        return answered.issuperset(self._beginnings[:-1])

    def _is_said(self, name: str) -> bool:
        return name not in self._queued and self._said[name].if_said()


def _begins(entry: Mapping[str, Any], one: Uttered) -> bool:
    """Whether a conversation may begin with a line: a prompt, or what a client puts before one, but no compaction."""
    if entry.get("parentUuid", "") is not None or entry.get("logicalParentUuid"):
        return False
    if entry.get("type") in ("user", "assistant"):
        return one.role == "user" and bool(one.text)
    return "compact" not in str(entry.get("subtype"))


class _Queue:
    """The prompts that were typed while the assistant was busy, and have not been sent yet."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, str]] = []
        self.all: set[int] = set()

    def note(self, number: int, entry: Mapping[str, Any]) -> None:
        """Note what a line does to it."""
        operation = entry.get("operation") if entry.get("type") == "queue-operation" else None
        if operation == "enqueue":
            self.all.add(number)
            self._waiting.append((number, said_in_line(entry, unsent=True).text))
        elif operation == "popAll":
            self._waiting.clear()
        elif operation == "remove" and self._waiting:
            text = str(entry.get("content") or self._waiting[0][1]).strip()
            self._waiting = [one for one in self._waiting if one[1] != text]
        elif self._waiting and entry.get("type") in ("user", "attachment"):
            self._send(said_in_line(entry).text)

    def _send(self, text: str) -> None:
        """Take out what a line sends: one prompt, or several, one after the other."""
        left: list[tuple[int, str]] = []
        for number, waits in self._waiting:
            rest = text.removeprefix(waits)
            if waits and rest != text and not rest[:1].strip():
                text = rest.lstrip()
            else:
                left.append((number, waits))
        if not text:
            self._waiting = left

    def unsent(self) -> set[int]:
        """Return the numbers of the lines whose prompt was neither sent nor taken out."""
        return {number for number, text in self._waiting if text}


def goes_on(entries: Iterable[tuple[int, Mapping[str, Any]]], after: int) -> bool:
    """Whether all lines behind a number go on from lines among these, so that they take back none before these."""
    named: set[str | None] = set()
    for number, entry in entries:
        if entry.get("isSidechain") or not entry.get("uuid"):
            continue
        if number > after and _parent(entry) not in named:
            return False
        named.add(str(entry["uuid"]))
    return True


def transcript_lines(entries: Entries, survey: Survey, name: str) -> Iterator[tuple[Any, Line | None]]:
    """Yield the lines of a transcript, each with what it comes to.

    Args:
        entries: the lines.
        survey: of them.
        name: of the conversation, where no line names it.
    """
    time: datetime | None = None
    for number, entry in entries():
        if isinstance(entry, Broken):
            yield entry, None
            continue
        time = time_of(entry) or time
        one = said_in_line(entry, unsent=number in survey.unsent or number in survey.queued)
        fork = mapping(entry.get("forkedFrom"))
        origin = str(fork.get("sessionId") or "")
        uuid = str(entry.get("uuid") or "")
        if number in survey.repeated:
            one = Uttered(why=REPEATED)
        session = str(entry.get("sessionId") or survey.session or name)
        called = mapping(entry.get("attachment")).get("source_uuid") or fork.get("messageUuid") or uuid
        taken_back = uuid in survey.withdrawn or number in survey.queued
        copied_from = (origin, survey.copied_as_of.get(origin)) if origin not in ("", session) else None
        yield entry, Line(number, one, time, session, str(called), taken_back, copied_from)


def said_in_line(entry: Mapping[str, Any], *, unsent: bool = False) -> Uttered:
    """Return what a line says.

    Args:
        entry: the line.
        unsent: whether it is a prompt that waited when the session ended.
    """
    if entry.get("isSidechain"):
        return Uttered(why=SUBAGENT)
    match entry.get("type"):
        case "user" | "assistant":
            return _of_message(entry)
        case "attachment":
            return _of_queued(mapping(entry.get("attachment")))
        case "queue-operation" if unsent:
            return by_person(CLIENT, entry.get("content"))
    return Uttered()


def _of_message(entry: Mapping[str, Any]) -> Uttered:
    if any(entry.get(name) for name in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isVirtual")):
        return Uttered(why=BY_CLIENT)
    message = mapping(entry.get("message"))
    if entry["type"] == "assistant":
        made_up = entry.get("isApiErrorMessage") or message.get("model") == "<synthetic>"
        return Uttered(why=BY_CLIENT) if made_up else by_assistant(message.get("content"))
    one = by_person(CLIENT, message.get("content"))
    if typed := "\n\n".join(_answers_to_tools(entry)):
        one = replace(one, role="user", text="\n\n".join(filter(None, (typed, one.text if one.role == "user" else ""))))
    return one if one.role != "user" or _is_of_person(entry) else Uttered(why=BY_PROGRAM)


def _results(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield what tools answered in a line."""
    for block in message_blocks(mapping(entry.get("message")).get("content")):
        if block.get("type") == "tool_result":
            yield answered(block.get("content"))


def _answers_to_tools(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the user typed or chose where a tool asked: why they refuse it, or the answers to questions."""
    result = mapping(entry.get("toolUseResult"))
    for text in _results(entry):
        if refused := REFUSED.match(text):
            yield refused[1].strip()
        elif ANSWERED.match(text):
            given = mapping(result.get("answers")) or dict(ANSWER.findall(text))
            notes = mapping(result.get("annotations"))
            for question, answer in given.items():
                yield "\n".join(filter(None, (str(answer), str(mapping(notes.get(question)).get("notes") or ""))))


def _of_queued(attachment: Mapping[str, Any]) -> Uttered:
    """Return the prompt that was typed while the assistant was busy, if an attachment is one."""
    if attachment.get("type") != "queued_command":
        return Uttered(why=BY_CLIENT)
    if attachment.get("isMeta") or attachment.get("carriedByCompaction"):
        return Uttered(why=BY_CLIENT)
    if attachment.get("commandMode") not in (None, "prompt") or not _is_of_person(attachment):
        return Uttered(why=BY_PROGRAM)
    return by_person(CLIENT, attachment.get("prompt"))


def _is_of_person(entry: Mapping[str, Any]) -> bool:
    return mapping(entry.get("origin")).get("kind") in PEOPLE


def _parent(entry: Mapping[str, Any]) -> str | None:
    """Return the uuid of the line before a line, past a compaction."""
    parent = entry.get("parentUuid") or entry.get("logicalParentUuid")
    return parent if isinstance(parent, str) else None
