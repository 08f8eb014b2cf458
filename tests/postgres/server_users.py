"""Users of embedded servers as real processes, and what puts an end to them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from helpers import PATIENCE_S
from pgengram.postgres import process_locks, system

SETPRIV = shutil.which("setpriv")
SOMEONE = "nobody"
AS_ROOT = os.geteuid() == 0 if sys.platform != "win32" else False


def until(true: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
    """Wait until `true` holds, and fail when it does not within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


class User:
    """A process that uses the server of a folder."""

    def __init__(self, folder: Path, uid: int | None) -> None:
        command = [sys.executable, str(Path(__file__).with_name("one_user.py")), str(folder)]
        if uid is not None:
            # May read everything, as it would if Python were installed for it, and owns nothing.
            caps = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
            command = [SETPRIV or "", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *caps, *command]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.said: list[str] = []
        self.url = ""

    def hears(self, word: str) -> str:
        """Wait for a line that begins with `word` and return the rest of it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.strip())
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError(f"it ended without saying {word}: {self.said}")

    def ready(self) -> User:
        self.url = self.hears("ready")
        return self

    def answer(self, order: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        self.answer("stop")
        self.hears("stopped")

    def die(self) -> None:
        self.process.kill()
        self.process.wait()

    def asks(self, sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []


class Users:
    """Starts users of one folder, all as the same user of the system."""

    def __init__(self, folder: Path, uid: int | None) -> None:
        self.folder = folder
        self.uid = uid
        self.all: list[User] = []

    @property
    def home(self) -> str:
        return str(self.folder / "postgres")

    def launch(self) -> User:
        self.all.append(User(self.folder, self.uid))
        return self.all[-1]

    def start(self) -> User:
        return self.launch().ready()

    def server_is_gone(self) -> bool:
        return process_locks.has_ended(self.home)

    def keeper_is_gone(self) -> bool:
        return not process_locks.is_held(os.path.join(self.home, process_locks.SUPERVISOR))


def put_out(folder: Path) -> None:
    """End the server of `folder` and its supervisor, whoever uses it."""
    home = str(system.home_of(folder))
    if not os.path.exists(os.path.join(home, process_locks.START)):
        return
    start = process_locks.Lock(home, process_locks.START)
    assert start.take(60)
    try:
        assert process_locks.stop_server(home)
    finally:
        start.release()
    for supervisor in supervisors_of(folder):
        with suppress(psutil.NoSuchProcess):  # it may have ended by itself meanwhile
            process = psutil.Process(supervisor)
            process.kill()
            process.wait(PATIENCE_S)


def supervisors_of(folder: Path) -> list[int]:
    """Return the pids of the supervisors, by the home in their command line."""
    ours = [process_locks.__file__, str(system.home_of(folder))]
    return [one.pid for one in psutil.process_iter() if command_line_of(one)[-2:] == ours]


def command_line_of(process: psutil.Process) -> list[str]:
    """Return the words of its command line; none where it ended meanwhile, for which psutil has no error of its own on Windows."""
    try:
        return list(process.cmdline())
    except (psutil.Error, OSError):
        return []


def supervisor_of(users: Users) -> int:
    """Return the pid of the one supervisor there is."""
    [supervisor] = supervisors_of(users.folder)
    return supervisor
