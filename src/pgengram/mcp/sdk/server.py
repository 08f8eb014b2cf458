"""What is offered as a server of the MCP SDK, which speaks both protocol eras whole."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping
from typing import Any, Final

from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from mcp_types import Tool as ListedTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pgengram.mcp.conversation import Conversation
from pgengram.mcp.sdk.frames import Incoming, Outgoing
from pgengram.mcp.tool_registry import (
    FORM,
    FRESH_MS,
    NAME,
    QUESTION,
    TITLE,
    Progress,
    ToolRegistry,
    Unanswered,
    agreed,
)
from pgengram.runtime.context import Asker

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
