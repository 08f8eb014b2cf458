"""What the SDK lacks: lines that are not messages get the answer they deserve, and a conversation serves as its two streams."""

from __future__ import annotations

import contextlib
import json
from types import TracebackType
from typing import Self

from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from pgengram.mcp.conversation import MAX_IN_FLIGHT, Conversation
from pgengram.mcp.stdio.lines import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    Id,
    Line,
    Oversized,
    has_too_much,
    line_too_long,
    recovered_id,
    refusal,
)


class Refused(Exception):
    """A line that is not a frame; `answer` is the answer to it, as a line."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer


def _line_error(id_: Id, code: int, message: str) -> Refused:
    return Refused(refusal(id_, code, message))


def frame(line: Line) -> JSONRPCMessage:
    """Return the JSON-RPC message that a line holds.

    Raises:
        Refused: the line must be answered with an error.
    """
    if isinstance(line, Oversized):
        raise Refused(line_too_long(line))
    if has_too_much(line):
        raise _line_error(recovered_id(line), INVALID_REQUEST, "Too many lists, objects or values; send less at once.")
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        raise _invalid_message(line) from None
    if isinstance(message, JSONRPCNotification) and "id" in from_json(line):
        raise _line_error(None, INVALID_REQUEST, "The id of a request must be a string or an integer.")
    if b"NaN" in line or b"Infinity" in line:
        _refuse_what_is_not_json(line)
    return message


def _invalid_message(line: bytes) -> Refused:
    try:
        value = from_json(line)
    except ValueError as error:  # its text names the fault and its place, not what stands there
        return _line_error(recovered_id(line), PARSE_ERROR, f"Not valid JSON in UTF-8: {error}.")
    if isinstance(value, list):
        return _line_error(None, INVALID_REQUEST, "MCP has no batches: send one message per line.")
    id_ = value.get("id") if isinstance(value, dict) else None
    usable = isinstance(id_, int | str) and not isinstance(id_, bool)
    return _line_error(
        id_ if usable else None, INVALID_REQUEST, 'Not a JSON-RPC 2.0 message ("jsonrpc":"2.0", method, …).'
    )


def _refuse_what_is_not_json(line: bytes) -> None:
    def refuse(name: str) -> None:
        raise _line_error(recovered_id(line), PARSE_ERROR, f"Not valid JSON: {name} is not a JSON number.")

    with contextlib.suppress(RecursionError):
        json.loads(line, parse_constant=refuse)


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
    """What the client says; what is not a message is answered here."""

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
