"""Backups as the page shows them: the newest, and one that is made now."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

from pgengram.errors import NotReady
from pgengram.postgres.process_locks import NO_WINDOW
from pgengram.runtime.system.processes import end_tree
from pgengram.settings import Settings, environment_without_settings
from pgengram.store.recovery import backup_schedule
from pgengram.ui.view_data.jobs import Job

PATIENCE_S = 3  # for a backup that is broken off, when the page ends


class Backups:
    """The backups of a store, and the one that somebody asked for.

    Args:
        settings: where the store and its data folder are.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.job = Job()

    def state(self) -> dict[str, Any]:
        """Return when the newest backup was made, in seconds since 1970, how large it is, and how many are kept.

        Raises:
            NotReady: the backup that was asked for failed; once.
        """
        self.job.result()
        folder = self._settings.data_path / "backups"
        made = sorted(folder.glob(f"*{backup_schedule.SUFFIX}"), key=_made_at)
        newest = made[-1].stat() if made else None
        return {
            "newest": newest and newest.st_mtime,
            "bytes": newest and newest.st_size,
            "folder": str(folder),
            "kept": self._settings.backups_kept,
            "running": self.job.running,
        }

    def begin(self) -> None:
        """Begin to make one, unless that is under way."""
        if not self.job.running:
            self.job = Job()
            self.job.task = asyncio.create_task(self._make(), name="backing up")

    async def _make(self) -> None:
        process = subprocess.Popen(  # noqa: ASYNC220 # Windows' loop for psycopg starts no processes; ours alone
            [sys.executable, "-m", "pgengram", "backup"],
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
                raise NotReady("The backup failed.", said.decode(errors="replace").strip())
        finally:
            if process.returncode is None:
                await asyncio.to_thread(end_tree, process.pid, PATIENCE_S)


def _made_at(path: Path) -> float:
    return path.stat().st_mtime
