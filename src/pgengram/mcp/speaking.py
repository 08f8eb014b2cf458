"""Serving one conversation: the plain part of the protocol here, the rest by the SDK once a client needs it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from pgengram.mcp.conversation import Conversation
from pgengram.mcp.fast_path import FastPath
from pgengram.mcp.tool_registry import ToolRegistry


async def converse(
    registry: ToolRegistry, conversation: Conversation, more: Mapping[str, Any] | None = None
) -> asyncio.Task[None]:
    """Serve until nothing more is read, and return the task of calls that may still be under way.

    Args:
        registry: the tools.
        conversation: with the client.
        more: handlers of other requests, by the names of the SDK's parameters.
    """
    serving = asyncio.create_task(_served(registry, conversation, more))
    ended = asyncio.create_task(conversation.ended.wait())
    try:
        await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended.cancel()
    return serving


async def _served(registry: ToolRegistry, conversation: Conversation, more: Mapping[str, Any] | None) -> None:
    path = FastPath(registry, conversation, more or ())
    try:
        # The SDK makes a span of each request where somebody has set OpenTelemetry up.
        if "opentelemetry.sdk" in sys.modules or not await path.serve():
            await _by_the_sdk(registry, conversation, more)
    finally:
        await path.close()


async def _by_the_sdk(registry: ToolRegistry, conversation: Conversation, more: Mapping[str, Any] | None) -> None:
    from pgengram.mcp.sdk.server import build_server
    from pgengram.mcp.sdk.streams import Incoming, Outgoing

    server = build_server(registry, more)
    await server.run(Incoming(conversation), Outgoing(conversation), server.create_initialization_options())
