"""`pgengram recall`: what is remembered as one text for an assistant, and what hooks of assistants are answered."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pgengram.cli.options import AsJson, OfProject
from pgengram.cli.runtime import call_tool, command, note, opened_manager, print_json
from pgengram.errors import InvalidInput, PgengramError

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager

# What a session's assistant is told beside its memories, by how the session began.
BEGUN: Final = (
    "Long-term memory is connected (tools search_memories, create_memory and others). Search it for the topic of every "
    "task; store decisions, preferences, corrections and facts as they come up."
)
COMPACTED: Final = (
    "The conversation was just compacted. Store now with create_memories what the summary lists under “To remember”; "
    "search_memories brings back what is missing."
)
COMPACTING: Final = (
    "End the summary with a list “To remember”: each decision with its reason, preference, correction, commitment and "
    "lasting fact of this conversation that was not stored in long-term memory yet, one self-contained sentence each, "
    "with names and absolute dates and without secrets."
)


@command
async def recall(
    context: Annotated[str, typer.Argument(help="The task or topic; left out: what matters now.")] = "",
    project: OfProject = None,
    max_chars: Annotated[int, typer.Option(help="Budget for the text.", min=200, max=50_000)] = 4_000,
    hook: Annotated[
        bool, typer.Option("--hook", help="For a hook of an assistant: its event is read from standard input as JSON.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """The text is for an assistant; what is recalled cannot close the marks around it.

    Examples: `pgengram recall "the billing migration"`, `pgengram recall --project ark`
    """
    if hook:
        return await _answer_hook(sys.stdin.read())
    async with opened_manager() as manager:
        recalled = await _recalled(manager, context, project, max_chars)
    if as_json:
        print_json(recalled)
    else:
        print(recalled["context"] or "Nothing is remembered about that.")  # noqa: T201 - as it is, whatever the width
    return 0


async def _recalled(manager: MemoryManager, context: str, project: str | None, max_chars: int) -> dict[str, Any]:
    from pgengram.mcp.resources import Library

    if not context.strip():
        return {"context": await Library(manager).context(project=project)}
    given = {"context": context, "max_chars": max_chars, "project": project}
    recalled: dict[str, Any] = (await call_tool(manager, "recall_context", given)).model_dump(exclude_none=True)
    return recalled


async def _answer_hook(event: str) -> int:
    """Print what an assistant is to read at this event; whatever fails, the session goes on (code 2 would stop it)."""
    try:
        event_fields = json.loads(event or "{}")
        if not isinstance(event_fields, dict):
            raise InvalidInput("The event is no object.")
        if event_fields.get("hook_event_name") == "PreCompact":
            print(COMPACTING)  # noqa: T201
            return 0
        async with opened_manager() as manager:
            known = (await _recalled(manager, "", None, 0))["context"]
    except (PgengramError, ValueError) as error:
        note(f"pgengram: {error}")
        return 1
    begun = COMPACTED if event_fields.get("source") == "compact" else BEGUN
    print(f"{begun}\n\n{known}" if known else begun)  # noqa: T201
    return 0
