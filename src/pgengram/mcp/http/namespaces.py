"""The namespaces of one HTTP server: a manager each, over one database and one embedder, and the MCP server in front of
them.

A request brings its grant along; everything it may see or call follows from that. Nothing else is kept between two
requests that another replica of the server would not know.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from pgengram.mcp.resources import Handlers
from pgengram.mcp.sdk.server import FIXED, build_server
from pgengram.mcp.tool_registry import FRESH_MS, INSTRUCTIONS, Manager, Progress, ToolRegistry
from pgengram.runtime.context import ACTOR, client_named
from pgengram.service.core import Core
from pgengram.service.manager import MemoryManager
from pgengram.service.session import Session
from pgengram.settings import Settings
from pgengram.store.connection.replica import KNOWN

MAX_KEPT: Final = 64  # managers that wait for their next call; a manager costs about half a megabyte
IDLE_S: Final = 900.0  # without a call, after which a manager is let go
MAX_SESSIONS: Final = 256  # conversations told apart in one namespace
GRANT_KEY: Final = "pgengram.grant"  # of the grant in the scope of a request
OF_LIBRARY: Final = {
    "list_resources": "resources/list", "list_resource_templates": "resources/templates/list",
    "read_resource": "resources/read", "list_prompts": "prompts/list", "get_prompt": "prompts/get",
    "completion": "completion/complete",
}  # fmt: skip
METHODS: Final = ("tools/list", "tools/call", *OF_LIBRARY.values())  # those that depend on who asks


@dataclass(frozen=True, slots=True)
class Grant:
    """What a client may do.

    key: tells clients apart; the same for every request of one client.
    name: what the history calls it; None where only the client's own word says who it is.
    position: where the primary's log ended when the request came; None when nobody asked.
    """

    key: str
    name: str | None
    namespace: str
    writes: bool
    position: str | None = None


_GRANT: ContextVar[Grant | None] = ContextVar("grant", default=None)  # of the request that is being answered


class Sessions(Session):
    """The sessions of one namespace: each client has its own, as it would over a pipe."""

    def __init__(self) -> None:
        super().__init__()
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def current(self) -> str:
        """Return the id of the client's session, and note that it is in use."""
        return self._own().current()

    def next(self) -> tuple[str, int]:
        """Return the client's session and the place of its next memory."""
        return self._own().next()

    def _own(self) -> Session:
        grant = _GRANT.get()
        key = "" if grant is None else grant.key
        own = self._sessions.setdefault(key, Session())
        self._sessions.move_to_end(key)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return own


class NamespaceServer:
    """One namespace: its manager, and what answers requests that may write and those that may not.

    Args:
        settings: of this namespace.
        host: whose database and embedder are used.
    """

    def __init__(self, settings: Settings, host: Core) -> None:
        self.manager = MemoryManager(settings, host)
        self.manager.session = Sessions()
        self._spoken: Manager = self.manager
        self.instructions = INSTRUCTIONS
        if settings.compat:
            from pgengram.compat import adapter_for

            self._spoken = speaker = adapter_for(settings.compat, self.manager)
            self.instructions = speaker.instructions
        self.calls = 0
        self.last_use = time.monotonic()

    @cached_property
    def writing(self) -> Server[Any]:
        """Every tool."""
        return self._server(reading=False)

    @cached_property
    def reading(self) -> Server[Any]:
        """Only tools that change nothing."""
        return self._server(reading=True)

    @property
    def writing_tools(self) -> frozenset[str]:
        """The names of the tools that `reading` lacks."""
        return frozenset(tool.name for tool in self._spoken.tools if not tool.hints.read_only)

    async def close(self) -> None:
        """Write what waits to be written, and end the background work."""
        await self.manager.close()

    def _server(self, *, reading: bool) -> Server[Any]:
        handlers = Handlers(self.manager)
        registry = ToolRegistry(
            [tool for tool in self._spoken.tools if tool.hints.read_only or not reading],
            ready=self._ready,
            instructions=self.instructions,
            short=self.manager.settings.short_answers,
        )
        return build_server(registry, {f"on_{name}": getattr(handlers, name) for name in OF_LIBRARY})

    async def _ready(self, report: Progress, embeds: bool) -> None:
        grant = _GRANT.get()
        if grant is not None and grant.name is not None:
            ACTOR.set(client_named(grant.name))  # what a client says of itself, anybody can say
        await self.manager.ready(report, embeds)
        self.manager.working.notice()


class NamespaceServers:
    """Everybody whose memories this process has served lately.

    Args:
        settings: which database and embedder; their namespace is the one of whoever needs no token.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.host = Core(settings)
        self._kept: OrderedDict[str, NamespaceServer] = OrderedDict()
        self._leaving: set[asyncio.Task[None]] = set()
        self._front = NamespaceServer(settings, self.host)

    @property
    def writing_tools(self) -> frozenset[str]:
        """The names of the tools that change something."""
        return self._front.writing_tools

    def server(self) -> Server[Any]:
        """Return an MCP server that answers each request as its grant allows; the grant is in the request's scope."""
        front = self._front.writing
        for method in METHODS:
            entry = front.get_request_handler(method)
            if entry is not None:
                front.add_request_handler(method, entry.params_type, self._answering(method))
        front.cache_hints = {method: CacheHint(ttl_ms=FRESH_MS, scope="private") for method in FIXED}
        return front

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[NamespaceServer]:
        """Keep the manager of a namespace for as long as a block lasts."""
        served = self._kept.get(namespace)
        if served is None:
            served = self._kept[namespace] = NamespaceServer(replace(self.settings, namespace=namespace), self.host)
        self._kept.move_to_end(namespace)
        served.calls += 1
        try:
            yield served
        finally:
            served.calls -= 1
            served.last_use = time.monotonic()
            self._let_go()

    @property
    def own_manager(self) -> MemoryManager:
        """The memories of the settings' own namespace."""
        return self._front.manager

    async def open(self) -> None:
        """Bring up the database and the embedder ahead of the first call, and begin the work of every server.

        Raises:
            NotReady: the database did not come up; calls try again.
        """
        await self.host.open()

    async def close(self) -> None:
        """Let go of everybody, then of the database."""
        await asyncio.gather(*(served.close() for served in self._kept.values()), *self._leaving)
        await self.host.close()

    def _answering(self, method: str) -> Callable[[ServerRequestContext[Any], Any], Awaitable[Any]]:
        async def answer(context: ServerRequestContext[Any], params: Any) -> Any:
            if context.request is None:
                raise TypeError("a request over HTTP has a scope")
            grant: Grant = context.request.scope[GRANT_KEY]
            _GRANT.set(grant)
            KNOWN.set(grant.position)
            async with self.of(grant.namespace) as served:
                server = served.writing if grant.writes else served.reading
                entry = server.get_request_handler(method)
                if entry is None:
                    raise TypeError(f"nothing answers {method}")
                return await entry.handler(context, params)

        return answer

    def _let_go(self) -> None:
        """Close managers that have been idle for long, or are the longest idle of too many."""
        now = time.monotonic()
        too_many = len(self._kept) - MAX_KEPT
        idle = [
            name
            for place, (name, served) in enumerate(self._kept.items())
            if not served.calls and (place < too_many or now - served.last_use > IDLE_S)
        ]
        for name in idle:
            task = asyncio.create_task(self._kept.pop(name).close(), name="letting go of a namespace")
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
