"""A database that is reached and says nothing, as behind a pooler without a server: calls end, and go on when it speaks again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from helpers import PATIENCE_S, Database, connected, found, refused, remember, until
from relay import Relay


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
