"""What Windows does otherwise, for tests that run everywhere: its event loop, and files that another program holds open."""

from __future__ import annotations

import asyncio
import os
import selectors
import stat
import sys
from collections.abc import Callable
from typing import Any


class SocketSelector(selectors.SelectSelector):
    """Takes everything when it is registered, and fails when it has to wait for something that is not a socket."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if sys.platform != "win32" and not all(
            stat.S_ISSOCK(os.fstat(key.fd).st_mode) for key in self.get_map().values()
        ):
            raise OSError(10038, "An operation was attempted on something that is not a socket")
        return super().select(timeout)


class WindowsLoop(asyncio.SelectorEventLoop):
    """A selector loop as Windows has it: it waits for sockets only, and starts no processes."""

    def __init__(self) -> None:
        super().__init__(SocketSelector())

    async def subprocess_exec(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def refused(change: Callable[..., None], times: float, *, when: Callable[..., bool] = lambda *_: True) -> Any:
    """Return `change` as it goes while another program holds the file open: refused that many times."""
    left = times

    def changed(*arguments: Any, **named: Any) -> None:
        nonlocal left
        if when(*arguments) and left > 0:
            left -= 1
            raise PermissionError(13, "The process cannot access the file because it is being used by another process")
        change(*arguments, **named)

    return changed
