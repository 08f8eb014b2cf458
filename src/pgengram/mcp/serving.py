"""An MCP server over the claimed stdin and stdout, from the first line to the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from pgengram.errors import PgengramError
from pgengram.mcp.stdio.channel import Channel
from pgengram.mcp.stdio.fds import claim_stdio
from pgengram.mcp.stdio.lines import INTERNAL_ERROR, refusal
from pgengram.mcp.stdio.watchdog import ParentWatchdog
from pgengram.runtime import memory
from pgengram.runtime.logs import log_to_stderr

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager
    from pgengram.settings import Settings


from pgengram.local.socket_server import LocalServer
from pgengram.mcp.frames import Refused, frame
from pgengram.mcp.server import INSTRUCTIONS, Manager, build_server
from pgengram.runtime.logs import trace

log = logging.getLogger(__name__)

MAX_IN_FLIGHT: Final = 256  # calls at once; further ones wait unread in the pipe
DRAIN_S: Final = 1.0  # for calls in flight at the end; the SDK's client sends SIGTERM 2 s after closing the pipe
UNWIND_S: Final = 1.0  # for cancelled calls to let go
CLOSE_S: Final = 4.5  # for the manager to close; with the two above below watchdog.STOP_S
EXIT_S: Final = 1.0  # for the interpreter once all is closed


class _Conversation:
    """Both streams that the SDK serves, over one channel, knowing which requests are still unanswered."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._unanswered: Counter[RequestId] = Counter()
        self._changed = asyncio.Event()
        self.answered = asyncio.Event()  # set once the first request is answered
        self.ended = asyncio.Event()  # set once nothing more is read

    def begin(self, id_: RequestId) -> None:
        self._unanswered[id_] += 1

    def settle(self, id_: RequestId) -> None:
        if self._unanswered[id_] > 1:
            self._unanswered[id_] -= 1
        else:
            self._unanswered.pop(id_, None)
        self._changed.set()
        self.answered.set()

    async def below(self, count: int) -> None:
        """Wait until fewer than `count` requests are unanswered."""
        while self._unanswered.total() >= count:
            self._changed.clear()
            await self._changed.wait()

    async def next(self) -> SessionMessage | None:
        """Return the next message, having answered what is none; None at the end, once calls in flight are drained."""
        while (line := await self._channel.line()) is not None:
            try:
                message = frame(line)
            except Refused as refused:
                self._channel.write(refused.answer)
                await self._channel.drain()
                continue
            if not isinstance(message, JSONRPCRequest):
                return SessionMessage(message)
            await self.below(MAX_IN_FLIGHT)
            return self._request(message)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.below(1), DRAIN_S)
        self.ended.set()
        return None

    def _request(self, message: JSONRPCRequest) -> SessionMessage:
        async def cancelled() -> None:
            self.settle(message.id)

        self.begin(message.id)
        return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=cancelled))

    async def send(self, message: JSONRPCMessage) -> None:
        try:
            data = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        except ValueError:  # text that is no Unicode: it must not end the connection
            id_ = message.id if isinstance(message, JSONRPCResponse) else None
            data = refusal(id_, INTERNAL_ERROR, "The answer could not be written as UTF-8.")
        self._channel.write(data)
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self.settle(message.id)
        await self._channel.drain()


class _Stream:
    """What the SDK expects of either stream besides its items."""

    def __init__(self, conversation: _Conversation) -> None:
        self._conversation = conversation

    async def aclose(self) -> None:
        """Nothing to do: the channel is closed by its namespace."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()


class _Incoming(_Stream):
    async def receive(self) -> SessionMessage:
        return await self.__anext__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        message = await self._conversation.next()
        if message is None:
            raise StopAsyncIteration
        return message


class _Outgoing(_Stream):
    async def send(self, item: SessionMessage, /) -> None:
        await self._conversation.send(item.message)


async def serve_stdio(
    manager: Manager,
    settings: Settings,
    *,
    instructions: str = INSTRUCTIONS,
    more: Mapping[str, Any] | None = None,
    behind: MemoryManager | None = None,
) -> None:
    """Serve `manager` over the claimed stdio until the client leaves or a signal comes; then close it and return.

    The first request is answered before the manager is opened. Calls in flight at the end have `DRAIN_S` to finish and
    are cancelled then. Programs of the same user may ask the memories `behind` it on the local socket. Whatever is
    stuck, the process has ended `watchdog.STOP_S` seconds after the reason to end.
    """
    log_to_stderr(settings.log_level)
    memory.share_one_arena()
    loop = asyncio.get_running_loop()
    fds = claim_stdio()
    watchdog = ParentWatchdog(fds, lambda: _soon(loop, channel.end))
    channel = Channel(fds, lost=watchdog.stop)
    conversation = _Conversation(channel)
    server = build_server(
        manager.tools, ready=manager.ready, instructions=instructions, short=settings.short_answers, more=more
    )
    watchdog.start()
    gc.freeze()  # what is imported stays: collecting it again and again costs a fifth of the start
    gc.enable()
    serving = asyncio.create_task(
        server.run(_Incoming(conversation), _Outgoing(conversation), server.create_initialization_options())
    )
    local = None if behind is None else LocalServer(behind)
    opening = asyncio.create_task(_open_after(conversation.answered, manager, local))
    ended = asyncio.create_task(conversation.ended.wait())
    await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
    if not await _over(serving, UNWIND_S):
        log.warning("a call did not end; it is left behind")
    opening.cancel()
    await _over(opening, UNWIND_S / 2)
    if local is not None:
        await _over(asyncio.create_task(local.close()), UNWIND_S)
    closed = await _over(asyncio.create_task(manager.close()), CLOSE_S)
    await channel.close(UNWIND_S / 2)
    watchdog.finish(EXIT_S, 0 if closed else 1)


async def _open_after(first_answer: asyncio.Event, manager: Manager, local: LocalServer | None) -> None:
    """Open the manager once the client has its first answer; a failure is told to each call by `ready`."""
    await first_answer.wait()
    if local is not None:
        await local.start()
    try:
        await manager.open()
    except PgengramError as error:
        log.warning("not ready: %s %s", error.message, error.hint)


async def _over(task: asyncio.Task[None], timeout_s: float) -> bool:
    """Wait for a task and log how it failed; whether it ended well and in time."""
    await asyncio.wait({task}, timeout=timeout_s)
    if not task.done():
        task.cancel()
        return False
    if task.cancelled() or (error := task.exception()) is None:
        return True
    log.error("%s", trace(error))
    return False


def _soon(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    """Run `what` in the loop from any thread, unless the loop is closed already."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(what)
