"""An embedded store moves to a newer PostgreSQL, as root too, and stays what it was when that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from machine import answered, closed_in_the_end, copied, is_over, pgengram
from pgengram import postgres
from pgengram.errors import Conflict, NotReady
from pgengram.postgres import process_locks, supervisor
from pgengram.postgres.binaries import find_binaries
from pgengram.store.recovery import archive, backup, upgrading

OLD, NEW = 16, 18
MEMORIES = 12


def rows(folder: Path) -> archive.Tables:
    """Return counts and hashes of all rows."""
    running = postgres.start_embedded(folder)
    try:
        with psycopg.connect(running.url) as connection:
            return backup.prints(connection)
    finally:
        running.stop()


@pytest.fixture(scope="module")
def old_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store that was made by the older PostgreSQL, to be copied."""
    with closed_in_the_end(tmp_path_factory.mktemp("old") / "data") as folder:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(supervisor, "find_binaries", lambda major=None: find_binaries(major or OLD))
            made = postgres.start_embedded(folder)
        ships = json.dumps([{"content": f"Ship {number}."} for number in range(MEMORIES)])
        pgengram("call", "create_memories", f"items={ships}", data_dir=str(folder), embedder="none:")
        with psycopg.connect(made.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET work_mem = '9MB'")
        made.stop()
        yield folder


@pytest.fixture
def old_store(old_data: Path, tmp_path: Path) -> Iterator[Path]:
    """A store of the test's own that was made by the older PostgreSQL."""
    with closed_in_the_end(tmp_path / "data") as folder:
        copied(old_data, folder)
        yield folder


def test_every_row_and_every_setting_moves_to_the_newer_postgresql(old_store: Path) -> None:
    before = rows(old_store)
    assert postgres.server_status(old_store).major == OLD

    answer = answered("upgrade", "--json", data_dir=str(old_store))

    assert (answer["before"], answer["after"], answer["memories"]) == (OLD, NEW, MEMORIES)
    assert postgres.server_status(old_store).major == NEW
    assert is_over(old_store)
    assert rows(old_store) == before == archive.read_manifest(Path(answer["backup"])).tables
    assert {path.name for path in old_store.iterdir()} == {"postgres", "backups"}
    assert [path.name for path in (old_store / "postgres").glob("cluster*")] == ["cluster"]
    running = postgres.start_embedded(old_store)
    with psycopg.connect(running.url) as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("9MB",)
    running.stop()
    assert answered("upgrade", "--json", data_dir=str(old_store))["before"] == NEW
    found = answered("call", "search_memories", "query=ship", "limit=50", data_dir=str(old_store), embedder="none:")
    assert found["count"] == MEMORIES


def test_an_upgrade_that_fails_at_its_last_step_puts_the_former_data_back(
    old_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows(old_store)
    asked: list[bool] = []

    def differs(url: str, manifest: backup.Manifest) -> bool:
        asked.append(True)
        return len(asked) == 1  # before the change-over all is well, after it a row is missing

    monkeypatch.setattr(upgrading, "_holds", differs)

    with pytest.raises(NotReady, match="differs from the old one"):
        upgrading.upgrade_store(old_store)

    assert postgres.server_status(old_store).major == OLD
    assert rows(old_store) == before


def test_what_is_written_during_an_upgrade_is_not_lost_by_it(old_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def somebody_comes_and_goes(said: str) -> None:
        if said == "Changing over":
            pgengram("call", "create_memory", "content=Written meanwhile.", data_dir=str(old_store), embedder="none:")

    with pytest.raises(Conflict):
        upgrading.upgrade_store(old_store, somebody_comes_and_goes)

    assert postgres.server_status(old_store).major == OLD
    found = answered("call", "search_memories", "query=meanwhile", data_dir=str(old_store), embedder="none:")
    assert found["count"] == 1


def test_an_upgrade_broken_off_between_its_two_steps_goes_back_by_itself(old_store: Path) -> None:
    before = rows(old_store)
    home = old_store / "postgres"
    (home / process_locks.CLUSTER).rename(home / supervisor.FORMER)

    assert rows(old_store) == before


def test_a_store_in_use_is_not_upgraded(old_store: Path) -> None:
    other = postgres.start_embedded(old_store)
    try:
        ended = pgengram("upgrade", data_dir=str(old_store), expect=1)
    finally:
        other.stop()

    assert "in use" in ended.stderr
    assert postgres.server_status(old_store).major == OLD


def test_a_server_of_ones_own_is_left_to_its_own_tools() -> None:
    ended = pgengram("upgrade", database_url="postgresql://localhost/nowhere", expect=2)

    assert "pg_upgrade" in ended.stderr
