"""A real `pgengram serve --http`, its tokens, and two ways to talk to it: the SDK's client, and plain bytes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from helpers import PATIENCE_S, environment

VERSION = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "probe", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
Issue = Callable[..., Coroutine[Any, Any, str]]  # makes a token
ACCEPT = "application/json, text/event-stream"


def outcome(*words: str, **settings: str) -> Any:
    """Run a command that prints JSON, and return it."""
    command = [sys.executable, "-m", "pgengram", *words, "--json"]
    done = subprocess.run(
        command, env=environment(**settings), capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@dataclass
class HttpServer:
    """A server process."""

    process: subprocess.Popen[str]
    url: str
    settings: dict[str, str]
    log: list[str] = field(default_factory=list)

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    @property
    def base(self) -> str:
        return self.url.removesuffix("/mcp")

    def token(self, name: str = "probe", *words: str) -> str:
        """Make a token and return it."""
        return str(self.issued(name, *words)["token"])

    def issued(self, name: str = "probe", *words: str) -> dict[str, Any]:
        """Make a token and return all that is told of it."""
        return dict(outcome("token", "create", name, *words, **self.settings))

    def stop(self) -> int:
        """Ask the server to end, and return its exit code; what it logged is in `log`."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)

    def listen(self) -> None:
        """Keep what the server logs, so that it never waits for a reader."""
        assert self.process.stderr is not None
        self.log += self.process.stderr

    def raw(self, data: bytes, *, timeout_s: float = PATIENCE_S) -> bytes:
        """Send bytes on a connection of their own, and return everything that comes until the server closes it."""
        with socket.create_connection(self.address, timeout=timeout_s) as connection:
            connection.sendall(data)
            return received(connection)


def received(connection: socket.socket) -> bytes:
    """Return everything that comes until the other side closes the connection."""
    found = b""
    while True:
        try:
            piece = connection.recv(65_536)
        except ConnectionResetError:
            return found
        if not piece:
            return found
        found += piece


def status(answer: bytes) -> int:
    """Return the status of the first answer in some bytes."""
    return int(answer.split(b" ", 2)[1])


@contextmanager
def serving_http(*words: str, **settings: str) -> Iterator[HttpServer]:
    """Start `pgengram serve --http` on a free port, and stop it afterwards."""
    command = [sys.executable, "-m", "pgengram", "serve", "--http", "--port", "0", *words]
    process = subprocess.Popen(command, env=environment(**settings), stderr=subprocess.PIPE, encoding="utf-8")
    assert process.stderr is not None
    seen: list[str] = []
    for line in process.stderr:
        seen.append(line)
        if " at http" in line:
            break
    assert seen, "the server said nothing"
    assert " at http" in seen[-1], "".join(seen)
    server = HttpServer(process, seen[-1].split()[-1], settings)
    listener = threading.Thread(target=server.listen)
    listener.start()
    try:
        yield server
    finally:
        if process.poll() is None:
            server.stop()
        listener.join()


@asynccontextmanager
async def client_of(server: HttpServer, token: str | None, mode: str = "auto", **how: Any) -> AsyncIterator[Client]:
    """Be a client of the SDK's."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    trusted = how.pop("verify", True)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S, verify=trusted) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode, **how) as client,
    ):
        yield client


def modern(method: str, **params: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """Return headers and body of a request of the newest revision."""
    headers = {
        "content-type": "application/json",
        "accept": ACCEPT,
        "mcp-protocol-version": VERSION,
        "mcp-method": method,
    }
    if "name" in params:
        headers["mcp-name"] = params["name"]
    return headers, {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": ENVELOPE}}
