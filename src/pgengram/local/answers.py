"""What is asked on the local socket, and who answers it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pgengram.errors import InvalidInput
from pgengram.local import session_hooks
from pgengram.runtime.context import ACTOR, COMMAND_LINE, EMBEDDED_BY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgengram.service.manager import MemoryManager

WORDS_S: Final = 0.5  # for an answer by words alone, where the model is still loading
CALLED: Final = ("search_memories", "get_memories", "create_memory")  # what commands ask for


async def answer_request(
    manager: MemoryManager, request: dict[str, Any], missed: set[tuple[str, str]]
) -> dict[str, Any]:
    """Return the answer to one request, once the store is open.

    A request is `{"hook": client, "event": …, "keeps": whether conversations are kept, "at": when it happened}`, its
    answer `{"print": text}`; or `{"call": tool, "arguments": {…}}`, its answer `{"answer": the tool's whole answer, as
    lines of JSON}`.

    Args:
        manager: the memories.
        request: if somebody waits for the answer, with `until`: when they give up; moments are seconds since 1970.
        missed: conversations whose beginning was answered too late; their next prompt makes up for it.

    Raises:
        InvalidInput: it is none.
        PgengramError: the store cannot be read or written now.
    """
    until = _given_up(request)
    if "hook" in request:
        await (
            manager.store.open()
        )  # without the model, which most events don't need: it would compete for the processor
        client, event = request["hook"], request.get("event")
        if not isinstance(client, str) or not isinstance(event, dict):
            raise InvalidInput("A hook request needs a client and an event.")
        ACTOR.set(f"{client} hook")
        EMBEDDED_BY.set(until and until - WORDS_S)
        at = request.get("at")
        happened = datetime.fromtimestamp(at, UTC) if isinstance(at, int | float) else datetime.now(UTC)
        asked = session_hooks.Asked(keeps=request.get("keeps") is True, at=happened, until=until)
        return {"print": await session_hooks.answer_event(manager, client, event, asked, missed)}
    if request.get("call") in CALLED:
        await manager.ready()
        ACTOR.set(COMMAND_LINE)
        return {"answer": await _called(manager, request["call"], request.get("arguments"))}
    raise InvalidInput("Unknown request.", f"Ask for a hook, or call one of {', '.join(CALLED)}.")


def _given_up(request: Mapping[str, Any]) -> float | None:
    """Return when whoever asked waits no more, in monotonic seconds; a busy server reads a request late."""
    until = request.get("until")
    return time.monotonic() + until - time.time() if isinstance(until, int | float) else None


async def _called(manager: MemoryManager, name: str, arguments: Any) -> str:
    """Call a tool for somebody who types, as the command line does without a server."""
    from pgengram.service.calls.arguments import Arguments
    from pgengram.service.tools import tools_of

    [taken] = [Arguments(tool) for tool in tools_of(manager) if tool.name == name]
    answer = await taken.read(arguments).run()
    return str(answer.model_dump_json(indent=2, exclude_none=True))
