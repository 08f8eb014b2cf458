"""What `pgengram doctor` says of rights and backups."""

from __future__ import annotations

import asyncio

import psycopg

from pgengram.errors import NotReady
from pgengram.postgres import programs
from pgengram.settings import Settings
from pgengram.store.connection.database import Database
from pgengram.store.recovery import backup, backup_schedule, restoring
from pgengram.store.schema import place
from pgengram.store.schema.reach import reach
from pgengram.text.counting import counted
from pgengram.text.moments import ago

Row = tuple[str, bool, str, str]  # what, whether it is well, what was seen, how to repair it


async def rights_row(database: Database) -> Row:
    """Say who reaches the tables besides those who must."""
    found = await reach(database)
    return ("Rights", found.is_closed, str(found), found.repair)


async def backups_row(settings: Settings, url: str) -> Row:
    """Say whether backups are made, and whether one can be made and restored."""
    return await asyncio.to_thread(_backups, settings, url)


def _backups(settings: Settings, url: str) -> Row:
    now = backup_schedule.backup_status(settings)
    try:
        limits = _limits(url)
    except NotReady as error:
        return ("Backups", not now.kept, f"none can be made: {error.message}", error.hint)
    except psycopg.Error as error:
        return ("Backups", not now.kept, f"none can be made: {type(error).__name__}", "")
    repair = ""
    if now.damage:
        repair = f"Move {now.newest} away and run `pgengram backup --if-due`."
    elif now.is_overdue:
        repair = "Run `pgengram backup --if-due` and see what it says."
    elif not now.copied:
        repair = (
            "Connect its disk or make room; the next backup is tried there again, `pgengram backup --if-due` at once."
        )
    return ("Backups", not (now.kept and repair), f"{backups_said(now)}{limits}", repair if now.kept else "")


def backups_said(now: backup_schedule.Status) -> str:
    """Return in a sentence what is known of the daily backups."""
    if not now.kept:
        return "`pgengram backup` makes one; PGENGRAM_BACKUP_DAYS=7 makes one each day and keeps seven"
    if now.made_at is None:
        return "none yet; a running server makes the first one"
    if now.damage:
        return f"the last one cannot be read: {now.damage}"
    said = f"daily; the last {ago(now.made_at)} with {counted(now.memories)}"
    if now.second is None:
        return f"{said}, on this disk only: `pgengram backup --also-in FOLDER` adds a second place"
    return f"{said}, also in {now.second}" if now.copied else f"{said}; the copy in {now.second} is missing"


def _limits(url: str) -> str:
    """Return what a restore would lack; see that a backup can be made.

    Raises:
        NotReady: it cannot.
    """
    with backup.reached(url) as (connection, _):
        backup.sight(connection)
        programs.programs_for(connection.info.server_version // 10_000)
        try:
            restoring.expect_restorable(connection, place.look(connection))
        except NotReady as error:
            return f". To restore one: {error.message} {error.hint}"
    return ""
