"""The clients of other servers of a store, which the first one answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pgengram.errors import PgengramError
from pgengram.mcp.conversation import DRAIN_S, Conversation
from pgengram.mcp.sdk_server import serve_conversation
from pgengram.mcp.stdio.first_server import OWN, FirstServer
from pgengram.mcp.stdio.lines import Line, ReplayState
from pgengram.mcp.stdio.relay import CLOSED, RELAYED
from pgengram.mcp.tool_registry import INSTRUCTIONS, Manager, ToolRegistry
from pgengram.postgres import server_status
from pgengram.runtime.logs import trace
from pgengram.service.manager import MemoryManager
from pgengram.service.projects import instruction
from pgengram.sync.schedule import ExchangeScheduler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pgengram.settings import Settings

log = logging.getLogger(__name__)

REQUESTS: Final = (
    "list_resources", "list_resource_templates", "read_resource", "list_prompts", "get_prompt", "completion",
)  # fmt: skip
UNWIND_S: Final = 0.5  # for cancelled calls to let go
POLL_S: Final = 0.05
JOIN_S: Final = 1.5  # for the next server to start; later it starts the database again, which costs a second


class ClientSession:
    """The memories of one namespace as one client sees them.

    Args:
        settings: whose memories, and how they are offered.
        folder: where the client has started its server.
        host: whose database and embedder are used; those of the settings otherwise.
    """

    def __init__(self, settings: Settings, folder: str, host: MemoryManager | None = None) -> None:
        self.settings = settings
        self.memories = MemoryManager(settings, host)
        self.memories.accompany(ExchangeScheduler(self.memories))
        self.manager: Manager = self.memories
        self.spaces = None
        if settings.spaces:  # few name any
            from pgengram.service.spaces import spaces_of

            self.spaces = spaces_of(self.memories)
        self.instructions = INSTRUCTIONS
        self.more = {f"on_{request}": self._answering(request) for request in REQUESTS}
        if settings.compat:
            from pgengram.compat import adapter_for

            self.manager = speaker = adapter_for(settings.compat, self.memories)
            self.instructions = speaker.instructions
        elif here := self.memories.projects.worked_on(folder):
            self.memories.here = here
            self.instructions = f"{INSTRUCTIONS}\n\n{instruction(here)}"

    def _answering(self, request: str) -> Callable[..., Awaitable[Any]]:
        """Return what answers a request for resources or prompts; it is imported when the first one comes."""

        async def answer(context: Any, params: Any) -> Any:
            from pgengram.mcp.resources import Handlers

            return await getattr(Handlers(self.memories), request)(context, params)

        return answer


class _Channel:
    """Lines from and to another server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ended = False

    async def line(self) -> Line | None:
        """Return the next line; an empty one asks for a sign of life, and is answered with one."""
        while not self._ended:
            try:
                line = await self._reader.readline()
            except (ConnectionError, ValueError):  # it was killed, or sends a longer line than it may
                return None
            if self._ended or not line.endswith(b"\n"):
                return None
            if line != b"\n":
                return line[:-1]
            self.write(b"\n")
        return None

    def end(self) -> None:
        """Read no more, not even what has arrived: another server is asked it again."""
        self._ended = True
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]
        self._reader.feed_eof()

    def write(self, data: bytes) -> None:
        """Send whole lines."""
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until most of what was sent has been read; who is gone reads nothing."""
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()


class RelayedClients:
    """Answers other servers' clients for as long as this process runs.

    Args:
        first: the lock that says so.
        host: whose database, embedder and settings they use.
    """

    def __init__(self, first: FirstServer, host: MemoryManager) -> None:
        self._first = first
        self._host = host
        self._numbers = count(1)
        self._channels: dict[asyncio.Task[Any], _Channel] = {}

    async def close(self) -> None:
        """Take no more calls, let those in flight end, and let another server become the first."""
        for channel in self._channels.values():
            channel.end()
        others = list(self._channels)
        if others:
            await asyncio.wait(others, timeout=DRAIN_S + 2 * UNWIND_S)
        self._first.release()
        if others and not self._host.settings.database_url:
            await self._joined()

    async def _joined(self) -> None:
        """Wait a moment for the next first server to use the embedded database, as the last one to leave stops it."""
        for _ in range(round(JOIN_S / POLL_S)):
            if server_status(self._host.settings.data_path).present > 1:
                return
            await asyncio.sleep(POLL_S)

    async def answer(self, hello: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the client of another server until it leaves; one that takes this server for another is left alone."""
        task = asyncio.current_task()
        if hello["first"] != self._first.key or task is None:
            return
        self._channels[task] = channel = _Channel(reader, writer)
        try:
            replay = ReplayState(is_greeted=hello["is_greeted"], is_certain=hello["is_certain"])
            for _ in range(hello["handshake"] + hello["unanswered"]):
                line = _without_line_end(await reader.readline())
                replay.restore(line, is_handshake=len(replay.handshake) < hello["handshake"])
            session = ClientSession(self._host.settings.with_own(hello["settings"], OWN), hello["folder"], self._host)
            channel.write(json.dumps(RELAYED).encode() + b"\n")
            await self._serve(session, channel, replay)
        except (ValueError, LookupError, PgengramError):  # settings that cannot be: who has them says so itself
            channel.write(b"{}\n")
        except ConnectionError:  # it is gone
            return
        except Exception as error:  # noqa: BLE001 - the edge: it must cost one client, not all
            log.error("a server that this one stands in for was left: %s", trace(error))  # noqa: TRY400
        finally:
            del self._channels[task]

    async def _serve(self, session: ClientSession, channel: _Channel, replay: ReplayState) -> None:
        conversation = Conversation(channel, replay, f"{os.getpid()}-{next(self._numbers)}")
        registry = ToolRegistry(
            session.manager.tools,
            ready=session.manager.ready,
            instructions=session.instructions,
            short=session.settings.short_answers,
            interrupted=replay.perhaps_done,
            spaces=session.spaces,
        )
        opening = asyncio.create_task(self._open(session, conversation))
        try:
            serving = await serve_conversation(registry, conversation, session.more)
            _, late = await asyncio.wait({serving}, timeout=UNWIND_S)
            for one in late:
                one.cancel()
            if not late and conversation.is_settled:
                channel.write(CLOSED + b"\n")
            await channel.drain()
        finally:
            opening.cancel()
            await session.manager.close()

    async def _open(self, session: ClientSession, conversation: Conversation) -> None:
        """Open what a client needs once it has its first answer; a failure is told to each call."""
        await conversation.answered.wait()
        try:
            await session.memories.open()
        except PgengramError as error:
            log.warning("not ready: %s %s", error.message, error.hint)


def _without_line_end(line: bytes) -> bytes:
    if not line.endswith(b"\n"):
        raise ConnectionResetError
    return line[:-1]
