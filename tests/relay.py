"""A way to a database that can fall silent, as a pooler without a server does, or a network that went away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict


class Relay:
    """Passes bytes on between a socket in a folder and a database, for as long as it is `on`."""

    def __init__(self, folder: Path, url: str) -> None:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        self._host, self._port = given["host"], given.get("port", "5432")
        self._folder = folder
        self.url = f"postgresql://{given['user']}@/{given['dbname']}?host={quote(str(folder), safe='')}&port=5432"
        self.on = asyncio.Event()
        self.on.set()
        self._writers: list[asyncio.StreamWriter] = []

    def cut(self) -> None:
        """End every connection, and say nothing to whoever makes another."""
        self.on.clear()
        for writer in self._writers:
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Relay for as long as a block runs."""
        async with await asyncio.start_unix_server(self._relay, self._folder / ".s.PGSQL.5432") as server:
            yield
            self.on.set()  # who still waits may end
            server.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
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
