"""The namespaces of one HTTP server: a manager each, over one database and embedder, and the MCP server before them.

A request brings its grant along; everything it may see or call follows from that. Nothing else is kept between two
requests that another replica of the server would not know.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from pgengram.mcp.resources import Handlers
from pgengram.mcp.sdk_server import FIXED, build_server
from pgengram.mcp.tool_registry import FRESH_MS, INSTRUCTIONS, Manager, Progress, ToolRegistry
from pgengram.runtime.context import ACTOR, CITED_AT, client_named
from pgengram.service.core import Core, Session
from pgengram.service.manager import MemoryManager
from pgengram.service.spaces import Namespaces, Spaces, managers_of
from pgengram.service.tools import Tool
from pgengram.service.toolsets import offered
from pgengram.settings import Settings
from pgengram.sign_in.consents import READ, WRITE
from pgengram.store.connection.replica import KNOWN
from pgengram.store.persons import Right
from pgengram.sync.schedule import ExchangeScheduler

MAX_SESSIONS: Final = 256  # conversations told apart in one namespace
MAX_SORTS: Final = 64  # of grants for which one namespace keeps a server
HOSTS: Final = "hosts"  # the toolset of those hosts that ask which scopes a tool needs
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
    toolsets: groups of tools that it is shown besides those of the settings.
    spaces: the keys or names of the shared spaces that it may use, with what it may do there.
    position: where the primary's log ended when the request came; None when nobody asked.
    """

    key: str
    name: str | None
    namespace: str
    writes: bool
    toolsets: frozenset[str] = frozenset()
    spaces: frozenset[tuple[int | str, Right]] = frozenset()
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


def _with_scopes(tool: Tool) -> Tool:
    return replace(tool, scopes=(READ,) if tool.hints.read_only else (READ, WRITE))


class NamespaceServer:
    """One namespace: its manager, and what answers requests that may write and those that may not.

    Args:
        settings: of this namespace.
        host: whose database and embedder are used.
    """

    def __init__(self, settings: Settings, host: Core) -> None:
        self.manager = MemoryManager(settings, host)
        self.manager.accompany(ExchangeScheduler(self.manager))
        self.manager.session = Sessions()
        self._spoken: Manager = self.manager
        self.instructions = INSTRUCTIONS
        if settings.compat:
            from pgengram.compat import adapter_for

            self._spoken = speaker = adapter_for(settings.compat, self.manager)
            self.instructions = speaker.instructions
        self._servers: OrderedDict[tuple[Any, ...], Server[Any]] = OrderedDict()

    def server(
        self, *, writes: bool, toolsets: frozenset[str], spaces: frozenset[tuple[int | str, Right]] = frozenset()
    ) -> Server[Any]:
        """Return a server with every tool, or those that change nothing; with further groups, and shared spaces."""
        sort = (writes, toolsets, spaces)
        if sort not in self._servers:
            self._servers[sort] = self._made(writes=writes, toolsets=toolsets, spaces=spaces)
        self._servers.move_to_end(sort)
        if len(self._servers) > MAX_SORTS:
            self._servers.popitem(last=False)
        return self._servers[sort]

    def _made(
        self, *, writes: bool, toolsets: frozenset[str], spaces: frozenset[tuple[int | str, Right]]
    ) -> Server[Any]:
        handlers = Handlers(self.manager)
        registry = ToolRegistry(
            self._tools(toolsets, writes=writes),
            ready=self._ready,
            instructions=self.instructions,
            short=self.manager.settings.short_answers,
            spaces=self._spaces(writes=writes, allowed=dict(spaces)) if spaces else None,
        )
        return build_server(registry, {f"on_{name}": getattr(handlers, name) for name in OF_LIBRARY})

    def _tools(self, toolsets: frozenset[str], *, writes: bool) -> list[Tool]:
        tools = [tool for tool in self._spoken.tools if tool.hints.read_only or writes]
        if toolsets and not self.manager.settings.compat:
            listed = {tool.name for tool in tools}
            tools += [tool for tool in offered(self.manager, toolsets) if tool.name not in listed]
        return [*map(_with_scopes, tools)] if HOSTS in toolsets else tools

    def _spaces(self, *, writes: bool, allowed: dict[int | str, Right]) -> Spaces | None:
        if self.manager.settings.compat:
            return None
        return Spaces(managers_of(self.manager), allowed, writes=writes)

    @property
    def writing_tools(self) -> frozenset[str]:
        """The names of the tools that change something."""
        return frozenset(tool.name for tool in self._spoken.tools if not tool.hints.read_only)

    async def close(self) -> None:
        """Write what waits to be written, and end the background work."""
        await self.manager.close()

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
        cited_at: the address before the id of a memory that a host cites; empty where people have none.
    """

    def __init__(self, settings: Settings, cited_at: str = "") -> None:
        self.settings = settings
        self.cited_at = cited_at
        self.host = Core(settings)
        self.namespaces: Namespaces[str, NamespaceServer] = Namespaces(
            lambda name: NamespaceServer(replace(settings, namespace=name), self.host)
        )
        self._front = NamespaceServer(settings, self.host)

    @property
    def writing_tools(self) -> frozenset[str]:
        """The names of the tools that change something."""
        return self._front.writing_tools

    def server(self) -> Server[Any]:
        """Return an MCP server that answers each request as its grant allows; the grant is in the request's scope."""
        front = self._front.server(writes=True, toolsets=frozenset())
        for method in METHODS:
            entry = front.get_request_handler(method)
            if entry is not None:
                front.add_request_handler(method, entry.params_type, self._answering(method))
        front.cache_hints = {method: CacheHint(ttl_ms=FRESH_MS, scope="private") for method in FIXED}
        return front

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
        await self._front.manager.ready()

    async def close(self) -> None:
        """Let go of everybody, then of the database."""
        await self.namespaces.close()
        await self.host.close()

    def _answering(self, method: str) -> Callable[[ServerRequestContext[Any], Any], Awaitable[Any]]:
        async def answer(context: ServerRequestContext[Any], params: Any) -> Any:
            if context.request is None:
                raise TypeError("a request over HTTP has a scope")
            grant: Grant = context.request.scope[GRANT_KEY]
            _GRANT.set(grant)
            KNOWN.set(grant.position)
            if self.cited_at:
                CITED_AT.set(self.cited_at)
            async with self.namespaces.of(grant.namespace) as served:
                server = served.server(writes=grant.writes, toolsets=grant.toolsets, spaces=grant.spaces)
                entry = server.get_request_handler(method)
                if entry is None:
                    raise TypeError(f"nothing answers {method}")
                return await entry.handler(context, params)

        return answer
