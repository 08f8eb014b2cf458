"""A word is found in another of its forms, and a name in another script."""

from __future__ import annotations

import pytest

from helpers import Served, call, found, owned_tables, remember
from pgengram.text.sounds import asked_sounds, sounds_of_names
from pgengram.text.words import foreign_stems, words

# What is stored, and a question that shares no form of a word with it.
FORMS = {
    "de": ("Das Haus von Ines hat keinen Balkon.", "Welche Häuser gibt es?"),
    "es": ("Marta estudiaba alemán en la escuela.", "¿Quién quiere estudiar?"),
    "fr": ("Le voyage à Lyon est annulé pour toujours.", "Pourquoi faut-il annuler?"),
    "ru": ("Анна купила красную машину.", "Где стоят машины?"),
    "it": ("Lucia coltiva pomodori sul balcone.", "Di chi è il pomodoro?"),
    "hr": ("Ana je kupila crveni automobil koji joj se sviđa.", "Gdje stoje svi automobili?"),
    "tr": ("Marta küçük bir hastanede çalışıyor.", "Kim burada çalışmak istiyor?"),
    "uk": ("Оксана купила новий червоний автомобіль і їздить на ньому.", "Де стоять усі її автомобілі?"),
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


# Names in another script than the memory that has them.
NAMES = {
    "ru": "Где живёт Катарина Лютер?",
    "el": "Πού μένει η Κατερίνα Λούθηρος;",
    "ar": "أين تسكن كاترين لوثر؟",
    "hi": "कैथरीन लूथर कहाँ रहती है?",
}


@pytest.mark.parametrize("language", NAMES)
async def test_a_name_in_another_script_finds_it_as_it_sounds(serving: Served, language: str) -> None:
    serving.db.empty(owned_tables())
    stored = [{"content": "Catherine Luther moved to Bergen."}, {"content": "Someone lives above the bakery."}]
    [right, _] = (await call(serving.client, "create_memories", items=stored))["results"]
    assert await found(serving.client, NAMES[language], mode="text") == [right["memory_id"]]


# Names in a memory in another script than the question, and what else is stored.
STORED_NAMES = {
    "ru": ("Эмиль собирает старинные карты.", "У Марты кот."),
    "el": ("Ο Αιμίλιος συλλέγει παλιούς χάρτες.", "Η Μάρτα έχει μια γάτα."),
    "ja": ("エミルは古い港の地図を集めている。", "マルタは猫を飼っている。"),
    "zh": ("埃米尔收藏旧的港口地图。", "玛尔塔养了一只猫。"),
}


@pytest.mark.parametrize(
    "question", ["What could I give Emil?", "Что подарить Эмилю?", "エミルへの贈り物は？", "送埃米尔什么礼物？"]
)
@pytest.mark.parametrize("language", STORED_NAMES)
async def test_a_name_finds_a_memory_in_another_script_that_has_it(
    serving: Served, language: str, question: str
) -> None:
    serving.db.empty(owned_tables())
    stored = [{"content": text} for text in STORED_NAMES[language]]
    [right, _] = (await call(serving.client, "create_memories", items=stored))["results"]
    assert (await found(serving.client, question, mode="text"))[:1] == [right["memory_id"]]


async def test_who_is_named_stands_before_what_fits_better_and_is_about_another(serving: Served) -> None:
    serving.db.empty(owned_tables())
    stored = [
        {"content": "Emil collects old maps of harbours."},
        {"content": "Peter lent me two hundred euros for the bicycle."},
    ]
    [emil, _] = (await call(serving.client, "create_memories", items=stored))["results"]
    for question in ("Que pourrais-je offrir à Emil ?", "¿Qué le podría regalar a Emil?"):
        assert (await found(serving.client, question))[0] == emil["memory_id"], question


@pytest.mark.parametrize(
    "question", ["who is luther?", "Где живёт лютый зверь?", "¿Dónde vive el pez?", "明天去东门买东西"]
)
def test_only_what_may_be_a_name_is_asked_by_sound(question: str) -> None:
    assert asked_sounds(question, words(question)) == {}


def test_a_name_is_not_asked_by_its_sound_in_its_own_script() -> None:
    asked = asked_sounds("Who is Luther?", ["Luther"])
    assert asked == {"Luther": ["sound:cyrillic:LTR", "sound:greek:LTR", "sound:kana:RTR", "sound:han:RTR"]}


def test_words_that_only_begin_a_sentence_have_no_sound() -> None:
    assert sounds_of_names("There she met Luther. Then they left with Luther's dog.") == ["sound:LTR"]


async def test_what_names_sound_like_makes_no_memory_longer(serving: Served) -> None:
    serving.db.empty(owned_tables())
    texts = ["Walter met Catherine Luther near Bergen.", "near bergen walter met catherine luther."]
    await call(serving.client, "create_memories", items=[{"content": text} for text in texts])
    stored = serving.db.rows("SELECT length, cardinality(terms) AS terms FROM memory_words ORDER BY 2")
    assert [row["length"] for row in stored] == [6, 6]
    assert stored[0]["terms"] < stored[1]["terms"]


@pytest.mark.parametrize(
    ("memory", "question"),
    [
        ("Luther preaches in Wittenberg.", "где живет лютер"),
        ("Katerina keeps bees behind the house.", "πού μένει η κατερίνα"),
        ("Мелвин спит на диване.", "wo schläft melvin"),
    ],
)
async def test_a_name_in_small_letters_finds_it_in_another_script(wordless: Served, memory: str, question: str) -> None:
    stored = await remember(wordless.client, memory)
    await remember(wordless.client, "The kayak leaks at the stern.")

    assert await found(wordless.client, question) == [stored]
