"""A raw client: one real server process, its pipes, and nothing in between."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TOY = Path(__file__).with_name("toy.py")
PATIENCE_S = 120.0  # for anything that is only slow, on however busy a machine
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}


class SilenceError(AssertionError):
    """The server did not answer."""


class Peer:
    """Sends frames and bytes, and receives every line that the server writes."""

    def __init__(self, command: list[str], journal: Path, **environment: str) -> None:
        self.journal = journal
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TOY_JOURNAL": str(journal), **environment},
        )
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.log = b""
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_out, self._read_log)]
        for reader in self._readers:
            reader.start()

    def _read_out(self) -> None:
        for line in self.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def _read_log(self) -> None:
        for line in self.stderr:
            self.log += line

    def raw(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def send(self, **frame: Any) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

    def receive(self, within_s: float = PATIENCE_S) -> dict[str, Any]:
        """Return the next frame; an end of the stream or silence is a failure."""
        try:
            line = self.lines.get(timeout=within_s)
        except queue.Empty:
            raise SilenceError(f"nothing within {within_s} s; log: {self.log.decode()}") from None
        if not line:
            raise SilenceError(f"the server has ended; log: {self.log.decode()}")
        return json.loads(line)

    def ask(self, method: str, params: dict[str, Any] | None = None, id: int | str = 1) -> dict[str, Any]:
        self.send(id=id, method=method, params=params or {})
        answer = self.receive()
        assert answer["id"] == id
        return answer

    def answer_to(self, line: bytes) -> dict[str, Any]:
        """Send bytes as a line and return the one answer to them; a ping behind it proves that it is the only one."""
        self.raw(line + b"\n")
        self.send(id="after", method="ping")
        answer = self.receive()
        assert answer["id"] != "after", "the line was passed over in silence"
        assert self.receive()["id"] == "after"
        return answer

    def hello(self) -> dict[str, Any]:
        answer = self.ask("initialize", HELLO, id="hello")
        self.send(method="notifications/initialized")
        return answer["result"]

    def call(self, tool: str, arguments: Any = None, id: int | str = 1, **more: Any) -> dict[str, Any]:
        """Call a tool and return its result."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments, **more}, id=id)
        return answer["result"]

    def start_call(self, tool: str, arguments: dict[str, Any], id: int | str, **more: Any) -> None:
        self.send(id=id, method="tools/call", params={"name": tool, "arguments": arguments, **more})

    def written(self) -> list[str]:
        return self.journal.read_text().splitlines() if self.journal.exists() else []

    def wait_for(self, line: str) -> None:
        """Wait until the server's manager has written `line` into its journal."""
        until(lambda: line in self.written(), f"{line!r} in the journal")

    def end(self) -> int:
        """Wait for the process's end, and for all that it wrote, and return its exit code."""
        code = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return code

    def rest(self) -> list[dict[str, Any]]:
        """Return all that is still to be read, up to the end of the stream."""
        return [json.loads(line) for line in iter(lambda: self.lines.get(timeout=PATIENCE_S), b"")]


def until(condition: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> None:
    """Look until `condition` holds; fail when it does not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {within_s} s"
        time.sleep(0.01)


@contextmanager
def toy(journal: Path, *, command: list[str] | None = None, **environment: str) -> Iterator[Peer]:
    """Run the toy server (or another command) and end it whatever happens."""
    peer = Peer(command or [sys.executable, os.environ.get("PGENGRAM_TEST_TOY", str(TOY))], journal, **environment)
    try:
        yield peer
    finally:
        peer.process.kill()
        peer.process.wait()
        for stream in (peer.stdin, peer.stdout, peer.stderr):
            try:
                stream.close()
            except OSError:
                pass  # unsent bytes of a server that is gone
            except ValueError:
                pass  # a reader is still in it


def said(result: dict[str, Any]) -> str:
    """Return the text of a tool's answer."""
    return "".join(block["text"] for block in result["content"])


def error_of(result: dict[str, Any]) -> dict[str, str]:
    """Return the error that a tool's answer tells."""
    assert result["isError"], result
    outcome = json.loads(said(result))
    assert outcome["ok"] is False
    return outcome["error"]
