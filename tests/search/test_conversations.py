"""Ranking in conversations: neighbours, speakers and days help, and memories outside them do not suffer."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from helpers import call, found, hits, remember
from pgengram.ui.pages.page_application import PARTS

NOW = "2026-05-13T12:00:00Z"


async def answer(client: Client, session_id: str, *turns: tuple[str, str], **more: Any) -> list[str]:
    items = [{"content": said, "speaker": speaker, "session_id": session_id, **more} for speaker, said in turns]
    return [result["memory_id"] for result in (await call(client, "create_memories", items=items))["results"]]


SMALL_TALK = [("Ann", "Good morning to you."), ("Bob", "Lovely weather, isn't it."), ("Ann", "The bus was late again.")]


async def test_a_reply_that_leaves_the_subject_out_is_found_by_the_question_before_it(client: Client) -> None:
    await answer(
        client, "other", ("Ann", "Did the plumber come?"), ("Bob", "Since Tuesday, under the old oak."), *SMALL_TALK
    )

    question, reply, *_ = await answer(
        client, "talk", ("Ann", "Where have you buried the treasure chest?"), ("Bob", "Under the old oak, since May."), *SMALL_TALK
    )  # fmt: skip

    ranked = await hits(client, "Where is the treasure chest buried?", limit=10)
    assert {hit["id"] for hit in ranked[:2]} == {question, reply}
    [hit] = [hit for hit in ranked if hit["id"] == reply]
    assert hit["why"]["near_by"] > 0.3
    assert hit["why"]["words"] == 0


TALK = [
    "Ann: Where have you buried the treasure chest?", "Bob: Under the old oak, since May.", "Ann: Good morning to you.",
    "Bob: Lovely weather, isn't it.",
]  # fmt: skip


async def near_by(client: Client, lines: list[str], wanted: str) -> float | None:
    """Store lines in sequence, without a session, and return what the neighbours of the wanted one are worth to it."""
    await call(client, "create_memories", items=[{"content": line} for line in lines])
    ranked = await hits(client, "Where is the treasure chest buried?", limit=10)
    return next(hit["why"].get("near_by") for hit in ranked if hit["content"] == wanted)


async def test_lines_that_people_say_in_turn_are_a_conversation_without_a_session_of_their_own(client: Client) -> None:
    worth = await near_by(client, TALK, TALK[1])

    assert worth is not None
    assert worth > 0.3


@pytest.mark.parametrize(
    "lines",
    [
        [line.partition(": ")[2] for line in TALK],
        TALK[:2],
        [line.replace("Bob", "Ann") for line in TALK],
    ],
    ids=["nobody speaks", "each speaks once", "one speaks"],
)
async def test_other_lines_are_no_conversation(client: Client, lines: list[str]) -> None:
    assert await near_by(client, lines, lines[1]) is None


async def test_the_same_words_are_worth_less_away_from_the_question_they_answer(client: Client) -> None:
    *_, near = await answer(
        client, "talk", ("Ann", "Where is the treasure chest?"), ("Bob", "Hm."), ("Bob", "Under the oak.")
    )
    *_, far = await answer(client, "elsewhere", ("Ann", "Hello."), ("Bob", "Hm!"), ("Bob", "Under the oak!"))

    scores = {hit["id"]: hit["score"] for hit in await hits(client, "Where is the treasure chest?")}

    assert scores[near] > 2 * scores[far]


async def test_words_of_the_question_still_hold_two_turns_later_and_no_longer(client: Client) -> None:
    said = ("Ann", "The treasure chest, yes."), ("Bob", "Hm."), ("Ann", "Under the oak."), ("Bob", "Near the oak.")
    ids = await answer(client, "talk", *said)

    heard = {
        hit["id"]: hit["why"].get("heard", 0)
        for hit in await hits(client, "Is the treasure chest at the oak?", limit=10)
    }

    assert heard[ids[1]] == heard[ids[0]] > 0.5
    assert heard[ids[2]] == pytest.approx(1, abs=0.001)
    assert heard[ids[3]] == pytest.approx(1 - heard[ids[0]], abs=0.001)


async def test_the_page_draws_every_part_of_a_score(client: Client) -> None:
    said = ("Ann", "Where is the treasure chest?"), ("Bob", "Bob put it under the oak in May."), ("Ann", "Hm.")
    await answer(client, "talk", *said, occurred_at="2026-05-10T12:00:00Z")

    ranked = await hits(client, "Where did Bob put the treasure chest in May 2026?")

    parts = {name for hit in ranked for name in hit["why"]} - {"distance", "found_by"}
    assert {"heard", "near_by", "voice", "period"} < parts <= PARTS.keys()


async def test_a_turn_far_away_in_the_same_conversation_is_not_lifted(client: Client) -> None:
    fillers = [("Bob", f"Small talk of no matter, part {n}.") for n in range(12)]
    ids = await answer(client, "talk", ("Ann", "Where is the treasure chest?"), *fillers, ("Bob", "Under the old oak."))

    by_id = {hit["id"]: hit for hit in await hits(client, "Where is the treasure chest?", limit=50)}

    assert by_id[ids[1]]["why"]["near_by"] > 3 * by_id[ids[-1]]["why"].get("near_by", 0)


async def test_what_the_named_person_said_comes_first(client: Client) -> None:
    _, ann, bob = await answer(
        client, "talk", ("Bob", "Well."), ("Ann", "I adore long hikes in the hills."), ("Bob", "I adore long hikes in the hills too.")
    )  # fmt: skip

    for name, wanted in (("Ann", ann), ("Bob", bob), ("ANN", ann), ("Ann's", ann)):
        ranked = await hits(client, f"Does {name} adore long hikes?")
        assert ranked[0]["id"] == wanted
        assert ranked[0]["why"]["voice"] == 1


async def test_to_speak_is_worth_more_than_to_be_spoken_to(client: Client) -> None:
    said = "I adore long hikes in the hills."
    _, ann, bob = await answer(client, "talk", ("Bob", "Well."), ("Ann", f"Bob, {said}"), ("Bob", f"Ann, {said}"))

    for name, wanted, other in (("Ann", ann, bob), ("Bob", bob, ann)):
        scores = {hit["id"]: hit["score"] for hit in await hits(client, f"Does {name} adore long hikes?")}
        assert scores[wanted] > 2 * scores[other]


async def test_of_two_people_named_none_is_preferred(client: Client) -> None:
    await answer(client, "talk", ("Ann", "I adore hikes."), ("Bob", "I detest hikes."))

    assert all("voice" not in hit["why"] for hit in await hits(client, "Do Ann and Bob adore hikes?"))


async def test_a_note_that_nobody_says_does_not_stand_behind_when_a_speaker_is_named(client: Client) -> None:
    await answer(client, "talk", ("Ann", "Good morning."), ("Bob", "Hm."))
    note = await remember(client, "She adores long hikes in the hills.")

    [first, *_] = await found(client, "Does Ann adore long hikes?")

    assert first == note


@pytest.mark.parametrize("name", ["Élodie", "İpek", "Иван", "Ångström", "민준", "O'Neil"])
async def test_a_speaker_of_any_script_is_known_by_name(client: Client, name: str) -> None:
    await answer(client, "talk", ("Bob", "I like elephants very much."), (name, "I like elephants well enough."))

    [first, *_] = await hits(client, f"Which animals does {name} like?")

    assert (first["speaker"], first["why"].get("voice")) == (name, 1)


async def test_a_name_does_not_pull_all_memories_of_that_person(client: Client) -> None:
    chatter = [("Caroline", f"Caroline here, it is Caroline again, number {n}.") for n in range(40)]
    await answer(client, "chatter", *chatter)
    [pottery] = await answer(client, "talk", ("Caroline", "My pottery class began in spring."))

    [first, *_] = await found(client, "Does Caroline make ceramics?")

    assert first == pottery


DAYS = {
    "last March": "2026-03-10T10:00:00Z",
    "in 2023": "2023-08-01T10:00:00Z",
    "yesterday": "2026-05-12T18:00:00Z",
    "three weeks ago": "2026-04-22T10:00:00Z",
    "last week": "2026-05-06T10:00:00Z",
    "on 24 December 2024": "2024-12-24T20:00:00Z",
}


@pytest.fixture
async def walks(client: Client) -> dict[str, str]:
    """The same walk on many days, in conversations and outside."""
    days = {**DAYS, "long ago": "2011-01-01T00:00:00Z", "now": NOW}
    return {
        when: await remember(client, "We walked along the river.", occurred_at=day, session_id=f"day {day}", speaker="Ann")
        for when, day in days.items()
    }  # fmt: skip


@pytest.mark.parametrize("when", DAYS)
async def test_a_time_in_the_question_prefers_what_happened_then(
    client: Client, walks: dict[str, str], when: str
) -> None:
    [first, *others] = await hits(client, f"Where did we walk {when}?", now=NOW)

    assert first["id"] == walks[when]
    assert first["why"]["period"] >= 0.5
    assert len(others) == len(walks) - 1


async def test_yesterday_is_the_day_before_the_moment_that_is_given(client: Client, walks: dict[str, str]) -> None:
    [first, *_] = await found(client, "Where did we walk yesterday?", now="2026-04-23T08:00:00+02:00")

    assert first == walks["three weeks ago"]


async def test_a_time_is_a_preference_and_no_filter(client: Client) -> None:
    id_ = await remember(client, "The treasure chest is under the oak.", occurred_at="2020-01-01T00:00:00Z")

    assert (await found(client, "Where was the treasure chest in 2023?"))[0] == id_


async def test_a_fact_outside_any_conversation_is_found_among_many_turns(client: Client) -> None:
    for talk in range(4):
        turns = [("Ann", f"Did you see the garden, part {n}?") for n in range(6)] + [
            ("Bob", f"I saw the gate {n}.") for n in range(6)
        ]
        await answer(client, f"talk {talk}", *turns)  # fmt: skip
    fact = await remember(client, "The key to the garden gate hangs behind the door.")

    for query in ("Where does the key to the garden gate hang?", "garden gate key", "key behind the door"):
        assert (await found(client, query))[0] == fact


async def test_the_same_words_outside_a_conversation_are_worth_as_much_as_in_one(client: Client) -> None:
    said, *_ = await answer(client, "talk", ("Ann", "The boiler is serviced by the firm Dahl."), *SMALL_TALK)
    fact = await remember(client, "The boiler is serviced by the firm Dahl!")

    scores = {hit["id"]: hit["score"] for hit in await hits(client, "Which firm services the boiler?")}

    assert scores[fact] >= scores[said]


async def test_turns_of_another_conversation_are_no_neighbours(client: Client) -> None:
    await answer(client, "one", ("Ann", "Where is the treasure chest?"))
    [other] = await answer(client, "two", ("Bob", "Under the old oak."))

    by_id = {hit["id"]: hit for hit in await hits(client, "Where is the treasure chest?")}

    assert "near_by" not in by_id[other]["why"]


async def test_a_forgotten_neighbour_lifts_nobody(client: Client) -> None:
    asked, reply = await answer(client, "talk", ("Ann", "Where is the treasure chest?"), ("Bob", "Under the old oak."))
    await call(client, "forget_memories", ids=[asked])

    [hit] = await hits(client, "Where is the treasure chest?")

    assert (hit["id"], hit["why"].get("near_by", 0)) == (reply, 0)


@pytest.mark.parametrize("label", ["Wifi", "Node Version", "Geburtstag", "Deadline", "Zugangscode", "Тариф"])
async def test_a_note_that_begins_with_a_label_is_said_by_nobody(client: Client, label: str) -> None:
    note = await remember(client, f"{label}: 4711 since spring.")
    await remember(client, "The boat lies in the harbour.")

    [first, *_] = await hits(client, f"What is the {label.lower()}?")

    assert first["id"] == note
    assert not {"voice", "near_by", "heard"} & first["why"].keys()


ANSWER = (
    "Here is how a treasure chest is buried, step by step. "
    + "Choose a spot for the treasure chest, dig, and cover it well. " * 60
)


LONG_TALK = [
    ("user", "I buried my treasure chest under the old oak behind the mill."), ("assistant", ANSWER),
    ("user", "And how deep should I dig?"), ("assistant", f"On depth: {ANSWER}"), ("user", "Thanks, and tools?"), ("assistant", f"On tools: {ANSWER}"),
]  # fmt: skip


async def test_the_user_s_own_short_turn_is_found_among_an_assistant_s_long_answers(client: Client) -> None:
    [own, *_] = await answer(client, "talk", *LONG_TALK)

    assert (await found(client, "Where did I bury my treasure chest?"))[0] == own


@pytest.mark.parametrize(
    "question", ["Where did I bury my treasure chest?", "How deep was the treasure chest in the end?"]
)
async def test_in_a_long_chat_with_an_assistant_no_evidence_is_claimed(client: Client, question: str) -> None:
    await answer(client, "talk", *LONG_TALK)

    searched = await call(client, "search_memories", query=question)
    recalled = await call(client, "recall_context", context=question)

    assert "evidence" not in searched
    assert not any("unlikely" in hit for hit in searched["results"])
    assert ("evidence" in recalled, recalled["count"] > 0) == (False, True)
