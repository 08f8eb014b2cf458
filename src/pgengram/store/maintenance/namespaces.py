"""Namespaces as a whole: what one has, taking all of it away, and clearing the files of what was erased."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import psycopg
from psycopg import sql

from pgengram.errors import InvalidInput
from pgengram.store.connection import locks
from pgengram.store.connection.begin import UPKEEP
from pgengram.store.connection.database import Database, Row, Transaction

Report = Callable[[str], Awaitable[None]]

# Every table with a namespace's rows, whatever version made it, but not the list of what was erased; those that others
# point at come last, so that nothing is deleted row by row through them.
OWNED: Final = """
SELECT c.relname AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace_id'
WHERE c.relkind = 'r' AND c.relnamespace = quote_ident(current_schema())::regnamespace AND NOT a.attisdropped
ORDER BY EXISTS (SELECT 1 FROM pg_constraint f WHERE f.confrelid = c.oid AND f.contype = 'f'), c.relname
"""
COUNT: Final = sql.SQL("SELECT count(*) AS rows FROM {} WHERE namespace_id = %(namespace_id)s")
DELETE: Final = sql.SQL("DELETE FROM {} WHERE namespace_id = %(namespace_id)s")
FIND: Final = "SELECT id FROM namespaces WHERE name = %(name)s"
# Whoever stores something for this namespace holds the row in the weaker mode that foreign keys take, or waits here.
HOLD: Final = "SELECT id FROM namespaces WHERE id = %(id)s FOR UPDATE"
# Of the namespace's erased memories nothing more need be known than that all of them are gone.
UNLIST: Final = """
DELETE FROM deletion_log USING namespaces n
WHERE n.id = %(id)s AND former_namespace_id = n.id AND namespace_since = n.created_at
"""
LIST: Final = """
INSERT INTO deletion_log (former_namespace_id, namespace_since)
SELECT id, created_at FROM namespaces WHERE id = %(id)s
"""
REMOVE: Final = "DELETE FROM namespaces WHERE id = %(id)s"
PATIENTLY: Final = "SELECT set_config('statement_timeout', '0', true)"
AS_LOGIN: Final = "SELECT set_config('role', 'none', true)"


async def namespace_key(database: Database, name: str) -> int:
    """Return the key of the namespace called `name`.

    Raises:
        InvalidInput: there is none; unlike `Database.namespace_id` this makes none.
    """
    async with database.as_login() as connection:
        row = await (await connection.execute(FIND, {"name": name})).fetchone()
    if row is None:
        raise InvalidInput(f"There is no namespace {name!r}.", "Names are case-sensitive.")
    return int(row["id"])


async def holdings(database: Database, name: str) -> dict[str, int]:
    """Return how many rows a namespace has in each table; tables without any are left out.

    Raises:
        InvalidInput: there is no such namespace.
    """
    async with database.transaction(await namespace_key(database, name), member=UPKEEP) as tx:
        return await _rows_by_table(tx)


async def take_away_namespace(database: Database, name: str, *, listed: bool = True) -> dict[str, int]:
    """Take away a namespace with every row in every table, in one transaction; return how many there were in each.

    That it was erased is listed without its name, so that an older backup does not bring it back. Servers that run for
    this namespace store nothing from then on, and say so. One that only a check was made in need not be `listed`.

    Raises:
        InvalidInput: there is no such namespace.
        DatabaseFailed: somebody stores something for this namespace all the time.
    """
    key = await namespace_key(database, name)
    async with database.transaction(key, member=UPKEEP) as tx:
        await tx.run(PATIENTLY)
        if tx.distributed:  # each role has connections of its own to a worker, and the second would wait for the first
            await tx.run(AS_LOGIN)
        await as_login(tx, HOLD, {"id": key})
        await tx.row(locks.WAIT_IN_NAMESPACE, {"key": locks.POSTINGS})  # lists of words point at no namespace
        removed = await _rows_by_table(tx)
        for row in await tx.rows(OWNED):
            await tx.run(DELETE.format(sql.Identifier(row["name"])))
        for statement in (UNLIST, LIST, REMOVE) if listed else (REMOVE,):
            await as_login(tx, statement, {"id": key})
    database.forget_namespace(name)
    return removed


async def _rows_by_table(tx: Transaction) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in await tx.rows(OWNED):
        counted = await tx.row(COUNT.format(sql.Identifier(row["name"])))
        counts[row["name"]] = 0 if counted is None else int(counted["rows"])
    return {table: rows for table, rows in sorted(counts.items()) if rows}


async def as_login(tx: Transaction, statement: str, parameters: dict[str, Any]) -> None:
    """Run one statement as the login, as the application's role may touch neither namespaces nor deletion_log."""
    role = await tx.row("SELECT current_setting('role') AS role")
    await tx.run(AS_LOGIN)
    await tx.run(statement, parameters)
    await tx.run("SELECT set_config('role', %(role)s, true)", {"role": role["role"] if role else "none"})


# -- what files still hold -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Scrubbed:
    """What was cleared of the remains of erased rows.

    Args:
        tables: how many tables were rewritten.
        log_files: how many files of the write-ahead log were given up or overwritten.
        left: what could not be cleared, and what whoever runs the server can do about it.
    """

    tables: int = 0
    log_files: int = 0
    left: list[str] = field(default_factory=list)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


TABLES: Final = """
SELECT c.oid::regclass::text AS name FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = quote_ident(current_schema())::regnamespace AND pg_has_role(c.relowner, 'USAGE') ORDER BY 1
"""
# VACUUM alone gives room back within a page but leaves the bytes there; only a new file is without them. ANALYZE
# forgets the values that the planner's statistics took as samples, and these are kept in a table as well.
REWRITE: Final = sql.SQL("VACUUM (FULL, ANALYZE) {}")
STATISTICS: Final = sql.SQL("pg_catalog.pg_statistic")
MAY_ALL: Final = "SELECT rolsuper AS yes FROM pg_roles WHERE rolname = current_user"
SEGMENTS: Final = "SELECT name FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'"
CURRENT: Final = "SELECT pg_walfile_name(pg_current_wal_insert_lsn()) AS name"
RECYCLES: Final = "SELECT setting, source FROM pg_settings WHERE name = 'wal_recycle'"
# Ends a file of the log; what is left of it is written with zeros. Without a record in it there would be nothing to
# end.
SWITCH: Final = "SELECT pg_logical_emit_message(false, 'pgengram', 'scrub'), pg_switch_wal()"
MOST_SWITCHES: Final = 128  # 2 GB of log at the usual size of a file
MOST_ROUNDS: Final = 10  # until the server has heard of a setting


async def scrub_files(database: Database, report: Report) -> Scrubbed:
    """Clear the files of the database of rows that are there no more: tables, indexes, statistics and write-ahead log.

    Each table is locked while it is rewritten; calls wait for it, or say that the database is busy. The log is
    cleared only where the login may do that, which the embedded server's may. Archives, replicas and backups are not
    reached.

    Raises:
        DatabaseFailed: a table could not be locked, or there is no room for a second copy of it.
    """
    scrubbed = Scrubbed()
    async with database.as_login() as connection:
        await connection.commit()  # each of these is a transaction of its own
        superuser = bool((await _fetch_row(connection, MAY_ALL))["yes"])
        for name in [row["name"] for row in await _fetch_rows(connection, TABLES)]:
            await report(f"Rewriting {name}")
            await connection.execute(REWRITE.format(sql.SQL(name)))
            scrubbed.tables += 1
        if superuser:
            await connection.execute(REWRITE.format(STATISTICS))
            await report("Recycling the write-ahead log")
            scrubbed.log_files, rewritten = await _recycle_log(connection)
            if not rewritten:
                scrubbed.left.append(
                    "Files of the write-ahead log that are laid by for later: the server did not heed "
                    "`wal_recycle = off`, as where its command line says `on`. Take that away and run this again."
                )
        else:
            scrubbed.left.append(
                "The planner's statistics and the write-ahead log: this login is not a superuser. As one, run "
                "`VACUUM FULL pg_catalog.pg_statistic; SELECT pg_switch_wal(); CHECKPOINT;`. The old files of the log "
                "go when they are recycled."
            )
    if database.distributed:
        scrubbed.left.append(
            "The write-ahead logs and the planner's statistics of the workers: run `pg_switch_wal` and "
            "`CHECKPOINT` there."
        )
    scrubbed.left.append(
        "Backups, exports, archives of the log and replicas: they keep what they hold until they are replaced."
    )
    return scrubbed


async def _recycle_log(connection: psycopg.AsyncConnection[Row]) -> tuple[int, bool]:
    """Give up every file of the write-ahead log older than now, and overwrite those laid by for later; return how many
    there were, and whether none is laid by any more.

    The server hears of the setting a moment later, and a checkpoint before that lays old files by: then once more.
    """
    before = {row["name"] for row in await _fetch_rows(connection, SEGMENTS)}
    recycles = await _fetch_row(connection, RECYCLES)
    await _set_recycling(connection, sql.SQL("ALTER SYSTEM SET wal_recycle = off"))
    try:
        for _ in range(MOST_ROUNDS):
            await _overwrite_laid_by(connection)
            laid_by = False
            for _ in range(3):  # the first may keep the file in which the checkpoint before it began
                await connection.execute("CHECKPOINT")
                laid_by = laid_by or await _laid_by(connection)
                await connection.execute(SWITCH)
            if not laid_by:
                return len(before), True
        return len(before), False
    finally:
        again = sql.SQL("ALTER SYSTEM RESET wal_recycle")
        if recycles["source"] == "configuration file" and recycles["setting"] == "off":
            again = sql.SQL("ALTER SYSTEM SET wal_recycle = off")
        await _set_recycling(connection, again)


async def _overwrite_laid_by(connection: psycopg.AsyncConnection[Row]) -> None:
    """Write each file of the log that was laid by, until a new one has to be made."""
    for _ in range(MOST_SWITCHES):
        if not await _laid_by(connection):
            break
        await connection.execute(SWITCH)
    await connection.execute(SWITCH)  # the last of them, too


async def _laid_by(connection: psycopg.AsyncConnection[Row]) -> bool:
    """Whether there are files of the log that are not yet written."""
    current = (await _fetch_row(connection, CURRENT))["name"]
    return any(row["name"] > current for row in await _fetch_rows(connection, SEGMENTS))


async def _set_recycling(connection: psycopg.AsyncConnection[Row], statement: sql.SQL) -> None:
    await connection.execute(statement)
    await connection.execute("SELECT pg_reload_conf()")


async def _fetch_rows(connection: psycopg.AsyncConnection[Row], statement: str) -> list[Row]:
    return await (await connection.execute(statement)).fetchall()


async def _fetch_row(connection: psycopg.AsyncConnection[Row], statement: str) -> Row:
    return (await _fetch_rows(connection, statement))[0]
