"""Identity and worldview: who the assistant is, what it believes, and on which memories that rests."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from mcp import Client

from helpers import Answer, Database, Served, call, connected, refused, remember

SERVER = {"toolsets": "all", "embedder": "none:"}
SECRET = "ghp_" + "a8Zk3Qp7Rt5Lw9Xc2Vb6Nm4Jh1Gf0Ds3Ty7U"


async def believe(client: Client, belief: str, **more: Any) -> str:
    return str((await call(client, "record_belief", belief=belief, **more))["belief_id"])


async def beliefs(client: Client, **asked: Any) -> list[Answer]:
    return list((await call(client, "get_worldview", **asked))["beliefs"])


async def words(client: Client, **asked: Any) -> list[str]:
    return [belief["belief"] for belief in await beliefs(client, **asked)]


# -- identity ----------------------------------------------------------------------------------------------------------


async def test_without_a_recording_the_answer_says_so_and_is_no_error(client: Client) -> None:
    answer = await call(client, "get_identity_core")

    assert "identity" not in answer
    assert answer["recordings"] == 0
    assert "record_identity" in answer["message"]


@pytest.mark.shows(38)
async def test_what_was_recorded_last_holds_and_what_was_left_out_is_taken_along(client: Client) -> None:
    await call(client, "record_identity", self_concept={"role": "archivist"}, purpose_framework="Keep what matters.")
    await call(client, "record_identity", self_concept={"role": "librarian"}, change_resistance=0)

    answer = await call(client, "get_identity_core")

    identity = answer["identity"]
    assert identity["self_concept"] == {"role": "librarian"}
    assert identity["purpose_framework"] == "Keep what matters."
    assert identity["change_resistance"] == 0
    assert "emotional_baseline" not in identity
    assert answer["recordings"] == 2


async def test_the_newest_is_told_by_time_and_not_by_its_key(client: Client, db: Database) -> None:
    await call(client, "record_identity", self_concept="first")
    await call(client, "record_identity", self_concept="second")
    db.rows("UPDATE memory_identities SET id = 'ffffffff-ffff-4fff-bfff-ffffffffffff' WHERE self_concept = '\"first\"'")

    assert (await call(client, "get_identity_core"))["identity"]["self_concept"] == "second"


async def test_earlier_recordings_are_kept_and_shown_on_request(client: Client) -> None:
    for number in range(3):
        await call(client, "record_identity", self_concept=number)

    answer = await call(client, "get_identity_core", earlier=5)

    assert answer["identity"]["self_concept"] == 2
    assert [recording["self_concept"] for recording in answer["earlier"]] == [1, 0]


@pytest.mark.parametrize("value", [0, False, "", [], {}, 0.0])
async def test_an_empty_aspect_is_one_that_was_recorded(client: Client, value: Any) -> None:
    await call(client, "record_identity", self_concept="something", agency_beliefs=value)

    identity = (await call(client, "get_identity_core"))["identity"]

    assert identity["agency_beliefs"] == value
    assert type(identity["agency_beliefs"]) is type(value) or value == 0.0


async def test_an_aspect_is_emptied_on_request(client: Client) -> None:
    await call(client, "record_identity", self_concept="something", threat_sensitivity=0.4)

    answer = await call(client, "record_identity", clear=["threat_sensitivity"])

    assert answer["changed_fields"] == ["threat_sensitivity"]
    assert "threat_sensitivity" not in answer["identity"]
    assert answer["identity"]["self_concept"] == "something"


async def test_recording_the_same_again_records_nothing(client: Client) -> None:
    await call(client, "record_identity", self_concept={"a": 1}, threat_sensitivity=0.4)

    answer = await call(client, "record_identity", self_concept={"a": 1})

    assert answer["changed_fields"] == []
    assert answer["recordings"] == 1


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"threat_sensitivity": 1.1},
        {"change_resistance": -0.1},
        {"clear": ["id"]},
        {"clear": ["self_concept"], "self_concept": "both"},
        {"self_image": "unknown"},
        {"self_concept": "\x00"},
    ],
)
async def test_a_bad_recording_changes_nothing(client: Client, bad: dict[str, Any]) -> None:
    await call(client, "record_identity", self_concept="stays")

    assert (await refused(client, "record_identity", **bad))["code"] == "INVALID_INPUT"
    answer = await call(client, "get_identity_core")
    assert (answer["identity"]["self_concept"], answer["recordings"]) == ("stays", 1)


async def test_aspects_recorded_at_the_same_moment_are_all_there(client: Client) -> None:
    aspects = ["self_concept", "agency_beliefs", "purpose_framework", "group_identifications", "boundary_definitions"]

    await asyncio.gather(*(call(client, "record_identity", **{aspect: aspect}) for aspect in aspects))

    answer = await call(client, "get_identity_core")
    assert {aspect: answer["identity"][aspect] for aspect in aspects} == {aspect: aspect for aspect in aspects}
    assert answer["recordings"] == 5


async def test_a_secret_in_an_aspect_is_refused(client: Client) -> None:
    error = await refused(client, "record_identity", boundary_definitions={"token": [f"use {SECRET}"]})

    assert error["code"] == "SECRET_REJECTED"
    assert SECRET not in str(error)
    assert (await call(client, "get_identity_core"))["recordings"] == 0


# -- worldview ---------------------------------------------------------------------------------------------------------


async def test_without_a_belief_the_worldview_is_empty_and_says_so(client: Client) -> None:
    answer = await call(client, "get_worldview")

    assert (answer["beliefs"], answer["total"]) == ([], 0)
    assert "record_belief" in answer["message"]


@pytest.mark.shows(38)
async def test_the_surest_beliefs_come_first_and_then_the_most_stable(client: Client) -> None:
    await believe(client, "Unsure.", confidence=0.2, stability=1)
    await believe(client, "Sure and firm.", confidence=0.9, stability=0.9)
    await believe(client, "Sure and loose.", confidence=0.9, stability=0.1)
    await believe(client, "Not at all.", confidence=0)

    assert await words(client) == ["Sure and firm.", "Sure and loose.", "Unsure.", "Not at all."]
    assert await words(client, min_confidence=0.9) == ["Sure and firm.", "Sure and loose."]
    assert await words(client, limit=1) == ["Sure and firm."]
    assert (await call(client, "get_worldview", limit=1))["total"] == 4


async def test_beliefs_are_chosen_by_what_they_are_about(client: Client) -> None:
    await believe(client, "Tests save time.", category="Engineering")
    await believe(client, "Mornings are calm.", category="people")
    await believe(client, "Most things change.")

    assert await words(client, category="engineering") == ["Tests save time."]
    assert await words(client, category="general") == ["Most things change."]


@pytest.mark.shows(38)
async def test_a_belief_shows_the_memories_that_are_its_evidence(client: Client) -> None:
    two_hours = await remember(client, "The tests found the fault within two hours.")
    a_week = await remember(client, "Without tests the fault was found after a week.")
    no_help = await remember(client, "The tests did not find the fault in billing.")

    await believe(client, "Tests save time.", supported_by=[two_hours, a_week[-8:]], contradicted_by=[no_help])

    [belief] = await beliefs(client)
    assert (belief["supporting"], belief["contradicting"]) == (2, 1)
    assert {(one["id"], one["supports"]) for one in belief["evidence"]} == {
        (two_hours, True),
        (a_week, True),
        (no_help, False),
    }
    assert belief["evidence"][0]["excerpt"] in (
        "The tests found the fault within two hours.",
        "Without tests the fault was found after a week.",
    )


async def test_the_same_belief_again_changes_it_and_unites_the_evidence(client: Client) -> None:
    one, two, three = [await remember(client, f"Observation {n}.") for n in range(3)]
    id_ = await believe(
        client,
        "Tests save time.",
        confidence=0.6,
        stability=0,
        supported_by=[one],
        contradicted_by=[two],
        details={"a": 1, "b": 2},
    )

    answer = await call(
        client,
        "record_belief",
        belief="tests  SAVE time.",
        confidence=0.7,
        supported_by=[two, three],
        details={"b": None, "c": 3},
    )

    assert (answer["belief_id"], answer["created"]) == (id_, False)
    assert set(answer["changed_fields"]) == {"confidence", "details", "evidence"}
    [belief] = await beliefs(client)
    assert belief["belief"] == "Tests save time."
    assert (belief["confidence"], belief["stability"]) == (0.7, 0)
    assert belief["details"] == {"a": 1, "c": 3}
    assert {(one["id"], one["supports"]) for one in belief["evidence"]} == {(one, True), (two, True), (three, True)}
    assert belief["version"] == 2


async def test_what_is_recorded_so_already_is_not_changed(client: Client) -> None:
    await believe(client, "Tests save time.", confidence=0.6)

    answer = await call(client, "record_belief", belief="Tests save time.", confidence=0.6)

    assert answer["changed_fields"] == []
    assert answer["belief"]["version"] == 1


async def test_zero_is_kept_in_a_belief(client: Client) -> None:
    await believe(client, "Of this nothing is sure.", confidence=0, stability=0, emotional_valence=0)

    [belief] = await beliefs(client)

    assert (belief["confidence"], belief["stability"], belief["emotional_valence"]) == (0, 0, 0)


async def test_a_belief_gets_other_words_by_its_id(client: Client) -> None:
    id_ = await believe(client, "Tests save time.", emotional_valence=-1)

    await call(client, "record_belief", id=id_[-8:], belief="Good tests save time.")

    [belief] = await beliefs(client)
    assert (belief["id"], belief["belief"], belief["emotional_valence"]) == (id_, "Good tests save time.", -1)


async def test_a_belief_cannot_take_the_words_of_another(client: Client) -> None:
    id_ = await believe(client, "Tests save time.")
    await believe(client, "Good tests save time.")

    error = await refused(client, "record_belief", id=id_, belief="good tests save time.")

    assert error["code"] == "CONFLICT"
    assert sorted(await words(client)) == ["Good tests save time.", "Tests save time."]


async def test_evidence_that_was_forgotten_is_marked(client: Client) -> None:
    old = await remember(client, "The tests took nine minutes.")
    new = await remember(client, "The tests take two minutes.")
    await believe(client, "Tests are slow.", supported_by=[old])
    await call(client, "forget_memories", ids=[old], reason="It was measured wrongly.", replaced_by_ids=[new])

    [belief] = await beliefs(client)

    [evidence] = belief["evidence"]
    assert evidence["forgotten"] is True
    assert evidence["reason"] == "It was measured wrongly."
    assert evidence["replaced_by"] == [new]


async def test_evidence_is_taken_back(client: Client) -> None:
    one = await remember(client, "Observation.")
    id_ = await believe(client, "A belief.", supported_by=[one])

    await call(client, "record_belief", id=id_, no_evidence=[one])

    [belief] = await beliefs(client)
    assert (belief["evidence"], belief["supporting"]) == ([], 0)


async def test_a_belief_is_removed_by_its_id_and_its_evidence_stays(client: Client) -> None:
    one = await remember(client, "Observation.")
    id_ = await believe(client, "A belief.", supported_by=[one])

    answer = await call(client, "record_belief", id=id_[-12:], remove=True)

    assert (answer["belief_id"], answer["removed"]) == (id_, True)
    assert await beliefs(client) == []
    assert (await call(client, "get_memories", ids=[one]))["memories"][0]["status"] == "active"
    assert (await refused(client, "record_belief", id=id_, remove=True))["code"] == "NOT_FOUND"


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({}, "INVALID_INPUT"),
        ({"belief": " "}, "INVALID_INPUT"),
        ({"belief": "B.", "confidence": 1.01}, "INVALID_INPUT"),
        ({"belief": "B.", "emotional_valence": -1.5}, "INVALID_INPUT"),
        ({"belief": "B.", "supported_by": [str(uuid4())]}, "NOT_FOUND"),
        ({"belief": "B.", "supported_by": ["short"]}, "INVALID_INPUT"),
        ({"id": str(uuid4()), "confidence": 0.5}, "NOT_FOUND"),
        ({"remove": True}, "INVALID_INPUT"),
        ({"belief": "Stays.", "remove": True}, "INVALID_INPUT"),
    ],
)
async def test_a_bad_belief_changes_nothing(client: Client, bad: dict[str, Any], code: str) -> None:
    await believe(client, "Stays.")

    assert (await refused(client, "record_belief", **bad))["code"] == code
    assert await words(client) == ["Stays."]


async def test_a_memory_cannot_speak_for_a_belief_and_against_it(client: Client) -> None:
    one = await remember(client, "Observation.")

    error = await refused(client, "record_belief", belief="B.", supported_by=[one], contradicted_by=[one[-8:]])

    assert error["code"] == "INVALID_INPUT"
    assert await beliefs(client) == []


@pytest.mark.parametrize("where", ["belief", "category", "details"])
async def test_a_secret_in_a_belief_is_refused(client: Client, where: str) -> None:
    given: dict[str, Any] = {
        "belief": "A belief.",
        where: {"key": SECRET} if where == "details" else f"The key is {SECRET}",
    }

    error = await refused(client, "record_belief", **given)

    assert error["code"] == "SECRET_REJECTED"
    assert await beliefs(client) == []


async def test_equal_beliefs_at_once_are_one(client: Client, db: Database) -> None:
    db.as_login(
        "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END'",
        "CREATE TRIGGER linger BEFORE INSERT ON memory_beliefs FOR EACH ROW EXECUTE FUNCTION linger()",
    )

    ids = await asyncio.gather(*(believe(client, "Told several times at once.") for _ in range(4)))

    db.as_login("DROP FUNCTION linger CASCADE")
    assert len(set(ids)) == 1
    assert len(await beliefs(client)) == 1


async def test_another_namespace_has_another_identity_and_other_beliefs(served: Served) -> None:
    await call(served.client, "record_identity", self_concept="mine")
    id_ = await believe(served.client, "Mine.")
    async with connected(
        database_url=served.db.url, toolsets="identity", embedder="none:", namespace="somebody else"
    ) as other:
        assert (await call(other, "get_identity_core"))["recordings"] == 0
        assert await beliefs(other) == []
        assert (await refused(other, "record_belief", id=id_, remove=True))["code"] == "NOT_FOUND"
        await believe(other, "Mine.")

    assert len(await beliefs(served.client)) == 1
