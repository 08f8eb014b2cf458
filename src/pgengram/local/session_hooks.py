"""What hooks of assistants are answered: text that the assistant puts before its model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pgengram.search import budget
from pgengram.service import contexts

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager

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


async def answer(manager: MemoryManager, event: dict[str, Any]) -> str:
    """Return what the assistant is to print at this event; empty for nothing."""
    name = event.get("hook_event_name")
    if name == "PreCompact":
        return COMPACTING
    if name == "SessionStart":
        known = budget.recalled(await contexts.most_relevant(manager))
        begun = COMPACTED if event.get("source") == "compact" else BEGUN
        return _context(name, f"{begun}\n\n{known}" if known else begun)
    return ""


def _context(event: str, text: str) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})
