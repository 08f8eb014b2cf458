"""Other memory servers' tools on the same manager, one file each: `COMPAT` of the settings names them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgengram.compat.adapter import CompatAdapter
    from pgengram.service.manager import MemoryManager


def categories_of(system: str) -> tuple[str, ...]:
    """Return the kinds that a system's own list of categories has; none without such a list, or without a system."""
    return _class_of(system).categories if system else ()


def _class_of(system: str) -> type[CompatAdapter]:
    """Return the class that is named like the system, in the file that is."""
    file = import_module(f"{__name__}.{system.replace('-', '_')}")
    made: type[CompatAdapter] = getattr(file, system.title().replace("-", ""))
    return made


def adapter_for(system: str, memory: MemoryManager) -> CompatAdapter:
    """Return what offers the tools of `system` on `memory`."""
    return _class_of(system)(memory)
