"""A backup that is older than the end of a connection does not let its program in again."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from http_server import serving_http
from signing_in import Program

from helpers import database_of
from machine import answered, pgengram
from pgengram.settings import Settings
from pgengram.store.clients.sign_in_requests import open_pairing
from pgengram.store.store import Store


async def test_a_connection_that_was_ended_since_the_backup_stays_ended(
    postgres: str, template: str, tmp_path: Path
) -> None:
    backup = str(tmp_path / "early.backup")
    with database_of(postgres, template, keeps=False) as db:
        url = {"database_url": db.url, "embedder": "none:"}

        async def pair() -> str:
            store = Store(Settings(**url))
            try:
                return await open_pairing(store, "default", may_write=True)
            finally:
                await store.close()

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            base = f"http://127.0.0.1:{free.getsockname()[1]}"
        where = ("--sign-in", "--port", base.rpartition(":")[2], "--url", f"{base}/mcp")
        with serving_http(*where, **url):
            program = Program(base)
            tokens = await program.signed_in(pair)
        await asyncio.to_thread(pgengram, "backup", backup, **url)
        [one] = answered("connection", "list", "--json", **url)
        pgengram("connection", "revoke", one["id"], **url)
        await asyncio.to_thread(pgengram, "restore", backup, "--yes", **url)
        with serving_http(*where, **url):
            assert (await program.call(tokens["access_token"])).status_code == 401
            assert (await program.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
