"""`pgengram backup`, `pgengram restore` and `pgengram upgrade`: whole stores, kept and put back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console

from pgengram import postgres
from pgengram.cli import agreed
from pgengram.cli.progress import Told
from pgengram.errors import Conflict, InvalidInput, NotReady
from pgengram.settings import Settings
from pgengram.store.recovery import backup, backup_schedule, upgrading

screen = Console(highlight=False, soft_wrap=True)


async def run_backup(settings: Settings, path: Path | None, *, if_due: bool, as_json: bool) -> int:
    """Write everything into one file; with `if_due` only when the daily one is due, and keep the newest of those."""
    if if_due and path is not None:
        raise InvalidInput("--if-due names its file itself.", "Leave the path out.")
    return await asyncio.to_thread(_back_up, settings, path, if_due=if_due, as_json=as_json)


async def run_restore(settings: Settings, path: Path, *, yes: bool, as_json: bool) -> int:
    """Put a backup in the place of the store, after a question."""
    manifest = await asyncio.to_thread(backup.read, path)
    about = f"a backup of {manifest.made_at} with {manifest.memories:,} memories"
    if not yes and (as_json or not agreed(f"Replace the store by {about}?")):
        raise Conflict("Nobody has said yes.", "Nothing was changed. Call again and agree, or add --yes.")
    return await asyncio.to_thread(_restore, settings, path, manifest, about, as_json=as_json)


async def run_upgrade(settings: Settings, *, as_json: bool) -> int:
    """Move the embedded store to the newest PostgreSQL that is carried."""
    if settings.database_url:
        raise InvalidInput(
            "PGENGRAM_DATABASE_URL names a server of your own.", "Upgrade that with PostgreSQL's own pg_upgrade."
        )
    return await asyncio.to_thread(_upgrade, settings, as_json=as_json)


def _back_up(settings: Settings, path: Path | None, *, if_due: bool, as_json: bool) -> int:
    with _server(settings) as url:
        if not if_due:
            target = path or backup_schedule.folder(settings.data_path) / backup_schedule.name("manual")
            with _progress(as_json=as_json) as step:
                step("Writing the backup")
                manifest = backup.make(url, target)
            _tell(manifest, target, as_json=as_json)
            return 0
        place = backup_schedule.folder(settings.data_path)
        with psycopg.connect(url) as connection:  # its one transaction holds the lock
            connection.execute("SELECT set_config('idle_in_transaction_session_timeout', '0', true)")
            row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", [backup_schedule.BACKUP_LOCK]).fetchone()
            if row is None or not row[0] or not backup_schedule.is_due(place):
                _say("No backup is due.", {"made": False}, as_json=as_json)
                return 0
            target = place / backup_schedule.name(backup_schedule.DAILY)
            manifest = backup.make(url, target)
            backup_schedule.keep_newest(place, max(settings.backups_kept, 1))
            _tell(manifest, target, as_json=as_json)
    return 0


def _restore(settings: Settings, path: Path, manifest: backup.Manifest, about: str, *, as_json: bool) -> int:
    with _server(settings) as url, _progress(as_json=as_json) as tell:
        if not settings.database_url and postgres.status(settings.data_path).present > 1:
            raise Conflict(
                "The store is in use.", "Close the assistants and other programs that use it; nothing was changed."
            )
        again = backup.restore(url, path, tell)
    text = f"The store is {about}."
    if any(asdict(again).values()):
        text += (
            f" As before the restore, {again.memories:,} memories and {again.namespaces:,} namespaces are erased"
            f" and {again.tokens:,} tokens revoked."
        )
    _say(text, {"restored": True, "again": asdict(again), **asdict(manifest)}, as_json=as_json)
    return 0


def _upgrade(settings: Settings, *, as_json: bool) -> int:
    with _progress(as_json=as_json) as tell:
        done = upgrading.upgrade(settings.data_path, tell)
    told = {"before": done.before, "after": done.after, "memories": done.memories, "backup": str(done.backup or "")}
    if done.moved:
        text = f"PostgreSQL {done.before} → {done.after}: {done.memories:,} memories, every row compared. A backup is kept: {done.backup}"
    else:
        text = f"The store is of PostgreSQL {done.before}, and no newer one is carried."
    _say(text, told, as_json=as_json)
    return 0


def _tell(manifest: backup.Manifest, path: Path, *, as_json: bool) -> None:
    rows = sum(table["rows"] for table in manifest.tables.values())
    text = f"{manifest.memories:,} memories ({rows:,} rows) are in {path} ({path.stat().st_size:,} bytes)."
    _say(text, {"made": True, "path": str(path), **asdict(manifest)}, as_json=as_json)


def _say(text: str, told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(told))  # noqa: T201 - for programs: not one line broken
    else:
        screen.print(text)


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


@contextmanager
def _progress(*, as_json: bool) -> Iterator[Any]:
    """Tell what is being done, and for how long already."""
    with Told("Beginning", quiet=as_json) as told:
        yield told.step
