"""`pgengram psql`: PostgreSQL's own program on the store, in one namespace and with the application's rights."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from typing import Annotated

import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgengram.cli.runtime import command, opened_store
from pgengram.errors import NotReady
from pgengram.postgres import programs
from pgengram.settings import Settings
from pgengram.store.connection import pooler
from pgengram.store.store import Store


@command
async def psql(
    statement: Annotated[str | None, typer.Argument(help="SQL to run. Without it: psql waits for yours.")] = None,
) -> int:
    """Sees and changes the memories of PGENGRAM_NAMESPACE only. The exit code is psql's.

    Examples: `pgengram psql`, `pgengram psql "SELECT content, relevance FROM memories_now ORDER BY relevance DESC"`
    """
    async with opened_store() as store:
        where = await _session_parameters(store)
        arguments = ["--set=ON_ERROR_STOP=1", f"--command={statement}"] if statement else []
        before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl+C is psql's while it runs
        try:
            return await asyncio.to_thread(_run_psql, where, arguments)
        finally:
            signal.signal(signal.SIGINT, before)


async def _session_parameters(store: Store) -> dict[str, str]:
    """Return the parameters of a session that sees one namespace, as the application does.

    Raises:
        NotReady: the session would be a pooler's, which gives it to others and leaves the wall out.
    """
    database = store.database
    async with database.as_login() as connection:
        if await pooler.is_behind(connection):
            raise NotReady(
                "PGENGRAM_DATABASE_URL points to a connection pooler, but psql needs a session to itself.",
                "Call again with the server's own address in PGENGRAM_DATABASE_URL.",
            )
    key = await database.namespace_id(Settings.from_environment().namespace)
    where = {name: str(value) for name, value in conninfo_to_dict(database.url).items() if value is not None}
    role = [] if database.role == "none" else [f"-crole={database.role}"]
    options = [where.get("options", ""), f"-cpgengram.namespace_id={key}", *role]
    return where | {"options": " ".join(filter(None, options))}


def _run_psql(where: dict[str, str], arguments: list[str]) -> int:
    password = where.pop("password", None)
    environment = os.environ | ({"PGPASSWORD": password} if password else {})
    program = [programs.psql_path(), *arguments, make_conninfo("", **where)]
    return subprocess.run(program, env=environment, check=False).returncode  # noqa: S603
