"""Starting the server as a client would: a subprocess that speaks MCP over its pipes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, Any, Final, cast

from pgengram import __version__
from pgengram.errors import PgengramError
from pgengram.runtime import module_command
from pgengram.settings import Settings, environment_without_settings
from pgengram.text.shown import counted

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
    interpreter, *arguments = module_command("pgengram")
    server = StdioServerParameters(command=interpreter, args=arguments, env=env)
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
    """Return the entry for a client's `mcpServers`: the path of this command, and the settings that were chosen."""
    return {**own_command(), "env": settings.variables} if settings.variables else own_command()


def own_command() -> dict[str, Any]:
    """Return how to start this program: by its own path, or by uvx if that runs it."""
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
    interpreter, *arguments = module_command("pgengram")
    return {"command": interpreter, "args": arguments}


PATIENCE_S: Final = 60.0  # for everything; the first start of a store makes a database
LEAVES_S: Final = 10.0  # after its input is closed
HELLO: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "pgengram-doctor", "version": __version__},
}
FRAMES: Final[tuple[dict[str, Any], ...]] = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "memory://stats"}},
)


@dataclass(frozen=True, slots=True)
class Handshake:
    """Whether a command works as a memory server, its version, and in words what was seen."""

    ok: bool
    seen: str
    version: str = ""


def shake_hands(entry: Mapping[str, Any]) -> Handshake:
    """Start the command of an entry with none of our settings, have it count its memories, and stop it."""
    program = shutil.which(str(entry["command"]))
    if program is None:
        return Handshake(ok=False, seen="does not exist or cannot be run")
    extra = entry.get("env")
    given = {str(k): str(v) for k, v in extra.items()} if isinstance(extra, dict) else {}
    env = environment_without_settings() | given
    words = [program, *(str(one) for one in entry.get("args") or [])]
    with tempfile.TemporaryFile() as notes:
        try:
            process = subprocess.Popen(  # noqa: S603 - the command that the client itself would run
                words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=notes
            )
        except OSError as error:
            return Handshake(ok=False, seen=f"cannot be run: {error.strerror or error}")
        with process:
            return _handshake(process, notes)


def _handshake(process: subprocess.Popen[bytes], notes: IO[bytes]) -> Handshake:
    patience = Timer(PATIENCE_S, process.kill)
    patience.start()
    answers: dict[int, Any] = {}
    stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    try:
        with suppress(OSError):  # it has ended already: what it said before is read all the same
            stdin.write(b"".join(json.dumps(frame).encode() + b"\n" for frame in FRAMES))
            stdin.flush()
        for line in stdout:
            answer = dict(json.loads(line))
            answers[answer.get("id", 0)] = answer
            if 2 in answers:
                break
        _close(stdin)
        process.wait(LEAVES_S)
    except (TypeError, ValueError):  # no JSON, or no object
        return Handshake(ok=False, seen="writes something other than MCP to its standard output")
    except subprocess.TimeoutExpired:
        process.kill()
    finally:
        patience.cancel()
        process.kill()
        _close(stdin)
    return _handshake_result(answers, process.returncode, notes)


def _close(stdin: IO[bytes]) -> None:
    with suppress(OSError):  # nobody reads what is left
        stdin.close()


def _handshake_result(answers: Mapping[int, Any], code: int | None, notes: IO[bytes]) -> Handshake:
    hello = answers.get(1, {}).get("result")
    if hello is None:
        notes.seek(0)
        last = (notes.read().decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1]
        return Handshake(ok=False, seen=f"exits with code {code} before answering: {last[:300]}")
    version = str(hello.get("serverInfo", {}).get("version", ""))
    stats = answers.get(2)
    if stats is None:
        return Handshake(False, f"answers, but its store is not ready within {PATIENCE_S:.0f} s", version)
    if "error" in stats:
        return Handshake(False, f"answers, but not its store: {stats['error'].get('message', '')[:300]}", version)
    return Handshake(True, _memories_told(stats["result"]), version)


def _memories_told(result: Mapping[str, Any]) -> str:
    """Return what the resource memory://stats says of how many memories there are."""
    number = json.loads(result["contents"][0]["text"])["totals"]["active"]
    return counted(number)
