"""A server for the moment: it answers hooks and commands on the local socket, and ends once nobody asks any more."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from pgengram.errors import PgengramError
from pgengram.local.socket_server import LocalServer
from pgengram.runtime import local_socket, process_setup
from pgengram.runtime.logs import log_to_stderr
from pgengram.runtime.process_setup import event_loop
from pgengram.settings import Settings
from pgengram.store.store import Store

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager

IDLE_S: Final = 60.0


def main() -> int:
    """Serve until nobody has asked for `IDLE_S`, or until a signal comes."""
    gc.disable()  # until everything is imported
    try:
        with asyncio.Runner(loop_factory=event_loop) as runner:
            return runner.run(_serve_until_idle(Settings.from_environment()))
    except PgengramError as error:
        sys.stderr.write(f"pgengram: {error.message} {error.hint}\n")
        return 2


async def _serve_until_idle(settings: Settings) -> int:
    log_to_stderr(settings.log_level)
    if local_socket.servers(local_socket.Endpoints(settings.variables)):  # somebody else was faster
        return 1
    store = Store(settings)
    opening = asyncio.create_task(store.open())  # the database comes up while the rest is imported
    manager = await asyncio.to_thread(_manager, settings, store)
    local = LocalServer(manager)
    if not await local.start():
        await manager.close()
        return 1
    local.take_up()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(local.place.starting)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    if sys.platform != "win32":
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, ended.set)
    try:
        await opening
        await local.settled()  # whoever waits comes before the model
        process_setup.collect_rarely()
        await manager.open()
        over = {asyncio.create_task(ended.wait()), asyncio.create_task(local.idle(IDLE_S))}
        await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await local.close()
        await manager.close()
    return 0


def _manager(settings: Settings, store: Store) -> MemoryManager:
    """Import all that answers, and return the memories of a store that is being opened."""
    from pgengram.local import session_hooks  # noqa: F401
    from pgengram.service.manager import MemoryManager
    from pgengram.sync.schedule import ExchangeScheduler

    manager = MemoryManager(settings, store=store)
    manager.accompany(ExchangeScheduler(manager))
    return manager


if __name__ == "__main__":
    raise SystemExit(main())
