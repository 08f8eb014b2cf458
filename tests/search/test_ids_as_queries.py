"""Whoever searches for an id gets the memory that has it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from helpers import call, read, remember
from pgengram.inputs import Question
from pgengram.search.question import parse

OTHERS = ("The boat lies in the harbour.", "Ines teaches chemistry.", "The kayak leaks at the stern.")


@pytest.mark.parametrize(
    "written", ["{0}", "{1}", "{1}…", "[{1}]", "memory://{0}", "urn:uuid:{0}", "Memory ID: {0}.", "memory_id={0}"]
)
async def test_an_id_or_its_end_finds_its_memory_first(client: Client, written: str) -> None:
    wanted = await remember(client, "Nothing in this text looks like an id.")
    for text in OTHERS:
        await remember(client, text)

    answer = await call(client, "search_memories", query=written.format(wanted, wanted[-8:]))

    assert (answer["results"][0]["id"], answer["evidence"]) == (wanted, "strong")
    assert "unlikely" not in answer["results"][0]
    assert (await read(client, written.format(wanted, wanted[-8:])))["id"] == wanted


async def test_the_id_of_a_forgotten_memory_or_of_none_finds_nothing_in_particular(client: Client) -> None:
    gone = await remember(client, "Nothing in this text looks like an id.")
    await remember(client, OTHERS[0])
    await call(client, "forget_memories", ids=[gone])

    for query in (gone, "0123456789abcdef", "20261127"):
        answer = await call(client, "search_memories", query=query)
        assert gone not in [hit["id"] for hit in answer["results"]]
        assert answer["evidence"] != "strong"


@pytest.mark.parametrize(
    "asked",
    ["what does {1} say?", "Was steht in {0}?", "¿Qué dice «{1}»?", "{1}を見せて", "compare {1}, please", "is (memory://{0}) still true?"],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["auto", "text"])
async def test_an_id_inside_a_question_finds_its_memory_first(client: Client, asked: str, mode: str) -> None:
    wanted = await remember(client, "Nothing in this text looks like a number.")
    for text in OTHERS:
        await remember(client, text)

    answer = await call(client, "search_memories", query=asked.format(wanted, wanted[-8:]), mode=mode)

    assert (answer["results"][0]["id"], answer["evidence"]) == (wanted, "strong")


async def test_two_ids_in_a_question_find_both_memories_first(client: Client) -> None:
    ids = [await remember(client, text) for text in OTHERS]
    await remember(client, "The choir meets on Mondays.")

    answer = await call(client, "search_memories", query=f"Does {ids[0][-8:]} disagree with {ids[2]}?")

    assert {hit["id"] for hit in answer["results"][:2]} == {ids[0], ids[2]}


@pytest.mark.parametrize(
    "asked", ["Who decided on 2026-11-27?", "the facade is deadbeef", "order 20261127", "call +4930123456"]
)
async def test_what_only_looks_like_an_id_is_searched_as_words(client: Client, asked: str) -> None:
    wanted = await remember(client, f"Noted: {asked}")
    for text in OTHERS:
        await remember(client, text)

    first = (await call(client, "search_memories", query=asked))["results"][0]

    assert (first["id"], "id" in first["why"]["found_by"]) == (wanted, False)


HEX = "0123456789abcdef"


@given(st.text(alphabet=HEX, min_size=8, max_size=8) | st.text(alphabet="abcdef", min_size=8, max_size=8))
def test_whatever_digits_or_letters_an_id_ends_in_a_question_that_holds_them_asks_for_it(end: str) -> None:
    for asked in ("{}を見せて", "compare {}, please", "¿Qué dice «{}»?"):
        assert parse(Question(query=asked.format(end)), datetime.now(UTC)).ids == [end]
