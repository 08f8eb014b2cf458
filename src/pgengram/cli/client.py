"""Starting the server as a client would: a subprocess that speaks MCP over its pipes."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pgengram import __version__
from pgengram.settings import PREFIX, Settings


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Any]:
    """Start `pgengram` with `settings` and yield an mcp.Client that is connected to it."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters
    from mcp_types import Implementation

    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "pgengram"], env={**inherited, **variables(settings)}
    )
    async with Client(server, client_info=Implementation(name="cli", version=__version__)) as client:
        yield client


def variables(settings: Settings) -> dict[str, str]:
    """Return the environment variables that give `settings`; what is at its default is left out."""
    usual = asdict(Settings())
    return {PREFIX + name.upper(): value for name, value in asdict(settings).items() if value != usual[name]}


async def call(client: Any, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Call a tool and return its structured answer.

    Raises:
        RuntimeError: the tool answered with an error.
    """
    answer = await client.call_tool(tool, dict(arguments))
    if answer.is_error:
        raise RuntimeError(answer.content[0].text)
    return dict(answer.structured_content)


def entry(settings: Settings) -> dict[str, Any]:
    """Return the entry for a client's `mcpServers`: the absolute path of this command, and its data folder if chosen."""
    beside = Path(sys.executable).with_name("pgengram.exe" if sys.platform == "win32" else "pgengram")
    command = {"command": str(beside)} if beside.exists() else {"command": sys.executable, "args": ["-m", "pgengram"]}
    return {**command, "env": variables(settings)} if variables(settings) else command
