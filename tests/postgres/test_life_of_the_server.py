"""One server for all who use a folder: made once, there while anybody uses it, gone after the last."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from server_users import User, Users, keepers_of, until

from pgengram.errors import NotReady
from pgengram.postgres import presence, start_embedded, status

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written with the signals of Unix")


def test_users_who_come_at_the_same_moment_to_an_empty_folder_make_one_server(users: Users) -> None:
    together = [users.launch() for _ in range(4)]
    for user in together:
        user.ready()

    assert sum("report Preparing the database…" in user.said for user in together) == 1
    assert (
        len(
            {
                user.asks("SELECT pg_postmaster_start_time(), system_identifier FROM pg_control_system()")[0]
                for user in together
            }
        )
        == 1
    )
    assert status(users.folder).present == 4


def test_the_server_stays_for_the_others_and_goes_with_the_last(users: Users) -> None:
    first, last = users.start(), users.start()

    first.stop()
    assert last.asks("SELECT 1") == [(1,)]

    last.stop()
    assert users.server_is_gone()
    assert not status(users.folder).running


def test_a_killed_user_neither_stops_the_others_nor_keeps_the_server(users: Users) -> None:
    killed, other = users.start(), users.start()

    killed.die()
    assert other.asks("SELECT 1") == [(1,)]

    other.stop()
    assert users.server_is_gone()


def test_no_process_is_left_when_all_users_were_killed(users: Users) -> None:
    both = [users.start(), users.start()]

    for user in both:
        user.die()

    until(lambda: users.server_is_gone() and users.keeper_is_gone())


def test_the_keeper_leaves_the_server_to_whoever_came_back(users: Users) -> None:
    users.start().die()
    home = users.home
    back = users.start()

    assert not presence._stopped_for_want_of_users(home, presence.Lock(home, presence.KEEPER))

    assert back.asks("SELECT 1") == [(1,)]


def test_the_keeper_waits_for_a_user_who_is_just_coming(users: Users) -> None:
    user = users.start()
    coming = presence.Lock(users.home, presence.START)
    assert coming.take()
    user.die()

    assert not presence._stopped_for_want_of_users(users.home, presence.Lock(users.home, presence.KEEPER))

    assert not users.server_is_gone()
    coming.release()


def test_a_killed_keeper_is_replaced_by_the_next_user(users: Users) -> None:
    users.start()
    os.kill(keeper_of(users), signal.SIGKILL)
    until(users.keeper_is_gone)

    users.start()

    until(lambda: not users.keeper_is_gone(), timeout_s=5)


def test_the_keeper_is_small_and_idle(users: Users) -> None:
    users.start()
    until(lambda: not users.keeper_is_gone())
    keeper = Path(f"/proc/{keeper_of(users)}")
    if not keeper.exists():
        pytest.skip("asks the proc file system")

    rss = next(line for line in (keeper / "status").read_text().splitlines() if line.startswith("VmRSS"))
    ticks = sum(map(int, (keeper / "stat").read_text().rpartition(")")[2].split()[11:13]))

    assert int(rss.split()[1]) < 12_000
    assert ticks < 20  # a fifth of a second, all of it to start Python


def test_nothing_of_the_server_holds_the_pipes_or_the_terminal_of_the_user_who_started_it(users: Users) -> None:
    starter, other = users.start(), users.start()
    session = os.getsid(starter.process.pid)

    os.killpg(session, signal.SIGINT)  # what Ctrl-C does
    starter.process.wait(10)

    assert starter.process.stdout is not None
    reader = threading.Thread(target=starter.process.stdout.read, daemon=True)
    reader.start()
    reader.join(5)
    assert not reader.is_alive(), "somebody still holds the pipe of the dead user"
    assert other.asks("SELECT 1") == [(1,)]
    assert session not in {os.getsid(status(users.folder).pid or 0), os.getsid(keeper_of(users))}


def test_what_was_committed_survives_a_killed_postmaster(users: Users) -> None:
    user = users.start()
    user.asks("CREATE TABLE kept AS SELECT generate_series(1, 100000) AS n")

    os.kill(status(users.folder).pid or 0, signal.SIGKILL)
    user.told("start")  # in the same process, which still counts as present with the dead server
    user.ready()

    assert user.asks("SELECT count(*) FROM kept") == [(100000,)]


def test_a_start_waits_for_the_last_process_of_a_killed_server(users: Users) -> None:
    user = users.start()
    busy = threading.Thread(target=is_cut_off, args=(user,))
    busy.start()
    until(lambda: user.asks("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 3%'") > [(1,)])

    os.kill(status(users.folder).pid or 0, signal.SIGKILL)
    assert not users.server_is_gone()
    again = users.start()

    assert again.asks("SELECT 1") == [(1,)]
    busy.join()


def test_a_pid_file_with_the_pid_of_a_stranger_does_not_stop_the_start(users: Users) -> None:
    user = users.start()
    cluster = users.folder / "postgres" / "cluster"
    os.kill(status(users.folder).pid or 0, signal.SIGKILL)
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


def test_a_server_that_cannot_be_reached_is_not_doubled(folder: Path) -> None:
    database = start_embedded(folder)
    (folder / "postgres" / "cluster" / ".s.PGSQL.5432").unlink()

    with pytest.raises(NotReady, match="processes of it are left"):
        start_embedded(folder, timeout_s=1)

    home = folder / "postgres"
    os.kill(int(presence.announced(str(home))[0]), signal.SIGINT)
    until(lambda: not presence.is_held(str(home / presence.SERVER)))
    database.stop()


def test_a_server_started_by_hand_is_not_doubled(folder: Path) -> None:
    start_embedded(folder).stop()
    cluster = folder / "postgres" / "cluster"
    from pgengram.postgres import binaries, system

    uid = system.owner(cluster)
    command = [binaries().program("postgres"), "-D", system.folder_argument(cluster, uid)]
    with subprocess.Popen(command, cwd=cluster, user=uid, group=uid, stderr=subprocess.DEVNULL) as by_hand:
        until(lambda: status(folder).running)
        (cluster / ".s.PGSQL.5432").unlink()

        with pytest.raises(NotReady, match="shared memory"):
            start_embedded(folder)

        assert by_hand.poll() is None
        by_hand.send_signal(signal.SIGINT)


def test_a_user_killed_while_making_the_folder_leaves_nothing_that_hurts(users: Users) -> None:
    killed = users.launch()
    until(lambda: (users.folder / "postgres" / "cluster.new" / "base").exists())
    killed.die()
    assert not (users.folder / "postgres" / "cluster").exists()

    assert users.start().asks("SELECT current_database()") == [("pgengram",)]
    assert not (users.folder / "postgres" / "cluster.new").exists()


def test_a_user_killed_before_it_made_the_database_leaves_that_to_the_next(users: Users) -> None:
    killed = users.launch()
    killed.hears("report Starting")
    killed.die()

    assert users.start().asks("SELECT current_database()") == [("pgengram",)]


def test_stopping_twice_and_stopping_after_the_folder_has_gone_change_nothing(folder: Path) -> None:
    database = start_embedded(folder)
    other = start_embedded(folder)

    database.stop()
    database.stop()

    assert status(folder).present == 1
    other.stop()
    (folder / "postgres").rename(folder / "elsewhere")
    other.stop()


BUSY = "SELECT sum(n) FROM generate_series(1, 30000000) AS n"


def is_cut_off(user: User) -> None:
    with suppress(psycopg.OperationalError):  # its last word may still arrive
        user.asks(BUSY)


def keeper_of(users: Users) -> int:
    [keeper] = keepers_of(users.folder)
    return keeper
