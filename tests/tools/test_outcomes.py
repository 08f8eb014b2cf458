"""update_memory with outcome: how often a procedure worked, where it failed, and how long it took."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client

from helpers import Answer, Database, Served, call, connected, read, refused, remember


async def procedure(client: Client, **metadata: Any) -> str:
    return await remember(
        client, "Release: tag, build, upload.", type="procedural", metadata={"steps": ["tag", "build"], **metadata}
    )


async def tried(client: Client, id_: str, outcome: str, **more: Any) -> Answer:
    """Tell of an attempt and return the detail of the procedure."""
    answer = await call(client, "update_memory", id=id_, outcome=outcome, **more)
    return dict(answer["memory"]["detail"])


@pytest.mark.shows(26)
async def test_outcomes_make_the_success_rate(client: Client) -> None:
    id_ = await procedure(client)

    first = await tried(client, id_, "success")
    await tried(client, id_, "failure", failure_point="The upload timed out.")
    last = await tried(client, id_, "success")

    assert (first["success_count"], first["total_attempts"], first["success_rate"]) == (1, 1, 1)
    assert (last["success_count"], last["total_attempts"]) == (2, 3)
    assert last["success_rate"] == pytest.approx(2 / 3)
    assert last["failure_points"] == ["The upload timed out."]
    assert last["steps"] == ["tag", "build"]


@pytest.mark.shows(26)
async def test_outcomes_told_at_the_same_moment_all_count(served: Served) -> None:
    client = served.client
    id_ = await procedure(client)
    async with connected(database_url=served.db.url, embedder="none:") as other:
        reply = [("success", {}), ("failure", {"failure_point": "a"}), ("failure", {"failure_point": "b"})] * 4

        await asyncio.gather(*(tried(one, id_, how, **more) for one in (client, other) for how, more in reply))

    detail = (await read(client, id_))["detail"]
    assert (detail["success_count"], detail["total_attempts"]) == (8, 24)
    assert sorted(detail["failure_points"]) == ["a"] * 8 + ["b"] * 8


async def test_a_failure_without_a_point_is_counted_too(client: Client) -> None:
    id_ = await procedure(client, success_count=1, total_attempts=1)

    detail = await tried(client, id_, "failure")

    assert (detail["success_count"], detail["total_attempts"], detail["success_rate"]) == (1, 2, 0.5)
    assert "failure_points" not in detail


@pytest.mark.parametrize(
    ("known", "expected"),
    [("a", ["a", "b"]), ({"at": "a"}, [{"at": "a"}, "b"]), (["a", "a"], ["a", "a", "b"]), (0, [0, "b"])],
    ids=str,
)
async def test_a_failure_point_is_added_to_what_is_there(client: Client, known: object, expected: object) -> None:
    id_ = await procedure(client, failure_points=known)

    assert (await tried(client, id_, "failure", failure_point="b"))["failure_points"] == expected


async def test_the_newest_hundred_failure_points_are_kept(client: Client) -> None:
    id_ = await procedure(client, failure_points=[str(n) for n in range(100)])

    points = (await tried(client, id_, "failure", failure_point="new"))["failure_points"]

    assert points == [*(str(n) for n in range(1, 100)), "new"]


async def test_the_average_duration_is_the_mean_of_the_attempts(client: Client, db: Database) -> None:
    id_ = await procedure(client)

    for seconds in (60, 120, 0):
        await tried(client, id_, "success", duration=seconds)

    assert db.value("SELECT extract(epoch FROM average_duration)::float FROM procedural_memories") == 60
    assert (await read(client, id_))["detail"]["average_duration"] == "00:01:00"


async def test_an_attempt_without_a_duration_leaves_the_average(client: Client, db: Database) -> None:
    id_ = await procedure(client, average_duration=90, total_attempts=3)

    await tried(client, id_, "success")

    assert db.value("SELECT extract(epoch FROM average_duration)::float FROM procedural_memories") == 90


async def test_the_history_tells_of_each_attempt(client: Client, db: Database) -> None:
    id_ = await procedure(client)

    await tried(client, id_, "failure", failure_point="The disk was full.")

    reply = db.history(id_)[-1]
    assert reply["operation"] == "outcome"
    assert reply["changes"] == {
        "detail.total_attempts": [0, 1], "detail.failure_points": [None, ["The disk was full."]],
    }  # fmt: skip


async def test_trying_a_procedure_is_a_use_of_it(client: Client, db: Database) -> None:
    id_ = await procedure(client)

    await tried(client, id_, "success")

    [used] = db.rows("SELECT access_count, reinforcement FROM memory_activation")
    assert used["access_count"] == 1
    assert used["reinforcement"] is not None


async def test_an_outcome_can_come_with_another_change(client: Client) -> None:
    id_ = await procedure(client)

    answer = await call(
        client, "update_memory", id=id_, outcome="success", importance=0.9, metadata={"steps": ["build"]}
    )

    memory = answer["memory"]
    assert (memory["importance"], memory["detail"]["steps"], memory["detail"]["success_count"]) == (0.9, ["build"], 1)


async def test_a_dry_run_counts_nothing(client: Client) -> None:
    id_ = await procedure(client)

    answer = await call(client, "update_memory", id=id_, outcome="success", dry_run=True)

    assert answer["changed_fields"] == ["detail.total_attempts", "detail.success_count"]
    assert (await read(client, id_))["detail"]["total_attempts"] == 0


@pytest.mark.parametrize("type_", ["episodic", "semantic", "strategic"])
async def test_only_a_procedure_has_outcomes(client: Client, db: Database, type_: str) -> None:
    id_ = await remember(client, "No procedure.", type=type_)

    error = await refused(client, "update_memory", id=id_, outcome="success")

    assert error["code"] == "INVALID_INPUT"
    assert "procedural" in error["message"]
    assert len(db.history(id_)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "maybe"}, {"failure_point": "a"}, {"duration": 5}, {"outcome": "success", "failure_point": "a"},
        {"outcome": "success", "duration": -1}, {"outcome": "success", "metadata": {"totalAttempts": 5}},
        {"outcome": "failure", "failure_point": "x" * 1_025},
    ],
    ids=str,
)  # fmt: skip
async def test_an_outcome_that_does_not_fit_is_refused(client: Client, db: Database, change: dict[str, Any]) -> None:
    id_ = await procedure(client)

    error = await refused(client, "update_memory", id=id_, **change)

    assert error["code"] == "INVALID_INPUT"
    assert len(db.history(id_)) == 1
