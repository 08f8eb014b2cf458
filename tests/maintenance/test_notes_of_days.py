"""Notes of a series, each of its own day, do not contradict each other; what was moved or counted otherwise does."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from mcp import Client

from helpers import call, examples, remember
from pgengram.search.dates import times
from pgengram.service.toolsets.pairs import SCOPE, sorted_out
from pgengram.store.maintenance.findings import Pair
from pgengram.text.languages import entries, languages

NOW = datetime(2026, 12, 1, tzinfo=UTC)
MONTHS = {
    code: [names.split()[0] for names in entries(one.times["months"])]
    for code, one in languages().items()
    if one.times and one.times.get("months")
}
FORMS = ("{day} {month} {year}", "{day}. {month} {year}", "{day} {month}", "{iso}", "{day}.{number}.{year}")
THINGS = ("zucchini", "marmalade", "kerosene", "trombone", "lighthouse", "parsley", "granite", "umbrella")


def contradicting(*texts: str) -> bool:
    rows: dict[UUID, Any] = {
        UUID(int=place): {
            "id": UUID(int=place), "content": text, "created_at": NOW, "turn_features": 0, **dict.fromkeys(SCOPE)
        }
        for place, text in enumerate(texts)
    }  # fmt: skip
    return bool(sorted_out([Pair(*rows, 0.99)], rows)[2])


def dated(code: str, form: str, day: date) -> str:
    month = MONTHS[code][day.month - 1]
    return form.format(day=day.day, month=month, year=day.year, iso=day.isoformat(), number=day.month)


days = st.dates(date(2026, 1, 1), date(2026, 11, 30))


@effort(max_examples=examples(80), deadline=None)
@given(
    code=st.sampled_from(sorted(MONTHS)), form=st.sampled_from(FORMS), two=st.lists(days, min_size=2, max_size=2, unique=True),
    things=st.lists(st.sampled_from(THINGS), min_size=2, max_size=2, unique=True),
)  # fmt: skip
def test_notes_of_two_days_that_tell_of_two_things_do_not_contradict_each_other(
    code: str, form: str, two: list[date], things: list[str]
) -> None:
    """Law: whatever language names the days, if the parser of times reads them; the same thing on two days was moved."""
    one, other = (f"Protokol {dated(code, form, day)}: {thing}" for day, thing in zip(two, things, strict=True))
    assert [str(read.period) for text in (one, other) for read in times(text, NOW)] == [f"{day}..{day}" for day in two]

    assert not contradicting(one, other)
    assert contradicting(one, other.replace(things[1], things[0])), "the same on another day"
    assert contradicting(one, one.replace(things[0], f"{things[0]} 7")), "of one day"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The dentist appointment is on 3 June at 10:00.", "The dentist appointment is on 10 June at 10:00."),
        ("The dentist appointment is on 3 June at 10 am.", "The dentist appointment is on 10 June at 11 am."),
        ("The dentist appointment is on 3 June.", "The dentist appointment will be on 10 June."),
        ("The talk at the bank is planned for 3 May.", "The talk at the bank was moved to 10 May."),
        ("Der Termin bei der Bank ist am 3. Mai geplant.", "Der Termin bei der Bank wurde auf den 10. Mai verschoben."),
        ("The rent of the workshop is 900 euros.", "The rent of the workshop is 950 euros."),
        ("On 3 May the rent was 900 euros.", "On 10 May the rent was 950 euros."),
        ("Ada was born on 3 May 1990.", "Ada was born on 13 May 1990."),
        ("The choir sings on Wednesdays in the parish hall.", "The choir sings on Thursdays in the town hall."),
        ("In March the budget was approved.", "In April the audit was approved."),
        ("Minutes 3 May: budget approved.", "Minutes 3 May: audit approved, 7 votes."),
    ],
)
def test_a_moved_appointment_and_a_changed_number_stay_in_the_review(one: str, other: str) -> None:
    assert contradicting(one, other)


def test_a_note_that_names_the_next_meeting_is_of_the_day_it_names_first() -> None:
    assert not contradicting(
        "Meeting 3 May: budget approved; the next meeting is on 10 May.",
        "Meeting 10 May: audit postponed; the next meeting is on 17 May.",
    )


async def test_the_review_of_a_diary_asks_of_no_two_weeks_whether_they_contradict_each_other(client: Client) -> None:
    weeks = [datetime(2026, 5, 3, tzinfo=UTC) + timedelta(weeks=week) for week in range(5)]
    notes = [
        f"Meeting {week:%-d %B}: Nadia, Joao and Priya went through the {thing} and agreed on who does what."
        for week, thing in zip(weeks, THINGS, strict=False)
    ]
    for note in notes:
        await remember(client, note, dedup_policy="insert")
    moved = [await remember(client, f"The dentist appointment is on {day} June at 10:00.") for day in (3, 10)]

    answer = await call(client, "review_memories", find=["contradictions", "outdated"], threshold=0.8)

    assert [set(one["ids"]) for one in answer["findings"]] == [set(moved)]
    assert len(list(combinations(notes, 2))) == 10, "which are all near enough to each other"
