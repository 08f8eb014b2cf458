"""The PostgreSQL that comes up: durable, modest, silent about content, and clear when it does not come up."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import psycopg
import pytest
from server_users import until

from pgengram.errors import NotReady
from pgengram.postgres import (
    EmbeddedPostgres,
    binaries,
    find_binaries,
    process_locks,
    server_status,
    start_embedded,
    supervisor,
    system,
)

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "data_checksums": "on",
    "autovacuum": "on",
    "jit": "off",
    "random_page_cost": "1.1",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "TimeZone": "UTC",
    "lc_messages": "C",
    "server_encoding": "UTF8",
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
}


@pytest.fixture
def database(settled: Path) -> Iterator[EmbeddedPostgres]:
    server = start_embedded(settled)
    yield server
    server.stop()  # Windows removes no folder with an open file


def test_it_is_durable_modest_and_quiet(database: EmbeddedPostgres) -> None:
    with psycopg.connect(database.url) as connection:
        found = {name: connection.execute(f"SHOW {name}").fetchone()[0] for name in SETTINGS}

        assert found == SETTINGS


def test_it_has_vectors_and_cuts_and_folds_words_of_all_languages(database: EmbeddedPostgres) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute("CREATE EXTENSION vector")
        words = connection.execute("SELECT tsvector_to_array(to_tsvector('simple', 'ÄPFEL—“ΕΛΛΆΔΑ”'))").fetchone()

    assert words == (["äpfel", "ελλάδα"],)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no private sockets")
def test_it_listens_nowhere_but_on_its_private_socket(database: EmbeddedPostgres) -> None:
    with psycopg.connect(database.url) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        assert connection.execute("SHOW unix_socket_permissions").fetchone() == ("0700",)


def test_its_log_carries_no_content(database: EmbeddedPostgres, folder: Path) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (word text PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES ('secret')")
        for wrong in ("INSERT INTO t VALUES ('secret')", "SELECT 'secret'::int", "SELECT secret FROM t"):
            with pytest.raises(psycopg.Error):
                connection.execute(wrong)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 'secret', pg_terminate_backend(pg_backend_pid())")
    log = folder / "postgres" / process_locks.LOG

    assert "terminating connection" in log.read_text()
    assert "secret" not in log.read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="there the log is shortened at a start only")
def test_its_log_does_not_grow_for_ever(database: EmbeddedPostgres, folder: Path) -> None:
    log = folder / "postgres" / process_locks.LOG
    with log.open("a") as file:
        file.write("x" * process_locks.LOG_LIMIT_BYTES)

    until(lambda: log.stat().st_size < process_locks.LOG_LIMIT_BYTES)
    database.stop()

    assert log.read_text().endswith("database system is shut down\n")


def test_keys_in_our_environment_are_not_passed_on(settled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGENGRAM_EMBEDDER_API_KEY", "secret")
    monkeypatch.setenv("PGOPTIONS", "")
    server = start_embedded(settled)

    environment = psutil.Process(server_status(settled).pid).environ()
    assert "PATH" in {name.upper() for name in environment}
    assert "secret" not in environment.values()
    server.stop()


def test_a_server_that_does_not_start_is_explained_by_its_log(settled: Path) -> None:
    with (settled / "postgres" / "cluster" / "postgresql.auto.conf").open("a") as file:
        file.write("shared_buffers = 'plenty'\n")

    with pytest.raises(NotReady, match="shared_buffers"):
        start_embedded(settled)


def test_a_machine_that_takes_minutes_to_make_the_data_gets_its_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=time.sleep, time=time.time)
    initdb = system.run_program

    def slow_initdb(*arguments: Any, **options: Any) -> tuple[int, str]:
        done = initdb(*arguments, **options)
        clock.monotonic = lambda: time.monotonic() + 300
        return done

    monkeypatch.setattr(system, "run_program", slow_initdb)
    monkeypatch.setattr(supervisor, "time", clock)

    server = start_embedded(folder)

    assert server_status(folder).running
    server.stop()


def test_a_wait_for_the_start_of_another_ends(settled: Path) -> None:
    starting = process_locks.Lock(str(settled / "postgres"), process_locks.START)
    assert starting.take()

    with pytest.raises(NotReady, match="Another process"):
        start_embedded(settled, timeout_s=0.1)

    starting.release()


@pytest.mark.skipif(sys.platform == "win32", reason="written with the users of Unix")
def test_data_of_the_older_postgresql_is_opened_with_that_one(folder: Path) -> None:
    older = find_binaries(16)
    cluster = folder / "postgres" / "cluster"
    cluster.mkdir(parents=True, mode=0o700)
    uid = system.maker(system.owner(cluster))
    if uid is not None:
        os.chown(cluster, uid, uid)
    command = [older.program("initdb"), "-D", system.folder_argument(cluster, uid), "-U", "pgengram", "-A", "trust"]
    subprocess.run(command, cwd=cluster, user=uid, group=uid, check=True, capture_output=True)
    with (cluster / "postgresql.conf").open("a") as file:
        file.write("include 'pgengram.conf'\n")

    with psycopg.connect(start_embedded(folder).url) as connection:
        assert connection.info.server_version // 10000 == 16


def test_data_of_a_postgresql_that_is_not_carried_is_refused(folder: Path) -> None:
    cluster = folder / "postgres" / "cluster"
    cluster.mkdir(parents=True)
    (cluster / "PG_VERSION").write_text("11\n")

    with pytest.raises(NotReady, match="PostgreSQL 11"):
        start_embedded(folder)


def test_without_the_carrier_the_other_way_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "PACKAGE", "no_such_package")

    with pytest.raises(NotReady) as refused:
        find_binaries()

    assert "PGENGRAM_DATABASE_URL" in refused.value.hint


def test_the_newest_postgresql_is_found_without_importing_its_carrier() -> None:
    assert find_binaries().version.startswith("18.")
    assert binaries.PACKAGE not in sys.modules


def test_status_tells_without_touching(folder: Path) -> None:
    before = server_status(folder)
    assert (before.initialised, before.running, before.present) == (False, False, 0)
    assert not folder.exists()

    database = start_embedded(folder)
    during = server_status(folder)
    assert (during.initialised, during.running, during.major, during.present) == (True, True, 18, 1)
    assert 1_000_000 < during.size_bytes < 24_000_000
    assert during.log.exists()

    database.stop()
    after = server_status(folder)
    assert (after.initialised, after.running, after.pid, after.present) == (True, False, None, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="about /dev/shm")
@pytest.mark.parametrize(("size", "kind"), [(64 << 20, "sysv"), (1 << 30, "posix")])
def test_parallel_workers_do_not_depend_on_the_small_shared_folder_of_a_container(
    size: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs("/dev/shm")
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, size // 4096, *real[3:])))

    assert kind in system.shared_memory(None)


@pytest.mark.skipif(sys.platform != "linux", reason="about /dev/shm")
@pytest.mark.parametrize(("mode", "kind"), [(0o755, "sysv"), (0o1777, "posix")])
def test_parallel_workers_leave_a_shared_folder_alone_that_the_servers_user_may_not_write_into(
    mode: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(mode)
    monkeypatch.setattr(system, "SHARED_MEMORY", str(tmp_path))

    assert kind in system.shared_memory(system.SERVER_UID)
