"""What signing in costs: sign-ins and refreshes a second, and a call with a token of a sign-in against a pasted one, in turns.

    python benchmarks/sign_in.py [--seconds 10] [--programs 8] [--calls 2000] [--json PATH]

One `pgengram serve --http --sign-in` over a PostgreSQL in a temporary folder, driven with plain bytes over connections that are kept, so
that little of a client's cost is in the figures. A sign-in is a pairing code, the page, the answer to it and the tokens. The two kinds of
tokens call `search_memories` for the same question alternately; the ratio is of the medians (asked: at most 1.05).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import os
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from pgengram.postgres import start_embedded
from pgengram.settings import Settings
from pgengram.store.clients import tokens
from pgengram.store.clients.sign_in_requests import open_pairing
from pgengram.store.store import Store

CLIENT = "https://claude.ai/oauth/claude-code-client-metadata"
REDIRECT = "http://localhost:49152/callback"
FORM = "application/x-www-form-urlencoded"
VERSION = "2026-07-28"
ASKED = 1.05
NO_LIMIT = "1000000000"


class Wire:
    """One connection to the server, kept for many requests."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> Wire:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    def close(self) -> None:
        self._writer.close()

    async def ask(self, method: str, path: str, body: str = "", **headers: str) -> tuple[int, dict[str, str], str]:
        """Send a request, and return the answer's status, headers and body."""
        lines = [f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{self._port}", f"content-length: {len(body.encode())}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
        first, *rest = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
        text = await self._reader.readexactly(int(found.get("content-length", "0")))
        return int(first.split()[1]), found, text.decode()


class Program:
    """A program that signs in again and again to a namespace of its own, and refreshes."""

    def __init__(self, wire: Wire, base: str, store: Store, namespace: str) -> None:
        self._wire, self._base, self._store, self._namespace = wire, base, store, namespace
        self.given: dict[str, Any] = {}

    async def sign_in(self) -> None:
        """Get a pairing code, open the page, answer it, and exchange the code."""
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        wish = {
            "response_type": "code", "client_id": CLIENT, "redirect_uri": REDIRECT, "code_challenge": challenge,
            "code_challenge_method": "S256", "resource": f"{self._base}/mcp", "state": "x", "scope": "memory:read memory:write",
        }  # fmt: skip
        pairing = await open_pairing(self._store, self._namespace, may_write=True)
        _, headers, page = await self._wire.ask("GET", f"/oauth/authorize?{urlencode(wish)}")
        [request] = re.findall(r'name="request" value="([^"]+)"', page)
        answer = urlencode({"request": request, "code": pairing, "decision": "allow", "may_write": "yes"})
        cookie = headers["set-cookie"].partition(";")[0]
        _, headers, _ = await self._wire.ask(
            "POST", "/oauth/authorize", answer, content_type=FORM, cookie=cookie, origin=self._base
        )
        [code] = parse_qs(urlsplit(headers["location"]).query)["code"]
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier, "redirect_uri": REDIRECT}
        await self._ask_for_tokens(form)

    async def refresh(self) -> None:
        """Exchange the refresh token for the next."""
        await self._ask_for_tokens({"grant_type": "refresh_token", "refresh_token": self.given["refresh_token"]})

    async def _ask_for_tokens(self, form: dict[str, str]) -> None:
        form |= {"client_id": CLIENT, "resource": f"{self._base}/mcp"}
        status, _, text = await self._wire.ask("POST", "/oauth/token", urlencode(form), content_type=FORM)
        assert status == 200, text
        self.given = json.loads(text)


async def rate(steps: list[Callable[[], Awaitable[None]]], seconds: float) -> float:
    """Return how many steps a second are made when each is repeated by itself, all of them at once."""
    until = time.perf_counter() + seconds

    async def repeat(step: Callable[[], Awaitable[None]]) -> int:
        made = 0
        while time.perf_counter() < until:
            await step()
            made += 1
        return made

    began = time.perf_counter()
    made = sum(await asyncio.gather(*(repeat(step) for step in steps)))
    return made / (time.perf_counter() - began)


async def call(wire: Wire, token: str) -> float:
    """Call a tool, and return the seconds until its answer."""
    envelope = {
        "io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    }  # fmt: skip
    params = {"name": "search_memories", "arguments": {"query": "tea", "limit": 3}, "_meta": envelope}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    began = time.perf_counter()
    status, _, text = await wire.ask(
        "POST", "/mcp", body, content_type="application/json", accept="application/json", authorization=f"Bearer {token}",
        mcp_protocol_version=VERSION, mcp_method="tools/call", mcp_name="search_memories",
    )  # fmt: skip
    took_s = time.perf_counter() - began
    assert status == 200, text
    return took_s


async def measured(url: str, port: int, given: argparse.Namespace) -> dict[str, float]:
    """Measure a running server."""
    base = f"http://127.0.0.1:{port}"
    store = Store(Settings(database_url=url, embedder="none:"))
    await store.open()
    wires = [await Wire(port).open() for _ in range(given.programs)]
    try:
        programs = [Program(wire, base, store, f"bench-{number}") for number, wire in enumerate(wires)]
        sign_ins = await rate([program.sign_in for program in programs], given.seconds)
        refreshes = await rate([program.refresh for program in programs], given.seconds)
        pasted, _ = await tokens.create(store, "benchmark", "bench-0", "read-write", None)
        signed_in = programs[0].given["access_token"]
        for token in (pasted, signed_in):
            for _ in range(50):
                await call(wires[0], token)
        taken: dict[str, list[float]] = {pasted: [], signed_in: []}
        for number in range(given.calls):
            for token in (pasted, signed_in)[:: 1 if number % 2 else -1]:
                taken[token].append(await call(wires[0], token))
    finally:
        for wire in wires:
            wire.close()
        await store.close()
    of_pasted, of_signed_in = (1_000 * statistics.median(taken[token]) for token in (pasted, signed_in))
    return {
        "sign_ins_a_second": sign_ins, "refreshes_a_second": refreshes, "call_with_pasted_token_ms": of_pasted,
        "call_after_sign_in_ms": of_signed_in, "ratio": of_signed_in / of_pasted,
    }  # fmt: skip


def main() -> int:
    """Start a database and a server, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each of the two rates")
    parser.add_argument("--programs", type=int, default=8, help="that sign in and refresh at once")
    parser.add_argument("--calls", type=int, default=2_000, help="with each kind of token")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgengram-sign-in-", ignore_cleanup_errors=True) as folder:
        postgres = start_embedded(Path(folder) / "data")
        try:
            figures = _of_a_server(postgres.url, folder, given)
        finally:
            postgres.stop()
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):<28}{value:>10.3f}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if figures["ratio"] <= ASKED else 1


def _of_a_server(url: str, folder: str, given: argparse.Namespace) -> dict[str, float]:
    port = _free_port()
    command = [
        sys.executable, "-m", "pgengram", "serve", "--http", "--port", str(port), "--sign-in", "--url", f"http://127.0.0.1:{port}/mcp",
        "--sign-in-rate", NO_LIMIT, "--rate", NO_LIMIT, "--json",
    ]  # fmt: skip
    environment = os.environ | {"PGENGRAM_DATABASE_URL": url, "PGENGRAM_EMBEDDER": "none:", "PGENGRAM_DATA_DIR": folder}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()
            return asyncio.run(measured(url, port, given))
        finally:
            server.terminate()


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
