"""A database that is reached and says nothing, as behind a pooler without a server: calls end, and go on when it speaks again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

from door import Database, connected, found, refused, remember, until


class Relay:
    """Passes bytes on between a socket in a folder and a database, for as long as it is `on`."""

    def __init__(self, folder: Path, url: str) -> None:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        self._host, self._port = given["host"], given.get("port", "5432")
        self._folder = folder
        self.url = f"postgresql://{given['user']}@/{given['dbname']}?host={quote(str(folder), safe='')}&port=5432"
        self.on = asyncio.Event()
        self.on.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Relay for as long as a block runs."""
        async with await asyncio.start_unix_server(self._relay, self._folder / ".s.PGSQL.5432") as server:
            yield
            server.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._host.startswith("/"):
            there = await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        else:
            there = await asyncio.open_connection(self._host, int(self._port))
        await asyncio.gather(self._pass(reader, there[1]), self._pass(there[0], writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            await self.on.wait()
            writer.write(data)
        writer.close()


async def test_a_database_that_says_nothing_ends_a_call_with_an_error_and_is_used_again_when_it_speaks(
    database: Database, tmp_path: Path
) -> None:
    relay = Relay(tmp_path, database.url)
    async with relay.running(), connected(database_url=relay.url, embedder="none:") as client:
        id_ = await remember(client, "Before the silence.")

        relay.on.clear()
        async with asyncio.timeout(60):
            error = await refused(client, "create_memory", content="Meanwhile.")
        relay.on.set()

        assert "does not answer" in error["message"]
        assert "Nothing was changed" in error["hint"]

        async def found_again() -> bool:
            return await found(client, "silence") == [id_]

        await until(found_again)
        assert database.value("SELECT count(*) FROM memories") == 1
