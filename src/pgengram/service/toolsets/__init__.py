"""The groups of tools beside the core: one class each, loaded only when its group is chosen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from pgengram.service.tools import Tool, tools_of

if TYPE_CHECKING:
    from pgengram.service.core import Core

CLASSES: Final[dict[str, str]] = {
    "graph": "Graph",
    "maintenance": "Maintenance",
    "clusters": "Clusters",
    "working": "Working",
    "identity": "Identity",
}


class Toolset:
    """A group of tools.

    Args:
        core: the store, embedder and session that the tools work on.
    """

    def __init__(self, core: Core) -> None:
        self.core = core


def offered(core: Core, chosen: frozenset[str]) -> list[Tool]:
    """Return the tools of the chosen groups, each group as one object on `core`."""
    found: list[Tool] = []
    for name, class_name in CLASSES.items():
        if name in chosen:
            module = import_module(f"{__name__}.{name}")
            found += tools_of(getattr(module, class_name)(core))
    return found
