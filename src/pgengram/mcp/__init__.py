"""The Model Context Protocol: the only package that knows it."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final

# The SDK imports its client and a second server with them, which takes 7 MB and a tenth of a start; we use neither.
UNUSED: Final = ("mcp", "mcp.server", "mcp.client")


class _Unopened(ModuleType):
    """A package that is run once something of its own is asked for; the modules in it can be imported before."""

    def __getattr__(self, name: str) -> Any:
        self.__class__ = ModuleType  # type: ignore[assignment]
        if self.__spec__ is not None and self.__spec__.loader is not None:
            self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _leave_unopened(name: str) -> None:
    spec = find_spec(name)
    if spec is None or name in sys.modules:
        return
    package = module_from_spec(spec)
    package.__class__ = _Unopened
    sys.modules[name] = package
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, package)


for _name in UNUSED:
    _leave_unopened(_name)
