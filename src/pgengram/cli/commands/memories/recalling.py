"""`pgengram recall`: what is remembered as one text for an assistant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgengram.cli.options import AsJson, OfProject
from pgengram.cli.runtime import call_tool, command, opened_manager, print_json

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager


@command
async def recall(
    context: Annotated[str, typer.Argument(help="The task or topic. Without it: what matters now.")] = "",
    project: OfProject = None,
    max_chars: Annotated[int, typer.Option(help="Longest text to print, in characters.", min=200, max=50_000)] = 4_000,
    as_json: AsJson = False,
) -> int:
    """The text is meant for an assistant. It is marked as data, and no memory in it can close the marks.

    Examples: `pgengram recall "the billing migration"`, `pgengram recall --project ark`
    """
    async with opened_manager() as manager:
        recalled = await _recalled(manager, context, project, max_chars)
    if as_json:
        print_json(recalled)
    else:
        print(recalled["context"] or "Nothing is remembered about that.")  # noqa: T201 - as it is, whatever the width
    return 0


async def _recalled(manager: MemoryManager, context: str, project: str | None, max_chars: int) -> dict[str, Any]:
    from pgengram.mcp.resources import Library
    from pgengram.runtime.local_socket import working_folder

    if not context.strip():
        manager.here = manager.projects.worked_on(working_folder())
        return {"context": await Library(manager).context(project=project)}
    given = {"context": context, "max_chars": max_chars, "project": project}
    recalled: dict[str, Any] = (await call_tool(manager, "recall_context", given)).model_dump(exclude_none=True)
    return recalled
