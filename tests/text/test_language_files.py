"""What is known of a language stands in one file, and to add one takes no more."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from helpers import examples
from pgengram.search.dates import Period, periods, times
from pgengram.text.differences import differences
from pgengram.text.language import language_of
from pgengram.text.languages import FOLDER, LanguageData, entries, languages, phrases
from pgengram.text.vocabulary import announces_change, asks_for_all, asks_for_time, is_small_talk, lasting

WITH_TIMES = [code for code, one in languages().items() if one.times]
MOMENTS = st.datetimes(datetime(1950, 1, 1), datetime(2099, 12, 1), timezones=st.just(UTC))
DAY = timedelta(days=1)
# Keys that any language may need; the others say what only some have.
USUAL = (
    "common", "asking", "light", "stemmer", "lexicon", "negations", "opposites", "number_words", "openings", "first_person",
    "second_person", "changes", "from_when", "lasting", "small_talk", "asks_when", "asks_nothing", "list_commands", "all_of_them", "times",
)  # fmt: skip

# A made-up one, and what is read by its file alone.
MADE_UP = """
name = 'Zebric'
lacks = '''
light lexicon opposites openings first_person second_person lasting asks_nothing list_commands all_of_them
'''
prior = 0.0
stemmer = 'first letters'
common = 'zu zi zam zeb zor'
asking = 'zwen'
negations = 'znot'
changes = 'znow'
from_when = 'zsince'
small_talk = 'zhello friend/-'
asks_when = 'zwen'
number_words = 'zdozen'

[times]
months = 'zan, zeb2, zar, zap, zai, zun, zul, zaug, zep, zoct, znov, zdec'
weekdays = 'zmo, ztu, zwe, zth, zfr, zsa, zsu'
yesterday = 'zyesterday'
week = 'zweek'
last = 'zlast'
numbers = 'zone, ztwo'
"""
READ = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from pgengram.text import languages
languages.FOLDER = Path(sys.argv[1])
from pgengram.search.dates import periods
from pgengram.text.language import clear_language
from pgengram.text.words import foreign_stems
from pgengram.text.vocabulary import announces_change, asks_for_time, is_small_talk
from pgengram.text.differences import differences
said, now = "zu zi zam kettlebells", datetime(2026, 5, 13, tzinfo=UTC)
print(clear_language(said), foreign_stems(said), *periods("3 zar 2024", now), *periods("zlast zweek", now), *periods("zyesterday", now))
print(announces_change("it znow rains"), announces_change("zsince 2020"), asks_for_time("zwen?"), is_small_talk("Zhello, friend!"))
print(differences("zu cat zi here", "zu cat zi znot here"), differences("zu has ztwo", "zu has zdozen"))
"""


def gaps(of: LanguageData) -> list[str]:
    """Return the usual keys that a language has nothing for."""
    instead = {
        "negations": bool(of.negation_pattern),
        "number_words": "numbers" in of.times,
        "stemmer": of.lexicon in ("characters", "syllables"),  # their words have no forms
    }
    return [key for key in USUAL if not getattr(of, key) and not instead.get(key)]


@pytest.mark.parametrize("one", languages().values(), ids=languages())
def test_a_file_names_what_it_lacks(one: LanguageData) -> None:
    assert one.lacks.split() == gaps(one), f"{one.name}: set lacks = '{' '.join(gaps(one))}'"
    counted = {"months": 12, "weekdays": 7, "seasons": 4}
    assert {name: len(entries(one.times[name])) for name in counted if name in one.times}.items() <= counted.items()


def test_to_add_a_language_is_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "languages"
    shutil.copytree(str(FOLDER), folder)
    (folder / "zz.toml").write_text(MADE_UP, encoding="utf-8")

    answer = subprocess.run([sys.executable, "-c", READ, str(folder)], capture_output=True, text=True, check=False)

    assert answer.stderr == ""
    assert answer.stdout.splitlines() == [
        "zz ['kett'] 2024-03-03..2024-03-03 2026-05-04..2026-05-10 2026-05-12..2026-05-12",
        "True True True True",
        "['negation'] ['numbers']",
    ]


@pytest.mark.parametrize("code", languages())
def test_every_phrase_of_a_file_is_read_where_it_stands_in_a_text(code: str) -> None:
    one = languages()[code]

    unread = [said for said in phrases(one.changes) if not announces_change(f"Mara {said} Kiel.")]
    unread += [said for said in phrases(one.lasting) if not lasting(f"Mara {said} Kiel.")]
    unread += [said for said in phrases(one.small_talk) if not is_small_talk(f"{said.capitalize()}!")]
    unread += [said for said in phrases(one.asks_when) if not asks_for_time(f"{said.capitalize()} Kiel?")]
    unread += [word for word in one.negations.split() if "negation" not in differences(f"{word} tea", "tea")]

    assert unread == []


@pytest.mark.parametrize(
    ("text", "announced"),
    [
        ("It is painted green since May.", True), ("Depuis le 3 mars, Mara habite Lyon.", True), ("Mila ist seit Sommer 2026 Vegetarierin.", True),
        ("A run takes 4 minutes since the cache was fixed.", False), ("Πότε είναι τα γενέθλια;", False), ("Mara plays in the đội.", False),
    ],
)  # fmt: skip
def test_since_announces_a_change_before_a_time_and_accents_count(text: str, announced: bool) -> None:
    assert announces_change(text) == announced


@pytest.mark.parametrize(
    ("one", "other"), [("Put it on the shelf", "Put it by the shelf"), ("Is it her bike?", "Is it his bike?")]
)
def test_a_word_of_english_is_no_number_and_asks_for_no_list_because_another_language_has_it(
    one: str, other: str
) -> None:
    assert differences(one, other) == []
    assert not asks_for_all(one)


@pytest.mark.parametrize("code", WITH_TIMES)
@effort(max_examples=examples(20))
@given(now=MOMENTS, moment=MOMENTS, data=st.data())
def test_a_date_written_in_a_language_is_read_as_that_date(
    code: str, now: datetime, moment: datetime, data: st.DataObject
) -> None:
    its = languages()[code].times
    month = data.draw(st.sampled_from(entries(its["months"])[moment.month - 1].split()))
    day = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)

    assert periods(written := f"{day.day} {month} {day.year}", now) == [Period(day, day + DAY)], written


@pytest.mark.parametrize("code", WITH_TIMES)
@effort(max_examples=examples(20))
@given(now=MOMENTS, data=st.data())
def test_a_time_told_from_now_is_read_in_each_language(code: str, now: datetime, data: st.DataObject) -> None:
    its = languages()[code].times
    today = datetime(now.year, now.month, now.day, tzinfo=UTC)

    def one_of(name: str) -> str:
        return data.draw(st.sampled_from(entries(its[name])))

    named = {"yesterday": -1, "today": 0, "tomorrow": 1, "day_before_yesterday": -2, "day_after_tomorrow": 2}
    for name, away in named.items():
        said = one_of(name)
        assert periods(said, now) == [Period(today + away * DAY, today + (away + 1) * DAY)], said
    monday = today - today.weekday() * DAY
    assert periods(said := f"{one_of('last')} {one_of('week')}", now) == [Period(monday - 7 * DAY, monday)], said
    number = data.draw(st.integers(2, len(entries(its["numbers"]))))
    word = entries(its["numbers"])[number - 1].split()[0]
    past = Period(today - number * DAY, today - (number - 1) * DAY)
    orders = [f"{word} {one_of('day')} {(ago := one_of('ago'))}", f"{ago} {word} {one_of('day')}"]
    assert past in [period for said in orders for period in periods(said, now)], orders
    lately = Period(today - 30 * DAY, today + DAY, sure=False)
    assert periods(said := one_of("lately"), now) == [lately], said
    coming = Period(today + number * DAY, today + (number + 1) * DAY)
    said = data.draw(
        st.sampled_from(
            [f"{before} {word} {one_of('day')}" for before in entries(its.get("ahead", ""))]
            + [f"{word} {one_of('day')} {after}" for after in entries(its.get("from_now", ""))]
        )
    )
    assert [one.period for one in times(said, now)] == [coming], said


@pytest.mark.parametrize(
    "text",
    ["done today", "no work today", "correct time", "perfect day", "never forget", "please help", "hey can you see the problem",
     "heute fertig", "nie vergessen", "bonne question", "sin problema hoy", "never", "done"],
)  # fmt: skip
def test_what_only_has_words_of_greetings_is_no_small_talk(text: str) -> None:
    assert not is_small_talk(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [("Гэты дом быў мой", "be"), ("Қазақстан ішінде", "kk"), ("Ѓорѓи живее тука", "mk"), ("Ово је ђак", "sr"),
     ("یہ ایک بڑی گاڑی ہے", "ur"), ("این گربه پیر است", "fa")],
)  # fmt: skip
def test_neighbours_of_one_script_are_told_by_all_their_own_letters(text: str, code: str) -> None:
    assert language_of(text).code == code
