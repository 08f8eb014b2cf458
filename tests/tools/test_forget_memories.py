"""forget_memories: out of every search, with a reason, and nothing erased. Erasing has tests of its own."""

from __future__ import annotations

from uuid import uuid4

import pytest
from mcp import Client

from helpers import Database, call, found, read, refused, remember, said


@pytest.mark.shows(27)
async def test_a_forgotten_memory_is_found_no_more_and_still_read_by_id(client: Client) -> None:
    id_ = await remember(client, "Mira lives in Porto.")
    other = await remember(client, "Ines lives in Braga.")

    answer = await call(client, "forget_memories", ids=[id_], reason="She moved.")

    assert answer["results"] == [{"id": id_, "ok": True, "already_forgotten": False}]
    assert answer["forgotten"] == 1
    assert id_ not in await found(client, "Where does Mira live? Porto")
    assert await found(client) == [other]
    memory = await read(client, id_)
    assert memory["status"] == "invalidated"
    assert memory["reason"] == "She moved."
    assert memory["content"] == "Mira lives in Porto."
    assert memory["valid_to"]


async def test_forgotten_memories_are_found_when_asked_for(client: Client) -> None:
    id_ = await remember(client, "Mira lives in Porto.")
    await remember(client, "Mira lives in Faro.")
    await call(client, "forget_memories", ids=[id_])

    assert await found(client, "Where does Mira live?", status="invalidated") == [id_]
    assert await found(client, status="invalidated") == [id_]


async def test_what_holds_instead_is_told(client: Client) -> None:
    old, new, also = [await remember(client, f"Port {n}.") for n in (5432, 5433, 5434)]

    await call(client, "forget_memories", ids=[old], replaced_by_ids=[new, also[-8:]])

    assert (await read(client, old))["replaced_by"] == [new, also]


async def test_forgetting_twice_is_no_error_and_may_add_the_reason(client: Client) -> None:
    id_ = await remember(client, "Forgotten twice.")
    await call(client, "forget_memories", ids=[id_])

    again = await call(client, "forget_memories", ids=[id_])
    with_reason = await call(client, "forget_memories", ids=[id_[-8:]], reason="It was a joke.")
    without = await call(client, "forget_memories", ids=[id_])

    assert [answer["forgotten"] for answer in (again, with_reason, without)] == [0, 0, 0]
    assert all(answer["results"][0]["already_forgotten"] for answer in (again, with_reason, without))
    assert (await read(client, id_))["reason"] == "It was a joke."


async def test_each_id_has_a_result_of_its_own(client: Client) -> None:
    one, two, lost = await remember(client, "One."), await remember(client, "Two."), str(uuid4())

    answer = await call(client, "forget_memories", ids=[one, lost, two, one])

    assert [result["id"] for result in answer["results"] if result["ok"]] == [one, two]
    [missing] = [result for result in answer["results"] if not result["ok"]]
    assert (missing["id"], missing["error"]["code"]) == (lost, "NOT_FOUND")
    assert answer["forgotten"] == 2


async def test_it_is_an_error_when_none_is_found(client: Client) -> None:
    answer = await client.call_tool("forget_memories", {"ids": [str(uuid4())]})

    assert answer.is_error
    assert "NOT_FOUND" in said(answer)


async def test_nothing_is_forgotten_for_a_replacement_that_is_not_there(client: Client) -> None:
    id_ = await remember(client, "Stays.")

    error = await refused(client, "forget_memories", ids=[id_], replaced_by_ids=[str(uuid4())])

    assert error["code"] == "NOT_FOUND"
    assert (await read(client, id_))["status"] == "active"


async def test_a_memory_cannot_replace_itself(client: Client) -> None:
    id_ = await remember(client, "Stays.")

    error = await refused(client, "forget_memories", ids=[id_], replaced_by_ids=[id_[-10:]])

    assert error["code"] == "INVALID_INPUT"
    assert (await read(client, id_))["status"] == "active"


async def test_what_was_forgotten_can_be_told_again(client: Client) -> None:
    first = await remember(client, "The meeting is on Monday.")
    await call(client, "forget_memories", ids=[first])

    answer = await call(client, "create_memory", content="The meeting is on Monday.")

    assert answer["created"] is True
    assert answer["memory_id"] != first
    assert await found(client, "meeting") == [answer["memory_id"]]


async def test_a_long_reason_is_refused(client: Client) -> None:
    id_ = await remember(client, "Stays.")

    error = await refused(client, "forget_memories", ids=[id_], reason="r" * 1_025)

    assert error["code"] == "INVALID_INPUT"
    assert "reason" in error["message"]
    assert (await read(client, id_))["status"] == "active"


async def test_the_history_tells_what_was_forgotten_and_why(client: Client, db: Database) -> None:
    id_, new = await remember(client, "Old."), await remember(client, "New.")

    await call(client, "forget_memories", ids=[id_], reason="Outdated.")
    await call(client, "forget_memories", ids=[id_], replaced_by_ids=[new])

    _, first, second = db.history(id_)
    assert (first["operation"], first["version"]) == ("forget", 2)
    over = (await read(client, id_))["valid_to"]
    assert first["changes"].pop("valid_to")[0] is None
    assert first["changes"] == {"status": ["active", "invalidated"], "reason": [None, "Outdated."]}
    assert second["changes"].pop("valid_to")[1] == over
    assert second["changes"] == {"replaced_by": [None, [new]]}


async def test_what_is_forgotten_itself_cannot_hold_instead(client: Client) -> None:
    id_, gone = await remember(client, "Stays."), await remember(client, "Gone.")
    await call(client, "forget_memories", ids=[gone])

    error = await refused(client, "forget_memories", ids=[id_], replaced_by_ids=[gone])

    assert error["code"] == "INVALID_INPUT"
    assert gone in error["message"]
    assert (await read(client, id_))["status"] == "active"


async def test_a_memory_that_was_replaced_holds_until_its_replacement_does(client: Client) -> None:
    old = await remember(client, "Mira lives in Porto.", occurred_at="2020-01-01T00:00:00Z")
    new = await remember(client, "Mira lives in Faro.", occurred_at="2024-05-01T00:00:00Z")
    newer = await remember(client, "Mira has a flat in Lagos.", occurred_at="2025-01-01T00:00:00Z")

    await call(client, "forget_memories", ids=[old], replaced_by_ids=[newer, new])

    assert (await read(client, old))["valid_to"] == (await read(client, new))["valid_from"] == "2024-05-01T00:00:00Z"


async def test_what_replaces_a_memory_from_before_its_beginning_ends_it_now(client: Client) -> None:
    old = await remember(client, "Mira lives in Porto.", occurred_at="2020-01-01T00:00:00Z")
    new = await remember(client, "Mira lives in Faro.", occurred_at="2019-01-01T00:00:00Z")

    await call(client, "forget_memories", ids=[old], replaced_by_ids=[new])

    memory = await read(client, old)
    assert memory["valid_to"] == memory["updated_at"]


@pytest.mark.shows(29)
async def test_a_memory_is_split_into_new_ones_in_one_step(client: Client) -> None:
    whole = await remember(client, "Mara moved to Oslo and Jonas bought a boat.")
    parts = [{"content": "Mara moved to Oslo.", "tags": ["oslo"]}, {"content": "Jonas bought a boat."}]

    answer = await call(client, "forget_memories", ids=[whole], reason="two facts", replacements=parts)

    assert (answer["forgotten"], len(answer["replacement_ids"])) == (1, 2)
    assert sorted(await found(client)) == sorted(answer["replacement_ids"])
    gone = await read(client, whole)
    assert (gone["status"], gone["reason"], gone["replaced_by"]) == (
        "invalidated",
        "two facts",
        answer["replacement_ids"],
    )
    assert (await read(client, answer["replacement_ids"][0]))["tags"] == ["oslo"]


@pytest.mark.parametrize(
    ("ids", "parts", "code"),
    [
        ([], [{"content": "One."}, {"content": ""}], "INVALID_INPUT"),
        ([], [{"content": "One."}, {"content": "The pass is ghp_a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5f6G7h8"}], "SECRET_REJECTED"),
        (["deadbeefdead"], [{"content": "One."}], "NOT_FOUND"),
        ([], [{"content": "Both facts."}], "INVALID_INPUT"),
    ],
    ids=["a bad part", "a secret", "an unknown memory", "the same again"],
)  # fmt: skip
async def test_a_split_that_fails_changes_nothing(
    client: Client, db: Database, ids: list[str], parts: list[dict[str, str]], code: str
) -> None:
    whole = await remember(client, "Both facts.")

    error = await refused(client, "forget_memories", ids=[whole, *ids], replacements=parts)

    assert error["code"] == code
    assert (await read(client, whole))["status"] == "active"
    assert db.value("SELECT count(*) FROM memories") == 1


async def test_a_dry_run_of_a_split_stores_nothing(client: Client) -> None:
    whole = await remember(client, "Both facts.")

    await call(client, "forget_memories", ids=[whole], replacements=[{"content": "One."}], dry_run=True)
    error = await refused(client, "forget_memories", ids=[whole], replacements=[{"content": "One."}], hard=True)

    assert error["code"] == "INVALID_INPUT"
    assert await found(client) == [whole]
