"""A question in another language finds an English memory by its words, which lexicons translate."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from helpers import Database, Served, call, found
from pgengram import Memory
from pgengram.settings import Settings
from pgengram.text import words
from pgengram.text.words import FILE, in_english

ROOT = Path(__file__).parents[2]
STORED = ["The red car is parked beside the hospital.", "Tea tastes best without sugar."]
NOUNS = "Город, река, гора, море, озеро, лес, поле, дорога, мост, окно, дверь, стол, стул, лампа, хлеб, вода, молоко."
# Questions about the first of these that share no word with it.
QUESTIONS = {
    "ar": "أين توجد السيارة الحمراء؟",
    "de": "Wo stehen die roten Autos?",
    "el": "Πού είναι το κόκκινο αυτοκίνητο;",
    "es": "¿Dónde están los coches rojos?",
    "fr": "Où sont les voitures rouges ?",
    "hi": "लाल कार कहाँ है?",
    "ja": "赤い車はどこですか",
    "ko": "빨간 자동차는 어디에 있습니까?",
    "pl": "Gdzie stoją czerwone samochody?",
    "ru": "Где стоят красные машины?",
    "tr": "Kırmızı otomobiller nerede duruyor?",
    "vi": "Xe hơi màu đỏ ở gần bệnh viện nào?",
    "zh": "红色的汽车在哪里？",
}


@pytest.mark.parametrize("language", QUESTIONS)
async def test_a_question_in_another_language_finds_an_english_memory_by_its_words(
    wordless: Served, language: str
) -> None:
    stored = (await call(wordless.client, "create_memories", items=[{"content": text} for text in STORED]))["results"]
    assert await found(wordless.client, QUESTIONS[language]) == [stored[0]["memory_id"]]


async def test_a_memory_with_the_words_themselves_comes_before_one_with_their_translation(wordless: Served) -> None:
    texts = [*STORED, "Красные машины стоят у больницы."]
    stored = (await call(wordless.client, "create_memories", items=[{"content": text} for text in texts]))["results"]
    assert await found(wordless.client, QUESTIONS["ru"]) == [stored[2]["memory_id"], stored[0]["memory_id"]]


async def test_a_search_for_exact_words_is_not_translated(wordless: Served) -> None:
    await call(wordless.client, "create_memories", items=[{"content": text} for text in STORED])
    assert await found(wordless.client, QUESTIONS["ru"], mode="text") == []


def damaged_copy(folder: Path) -> Path:
    damaged = Path(shutil.copy(FILE, folder))
    held = bytearray(damaged.read_bytes())
    held[len(held) // 2] ^= 1
    damaged.write_bytes(held)
    return damaged


async def test_damaged_lexicons_are_not_read_and_the_answer_says_that_it_is_degraded(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(words, "FILE", damaged_copy(tmp_path))

    async with Memory(Settings(database_url=database.url)) as memory:
        await memory.add(STORED[0])
        in_its_language = await memory.search(STORED[0])
        translated = await memory.search(QUESTIONS["ru"])

    assert in_its_language.degraded is False
    assert (translated.degraded, translated.count) == (True, 1)
    assert "Reinstall" in caplog.text


@pytest.mark.parametrize("question", ["Where is the red car?", "", "123", "std::vector", "ይህ ምንድን ነው?"])
def test_english_and_languages_without_a_lexicon_are_not_translated(question: str) -> None:
    assert in_english(question) == {}


def test_words_of_scripts_without_spaces_are_cut_by_the_longest_that_the_lexicon_has() -> None:
    assert in_english("我们什么时候去火车站")["火车"] == ["train"]
    assert in_english("ทีมของเรามีกี่คน")["ทีม"] == ["team", "squad"]
    assert "metropolis" in in_english("Thành phố nào lớn nhất?")["thành phố"]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Какой город на реке?", {"город", "реке"}),
        ("Πόσο κάνει το εισιτήριο;", {"κάνει", "εισιτήριο"}),
        ("من هو صاحب السيارة؟", {"صاحب", "السيارة"}),
        ("घर का रंग क्या था?", {"घर", "रंग"}),
        ("在哪里买了汽车", {"汽车"}),
        ("การแข่งขันของทีม", {"ทีม"}),
    ],
)
def test_words_that_nearly_every_sentence_has_are_not_translated(question: str, words: set[str]) -> None:
    assert in_english(question).keys() <= words


def test_a_turkish_word_is_looked_up_by_its_root_whatever_endings_follow() -> None:
    assert in_english("Marta'nın kitabı ve cevizleri nerede?") == {
        "kitabı": ["book", "hold", "reserve"],  # kitap; "mart" would be March
        "cevizleri": ["walnut", "nut"],
    }
    assert "live" in in_english("Yaşlı komşumuz nerede yaşıyor?")["yaşıyor"]  # yaşamak


def test_a_long_text_is_looked_up_by_its_first_words_only() -> None:
    text = "Красная машина стоит у больницы, дом горит, собака спит, кошка ест рыбу, учитель читает книгу. "
    assert len(in_english(text + NOUNS)) == words.MAX_TRANSLATED


def test_the_licences_of_the_lexicons_are_among_those_of_the_package() -> None:
    given = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["license-files"]
    licences = {file.name for pattern in given for file in ROOT.glob(pattern) if file.parent.name == FILE.parent.name}
    assert licences == {"LICENSE", "LICENSE.wordnets"}
    assert words.SHA256 in (FILE.parent / "SOURCE.md").read_text(encoding="utf-8")
