from __future__ import annotations

import pytest

from pgengram.text.language import Language, clear_language, language_of


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Der Schlüssel liegt unter der Matte.", "de"),
        ("¿Dónde está la llave?", "es"),
        ("¿Quién quiere estudiar?", "es"),
        ("Où est la clé de la maison ?", "fr"),
        ("Cheia este sub covor și nu în casă.", "ro"),
        ("Anahtar paspasın altında.", "tr"),
        ("Chìa khóa ở dưới tấm thảm.", "vi"),
        ("Ключ лежит под ковриком.", "ru"),
        ("Ключ лежить під килимком.", "uk"),
        ("Το κλειδί είναι κάτω από το χαλί.", "el"),
        ("钥匙在垫子下面。", "zh"),
        ("鍵はマットの下にある。", "ja"),
        ("열쇠는 매트 아래에 있다.", "ko"),
        ("المفتاح تحت السجادة.", "ar"),
        ("کلید زیر پادری است، چه کسی آن را گذاشت؟", "fa"),
        ("चाबी चटाई के नीचे है।", "hi"),
        ("กุญแจอยู่ใต้พรม", "th"),
    ],
)
def test_a_sentence_is_told_to_be_in_its_language(text: str, code: str) -> None:
    assert clear_language(text) == code
    assert language_of(text) == Language(code, english=False, foreign=True)


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("Welches Instrument beherrscht Sofia?", "de"),
        ("¿Quién abrió el primer mercado?", "es"),
        ("Quelles cartes collectionne Emil ?", "fr"),
        ("Câte mingi a prins Josh Norman?", "ro"),
        ("Josh Norman kaç tane top çaldı?", "tr"),
        ("Hvilken båd ejer Sofie?", "da"),
        ("Missä Sofia asuu?", "fi"),
    ],
)
def test_a_short_question_is_told_by_the_word_it_asks_with(question: str, code: str) -> None:
    assert clear_language(question) == code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("mes livres", "fr"),
        ("liste des livres", "fr"),
        ("mot de passe wifi", "fr"),
        ("numéro de la plaque", "fr"),
        ("todas mis recetas", "es"),
        ("la casa", "es"),
        ("il mio gatto", "it"),
        ("os meus livros", "pt"),
        ("die Katze", "de"),
        ("mijn fiets", "nl"),
        ("moje książki", "pl"),
    ],
)
def test_a_few_words_of_several_languages_are_of_the_one_in_which_they_are_commonest(words: str, code: str) -> None:
    assert clear_language(words) == code


@pytest.mark.parametrize(
    "text",
    [
        "The key is under the mat.",
        "Where was Sam when the train came in?",
        "Take care, talk soon!",
        "Nordwind demo",
        "For team lunches Jiří leaves out mushrooms, and Tariq takes neither pork nor alcohol.",
        "Comment out the min of kit and meta",
        "PostgreSQL 17 upgrade",
        "The verb gehen means to walk in German.",
        "See https://example.org/el/camino for the way we took.",
        "The word 猫 means cat in Japanese.",
        "The words как and на mean how and on in Russian, and are in nearly every sentence.",
        "",
    ],
)
def test_english_and_bare_names_need_no_second_encoder(text: str) -> None:
    assert clear_language(text) is None
    assert not language_of(text).foreign


@pytest.mark.parametrize(
    "text", ["Mara prefers green tea.", "Ana prefers coffee", "Leo lives in Rome", "Nina met Joan"]
)
def test_a_given_name_tells_no_language(text: str) -> None:
    assert clear_language(text) is None
    assert language_of(text).english


def test_a_word_that_is_also_a_name_tells_its_language_where_it_is_none() -> None:
    assert clear_language("ana watoto wawili") == "sw"


@pytest.mark.parametrize(
    "text", ["Ich habe gestern the new deployment pipeline getestet and it was slow.", "Müller, Zürich"]
)
def test_text_of_two_languages_or_none_that_is_clear_takes_both_encoders(text: str) -> None:
    answer = language_of(text)

    assert answer.english
    assert answer.foreign
