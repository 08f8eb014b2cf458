"""What reads the stores of other systems: a file here for each, whose name is the system's and whose `read` gives its
items.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from pgengram.errors import InvalidInput
from pgengram.transfer.records import Reader

_MODULES: Final = {found.name.replace("_", "-"): found.name for found in iter_modules(__path__)}
SYSTEMS: Final = tuple(sorted(_MODULES, key=lambda system: (system != "jsonl", system)))  # our own format first


def reader_of(system: str) -> Reader:
    """Return what reads the items of a source of `system`.

    Raises:
        InvalidInput: there is no such system.
    """
    if system not in _MODULES:
        raise InvalidInput(f"There is no importer for {system}.", f"Known are {', '.join(SYSTEMS)}.")
    reader: Reader = import_module(f"{__name__}.{_MODULES[system]}").read
    return reader
