"""What a client and this server say to each other, as the two streams that the SDK serves."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, deque
from types import TracebackType
from typing import Any, Final, Protocol, Self

from mcp.server.lowlevel import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse, RequestId

from pgengram.mcp.frames import Refused, frame
from pgengram.mcp.stdio.lines import INTERNAL_ERROR, Line, refusal
from pgengram.mcp.stdio.relay import Handover

MAX_IN_FLIGHT: Final = 256  # calls at once; further ones wait unread in the pipe
DRAIN_S: Final = 1.0  # for calls in flight at the end; the SDK's client sends SIGTERM 2 s after closing the pipe


class Lines(Protocol):
    """Lines in and lines out."""

    async def line(self) -> Line | None:
        """Return the next line; None when no more come."""

    def write(self, data: bytes) -> None:
        """Send whole lines."""

    async def drain(self) -> None:
        """Wait until most of what was sent has been read."""


class Conversation:
    """Both streams that the SDK serves, over one channel, knowing which requests are still unanswered.

    Args:
        channel: to the client.
        past: what the client has said to a server that is gone, if this conversation goes on with it. What that one has
            asked the client is not taken for a question of ours: each conversation marks its own.
        mark: stands before the number of each question to the client; empty for a conversation without a past.
    """

    def __init__(self, channel: Lines, handover: Handover | None = None, mark: str = "") -> None:
        self._channel = channel
        begun, unanswered = ([], []) if handover is None else handover.replayed()
        self._earlier: deque[Line] = deque([*begun, *unanswered])
        # The handshake, if the client has had the answer: it is repeated, and the second answer not sent.
        self._silent: RequestId | None = (
            json.loads(begun[0])["id"] if handover is not None and handover.is_greeted else None
        )
        self._mark = mark
        self._unanswered: Counter[RequestId] = Counter()
        self._changed = asyncio.Event()
        self.answered = asyncio.Event()  # set once the first request is answered
        self.ended = asyncio.Event()  # set once nothing more is read

    def begin(self, id_: RequestId) -> None:
        """Note a request."""
        self._unanswered[id_] += 1

    def settle(self, id_: RequestId | None) -> None:
        """Note that a request is answered, or never will be."""
        if id_ is None:
            return
        if self._unanswered[id_] > 1:
            self._unanswered[id_] -= 1
        else:
            self._unanswered.pop(id_, None)
        self._changed.set()
        self.answered.set()

    @property
    def is_settled(self) -> bool:
        """Whether all that was begun is answered."""
        return not self._unanswered

    async def below(self, count: int) -> None:
        """Wait until fewer than `count` requests are unanswered."""
        while self._unanswered.total() >= count:
            self._changed.clear()
            await self._changed.wait()

    async def next(self) -> SessionMessage | None:
        """Return the next message, having answered what is none; None at the end, once calls in flight are drained."""
        while (line := await self._line()) is not None:
            try:
                message = frame(line)
            except Refused as refused:
                self._channel.write(refused.answer)
                await self._channel.drain()
                continue
            if isinstance(message, JSONRPCRequest):
                await self.below(MAX_IN_FLIGHT)
                return self._request(message)
            if self._is_for_us(message):
                return SessionMessage(message)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.below(1), DRAIN_S)
        self.ended.set()
        return None

    async def _line(self) -> Line | None:
        return self._earlier.popleft() if self._earlier else await self._channel.line()

    def _is_for_us(self, message: JSONRPCMessage) -> bool:
        """Whether a message answers a question of this conversation, if it is an answer; its id becomes the SDK's."""
        if not self._mark or not isinstance(message, JSONRPCResponse | JSONRPCError):
            return True
        mark, _, number = str(message.id).rpartition(":")
        if mark != self._mark or not number.isdecimal():
            return False
        message.id = int(number)
        return True

    def _request(self, message: JSONRPCRequest) -> SessionMessage:
        async def cancelled() -> None:
            self.settle(message.id)

        self.begin(message.id)
        return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=cancelled))

    async def send(self, message: JSONRPCMessage) -> None:
        """Send a message to the client."""
        if self._silent is not None and isinstance(message, JSONRPCResponse) and message.id == self._silent:
            self._silent = None
            self.settle(message.id)
            return
        if self._mark and isinstance(message, JSONRPCRequest):
            message = message.model_copy(update={"id": f"{self._mark}:{message.id}"})
        try:
            data = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        except ValueError:  # text that is no Unicode: it must not end the connection
            id_ = message.id if isinstance(message, JSONRPCResponse) else None
            data = refusal(id_, INTERNAL_ERROR, "The answer could not be written as UTF-8.")
        self._channel.write(data)
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self.settle(message.id)
        await self._channel.drain()


class _Stream:
    """What the SDK expects of either stream besides its items."""

    def __init__(self, conversation: Conversation) -> None:
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


async def converse(server: Server[Any], conversation: Conversation) -> asyncio.Task[None]:
    """Serve until nothing more is read, and return the task of calls that may still be under way."""
    serving = asyncio.create_task(
        server.run(_Incoming(conversation), _Outgoing(conversation), server.create_initialization_options())
    )
    ended = asyncio.create_task(conversation.ended.wait())
    try:
        await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended.cancel()
    return serving
