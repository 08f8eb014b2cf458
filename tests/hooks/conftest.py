from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hooked_assistant import Assistant

from helpers import PATIENCE_S, Database


@pytest.fixture
def assistant(database: Database) -> Iterator[Assistant]:
    """An assistant whose store nobody serves yet."""
    folder = Path(tempfile.mkdtemp(prefix="pg-hooks-"))  # short, as the path of a socket has to be
    made = Assistant({"database_url": database.url, "embedder": "none:", "data_dir": str(folder), "project": ""})
    yield made
    for server in made.momentary():
        server.terminate()
        server.wait(PATIENCE_S)
    shutil.rmtree(folder)
