"""The folder of backups: their names, the daily one, how many are kept, and a second folder that each is copied to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pgengram.errors import InvalidInput, NotReady
from pgengram.postgres.process_locks import NO_WINDOW
from pgengram.runtime import module_command, process_setup
from pgengram.runtime.operating_system import end_tree
from pgengram.settings import Settings, environment_without_settings
from pgengram.store.recovery import archive

if TYPE_CHECKING:
    from pgengram.store.store import Store

log = logging.getLogger(__name__)

DAY_S: Final = 86_400
OVERDUE_S: Final = 2 * DAY_S
FIRST_LOOK_S: Final = 5  # after the start, which is for whoever waits for it
WEEKS: Final = 4
SECOND: Final = "second-folder"  # the file that names it
AWAY_S: Final = 30  # a database that was away is looked for again
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
    """Remove what is no longer wanted of the daily backups, and what broken-off ones left; return what went.

    The newest `number` stay, and of each of the last WEEKS weeks that have any the last one.
    """
    made = daily(place)
    of_weeks = {_week(one): one for one in made}
    wanted = {*made[-number:], *[of_weeks[week] for week in sorted(of_weeks)[-WEEKS:]]}
    gone = [one for one in made if one not in wanted]
    gone += [one for word in ("unfinished", "dump") for one in place.glob(f"pgengram-{DAILY}-*{SUFFIX}.{word}")]
    for one in gone:
        one.unlink(missing_ok=True)
    return gone


def _week(backup: Path) -> tuple[int, int]:
    """Return year and ISO week of the day in a backup's name."""
    day = backup.name.removeprefix(f"pgengram-{DAILY}-")[:8]
    year, week, _ = datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC).isocalendar()
    return year, week


def second(place: Path) -> Path | None:
    """Return the folder that each daily backup is copied to, None if none was named."""
    try:
        return Path((place / SECOND).read_text("utf-8"))
    except FileNotFoundError:
        return None


def name_second(place: Path, chosen: Path | None) -> None:
    """Name the folder that each daily backup is copied to from now on; None for none.

    Raises:
        InvalidInput: it is not there, or cannot be written to.
    """
    if chosen is None:
        (place / SECOND).unlink(missing_ok=True)
        return
    if not chosen.is_dir() or not os.access(chosen, os.W_OK):
        raise InvalidInput(
            f"{chosen} isn't a folder that can be written to.", "Make it, or mount its disk, and repeat."
        )
    (place / SECOND).write_text(str(chosen.absolute()), "utf-8")


def lacks_copy(place: Path) -> bool:
    """Whether a second folder is named that does not have the newest daily backup."""
    copies, made = second(place), daily(place)
    return copies is not None and bool(made) and not (copies / made[-1].name).exists()


def copy_to_second(place: Path, number: int) -> str:
    """Copy the newest daily backup to the second folder, if one is named, and keep as many there.

    Returns:
        Why it could not be copied; empty when it was, or needed not be.
    """
    folder = second(place)
    if folder is None or not lacks_copy(place):
        return ""
    newest = daily(place)[-1]
    copy = folder / newest.name
    unfinished = copy.with_name(f"{copy.name}.unfinished")
    try:
        shutil.copyfile(newest, unfinished)  # never makes the folder: it would fill the place of a disk that is away
        unfinished.chmod(0o600)
        unfinished.replace(copy)
        keep_newest(folder, number)
    except OSError as error:
        with contextlib.suppress(OSError):  # of a disk that is gone or full, which is told below
            unfinished.unlink(missing_ok=True)
        return f"{folder}: {error.strerror or error}"
    return ""


@dataclass(frozen=True, slots=True)
class Status:
    """What is known of the daily backups of a store.

    Args:
        kept: how many are wanted; 0 when none are made.
        newest: the last one, None before the first.
        memories: how many are in it; made_at: when it was made.
        second: the folder that they are copied to; copied: whether the last one is there.
        damage: why the last one cannot be read; empty where it can.
    """

    kept: int
    newest: Path | None = None
    memories: int = 0
    made_at: datetime | None = None
    second: Path | None = None
    copied: bool = True
    damage: str = ""

    @property
    def is_overdue(self) -> bool:
        """Whether a machine that was used yesterday made none."""
        return self.made_at is not None and (datetime.now(UTC) - self.made_at).total_seconds() > OVERDUE_S


def backup_status(settings: Settings) -> Status:
    """Return what is known of the daily backups of a store; reads a folder and the head of one file."""
    place, kept = settings.data_path / "backups", settings.backups_kept
    made, copies = daily(place), second(place)
    if not made:
        return Status(kept, second=copies)
    last = made[-1]
    at = datetime.fromtimestamp(last.stat().st_mtime, UTC)
    copied = not lacks_copy(place)
    try:
        return Status(kept, last, archive.read_manifest(last).memories, at, copies, copied)
    except InvalidInput as error:
        return Status(kept, last, 0, at, copies, copied, error.message)


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
        """Cancel the backup that is being made; the next removes what it left."""
        await process_setup.end_task(self._task)

    async def _run(self) -> None:
        await asyncio.sleep(FIRST_LOOK_S)
        while True:
            if self._store.is_open and await asyncio.to_thread(self._is_due):
                await self._make()
            await asyncio.sleep(LOOK_S if self._store.is_open else AWAY_S)

    def _is_due(self) -> bool:
        try:
            place = folder(self._settings.data_path)
            copies = second(place)
            return is_due(place) or (copies is not None and copies.is_dir() and lacks_copy(place))
        except NotReady as error:
            log.warning("No daily backup: %s", error.message)
            return False

    async def _make(self) -> None:
        if problem := await make_apart(self._settings, "--if-due"):
            log.warning("No daily backup: %s", problem)


async def make_apart(settings: Settings, *options: str) -> str:
    """Run `pgengram backup` in a process of its own, which is ended if this is cancelled.

    Returns:
        Why it failed; empty when it did not.
    """
    process = subprocess.Popen(  # noqa: ASYNC220, S603 - Windows' loop for psycopg starts no processes
        module_command("pgengram", "backup", *options),
        env=environment_without_settings() | settings.variables,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        creationflags=NO_WINDOW,
    )
    try:
        _, said = await asyncio.to_thread(process.communicate)
        return (said.decode(errors="replace").strip() or "It said nothing.") if process.returncode else ""
    finally:
        if process.returncode is None:
            await asyncio.to_thread(end_tree, process.pid, PATIENCE_S)
