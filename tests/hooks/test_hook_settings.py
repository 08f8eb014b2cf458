"""`connect --hooks` and `disconnect`: an assistant's own hooks stay, and its file is given back byte for byte."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from helpers import diagonal
from pgengram.cli.app import app
from pgengram.cli.clients import hook_configs, mcp_client
from pgengram.local.events import FORMS
from pgengram.local.socket_server import LocalServer
from pgengram.runtime import local_socket, operating_system
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

OTHERS = """{
  "model": "opus",
    "hooks": {"Stop": [ {"hooks": [{"type": "command", "command": "say done"}]} ], "Notification": []}
}"""
FLAT = """{
  "version": 1,
    "hooks": {"Stop": [ {"command": "say done"} ], "Notification": []}
}"""
STATES = {"no file": None, "empty": "{}\n", "other settings": '{\n\t"model": "opus"\n}', "others' hooks": OTHERS}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home folder."""
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def typed(*words: str, expect: int = 0, **settings: str) -> Result:
    result = CliRunner().invoke(
        app, [*words], env={f"PGENGRAM_{name.upper()}": value for name, value in settings.items()}
    )
    assert result.exit_code == expect, (result.output, result.exception)
    return result


def commands(path: Path) -> dict[str, list[str]]:
    """Return the commands of all hooks in a file, by their events."""
    there: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["hooks"]
    return {
        event: [one["command"] for group in groups for one in group.get("hooks", [group])]
        for event, groups in there.items()
    }


@pytest.mark.parametrize(("client", "state"), diagonal(hook_configs.HOOKS, STATES))
def test_hooks_go_in_beside_those_of_others_and_out_byte_for_byte(home: Path, client: str, state: str) -> None:
    hooks = hook_configs.HOOKS[client]
    path, before = hooks.path, STATES[state]
    if before == OTHERS and not hooks.grouped:
        before = FLAT
    path.parent.mkdir(parents=True)
    if before is not None:
        path.write_text(before, encoding="utf-8")

    typed("connect", client, "--hooks", "--yes")
    there = commands(path)
    typed("connect", client, "--hooks", "--yes")
    again = commands(path)
    typed("disconnect", client, "--yes")

    ours = {event for event, lines in there.items() if any(f" hook {client}" in line for line in lines)}
    assert ours == set(hooks.events.values()) <= set(FORMS[client].kinds)
    assert again == there
    assert ("say done" in there.get("Stop", [])) == (before in (OTHERS, FLAT))
    assert (path.read_text(encoding="utf-8") if path.exists() else None) == before
    assert list(path.parent.glob(f"{path.name}*.bak")) == []


def test_hooks_that_only_recall_keep_no_conversation_and_can_be_had_later(home: Path) -> None:
    path = hook_configs.HOOKS["claude-code"].path

    typed("connect", "claude-code", "--hooks", "--yes")
    typed("connect", "claude-code", "--hooks=recall", "--yes")

    there = commands(path)
    assert set(there) == {"SessionStart", "UserPromptSubmit", "PreCompact"}
    assert all(line.endswith(" --recall") for lines in there.values() for line in lines)


def test_a_hook_finds_the_settings_it_was_connected_with(home: Path) -> None:
    folder = home / "store"
    typed("connect", "claude-code", "--hooks", "--yes", data_dir=str(folder), namespace="work", embedder="none:")
    [line] = commands(hook_configs.HOOKS["claude-code"].path)["SessionEnd"]
    file = folder / "hooks-claude-code.json"

    assert json.loads(file.read_text()) == {
        "PGENGRAM_DATA_DIR": str(folder), "PGENGRAM_NAMESPACE": "work", "PGENGRAM_EMBEDDER": "none:",
    }  # fmt: skip
    assert file.stat().st_mode & 0o077 == 0
    assert shlex.split(line)[-2:] == ["--settings", str(file)]
    ended = subprocess.run(shlex.split(line), input="{", capture_output=True, text=True, check=True)
    assert ended.stdout == ""
    assert "JSONDecodeError" in (folder / "hooks.log").read_text()

    typed("disconnect", "claude-code", "--yes", data_dir=str(folder))
    assert not file.exists()


@pytest.mark.parametrize(
    "words",
    [
        ("warp", "--hooks"),
        ("windsurf", "--hooks=recall"),
        ("claude-code", "--hooks=some"),
        ("claude-code", "--hooks", "--folder", "."),
    ],
)
def test_hooks_that_cannot_be_had_are_refused_before_anything_is_changed(home: Path, words: tuple[str, ...]) -> None:
    typed("connect", *words, "--yes", expect=2)

    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_a_system_without_local_sockets_gets_no_hooks_and_keeps_its_servers(
    home: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(local_socket, "SUPPORTED", False)

    said = typed("connect", "claude-code", "--hooks", "--yes", expect=2).output
    assert "without --hooks" in said
    assert not [path for path in home.rglob("*") if path.is_file()]
    assert asyncio.run(LocalServer(MemoryManager(settings)).start()) is False


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch, home: Path) -> pytest.MonkeyPatch:
    """Where hooks are run by the shells of Windows, and documents lie in OneDrive."""
    monkeypatch.setattr(hook_configs, "WINDOWS", True)
    monkeypatch.setattr("platformdirs.user_documents_path", lambda: home / "OneDrive")
    return monkeypatch


@pytest.mark.parametrize(
    ("folder", "short", "written"),
    [
        (r"C:\Users\mara\bin", "", "C:/Users/mara/bin/pgengram.exe"),
        (r"C:\Jürgen M\bin", r"C:\JRGENM~1\bin", "C:/JRGENM~1/bin/pgengram.exe"),
        (r"D:\O'Brien & Co", "", '"D:/O\'Brien & Co/pgengram.exe"'),  # a drive without short names
    ],
)
def test_git_bash_powershell_and_cmd_run_the_line_that_hooks_get_on_windows(
    windows: pytest.MonkeyPatch, folder: str, short: str, written: str
) -> None:
    windows.setattr(mcp_client, "own_command", lambda: {"command": rf"{folder}\pgengram.exe"})
    windows.setattr(operating_system, "short_form", lambda path: Path(short) if short else path)

    typed("connect", "claude-code", "--hooks", "--yes")

    [line] = commands(hook_configs.HOOKS["claude-code"].path)["SessionStart"]
    assert line == f"{written} hook claude-code"
    assert shlex.split(line) == [written.strip('"'), "hook", "claude-code"]  # as Git Bash reads it


def test_cline_gets_a_script_of_powershell_for_each_event_on_windows(windows: pytest.MonkeyPatch, home: Path) -> None:
    windows.setattr(mcp_client, "own_command", lambda: {"command": r"C:\Users\Zoë O'Brien\pgengram.exe"})
    folder = home / "OneDrive/Cline/Hooks"
    folder.mkdir(parents=True)
    (folder / "TaskCancel.ps1").write_bytes(b"exit 0\r\n")

    typed("connect", "cline", "--hooks", "--yes")
    script = (folder / "TaskStart.ps1").read_bytes()
    there = {path.name for path in folder.iterdir()}
    typed("disconnect", "cline", "--yes")

    assert there == {
        f"{one}.ps1" for one in ("TaskStart", "TaskResume", "UserPromptSubmit", "TaskComplete", "TaskCancel")
    }
    lines = script.decode("utf-8").splitlines()
    assert lines[0].startswith("\ufeff#")  # else PowerShell takes it for the code page
    assert lines[1:] == [
        r"& 'C:\Users\Zoë O''Brien\pgengram.exe' hook cline",
        """if (-not $?) { '{"cancel": false}' }""",
    ]
    assert [path.name for path in folder.iterdir()] == ["TaskCancel.ps1"]


def scripts(home: Path) -> dict[str, bytes]:
    """Return what is in Cline's folder of hooks, which holds one script for each event."""
    return {path.name: path.read_bytes() for path in (home / "Documents/Cline/Hooks").iterdir()}


def test_cline_gets_a_script_for_each_event_that_answers_whatever_happens_and_keeps_those_of_others(home: Path) -> None:
    folder = home / "Documents/Cline/Hooks"
    folder.mkdir(parents=True)
    (folder / "PreToolUse").write_bytes(b"#!/bin/sh\necho '{}'\r\n")
    before = scripts(home)

    typed("connect", "cline", "--hooks", "--yes")
    ours = scripts(home).keys() - before
    answer = subprocess.run(
        [folder / "TaskStart"], input=b"no event", capture_output=True, check=True, env={"HOME": str(home), "PATH": "/nowhere:/bin", "PGENGRAM_DATA_DIR": str(home / "data")}
    )  # fmt: skip
    typed("connect", "cline", "--hooks=recall", "--yes")
    recalling = scripts(home).keys() - before
    typed("disconnect", "cline", "--yes")

    assert json.loads(answer.stdout) == {"cancel": False}
    assert ours == {"TaskStart", "TaskResume", "UserPromptSubmit", "TaskComplete"}
    assert recalling == ours - {"TaskComplete"}
    assert scripts(home) == before


def test_a_script_of_somebody_else_for_an_event_of_cline_is_not_replaced(home: Path) -> None:
    folder = home / "Documents/Cline/Hooks"
    folder.mkdir(parents=True)
    (folder / "UserPromptSubmit").write_text("#!/bin/sh\nexit 0\n")
    before = scripts(home)

    refused = typed("connect", "cline", "--hooks", "--yes", expect=1)

    assert "hook cline" in refused.output
    assert scripts(home) == before
