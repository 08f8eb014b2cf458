"""What the manuals of other assistants say their hooks are given is understood, and answered as they say."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from hooked_assistant import Assistant
from mcp import Client

from helpers import PATIENCE_S, Database, connected, environment, remember
from pgengram import __version__
from pgengram.cli.clients import hook_configs
from pgengram.runtime import local_socket

LYON = "The Ark project deploys from the office in Lyon."
QUESTION = "From which office do we deploy the Ark project?"
KEPT = "SELECT client, conversation, role, text FROM conversation_turns ORDER BY conversation, number"
AT = "2026-11-23T10:00:00.000Z"
# Of each client where its payloads stand, the start of a session, a prompt, and the end of a turn. FOLDER is where it works.
CODEX = {"session_id": "c-1", "transcript_path": None, "cwd": "FOLDER", "model": "gpt-5", "permission_mode": "default"}
GEMINI = {"session_id": "c-1", "transcript_path": "/tmp/session.json", "cwd": "FOLDER", "timestamp": AT}
CURSOR = {
    "conversation_id": "c-1", "generation_id": "g-1", "model": "auto", "cursor_version": "2.4.0", "user_email": None,
    "workspace_roots": ["FOLDER"], "transcript_path": None,
}  # fmt: skip
VSCODE = {"timestamp": AT, "cwd": "FOLDER", "sessionId": "c-1", "transcript_path": "/tmp/transcript.json"}
CLINE = {
    "clineVersion": "3.40.0",
    "timestamp": "1763892000000",
    "taskId": "c-1",
    "userId": "u",
    "workspaceRoots": ["FOLDER"],
}
WINDSURF = {"trajectory_id": "c-1", "execution_id": "e-1", "timestamp": AT, "model_name": "SWE-1.6"}
PAYLOADS: dict[str, tuple[str, dict[str, Any] | None, dict[str, Any], dict[str, Any] | None]] = {
    "codex": (
        "https://developers.openai.com/codex/hooks",
        {**CODEX, "hook_event_name": "SessionStart", "source": "startup"},
        {**CODEX, "hook_event_name": "UserPromptSubmit", "turn_id": "t-1", "prompt": QUESTION},
        {**CODEX, "hook_event_name": "Stop", "turn_id": "t-1", "stop_hook_active": False, "last_assistant_message": "Lyon."},
    ),
    "gemini-cli": (
        "https://geminicli.com/docs/hooks/reference",
        {**GEMINI, "hook_event_name": "SessionStart", "source": "startup"},
        {**GEMINI, "hook_event_name": "BeforeAgent", "prompt": f"<hook_context>&lt;memories-1&gt;</hook_context>\n\n{QUESTION}"},
        {**GEMINI, "hook_event_name": "AfterAgent", "prompt": QUESTION, "prompt_response": "Lyon.", "stop_hook_active": False},
    ),
    "cursor": (
        "https://cursor.com/docs/agent/hooks",
        {**CURSOR, "hook_event_name": "sessionStart", "session_id": "c-1", "is_background_agent": False},
        {**CURSOR, "hook_event_name": "beforeSubmitPrompt", "prompt": QUESTION, "attachments": []},
        {**CURSOR, "hook_event_name": "afterAgentResponse", "text": "Lyon."},
    ),
    "vscode": (
        "https://code.visualstudio.com/docs/agent-customization/hooks",
        {**VSCODE, "hookEventName": "SessionStart", "source": "new"},
        {**VSCODE, "hookEventName": "UserPromptSubmit", "prompt": QUESTION},
        None,
    ),
    "cline": (
        "https://docs.cline.bot/features/hooks/hook-reference",
        {**CLINE, "hookName": "TaskStart", "taskStart": {"taskMetadata": {"taskId": "c-1", "initialTask": QUESTION}}},
        {**CLINE, "hookName": "UserPromptSubmit", "userPromptSubmit": {"prompt": QUESTION, "attachments": []}},
        {**CLINE, "hookName": "TaskComplete", "taskComplete": {"taskMetadata": {"taskId": "c-1", "result": "Lyon."}}},
    ),
    "windsurf": (
        "https://docs.windsurf.com/windsurf/cascade/hooks",
        None,
        {**WINDSURF, "agent_action_name": "pre_user_prompt", "tool_info": {"user_prompt": QUESTION}},
        {**WINDSURF, "agent_action_name": "post_cascade_response", "tool_info": {"response": "Lyon."}},
    ),
}  # fmt: skip
# The end of a session, in the same manuals; those of Cline and Windsurf have no event that comes once after the last answer.
ENDS = {
    "codex": {**CODEX, "hook_event_name": "SessionEnd", "reason": "other"},
    "gemini-cli": {**GEMINI, "hook_event_name": "SessionEnd", "reason": "exit"},
    "cursor": {
        **CURSOR, "hook_event_name": "sessionEnd", "session_id": "c-1", "reason": "completed", "duration_ms": 45_000,
        "is_background_agent": False, "final_status": "completed",
    },
    "vscode": {**VSCODE, "hookEventName": "Stop", "stop_hook_active": False},
}  # fmt: skip
PLACES = {"cursor": "additional_context", "cline": "contextModification"}  # of what comes before the model
PROMPTED = ("codex", "gemini-cli", "cline")  # which take something with a prompt


@pytest_asyncio.fixture
async def client(assistant: Assistant) -> AsyncIterator[Client]:
    """A server with the built-in model of the assistant's store; the assistant works in the project ark."""
    assistant.settings["embedder"] = "builtin:"
    (assistant.folder / "ark").mkdir()
    async with connected(**assistant.settings) as made:
        await remember(made, LYON, project="ark")
        yield made


async def run(assistant: Assistant, payload: dict[str, Any] | None) -> str:
    """Run a hook with a payload; return what comes before the model, empty for nothing."""
    given = json.dumps(payload).replace("FOLDER", str(assistant.folder / "ark"))
    printed = await asyncio.to_thread(assistant.raw, given) if payload else ""
    answer = json.loads(printed) if printed else {}
    return str(
        answer.get(PLACES.get(assistant.name, ""), answer.get("hookSpecificOutput", {}).get("additionalContext", ""))
    )


@pytest.mark.parametrize("name", PAYLOADS)
async def test_a_session_begins_with_what_matters_and_what_is_said_is_kept_once(
    assistant: Assistant, client: Client, database: Database, name: str
) -> None:
    assistant.name = name
    _, start, prompt, turn = PAYLOADS[name]

    begun = await run(assistant, start)
    asked = await run(assistant, prompt)
    for _ in range(2):  # a client runs a hook again that it had to kill
        assert await run(assistant, turn) == ""

    assert (LYON in begun) == (start is not None)
    assert LYON not in asked  # it came before
    said = [(name, "c-1", "user", QUESTION), (name, "c-1", "assistant", "Lyon.")]
    assert [tuple(row.values()) for row in database.rows(KEPT)] == said[: 2 if turn else 1]


@pytest.mark.parametrize("name", PAYLOADS)
async def test_a_prompt_brings_what_is_known_about_it_where_the_client_takes_it(
    assistant: Assistant, client: Client, database: Database, name: str
) -> None:
    assistant.name, assistant.options = name, ("--recall",)

    asked = await run(assistant, PAYLOADS[name][2])

    assert (LYON in asked) == (name in PROMPTED)
    assert len(await assistant.answered("receipts")) == (name in PROMPTED)
    assert database.rows(KEPT) == []


@pytest.mark.parametrize("name", ENDS)
async def test_the_end_of_a_session_says_what_was_really_stored_and_keeps_nothing_twice(
    assistant: Assistant, client: Client, database: Database, name: str
) -> None:
    assistant.name = name
    await run(assistant, PAYLOADS[name][2])
    await remember(client, "Mara prefers tea.")
    end = json.dumps(ENDS[name]).replace("FOLDER", str(assistant.folder / "ark"))

    said = [json.loads(await asyncio.to_thread(assistant.raw, end)) for _ in range(2)]

    assert said == [{"systemMessage": "pgengram: 1 memory stored, 0 changed, 1 turn kept."}] * 2
    assert len(database.rows(KEPT)) == 1


def test_each_client_is_asked_for_the_end_of_a_session_that_its_manual_has() -> None:
    asked = {name for name, hooks in hook_configs.HOOKS.items() if "end" in hooks.events}

    assert asked == {"claude-code", *ENDS}
    assert PAYLOADS.keys() - ENDS == {"cline", "windsurf"}


async def test_what_is_told_twice_is_kept_once_and_what_is_said_twice_is_kept_twice(
    assistant: Assistant, client: Client, database: Database
) -> None:
    assistant.name = "codex"
    _, _, prompt, turn = PAYLOADS["codex"]
    place = local_socket.Endpoints(environment(**assistant.settings))
    late = {"hook": "codex", "event": prompt, "keeps": True, "at": time.time() - 3_600, "version": __version__}

    await asyncio.to_thread(local_socket.ask_server, place, late, PATIENCE_S)
    local_socket.keep_for_later(place, late)
    local_socket.keep_for_later(place, {**late, "event": turn})
    await run(assistant, turn)
    await asyncio.to_thread(assistant.wait)

    assert [row["text"] for row in database.rows(KEPT)] == [QUESTION, "Lyon.", "Lyon."]  # the same answer an hour apart


@pytest.mark.parametrize(("name", "field"), [("windsurf", "execution_id"), ("cursor", "generation_id")])
async def test_the_same_words_of_two_turns_are_two_and_those_of_one_told_by_two_hooks_are_one(
    assistant: Assistant, client: Client, database: Database, name: str, field: str
) -> None:
    assistant.name = name
    prompt = PAYLOADS[name][2]
    for turn in ("e-1", "e-1", "e-2", "e-2"):  # within a minute, and the user stopped the first before it was answered
        await run(assistant, {**prompt, field: turn})

    assert [row["text"] for row in database.rows(KEPT)] == [QUESTION, QUESTION]


async def test_the_transcript_of_codex_is_kept_with_what_its_tools_print(
    assistant: Assistant, client: Client, database: Database
) -> None:
    assistant.name = "codex"
    path = assistant.folder / "rollout-2026-11-23T10-00-00-c-1.jsonl"
    call = {"name": "shell", "arguments": "ls", "call_id": "1"}
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        {"type": "function_call", **call}, {"type": "function_call_output", "call_id": "1", "output": "README.md"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Lyon."}]},
    ]  # fmt: skip
    lines = [{"timestamp": datetime.now(UTC).isoformat(), "type": "response_item", "payload": item} for item in items]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    _, _, prompt, turn = PAYLOADS["codex"]

    for event in (prompt, turn, turn):
        await run(assistant, {**(event or {}), "transcript_path": str(path)})

    kept = [(row["role"], row["text"]) for row in database.rows(KEPT)]
    assert kept == [("user", QUESTION), ("tool", "shell ls"), ("tool", "README.md"), ("assistant", "Lyon.")]
