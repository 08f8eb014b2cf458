"""Codex's sessions: the folder ~/.codex/sessions, or one of its rollout-*.jsonl files; the first versions wrote one
object of JSON for each. Of sessions whose files are gone, history.jsonl still has the prompts.

What is said is in items of the model's answers, in events, or in both. A session that was forked begins with its own
header, then has what was said before, header and all, as if it were new; newer versions only refer to it, and go on
with its count of lines. Going back takes the last prompts with all that followed, by an event that counts them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pgengram.store.conversations import Conversation
from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.reading import Projects, files_of
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.prompt_history import prompts_left, prompts_of_codex
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
    called,
    entries_of,
    time_of,
)

CLIENT: Final = "codex"
HISTORY: Final = re.compile(rb'\s*\{\s*"session_id"\s*:')  # how the file of all prompts begins
FIRST_FORM: Final = re.compile(rb'\s*\{\s*"session"\s*:')  # how a session begins that is one object
OF_A_NAME: Final = 36  # characters of the id at the end of a file's name
NO_BEGINNING: Final = "it is a fork of a session that is not among these files; import that, too"
BEGINS_TURN, ROLLED_BACK = b'"turn_context"', b"thread_rolled_back"  # in lines
EVENTS: Final = {"user_message": "user", "agent_message": "assistant"}
TYPED: Final = re.compile(r"user\.(?!heartbeat)")  # kinds of the parts of a message that are the user's
REVIEWS: Final = "entered_review_mode"  # by what the user says that is to be looked at
ASKS: Final = "request_user_input"  # the tool that asks the user
NOTE: Final = "user_note: "  # before what they typed
ITEMS: Final = {"UserMessage": "user", "AgentMessage": "assistant"}  # of events of a newer kind


def read(source: Source) -> Read:
    """Read the turns of every session, those that others were forked from first."""
    projects = Projects()
    headers: dict[File, Header] = {}
    histories: list[File] = []
    for file in files_of(source, "rollout-*.jsonl", "rollout-*.json", "history.jsonl"):
        if isinstance(file, Left):
            yield file
        elif HISTORY.match(source.begins(file)):
            histories.append(file)
        else:
            headers[file] = Header.of(source, file)
    there = {header.id for header in headers.values()}
    for file in _parents_first(headers):
        if headers[file].forked_from not in (None, *there) and headers[file].lacks_beginning:
            yield Left(file.place, NO_BEGINNING)
        yield from _session_turns(source, file, headers[file], projects)
    for file in histories:
        yield from prompts_left(CLIENT, prompts_of_codex(source, file), there)


def _parents_first(headers: Mapping[File, Header]) -> list[File]:
    """Return the files, each behind those of the sessions that it was forked from."""
    parents = {header.id: header.forked_from for header in headers.values()}

    def depth(id_: str) -> int:
        found: list[str] = []
        at: str | None = id_
        while at in parents and at not in found:
            found.append(at)
            at = parents[at]
        return len(found)

    return sorted(headers, key=lambda file: depth(headers[file].id))


def _session_turns(source: Source, file: File, header: Header, projects: Projects) -> Read:
    entries = _lines_of_session(source, file)
    survey = Survey(entries)
    conversation = header.conversation(projects.named(header.folder), survey.as_of)
    for entry, line in session_lines(entries, survey, header):
        if isinstance(entry, Broken):
            yield Left(entry.place, entry.reason)
        elif line:
            yield from line.as_turns(f"{file.place}, line {line.number + 1}", conversation)


def _lines_of_session(source: Source, file: File) -> Entries:
    """Return what yields the lines of a session, each time from its beginning; of one object, its header and items."""
    if not FIRST_FORM.match(source.begins(file)):
        return entries_of(source, file)
    raw = source.whole(file)
    header = {"type": "session_meta", "payload": mapping(raw.get("session"))} if isinstance(raw, dict) else raw
    items = raw.get("items") if isinstance(raw, dict) else ()
    found = [header, *(one for one in items or () if isinstance(one, dict))]
    return lambda: iter(enumerate(found))


@dataclass(frozen=True, slots=True)
class Header:
    """What the first header of a session says of it.

    Args:
        id: of the session.
        folder: in which it began.
        forked_from: the session that it was forked from.
        lacks_beginning: whether it only refers to what was said before.
        by_agent: whether a sub-agent's session it is.
        began_at: when it began.
    """

    id: str
    folder: Any = None
    forked_from: str | None = None
    lacks_beginning: bool = False
    by_agent: bool = False
    began_at: datetime | None = None

    @classmethod
    def of(cls, source: Source, file: File) -> Header:
        """Return the header of a file; its name says which session it is where it has none."""
        done = source.done
        found = cls.among((entry for _, entry in _lines_of_session(source, file)()), file.path.stem[-OF_A_NAME:])
        source.done = done
        return found

    @classmethod
    def among(cls, entries: Iterator[Any], name: str) -> Header:
        """Return the first header among lines."""
        for number, entry in enumerate(entries):
            raw = mapping(entry.get("payload")) or entry if isinstance(entry, Mapping) else {}
            if raw.get("id") and (number == 0 or entry.get("type") == "session_meta"):
                forked = raw.get("forked_from_id")
                beginnings = raw.get("history_base"), raw.get("forked_from_ordinal_exclusive"), entry.get("ordinal")
                by_agent = "subagent" in mapping(raw.get("source"))
                began_at = time_of(entry) or time_of(raw)
                return cls(
                    str(raw["id"]), raw.get("cwd"), str(forked) if forked else None, any(beginnings), by_agent, began_at
                )
        return cls(name)

    def conversation(self, project: str | None, as_of: datetime | None) -> Conversation:
        """Return the conversation that it is about."""
        return Conversation(CLIENT, self.id, project, forked_from=self.copied_from, as_of=as_of, began_at=self.began_at)

    @property
    def copied_from(self) -> str | None:
        """The session with a copy of which it begins."""
        return None if self.lacks_beginning else self.forked_from


@dataclass(slots=True)
class Survey:
    """What is to be known of a session before its lines are read.

    Args:
        entries: its lines.

    Attributes:
        as_of: when it was written last.
        withdrawn: numbers of lines that were taken back.
    """

    entries: Entries
    as_of: datetime | None = None
    withdrawn: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        once = _Once()
        rounds: list[list[int]] = []  # the lines of each prompt and of what followed it
        for number, entry in self.entries():
            if isinstance(entry, Broken):
                continue
            self.as_of = max(filter(None, (self.as_of, time_of(entry))), default=None)
            back = _gone_back(entry)
            if back:
                self.withdrawn.update(number for one in rounds[-back:] for number in one)
                del rounds[-back:]
                continue
            one = once.uttered(entry)
            if one.role == "user" and not once.is_answer(entry):
                rounds.append([number])
            elif one.if_said() and rounds:
                rounds[-1].append(number)


class _Once:
    """Says of each line what it says, once: what is in an item and in an event is said by the one that comes first."""

    def __init__(self) -> None:
        self._said: Counter[tuple[str, str, bool]] = Counter()
        self._taken: Counter[tuple[str, str]] = Counter()
        self._questions: set[str] = set()  # calls of the tool that asks the user

    def is_answer(self, entry: Mapping[str, Any]) -> bool:
        """Whether a line has what the user answered to a question of the assistant."""
        raw = _payload(entry)
        return raw.get("type") == "function_call_output" and str(raw.get("call_id")) in self._questions

    def uttered(self, entry: Mapping[str, Any]) -> Uttered:
        """Return what a line says."""
        raw = _payload(entry)
        if raw.get("type") == "function_call" and raw.get("name") == ASKS:
            self._questions.add(str(raw.get("call_id")))
        if self.is_answer(entry) and (text := "\n".join(_answers(raw.get("output")))):
            return Uttered("user", text)
        one, by_event = said_in_entry(entry)
        if one.role not in ("user", "assistant"):
            return one
        text = "".join(one.text.split())  # an event has the texts of an item without what is between them
        self._said[one.role, text, by_event] += 1
        if self._said[one.role, text, by_event] <= self._taken[one.role, text]:
            return Uttered(why=REPEATED)
        self._taken[one.role, text] += 1
        return one


def session_lines(entries: Entries, survey: Survey, header: Header) -> Iterator[tuple[Any, Line | None]]:
    """Yield the lines of a session, each with what it comes to."""
    once, time = _Once(), None
    for number, entry in entries():
        if isinstance(entry, Broken):
            yield entry, None
            continue
        one = once.uttered(entry)
        if header.by_agent and one.if_said():
            one = Uttered(why=SUBAGENT)
        time = (
            time_of(entry) or time_of(mapping(entry.get("payload"))) or time
        )  # only the first line of old ones has one
        yield entry, Line(number, one, time, header.id, withdrawn=number in survey.withdrawn)


def said_in_entry(entry: Mapping[str, Any]) -> tuple[Uttered, bool]:
    """Return what a line says, and whether an event does."""
    raw = _payload(entry)
    if entry.get("type") == "event_msg":
        return _of_event(raw), True
    match raw.get("type"):
        case "message" if raw.get("role") == "user":
            return by_person(CLIENT, _typed(raw)), False
        case "message" if raw.get("role") == "assistant":
            return by_assistant(raw.get("content")), False
        case "function_call" | "custom_tool_call":
            return Uttered("tool", called(raw.get("name"), raw.get("arguments") or raw.get("input"))), False
        case "local_shell_call":
            return Uttered("tool", called("shell", raw.get("action"))), False
        case "function_call_output" | "custom_tool_call_output":
            return Uttered("tool", answered(raw.get("output"))), False
    return Uttered(), False


def _typed(raw: Mapping[str, Any]) -> Any:
    """Return what of a message's content is the user's, where a newer version says what each part of it is."""
    content = raw.get("content")
    kinds = mapping(raw.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds")
    if not isinstance(content, list) or not isinstance(kinds, list) or len(kinds) != len(content):
        return content
    return [part for part, kind in zip(content, kinds, strict=True) if TYPED.match(str(kind))]


def _payload(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(entry.get("payload")) if entry.get("type") in ("response_item", "event_msg") else entry


def _answers(output: Any) -> Iterator[str]:
    """Yield what the user chose or typed when the assistant asked."""
    for answer in mapping(mapping(output).get("answers")).values():
        given = mapping(answer).get("answers")
        yield from (str(one).removeprefix(NOTE).strip() for one in (given if isinstance(given, list) else ()) if one)


def _of_event(raw: Mapping[str, Any]) -> Uttered:
    item = mapping(raw.get("item")) if raw.get("type") == "item_completed" else {}
    if raw.get("type") == REVIEWS:
        return by_person(CLIENT, mapping(raw.get("target")).get("instructions"))
    role = EVENTS.get(str(raw.get("type"))) or ITEMS.get(str(item.get("type")))
    content = item.get("content") if item else raw.get("message")
    if role == "user":
        return by_person(CLIENT, content) if content else Uttered("user")  # of images alone
    return by_assistant(content) if role else Uttered()


def _gone_back(entry: Mapping[str, Any]) -> int:
    """Return how many prompts were taken back with a line."""
    raw = mapping(entry.get("payload"))
    count = raw.get("num_turns") if raw.get("type") == ROLLED_BACK.decode() else None
    return count if isinstance(count, int) and count > 0 else 0
