"""Chats of VS Code: its User folder, a folder chatSessions, or one of the files, JSON or a log of changes to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import reduce
from itertools import count
from operator import getitem
from typing import Any, Final

from pgengram.store.conversations import FROM_FILE, Conversation
from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.reading import Projects, files_of, project_folders
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.records import Left, Read, moment
from pgengram.transfer.transcripts import Line, Uttered, by_person

CLIENT: Final = "vscode"
OF_A_SESSION: Final = ("sessionId", "customTitle", "creationDate", "lastMessageDate", "requests")
REMOVED: Final = "removed requests"
OF_A_REQUEST: Final = (
    "requestId",
    "message",
    "response",
    "timestamp",
    "modelState",
    "result",
    "isHidden",
    "shouldBeRemovedOnSend",
)
INITIAL, SET, PUSH, DELETE = range(4)  # what an entry of the log does


def read(source: Source) -> Read:
    """Read the turns of every chat."""
    folders, projects = project_folders(source), Projects()
    for file in files_of(source, "*[cC]hatSessions/*.json", "*[cC]hatSessions/*.jsonl", "*-*-*-*-*.json*"):
        session: dict[str, Any] = {}
        for found in () if isinstance(file, Left) else _replayed_session(source, file):
            if isinstance(found, Left):
                yield found
            else:
                session = found
        if isinstance(file, Left):
            yield file
        elif not isinstance(session.get("requests"), list):
            yield Left(file.place, "it is not a chat of VS Code")
        else:
            project = projects.named(folders.get(file.path.parent.parent))
            yield from _request_turns(file, session, project)


def _request_turns(file: File, session: Mapping[str, Any], project: str | None) -> Read:
    id_, title = str(session.get("sessionId") or file.path.stem), session.get("customTitle")
    requests = [*session["requests"], *({**one, "isHidden": True} for one in session.get(REMOVED, ()))]
    times = [moment(one.get("timestamp")) for one in requests if isinstance(one, Mapping)]
    as_of = max(filter(None, (moment(session.get("lastMessageDate")), *times)), default=None)
    conversation = Conversation(CLIENT, id_, project, title=title if isinstance(title, str) else None, as_of=as_of)
    time = moment(session.get("creationDate"))
    numbers = count(FROM_FILE)  # a request has three, so that one that is still answered shifts none behind it
    for place, request in enumerate(requests, 1):
        where = f"{file.place}, request {place}"
        if not isinstance(request, Mapping):
            yield Left(where, "it is not a JSON object")
            continue
        time = moment(request.get("timestamp")) or time
        yield from _of_request(where, conversation, numbers, request, time)


def _of_request(
    where: str, conversation: Conversation, numbers: Iterator[int], request: Mapping[str, Any], time: datetime | None
) -> Read:
    """Yield what was asked, what tools did for it, and what was answered."""
    later = _answered_at(request) or time
    replied, did = _reply(request.get("response"))
    undone = bool(request.get("isHidden") or request.get("shouldBeRemovedOnSend"))
    said = ((_request_uttered(request), time), (Uttered("tool", did), later), (Uttered("assistant", replied), later))
    for one, at in said:
        number = next(numbers)
        if one.if_said() or (one is said[0][0]):
            id_ = str(request.get("requestId") or "")
            yield from Line(number, one, at, conversation.id, id_, undone).as_turns(where, conversation)


def _request_uttered(request: Mapping[str, Any]) -> Uttered:
    message = request.get("message")
    text = message.get("text") if isinstance(message, Mapping) else message
    return by_person(CLIENT, text) if isinstance(text, str) else Uttered()


def _answered_at(request: Mapping[str, Any]) -> Any:
    """Return when a request was answered, as far as that is known."""
    state, result = request.get("modelState"), request.get("result")
    if isinstance(state, Mapping) and state.get("completedAt"):
        return moment(state["completedAt"])
    timings = result.get("timings") if isinstance(result, Mapping) else None
    took = timings.get("totalElapsed") if isinstance(timings, Mapping) else None
    began = request.get("timestamp")
    return moment(began + took) if isinstance(took, int | float) and isinstance(began, int | float) else None


def _reply(parts: Any) -> tuple[str, str]:
    """Return what was answered, and what tools did for it; thoughts and edits are left out."""
    said: list[str] = []
    done: list[str] = []
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, Mapping) and part.get("kind") == "toolInvocationSerialized":
            done.append(_plain_text(part.get("pastTenseMessage")) or _plain_text(part.get("invocationMessage")))
            said.append("\n\n")
        else:
            said.append(_response_part(part))
    return "".join(said).strip(), "\n\n".join(filter(None, done)).strip()


def _response_part(part: Any) -> str:
    if not isinstance(part, Mapping):
        return _plain_text(part)
    match part.get("kind"):
        case None:
            return _plain_text(part)
        case "markdownContent" | "markdownVuln":
            return _plain_text(part.get("content"))
        case "inlineReference":
            there = part.get("inlineReference")
            path = there.get("path") if isinstance(there, Mapping) else None
            return _plain_text(part.get("name")) or str(path or "").rpartition("/")[2]
    return ""


def _plain_text(text: Any) -> str:
    """Return a text, or the value of one that is Markdown."""
    text = text.get("value") if isinstance(text, Mapping) else text
    return text if isinstance(text, str) else ""


# -- files -------------------------------------------------------------------------------------------------------------


def _replayed_session(source: Source, file: File) -> Iterator[dict[str, Any] | Left]:
    """Yield what could not be read, and at last the session."""
    if file.path.suffix != ".jsonl":
        raw = source.whole(file)
        yield Left(raw.place, raw.reason) if isinstance(raw, Broken) else raw if isinstance(raw, dict) else {}
        return
    session: dict[str, Any] = {}
    for number, entry in source.objects(file):
        if isinstance(entry, Broken):
            yield Left(entry.place, entry.reason)
            continue
        try:
            _apply_change(session, entry)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            yield Left(f"{file.place}, line {number + 1}", "it changes something that is missing")
    yield session


def _apply_change(session: dict[str, Any], entry: Mapping[str, Any]) -> None:
    """Make the change that a line of the log tells; only what is needed is kept, as logs repeat much else."""
    kind, path, value = entry.get("kind"), entry.get("k") or [], entry.get("v")
    if kind == INITIAL:
        session.clear()
        session.update(_new_session(dict(value or {})))
    elif _is_needed(path):
        before = list(session.get("requests") or ())
        there = reduce(getitem, path[:-1], session)
        if kind == PUSH:
            _push(there, path[-1], _slim_all(value) if path == ["requests"] else value or [], entry.get("i"))
        elif kind == DELETE:
            there.pop(path[-1])
        elif kind == SET:
            _set_value(there, path[-1], value)
        _note_removed(session, before)


def _note_removed(session: dict[str, Any], before: list[Any]) -> None:
    """Keep the requests that a change has taken away: they were edited, or asked again."""
    now = session.get("requests")
    if isinstance(now, list) and len(before) > 0 and before != now[: len(before)]:
        ids = {id(one) for one in now}
        names = {one.get("requestId") for one in now if isinstance(one, Mapping)}
        gone = [
            one
            for one in before
            if isinstance(one, Mapping) and id(one) not in ids and one.get("requestId") not in names
        ]
        session.setdefault(REMOVED, []).extend(gone)


def _new_session(session: Mapping[str, Any]) -> dict[str, Any]:
    needed = {name: session[name] for name in OF_A_SESSION if name in session}
    return needed | {"requests": _slim_all(needed.get("requests"))}


def _is_needed(path: list[Any]) -> bool:
    return path[0] in OF_A_SESSION and (len(path) < 3 or path[2] in OF_A_REQUEST)


def _push(there: Any, name: Any, values: list[Any], first: int | None) -> None:
    """Put values at the end of a list, after all from the place `first` on are taken away."""
    found = there.setdefault(name, []) if isinstance(there, dict) else there[name]
    if first is not None:
        del found[first:]
    found.extend(values)


def _set_value(there: Any, name: Any, value: Any) -> None:
    if isinstance(there, list) and name == len(there):
        there.append(value)
    else:
        there[name] = value


def _slim_all(requests: Any) -> list[Any]:
    """Return requests with what is needed of each."""
    return [
        {name: one[name] for name in OF_A_REQUEST if name in one} if isinstance(one, Mapping) else one
        for one in requests or []
    ]
