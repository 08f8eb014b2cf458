"""Short forms of `benchmarks/stress.py`: what it measures for minutes is shown here in seconds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import stress

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stress command needs ps and SIGKILL")


async def stressed(run: str, *options: str) -> dict[str, Any]:
    """Do one run and return what it measured; how long it may take is for the benchmark to judge, on a quiet machine."""
    return dict((await stress.measured([run], stress.parsed([run, *options])))[run])


async def test_no_acknowledged_memory_is_lost_or_doubled_when_server_tree_or_database_are_killed() -> None:
    measured = await stressed("kill", "--rounds", "3")

    assert (measured["lost"], measured["duplicated"], measured["errors that do not say so"]) == (0, 0, 0)
    assert measured["acknowledged"] > 0
    assert measured["left unacknowledged"] > 0, "nothing was under way when something was killed"
    assert {one["target"] for one in measured["each round"]} == {"server", "tree", "database"}


@pytest.mark.nightly
async def test_callers_that_retry_by_key_lose_and_double_nothing_while_the_database_restarts() -> None:
    measured = await stressed("restart", "--seconds", "4", "--every", "2")

    for how in ("embedded", "by url"):
        assert measured[f"{how}: failed calls"] > 0, "no call met a restart"
        assert measured[f"{how}: errors that do not say so"] == 0
        assert (measured[f"{how}: lost"], measured[f"{how}: duplicated"], measured[f"{how}: unfinished"]) == (0, 0, 0)


@pytest.mark.nightly
async def test_eight_clients_that_start_at_once_on_an_empty_folder_lose_nothing() -> None:
    measured = await stressed("clients", "--writes", "10")

    assert (measured["acknowledged"], measured["errors"], measured["missing"]) == (80, 0, 0)


@pytest.mark.nightly
async def test_memory_stays_flat_and_cancelled_calls_leave_nothing_half_done() -> None:
    measured = await stressed("leak", "--calls", "200", "--cancelled", "20", "--leak-embedder", "none:")

    assert measured["growth MB"] < 32
    assert measured["cancelled calls with more than one row"] == 0
    assert (measured["connections left in a transaction"], measured["failed afterwards"]) == (0, 0)


@pytest.mark.nightly
async def test_what_is_said_is_kept_once_though_hooks_and_servers_are_killed_and_no_process_is_left() -> None:
    measured = await stressed("capture", "--turns", "8", "--kills", "4")

    assert (measured["lost"], measured["doubled"], measured["processes left"]) == (0, 0, 0)
    assert measured["killed while they were kept"] == {"server": 2, "hook": 2}
