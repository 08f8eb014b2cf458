"""A conversation as the two streams that the SDK serves."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse

from pgengram.mcp.conversation import MAX_IN_FLIGHT, Conversation
from pgengram.mcp.sdk.frames import Refused, frame
from pgengram.mcp.stdio.lines import INTERNAL_ERROR, refusal


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


class Incoming(_Stream):
    """What the client says; what is no message is answered here."""

    async def receive(self) -> SessionMessage:
        """Return the next message."""
        return await self.__anext__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        while (line := await self._conversation.line()) is not None:
            try:
                message = frame(line)
            except Refused as refused:
                await self._conversation.send(refused.answer)
                continue
            if isinstance(message, JSONRPCRequest):
                await self._conversation.below(MAX_IN_FLIGHT)
                return self._request(message)
            if self._is_for_us(message):
                return SessionMessage(message)
        raise StopAsyncIteration

    def _is_for_us(self, message: JSONRPCMessage) -> bool:
        """Whether a message answers a question of this conversation, if it is an answer; its id becomes the SDK's."""
        if not self._conversation.mark or not isinstance(message, JSONRPCResponse | JSONRPCError):
            return True
        mark, _, number = str(message.id).rpartition(":")
        if mark != self._conversation.mark or not number.isdecimal():
            return False
        message.id = int(number)
        return True

    def _request(self, message: JSONRPCRequest) -> SessionMessage:
        async def cancelled() -> None:
            self._conversation.settle(message.id)

        self._conversation.begin(message.id)
        return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=cancelled))


class Outgoing(_Stream):
    """What the client is told."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message to the client."""
        message = item.message
        if self._conversation.mark and isinstance(message, JSONRPCRequest):
            message = message.model_copy(update={"id": f"{self._conversation.mark}:{message.id}"})
        id_ = message.id if isinstance(message, JSONRPCResponse | JSONRPCError) else None
        is_result = isinstance(message, JSONRPCResponse)
        try:
            data = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        except ValueError:  # text that is no Unicode: it must not end the connection
            data = refusal(id_ if is_result else None, INTERNAL_ERROR, "The answer could not be written as UTF-8.")
        await self._conversation.send(data, id_, is_result=is_result)
