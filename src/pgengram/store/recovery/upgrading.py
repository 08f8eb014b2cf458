"""An embedded store to the newest PostgreSQL that is carried: dumped by the one that made it, restored by the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from pgengram import postgres
from pgengram.errors import Conflict, NotReady, PgengramError
from pgengram.postgres import process_locks
from pgengram.postgres.supervisor import LOCK_S
from pgengram.postgres.system import home_of
from pgengram.runtime.operating_system import remove_tree
from pgengram.store.recovery import backup, backup_schedule, restoring
from pgengram.store.recovery.archive import Manifest
from pgengram.store.schema import place

TRIAL: Final = "upgrade"  # the folder in which the new data is made
OWN_SETTINGS: Final = "postgresql.auto.conf"  # by ALTER SYSTEM


@dataclass(frozen=True)
class Upgraded:
    """From which major version to which, how many memories, and the backup that was made on the way."""

    before: int
    after: int
    memories: int = 0
    backup: Path | None = None

    @property
    def moved(self) -> bool:
        """Whether there was anything to do."""
        return self.before != self.after


def upgrade_store(data_dir: Path, report: Callable[[str], None] = lambda _: None) -> Upgraded:
    """Move the embedded store of `data_dir` to the newest PostgreSQL carried; interrupted, it leaves what there was.

    The data goes through a backup, which stays in the folder `backups`; every row is compared before the new data takes
    the place of the old, and once more there.

    Raises:
        NotReady: there is no store, no PostgreSQL of its version is carried, or something failed.
        Conflict: somebody else uses the store.
    """
    before, newest = postgres.server_status(data_dir).major, postgres.find_binaries().major
    if before is None:
        raise NotReady(f"There is no embedded store in {data_dir}.", "Set PGENGRAM_DATA_DIR to where it is.")
    if before >= newest:
        postgres.throw_away(data_dir)  # what an upgrade left that was broken off at its very end
        return Upgraded(before, before)
    trial = data_dir / TRIAL
    _clear_attempt(trial)
    report(f"Starting PostgreSQL {before}")
    former = postgres.start_embedded(data_dir)
    try:
        if len(process_locks.living_users(str(home_of(data_dir)))) > 1:
            raise Conflict(
                "The store is in use.", "Close the assistants and other programs that use it, then call again."
            )
        with backup.reached(former.url) as (connection, _):
            restoring.expect_nothing_else(connection, place.look(connection))
        report("Backing up")
        kept = backup_schedule.folder(data_dir) / backup_schedule.name(f"before-postgresql-{newest}")
        manifest, _ = backup.write_backup(former.url, kept)
        try:
            _tried(trial, data_dir, kept, report)
            report("Changing over")
            postgres.exchange_data(former, trial, lambda: _holds(former.url, manifest))
        finally:
            _clear_attempt(trial)
    finally:
        former.stop()
    _compare_rows(data_dir, manifest, report)
    postgres.throw_away(data_dir)
    return Upgraded(before, newest, manifest.memories, kept)


def _tried(trial: Path, data_dir: Path, kept: Path, report: Callable[[str], None]) -> None:
    """Make the new data, and start it once with the settings that the store has."""
    new = postgres.start_embedded(trial)
    try:
        restoring.restore_backup(new.url, kept, report)
    finally:
        new.stop()
    theirs = home_of(data_dir) / process_locks.CLUSTER / OWN_SETTINGS
    ours = home_of(trial) / process_locks.CLUSTER / OWN_SETTINGS
    if theirs.exists():
        ours.write_bytes(theirs.read_bytes())
    postgres.start_embedded(trial).stop()


def _compare_rows(data_dir: Path, manifest: Manifest, report: Callable[[str], None]) -> None:
    """Compare every row where the data lies now; what was there before comes back when anything differs."""
    report("Comparing every row")
    try:
        server = postgres.start_embedded(data_dir)
        try:
            if not _holds(server.url, manifest):
                raise NotReady("The upgraded store differs from the old one.")
        finally:
            server.stop()
    except (PgengramError, psycopg.Error) as error:
        postgres.take_data_back(data_dir)
        said = error.message if isinstance(error, PgengramError) else type(error).__name__
        raise NotReady(f"The upgrade failed: {said}", "The store is as it was; its backup is kept.") from error


def _holds(url: str, manifest: Manifest) -> bool:
    with psycopg.connect(url) as connection:
        return backup.prints(connection) == manifest.tables


def _clear_attempt(trial: Path) -> None:
    """Remove what an attempt has left, a server that still runs on it included."""
    if not trial.exists():
        return
    home = home_of(trial)
    start = process_locks.Lock(str(home), process_locks.START)
    if home.exists() and start.take(LOCK_S):
        try:
            process_locks.stop_server(str(home))
        finally:
            start.release()
    for folder in (home, trial):
        remove_tree(folder)
