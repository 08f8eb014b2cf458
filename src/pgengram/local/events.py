"""Events of assistants in one form, and answers in the form of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

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
        transcript: path of the client's own record of the conversation, if it has one.
        prompt: what the user says.
        source: how a session starts, such as resume or compact.
    """

    client: str
    name: str
    kind: Kind | None
    conversation: str
    folder: str
    transcript: str | None = None
    prompt: str = ""
    source: str = ""


KINDS: Final[Mapping[str, Mapping[str, Kind]]] = {
    "claude-code": {
        "SessionStart": "start", "UserPromptSubmit": "prompt", "PreCompact": "compact", "Stop": "turn",
        "SessionEnd": "end",
    },
}  # fmt: skip


def read_event(client: str, given: Mapping[str, Any]) -> Event:
    """Return an event as its client describes it."""
    name = _text(given, "hook_event_name")
    return Event(
        client,
        name,
        KINDS.get(client, {}).get(name),
        _text(given, "session_id"),
        _text(given, "cwd"),
        _text(given, "transcript_path") or None,
        _text(given, "prompt"),
        _text(given, "source"),
    )


def printed(event: Event, text: str) -> str:
    """Return what a hook prints so that the client puts a text before its model; for a summary it is plain text."""
    if not text or event.kind == "compact":
        return text
    return json.dumps({"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}})


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""
