"""Whatever was killed, the next start finds the data, and never makes a second server beside the first."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import psutil
import psycopg
import pytest
from server_users import Users, supervisor_of, until

from pgengram.errors import NotReady
from pgengram.postgres import find_binaries, process_locks, server_status, start_embedded, system

posix = pytest.mark.skipif(sys.platform == "win32", reason="written with the signals of Unix")


def test_a_machine_that_slept_finds_its_server_and_its_users_as_they_were(users: Users) -> None:
    user = users.start()
    server = psutil.Process(server_status(users.folder).pid)
    asleep = [user.process.pid, supervisor_of(users), server.pid, *(child.pid for child in server.children())]
    for pid in asleep:
        psutil.Process(pid).suspend()
    time.sleep(3 * process_locks.POLL_S)  # the supervisor has missed its looks
    for pid in asleep:
        with suppress(psutil.NoSuchProcess):  # a worker of the server may end by itself
            psutil.Process(pid).resume()

    assert user.asks("SELECT 1") == [(1,)]
    assert psutil.Process(server.pid) == server
    assert users.start().asks("SELECT 1") == [(1,)]


def test_what_was_committed_survives_a_killed_postmaster(users: Users) -> None:
    user = users.start()
    user.asks("CREATE TABLE kept AS SELECT generate_series(1, 100000) AS n")

    psutil.Process(server_status(users.folder).pid).kill()
    user.answer("start")  # in the same process, which still counts as present with the dead server
    user.ready()

    assert user.asks("SELECT count(*) FROM kept") == [(100000,)]


@pytest.mark.skipif(sys.platform != "win32", reason="elsewhere each process notices that its postmaster has gone")
def test_a_process_that_a_killed_postmaster_was_just_starting_is_ended_by_whoever_starts_the_next(users: Users) -> None:
    user = users.start()
    server = psutil.Process(server_status(users.folder).pid)
    unborn = server.children()[0]
    unborn.suspend()
    server.kill()

    user.answer("start")
    user.ready()

    assert user.asks("SELECT 1") == [(1,)]
    assert not unborn.is_running()


def test_only_what_a_postmaster_that_has_gone_left_is_ended() -> None:
    others = [(1, 0, "services.exe"), (20, 1, "python.exe"), (30, 20, "postgres.exe"), (31, 30, "postgres.exe")]

    assert process_locks.orphans(40, [*others, (41, 40, "Postgres.exe"), (42, 40, "python.exe")]) == [41]
    assert process_locks.orphans(40, [*others, (40, 20, "postgres.exe"), (41, 40, "postgres.exe")]) == []


@posix
def test_a_start_waits_for_the_last_process_of_a_killed_server(users: Users) -> None:
    user = users.start()
    with closing(psycopg.connect(user.url)) as connection:
        last = connection.info.backend_pid
        os.kill(last, signal.SIGSTOP)  # it does not notice that its postmaster has gone
        try:
            os.kill(server_status(users.folder).pid or 0, signal.SIGKILL)
            coming = users.launch()
            until(lambda: process_locks.is_held(os.path.join(users.home, process_locks.START)))
            assert not users.server_is_gone()
            time.sleep(0.5)  # who does not wait has run into the shared memory of the old server by then
        finally:
            os.kill(last, signal.SIGCONT)

        assert coming.ready().asks("SELECT 1") == [(1,)]


@posix
def test_a_pid_file_with_the_pid_of_a_stranger_does_not_stop_the_start(users: Users) -> None:
    user = users.start()
    cluster = users.folder / "postgres" / "cluster"
    os.kill(server_status(users.folder).pid or 0, signal.SIGKILL)
    user.die()
    until(lambda: users.server_is_gone() and users.keeper_is_gone())
    uid = cluster.stat().st_uid if os.geteuid() == 0 else None
    with subprocess.Popen(["sleep", "60"], user=uid) as stranger:
        for file in (cluster / "postmaster.pid", cluster / ".s.PGSQL.5432.lock"):
            lines = file.read_text().splitlines()
            file.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")

        assert users.start().asks("SELECT 1") == [(1,)]

        users.all[-1].stop()
        assert stranger.poll() is None
        stranger.kill()


@posix
def test_a_server_that_cannot_be_reached_is_not_doubled(settled: Path) -> None:
    database = start_embedded(settled)
    (settled / "postgres" / "cluster" / ".s.PGSQL.5432").unlink()

    with pytest.raises(NotReady, match="processes are still running"):
        start_embedded(settled, timeout_s=1)

    home = settled / "postgres"
    os.kill(int(process_locks.announced(str(home))[0]), signal.SIGINT)
    until(lambda: not process_locks.is_held(str(home / process_locks.SERVER)))
    database.stop()


@posix
def test_a_server_started_by_hand_is_not_doubled(settled: Path) -> None:
    cluster = settled / "postgres" / "cluster"
    uid = system.owner(cluster)
    command = [find_binaries().program("postgres"), "-D", system.folder_argument(cluster, uid)]
    with subprocess.Popen(command, cwd=cluster, user=uid, group=uid, stderr=subprocess.DEVNULL) as by_hand:
        until(lambda: server_status(settled).running)
        (cluster / ".s.PGSQL.5432").unlink()

        with pytest.raises(NotReady, match="shared memory"):
            start_embedded(settled)

        assert by_hand.poll() is None
        by_hand.send_signal(signal.SIGINT)


def test_a_user_killed_while_making_the_folder_leaves_nothing_that_hurts(newcomers: Users) -> None:
    killed = newcomers.launch()
    until(lambda: (newcomers.folder / "postgres" / "cluster.new" / "base").exists())
    killed.die()
    assert not (newcomers.folder / "postgres" / "cluster").exists()

    assert newcomers.start().asks("SELECT current_database()") == [("pgengram",)]
    assert not (newcomers.folder / "postgres" / "cluster.new").exists()


def test_a_user_killed_before_it_made_the_database_leaves_that_to_the_next(newcomers: Users) -> None:
    killed = newcomers.launch()
    killed.hears("report Starting")
    killed.die()

    assert newcomers.start().asks("SELECT current_database()") == [("pgengram",)]
