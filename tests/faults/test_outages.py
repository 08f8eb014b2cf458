"""A server of one's own that goes away: calls say at once what is wrong with it, and go on as soon as it is back."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from helpers import PATIENCE_S
from machine import copied
from pgengram import Memory
from pgengram.errors import Unreachable
from pgengram.postgres import start_embedded
from pgengram.store.connection import pool

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="this server is reached by a socket of Unix")


@pytest.fixture
def server(prepared: Path) -> Iterator[Path]:
    """The folder of a server that is a program's own, and not pgengram's to start."""
    with tempfile.TemporaryDirectory(prefix="pgengram-test-") as above:
        folder = Path(above) / "data"
        folder.mkdir(mode=0o755)
        Path(above).chmod(0o755)
        copied(prepared, folder)
        yield folder


async def test_a_server_that_is_down_is_told_of_at_once_and_used_by_the_next_call_once_it_is_back(
    server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "POOL_TIMEOUT_S", 100 * PATIENCE_S)
    running = await asyncio.to_thread(start_embedded, server)
    url = running.url
    async with asyncio.timeout(PATIENCE_S), Memory(database_url=url, embedder="none:") as memory:
        kept = await memory.add("The ferry leaves at seven.")
        await asyncio.to_thread(running.stop)

        for _ in range(3):
            with pytest.raises(Unreachable) as told:
                await memory.search("ferry")
            assert "connection refused" in told.value.message
            assert str(server) in told.value.message
            assert "Start the server" in told.value.hint
            with pytest.raises(Unreachable):
                await memory.add("Meanwhile.")
        with pytest.raises(Unreachable, match="connection refused"):
            await Memory(database_url=url, embedder="none:").__aenter__()

        running = await asyncio.to_thread(start_embedded, server)
        assert [hit["id"] for hit in (await memory.search("ferry")).results] == [kept.memory_id]
        await asyncio.to_thread(running.stop)


async def test_a_server_without_a_connection_left_is_told_of_as_such(server: Path) -> None:
    running = await asyncio.to_thread(start_embedded, server)
    with psycopg.connect(running.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE limited LOGIN CONNECTION LIMIT 0; GRANT pgengram_app TO limited")
    with pytest.raises(Unreachable, match=r"has no connections left: too many connections for role") as told:
        async with Memory(database_url=running.url.replace("pgengram@", "limited@"), embedder="none:") as memory:
            await memory.search("ferry")
    assert "max_connections" in told.value.hint
    await asyncio.to_thread(running.stop)
