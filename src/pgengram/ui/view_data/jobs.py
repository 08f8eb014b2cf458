"""Export and import: work of minutes that is done beside the requests, and how far it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pgengram.errors import Conflict, InvalidInput, NotReady, PgengramError
from pgengram.service.core import Core
from pgengram.settings import Settings
from pgengram.store.recovery import archive, backup_schedule
from pgengram.transfer.exporting import export_to
from pgengram.transfer.importing import import_from
from pgengram.transfer.input.sources import Source
from pgengram.transfer.opening import Shape, shape_of
from pgengram.transfer.report import Imported

UNDER_WAY: Final = "An import is still running."
WAIT: Final = "Wait until it is done, or cancel it."
GUESS_AFTER_S: Final = 2.0  # before that nothing is said of the time left


class Absent(PgengramError):
    """Something that these pages do not have, or not yet."""

    code = "NOT_FOUND"


@dataclass(slots=True)
class Job:
    """Work under way or done; its `task` gives what it came to."""

    done: int = 0
    total: int = 0
    began: float = field(default_factory=time.monotonic)
    task: asyncio.Task[Any] | None = None

    def report(self, done: int, total: int) -> None:
        """Note how far it is."""
        self.done, self.total = done, total

    @property
    def running(self) -> bool:
        """Whether it is under way."""
        return self.task is not None and not self.task.done()

    @property
    def left_s(self) -> int | None:
        """How many seconds it will still take, if the rest goes as what was done; None while that cannot be said."""
        taken = time.monotonic() - self.began
        if not self.done or taken < GUESS_AFTER_S:
            return None
        return round(taken / self.done * max(0, self.total - self.done))

    def result(self) -> Any:
        """Return what it came to, or None while it is under way or when it was interrupted.

        Raises:
            Exception: what it failed of; once, afterwards it is as if it had not begun.
        """
        if self.task is None or not self.task.done():
            return None
        if self.task.cancelled() or self.task.exception() is not None:
            failed, self.task = self.task, None
            return None if failed.cancelled() else failed.result()
        return self.task.result()

    async def close(self) -> None:
        """Break it off."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


class Export:
    """A file with everything, made on demand.

    Args:
        core: whose memories.
        path: of the file.
    """

    def __init__(self, core: Core, path: Path) -> None:
        self._core = core
        self.path = path
        self.job = Job()

    def begin(self) -> None:
        """Begin to write, unless that is under way."""
        if not self.job.running:
            self.job = Job()
            self.job.task = asyncio.create_task(self._write(), name="exporting")

    async def _write(self) -> dict[str, int]:
        with self.path.open("w", encoding="utf-8", newline="\n") as file:
            return await export_to(file, self._core, self.job.report)


class Import:
    """A file that somebody gave: looked through first, imported when that is wanted.

    Args:
        core: whose memories they will be.
        path: where the file is kept meanwhile.

    Attributes:
        name: of the file, as its giver calls it; empty while there is none.
        system: which system's it is.
        found: what the look came to.
        shape: of rows whose columns are to be named before the look.
        broken_off: it was ended by hand; what had come in until then stays.
    """

    def __init__(self, core: Core, path: Path) -> None:
        self._core = core
        self.path = path
        self.job = Job()
        self.name = self.system = ""
        self.found: Imported | None = None
        self.shape: Shape | None = None
        self._mapping: dict[str, str] = {}
        self.bringing = self.broken_off = False

    def refuse_second(self) -> None:
        """Refuse a file while another is being read.

        Raises:
            Conflict: one is.
        """
        if self.job.running:
            raise Conflict(UNDER_WAY, WAIT)

    def preview(self, name: str, system: str) -> None:
        """Look through the file at `path`, or first at its columns; nothing is changed.

        Args:
            name: of the file.
            system: which system's it is; empty to recognise it.
        """
        self.name, self.system, self.found, self.shape, self._mapping = name, system, None, None, {}
        self._begin(bringing=False)

    def map(self, mapping: Mapping[str, str]) -> None:
        """Look through the file, now that it is told which column is taken as what.

        Raises:
            Absent: that was not asked.
        """
        if self.shape is None:
            raise Absent("No file with columns was given.", "Select one first.")
        self._mapping, self.shape = dict(mapping), None
        self._begin(bringing=False)

    def bring(self) -> None:
        """Import what was looked at.

        Raises:
            Absent: no file was looked at.
            Conflict: it is under way.
        """
        self.refuse_second()
        if self.found is None:
            raise Absent("No file was previewed.", "Select one first.")
        self._begin(bringing=True)

    def _begin(self, *, bringing: bool) -> None:
        self.bringing, self.broken_off = bringing, False
        self.job = Job()
        self.job.task = asyncio.create_task(self._read(bringing=bringing), name="importing")

    async def _read(self, *, bringing: bool) -> Imported | Shape:
        if not self._mapping:
            source = await asyncio.to_thread(Source, self.path, name=self.name)
            self.system, shape = await asyncio.to_thread(shape_of, self.system, source)
            if shape is not None:
                return shape
        return await import_from(
            self._core, self.system, str(self.path), dry_run=not bringing, report=self.job.report,
            mapping=self._mapping, name=self.name,
        )  # fmt: skip

    def result(self) -> Imported | None:
        """Return what bringing in came to; None before. Looking fills `found`.

        Raises:
            Exception: what the reader or the database refused; the file is to be given again.
        """
        report: Imported | Shape | None = self.job.result()
        if isinstance(report, Shape):
            self.shape = report
            return None
        if report is None or self.bringing:
            return report
        self.found = report
        return None

    async def break_off(self) -> None:
        """End what is under way."""
        if self.job.running:
            await self.job.close()
            self.job.task = None
            self.broken_off = True

    def forget(self) -> None:
        """Make room for another file.

        Raises:
            Conflict: this one is being read.
        """
        self.refuse_second()
        self.name, self.found, self.shape, self.job = "", None, None, Job()
        self.path.unlink(missing_ok=True)


PATIENCE_S: Final = 0.08  # that a page waits; what is quick stands in it at once
FRESH_S: Final = 10.0
MAX_KEPT: Final = 64
Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Kept:
    task: asyncio.Task[Any]
    made_at: float | None = None
    outdated: bool = False  # something was changed while it was made
    before: _Kept | None = None  # stands in for it meanwhile
    waiting: int = 0  # requests


class BackgroundCache:
    """Answers by name: each is made once at a time and kept for some seconds."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    async def get(
        self,
        key: Hashable,
        make: Callable[[], Awaitable[Answer]],
        *,
        fresh_s: float = FRESH_S,
        stale_s: float = 0.0,
        patience_s: float | None = PATIENCE_S,
    ) -> Answer | None:
        """Return the answer, or None while it is made.

        Args:
            key: its name; make: makes it.
            fresh_s: how long it is good.
            stale_s: how long it still stands in for the next one, while that is made.
            patience_s: how long to wait for it; None for as long as it takes.

        Raises:
            Exception: what `make` raised; the next call tries again.
            CancelledError: whoever asked went away; if nobody else waits, making it is cancelled, too.
        """
        before = self._kept.get(key)
        age_s = 0.0 if before is None or before.made_at is None else time.monotonic() - before.made_at
        if before is not None and age_s <= fresh_s:
            kept = before
        else:
            kept = self._kept[key] = _Kept(asyncio.ensure_future(make()))
            kept.before = before if age_s <= stale_s else None
            self._let_go()
        kept.waiting += 1
        try:
            done, _ = await asyncio.wait({kept.task}, timeout=0 if kept.before else patience_s)
        except asyncio.CancelledError:
            if kept.waiting == 1:
                kept.task.cancel()
                self._kept.pop(key, None)
            raise
        finally:
            kept.waiting -= 1
        if not done:
            return None if kept.before is None else cast("Answer", kept.before.task.result())
        kept.before = None
        if kept.outdated or kept.task.exception() is not None:
            self._kept.pop(key, None)
        elif kept.made_at is None:
            kept.made_at = time.monotonic()
        return cast("Answer", kept.task.result())

    def forget(self) -> None:
        """Make everything again when it is next asked for, as memories were changed."""
        for key, kept in [*self._kept.items()]:
            kept.outdated, kept.before = True, None
            if kept.task.done():
                del self._kept[key]

    def _let_go(self) -> None:
        for key in list(self._kept)[: max(0, len(self._kept) - MAX_KEPT)]:
            if self._kept[key].task.done():
                del self._kept[key]

    async def close(self) -> None:
        """Cancel what is being made."""
        tasks = [kept.task for kept in self._kept.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Backups:
    """The backups of a store, and the one that somebody asked for.

    Args:
        settings: where the store and its data folder are.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.job = Job()

    def state(self) -> dict[str, Any]:
        """Return when the newest backup was made, in seconds since 1970, its bytes and memories, how many are kept, and
        whether the folder that they are copied to has the last daily one.

        Raises:
            NotReady: the backup that was asked for failed; once.
        """
        self.job.result()
        folder = self._settings.data_path / "backups"
        made = sorted(folder.glob(f"*{backup_schedule.SUFFIX}"), key=_made_at)
        newest = made[-1].stat() if made else None
        memories, damage = _content_of(made[-1]) if made else (0, "")
        return {
            "memories": memories,
            "damage": damage,
            "second": backup_schedule.second(folder),
            "copied": not backup_schedule.lacks_copy(folder),
            "newest": newest and newest.st_mtime,
            "bytes": newest and newest.st_size,
            "folder": str(folder),
            "kept": self._settings.backups_kept,
            "weeks": backup_schedule.WEEKS,
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


def _content_of(backup: Path) -> tuple[int, str]:
    """Return how many memories a backup holds, or why that cannot be read."""
    try:
        return archive.read_manifest(backup).memories, ""
    except InvalidInput as error:
        return 0, error.message


def _made_at(path: Path) -> float:
    return path.stat().st_mtime
