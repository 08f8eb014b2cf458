"""Dates in a question: which stretch of time its words mean, seen from a given moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from helpers import diagonal, examples
from pgengram.fields import FIRST_MOMENT, LAST_MOMENT
from pgengram.search.dates import WEEKDAYS, periods, times, without_times
from pgengram.text.time_words import times_of
from pgengram.text.vocabulary import asks_for_time

NOW = datetime(2026, 5, 13, 15, 30, tzinfo=UTC)  # a Wednesday

MEANT = {
    "What did we plan last March?": ("2026-03-01", "2026-04-01"),
    "What happened in July?": ("2025-07-01", "2025-08-01"),
    "the trip in 2023": ("2023-01-01", "2024-01-01"),
    "March 2024": ("2024-03-01", "2024-04-01"),
    "on the 3rd of June, 2025": ("2025-06-03", "2025-06-04"),
    "Sept. 9th": ("2025-09-09", "2025-09-10"),
    "2025-12": ("2025-12-01", "2026-01-01"),
    "2025-12-31": ("2025-12-31", "2026-01-01"),
    "yesterday": ("2026-05-12", "2026-05-13"),
    "What did I eat TODAY?": ("2026-05-13", "2026-05-14"),
    "tonight": ("2026-05-13", "2026-05-14"),
    "last week": ("2026-05-04", "2026-05-11"),
    "this week": ("2026-05-11", "2026-05-18"),
    "last month": ("2026-04-01", "2026-05-01"),
    "this month": ("2026-05-01", "2026-06-01"),
    "last year": ("2025-01-01", "2026-01-01"),
    "this year": ("2026-01-01", "2027-01-01"),
    "two days ago": ("2026-05-11", "2026-05-12"),
    "last Tuesday": ("2026-05-12", "2026-05-13"),
    "last Wednesday": ("2026-05-06", "2026-05-07"),
    "29 February 2024": ("2024-02-29", "2024-03-01"),
    "next week": ("2026-05-18", "2026-05-25"),
    "early November": ("2025-11-01", "2025-11-11"),
    "at the end of April 2026": ("2026-04-21", "2026-05-01"),
    "last weekend": ("2026-05-09", "2026-05-11"),
    "the last two weeks": ("2026-04-29", "2026-05-14"),
    "the day before yesterday": ("2026-05-11", "2026-05-12"),
    "between 9 and 15 April 2026": ("2026-04-09", "2026-04-16"),
    "9–15 April 2026": ("2026-04-09", "2026-04-16"),
    "from 2026-04-09 to 2026-04-15": ("2026-04-09", "2026-04-16"),
    "between November and February": ("2025-11-01", "2026-03-01"),
    "since early March 2026": ("2026-03-01", "9999-12-30"),
    "before 3 March 2026": ("0001-01-02", "2026-03-03"),
    "letzte Woche": ("2026-05-04", "2026-05-11"),
    "Was war vorgestern?": ("2026-05-11", "2026-05-12"),
    "seit Anfang März": ("2026-03-01", "9999-12-30"),
    "vor dem 3. März 2026": ("0001-01-02", "2026-03-03"),
    "zwischen dem 9. und 15. April": ("2026-04-09", "2026-04-16"),
    "Was kostet das am 17.11.2025?": ("2025-11-17", "2025-11-18"),
    "la semana pasada": ("2026-05-04", "2026-05-11"),
    "el mes que viene": ("2026-06-01", "2026-07-01"),
    "el lunes pasado": ("2026-05-11", "2026-05-12"),
    "entre el 9 y el 15 de abril de 2026": ("2026-04-09", "2026-04-16"),
    "a principios de noviembre": ("2025-11-01", "2025-11-11"),
    "la semaine dernière": ("2026-05-04", "2026-05-11"),
    "avant-hier": ("2026-05-11", "2026-05-12"),
    "début novembre": ("2025-11-01", "2025-11-11"),
    "du 9 au 15 avril": ("2026-04-09", "2026-04-16"),
    "l'an dernier": ("2025-01-01", "2026-01-01"),
    "last summer": ("2025-06-01", "2025-09-01"),
    "the summer before last": ("2024-06-01", "2024-09-01"),
    "this spring": ("2026-03-01", "2026-06-01"),
    "next winter": ("2026-12-01", "2027-03-01"),
    "in the autumn of 2024": ("2024-09-01", "2024-12-01"),
    "in winter": ("2025-12-01", "2026-03-01"),
    "Was haben wir letzten Sommer am See gebaut?": ("2025-06-01", "2025-09-01"),
    "¿Qué hicimos el verano pasado?": ("2025-06-01", "2025-09-01"),
    "Quand avons-nous été à Rome l'été dernier ?": ("2025-06-01", "2025-09-01"),
    "seit letztem Herbst": ("2025-09-01", "9999-12-30"),
    "the week before last": ("2026-04-27", "2026-05-04"),
    "vorletzte Woche": ("2026-04-27", "2026-05-04"),
    "the month before last": ("2026-03-01", "2026-04-01"),
    "last quarter": ("2026-01-01", "2026-04-01"),
    "Q4": ("2025-10-01", "2026-01-01"),
    "Q2 of 2025": ("2025-04-01", "2025-07-01"),
    "im letzten Quartal": ("2026-01-01", "2026-04-01"),
    "in KW 19": ("2026-05-04", "2026-05-11"),
    "KW 53 2020": ("2020-12-28", "2021-01-04"),
    "the 1990s": ("1990-01-01", "2000-01-01"),
    "last May": ("2025-05-01", "2025-06-01"),
    "this December": ("2026-12-01", "2027-01-01"),
    "Monday last week": ("2026-05-04", "2026-05-05"),
    "am Montag letzter Woche": ("2026-05-04", "2026-05-05"),
    "lundi de la semaine dernière": ("2026-05-04", "2026-05-05"),
    "5 November last year": ("2025-11-05", "2025-11-06"),
    "el 5 de noviembre del año pasado": ("2025-11-05", "2025-11-06"),
    "early November last year": ("2025-11-01", "2025-11-11"),
    "letztes Jahr im März": ("2025-03-01", "2025-04-01"),
    "Quoi de neuf cette semaine ?": ("2026-05-11", "2026-05-18"),
    "in room 12 last month": ("2026-04-01", "2026-05-01"),
    "eleven days ago": ("2026-05-02", "2026-05-03"),
    "since 2026-04-20T08:00:00Z": ("2026-04-20", "9999-12-30"),
    "2026/04/05": ("2026-04-05", "2026-04-06"),
    "between April 20 and 24": ("2026-04-20", "2026-04-25"),
    "April 20-24, 2025": ("2025-04-20", "2025-04-25"),
    "20 Apr - 24 Apr 2025": ("2025-04-20", "2025-04-25"),
    "2020-2022": ("2020-01-01", "2023-01-01"),
    "2025 Q4": ("2025-10-01", "2026-01-01"),
    "before last week": ("0001-01-02", "2026-05-04"),
    "vor letzter Woche": ("0001-01-02", "2026-05-04"),
    "a partir del 5 de abril de 2026": ("2026-04-05", "9999-12-30"),
    "a finales del mes pasado": ("2026-04-21", "2026-05-01"),
    "What was Tom up to in July 2025?": ("2025-07-01", "2025-08-01"),
    "in March last year": ("2025-03-01", "2025-04-01"),
    "im März letzten Jahres": ("2025-03-01", "2025-04-01"),
    "en marzo del año pasado": ("2025-03-01", "2025-04-01"),
    "en mars de l'année dernière": ("2025-03-01", "2025-04-01"),
    "between March last year and April 2026": ("2025-03-01", "2026-05-01"),
    "summer last year": ("2025-06-01", "2025-09-01"),
    "Did prices fall last week?": ("2026-05-04", "2026-05-11"),
    "Did prices fall in 2025?": ("2025-01-01", "2026-01-01"),
    "Cosa abbiamo fatto la settimana scorsa?": ("2026-05-04", "2026-05-11"),
    "due giorni fa": ("2026-05-11", "2026-05-12"),
    "dal 3 al 9 aprile": ("2026-04-03", "2026-04-10"),
    "all'inizio di novembre": ("2025-11-01", "2025-11-11"),
    "l'altro ieri": ("2026-05-11", "2026-05-12"),
    "o mês passado": ("2026-04-01", "2026-05-01"),
    "segunda-feira passada": ("2026-05-11", "2026-05-12"),
    "há dois dias": ("2026-05-11", "2026-05-12"),
    "de 3 a 9 de abril de 2026": ("2026-04-03", "2026-04-10"),
    "no final de outubro": ("2025-10-21", "2025-11-01"),
    "afgelopen maandag": ("2026-05-11", "2026-05-12"),
    "twee dagen geleden": ("2026-05-11", "2026-05-12"),
    "tussen 3 en 9 april": ("2026-04-03", "2026-04-10"),
    "vorig kwartaal": ("2026-01-01", "2026-04-01"),
    "w zeszłym tygodniu": ("2026-05-04", "2026-05-11"),
    "dwa dni temu": ("2026-05-11", "2026-05-12"),
    "od 3 do 9 kwietnia": ("2026-04-03", "2026-04-10"),
    "przed 5 maja 2026 r.": ("0001-01-02", "2026-05-05"),
    "last night": ("2026-05-12", "2026-05-13"),
    "this morning": ("2026-05-13", "2026-05-14"),
    "heute Morgen": ("2026-05-13", "2026-05-14"),
    "gestern Abend": ("2026-05-12", "2026-05-13"),
    "morgen früh": ("2026-05-14", "2026-05-15"),
    "esta mañana": ("2026-05-13", "2026-05-14"),
    "ayer por la mañana": ("2026-05-12", "2026-05-13"),
    "pasado mañana": ("2026-05-15", "2026-05-16"),
    "ce matin": ("2026-05-13", "2026-05-14"),
    "vor Juni 2025": ("0001-01-02", "2025-06-01"),
    "vor 2025": ("0001-01-02", "2025-01-01"),
    "después del 5 de abril de 2026": ("2026-04-06", "9999-12-30"),
    "antes del 5 de abril de 2026": ("0001-01-02", "2026-04-05"),
    "on 11/23/2025": ("2025-11-23", "2025-11-24"),
    "on 23/11/2025": ("2025-11-23", "2025-11-24"),
    "¿Qué pasó el 3/11/2025 en casa?": ("2025-11-03", "2025-11-04"),
    "on 3/11/2025": ("2025-01-01", "2026-01-01"),
}


@pytest.mark.parametrize(("question", "meant"), MEANT.items(), ids=MEANT.keys())
def test_words_for_a_time_mean_a_stretch_of_it(question: str, meant: tuple[str, str]) -> None:
    [period] = periods(question, NOW)

    assert (period.start.date().isoformat(), period.end.date().isoformat()) == meant


def test_three_weeks_ago_is_a_week_around_that_day() -> None:
    [period] = periods("three weeks ago", NOW)

    assert period.start < datetime(2026, 4, 22, 12, tzinfo=UTC) < period.end
    assert timedelta(days=7) <= period.end - period.start <= timedelta(days=9)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Who may come?",
        "March on!",
        "31 February 2024",
        "2023-13",
        "room 2150 or 12",
        "the last dance",
        "on my way",
        "the spring in the mattress",
        "Il a été là.",
        "the fall of Rome",
        "Q5",
        "KW",
    ],
)
def test_what_names_no_time_means_none(question: str) -> None:
    assert [period for period in periods(question, NOW) if period.end - period.start < timedelta(days=360)] == []


@pytest.mark.parametrize(
    ("question", "rest"),
    [("What grew in the garden last week?", "What grew in the garden ?"), ("Was hat Ann letzte Woche gekauft?", "Was hat Ann gekauft?"),
     ("vor zwei Tagen", ""), ("la semaine dernière", ""), ("fish last week", "fish")],
)  # fmt: skip
def test_a_time_can_be_taken_out_of_the_words(question: str, rest: str) -> None:
    assert without_times(question, times(question, NOW)) == rest


def test_a_time_without_a_year_is_less_sure() -> None:
    [unsure], [sure] = periods("in March", NOW), periods("in March 2026", NOW)

    assert (unsure.sure, sure.sure) == (False, True)


def test_a_season_stays_among_the_words_as_texts_name_it() -> None:
    assert [time.relative for time in times("What grew last summer?", NOW)] == [False]


def test_a_season_is_less_sure_as_the_south_has_the_opposite_one() -> None:
    assert [period.sure for period in periods("last summer", NOW)] == [False]


def test_a_question_may_name_several_times() -> None:
    assert len(periods("between March 2024, 5 May 2025 and yesterday", NOW)) == 3


def test_today_is_the_day_where_it_is_asked() -> None:
    tokyo = NOW.astimezone(timezone(timedelta(hours=9)))  # already tomorrow there

    assert periods("today", tokyo) == periods("tomorrow", NOW)


@pytest.mark.parametrize(
    "question", ["last Tue\u017fday", "on fr\u0131day", "ye\u017fterday", "\u0661\u0669\u0669\u0669"]
)
def test_letters_and_digits_that_only_look_alike_are_no_dates(question: str) -> None:
    assert periods(question, NOW) == []


@pytest.mark.parametrize(
    ("question", "now"),
    diagonal(
        [*MEANT, "999 years ago", "this month", "in December", "31 December"],
        [FIRST_MOMENT, LAST_MOMENT, FIRST_MOMENT.astimezone(timezone(timedelta(hours=-9)))],
    ),
)
def test_the_ends_of_the_calendar_are_no_failure(question: str, now: datetime) -> None:
    for period in periods(question, now):
        assert period.start < period.end


WORDS_FOR_TIME = [" ".join(phrase) for one in times_of().values() for phrase in one]
WORDS = st.sampled_from(
    [*WORDS_FOR_TIME, *WEEKDAYS, "last", "this", "past", "in", "on", "of", "ago", "day", "weeks", "month", "years", "yesterday", "a",
     "two", "31", "30th", "1st", "0", "99", "999", "1999", "2024", "2024-02", "2023-02-31", "2024-00-00", ",", ".", "-"]
)  # fmt: skip
QUESTIONS = st.text(max_size=80) | st.lists(WORDS | st.text(max_size=3), max_size=12).map(" ".join)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)) | st.just(NOW)


@effort(max_examples=examples(100))
@given(question=QUESTIONS, now=MOMENTS)
def test_no_text_is_a_failure_and_every_stretch_has_a_beginning_before_its_end(question: str, now: datetime) -> None:
    for period in periods(question, now):
        assert period.start < period.end
        assert period.start.tzinfo is UTC
        assert period.end.tzinfo is UTC


@pytest.mark.parametrize(
    ("question", "wanted"),
    [("When did we meet?", True), ("  which YEAR was it", True), ("How long has it run?", True), ("On what day?", True),
     ("Da quando vive a Roma?", True), ("Em que dia chegou?", True), ("Wanneer was het feest?", True), ("Kiedy to było?", True),
     ("Who was there when it rained?", False), ("Whenever", False), ("", False)],
)  # fmt: skip
def test_it_is_known_whether_a_question_asks_when(question: str, wanted: bool) -> None:
    assert asks_for_time(question) is wanted
