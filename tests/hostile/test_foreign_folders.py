"""A server is started in the folder of a project, which somebody else may have written."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from helpers import Database, environment
from pgengram.cli.clients import mcp_client
from pgengram.settings import Settings
from pgengram.store.recovery.backup_schedule import make_apart
from pgengram.store.schema.migrate import migrate_apart


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is worked in, with modules named like some that every start of pgengram imports."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("json", "psycopg", "pgengram", "typing_extensions"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')\n")
    monkeypatch.chdir(folder)
    return folder


def test_no_code_of_the_folder_that_a_server_is_started_in_is_run(
    project: Path, blank: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_client, "PROGRAM", "not installed")
    start = mcp_client.own_command()

    said = subprocess.run(
        [start["command"], *start["args"], "--version"], env=environment(), capture_output=True, check=True
    )
    migrate_apart(blank.url)
    problem = asyncio.run(make_apart(settings, "--if-due"))

    assert said.stdout.startswith(b"pgengram ")
    assert blank.rows("SELECT 1 FROM memories", namespace=None) == []
    assert problem == ""
    assert not (project.parent / "was_run").exists()
