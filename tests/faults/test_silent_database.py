"""A database that is reached and says nothing, as behind a pooler without a server: calls end, and go on when it speaks again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import PATIENCE_S, Database, connected, environment, found, refused, remember, until
from relay import Relay

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
SEARCH = {"name": "search_memories", "arguments": {"query": "silence"}}
FRAMES = (("initialize", HELLO), ("tools/call", SEARCH))


async def test_a_database_that_says_nothing_ends_a_call_with_an_error_and_is_used_again_when_it_speaks(
    database: Database, tmp_path: Path
) -> None:
    relay = Relay(tmp_path, database.url)
    async with relay.running(), connected(database_url=relay.url, embedder="none:") as client:
        id_ = await remember(client, "Before the silence.")

        relay.on.clear()
        async with asyncio.timeout(PATIENCE_S):
            error = await refused(client, "create_memory", content="Meanwhile.")
        relay.on.set()

        # The latter where another task had the only open connection, and no new one was to be had.
        assert any(said in error["message"] for said in ("does not answer", "was lost"))
        assert "Nothing was changed" in error["hint"] or "retried" in error["hint"]

        async def found_again() -> bool:
            return await found(client, "silence") == [id_]

        await until(found_again)
        assert database.value("SELECT count(*) FROM memories") == 1


@pytest.mark.parametrize("is_cut", [True, False], ids=["lost", "silent"])
async def test_a_server_whose_database_gives_no_answer_ends_well(
    database: Database, tmp_path: Path, is_cut: bool
) -> None:
    relay = Relay(tmp_path, database.url)
    settings = environment(database_url=relay.url, embedder="none:")
    async with relay.running():
        async with connected(database_url=relay.url, embedder="none:") as client:
            await remember(client, "Before the silence.")
        server = await asyncio.to_thread(
            subprocess.Popen[bytes], [sys.executable, "-m", "pgengram"],
            env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        for number, (method, params) in enumerate(FRAMES):
            frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.stdin.write(json.dumps(frame).encode() + b"\n")
            answer = json.loads(await asyncio.to_thread(server.stdout.readline))
        assert "Before the silence." in answer["result"]["content"][0]["text"]  # the hit waits to be counted

        relay.cut() if is_cut else relay.on.clear()
        server.stdin.close()

        assert await asyncio.to_thread(server.wait, PATIENCE_S) == 0
        server.stdout.close()
