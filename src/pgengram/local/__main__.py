"""A server for the moment: it answers hooks and commands on the local socket, and ends once nobody asks any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Final

from pgengram.errors import PgengramError
from pgengram.local.socket_server import LocalServer
from pgengram.runtime.logs import log_to_stderr
from pgengram.runtime.system.loop import event_loop
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

IDLE_S: Final = 60.0


def main() -> int:
    """Serve until nobody has asked for `IDLE_S`, or until a signal comes."""
    try:
        with asyncio.Runner(loop_factory=event_loop) as runner:
            return runner.run(_serve(Settings.from_environment()))
    except PgengramError as error:
        sys.stderr.write(f"pgengram: {error.message} {error.hint}\n")
        return 2


async def _serve(settings: Settings) -> int:
    log_to_stderr(settings.log_level)
    manager = MemoryManager(settings)
    local = LocalServer(manager)
    if not local.is_alone or not await local.start():  # somebody else was faster
        return 1
    with contextlib.suppress(FileNotFoundError):
        os.unlink(local.place.starting)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    if sys.platform != "win32":
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, ended.set)
    try:
        await manager.store.open()
        await local.settled()  # whoever waits comes before the model
        await manager.open()
        over = {asyncio.create_task(ended.wait()), asyncio.create_task(local.idle(IDLE_S))}
        await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await local.close()
        await manager.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
