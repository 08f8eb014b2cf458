"""A word is found in another of its forms, in the languages that Snowball has rules for."""

from __future__ import annotations

import pytest

from helpers import Served, call, found, owned_tables
from pgengram.text.lexical.stems import foreign_stems
from pgengram.text.lexical.words import words

# What is stored, and a question that shares no form of a word with it.
FORMS = {
    "de": ("Das Haus von Ines hat keinen Balkon.", "Welche Häuser gibt es?"),
    "es": ("Marta estudiaba alemán en la escuela.", "¿Quién quiere estudiar?"),
    "fr": ("Le voyage à Lyon est annulé pour toujours.", "Pourquoi faut-il annuler?"),
    "ru": ("Анна купила красную машину.", "Где стоят машины?"),
    "it": ("Lucia coltiva pomodori sul balcone.", "Di chi è il pomodoro?"),
    "sv": ("Hunden är rädd för raketerna.", "Varför är hundar rädda?"),
}


@pytest.mark.parametrize("language", FORMS)
async def test_other_forms_of_its_words_find_a_memory_by_words_alone(serving: Served, language: str) -> None:
    stored, question = FORMS[language]
    serving.db.empty(owned_tables())
    await call(serving.client, "create_memories", items=[{"content": stored}, {"content": "The tea house is closed."}])
    [right] = await found(serving.client, stored, mode="substring")
    assert await found(serving.client, question, mode="text") == [right]


@pytest.mark.parametrize("text", ["The cats of Ines were eating.", "烏龍茶を飲みます", "std::vector", ""])
def test_what_is_english_or_has_no_rules_gets_no_further_stems(text: str) -> None:
    assert foreign_stems(text, words(text)) == []
