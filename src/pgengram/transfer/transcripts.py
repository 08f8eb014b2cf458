"""What the entries of the transcripts of coding assistants say: who said it, and what.

A tool's call and its answer are what the role `tool` says. What a client puts into a conversation by itself nobody
says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from pgengram.transfer.records import moment

MAX_INPUT: Final = 500  # characters of what a tool was called with
BY_THE_CLIENT: Final = (
    "<command-", "<local-command-", "<system-reminder>", "<task-notification>", "<environment_context>",
    "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>",
)  # fmt: skip
NOBODY: Final = ("", "")


def claude_code(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return the role and the text of a line of Claude Code."""
    if entry.get("type") not in ("user", "assistant"):
        return NOBODY
    if any(entry.get(name) for name in ("isSidechain", "isMeta", "isCompactSummary")):
        return NOBODY
    message = entry.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    return _said_or_done(str(entry["type"]), content)


def codex(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return the role and the text of a line of Codex; events are left out, as they repeat what is said."""
    raw = entry.get("payload") if entry.get("type") == "response_item" else entry
    if not isinstance(raw, Mapping):
        return NOBODY
    match raw.get("type"):
        case "message" if raw.get("role") in ("user", "assistant"):
            return _said_or_done(str(raw["role"]), raw.get("content"))
        case "function_call" | "custom_tool_call":
            return "tool", called(raw.get("name"), raw.get("arguments") or raw.get("input"))
        case "local_shell_call":
            return "tool", called("shell", raw.get("action"))
        case "function_call_output" | "custom_tool_call_output":
            return "tool", _output(raw.get("output"))
    return NOBODY


def gemini_cli(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return the role and the text of a message of Gemini CLI."""
    role = {"user": "user", "gemini": "assistant"}.get(str(entry.get("type")), "")
    text = "\n\n".join(texts_in(entry.get("content"))).strip()
    if role and text and not text.startswith(BY_THE_CLIENT):
        return role, text
    calls = [called(call.get("name"), call.get("args")) for call in _blocks(entry.get("toolCalls"))]
    return ("tool", "\n\n".join(calls)) if calls else NOBODY


def time_of(entry: Mapping[str, Any]) -> datetime | None:
    """Return when an entry was written."""
    return moment(entry.get("timestamp"))


def texts_in(content: Any) -> Iterator[str]:
    """Yield the texts of a message: of a string, or of blocks."""
    if isinstance(content, str):
        yield content
    for block in _blocks(content):
        if block.get("type") in (None, "text", "input_text", "output_text") and isinstance(block.get("text"), str):
            yield block["text"]


def done(content: Any) -> Iterator[str]:
    """Yield which tools a message calls, and what they answered."""
    for block in _blocks(content):
        if block.get("type") == "tool_use":
            yield called(block.get("name"), block.get("input"))
        elif block.get("type") == "tool_result":
            yield "\n".join(texts_in(block.get("content")))


def called(name: Any, given: Any) -> str:
    """Return which tool was called, and with what."""
    return f"{name} {_short(given)}"


def _said_or_done(role: str, content: Any) -> tuple[str, str]:
    said = "\n\n".join(texts_in(content)).strip()
    if said and not said.startswith(BY_THE_CLIENT):
        return role, said
    raw = "\n\n".join(done(content)).strip()
    return ("tool", raw) if raw else NOBODY


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def _short(given: Any) -> str:
    return (given if isinstance(given, str) else json.dumps(given, ensure_ascii=False))[:MAX_INPUT]


def _output(output: Any) -> str:
    if isinstance(output, Mapping):
        output = output.get("output") or output.get("content")
    try:
        inner = json.loads(output) if isinstance(output, str) and output.startswith("{") else output
    except ValueError:
        inner = output
    if isinstance(inner, Mapping):
        inner = inner.get("output") or inner.get("content")
    return "\n".join(texts_in(inner)).strip()
