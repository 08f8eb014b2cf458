"""Whole stores into a file and back: nothing is replaced before every row was compared."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import PATIENCE_S, Database, call, connected, database_of, environment, found, in_database, remember, until
from machine import answered, closed_in_the_end, copied, is_over, pgengram
from pgengram.demo import load_corpus
from pgengram.postgres import binaries
from pgengram.runtime import operating_system
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.connection import locks
from pgengram.store.recovery import archive, backup, backup_schedule
from pgengram.store.recovery.restoring import restore_backup
from pgengram.store.schema.migrate import newest_version
from windows_like import WindowsLoop

MEMORIES = 60


def databases(database: Database) -> set[str]:
    """Return the databases that a restore of this one may have left."""
    left = f"^{database.name}_(incoming|outgoing)$"
    with psycopg.connect(in_database(database.url, "postgres")) as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database WHERE datname ~ %s", [left])}


def prints(database: Database) -> archive.Tables:
    """Return counts and hashes of all rows, without what reading changes."""
    with psycopg.connect(database.url) as connection:
        return backup.prints(connection)


@pytest.fixture(scope="module")
def made(postgres: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The name of a database, to be copied, and a backup that was made of it before its second memory."""
    path = tmp_path_factory.mktemp("backups") / "kept.backup"
    with database_of(postgres, template) as database:
        pgengram("call", "create_memory", "content=Kept.", database_url=database.url, embedder="none:")
        pgengram("backup", str(path), database_url=database.url)
        pgengram("call", "create_memory", "content=Added later.", database_url=database.url, embedder="none:")
        yield database.as_template(), path


@pytest.fixture
def kept(made: tuple[str, Path], tmp_path: Path) -> Path:
    """A backup of a store with one memory."""
    return Path(shutil.copy2(made[1], tmp_path))


@pytest.fixture
def store(postgres: str, made: tuple[str, Path]) -> Iterator[Database]:
    """That store, which has another memory since."""
    with database_of(postgres, made[0], keeps=False) as database:
        yield database


def contents(database: Database) -> list[str]:
    return sorted(row["content"] for row in database.rows("SELECT content FROM memories"))


async def test_a_restored_store_has_the_same_rows_and_gives_the_same_answers(
    database: Database, tmp_path: Path
) -> None:
    life = load_corpus()
    texts = [memory.content for memory in life.memories][:MEMORIES]
    questions = [asked.question for asked in life.questions[:6]] + [text[:60] for text in texts[:6]]
    path = tmp_path / "life.backup"

    async def ten_best(client: Any) -> list[list[str]]:
        return [await found(client, question, limit=10) for question in questions]

    async with connected(database_url=database.url) as client:
        answer = await call(client, "create_memories", items=[{"content": text, "tags": ["life"]} for text in texts])
        ids = [one["memory_id"] for one in answer["results"]]
        await call(client, "link_memories", from_id=ids[0], to_ids=ids[1:3], type="CAUSES")
        await call(client, "forget_memories", ids=ids[-1:], reason="No longer so.")
        before = await ten_best(client)
    rows = prints(database)
    pgengram("backup", str(path), database_url=database.url)

    async with connected(database_url=database.url, embedder="none:") as client:
        await remember(client, "Said after the backup.")
        await call(client, "forget_memories", ids=ids[:9], reason="By mistake.")
    assert prints(database) != rows

    answer = answered("restore", str(path), "--yes", "--json", database_url=database.url)
    assert answer["tables"] == prints(database) == rows
    assert answer["tables"]["memories"]["rows"] == MEMORIES
    async with connected(database_url=database.url) as client:
        assert await ten_best(client) == before
        assert await found(client, "after the backup", mode="substring") == []
    assert databases(database) == set()


def test_a_backup_is_for_its_owner_alone_and_says_what_it_holds(kept: Path) -> None:
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert list(kept.parent.glob("kept.backup.*")) == []
    manifest = archive.read_manifest(kept)
    assert (manifest.schema, manifest.memories) == (newest_version(), 1)
    with tarfile.open(kept) as packed:
        assert packed.getnames() == ["manifest.json", "database.dump"]


def broken(path: Path, how: str) -> None:
    whole = bytearray(path.read_bytes())
    if how == "one byte":
        whole[whole.index(b"PGDMP") + 2_000] ^= 1
    elif how == "cut":
        whole = whole[: len(whole) // 2]
    elif how == "other rows":
        manifest = whole.index(b'"memories": {')
        place = whole.index(b'"sha256": "', manifest) + len(b'"sha256": "')
        whole[place : place + 4] = b"0000" if whole[place : place + 4] != b"0000" else b"1111"
    elif how == "no backup":
        whole = bytearray(b"Dear diary")
    path.write_bytes(whole)


@pytest.mark.parametrize("how", ["one byte", "cut", "other rows", "no backup"])
def test_a_damaged_backup_is_refused_before_anything_is_removed(kept: Path, store: Database, how: str) -> None:
    broken(kept, how)

    code = 1 if how == "other rows" else 2
    ended = pgengram("restore", str(kept), "--yes", database_url=store.url, expect=code)

    assert "damaged" in ended.stderr or "differs from the backup" in ended.stderr
    assert contents(store) == ["Added later.", "Kept."]
    assert databases(store) == set()


def test_a_backup_of_a_newer_version_is_refused(kept: Path, store: Database) -> None:
    whole = kept.read_bytes()
    kept.write_bytes(whole.replace(f'"schema": "{newest_version()}"'.encode(), b'"schema": "9999"'))

    ended = pgengram("restore", str(kept), "--yes", database_url=store.url, expect=1)

    assert "newer pgengram" in ended.stderr
    assert contents(store) == ["Added later.", "Kept."]


async def test_a_store_in_use_is_not_replaced(kept: Path, store: Database) -> None:
    async with connected(database_url=store.url, embedder="none:") as client:
        await found(client, "kept")
        ended = pgengram("restore", str(kept), "--yes", database_url=store.url, expect=1)

    assert "in use" in ended.stderr
    assert contents(store) == ["Added later.", "Kept."]


def test_a_restore_waits_for_a_client_that_is_leaving(kept: Path, store: Database) -> None:
    with psycopg.connect(store.url) as leaving:
        restoring = subprocess.Popen(
            [sys.executable, "-m", "pgengram", "restore", str(kept), "--yes"], env=environment(database_url=store.url)
        )
        try:
            taken = "SELECT true FROM pg_locks WHERE locktype = 'advisory' AND classid::int = %s AND granted"
            deadline = time.monotonic() + PATIENCE_S
            while not leaving.execute(taken, [locks.RESTORE]).fetchone():
                assert time.monotonic() < deadline
                assert restoring.poll() is None
            time.sleep(0.3)  # it has looked once by then
            leaving.close()
            assert restoring.wait(PATIENCE_S) == 0
        finally:
            restoring.kill()
            restoring.wait()

    assert contents(store) == ["Kept."]


def test_one_restore_of_a_database_at_a_time_and_others_of_the_server_do_not_wait(kept: Path, store: Database) -> None:
    lock = "SELECT pg_advisory_lock(%s, hashtext(%s))"
    with psycopg.connect(in_database(store.url, "postgres"), autocommit=True) as another:
        another.execute(lock, [locks.RESTORE, store.name])
        ended = pgengram("restore", str(kept), "--yes", database_url=store.url, expect=1)
    assert "in progress" in ended.stderr
    assert contents(store) == ["Added later.", "Kept."]

    with psycopg.connect(in_database(store.url, "postgres"), autocommit=True) as another:
        another.execute(lock, [locks.RESTORE, "another"])
        pgengram("restore", str(kept), "--yes", database_url=store.url)
    assert contents(store) == ["Kept."]


def test_nothing_is_replaced_unless_somebody_agrees(kept: Path, store: Database) -> None:
    refused = pgengram("restore", str(kept), database_url=store.url, expect=2)

    assert "Use --yes" in refused.stderr
    assert contents(store) == ["Added later.", "Kept."]


def test_a_restore_over_a_newer_store_keeps_that_in_a_backup_and_says_how_to_go_back(
    kept: Path, store: Database
) -> None:
    said = pgengram("restore", str(kept), "--yes", database_url=store.url).stdout

    assert contents(store) == ["Kept."]
    [before] = kept.parent.glob("pgengram-before-restore-*.backup")
    assert f"Undo: pgengram restore {before}" in said
    taken_back = answered("restore", str(before), "--yes", "--without-copy", "--json", database_url=store.url)
    assert contents(store) == ["Added later.", "Kept."]
    assert taken_back["before"] is None
    assert [*kept.parent.glob("pgengram-before-restore-*.backup")] == [before]


def test_a_script_with_the_line_ends_of_windows_is_restored_as_any_other(
    kept: Path, store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = binaries.script_of_dump

    def as_on_windows() -> subprocess.Popen[bytes]:
        restoring = plain()
        ended = [
            sys.executable,
            "-c",
            "import sys; [sys.stdout.buffer.write(one[:-1] + b'\\r\\n') for one in sys.stdin.buffer]",
        ]
        crlf = subprocess.Popen(ended, stdin=restoring.stdout, stdout=subprocess.PIPE)
        restoring.stdout = crlf.stdout
        return restoring

    monkeypatch.setattr(binaries, "script_of_dump", as_on_windows)
    restore_backup(store.url, kept)

    assert contents(store) == ["Kept."]


def test_a_restore_killed_in_the_middle_changes_nothing_and_can_be_repeated(kept: Path, store: Database) -> None:
    restoring = subprocess.Popen(
        [sys.executable, "-m", "pgengram", "restore", str(kept), "--yes"], env=environment(database_url=store.url)
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not databases(store):
            assert time.monotonic() < deadline
            assert restoring.poll() is None
    finally:
        restoring.kill()
        restoring.wait()
    assert contents(store) == ["Added later.", "Kept."]

    pgengram("restore", str(kept), "--yes", database_url=store.url)

    assert contents(store) == ["Kept."]
    assert databases(store) == set()


def test_a_login_behind_the_wall_cannot_make_half_a_backup(database: Database, tmp_path: Path) -> None:
    name = f"pgengram_test_{os.getpid()}"
    database.as_login(f"CREATE ROLE {name} LOGIN", f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}")
    try:
        url = psycopg.conninfo.make_conninfo(database.url, user=name)
        ended = pgengram("backup", str(tmp_path / "half.backup"), database_url=url, expect=1)
    finally:
        database.as_login(f"DROP OWNED BY {name}", f"DROP ROLE {name}")

    assert "all namespaces" in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def folder(tmp_path: Path, prepared: Path) -> Iterator[Path]:
    with closed_in_the_end(tmp_path / "data") as chosen:
        copied(prepared, chosen)
        yield chosen


async def test_the_server_makes_a_backup_a_day_and_keeps_as_many_as_it_is_told(folder: Path) -> None:
    place = folder / "backups"
    place.mkdir(parents=True)
    settings = {"data_dir": str(folder), "embedder": "none:", "backup_days": "2"}
    for days in (4, 3, 2):
        old = place / f"pgengram-daily-2026010{9 - days}T000000Z.backup"
        old.touch()
        os.utime(old, (time.time() - days * backup_schedule.DAY_S,) * 2)
    mine = place / "pgengram-manual-20260101T000000Z.backup"
    mine.touch()

    pgengram("call", "create_memory", "content=Worth a backup.", data_dir=str(folder), embedder="none:")

    async with connected(**settings) as client:
        await found(client, "backup")

        async def made() -> bool:
            made = backup_schedule.daily(place)
            return len(made) == 2 and made[-1].stat().st_size > 0

        await until(made)
        older, newest = backup_schedule.daily(place)
        assert "20260107" in older.name
        assert archive.read_manifest(newest).memories == 1

    async def over() -> bool:
        return is_over(folder)

    await until(over)
    assert answered("backup", "--if-due", "--json", **settings) == {"made": False}
    os.utime(newest, (time.time() - backup_schedule.DAY_S - 1,) * 2)
    assert answered("backup", "--if-due", "--json", **settings)["made"] is True
    assert backup_schedule.daily(place)[:2] == [older, newest]  # the older one is the last of its week
    assert len(backup_schedule.daily(place)) == 3
    assert mine.exists()


@given(st.sets(st.integers(0, 120), min_size=1), st.integers(1, 10))
def test_the_newest_and_the_last_of_each_of_four_weeks_stay(days: set[int], number: int) -> None:
    today = datetime(2026, 11, 27, tzinfo=UTC)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        dates = sorted(today - timedelta(days=ago) for ago in days)
        for date in dates:
            (place / f"pgengram-daily-{date:%Y%m%d}T030000Z.backup").touch()
        backup_schedule.keep_newest(place, number)
        left = {one.name[15:23] for one in backup_schedule.daily(place)}
        once_more = backup_schedule.keep_newest(place, number)

    weeks = sorted({date.isocalendar()[:2] for date in dates})[-4:]
    last = {week: max(date for date in dates if date.isocalendar()[:2] == week) for week in weeks}
    assert left == {f"{date:%Y%m%d}" for date in [*dates[-number:], *last.values()]}
    assert once_more == []


def test_daily_backups_are_copied_to_a_second_folder_which_may_be_away(folder: Path, tmp_path: Path) -> None:
    settings = {"data_dir": str(folder), "embedder": "none:", "backup_days": "3"}
    usb = tmp_path / "usb"
    pgengram("call", "create_memory", "content=Worth two backups.", data_dir=str(folder), embedder="none:")
    assert answered("backup", "--if-due", "--json", **settings)["made"] is True
    refused = pgengram("backup", "--also-in", str(usb), expect=2, **settings)
    assert "Make it, or mount its disk" in refused.stderr

    usb.mkdir()
    pgengram("backup", "--also-in", str(usb), **settings)
    [copy] = usb.iterdir()
    assert archive.read_manifest(copy).memories == 1
    assert f"also in {usb}" in pgengram("stats", **settings).stdout.replace("\n", "")

    usb.rename(tmp_path / "drawer")
    made_yesterday(folder)
    made = pgengram("backup", "--if-due", **settings)
    assert "The second copy is missing" in made.stderr
    assert not usb.exists()  # or it would fill the disk that the other one was mounted on
    [row] = [row for row in answered("doctor", "--json", expect=1, **settings) if row["what"] == "Backups"]
    assert not row["ok"]
    assert str(usb) in row["seen"]

    (tmp_path / "drawer").rename(usb)
    pgengram("backup", "--if-due", **settings)
    assert {one.name for one in usb.iterdir()} == {one.name for one in backup_schedule.daily(folder / "backups")}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_second_folder_that_is_full_costs_only_the_copy_and_is_told_until_there_is_room(
    folder: Path, tmp_path: Path
) -> None:
    settings = {"data_dir": str(folder), "embedder": "none:", "backup_days": "3"}
    pgengram("call", "create_memory", "content=Worth two backups.", data_dir=str(folder), embedder="none:")
    assert answered("backup", "--if-due", "--json", **settings)["made"] is True
    place, usb = folder / "backups", tmp_path / "usb"
    usb.mkdir()
    backup_schedule.name_second(place, usb)
    [newest] = backup_schedule.daily(place)
    (usb / f"{newest.name}.unfinished").symlink_to("/dev/full")

    problem = backup_schedule.copy_to_second(place, 3)

    assert str(usb) in problem
    assert "No space left" in problem
    assert [*usb.iterdir()] == []
    assert archive.read_manifest(newest).memories == 1
    told = pgengram("stats", **settings).stdout.replace("\n", "")
    assert f"the copy in {usb} is missing" in told
    assert backup_schedule.copy_to_second(place, 3) == ""
    assert [one.name for one in usb.iterdir()] == [newest.name]


def made_yesterday(folder: Path) -> None:
    """Let the newest daily backup look a day old."""
    os.utime(backup_schedule.daily(folder / "backups")[-1], (time.time() - backup_schedule.DAY_S - 1,) * 2)


def test_the_embedded_store_is_backed_up_unless_that_is_switched_off() -> None:
    assert Settings().backups_kept == 7
    assert Settings(database_url="postgresql://db.example.org/memo").backups_kept == 0
    assert Settings(backup_days="0").backups_kept == 0


def test_where_it_is_switched_off_no_backup_is_made(folder: Path) -> None:
    pgengram("call", "create_memory", "content=Alone.", data_dir=str(folder), embedder="none:")

    assert not (folder / "backups").exists()


def test_a_daily_backup_is_made_by_a_loop_that_starts_no_processes(folder: Path) -> None:
    pgengram("call", "create_memory", "content=Worth a backup.", data_dir=str(folder), embedder="none:")

    async def lives() -> None:
        manager = MemoryManager(Settings(data_dir=str(folder), embedder="none:", backup_days="1"))
        await manager.open()

        async def made() -> bool:
            return bool(backup_schedule.daily(folder / "backups"))

        await until(made)
        await manager.close()

    with asyncio.Runner(loop_factory=WindowsLoop) as runner:
        runner.run(lives())

    assert archive.read_manifest(backup_schedule.daily(folder / "backups")[0]).memories == 1


SLOW = "import time; print('started', flush=True); time.sleep(600)"
LEADER = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLOW!r}]).wait()"


def test_a_backup_that_is_broken_off_leaves_none_of_its_processes() -> None:
    with subprocess.Popen([sys.executable, "-c", LEADER], stdout=subprocess.PIPE, text=True) as leader:
        assert leader.stdout is not None
        assert leader.stdout.readline() == "started\n"
        family = psutil.Process(leader.pid).children(recursive=True)

        operating_system.end_tree(leader.pid, 60)

        assert family
        assert not any(map(operating_system.lives, family))
        assert leader.stdout.read() == ""  # nobody holds the pipe any more
