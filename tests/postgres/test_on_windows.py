"""The embedded server where Windows differs: paths in a code page, and folders that cannot be renamed while they are open."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from server_users import put_out

from pgengram.errors import NotReady
from pgengram.postgres import process_locks, server_status, start_embedded, system
from pgengram.runtime import operating_system
from windows_like import refused

LINES = ["4711", "{folder}", "1795382201", "5432", "", "127.0.0.1", "0 0", "ready"]


def answers(*given: Any) -> Any:
    """Return a function that goes like each of these in turn: an error is raised, a function called."""
    left = iter(given)

    def changed(*arguments: Any) -> Any:
        one = next(left)
        if one is open:
            return open(*arguments)
        raise one

    return changed


def store(folder: Path, sql: str) -> list[tuple[object, ...]]:
    """Run a statement on the server of a folder as its only user."""
    server = start_embedded(folder)
    try:
        with psycopg.connect(server.url, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []
    finally:
        server.stop()


def test_a_pid_file_with_a_path_in_the_code_page_is_read(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    text = "\n".join(LINES).format(folder=r"C:\Jürgen M") + "\n"
    (tmp_path / "cluster" / "postmaster.pid").write_bytes(text.encode("cp1252"))

    lines = process_locks.announced(str(tmp_path))

    assert [lines[at] for at in (0, 3, 5, 7)] == ["4711", "5432", "127.0.0.1", "ready"]


def test_a_pid_file_that_is_just_being_removed_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_locks, "REFUSED_PAUSES_S", (0.01, 0.01, 0.01, 0.0))
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "postmaster.pid").write_text("\n".join(LINES) + "\n")

    monkeypatch.setattr(process_locks, "open", answers(PermissionError, PermissionError, open), raising=False)
    assert process_locks.announced(str(tmp_path))[0] == "4711"

    monkeypatch.setattr(process_locks, "open", answers(PermissionError, FileNotFoundError), raising=False)
    assert process_locks.announced(str(tmp_path)) == []


def test_a_start_waits_until_the_file_of_a_killed_server_cannot_be_taken_for_the_next_ones(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    assert process_locks.mistakable_s(str(tmp_path), 1_795_382_201.5) == 0

    (tmp_path / "cluster" / "postmaster.pid").write_text("\n".join(LINES) + "\n")

    seconds = [process_locks.mistakable_s(str(tmp_path), 1_795_382_201 + passed) for passed in (0.5, 2.5, 3.0, 3_600)]
    assert seconds == [2.5, 0.5, 0, 0]


@pytest.mark.parametrize("name", ["日本", "OneDrive - Häuser & Söhne"])
def test_data_lives_in_a_folder_of_any_name_and_its_server_ends_with_its_last_user(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name / "data"

    store(folder, "CREATE TABLE kept AS SELECT 'Zoë 日本' AS said")

    assert process_locks.has_ended(str(system.home_of(folder)))
    assert not server_status(folder).running
    assert store(folder, "SELECT said FROM kept") == [("Zoë 日本",)]


@pytest.fixture
def narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose path the code page cannot hold, and a common folder for programs beside it."""
    common = tmp_path / "ProgramData"
    common.mkdir()
    monkeypatch.setattr(operating_system, "CODE_PAGE", "cp1252")
    monkeypatch.setattr(operating_system, "short_form", lambda path: path)
    monkeypatch.setattr(system, "common_folder", lambda: common)
    folder = tmp_path / "日本"
    yield folder
    if system.home_of(folder).exists():
        put_out(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="takes a link for the short form, which needs more rights there")
def test_a_path_that_the_code_page_cannot_hold_is_said_in_its_short_form(
    narrow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow.mkdir()
    short = tmp_path / "8F3A~1"
    short.symlink_to(narrow, target_is_directory=True)
    monkeypatch.setattr(operating_system, "short_form", lambda path: Path(str(path).replace("日本", short.name)))

    store(narrow, "CREATE TABLE kept AS SELECT 1 AS n")

    assert server_status(narrow).folder == short / "postgres"
    assert (narrow / "postgres" / "cluster" / "PG_VERSION").exists()
    assert store(narrow, "SELECT n FROM kept") == [(1,)]


def test_without_a_short_form_the_data_lies_in_the_common_folder_closed_to_others(narrow: Path, tmp_path: Path) -> None:
    store(narrow, "CREATE TABLE kept AS SELECT 1 AS n")

    [place] = (tmp_path / "ProgramData").iterdir()
    assert server_status(narrow).folder == place
    assert (place / "cluster" / "PG_VERSION").exists()
    if sys.platform != "win32":
        assert place.stat().st_mode & 0o077 == 0
    assert store(narrow, "SELECT n FROM kept") == [(1,)]
    assert [*(tmp_path / "ProgramData").iterdir()] == [place]


def test_without_a_common_folder_the_path_is_named_with_what_to_set(narrow: Path, tmp_path: Path) -> None:
    (tmp_path / "ProgramData").rmdir()

    with pytest.raises(NotReady, match="code page") as answer:
        start_embedded(narrow)

    assert str(narrow) in answer.value.message
    assert "PGENGRAM_DATA_DIR" in answer.value.hint


def is_cluster(source: Path, _: Path) -> bool:
    return source.name == "cluster.new"


def test_a_rename_that_is_refused_nine_times_succeeds_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operating_system, "PATIENCE_S", 60.0)
    monkeypatch.setattr(os, "replace", refused(os.replace, 9, when=is_cluster))

    assert store(tmp_path / "data", "SELECT 1") == [(1,)]


def test_a_folder_that_nobody_lets_go_is_an_error_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operating_system, "PATIENCE_S", 0.0)
    monkeypatch.setattr(os, "replace", refused(os.replace, math.inf, when=is_cluster))

    with pytest.raises(NotReady, match="used by another process"):
        start_embedded(tmp_path / "data")


def test_a_folder_is_removed_though_somebody_looks_at_it_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "former" / "base").mkdir(parents=True)
    monkeypatch.setattr(operating_system, "PATIENCE_S", 60.0)
    monkeypatch.setattr(os, "rmdir", refused(os.rmdir, 9))

    operating_system.remove_tree(tmp_path / "former")

    assert not (tmp_path / "former").exists()


def test_a_folder_is_removed_though_somebody_else_removes_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "former" / "base").mkdir(parents=True)
    (tmp_path / "former" / "base" / "2609").touch()
    remove = os.unlink

    def removed_before(path: str, **where: int) -> None:
        remove(path, **where)
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(os, "unlink", removed_before)

    operating_system.remove_tree(tmp_path / "former")

    assert not (tmp_path / "former").exists()
