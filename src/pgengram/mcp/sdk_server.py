"""What is offered as a server of the MCP SDK, which speaks both protocol eras whole."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ListToolsResult,
    PaginatedRequestParams,
    jsonrpc_message_adapter,
)
from mcp_types import Tool as ListedTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
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
from pgengram.mcp.tool_registry import FORM, FRESH_MS, NAME, QUESTION, TITLE, Progress, ToolRegistry, Unanswered, agreed
from pgengram.runtime.context import Asker


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


def read_arguments(message: JSONRPCMessage) -> bool:
    """Read the arguments of a tool's call as the object that they mean, and return whether they were another: some
    languages write an empty object as an empty list or text, and some clients send the object as JSON text.

    Raises:
        Refused: they are not an object.
    """
    if not isinstance(message, JSONRPCRequest) or message.method != "tools/call" or not message.params:
        return False
    given = message.params.get("arguments")
    if isinstance(given, dict | None):
        return False
    meant = _object_meant(given)
    if meant is None:
        raise _line_error(message.id, INVALID_PARAMS, 'The arguments of a tool must be a JSON object: {"name": …}.')
    message.params["arguments"] = meant
    return True


def _object_meant(given: object) -> dict[str, Any] | None:
    """Return the object that an empty list, an empty text or its JSON text means; None where it is none."""
    if isinstance(given, str):
        with contextlib.suppress(ValueError):
            given = from_json(given.strip() or "{}", allow_inf_nan=False)
    return {} if given == [] else given if isinstance(given, dict) else None


def _invalid_message(line: bytes) -> Refused:
    try:
        value = from_json(line)
    except ValueError as error:  # its text names the fault and its place, not what stands there
        return _line_error(recovered_id(line), PARSE_ERROR, f"Not valid JSON in UTF-8: {error}.")
    if isinstance(value, list):
        return _line_error(None, INVALID_REQUEST, "MCP has no batches: send each message by itself.")
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
                read_arguments(message)
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


log = logging.getLogger(__name__)

Context = ServerRequestContext[Any]

FIXED: Final[tuple[CacheableMethod, ...]] = (
    "tools/list", "server/discover", "resources/list", "resources/templates/list", "prompts/list",
)  # fmt: skip


def build_server(registry: ToolRegistry, more: Mapping[str, Any] | None = None) -> Server[Any]:
    """Return an MCP server of both protocol eras for what is offered.

    Args:
        registry: the tools.
        more: handlers of other requests, by the names of the SDK's parameters.
    """

    async def list_tools(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[ListedTool.model_validate(one.listed) for one in registry.bindings.values()])

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        if params.name not in registry.bindings:
            raise MCPError(INVALID_PARAMS, f"Unknown tool. Use one of {', '.join(registry.bindings)}.")
        client = context.session.client_params
        try:
            answer = await registry.call(
                params.name,
                params.arguments or {},
                id_=context.request_id,
                caller="" if client is None else client.client_info.name,
                asker=_asker_of(context, params),
                report=_reporter(context),
            )
        except Unanswered as question:
            return _input_required(question)
        return CallToolResult.model_validate(answer)

    return Server(
        NAME,
        title=TITLE,
        version=registry.version,
        instructions=registry.instructions,
        cache_hints={method: CacheHint(ttl_ms=FRESH_MS, scope="public") for method in FIXED},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        **(more or {}),
    )


async def serve_conversation(
    registry: ToolRegistry, conversation: Conversation, more: Mapping[str, Any] | None = None
) -> asyncio.Task[None]:
    """Serve until nothing more is read, and return the task of calls that may still be under way.

    Args:
        registry: the tools.
        conversation: with the client.
        more: handlers of other requests, by the names of the SDK's parameters.
    """
    server = build_server(registry, more)
    options = server.create_initialization_options()
    serving = asyncio.create_task(server.run(Incoming(conversation), Outgoing(conversation), options))
    ended = asyncio.create_task(conversation.ended.wait())
    try:
        await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended.cancel()
    return serving


def _reporter(context: Context) -> Progress:
    """Return a way to tell this call's client how far it is; it sends nothing to clients that did not ask."""
    steps = iter(range(1, sys.maxsize))

    async def report(message: str) -> None:
        await context.session.report_progress(next(steps), message=message)

    return report


def _input_required(question: Unanswered) -> InputRequiredResult:
    """Return the answer that has the client put the question."""
    form = ElicitRequestFormParams(message=question.question, requested_schema=FORM)
    return InputRequiredResult(input_requests={QUESTION: ElicitRequest(params=form)}, request_state=question.token)


class _Elicitation:
    """Asks the user of one call's client, in the way of its protocol's era.

    The newer one takes the question along as a result and brings the answer with the same call made again: the token
    goes with it as the request's state.
    """

    def __init__(self, context: Context, params: CallToolRequestParams) -> None:
        self._context = context
        self._params = params

    @property
    def answer(self) -> tuple[str, bool] | None:
        answer = (self._params.input_responses or {}).get(QUESTION)
        token = self._params.request_state
        return (token, agreed(answer.action, answer.content)) if token and isinstance(answer, ElicitResult) else None

    async def ask(self, question: str, token: str) -> bool | None:
        if self._context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise Unanswered(question, token)
        try:
            answer = await self._context.session.elicit_form(question, FORM, self._context.request_id)
        except MCPError as error:  # it said that it can ask, and cannot: there is still the token
            log.warning("the client could not ask its user: error %s", error.error.code)
            return None
        return agreed(answer.action, answer.content)


def _asker_of(context: Context, params: CallToolRequestParams) -> Asker | None:
    """Return a way to ask this client's user yes or no; None for a client that cannot ask.

    A client that names no way of asking means forms.
    """
    ways = None if context.session.client_capabilities is None else context.session.client_capabilities.elicitation
    can_ask = ways is not None and (ways.form is not None or ways.url is None)
    return _Elicitation(context, params) if can_ask else None
