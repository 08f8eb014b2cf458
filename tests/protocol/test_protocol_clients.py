"""The SDK's own client against the real process, in both protocol eras."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from protocol_peer import ENVELOPE, TOY, Peer

from pgengram.mcp.tool_registry import INSTRUCTIONS

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


@asynccontextmanager
async def connected(tmp_path: Path, mode: str, **environment: str) -> AsyncIterator[Client]:
    environment = {**os.environ, "TOY_JOURNAL": str(tmp_path / "journal"), **environment}
    parameters = StdioServerParameters(command=sys.executable, args=[str(TOY)], env=environment)
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield client


@ERAS
async def test_a_client_of_either_era_lists_and_calls_tools(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, mode) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools][:2] == ["keep", "keep_many"]
        answer = await client.call_tool("keep", {"text": "x", "words": ["a"]})
        assert answer.structured_content == {"ok": True, "text": "x", "weight": 0.5, "words": ["a"], "detail": {}}


@ERAS
async def test_a_client_of_either_era_is_told_the_same_instructions(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, mode) as client:
        assert client.instructions == INSTRUCTIONS


@ERAS
async def test_a_client_of_either_era_gets_errors_as_answers(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, mode) as client:
        await client.list_tools()  # from now on it checks structured answers
        assert (await client.call_tool("fail", {"how": "foreseen"})).is_error
        assert (await client.call_tool("fail", {"how": "partly"})).is_error
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("nothing", {})
        assert unknown.value.code == -32602


@ERAS
async def test_a_client_of_either_era_sees_progress(tmp_path: Path, mode: str) -> None:
    seen: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message)

    async with connected(tmp_path, mode, TOY_READY_S="0.3") as client:
        await client.call_tool("keep", {"text": "x"}, progress_callback=on_progress)

    assert seen[0] == "starting the database"


@ERAS
async def test_a_client_that_leaves_lets_the_manager_close(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, mode) as client:
        await client.call_tool("keep", {"text": "x"})

    assert (tmp_path / "journal").read_text().splitlines()[-1] == "close"


def test_discover_needs_no_handshake_and_lists_may_be_kept_for_a_while(fresh: Peer) -> None:
    found = fresh.ask("server/discover", {"_meta": ENVELOPE})["result"]
    listed = fresh.ask("tools/list", {"_meta": ENVELOPE})["result"]

    assert found["instructions"] == INSTRUCTIONS
    assert found["supportedVersions"] == ["2026-07-28"]
    assert (listed["ttlMs"], listed["cacheScope"]) == (3_600_000, "public")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_older_revision_is_served(fresh: Peer, version: str) -> None:
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}

    assert fresh.ask("initialize", hello)["result"]["protocolVersion"] == version
    assert fresh.call("keep", {"text": "x"})["isError"] is False


def test_the_instructions_are_short_enough_and_name_every_tool() -> None:
    assert len(INSTRUCTIONS) <= 2_000
    for tool in (
        "create_memory",
        "create_memories",
        "search_memories",
        "get_memories",
        "update_memory",
        "forget_memories",
    ):
        assert tool in INSTRUCTIONS
