"""Users of embedded servers as real processes, and the certainty that none of them survives its test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from server_users import AS_ROOT, SETPRIV, SOMEONE, Users, put_out

from machine import copied
from pgengram.runtime.operating_system import remove_tree


@pytest.fixture
def folder() -> Iterator[Path]:
    """A data folder that does not exist yet; its path leaves room for a socket's, as not every `tmp_path` does."""
    above = Path(tempfile.mkdtemp(prefix="pgengram-test-"))
    yield above / "data"
    put_out(above / "data")
    remove_tree(above)  # Windows may hold a file of a process that has just ended


@pytest.fixture(scope="session")
def settle() -> Iterator[Callable[[Path, int | None], None]]:
    """Puts data that a server has made before into a folder, which is quicker than to have it made there."""
    with tempfile.TemporaryDirectory(prefix="pgengram-test-") as above:

        @cache
        def made(uid: int | None) -> Path:
            folder = Path(above) / str(uid)
            user = users_of(folder, uid).start()
            user.stop()
            user.process.communicate()
            put_out(folder)
            return folder

        yield lambda folder, uid: copied(made(uid), folder)


@pytest.fixture
def settled(folder: Path, settle: Callable[[Path, int | None], None]) -> Path:
    """A data folder in which a server has been."""
    settle(folder, None)
    return folder


def users_of(folder: Path, uid: int | None) -> Users:
    if uid is not None:
        folder.mkdir(mode=0o700)
        os.chown(folder, uid, uid)
    return Users(folder, uid)


@pytest.fixture(
    params=[
        "ourselves",
        pytest.param(
            "someone",
            marks=[
                pytest.mark.skipif(not (AS_ROOT and SETPRIV), reason="only root can become someone else"),
                pytest.mark.nightly,
            ],
        ),
    ]
)
def newcomers(request: pytest.FixtureRequest, folder: Path) -> Iterator[Users]:
    """Users of one empty folder: run by whoever runs the tests, and by an ordinary user when that is root."""
    uid = None
    if request.param == "someone":
        import pwd

        uid = pwd.getpwnam(SOMEONE).pw_uid
    made = users_of(folder, uid)
    yield made
    for user in made.all:
        user.process.kill()
        user.process.communicate()


@pytest.fixture
def users(newcomers: Users, settle: Callable[[Path, int | None], None]) -> Users:
    """The same users, of a folder in which a server has been."""
    settle(newcomers.folder, newcomers.uid)
    return newcomers
