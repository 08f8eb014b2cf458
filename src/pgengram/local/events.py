"""Events of assistants in one form, and answers in the form of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pgengram.local.transcripts import READ
from pgengram.transfer.wrappers import said_by_person

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
