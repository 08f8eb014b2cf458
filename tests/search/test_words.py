"""Which terms a text is found by, beside the stems that PostgreSQL makes of it."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from mcp import Client

from helpers import examples, found, hits, remember
from pgengram.search.question import websearch, without
from pgengram.text.derived import ASKS, CAPITAL, DIGIT, ENDS_ASKING, TIME, TURN, speaker_key_of, turn_features_of
from pgengram.text.words import extra_terms, searched_text, words


@pytest.mark.parametrize(
    ("text", "term"),
    [("use std::vector here", "std::vector"), ("set PGENGRAM_X.", "pgengram_x"), ("at v1.2.3, then", "v1.2.3"),
     ("in C++ and", "c++"), ("F# too", "f#"), ("ask user@host now", "user@host"), ("a->b", "a->b"), ("x-y-z", "x-y-z"),
     ("我用std::vector存储", "std::vector"), ("烏龍茶", "烏龍"), ("烏龍茶", "龍茶"), ("茶", "茶"), ("부산에", "부산"), ("ขอบคุณ", "ขอ"),
     ("コーヒー", "コー")],
)  # fmt: skip
def test_what_stemming_would_cut_is_a_term_as_a_whole(text: str, term: str) -> None:
    assert term in extra_terms(text)


def test_plain_words_need_no_further_terms() -> None:
    assert extra_terms("The greenhouse needs water, every day!") == []


def test_scripts_without_spaces_are_set_apart_from_those_with() -> None:
    assert words("我用Python写代码") == ["我用", "Python", "写代码"]


@pytest.mark.parametrize(
    "text",
    ["हिन्दी", "இட்லி", "القَهْوَة", "ಕನ್ನಡ", "ที่นี่", "ວັນທີ່", "မြန်မာ", "ខ្មែរ", "İpek".lower(), "O'Neil", "naïve"],
)
def test_a_word_keeps_the_vowel_signs_and_accents_that_stand_by_themselves(text: str) -> None:
    assert words(f"({text}, {text})") == [text, text]


def test_composed_and_decomposed_characters_are_the_same_words() -> None:
    for text in ("café Ångström", "부산"):
        apart = unicodedata.normalize("NFD", text)
        assert words(apart) == words(text)
        assert extra_terms(apart) == extra_terms(text)


def test_a_text_is_searched_with_its_speaker_tags_day_and_detail() -> None:
    day = datetime(2024, 3, 5, tzinfo=UTC)

    text = searched_text(
        "Tea.", speaker="Ines", tags=["drink"], occurred_at=day, metadata={"a": [{"b": "oolong"}], "n": 3}
    )

    assert text == "Tea.\nInes\ndrink\n5 March 2024\noolong"


@pytest.mark.parametrize(
    "text", ["a" * 16_000, "a " * 8_000, " " * 15_000 + "b", "(a)" * 5_000, "(" * 16_000, "@-" * 8_000]
)
def test_a_monotonous_text_has_hardly_any_terms(text: str) -> None:
    assert len(extra_terms(text)) <= 1
    assert turn_features_of(text, is_said=True, in_conversation=False) == 0


@effort(max_examples=examples(100))
@given(st.text(max_size=300) | st.text("aA_:@#+-.()[]' \n我は\u0301", max_size=300))
def test_any_text_has_terms_and_traits(text: str) -> None:
    assert all(term and term == term.lower() for term in extra_terms(text))
    assert 0 <= turn_features_of(text, is_said=True, in_conversation=True) < 64
    assert all(word and not word.isspace() for word in words(text))


@pytest.mark.parametrize(
    ("content", "speaker", "in_conversation", "speaker_key"),
    [("Hello.", "Ines", False, "ines"), ("Mira Lund: hello.", None, True, "mira lund"), ("Hello.", None, True, None), ("Mira: hi", "Tom", True, "tom"),
     ("Émile: salut", None, True, "émile"), ("Мара: привет", None, True, "мара"), ("Çağla: selam", None, True, "çağla")],
)  # fmt: skip
def test_who_speaks_is_the_speaker_else_in_a_conversation_the_name_that_a_line_begins_with(
    content: str, speaker: str | None, in_conversation: bool, speaker_key: str | None
) -> None:
    assert speaker_key_of(content, speaker, in_conversation=in_conversation) == speaker_key


@given(st.from_regex(r"[A-ZÄÉ][a-zäé]{1,12}( [A-Z][a-z]{1,8})?: [a-z 0-9]{1,30}", fullmatch=True))
def test_a_note_that_begins_with_a_label_has_no_speaker(note: str) -> None:
    assert speaker_key_of(note, None, in_conversation=False) is None


@pytest.mark.parametrize(
    ("content", "turn_features"),
    [("no more than that", 0), ("see you tomorrow", TIME), ("it took 12 cups", DIGIT), ("we met Mira there", CAPITAL),
     ("why? because", ASKS), ("and you?", ASKS | ENDS_ASKING), ("and you? [a photo of a dog] (2024)", ASKS | ENDS_ASKING),
     ("Mira: and you? (laughs)", ASKS | ENDS_ASKING), ("[a photo of 3 dogs]", DIGIT), ("it rained (in 2023)", 0),
     ("a) no (b) yes)", 0), ("letzten Sommer waren wir dort", TIME | CAPITAL), ("увидимся завтра", TIME),
     ("хорошо, Мара придёт", CAPITAL), ("yarın görüşürüz", TIME), ("と、元気？", ASKS | ENDS_ASKING), ("هل أنت بخير؟", ASKS | ENDS_ASKING)],
)  # fmt: skip
def test_traits_are_those_of_what_was_said_without_captions(content: str, turn_features: int) -> None:
    assert turn_features_of(content, is_said=True, in_conversation=False) == turn_features
    assert turn_features_of(content, is_said=True, in_conversation=True) == turn_features | TURN
    assert turn_features_of(content, is_said=False, in_conversation=False) == 0


@pytest.mark.parametrize(
    ("query", "rest", "phrases", "unwanted", "unwanted_phrases"),
    [
        ('green "oolong  tea" -milk', "green  oolong  tea   ", ["oolong tea"], ["milk"], []),
        ('tea -"hot water"', "tea  ", [], [], ["hot water"]),
        ("tea -std::vector -烏龍茶, -C++", "tea      ", [], [], ["std::vector", "烏龍茶,", "C++"]),
        ('"', " ", [], [], []),
        ('say "hello', "say  hello", [], [], []),
        ("a - b", "a - b", [], [], []),
        ("x-y", "x-y", [], [], []),
        ('-"" "" -.', "       ", [], [], []),
        ("--tea", " ", [], ["-tea"], []),
    ],
)
def test_quotes_bind_and_a_minus_keeps_out(
    query: str, rest: str, phrases: list[str], unwanted: list[str], unwanted_phrases: list[str]
) -> None:
    found = websearch(query)

    assert found[0].split() == rest.split()
    assert found[1:3] == (phrases, unwanted)
    assert [phrase.strip(",") for phrase in found[3]] == [phrase.strip(",") for phrase in unwanted_phrases]


def test_a_question_without_its_names_keeps_no_possessive() -> None:
    assert without("What is Mira's dog called?", {"Mira"}) == "What is dog called?"
    assert without("Mira", {"Mira"}) == ""
    assert without("a.b (c", {"b"}) == "a. (c"


@pytest.mark.parametrize(
    ("question", "answer", "chance"),
    [
        ("Кому я должен денег?", "Петер одолжил мне двести евро.", "Номер счёта должен начинаться с года."),
        ("Was ist aus unserer Einreichung geworden?", "Die Konferenz hat den eingesandten Artikel abgelehnt.", "Unserer Katze schmeckt Thunfisch."),
        ("Welche Medizin braucht Mama morgens?", "Mutter nimmt früh Tabletten gegen Bluthochdruck.", "Das Auto braucht im November Winterreifen."),
        ("我要付多少钱给谁？", "彼得借出了两百欧元。", "我要给谁写信。"),
        ("¿Qué comida necesito evitar por Marta?", "Marta es alérgica a las nueces.", "Necesito pintar la valla."),
    ],
)  # fmt: skip
async def test_words_that_say_little_find_nothing_by_chance(
    client: Client, question: str, answer: str, chance: str
) -> None:
    wanted = await remember(client, answer)
    other = await remember(client, chance)

    by_id = {hit["id"]: hit for hit in await hits(client, question)}

    assert by_id[wanted]["score"] > by_id[other]["score"]
    assert by_id[other]["why"]["words"] == 0


@pytest.mark.parametrize("word", ["должен", "muss"])
async def test_a_word_that_says_little_is_found_when_it_is_all_that_is_asked(client: Client, word: str) -> None:
    id_ = await remember(client, f"«{word}» — вот вопрос." if word == "должен" else f"Es {word} gehen.")

    assert await found(client, word, mode="text") == [id_]
    assert id_ in await found(client, word)
