"""The folder of backups: their names, the daily one, and how many are kept."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pgengram.errors import NotReady
from pgengram.postgres.process_locks import NO_WINDOW
from pgengram.runtime.system.processes import end_tree
from pgengram.settings import Settings, environment_without_settings
from pgengram.store.connection import background

if TYPE_CHECKING:
    from pgengram.store.store import Store

log = logging.getLogger(__name__)

DAY_S: Final = 86_400
LOOK_S: Final = 3_600  # a machine that sleeps wakes up to an overdue backup
PATIENCE_S: Final = 3  # for a backup that is broken off, when the server ends
DAILY: Final = "daily"
SUFFIX: Final = ".backup"


def folder(data_dir: Path) -> Path:
    """Return the folder of backups in a data folder, made when it is not there; only its owner may enter.

    Raises:
        NotReady: it cannot be made.
    """
    place = data_dir / "backups"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NotReady(f"{place} cannot be made: {error.strerror}.", "Name a file in another folder.") from error
    return place


def name(why: str) -> str:
    """Return a name that sorts by time among those of the same kind."""
    return f"pgengram-{why}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}{SUFFIX}"


def daily(place: Path) -> list[Path]:
    """Return the daily backups of a folder, the oldest first."""
    return sorted(place.glob(f"pgengram-{DAILY}-*{SUFFIX}"))


def is_due(place: Path) -> bool:
    """Whether the newest daily backup is older than a day, or there is none."""
    made = daily(place)
    return not made or time.time() - made[-1].stat().st_mtime >= DAY_S


def keep_newest(place: Path, number: int) -> list[Path]:
    """Remove the oldest daily backups until `number` are left, and what broken-off ones left; return what went."""
    gone = daily(place)[:-number]
    gone += [one for word in ("unfinished", "dump") for one in place.glob(f"pgengram-{DAILY}-*{SUFFIX}.{word}")]
    for one in gone:
        one.unlink(missing_ok=True)
    return gone


class BackupScheduler:
    """Has a backup made when the newest is older than a day, in a process of its own.

    Args:
        store: whose database.
        settings: where it is, and how many backups are kept; 0 makes none.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._task: asyncio.Task[None] | None = None

    def notice(self) -> None:
        """Begin to look, where backups are wanted."""
        if self._settings.backups_kept and self._task is None:
            self._task = asyncio.create_task(self._run(), name="backup scheduler")

    async def close(self) -> None:
        """Break off; an unfinished backup is removed by the next."""
        await background.end(self._task)

    async def _run(self) -> None:
        while True:
            if self._store.is_open and await asyncio.to_thread(self._is_due):
                await self._make()
            await asyncio.sleep(LOOK_S)

    def _is_due(self) -> bool:
        try:
            return is_due(folder(self._settings.data_path))
        except NotReady as error:
            log.warning("No daily backup: %s", error.message)
            return False

    async def _make(self) -> None:
        process = subprocess.Popen(  # noqa: ASYNC220 # Windows' loop for psycopg starts no processes; ours alone
            [sys.executable, "-m", "pgengram", "backup", "--if-due"],
            env=environment_without_settings() | self._settings.variables,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            creationflags=NO_WINDOW,
        )
        try:
            _, said = await asyncio.to_thread(process.communicate)
            if process.returncode:
                log.warning("No daily backup: %s", said.decode(errors="replace").strip())
        finally:
            if process.returncode is None:
                await asyncio.to_thread(end_tree, process.pid, PATIENCE_S)
