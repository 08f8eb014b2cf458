"""One server for all who use a folder: made once, there while anybody uses it, gone after the last."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_users import Users, supervisor_of, until

from pgengram.errors import NotReady
from pgengram.postgres import process_locks, server_status, start_embedded, system

posix = pytest.mark.skipif(sys.platform == "win32", reason="written with the signals of Unix")


def test_users_who_come_at_the_same_moment_to_an_empty_folder_make_one_server(newcomers: Users) -> None:
    together = [newcomers.launch() for _ in range(4)]
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
    assert server_status(newcomers.folder).present == 4


def test_the_server_stays_for_the_others_and_goes_with_the_last(users: Users) -> None:
    first, last = users.start(), users.start()

    first.stop()
    assert last.asks("SELECT 1") == [(1,)]

    last.stop()
    assert users.server_is_gone()
    assert not server_status(users.folder).running


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


@posix
def test_nothing_of_the_server_holds_the_pipes_or_the_terminal_of_the_user_who_started_it(users: Users) -> None:
    starter, other = users.start(), users.start()
    session = os.getsid(starter.process.pid)

    os.killpg(session, signal.SIGINT)  # what Ctrl-C does
    starter.process.wait(60)

    assert starter.process.stdout is not None
    reader = threading.Thread(target=starter.process.stdout.read, daemon=True)
    reader.start()
    reader.join(60)
    assert not reader.is_alive(), "somebody still holds the pipe of the dead user"
    assert other.asks("SELECT 1") == [(1,)]
    assert session not in {os.getsid(server_status(users.folder).pid or 0), os.getsid(supervisor_of(users))}


@posix  # Windows renames no folder in which a file is open
def test_stopping_twice_and_stopping_after_the_folder_has_gone_change_nothing(settled: Path) -> None:
    database = start_embedded(settled)
    other = start_embedded(settled)

    database.stop()
    database.stop()

    assert server_status(settled).present == 1
    other.stop()
    (settled / "postgres").rename(settled / "elsewhere")
    other.stop()


@pytest.fixture
def somebody_at_work(settled: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[process_locks.Lock]:
    """The lock of somebody who is starting or stopping the server; whoever waits for it looks often."""
    monkeypatch.setattr(system, "ATTEMPT_S", 0.1)
    start = process_locks.Lock(str(settled / "postgres"), process_locks.START)
    assert start.take()
    yield start
    start.release()


def test_whoever_comes_meanwhile_waits_for_another_who_gets_on(
    settled: Path, somebody_at_work: process_locks.Lock
) -> None:
    somebody_at_work.release()
    running = start_embedded(settled)
    assert somebody_at_work.take()

    def work() -> None:
        for written in range(60):
            (settled / "postgres" / "draft").write_text("x" * written)
            time.sleep(0.05)
        somebody_at_work.release()

    worker, heard = threading.Thread(target=work), list[str]()
    worker.start()
    came = start_embedded(settled, timeout_s=1, report=heard.append)  # a third of what the work takes
    worker.join()
    came.stop()
    running.stop()

    assert heard == ["Another process is preparing the database…"]


def test_somebody_who_does_not_get_on_is_waited_for_no_longer(
    settled: Path, somebody_at_work: process_locks.Lock
) -> None:
    with pytest.raises(NotReady, match="makes no progress") as told:
        start_embedded(settled, timeout_s=1)

    assert "Close the assistants" in told.value.hint
    assert not server_status(settled).running
