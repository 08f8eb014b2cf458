"""`pgengram hook` ends with 0 and without a word on stderr, whatever it is given: an assistant's session depends on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers import PATIENCE_S, environment

PROMPT = '{"hook_event_name": "Stop", "session_id": "s-1"}'
DEEP = "[" * 100_000
CASES: dict[str, tuple[list[str], str]] = {
    "deep JSON": ([], DEEP),
    "a deep field": ([], '{"hook_event_name": "Stop", "prompt": ' + DEEP + "}"),
    "half a line": ([], '{"hook_event_name": "St'),
    "a number": ([], "7"),
    "a huge number": ([], "9" * 10_000),
    "more than a server takes": ([], '{"prompt": "' + "x" * 16_000_000 + '"}'),
    "no settings named": (["--settings"], PROMPT),
    "settings that are not there": (["--settings", "nowhere.json"], PROMPT),
    "… in one word": (["--settings=nowhere.json"], PROMPT),
    "settings that are a folder": (["--settings", "."], PROMPT),
    "settings that are a list": (["--settings", "list.json"], PROMPT),
    "settings that are deep": (["--settings", "deep.json"], PROMPT),
    "settings with a number": (["--settings", "number.json"], PROMPT),
    "settings with NUL": (["--settings", "nul.json"], PROMPT),
}


def run(folder: Path, client: str, options: list[str], **how: object) -> subprocess.CompletedProcess[str]:
    settings = {"data_dir": str(folder / "store"), "embedder": "none:"}
    given = environment(**{**settings, "database_url": "postgresql://nobody@127.0.0.1:1/none", **how.pop("more", {})})  # type: ignore[dict-item]
    return subprocess.run(
        [sys.executable, "-m", "pgengram", "hook", client, *options], cwd=folder, env=given, stderr=subprocess.PIPE,
        encoding="utf-8", timeout=PATIENCE_S, check=False, **how,  # type: ignore[call-overload]
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "deep.json").write_text(DEEP)
    (tmp_path / "number.json").write_text('{"PGENGRAM_NAMESPACE": 7}')
    (tmp_path / "nul.json").write_text('{"PGENGRAM_NAMESPACE": "a\\u0000b"}')
    return tmp_path


@pytest.mark.parametrize("case", CASES)
def test_it_ends_with_0_and_the_log_says_why(folder: Path, case: str) -> None:
    options, event = CASES[case]
    done = run(folder, "cline", options, input=event, stdout=subprocess.PIPE)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '{"cancel": false}\n'
    log = (folder / "store" / "hooks.log").read_text("utf-8")
    assert "cline: " in log
    assert max(map(len, log.splitlines())) < 1_000
    if sys.platform != "win32":
        assert (folder / "store" / "hooks.log").stat().st_mode & 0o077 == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("data_dir", ["/dev/full", "/dev/full/store", "/proc/nothing"])
def test_it_ends_with_0_where_nothing_can_be_written(folder: Path, data_dir: str) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = run(folder, "cline", [], input="{", stdout=full, more={"data_dir": data_dir})

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX closes them")
def test_it_ends_with_0_where_its_pipes_are_closed(folder: Path) -> None:
    command = f"'{sys.executable}' -m pgengram hook cline <&- >&-"
    given = environment(data_dir=str(folder / "store"), embedder="none:")
    done = subprocess.run(["sh", "-c", command], env=given, stderr=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
