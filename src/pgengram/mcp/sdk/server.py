"""What is offered as a server of the MCP SDK, which speaks both protocol eras whole."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from mcp_types import Tool as ListedTool

from pgengram.mcp.sdk.elicitation import Context, asker_of, input_required
from pgengram.mcp.tool_registry import FRESH_MS, NAME, TITLE, Progress, ToolRegistry, Unanswered

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
                asker=asker_of(context, params),
                report=_reporter(context),
            )
        except Unanswered as question:
            return input_required(question)
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


def _reporter(context: Context) -> Progress:
    """Return a way to tell this call's client how far it is; it sends nothing to clients that did not ask."""
    steps = iter(range(1, sys.maxsize))

    async def report(message: str) -> None:
        await context.session.report_progress(next(steps), message=message)

    return report
