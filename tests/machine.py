"""The machine a person has: a shell, the command `pgengram`, and processes that can be looked for."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from helpers import PATIENCE_S, environment
from pgengram.postgres import process_locks, server_status, start_embedded

COMMAND = shutil.which(
    "pgengram", path=os.pathsep.join((os.path.dirname(sys.executable), sysconfig.get_path("scripts")))
)
has_terminals = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminal")
by_its_command = pytest.mark.skipif(
    sys.platform == "win32" and COMMAND is None, reason="`pip install --target` leaves the command out there"
)


def pgengram(*arguments: str, expect: int = 0, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person would and return what it printed."""
    ended = subprocess.run(
        [sys.executable, "-m", "pgengram", *arguments],
        env=environment(**settings) | {"COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == expect, f"{arguments}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended


def answered(*arguments: str, expect: int = 0, **settings: str) -> Any:
    """Run a command that prints JSON, and return it."""
    return json.loads(pgengram(*arguments, expect=expect, **settings).stdout)


def typed_in_a_terminal(
    keys: str, *arguments: str, expect: int = 0, meanwhile: Callable[[], object] = lambda: None, **settings: str
) -> str:
    """Type `keys` into the command once it asks a question, after `meanwhile`, and return all that the terminal showed."""
    import pty

    shown, asked = b"", False
    terminal, theirs = pty.openpty()
    command = subprocess.Popen(
        [sys.executable, "-m", "pgengram", *arguments],
        env=environment(**settings) | {"COLUMNS": "200"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    for read in what_comes(terminal):
        shown += read
        if b"[y/N]" in shown and not asked:
            asked = True
            meanwhile()
            os.write(terminal, keys.encode())
    os.close(terminal)
    assert command.wait(PATIENCE_S) == expect, shown.decode()
    return shown.decode()


def what_comes(terminal: int) -> Iterator[bytes]:
    """Yield what a terminal shows until its command ends; hang up and fail where nothing comes for `PATIENCE_S`."""
    with suppress(OSError):  # on Linux the end of a terminal
        while True:
            if not select.select([terminal], [], [], PATIENCE_S)[0]:
                os.close(terminal)
                pytest.fail("the command neither shows anything nor ends")
            if not (read := os.read(terminal, 4_096)):
                return
            yield read


def exit_code(pid: int) -> int:
    """Wait for a child to end and return its exit code; end it where it goes on for `PATIENCE_S`."""
    deadline = time.monotonic() + PATIENCE_S
    while (over := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return os.waitstatus_to_exitcode(over[1])


def is_over(folder: Path) -> bool:
    """Whether nothing of the folder's server is left."""
    return not server_status(folder).running and not process_locks.is_held(
        str(folder / "postgres" / process_locks.SERVER)
    )


def copied(folder: Path, place: Path) -> None:
    """Copy a data folder whose server is stopped, with the owners of its files."""
    if sys.platform == "win32":
        shutil.copytree(folder, place, dirs_exist_ok=True)
    else:
        subprocess.run(["cp", "-a", f"{folder}/.", str(place)], check=True)


@contextmanager
def kept_running(folder: Path) -> Iterator[None]:
    """Use the server of a folder, so that it doesn't stop and start again between two commands."""
    server = start_embedded(folder)
    try:
        yield
    finally:
        server.stop()


@contextmanager
def closed_in_the_end(folder: Path) -> Iterator[Path]:
    """Yield the folder and stop its server afterwards, whatever happened."""
    try:
        yield folder
    finally:
        home = str(folder / "postgres")
        if Path(home).exists():
            process_locks.stop_server(home)
