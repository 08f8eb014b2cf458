"""The groups of tools beside the core: one class each, loaded only when its group is chosen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from pgengram.service.tools import Tool, tools_of

if TYPE_CHECKING:
    from pgengram.service.core import Core

# Of each group the module, the class, and the tools where it has not all of the class.
CLASSES: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "review": ("maintenance", "Maintenance", ("review_memories",)),
    "graph": ("graph", "Graph", ()),
    "maintenance": ("maintenance", "Maintenance", ("memory_stats", "tidy_memories")),
    "clusters": ("clusters", "Clusters", ()),
    "working": ("working", "Working", ()),
    "identity": ("identity", "Identity", ()),
    "hosts": ("hosts", "Hosts", ()),
    "card": ("hosts", "Card", ()),
}


class Toolset:
    """A group of tools.

    Args:
        core: the store, embedder and session that the tools work on.
    """

    def __init__(self, core: Core) -> None:
        self.core = core


def offered(core: Core, chosen: frozenset[str]) -> list[Tool]:
    """Return the tools of the chosen groups, each as methods of one object on `core`."""
    found: list[Tool] = []
    for name, (module, class_name, only) in CLASSES.items():
        if name in chosen:
            toolset = getattr(import_module(f"{__name__}.{module}"), class_name)(core)
            found += [tool for tool in tools_of(toolset) if not only or tool.name in only]
    return found
