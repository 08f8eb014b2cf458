"""One pool of connections and one model, and the namespaces that a program uses through them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pgengram.errors import InvalidInput, Misused, TimedOut
from pgengram.service.calls.arguments import Arguments
from pgengram.service.core import Core
from pgengram.service.manager import MemoryManager
from pgengram.service.spaces import Namespaces, own_spaces
from pgengram.service.tools import tools_of
from pgengram.service.toolsets.graph import Graph
from pgengram.service.toolsets.maintenance import Maintenance
from pgengram.settings import Settings
from pgengram.store.connection.pool import PoolLimits
from pgengram.store.store import Store

# A program that sets up no logging is not told of every attempt to connect: what fails raises an error.
for _name in ("pgengram", "psycopg.pool"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Served:
    """One namespace: its manager, and what its tools take."""

    def __init__(self, manager: MemoryManager) -> None:
        self.manager = manager
        self._tools: dict[str, Arguments] = {}

    async def call(self, tool: str, given: dict[str, Any]) -> Any:
        """Call a tool with arguments that are taken as they stand, and return its answer."""
        if not self._tools:
            toolsets = (self.manager, Graph(self.manager), Maintenance(self.manager))
            self._tools = {one.name: Arguments(one, liberal=False) for each in toolsets for one in tools_of(each)}
        return await self._tools[tool].read(given).run()

    @asynccontextmanager
    async def in_space(self, name: str) -> AsyncIterator[Served]:
        """Yield what the person of this namespace shares in a space; without a name this namespace itself.

        Raises:
            NotFound: the person is in no such space.
        """
        if not name:
            yield self
            return
        await self.manager.ready(embeds=False)
        spaces = own_spaces(self.manager)
        async with spaces.manager(await spaces.named(name)) as shared:
            yield Served(shared)

    async def close(self) -> None:
        """Write what waits to be written, and end the background work."""
        await self.manager.close()


class Engine:
    """What all objects of a program that use one store share.

    It belongs to the event loop of the first call: the pool's connections and locks are of no use in another.

    Args:
        settings: which store.
        limits: of the pool of connections.
    """

    def __init__(self, settings: Settings, limits: PoolLimits) -> None:
        self.settings = settings
        self._host = Core(settings, store=Store(settings, limits))
        self._host.models.build_indexes()
        self._namespaces: Namespaces[str, Served] = Namespaces(
            lambda name: Served(MemoryManager(replace(settings, namespace=name), self._host))
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Task[None] | None = None
        self._calls = 0
        self._idle = asyncio.Event()

    @asynccontextmanager
    async def serving(self, namespace: str, timeout_s: float | None = None, space: str = "") -> AsyncIterator[Served]:
        """Keep what serves a namespace for as long as a block lasts, which may take `timeout_s` seconds.

        Raises:
            Misused: it was closed, or belongs to another event loop.
            TimedOut: the block took longer.
        """
        self._require_usable()
        self._calls += 1
        try:
            async with (
                asyncio.timeout(timeout_s) as limit,
                self._namespaces.of(namespace) as personal,
                personal.in_space(space) as served,
            ):
                yield served
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimedOut(f"The call took longer than {timeout_s:g} s.") from error
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def open(self) -> None:
        """Start or reach the database.

        Raises:
            NotReady: it did not come up; the next call tries again.
        """
        async with self.serving(self.settings.namespace) as served:
            await served.manager.ready()

    async def close(self) -> None:
        """Wait for calls under way, close the connections and unload the model; again, nothing happens."""
        if self._loop is not asyncio.get_running_loop():
            if self._loop is not None and self._closing is None:
                raise _in_another_loop()
            self._loop = asyncio.get_running_loop()
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="closing the store")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        while self._calls:
            self._idle.clear()
            await self._idle.wait()
        await self._namespaces.close()
        await self._host.close()

    def _require_usable(self) -> None:
        if self._closing is not None:
            raise Misused("It was closed.", "Open a new one, and close it after the last call.")
        running = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = running
        elif self._loop is not running:
            raise _in_another_loop()


def _in_another_loop() -> Misused:
    return Misused(
        "It belongs to another event loop, the one of its first call.",
        "Make all calls in one: asyncio.run(main()) once, one asyncio.Runner, or a new object for each loop.",
    )


def pool_limits(pool_size: int, connect_timeout_s: float) -> PoolLimits:
    """Return the limits of a pool.

    Raises:
        InvalidInput: one is not a positive number.
    """
    for name, value in (("pool_size", pool_size), ("connect_timeout_s", connect_timeout_s)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise InvalidInput(f"{name} must be a number above 0.")
    return PoolLimits(int(pool_size), connect_timeout_s)
