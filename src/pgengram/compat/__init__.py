"""Other memory servers' tools on the same manager, one file each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from pgengram.settings import COMPAT

if TYPE_CHECKING:
    from pgengram.compat.adapter import CompatAdapter
    from pgengram.service.manager import MemoryManager

CLASSES: Final[dict[str, str]] = {
    "agi": "Agi",
    "session-continuity": "SessionContinuity",
    "skynet": "Skynet",
    "ownsona": "Ownsona",
    "crow": "Crow",
    "mcp-memory": "McpMemory",
    "mcp-memory-service": "McpMemoryService",
    "basic-memory": "BasicMemory",
}
assert CLASSES.keys() == set(COMPAT), "the setting knows the same systems"  # noqa: S101


def categories_of(system: str) -> tuple[str, ...]:
    """Return the kinds that a system's own list of categories has; none without such a list, or without a system."""
    return _class_of(system).categories if system else ()


def _class_of(system: str) -> type[CompatAdapter]:
    made: type[CompatAdapter] = getattr(import_module(f"{__name__}.{system.replace('-', '_')}"), CLASSES[system])
    return made


def adapter_for(system: str, memory: MemoryManager) -> CompatAdapter:
    """Return what offers the tools of `system` on `memory`."""
    return _class_of(system)(memory)
