"""What is asked on the local socket, and who answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgengram.errors import InvalidInput
from pgengram.local import session_hooks
from pgengram.runtime.context import ACTOR

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager


async def answer(manager: MemoryManager, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request, once the store is open.

    A request is `{"hook": client, "event": …}` or `{"call": tool, "arguments": …}`; the answers are `{"print": text}`
    and `{"answer": …}`.

    Raises:
        InvalidInput: it is none of these.
        PgengramError: as the tool raises it.
    """
    await manager.ready()
    if "hook" in request:
        ACTOR.set(f"{request['hook']} hook")
        return {"print": await session_hooks.answer(manager, request["event"])}
    raise InvalidInput("Unknown request.", "Ask for a hook or a call.")
