"""The supervisor ends a server that nobody uses any more, and no other."""

import sys
from pathlib import Path

import psutil
import pytest
from server_users import Users, supervisor_of, until

from pgengram.postgres import process_locks


def test_the_supervisor_leaves_the_server_to_whoever_came_back(users: Users) -> None:
    users.start().die()
    home = users.home
    back = users.start()

    assert not process_locks._stopped_for_want_of_users(home, process_locks.Lock(home, process_locks.SUPERVISOR))

    assert back.asks("SELECT 1") == [(1,)]


def test_the_supervisor_waits_for_a_user_who_is_just_coming(users: Users) -> None:
    user = users.start()
    coming = process_locks.Lock(users.home, process_locks.START)
    assert coming.take()
    user.die()

    assert not process_locks._stopped_for_want_of_users(
        users.home, process_locks.Lock(users.home, process_locks.SUPERVISOR)
    )

    assert not users.server_is_gone()
    coming.release()


def test_a_killed_keeper_is_replaced_by_the_next_user(users: Users) -> None:
    users.start()
    psutil.Process(supervisor_of(users)).kill()
    until(users.keeper_is_gone)

    users.start()

    until(lambda: not users.keeper_is_gone())


def test_the_supervisor_is_small_and_idle(users: Users) -> None:
    users.start()
    until(lambda: not users.keeper_is_gone())
    supervisor = Path(f"/proc/{supervisor_of(users)}")
    if not supervisor.exists():
        pytest.skip("asks the proc file system")
    if (supervisor / "exe").resolve() != Path(sys.executable).resolve():
        pytest.skip("an emulator's memory and time would be counted")

    rss = next(line for line in (supervisor / "status").read_text().splitlines() if line.startswith("VmRSS"))
    ticks = sum(map(int, (supervisor / "stat").read_text().rpartition(")")[2].split()[11:13]))

    assert int(rss.split()[1]) < 12_000
    assert ticks < 20  # a fifth of a second, all of it to start Python
