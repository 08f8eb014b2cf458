"""What `pgengram doctor` says of rights and backups."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psycopg

from pgengram.errors import NotReady
from pgengram.postgres import programs
from pgengram.settings import Settings
from pgengram.store.connection.database import Database
from pgengram.store.recovery import backup, backup_schedule, restoring
from pgengram.store.schema import place
from pgengram.store.schema.reach import reach

Row = tuple[str, bool, str, str]  # what, whether it is well, what was seen, how to repair it
OVERDUE_S: Final = 2 * backup_schedule.DAY_S


async def rights_row(database: Database) -> Row:
    """Say who reaches the tables besides those who must."""
    found = await reach(database)
    return ("Rights", found.is_closed, str(found), found.repair)


async def backups_row(settings: Settings, url: str) -> Row:
    """Say whether backups are made, and whether one can be made and restored."""
    return await asyncio.to_thread(_backups, settings, url)


def _backups(settings: Settings, url: str) -> Row:
    wanted = bool(settings.backups_kept)
    try:
        limits = _limits(url)
    except NotReady as error:
        return ("Backups", not wanted, f"none can be made: {error.message}", error.hint)
    except psycopg.Error as error:
        return ("Backups", not wanted, f"none can be made: {type(error).__name__}", "")
    if not wanted:
        seen = "`pgengram backup` makes one; PGENGRAM_BACKUP_DAYS=7 makes one each day and keeps seven"
        return ("Backups", True, f"{seen}{limits}", "")
    newest = _newest(settings.data_path)
    if newest is None:
        return ("Backups", True, f"none yet; a running server makes the first within the hour{limits}", "")
    made = datetime.fromtimestamp(newest.stat().st_mtime, UTC)
    overdue = time.time() - made.timestamp() > OVERDUE_S
    repair = "Run `pgengram backup --if-due` and see what it says." if overdue else ""
    return ("Backups", not overdue, f"the newest is of {made:%Y-%m-%d %H:%M} UTC{limits}", repair)


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


def _newest(data_path: Path) -> Path | None:
    return next(reversed(backup_schedule.daily(data_path / "backups")), None)
