"""Starting the server as a client would: a subprocess that speaks MCP over its pipes."""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from pgengram import __version__
from pgengram.errors import PgengramError
from pgengram.settings import Settings, environment_without_settings

PROGRAM: Final = "pgengram.exe" if sys.platform == "win32" else "pgengram"
UNPACKED: Final = {"archive-v0", "environments-v2"}  # folders of uv's cache in which what uvx runs lies


@asynccontextmanager
async def connected_client(settings: Settings) -> AsyncIterator[Any]:
    """Start `pgengram` with `settings` and yield an mcp.Client that is connected to it.

    Raises:
        PgengramError: a call in the block was refused.
    """
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters
    from mcp_types import Implementation

    env = environment_without_settings() | settings.variables
    server = StdioServerParameters(command=sys.executable, args=["-m", "pgengram"], env=env)
    try:
        async with Client(server, client_info=Implementation(name="cli", version=__version__)) as client:
            yield client
    except BaseExceptionGroup as group:
        alone: BaseException = group  # the client's tasks wrap whatever ends the block
        while isinstance(alone, BaseExceptionGroup) and len(alone.exceptions) == 1:
            [alone] = alone.exceptions
        if isinstance(alone, PgengramError):
            raise alone from None
        raise


async def call_tool(client: Any, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Call a tool and return its structured answer.

    Raises:
        PgengramError: the tool answered with this error.
    """
    answer = await client.call_tool(tool, dict(arguments))
    if answer.is_error:
        error = json.loads(answer.content[0].text)["error"]
        refused = PgengramError(f"{tool}: {error['message']}", error["hint"])
        refused.code = error["code"]
        raise refused
    return dict(answer.structured_content)


def server_entry(settings: Settings) -> dict[str, Any]:
    """Return the entry for a client's `mcpServers`: the absolute path of this command, and the settings that were
    chosen.
    """
    return {**own_command(), "env": settings.variables} if settings.variables else own_command()


def own_command() -> dict[str, Any]:
    """Return how to start this program: by its own path, or by uvx if that runs it, as the folder then is not to
    stay.
    """
    folders = (
        Path(sys.executable).parent,
        *(Path(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme(key))) for key in ("prefix", "user")),
    )
    uvx = shutil.which("uvx")
    if uvx and UNPACKED & set(folders[0].parts):
        return {"command": uvx, "args": ["pgengram"]}
    for program in (folder / PROGRAM for folder in folders):
        if program.exists():
            return {"command": str(program)}
    return {"command": sys.executable, "args": ["-m", "pgengram"]}
