"""Times in a question: "last March", "letzte Woche", "entre el 9 y el 15 de mayo" become stretches of time."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pgengram.fields import FIRST_MOMENT, LAST_MOMENT
from pgengram.text.languages import entries, languages
from pgengram.text.time_words import Token, readings

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
UNITS: Final = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}
MONTHS_EACH: Final = 3  # of a season or quarter
_PARTS: Final = {"early": 0, "middle": 1, "late": 2}  # thirds of a month, week or year
_DAYS_AWAY: Final = {"today": 0, "yesterday": -1, "day_before_yesterday": -2, "tomorrow": 1, "day_after_tomorrow": 2}
_STEPS: Final = {"before_last": -2, "last": -1, "this": 0, "next": 1}
_DAY: Final = timedelta(days=1)
SOON: Final = timedelta(days=92)  # a quarter


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` to before `end`, by the clock of who asks, as if that were UTC's; `sure` when the question names the
    year or counts from now.
    """

    start: datetime
    end: datetime
    sure: bool = True

    def __str__(self) -> str:
        """Its first and last day, as `2026-11-09..2026-11-15`; an open end is left out."""
        first = "" if self.start == FIRST_MOMENT else self.start.date().isoformat()
        last = "" if self.end == LAST_MOMENT else (self.end - timedelta(microseconds=1)).date().isoformat()
        return f"{first}..{last}"


KEPT: Final = "times"  # the key of a memory's metadata for the times of its text that `occurred_at` has no room for
MOST_TIMES: Final = 3  # in one question; a text with more is a log or a table
MOST_MONTHS: Final = 13  # of a period whose days are looked for in texts
_AFTER_DAY: Final = r"(?:st|nd|rd|th|er|\.|º)?\s+(?:of\s+|de\s+)?"
_IN_YEAR: Final = r"\.?(?:,?\s+(?:de\s+)?{year}|(?!,?\s+(?:de\s+)?(?:19|20)\d\d))\M"


def date_pattern(period: Period) -> str | None:
    """Return a regular expression of PostgreSQL for the days of a period as texts have them; None for a long one.

    A day without a year counts as one of this period's.
    """
    if (period.end - period.start).days > 31 * MOST_MONTHS:
        return None
    found: list[str] = []
    start = period.start
    while start < period.end:
        end = min(_next_month(start.replace(day=1, hour=0)), period.end)
        found.append(_written_in_month(start, end - timedelta(microseconds=1)))
        start = end
    return "|".join(found)


def _written_in_month(first: datetime, last: datetime) -> str:
    months = (entries(one.times["months"]) for one in languages().values() if one.times)
    names = "|".join(sorted({name for its in months for name in its[first.month - 1].split()}))
    days = "|".join(str(day) for day in range(first.day, last.day + 1))
    two_digits = "|".join(f"{day:02}" for day in range(first.day, last.day + 1))
    in_year = _IN_YEAR.format(year=first.year)
    numbers = rf"\m{first.year}-{first.month:02}-(?:{two_digits})\M|\m0?(?:{days})\.0?{first.month}\.{first.year}\M"
    whole = first.day == 1 and last == _next_month(first.replace(hour=0)) - timedelta(microseconds=1)
    if whole:
        return rf"{numbers}|\m(?:{names}){in_year}"
    day_first = rf"\m(?:{days}){_AFTER_DAY}(?:{names}){in_year}"
    return rf"{numbers}|{day_first}|\m(?:{names})\.?\s+(?:{days})(?:st|nd|rd|th)?{in_year}"


@dataclass(frozen=True, slots=True)
class TimeRead:
    """A period, where the text has it, whether it is told from now alone ("last week"), and whether as a weekday."""

    period: Period
    start: int
    end: int
    relative: bool
    weekday: bool = False

    def come_round(self) -> Period:
        """Return a weekday's period a week later, any other a year later.

        Raises:
            ValueError: the next year has no 29 February.
        """
        start, end = (
            at + 7 * _DAY if self.weekday else at.replace(year=at.year + 1)
            for at in (self.period.start, self.period.end)
        )
        return Period(start, end, sure=False)


def by_clock(now: datetime) -> datetime:
    """Return what the clock of who asks shows, as if it were UTC's."""
    return now.replace(tzinfo=UTC)


def periods(question: str, now: datetime) -> list[Period]:
    """Return the stretches of time that `question` names; those without a year lie in the year before `now`."""
    return [one.period for one in times(question, now)]


def times(text: str, now: datetime) -> list[TimeRead]:
    """Return the stretches of time that `text` names and where, read in the language in which most of it is one."""
    best: list[TimeRead] = []
    for tokens in readings(text):
        found = _times(tokens, by_clock(now))
        if sum(one.end - one.start for one in found) > sum(one.end - one.start for one in best):
            best = found
    return best if len(best) <= MOST_TIMES else []


def periods_meant(one: TimeRead, now: datetime) -> list[Period]:
    """Return the period, and of one without a year, such as "December", that of next year if it is soon; of a weekday
    the last and the next.
    """
    period, days = one.period, [(at.month, at.day) for at in (one.period.start, one.period.end)]
    if one.weekday and not period.sure:
        return [period, one.come_round()]
    if period.sure or one.relative or (2, 29) in days or period.end == LAST_MOMENT or period.start == FIRST_MOMENT:
        return [period]
    coming = one.come_round()
    return [period, coming] if coming.start < by_clock(now) + SOON else [period]


def only_time(text: str, now: datetime) -> TimeRead | None:
    """Return the stretch of time that is all `text` says; None when it says more or something else."""
    stripped = text.strip()
    found = times(stripped, now)
    whole = len(found) == 1 and (found[0].start, found[0].end) == (0, len(stripped))
    return found[0] if whole else None


def without_times(text: str, found: Sequence[TimeRead]) -> str:
    """Return `text` without the times that were read in it."""
    for one in reversed(found):
        text = f"{text[: one.start]} {text[one.end :]}"
    return " ".join(text.split())


# ------------------------------------------------------------------------------------------------ reading rows of signs

_SMALL: Final = "[fpbH&]*"  # articles and prepositions
ABSOLUTE: Final = frozenset("IYM#WQCZ")
Reading = Callable[[Sequence[Token], datetime], Period]


def _times(tokens: Sequence[Token], now: datetime) -> list[TimeRead]:
    signs = _token_signs(tokens)
    found: list[TimeRead] = []
    place = 0
    while place < len(signs):
        match, reading = next(
            ((match, reading) for pattern, reading in _TOP if (match := pattern.match(signs, place))), (None, None)
        )
        if match is None or reading is None:
            place += 1
            continue
        its = tokens[match.start(1) : match.end()]
        with contextlib.suppress(ValueError, OverflowError):  # the 31st of February, or before the year 1
            names = {token.sign for token in its} & ABSOLUTE
            read = reading(its, now)
            found.append(TimeRead(read, tokens[place].start, its[-1].end, not names, names == {"W"}))
        place = match.end()
    return found


def _single_token(tokens: Sequence[Token], sign: str) -> Token | None:
    return next((token for token in tokens if token.sign in sign), None)


def _token_value(tokens: Sequence[Token], sign: str) -> Any:
    token = _single_token(tokens, sign)
    return None if token is None else token.value


def _token_signs(tokens: Sequence[Token]) -> str:
    return "".join(token.sign for token in tokens)


def _date(tokens: Sequence[Token], now: datetime) -> Period:
    """Read a day, a month or a year, of which the greater ones may be missing."""
    year, month, day = (_token_value(tokens, sign) for sign in "YM#")
    if iso := _single_token(tokens, "I"):
        year, month, day = iso.value
    if month is None and year is not None and year > now.year + 1:
        raise ValueError("a number, rather than a year")
    return _period_of_numbers(year, month, day, now)


def _period_of_numbers(year: int | None, month: int | None, day: int | None, now: datetime) -> Period:
    sure = year is not None
    if year is None and month is not None:
        year = now.year if (month, day or 1) <= (now.month, now.day) else now.year - 1
    start = datetime(year or now.year, month or 1, day or 1, tzinfo=UTC)
    if day:
        return Period(start, start + _DAY, sure)
    return Period(start, _next_month(start) if month else start.replace(year=start.year + 1), sure)


def _next_month(start: datetime) -> datetime:
    return _later(start, 1)


def _later(start: datetime, months: int) -> datetime:
    """Return the first of a month so many months later."""
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    return start.replace(year=year, month=month + 1, day=1)


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _relative(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "last week", "this Tuesday", "next March", "last summer"."""
    step = _single_token(tokens, "LTN")
    what = _single_token(tokens, "UWMZ")
    assert step is not None and what is not None  # noqa: S101, PT018 - the pattern says so
    if what.sign == "W":
        return _weekday(what.value, _STEPS[step.value], now)
    if what.sign == "Z":
        return _relative_season(what.value, _STEPS[step.value], now)
    if what.sign == "M":
        return _relative_month(what.value, _STEPS[step.value], now)
    return _of_unit(what.value, _STEPS[step.value], now)


def _relative_month(number: int, step: int, now: datetime) -> Period:
    """Read "last November", "this December", "next March": in November, last November is a year ago."""
    year = (
        now.year + step
        if number == now.month
        else now.year + (number < now.month) * (step > 0) - (number > now.month) * (step < 0)
    )
    start = datetime(year, number, 1, tzinfo=UTC)
    return Period(start, _next_month(start), sure=False)


def _before_last(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "the week before last"."""
    return _relative([tokens[0], Token("L", "before_last", tokens[-1].start, tokens[-1].end)], now)


def _in_relative(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "5 March last year", "el verano del año pasado", "Monday last week"; of "fall last week" only the week."""
    whole = _relative([token for token in tokens if token.sign in "LTNU"], now)
    unit, weekday = _token_value(tokens, "U"), _token_value(tokens, "W")
    if unit == "week" and weekday is not None:
        return Period(whole.start + (weekday - 1) * _DAY, whole.start + weekday * _DAY)
    if unit != "year" or weekday is not None:
        return whole
    if (season := _token_value(tokens, "Z")) is not None:
        return _season_of(season, whole.start.year, now)
    month = _period_of_numbers(whole.start.year, _token_value(tokens, "M"), _token_value(tokens, "#"), now)
    return _third(month, tokens[0].value) if tokens[0].sign == "E" else month


def _days_of_month(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "November 20-24, 2026"."""
    first, last = (token.value for token in tokens if token.sign == "#")
    periods_ = [
        _period_of_numbers(_token_value(tokens, "Y"), _token_value(tokens, "M"), day, now) for day in (first, last)
    ]
    if first > last:
        raise ValueError("ends before it begins")
    return Period(periods_[0].start, periods_[1].end, periods_[0].sure)


def _season(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "spring 2025", or "in summer", the one that began last."""
    number, year = _token_value(tokens, "Z"), _token_value(tokens, "Y")
    if year is not None:
        return _season_of(number, year, now)
    return next(one for one in _seasons(number, now.year, now) if one.start <= now)


def _relative_season(number: int, step: int, now: datetime) -> Period:
    """Read "last summer", the last that has ended, "this winter", of this year unless it is that of the year before,
    and "next spring".
    """
    around = _seasons(number, now.year + 1, now)
    if step > 0:
        return next(one for one in reversed(around) if one.start > now)
    if step < 0:
        return [one for one in around if one.end <= now][-1 - step]
    return next((one for one in around if one.start <= now < one.end), _season_of(number, now.year, now))


def _seasons(number: int, last: int, now: datetime) -> list[Period]:
    """Return a season of the years up to `last`, newest first."""
    return [_season_of(number, year, now) for year in range(last, last - 5, -1)]


def _season_of(number: int, year: int, now: datetime) -> Period:
    """Return a season of a year as the north counts it, by whole months; never sure, as the south has the opposite one.

    A winter is that of the year in which it begins.
    """
    start = datetime(year, MONTHS_EACH * number, 1, tzinfo=now.tzinfo)
    return Period(start, _later(start, MONTHS_EACH), sure=False)


def _quarter(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "Q3 2026", or "Q3", the one that began last."""
    year = _token_value(tokens, "Y")
    start = datetime(
        now.year if year is None else year, MONTHS_EACH * (_token_value(tokens, "Q") - 1) + 1, 1, tzinfo=UTC
    )
    if year is None and start > now:
        start = start.replace(year=start.year - 1)
    return Period(start, _later(start, MONTHS_EACH), year is not None)


def _decade(tokens: Sequence[Token], now: datetime) -> Period:  # noqa: ARG001 - as all readings
    start = datetime(_token_value(tokens, "C"), 1, 1, tzinfo=UTC)
    return Period(start, start.replace(year=start.year + 10))


def _calendar_week(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "KW 47 2026" by ISO 8601, or "KW 47", the one that began last."""
    year, number = _token_value(tokens, "Y"), _token_value(tokens, "#")
    start = _monday(now.year if year is None else year, number)
    if year is None and start > now:
        start = _monday(now.year - 1, number)
    return Period(start, start + 7 * _DAY, year is not None)


def _monday(year: int, week: int) -> datetime:
    return datetime.fromisocalendar(year, week, 1).replace(tzinfo=UTC)


def _of_unit(unit: str, step: int, now: datetime) -> Period:
    today = _midnight(now)
    if unit == "year":
        start = today.replace(year=today.year + step, month=1, day=1)
        return Period(start, start.replace(year=start.year + 1))
    if unit == "month":
        start = _later(today, step)
        return Period(start, _later(start, 1))
    if unit == "quarter":
        start = _later(today, MONTHS_EACH * step - (today.month - 1) % MONTHS_EACH)
        return Period(start, _later(start, MONTHS_EACH))
    monday = today - today.weekday() * _DAY
    if unit == "week":
        return Period(monday + 7 * step * _DAY, monday + 7 * (step + 1) * _DAY)
    if unit == "weekend":
        back = 7 * (step + 1) if step < 0 and today.weekday() >= 5 else 7 * step
        return Period(monday + (back + 5) * _DAY, monday + (back + 7) * _DAY)
    return Period(today + step * _DAY, today + (step + 1) * _DAY)


def _weekday(number: int, step: int, now: datetime, *, sure: bool = True) -> Period:
    today = _midnight(now)
    distance = (number - 1 - today.weekday()) % 7 or 7
    start = today + (distance if step > 0 else (distance - 7 or -7) + 7 * min(step + 1, 0)) * _DAY
    return Period(start, start + _DAY, sure)


def _on_weekday(tokens: Sequence[Token], now: datetime) -> Period:
    return _weekday(tokens[-1].value, -1, now, sure=False)  # or any such day


def _token_number(tokens: Sequence[Token]) -> int:
    token = _single_token(tokens, "w#")
    return 1 if token is None else int(token.value)


def _last_several(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "the last two weeks": up to now."""
    unit, step = _single_token(tokens, "U"), _single_token(tokens, "LTN")
    assert unit is not None and step is not None  # noqa: S101, PT018 - the pattern says so
    distance = _token_number(tokens) * UNITS.get(unit.value, 7) * _DAY
    today = _midnight(now)
    return Period(today, today + distance + _DAY) if step.sign == "N" else Period(today - distance, today + _DAY)


def _period_ago(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "three weeks ago": half a unit of slack either way, as people round."""
    unit = _single_token(tokens, "U")
    days = UNITS.get(unit.value, 7) if unit else 1
    middle = _midnight(now) - _token_number(tokens) * days * _DAY
    slack = timedelta(days=days / 2) if days > 1 else timedelta()
    return Period(middle - slack, middle + slack + _DAY)


def _period_ahead(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "in three days", "a week from now": that day, or the whole month, quarter or year so many ahead."""
    unit, count = _token_value(tokens, "U"), _token_number(tokens)
    if unit in ("day", "week"):
        start = _midnight(now) + count * UNITS[unit] * _DAY
        return Period(start, start + _DAY)
    return _of_unit(unit, count, now)


def _lately(tokens: Sequence[Token], now: datetime) -> Period:  # noqa: ARG001 - as all readings
    """Read "lately", "in letzter Zeit": the past month, more or less."""
    today = _midnight(now)
    return Period(today - UNITS["month"] * _DAY, today + _DAY, sure=False)


def _named_day(tokens: Sequence[Token], now: datetime) -> Period:
    start = _midnight(now) + _DAYS_AWAY[tokens[-1].value] * _DAY
    return Period(start, start + _DAY)


def _part_of_period(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "early November", "Ende letzter Woche": a third of it."""
    rest = [token for token in tokens[1:] if token.sign in "MYLTNUZ"]
    named = _season if _single_token(rest, "Z") else _date
    whole = _relative(rest, now) if _single_token(rest, "LTN") else named(rest, now)
    return _third(whole, tokens[0].value)


def _third(whole: Period, named: str) -> Period:
    third = (whole.end - whole.start) / 3
    part = _PARTS[named]
    first, last = (_midnight(whole.start + third * edge) for edge in (part, part + 1))
    return Period(first, whole.end if part == 2 else last, whole.sure)


def _between_dates(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "between 9 and 15 November 2026": what the first date leaves out is in the second."""
    one, two = _both_sides(tokens)
    last = _any_date(two, now)
    first = _first_date(one, two, last, now)
    if first.start >= last.end:
        start = first.start - 7 * _DAY if "W" in _token_signs(one) else first.start.replace(year=first.start.year - 1)
        first = Period(start, first.end, first.sure)
        if start >= last.end:
            raise ValueError("ends before it begins")
    return Period(first.start, last.end, first.sure and last.sure)


def _both_sides(tokens: Sequence[Token]) -> tuple[list[Token], Sequence[Token]]:
    """Return the words on both sides of the first "and", "until" or dash that a date follows."""
    signs = _token_signs(tokens)
    split = next(
        match.start() for match in re.finditer("[&V-]", signs) if _is_date(signs[match.end() :]) and match.start()
    )
    return [token for token in tokens[:split] if token.sign != "S"], tokens[split + 1 :]


def _first_date(one: Sequence[Token], two: Sequence[Token], last: Period, now: datetime) -> Period:
    """Return the date of the words `one`; year and month that they lack are those of the words `two`."""
    signs = _token_signs(one)
    if {*signs} & {*"ILTN"} or not {*signs} & {*"#M"}:
        return _any_date(one, now)
    year = _token_value(one, "Y") or _token_value(two, "Y") or (last.start.year if "I" in _token_signs(two) else None)
    month = _token_value(one, "M") or _token_value(two, "M") or last.start.month
    return _period_of_numbers(year, month, _token_value(one, "#"), now)


def _since(tokens: Sequence[Token], now: datetime) -> Period:
    """Read "since", "after", "before" or "until" a date."""
    date = _any_date(tokens[1:], now)
    if tokens[0].sign == "S":
        return Period(date.start, LAST_MOMENT, date.sure)
    if tokens[0].sign == "F":
        return Period(date.end, LAST_MOMENT, date.sure)
    return Period(FIRST_MOMENT, date.end if tokens[0].sign == "V" else date.start, date.sure)


_OF_UNIT: Final = "(?:[LTN]U|U[LTN])"
_DATES: Final[tuple[tuple[str, Reading], ...]] = (
    ("I", _date),
    (f"(?:#{_SMALL}M|M#|E-?{_SMALL}M|[MZW]){_SMALL}{_OF_UNIT}|{_OF_UNIT}{_SMALL}[MW]", _in_relative),
    ("[UWMZ]BL(?![UWMZ])", _before_last),
    (f"#{_SMALL}M(?:,?{_SMALL}Y)?", _date),
    ("M#(?:,?Y)?", _date),
    (f"E-?{_SMALL}(?:[MZ](?:{_SMALL}Y)?|Y|[LTN][UZ]|[UZ][LTN])", _part_of_period),
    (f"M,?{_SMALL}Y", _date),
    ("Z,?[fb]*Y", _season),
    (f"Q(?:{_SMALL}Y)?|YQ", _quarter),
    ("C", _decade),
    (f"(?<![#w])K#(?:,?{_SMALL}Y)?", _calendar_week),
    ("[LTN][MZ]|[MZ][LTN](?![UWMZ])", _relative),
    (f"[LTN]{_SMALL}[w#]U|w[LN]U", _last_several),
    ("[w#]UA|A[w#]U", _period_ago),
    ("[LTN][UW]|[UW][LTN]", _relative),
    ("D", _named_day),
    ("R", _lately),
    ("Y", _date),
)
_BARE: Final[tuple[tuple[str, Reading], ...]] = (
    ("M", _date),
    ("W", _on_weekday),
    ("Z", _season),
)  # only where a word before says so
_ANY: Final = "|".join(f"(?:{pattern})" for pattern, _ in (*_DATES, *_BARE))
_COMPILED: Final = [(re.compile(f"{_SMALL}(?:{pattern})"), reading) for pattern, reading in (*_DATES, *_BARE)]
_TOP: Final = [
    (re.compile(f"[fpH]*({pattern})"), reading)
    for pattern, reading in (
        (f"[bSH]{_SMALL}(?:{_ANY}|#)[&V-]{_SMALL}(?:{_ANY})", _between_dates),
        (f"b?M#[&V-]{_SMALL}#(?!{_SMALL}M)(?:,?{_SMALL}Y)?", _days_of_month),
        (
            f"#[&V-]{_SMALL}#{_SMALL}M(?:,?{_SMALL}Y)?|#{_SMALL}M[V-]{_SMALL}#{_SMALL}M(?:,?{_SMALL}Y)?|I[&V-]I|Y[V-]Y",
            _between_dates,
        ),
        (f"M(?:{_SMALL}Y)?[&V-]{_SMALL}M(?:{_SMALL}Y)?", _between_dates),
        (f"[SFBV]{_SMALL}(?:{_ANY})|A{_SMALL}(?:I|(?:#{_SMALL})?M(?:{_SMALL}Y)?|Y|[LTN][UWMZ]|D)", _since),
        *((pattern, reading) for pattern, reading in _DATES),
        ("[w#]UJ|(?<=H)[w#]U(?!A)", _period_ahead),
        ("(?<=[fpH])M", _date),
        ("(?<=[fpH])W", _on_weekday),
        ("(?:(?<=[pH])|(?<=[pH]f))Z", _season),
    )
]


def _is_date(signs: str) -> bool:
    return any(pattern.fullmatch(signs) for pattern, _ in _COMPILED)


def _any_date(tokens: Sequence[Token], now: datetime) -> Period:
    """Read one date that is all of `tokens`.

    Raises:
        ValueError: it is none.
    """
    signs = "".join(token.sign for token in tokens)
    for pattern, reading in _COMPILED:
        if pattern.fullmatch(signs):
            return reading([token for token in tokens if token.sign not in "fpbH&"], now)
    raise ValueError("no date")
