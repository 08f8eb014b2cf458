"""A disk that fills up: writing ends while there is room for the database itself, reading goes on, and nothing is lost."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers import call, connected, found, read, refused, remember
from machine import closed_in_the_end, copied, pgengram
from pgengram.postgres.system import HINTS
from pgengram.store.store import RESERVE_BYTES

DISK_MB = 320
LEFT_BYTES = 9_000_000  # less than a new file of PostgreSQL's log takes

may_mount = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("mount") is not None
pytestmark = pytest.mark.skipif(not may_mount, reason="only root of a Linux can mount a small disk")


@pytest.fixture
def disk(tmp_path: Path, prepared: Path) -> Iterator[Path]:
    """A small disk of the test's own, with a store on it."""
    with disk_of(tmp_path / "disk", DISK_MB) as place:
        copied(prepared, place / "data")
        yield place


@contextmanager
def disk_of(place: Path, size_mb: int) -> Iterator[Path]:
    """A disk of that size, on which a server may be started in the folder `data`."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=755", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this root may not mount")
    try:
        with closed_in_the_end(place / "data"):
            yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def again(place: Path, options: str) -> None:
    """Mount a disk again with other options."""
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Let a file of somebody else take all but `leave` bytes."""
    ballast = disk / "film"
    with ballast.open("ab") as file:
        file.write(bytes(max(shutil.disk_usage(disk).free - leave, 0)))
    return ballast


async def test_on_a_full_disk_writes_are_refused_reads_go_on_and_all_is_well_when_there_is_room(disk: Path) -> None:
    async with connected(data_dir=str(disk / "data"), embedder="none:") as client:
        kept = [await remember(client, f"Note {number} before the film.") for number in range(20)]

        for left in (RESERVE_BYTES - 1_000_000, LEFT_BYTES):
            ballast = fill(disk, left)
            for number in range(20):
                error = await refused(client, "create_memory", content=f"Note {number} on a full disk.")
                assert error["code"] == "DATABASE_ERROR"
                assert "disk is almost full" in error["message"]
                assert "Free some space" in error["hint"]
            assert (await refused(client, "update_memory", id=kept[0], importance=0.9))["code"] == "DATABASE_ERROR"
            assert set(await found(client, "film", limit=50)) == set(kept)
            assert (await read(client, kept[3]))["content"] == "Note 3 before the film."

        ballast.unlink()
        later = await remember(client, "Note after the film.")
        assert set(await found(client, "film", limit=50)) == {*kept, later}

    async with connected(data_dir=str(disk / "data"), embedder="none:") as client:
        assert (await call(client, "memory_stats"))["ok"]
        assert set(await found(client, "film", limit=50)) == {*kept, later}


@pytest.mark.nightly
async def test_a_store_that_fills_its_disk_by_itself_keeps_what_it_acknowledged(disk: Path) -> None:
    fill(disk, RESERVE_BYTES + 120_000_000)
    async with connected(data_dir=str(disk / "data"), embedder="none:") as client:
        stored = 0
        for number in range(400):
            items = [{"content": f"{number}-{place} " + os.urandom(2_000).hex()} for place in range(50)]
            answer = await client.call_tool("create_memories", {"items": items})
            if answer.is_error:
                break
            stored += len(items)
        else:
            pytest.fail("the disk did not fill up")

        outcome = await call(client, "search_memories", query="", count_only=True)
        assert outcome["total"] == stored


def test_where_there_is_no_room_for_the_data_the_first_start_says_so_and_leaves_none(tmp_path: Path) -> None:
    with disk_of(tmp_path / "disk", 8) as place:
        folder = str(place / "data")

        failed = pgengram("list", expect=1, data_dir=folder, embedder="none:")

        said = failed.stderr.splitlines()
        assert "The disk that holds" in said[0]
        assert said[1:] == [HINTS[errno.ENOSPC]]
        assert not any(file.is_file() for file in (place / "data" / "postgres").glob("cluster*/**/*"))
        again(place, f"size={DISK_MB}m")
        pgengram("list", data_dir=folder, embedder="none:")


def test_a_store_on_a_full_disk_that_does_not_start_says_so_and_starts_when_there_is_room(disk: Path) -> None:
    folder = str(disk / "data")
    ballast = fill(disk, 0)

    failed = pgengram("list", expect=1, data_dir=folder, embedder="none:")

    said = failed.stderr.splitlines()
    assert "The disk that holds" in said[0] or os.strerror(errno.ENOSPC) in said[0]
    assert said[1:] == [HINTS[errno.ENOSPC]]
    ballast.unlink()
    pgengram("list", data_dir=folder, embedder="none:")


def test_a_store_on_a_disk_that_is_only_read_is_left_alone_with_the_setting_to_change(disk: Path) -> None:
    before = sorted(disk.rglob("*"))
    again(disk, "ro")
    try:
        for folder in (disk / "data", disk / "new"):
            failed = pgengram("list", expect=1, data_dir=str(folder), embedder="none:")

            said = failed.stderr.splitlines()
            assert os.strerror(errno.EROFS) in said[0]
            assert said[1:] == [HINTS[errno.EROFS]]
    finally:
        again(disk, "rw")
    assert sorted(disk.rglob("*")) == before
