"""An MCP server over the claimed stdin and stdout, from the first line to the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from pgengram.errors import PgengramError
from pgengram.local.socket_server import LocalServer
from pgengram.mcp.conversation import Conversation
from pgengram.mcp.relayed_clients import RelayedClients
from pgengram.mcp.sdk_server import serve_conversation
from pgengram.mcp.stdio.channel import Channel
from pgengram.mcp.stdio.lines import ReplayState
from pgengram.mcp.stdio.watchdog import ParentWatchdog, claim_stdio
from pgengram.mcp.tool_registry import INSTRUCTIONS, Manager, ToolRegistry
from pgengram.runtime import process_setup
from pgengram.runtime.logs import log_to_stderr, trace

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager
    from pgengram.service.spaces import Spaces
    from pgengram.settings import Settings

log = logging.getLogger(__name__)

UNWIND_S: Final = 1.0  # for cancelled calls to let go
HAND_OVER_S: Final = 2.5  # for other servers to go on without this one
CLOSE_S: Final = 3.0  # for the manager to close; with those above below watchdog.STOP_S
SETTLED_S: Final = 2.0  # after the start, by when nobody imports or reads a model any more: what both left is 15 MB
EXIT_S: Final = 1.0  # for the interpreter once all is closed


async def serve_stdio(
    manager: Manager,
    settings: Settings,
    *,
    instructions: str = INSTRUCTIONS,
    more: Mapping[str, Any] | None = None,
    local_api: MemoryManager | None = None,
    replay: ReplayState | None = None,
    spaces: Spaces | None = None,
) -> None:
    """Serve `manager` over the claimed stdio until the client leaves or a signal comes; then close it and return.

    The first request is answered before the manager is opened. Calls in flight at the end have `DRAIN_S` to finish and
    are cancelled then. Programs of the same user may ask the memories of `local_api` on the local socket, and other
    servers too where this one is the first of its store, as its `replay` says. Whatever is stuck, the process has
    ended `watchdog.STOP_S` seconds after the reason to end.
    """
    log_to_stderr(settings.log_level)
    replay = replay or ReplayState()
    channel, watchdog = _connection(replay)
    conversation = Conversation(channel, replay, f"{os.getpid()}-0" if replay.watchdog else "")
    registry = ToolRegistry(
        manager.tools,
        ready=manager.ready,
        instructions=instructions,
        short=settings.short_answers,
        interrupted=replay.perhaps_done,
        spaces=spaces,
    )
    if replay.watchdog is None:
        watchdog.start()
    process_setup.collect_rarely()
    relayed = RelayedClients(replay.first, local_api) if replay.first and local_api else None
    local = LocalServer(local_api, None if relayed is None else relayed.answer) if local_api else None
    opening = asyncio.create_task(_open_after(conversation.answered, manager, local))
    if local is not None and not await local.start() and relayed is not None:
        await relayed.close()  # nobody need wait for it
    serving = await serve_conversation(registry, conversation, more)
    await _unwind(serving, opening, [one.close() for one in (local, relayed) if one is not None])
    closing = asyncio.create_task(manager.close())
    closed = await _ended_in_time(closing, CLOSE_S) or _ends_without_us(closing, local_api)
    await channel.close(UNWIND_S / 2)
    watchdog.finish(EXIT_S, 0 if closed else 1)


def _ends_without_us(closing: asyncio.Task[None], local_api: MemoryManager | None) -> bool:
    """Return whether nothing is left to wait for but PostgreSQL, which its supervisor stops once we have gone."""
    if closing.done() or local_api is None or local_api.store.is_open:
        return False
    log.warning("PostgreSQL takes long to start or to stop. It ends without this server, and nothing is lost.")
    return True


async def _unwind(
    serving: asyncio.Task[None], opening: asyncio.Task[None], closing: list[Coroutine[Any, Any, None]]
) -> None:
    """Let go of calls that are still under way, and of those who ask over the socket."""
    if not await _ended_in_time(serving, UNWIND_S):
        log.warning("a call did not end; it is left behind")
    opening.cancel()
    await _ended_in_time(opening, UNWIND_S / 2)
    await asyncio.gather(*(_ended_in_time(asyncio.create_task(one), HAND_OVER_S) for one in closing))


def _connection(replay: ReplayState) -> tuple[Channel, ParentWatchdog]:
    """Return the way to the client, and what notices its end; after passing on, from where that stopped."""
    loop, fds = asyncio.get_running_loop(), claim_stdio()
    watchdog = replay.watchdog or ParentWatchdog(fds, lambda: None)
    channel = Channel(fds, lost=watchdog.stop, splitter=replay.rest)
    channel.write(replay.unsent)
    watchdog.ask = lambda: _call_in_loop(loop, channel.end)
    if watchdog.has_asked:
        channel.end()
    return channel, watchdog


async def _open_after(first_answer: asyncio.Event, manager: Manager, local: LocalServer | None) -> None:
    """Open the manager once the client has its first answer; a failure is told to each call by `ready`."""
    await first_answer.wait()
    if local is not None:
        local.take_up()
    try:
        await manager.open()
    except PgengramError as error:
        log.warning("not ready: %s %s", error.message, error.hint)
    asyncio.get_running_loop().call_later(SETTLED_S, process_setup.return_what_is_free)


async def _ended_in_time(task: asyncio.Task[None], timeout_s: float) -> bool:
    """Wait for a task and log how it failed; whether it ended well and in time."""
    await asyncio.wait({task}, timeout=timeout_s)
    if not task.done():
        task.cancel()
        return False
    if task.cancelled() or (error := task.exception()) is None:
        return True
    log.error("%s", trace(error))
    return False


def _call_in_loop(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    """Run `what` in the loop from any thread, unless the loop is closed already."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(what)
