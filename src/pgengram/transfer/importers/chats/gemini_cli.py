"""Gemini CLI's sessions: the folder ~/.gemini/tmp, or one of its files.

A session is a file session-*.json, or session-*.jsonl, a log of messages and of changes to them: a message that grows
is written again, `$set` brings several at once, `$rewindTo` takes back a message with all after it. What a user has
saved with /chat save is in a file checkpoint-*.json, without times. Sub-agents have folders of their own. Of sessions
whose files are gone, or that were never kept, logs.json still has the prompts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

from pgengram.store.conversations import FROM_FILE, Conversation, source_key
from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.reading import files_of
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.prompt_history import prompts_left, prompts_of_gemini
from pgengram.transfer.records import Left, Read, mapping, moment
from pgengram.transfer.transcripts import (
    SUBAGENT,
    Line,
    Uttered,
    answered,
    by_person,
    called,
    message_blocks,
    texts_in,
    time_of,
)
from pgengram.transfer.wrappers import ACKNOWLEDGED, BY_CLIENT, FILES_BEGIN, FILES_END

CLIENT: Final = "gemini-cli"
CHECKPOINT: Final = "checkpoint-"
LOGS: Final = "logs.json"
LOGGED: Final = re.compile(rb'\s*\[\s*\{\s*"sessionId"\s*:')  # how the file of all prompts of a project begins
SAVED_TIME: Final = "a saved chat has no times; its turns have the time of its file"
NO_SESSION: Final = "it is not a session of Gemini CLI"
MISSING: Final = "it goes back to a message that is missing"
_HASH: Final = re.compile(r"[0-9a-f]{32,}")


def read(source: Source) -> Read:
    """Read the turns of every session, and of every chat that was saved."""
    sessions: set[str] = set()
    logs: list[File] = []
    for file in files_of(source, "session-*.json", "session-*.jsonl", "*chats/*/*.jsonl", f"{CHECKPOINT}*.json", LOGS):
        if isinstance(file, Left):
            yield file
        elif LOGGED.match(source.begins(file)):
            logs.append(file)
        else:
            yield from _file_turns(source, file, sessions)
    for file in logs:
        yield from prompts_left(CLIENT, prompts_of_gemini(source, file, _project_of_file(file)), sessions)


def _file_turns(source: Source, file: File, sessions: set[str]) -> Read:
    session = Session()
    for place, entry in _session_entries(source, file):
        if left := entry if isinstance(entry, Left) else session.take(place, entry):
            yield left
    if session.header.get("kind") == "subagent" or "chats" in file.path.parts[:-2]:
        yield Left(file.place, SUBAGENT, by_design=True)
    elif session.saved:
        yield from _saved(source, file, session)
    else:
        sessions.add(session.id_in(file))
        yield from _message_turns(file, session)


@dataclass(slots=True)
class Session:
    """A session as its file tells it so far.

    Attributes:
        header: what is said of all of it.
        messages: by their ids, each with its place in the file; also those that were taken back.
        withdrawn: ids of those.
        saved: the messages of a chat that was saved.
    """

    header: dict[str, Any] = field(default_factory=dict)
    messages: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    withdrawn: set[str] = field(default_factory=set)
    saved: list[Mapping[str, Any]] = field(default_factory=list)

    def id_in(self, file: File) -> str:
        """What the session is called, by its file if nothing in it says so."""
        return str(self.header.get("sessionId") or file.path.stem)

    def take(self, place: str, entry: Mapping[str, Any]) -> Left | None:
        """Take in a line; return why that is not possible."""
        if "$rewindTo" in entry:
            return self._go_back(place, str(entry["$rewindTo"]))
        if "role" in entry and "type" not in entry:
            self.saved.append(entry)
        elif "type" in entry or ("id" in entry and "content" in entry):
            self._set(str(entry.get("id") or place), place, entry)
        else:
            self._change(place, mapping(entry.get("$set")) or entry)
        return None

    def _change(self, place: str, changes: Mapping[str, Any]) -> None:
        self.header |= {name: value for name, value in changes.items() if name != "messages"}
        listed = [
            (str(one.get("id") or f"{place}, {at}"), one)
            for at, one in enumerate(message_blocks(changes.get("messages")))
        ]
        ids = {id_ for id_, _ in listed}
        known = {
            _role_and_words(one): id_ for id_, (_, one) in self.messages.items() if id_ not in ids | self.withdrawn
        }
        for at, (id_, one) in enumerate(listed, 1):
            there = known.pop(_role_and_words(one), None) if id_ not in self.messages else None
            if there is None:
                self._set(id_, f"{place}, message {at}", one)

    def _set(self, id_: str, place: str, message: Mapping[str, Any]) -> None:
        self.messages[id_] = place, message
        self.withdrawn.discard(id_)

    def _go_back(self, place: str, id_: str) -> Left | None:
        standing = [name for name in self.messages if name not in self.withdrawn]
        if id_ not in standing:
            return Left(place, MISSING)
        self.withdrawn.update(standing[standing.index(id_) :])
        return None


def said_in_message(message: Mapping[str, Any]) -> Uttered:
    """Return what a message says: of a user what was typed, without the contents of the files that it names."""
    kind = message.get("type")
    if kind == "user":
        return by_person(
            CLIENT, _with_files_together(_content_parts(message.get("displayContent") or message.get("content")))
        )
    text = "\n\n".join(texts_in(_without_thoughts(_content_parts(message.get("content"))))).strip()
    if kind in ("gemini", "model") and text:
        return Uttered(why=BY_CLIENT) if ACKNOWLEDGED.match(text) else Uttered("assistant", text)
    calls = _calls(message)
    return Uttered("tool", calls) if calls else Uttered()


def _message_turns(file: File, session: Session) -> Read:
    times = [time_of(one) for _, one in session.messages.values()]
    as_of = max(filter(None, (moment(session.header.get("lastUpdated")), *times)), default=None)
    id_ = session.id_in(file)
    time = moment(session.header.get("startTime"))
    conversation = Conversation(CLIENT, id_, _project_of_file(file), as_of=as_of, began_at=time)
    for number, (name, (place, message)) in enumerate(session.messages.items(), FROM_FILE):
        taken_back, time = name in session.withdrawn, time_of(message) or time
        line = Line(number, said_in_message(message), time, id_, name if message.get("id") else "", taken_back)
        yield from line.as_turns(place, conversation)
        if line.uttered.role == "assistant" and (calls := _calls(message)):
            yield from replace(line, uttered=Uttered("tool", calls)).as_turns(place, conversation)


def _saved(source: Source, file: File, session: Session) -> Read:
    """Yield the turns of a chat that was saved; its name and how it begins tell it from others."""
    said = [said_in_message({"type": one.get("role"), "content": one.get("parts")}) for one in session.saved]
    begins = next((one.text for one in said if one.if_said()), "")
    tag = unquote(file.path.stem.removeprefix(CHECKPOINT))
    id_ = f"{CHECKPOINT}{tag}-{source_key(begins) & 0xFFFFFFFF:08x}"
    conversation = Conversation(CLIENT, id_, _project_of_file(file), title=tag)
    path = source.on_disk(file)
    time = datetime.fromtimestamp(path.stat().st_mtime, UTC) if path else datetime.now(UTC)
    if begins:
        yield Left(file.place, SAVED_TIME, by_design=True)
    for number, one in enumerate(said, FROM_FILE):
        yield from Line(number, one, time, id_).as_turns(
            f"{file.place}, message {number - FROM_FILE + 1}", conversation
        )


def _session_entries(source: Source, file: File) -> Iterator[tuple[str, dict[str, Any] | Left]]:
    """Yield what is said of the whole session, and its messages."""
    if file.path.suffix == ".jsonl":
        for number, entry in source.objects(file):
            place = f"{file.place}, line {number + 1}"
            yield place, Left(entry.place, entry.reason) if isinstance(entry, Broken) else entry
        return
    raw = source.whole(file)
    if isinstance(raw, Broken):
        yield file.place, Left(raw.place, raw.reason)
        return
    found = raw if isinstance(raw, list) else mapping(raw).get("messages", mapping(raw).get("history"))
    if not isinstance(found, list):
        yield file.place, Left(file.place, NO_SESSION)
        return
    yield (
        file.place,
        {name: value for name, value in mapping(raw).items() if name not in ("messages", "history", "type")},
    )
    for number, message in enumerate(found):
        place = f"{file.place}, message {number + 1}"
        yield place, message if isinstance(message, dict) else Left(place, "it is not a JSON object")


def _content_parts(content: Any) -> Any:
    """Return the parts of a content, which may stand alone."""
    return [content] if isinstance(content, Mapping) else content


def _with_files_together(content: Any) -> Any:
    """Return the parts of a prompt, with the contents of the files that it names in one of them."""
    texts = list(texts_in(content)) if isinstance(content, list) else []
    begin = next((at for at, text in enumerate(texts) if text.strip().startswith(FILES_BEGIN)), None)
    if begin is None:
        return content
    ends = [at for at, text in enumerate(texts) if at >= begin and text.rstrip().endswith(FILES_END)]
    end = ends[-1] + 1 if ends else len(texts)
    return [{"text": one} for one in (*texts[:begin], "\n".join(texts[begin:end]), *texts[end:])]


def _without_thoughts(content: Any) -> Any:
    """Return the parts of an answer without what the model only thought."""
    return (
        [part for part in message_blocks(content) if not part.get("thought")] if isinstance(content, list) else content
    )


def _calls(message: Mapping[str, Any]) -> str:
    return "\n\n".join(map(_called_tool, message_blocks(message.get("toolCalls"))))


def _called_tool(call: Mapping[str, Any]) -> str:
    """Return which tool was called, with what, and what it answered: as it was shown, else as the model got it."""
    shown = call.get("resultDisplay")
    got = (mapping(mapping(one.get("functionResponse")).get("response")) for one in message_blocks(call.get("result")))
    texts = [answered(shown)] if isinstance(shown, str) and shown else [answered(one) for one in got if one]
    return "\n".join(filter(None, [called(call.get("name"), call.get("args")), *texts]))


def _role_and_words(message: Mapping[str, Any]) -> tuple[str, str]:
    one = said_in_message(message)
    return one.role, one.text


def _project_of_file(file: File) -> str | None:
    """Return the project by the name of the folder above `chats`; older versions name it by a hash."""
    above = [part for part in file.path.parts[:-1] if part != "chats"]
    return above[-1] if above and not _HASH.fullmatch(above[-1]) else None
