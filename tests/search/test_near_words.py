"""Whoever types a beginning, a part of a compound or a slip finds what was meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from helpers import call, hits
from pgengram.search.question import nearest_words, slips_between

NOTES = (
    "The quarrelsome neighbour keeps peacocks.",
    "Die Haftpflichtversicherung kostet 84 Euro im Jahr.",
    "Termin beim Steuerberater ist am Montag.",
    "We spent a week in Bragança.",
    "The thermocouple of the kiln is worn out.",
    "Vad gör fiskmarknaden på söndagar?",
    "The boat lies in the harbour.",
)
LETTERS = st.text("abcdefghij", min_size=6, max_size=12)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("thermoc", NOTES[4]), ("quarrels", NOTES[0]), ("Steuer", NOTES[2]), ("versicherung", NOTES[1]), ("marknad", NOTES[5]),
        ("quarelsome", NOTES[0]), ("thermocuople", NOTES[4]), ("Steuerbreater", NOTES[2]), ("haftpflichtversichrung", NOTES[1]),
    ],
)  # fmt: skip
async def test_a_beginning_a_part_or_a_slip_finds_the_word_that_is_meant(client: Client, typed: str, text: str) -> None:
    await call(client, "create_memories", items=[{"content": note} for note in NOTES])

    first = (await hits(client, typed))[0]

    assert first["content"] == text
    assert first["why"]["words"] > 0


async def test_a_word_that_was_stored_since_is_meant_at_once(client: Client) -> None:
    await call(client, "create_memories", items=[{"content": note} for note in NOTES])
    await hits(client, "zeppe")
    await call(client, "create_memory", content="The zeppelin museum opens at ten.")

    assert "zeppelin" in (await hits(client, "zeppe"))[0]["content"]


@given(LETTERS, st.integers(0, 4))
def test_two_letters_that_are_swapped_are_one_slip(word: str, place: int) -> None:
    swapped = word[:place] + word[place + 1] + word[place] + word[place + 2 :]

    assert slips_between(word, swapped, 1) == (0 if swapped == word else 1)


@given(LETTERS, LETTERS)
def test_slips_count_alike_from_either_side(one: str, other: str) -> None:
    assert slips_between(one, other, 12) == slips_between(other, one, 12)


def test_beginnings_come_before_parts_and_these_before_slips() -> None:
    assert nearest_words("steuer", ["vorsteuer", "steuern", "steurer", "haus"]) == ["steuern", "vorsteuer", "steurer"]
