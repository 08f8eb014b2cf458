"""`pgengram backup`, `upgrade` and `migrate`, and `restore` of a backup: whole stores."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import psycopg
import typer

from pgengram import postgres
from pgengram.cli.options import AsJson
from pgengram.cli.progress import ProgressBar
from pgengram.cli.runtime import FAILED, command, confirm, opened_store, print_answer, print_note
from pgengram.errors import Conflict, InvalidInput, NotReady
from pgengram.settings import Settings
from pgengram.store.connection import locks
from pgengram.store.recovery import archive, backup_schedule, restoring, upgrading
from pgengram.store.recovery import backup as backing_up
from pgengram.store.schema.migrate import migrate_apart, newest_version
from pgengram.text.shown import counted, exact


@command
async def backup(
    path: Annotated[
        Path | None,
        typer.Argument(help="A file. Without it: a new file in `backups` in the data folder.", dir_okay=False),
    ] = None,
    if_due: Annotated[
        bool,
        typer.Option("--if-due", help="Only if the newest is older than a day; keeps PGENGRAM_BACKUP_DAYS of them."),
    ] = False,
    also_in: Annotated[
        str, typer.Option(metavar="FOLDER", help="From now on copy each daily backup to this folder; `none` ends that.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Has all namespaces with their history. Servers keep running.

    Examples: `pgengram backup /media/usb/memories.backup`, `pgengram backup --also-in /media/usb`
    """
    if (if_due or also_in) and path is not None:
        raise InvalidInput("Daily backups have file names of their own.", "Leave the path out.")
    settings = Settings.from_environment()
    if also_in:
        await asyncio.to_thread(_also_in, settings, also_in, as_json=as_json)
    elif if_due:
        await asyncio.to_thread(_back_up_if_due, settings, as_json=as_json)
    else:
        await asyncio.to_thread(_back_up, settings, path, as_json=as_json)


async def restore_backup(path: Path, *, yes: bool, without_copy: bool, as_json: bool) -> int:
    """Replace the store by a backup, after a question; return the exit code."""
    manifest = await asyncio.to_thread(archive.read_manifest, path)
    if as_json and not yes:
        raise InvalidInput("Confirmation needed.", "Nothing was changed. Use --yes to skip the prompt.")
    if not confirm(f"Replace the store with {_backup_in_words(manifest)}?", yes=yes):
        return FAILED
    settings = Settings.from_environment()
    copy = None if without_copy else _place_of_copy(settings, path)
    await asyncio.to_thread(_restore, settings, path, manifest, copy, as_json=as_json)
    return 0


@command
async def upgrade(as_json: AsJson = False) -> None:
    """If it is interrupted, the store stays as it was.

    Example: `pgengram upgrade --json`
    """
    settings = Settings.from_environment()
    if settings.database_url:
        raise InvalidInput(
            "PGENGRAM_DATABASE_URL is set to your own server.", "Upgrade it with PostgreSQL's pg_upgrade."
        )
    await asyncio.to_thread(_upgrade_and_show, settings, as_json=as_json)


@command
async def migrate(as_json: AsJson = False) -> None:
    """A server does so by itself when it starts. This also takes back the rights of other roles on the tables.

    Example: `PGENGRAM_DATABASE_URL=postgresql://memo@db.example.org/memo pgengram migrate`
    """
    with ProgressBar("Migrating", quiet=as_json):
        async with opened_store() as store:
            await asyncio.to_thread(migrate_apart, store.database.url)
    print_answer("The schema is up to date.", {"schema": newest_version()}, as_json=as_json)


def _back_up(settings: Settings, path: Path | None, *, as_json: bool) -> None:
    with _server(settings) as url, ProgressBar("Beginning", quiet=as_json) as bar:
        target = path or backup_schedule.folder(settings.data_path) / backup_schedule.name("manual")
        bar.step("Writing the backup")
        manifest, others = backing_up.write_backup(url, target)
    _print_made(manifest, others, target, as_json=as_json)


def _also_in(settings: Settings, also_in: str, *, as_json: bool) -> None:
    """Name the second folder of daily backups, and copy the last one there."""
    folder = backup_schedule.folder(settings.data_path)
    if not settings.backups_kept:
        raise InvalidInput("No daily backups are made.", "Set PGENGRAM_BACKUP_DAYS to how many are to be kept.")
    backup_schedule.name_second(folder, None if also_in == "none" else Path(also_in))
    problem = backup_schedule.copy_to_second(folder, settings.backups_kept)
    if problem:
        raise NotReady(f"The last backup could not be copied to {problem}.", "Later ones are tried there as well.")
    copies = backup_schedule.second(folder)
    text = f"Daily backups are also copied to {copies}." if copies else "Daily backups are no longer copied."
    print_answer(text, {"also_in": copies and str(copies)}, as_json=as_json)


def _back_up_if_due(settings: Settings, *, as_json: bool) -> None:
    folder, kept = backup_schedule.folder(settings.data_path), max(settings.backups_kept, 1)
    with _server(settings) as url, psycopg.connect(url) as connection:  # its one transaction holds the lock
        connection.execute("SELECT set_config('idle_in_transaction_session_timeout', '0', true)")
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", [locks.BACKUP]).fetchone()
        if row is None or not row[0] or not backup_schedule.is_due(folder):
            problem = backup_schedule.copy_to_second(folder, kept)  # it may have been away, or full
            print_answer(f"No backup is due.{_not_copied(problem)}", {"made": False}, as_json=as_json)
            return
        target = folder / backup_schedule.name(backup_schedule.DAILY)
        manifest, others = backing_up.write_backup(url, target)
        backup_schedule.keep_newest(folder, kept)
        problem = backup_schedule.copy_to_second(folder, kept)
    _print_made(manifest, others, target, as_json=as_json)
    if problem:
        print_note(_not_copied(problem).strip())


def _not_copied(problem: str) -> str:
    return f" The second copy is missing. {problem}." if problem else ""


def _backup_in_words(manifest: archive.Manifest) -> str:
    return f"a backup of {exact(datetime.fromisoformat(manifest.made_at))} with {counted(manifest.memories)}"


def _place_of_copy(settings: Settings, path: Path) -> Path:
    """Return where the store as it is before a restore is kept: beside the daily backups, or beside the file that is
    restored where none are made.
    """
    folder = path.absolute().parent if settings.database_url else backup_schedule.folder(settings.data_path)
    return folder / backup_schedule.name("before-restore")


def _restore(settings: Settings, path: Path, manifest: archive.Manifest, copy: Path | None, *, as_json: bool) -> None:
    def keep(url: str) -> None:
        if copy is not None:
            backing_up.write_backup(url, copy)

    with _server(settings) as url, ProgressBar("Beginning", quiet=as_json) as bar:
        if not settings.database_url and postgres.server_status(settings.data_path).present > 1:
            raise Conflict("The store is in use.", "Nothing was changed. Close the programs that use it.")
        restored = restoring.restore_backup(url, path, bar.step, None if copy is None else keep)
    again = asdict(restored.again) | {"tokens": restored.access.ended}
    text = _restored_in_words(manifest, restored, again)
    kept = copy if copy is not None and copy.exists() else None
    if kept is not None:
        text += f"\nAs it was before: {kept}\nUndo: pgengram restore {shlex.quote(str(kept))}"
    facts = {"restored": True, "again": again, "let_in": restored.access.unknown, "left_out": restored.left_out}
    print_answer(text, facts | {"before": kept and str(kept)} | asdict(manifest), as_json=as_json)


def _restored_in_words(manifest: archive.Manifest, restored: restoring.Restored, again: Mapping[str, int]) -> str:
    text = f"The store is {_backup_in_words(manifest)}."
    if any(again.values()):
        text += (
            f" As before the restore, {counted(again['memories'])} and "
            f"{counted(again['namespaces'], 'namespace', 'namespaces')} are erased"
            f" and {again['tokens']:,} tokens, connections and passkeys ended."
        )
    if restored.access.unknown:
        text += (
            f"\nThe backup lets in {restored.access.unknown:,} tokens, connections and passkeys that were unknown here."
            " If one was ended since, end it again: pgengram connection revoke --all, pgengram token revoke"
        )
    if restored.left_out:
        text += f"\nLeft out, as it is not pgengram's: {', '.join(restored.left_out)}."
    return text


def _upgrade_and_show(settings: Settings, *, as_json: bool) -> None:
    with ProgressBar("Beginning", quiet=as_json) as bar:
        done = upgrading.upgrade_store(settings.data_path, bar.step)
    facts = {"before": done.before, "after": done.after, "memories": done.memories, "backup": str(done.backup or "")}
    text = f"The store uses PostgreSQL {done.before}, and no newer one is installed."
    if done.moved:
        moved = f"PostgreSQL {done.before} → {done.after}: {counted(done.memories)}, every row compared."
        text = f"{moved} A backup is kept: {done.backup}"
    print_answer(text, facts, as_json=as_json)


def _print_made(manifest: archive.Manifest, others: list[backing_up.Foreign], path: Path, *, as_json: bool) -> None:
    rows = sum(table["rows"] for table in manifest.tables.values())
    text = f"{counted(manifest.memories)} ({counted(rows, 'row', 'rows')}) "
    text += f"{'is' if manifest.memories == 1 else 'are'} in {path} ({path.stat().st_size:,} bytes)."
    names = [str(other) for other in others]
    if names:
        text += f"\nNot in it, as it is not pgengram's: {', '.join(names)}."
    print_answer(text, {"made": True, "path": str(path), "left_out": names, **asdict(manifest)}, as_json=as_json)


@contextmanager
def _server(settings: Settings) -> Iterator[str]:
    """Yield the URL of the store's database; the embedded server runs at least as long as the block."""
    if settings.database_url:
        yield settings.database_url
        return
    if not settings.data_path.parent.exists():
        raise NotReady(
            f"There is no folder {settings.data_path.parent}.", "Set PGENGRAM_DATA_DIR to where the store is."
        )
    server = postgres.start_embedded(settings.data_path)
    try:
        yield server.url
    finally:
        server.stop()
