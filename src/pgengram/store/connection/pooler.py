"""Working through a connection pooler, such as pgbouncer in transaction mode: noticed on connecting, not configured.

Behind one, two transactions of a connection may run in two sessions of the server. So nothing of a session is relied
on: settings and locks are a transaction's, and statements are prepared only where the pooler knows them by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
from psycopg import capabilities, sql
from psycopg.rows import tuple_row

from pgengram.errors import NotReady

PREPARED: Final = b"pgengram_asks"
ASK: Final = b"SELECT count(*) FROM pg_prepared_statements WHERE name = 'pgengram_asks'"
WHO_ANSWERS: Final = "SELECT pg_backend_pid()"
NO_TIMEOUT: Final = "SELECT set_config('idle_in_transaction_session_timeout', '0', true)"
# Without parameters, so that it goes as simple text: after any other the server keeps what it saw until the next
# statement.
TRY_LOCK: Final = sql.SQL("SELECT pg_try_advisory_xact_lock({}), pg_backend_pid()")


async def adapt(connection: psycopg.AsyncConnection[Any]) -> None:
    """Have a new connection, outside any transaction, prepare no statements where a pooler would lose them."""
    if await is_behind(connection) and not await asyncio.to_thread(_keeps_statements, connection.pgconn):
        connection.prepare_threshold = None


async def is_behind(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether another process than the one that answers greeted us, as a pooler does."""
    cursor = connection.cursor(row_factory=tuple_row)
    row = await (await cursor.execute(WHO_ANSWERS)).fetchone()
    return row is None or row[0] != connection.info.backend_pid


def refuse_behind(connection: psycopg.Connection[Any]) -> None:
    """Refuse to go on through a pooler: PostgreSQL's own programs leave settings in the sessions that they use.

    Raises:
        NotReady: the connection goes through one.
    """
    row = connection.cursor(row_factory=tuple_row).execute(WHO_ANSWERS).fetchone()
    connection.rollback()
    if row is None or row[0] != connection.info.backend_pid:
        raise NotReady(
            "PGENGRAM_DATABASE_URL points to a connection pooler, but backups need PostgreSQL itself.",
            "Nothing was changed. Call again with the server's own address in PGENGRAM_DATABASE_URL.",
        )


def _keeps_statements(connection: psycopg.pq.abc.PGconn) -> bool:
    """Whether a prepared statement is found again in any session; blocks.

    pgbouncer as of 1.21 does so for max_prepared_statements of them, and the server then knows each by a name of
    pgbouncer's.
    """
    if not capabilities.has_send_close_prepared():  # psycopg could not have a statement forgotten again
        return False
    connection.exec_(b"BEGIN")  # for as long as this lasts, we speak with one session
    connection.prepare(PREPARED, ASK)
    renamed = connection.exec_prepared(PREPARED, []).get_value(0, 0) == b"0"
    connection.close_prepared(PREPARED)
    connection.exec_(b"ROLLBACK")
    return renamed


async def connect(url: str) -> psycopg.AsyncConnection[Any]:
    """Return a connection of one's own, on which each statement is a transaction by itself."""
    return await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=None)


@asynccontextmanager
async def alone(url: str, key: int) -> AsyncIterator[int | None]:
    """Hold an advisory lock while a block runs; yield the process that holds it, or None when another one does.

    A transaction of its own holds it, which reads nothing, so that indexes built concurrently do not wait for it.
    """
    async with await connect(url) as connection, connection.transaction():
        await connection.execute(NO_TIMEOUT)
        row = await (await connection.execute(TRY_LOCK.format(sql.Literal(key)))).fetchone()
        yield row[1] if row and row[0] else None
