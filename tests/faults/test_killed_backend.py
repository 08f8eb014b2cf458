"""One process of the embedded PostgreSQL is killed, as a system does that runs out of memory: the server heals itself."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psycopg
import pytest

from helpers import connected, found, remember, until
from machine import copied
from pgengram.postgres import process_locks, server_status

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written with the signals of Unix")


async def test_a_server_that_recovers_from_a_killed_process_is_left_to_it(prepared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    copied(prepared, folder)
    async with connected(data_dir=str(folder), embedder="none:") as client:
        id_ = await remember(client, "The ferry leaves at seven.")
        server = server_status(folder)
        url = process_locks.address(str(server.folder))
        assert url is not None
        with psycopg.connect(host=url[0], port=url[1], user="pgengram", dbname="pgengram") as connection:
            os.kill(connection.info.backend_pid, signal.SIGKILL)

            async def answers() -> bool:
                return not (await client.call_tool("search_memories", {"query": "ferry"})).is_error

            await until(answers)
        assert await found(client, "ferry") == [id_]
        assert server_status(folder).pid == server.pid
    _, killed, after = server.log.read_text().partition("terminated by signal 9")
    assert killed
    assert after.count("shutdown request") == 1  # our own end
