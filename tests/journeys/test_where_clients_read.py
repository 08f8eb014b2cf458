"""Clients whose settings are elsewhere than usual, or that have lost our entry: connected where they read, and told of."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pgengram.cli.app import app
from pgengram.cli.clients import client_configs as c

CLASSIC = "Roaming/Claude/claude_desktop_config.json"
PACKAGED = "Local/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/claude_desktop_config.json"
LOADED = "Linux version 6.6.87.2-microsoft-standard-WSL2 (root@439a258ad544) (gcc 11.2.0) #1 SMP"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("USERPROFILE", str(place))
    monkeypatch.setenv("APPDATA", str(place / "Roaming"))
    monkeypatch.setenv("LOCALAPPDATA", str(place / "Local"))
    monkeypatch.setenv("PGENGRAM_DATA_DIR", str(place / "store"))
    monkeypatch.setenv("PGENGRAM_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return place


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where files are looked for as on Windows."""
    monkeypatch.setattr(c.sys, "platform", "win32")


@pytest.fixture
def wsl(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Linux within Windows."""
    kernel = home / "version"
    kernel.write_text(LOADED)
    monkeypatch.setattr(c, "KERNEL", kernel)
    monkeypatch.setattr(c.sys, "platform", "linux")
    monkeypatch.setenv("WSL_DISTRO_NAME", "Ubuntu-24.04")


def typed(*words: str, expect: int = 0) -> Result:
    result = CliRunner().invoke(app, [*words])
    assert result.exit_code == expect, (result.output, result.exception)
    return result


def doctor() -> dict[str, tuple[bool, str, str]]:
    findings = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).output)
    return {one["what"]: (one["ok"], one["seen"], one["repair"]) for one in findings}


def made(path: Path, text: str = "{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# -- Windows ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="there the fixtures change nothing")
@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("classic", [True, False], ids=["after an older build", "alone"])
@pytest.mark.parametrize("begun", [True, False], ids=["started before", "never started"])
def test_the_packaged_build_of_claude_desktop_is_connected_in_its_own_folder(
    home: Path, classic: bool, begun: bool
) -> None:
    packaged = home / PACKAGED
    packaged.parents[3 if not begun else 0].mkdir(parents=True)
    if classic:
        made(home / CLASSIC)

    assert c.CLIENTS["claude-desktop"].path() == packaged
    rows = {row["client"]: row for row in json.loads(typed("connect", "--json").output)}
    typed("connect", "claude-desktop", "--yes")

    assert rows["claude-desktop"]["path"] == str(packaged)
    assert "memory" in json.loads(packaged.read_text())["mcpServers"]
    assert not classic or (home / CLASSIC).read_text() == "{}"
    typed("disconnect", "claude-desktop", "--yes")


@pytest.mark.skipif(sys.platform == "win32", reason="there the fixtures change nothing")
@pytest.mark.usefixtures("windows")
def test_without_a_package_claude_desktop_is_connected_where_it_always_was(home: Path) -> None:
    (home / "Local" / "Packages" / "Claudia_1").mkdir(parents=True)

    assert c.CLIENTS["claude-desktop"].path() == home / CLASSIC


@pytest.mark.skipif(sys.platform == "win32", reason="there the fixtures change nothing")
def test_doctor_tells_of_an_entry_in_a_file_that_the_packaged_build_does_not_read(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(home / CLASSIC, json.dumps({"mcpServers": {"memory": {"command": "pgengram"}}}))
    (home / PACKAGED).parent.mkdir(parents=True)
    monkeypatch.setattr(c.Client, "_packaged", lambda self: home / PACKAGED if self.packaged else None)
    monkeypatch.setattr(c, "_programs_folder", lambda: home / "Roaming")
    monkeypatch.setitem(c.FOLDERS, "{apps}", lambda: home / "Roaming")

    ok, seen, repair = doctor()["Claude Desktop"]

    assert not ok
    assert f"{home / CLASSIC}, which the installed build doesn't read" in seen
    assert "pgengram connect claude-desktop" in repair


# -- WSL ----------------------------------------------------------------------------------------------------------------

WINDOWED = [name for name, client in c.CLIENTS.items() if client.windowed]


@pytest.mark.skipif(sys.platform == "win32", reason="not within it")
@pytest.mark.usefixtures("wsl")
@pytest.mark.parametrize("client", WINDOWED)
def test_within_windows_a_program_of_windows_is_not_connected_in_a_file_that_it_does_not_read(
    client: str, home: Path
) -> None:
    before = sorted(home.rglob("*"))
    refused = typed("connect", client, "--yes", expect=2)
    shown = typed("connect", client, "--print").output

    assert sorted(home.rglob("*")) == before
    assert "on Windows it doesn't read" in " ".join(refused.output.split())
    assert f"connect {client} --print" in " ".join(refused.output.split())
    assert "wsl.exe" in shown
    for part in ("Ubuntu-24.04", "--exec", f"PGENGRAM_DATA_DIR={home / 'store'}"):
        assert part in shown


@pytest.mark.skipif(sys.platform == "win32", reason="not within it")
@pytest.mark.usefixtures("wsl")
def test_within_windows_programs_of_this_linux_are_connected_as_ever(home: Path) -> None:
    made(home / ".cursor" / "mcp.json")
    for client in ("cursor", "claude-code", "codex"):
        typed("connect", client, "--yes")
        assert c.CLIENTS[client].path().exists()


# -- a client that rewrote its settings -----------------------------------------------------------------------------------


def test_doctor_names_the_client_that_has_lost_its_entry(home: Path) -> None:
    made(home / ".cursor" / "mcp.json", '{"mcpServers": {"github": {"command": "gh"}}}')
    typed("connect", "cursor", "--yes")
    typed("connect", "claude-code", "--name", "notes", "--yes")
    assert doctor().keys() >= {"Cursor", "Claude Code"}
    if os.name == "posix":
        assert (home / "store" / "connected.json").stat().st_mode & 0o077 == 0

    made(home / ".cursor" / "mcp.json", '{"mcpServers": {"github": {"command": "gh"}}}')
    (home / ".claude.json").unlink()
    told = doctor()

    for title, name, client in (("Cursor", "memory", "cursor"), ("Claude Code", "notes", "claude-code")):
        ok, seen, repair = told[title]
        assert not ok
        assert f"{name} was connected, and is no longer in {c.CLIENTS[client].path()}" in seen
        assert f"pgengram connect {client}" in repair
    assert "--name notes" in told["Claude Code"][2]


def test_doctor_is_silent_about_what_was_disconnected_taken_out_by_hand_or_removed_with_its_project(home: Path) -> None:
    project = home / "project"
    project.mkdir()
    typed("connect", "cursor", "--yes")
    typed("disconnect", "cursor", "--yes")
    typed("connect", "gemini-cli", "--yes")
    typed("connect", "claude-code", "--folder", str(project), "--yes")
    shutil.rmtree(project)
    c.CLIENTS["gemini-cli"].path().write_text("{}")
    assert "Gemini CLI" in doctor()

    typed("disconnect", "gemini-cli", "--yes", expect=1)  # there is none, and now it is known

    assert doctor()["Assistants"][1].startswith("none is connected")


def test_a_record_that_cannot_be_read_or_written_stops_nothing(home: Path) -> None:
    for text in ("{", "[1]", "[[1, 2]]", '{"a": 1}', '[["nobody", "x", "y"]]'):
        made(home / "store" / "connected.json", text)
        typed("connect", "cursor", "--yes")
        typed("disconnect", "cursor", "--yes")
    made(home / "store" / "connected.json", "{")
    assert "none is connected" in doctor()["Assistants"][1]
    (home / "store" / "connected.json").unlink()
    (home / "store" / "connected.json").mkdir()
    typed("connect", "cursor", "--yes")
    assert "Cursor" in doctor()
