"""Users of embedded servers as real processes, and the certainty that none of them survives its test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_users import AS_ROOT, SETPRIV, SOMEONE, Users, put_out


@pytest.fixture
def folder() -> Iterator[Path]:
    """A data folder that does not exist yet; its path leaves room for a socket's, as not every `tmp_path` does."""
    with tempfile.TemporaryDirectory(prefix="pgengram-test-") as above:
        made = Path(above) / "data"
        yield made
        put_out(made)


@pytest.fixture(
    params=[
        "ourselves",
        pytest.param(
            "someone", marks=pytest.mark.skipif(not (AS_ROOT and SETPRIV), reason="only root can become someone else")
        ),
    ]
)
def users(request: pytest.FixtureRequest, folder: Path) -> Iterator[Users]:
    """Users of one empty folder: run by whoever runs the tests, and by an ordinary user when that is root."""
    uid = None
    if request.param == "someone":
        import pwd

        uid = pwd.getpwnam(SOMEONE).pw_uid
    if uid is not None:
        folder.mkdir(mode=0o700)
        os.chown(folder, uid, uid)
    made = Users(folder, uid)
    yield made
    for user in made.all:
        user.process.kill()
        user.process.communicate()
