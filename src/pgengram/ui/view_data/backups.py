"""Backups as the page shows them: the newest, and one that is made now."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pgengram.errors import NotReady
from pgengram.settings import Settings
from pgengram.store.recovery import backup_schedule
from pgengram.ui.view_data.jobs import Job


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
        if problem := await backup_schedule.make_apart(self._settings):
            raise NotReady("The backup failed.", problem)


def _made_at(path: Path) -> float:
    return path.stat().st_mtime
