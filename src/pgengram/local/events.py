"""Events of assistants in one form, and answers in the form of each."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from pgengram.errors import InvalidInput
from pgengram.store.conversations import Conversation, Turn
from pgengram.transfer.wrappers import said_by_person

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
    found: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(lines[begin:], begin):
        found += [(number, entry) for entry in _entries_in(line, found)]
    return found


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


def _entries_in(line: bytes, before: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield the entries of a line behind others: one, unless a client was killed as it wrote."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        from pgengram.transfer.input.json_records import RecordForms, objects_in_line

        forms = RecordForms(entry for _, entry in before)
        yield from (one for one in objects_in_line(line, "", forms) if isinstance(one, dict))
    else:
        if isinstance(entry, dict):
            yield entry


Kind = Literal["start", "prompt", "compact", "turn", "end"]


@dataclass(frozen=True, slots=True)
class Event:
    """What happens in a conversation.

    Args:
        client: the assistant.
        name: of the event, as the client calls it.
        kind: what it is: a session starts, the user says something, the context is about to be summed up, a turn is
            over, the session ends; None for any other.
        conversation: as the client calls it.
        folder: where the assistant works.
        transcript: path of the client's own record of the conversation, if it has one that is read.
        prompt: what the user says.
        source: how a session starts, such as resume or compact.
        said: by whom and what was said, as the event itself tells, where no transcript is read.
        turn: as the client calls the turn of which the event is; empty where it has no name for that.
        listens: whether the client puts what is printed before its model.
    """

    client: str
    name: str
    kind: Kind | None
    conversation: str
    folder: str
    transcript: str | None = None
    prompt: str = ""
    source: str = ""
    said: tuple[str, str] | None = None
    turn: str = ""
    listens: bool = False


def _as_claude_code(event: Event, text: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}


def _as_cursor(_: Event, text: str) -> dict[str, Any]:
    return {"additional_context": text}


def _as_cline(_: Event, text: str) -> dict[str, Any]:
    return {"cancel": False, "contextModification": text}


@dataclass(frozen=True, slots=True)
class Form:
    """How a client describes its events. A field is a path with dots; of several the first that is there counts.

    Args:
        kinds: what each event is.
        listens: at which kinds of events what is printed comes before the model.
        reply: the field with what the assistant said last.
        turn: the field that differs from one turn to the next.
        context: how what comes before the model is printed.
    """

    kinds: Mapping[str, Kind]
    listens: frozenset[Kind] = frozenset(("start", "prompt"))
    name: tuple[str, ...] = ("hook_event_name",)
    conversation: tuple[str, ...] = ("session_id",)
    folder: tuple[str, ...] = ("cwd",)
    prompt: tuple[str, ...] = ("prompt",)
    reply: tuple[str, ...] = ()
    turn: tuple[str, ...] = ()
    context: Callable[[Event, str], dict[str, Any]] = _as_claude_code


# Which events are asked for, and in which files that stands, is told in cli/clients/hook_configs.py.
FORMS: Final[Mapping[str, Form]] = {
    "claude-code": Form(
        {"SessionStart": "start", "UserPromptSubmit": "prompt", "PreCompact": "compact", "Stop": "turn", "SessionEnd": "end"},
        frozenset(("start", "prompt", "compact")),
    ),
    "codex": Form(
        {"SessionStart": "start", "UserPromptSubmit": "prompt", "Stop": "turn", "SessionEnd": "end"},
        reply=("last_assistant_message",), turn=("turn_id",),
    ),
    "gemini-cli": Form(
        {"SessionStart": "start", "BeforeAgent": "prompt", "AfterAgent": "turn", "SessionEnd": "end"},
        reply=("prompt_response",),
    ),
    "cursor": Form(
        {"sessionStart": "start", "beforeSubmitPrompt": "prompt", "afterAgentResponse": "turn", "sessionEnd": "end"},
        frozenset(("start",)),
        conversation=("conversation_id", "session_id"), folder=("workspace_roots.0", "cwd"), reply=("text",), turn=("generation_id",),
        context=_as_cursor,
    ),
    "vscode": Form(
        {"SessionStart": "start", "UserPromptSubmit": "prompt", "Stop": "end"}, frozenset(("start",)),
        name=("hookEventName", "hook_event_name"), conversation=("sessionId", "session_id"),
    ),
    "cline": Form(
        {"TaskStart": "start", "TaskResume": "start", "UserPromptSubmit": "prompt", "TaskComplete": "turn"},
        name=("hookName",), conversation=("taskId",), folder=("workspaceRoots.0",),
        prompt=("userPromptSubmit.prompt",), reply=("taskComplete.taskMetadata.result",), context=_as_cline,
    ),
    "windsurf": Form(
        {"pre_user_prompt": "prompt", "post_cascade_response": "turn"}, frozenset(), name=("agent_action_name",),
        conversation=("trajectory_id",), folder=("tool_info.cwd",), prompt=("tool_info.user_prompt",),
        reply=("tool_info.response",), turn=("execution_id",),
    ),
}  # fmt: skip
UNKNOWN: Final = Form({})


def read_event(client: str, given: Mapping[str, Any]) -> Event:
    """Return an event as its client describes it."""
    form = FORMS.get(client, UNKNOWN)
    name = _first_text(given, form.name)
    kind = form.kinds.get(name)
    reply = _first_text(given, form.reply)
    prompt = said_by_person(client, [_first_text(given, form.prompt)]).text
    said = {"prompt": ("user", prompt), "turn": ("assistant", reply)}.get(kind or "", ("", ""))
    transcript = (_first_text(given, ("transcript_path",)) or None) if client in READ else None
    return Event(
        client,
        name,
        kind,
        _first_text(given, form.conversation),
        _first_text(given, form.folder),
        transcript,
        prompt,
        _first_text(given, ("source",)),
        said if said[1] and transcript is None else None,
        _first_text(given, form.turn),
        kind in form.listens,
    )


def printed(event: Event, text: str) -> str:
    """Return what a hook prints so that the client puts a text before its model, or at the end before its user; for a
    summary it is plain text.
    """
    if not text or event.kind == "compact":
        return text
    if event.kind == "end":
        return json.dumps({"systemMessage": f"pgengram: {text}"})
    return json.dumps(FORMS[event.client].context(event, text))


def _first_text(given: Mapping[str, Any], paths: tuple[str, ...]) -> str:
    """Return the first text that one of the paths leads to; empty for none."""
    return next((found for path in paths if (found := _text_at(given, path.split(".")))), "")


def _text_at(given: Any, steps: list[str]) -> str:
    for step in steps:
        if isinstance(given, Mapping):
            given = given.get(step)
        elif isinstance(given, list) and step.isdecimal() and int(step) < len(given):
            given = given[int(step)]
        else:
            return ""
    return given if isinstance(given, str) else ""
