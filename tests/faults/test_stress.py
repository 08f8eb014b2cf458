"""Short forms of `benchmarks/stress.py`: what it measures for minutes is shown here in seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from door import environment

ROOT = Path(__file__).parents[2]
LIMIT_S = 300

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stress command needs ps and SIGKILL")


def stressed(tmp_path: Path, run: str, *options: str) -> dict[str, Any]:
    """Do one run, which must keep all of its limits, and return what it measured."""
    report = tmp_path / "report.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "stress.py"), run, *options, "--json", str(report)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return dict(json.loads(report.read_text(encoding="utf-8"))[run])


def test_no_acknowledged_memory_is_lost_or_doubled_when_server_tree_or_database_are_killed(tmp_path: Path) -> None:
    measured = stressed(tmp_path, "kill", "--rounds", "5")

    assert (measured["lost"], measured["duplicated"]) == (0, 0)
    assert measured["acknowledged"] > 0
    assert measured["left unacknowledged"] > 0, "nothing was under way when something was killed"
    assert {one["target"] for one in measured["each round"]} == {"server", "tree", "database"}


def test_callers_that_retry_by_key_lose_and_double_nothing_while_the_database_restarts(tmp_path: Path) -> None:
    measured = stressed(tmp_path, "restart", "--seconds", "4", "--every", "2")

    for how in ("embedded", "by url"):
        assert measured[f"{how}: failed calls"] > 0, "no call met a restart"
        assert measured[f"{how}: errors that do not say so"] == 0
        assert (measured[f"{how}: lost"], measured[f"{how}: duplicated"], measured[f"{how}: unfinished"]) == (0, 0, 0)


def test_eight_clients_that_start_at_once_on_an_empty_folder_lose_nothing(tmp_path: Path) -> None:
    measured = stressed(tmp_path, "clients", "--writes", "10")

    assert (measured["acknowledged"], measured["errors"], measured["missing"]) == (80, 0, 0)


def test_memory_stays_flat_and_cancelled_calls_leave_nothing_half_done(tmp_path: Path) -> None:
    measured = stressed(tmp_path, "leak", "--calls", "600", "--cancelled", "40", "--leak-embedder", "none:")

    assert measured["growth MB"] < 32
    assert measured["cancelled calls with more than one row"] == 0
    assert (measured["connections left in a transaction"], measured["failed afterwards"]) == (0, 0)
