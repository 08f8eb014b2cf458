"""Starting the command of a client's entry as the client would, to check that it answers and reads its store."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Timer
from typing import IO, Any, Final, cast

from pgengram import __version__
from pgengram.settings import environment_without_settings
from pgengram.text.counting import counted

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
    """Start the command of an entry, initialize it, have it count its memories, and stop it; it gets none of our
    settings.
    """
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
