"""Whom a turn of a conversation is about tells whether a question has the right speaker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from mcp import Client

from helpers import call, examples, remember
from pgengram.search.results.evidence import is_about_listener
from pgengram.text.language import persons
from pgengram.text.languages import languages

SAID = (
    ("Ann", "Hello Ben! I slept badly, and my train was late again."),
    ("Ben", "How was your kayak tour around the island, and did you like the blue paddle you bought?"),
    ("Ann", "Wonderful! Thank you for asking."),
    ("Ben", "I stayed at home and repaired my old radio."),
    ("Ann", "Your radio must be older than you are. Did you find a new valve for it?"),
)


async def test_a_turn_that_asks_the_other_about_something_speaks_of_the_other(client: Client) -> None:
    for speaker, text in SAID:
        await remember(client, text, speaker=speaker, session_id="tours")

    async def sure_of(question: str) -> float:
        return float((await call(client, "search_memories", query=question))["results"][0]["score"])

    assert await sure_of("What did Ann think of the kayak tour around the island?") > 0.1 + await sure_of(
        "What did Ben think of the kayak tour around the island?"
    )
    assert await sure_of("Did Ben find a new valve for the radio?") > 0.1 + await sure_of(
        "Did Ann find a new valve for the radio?"
    )


@pytest.mark.parametrize(
    ("said", "of_listener"),
    [
        ("I won the race.", False), ("You won the race!", True), ("What a race.", False), ("I think you won your race.", True),
        ("I was ill, and my knee hurts. How was your race?", True), ("I was at the race. How was your day, and your knee?", False),
        ("Ich war krank. Wie war dein race?", True), ("我病了。你的 race 怎么样？", True), ("Nice race. Thank you, you are kind.", True),
    ],
)  # fmt: skip
def test_the_sentences_nearest_to_the_question_tell_then_the_whole_turn(said: str, of_listener: bool) -> None:
    assert is_about_listener(said, lambda sentence: "race" in sentence) == of_listener


@pytest.mark.parametrize("language", [code for code, one in languages().items() if one.first_person])
def test_no_word_is_of_both_persons(language: str) -> None:
    of = languages()[language]
    first, second = (set(words.split()) for words in (of.first_person, of.second_person))
    assert first
    assert second
    assert not first & second


@pytest.mark.parametrize(
    ("text", "language", "counts"),
    [
        ("I told you that my house is ours.", "en", (3, 1)), ("Ich habe dir mein Haus gezeigt.", "de", (2, 1)), ("我爱你", "zh", (1, 1)),
        ("Je t’ai vu avec ton frère.", "fr", (1, 2)), ("Где твоя книга? Я её не видел.", "ru", (1, 1)), ("The bus is late.", "en", (0, 0)),
        ("I saw you.", "xx", (0, 0)), ("", "en", (0, 0)),
    ],
)  # fmt: skip
def test_words_for_either_person_are_counted_in_the_language_of_the_text(
    text: str, language: str, counts: tuple[int, int]
) -> None:
    assert persons(text, language) == counts


@effort(max_examples=examples(100), deadline=None)
@given(st.text(max_size=300) | st.text("Iyou my.!?。\n ", max_size=300))
def test_any_text_is_about_somebody(text: str) -> None:
    assert is_about_listener(text, len) in (True, False)
