"""Dates in a question: "last March", "in 2023", "yesterday" become stretches of time."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

MONTHS: Final = {
    name: number
    for number, names in enumerate(
        ("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
         "september sep sept", "october oct", "november nov", "december dec"), 1)
    for name in names.split()
}  # fmt: skip
WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTH: Final = "|".join(sorted(MONTHS, key=len, reverse=True))
_DAY: Final = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
# Of ASCII only: Unicode holds a long s to be an s, and then no table knows the word.
IGNORING_CASE: Final = re.IGNORECASE | re.ASCII
UNITS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}

# Tried in this order; what a pattern has taken is not read again.
_ISO: Final = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)(?:-(?P<day>\d\d))?\b", re.ASCII)
_DAY_MONTH: Final = re.compile(rf"\b{_DAY}(?:\s+of)?\s+(?P<month>{_MONTH})\b\.?(?:,?\s+{_YEAR})?", IGNORING_CASE)
_MONTH_DAY: Final = re.compile(rf"\b(?P<month>{_MONTH})\b\.?\s+{_DAY}\b(?:,?\s+{_YEAR})?", IGNORING_CASE)
_MONTH_YEAR: Final = re.compile(rf"\b(?P<month>{_MONTH})\b\.?,?\s+{_YEAR}", IGNORING_CASE)
_BARE_MONTH: Final = re.compile(
    rf"\b(?:(?P<last>last|this)|in|during|since|by|of|early|late|mid)\s+(?P<month>{_MONTH})\b", IGNORING_CASE
)
_BARE_YEAR: Final = re.compile(rf"\b{_YEAR}\b", re.ASCII)
_RELATIVE: Final = re.compile(r"\b(?P<which>last|this|past)\s+(?P<unit>day|week|month|year)\b", IGNORING_CASE)
_AGO: Final = re.compile(
    r"\b(?P<count>\d{1,3}|an?|one|two|three)\s+(?P<unit>day|week|month|year)s?\s+ago\b", IGNORING_CASE
)
_NAMED_DAY: Final = re.compile(r"\b(?P<name>today|yesterday|tonight)\b", IGNORING_CASE)
_WEEKDAY: Final = re.compile(rf"\b(?:last|on|this)\s+(?P<name>{'|'.join(WEEKDAYS)})\b", IGNORING_CASE)
ASKS_FOR_TIME: Final = re.compile(
    r"^\s*(?:when\b|since when\b|how long\b|how many (?:years|days|weeks|months)\b|"
    r"(?:in |on |during )?(?:what|which) (?:year|date|day|month|time|season)\b)",
    IGNORING_CASE,
)


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` to before `end`; `sure` when the question names the year or counts from now."""

    start: datetime
    end: datetime
    sure: bool = True


def asks_for_time(question: str) -> bool:
    """Whether `question` wants to know when."""
    return ASKS_FOR_TIME.match(question) is not None


def periods(question: str, now: datetime) -> list[Period]:
    """Return the stretches of time that `question` names, in UTC; those without a year lie in the year before `now`."""
    found: list[Period] = []
    rest = question
    for pattern, reading in _READINGS:
        for match in pattern.finditer(rest):
            with contextlib.suppress(ValueError, OverflowError):  # the 31st of February, or before the year 1
                found.append(reading(match, now.astimezone(UTC)))
        rest = pattern.sub(" ", rest)
    return found


def _date(match: re.Match[str], now: datetime) -> Period:
    """Read a year, month and day, of which the smaller ones may be missing."""
    given = match.groupdict()
    month_word = given.get("month")
    month = None if month_word is None else MONTHS.get(month_word.lower()) or _number(month_word)
    day, year = _number(given.get("day")), _number(given.get("year"))
    sure = year is not None
    if year is None and month is not None:
        year = now.year if (month, day or 1) <= (now.month, now.day) else now.year - 1
    start = datetime(year or now.year, month or 1, day or 1, tzinfo=UTC)
    if day:
        return Period(start, start + timedelta(days=1), sure)
    return Period(start, _next_month(start) if month else start.replace(year=start.year + 1), sure)


def _number(word: str | None) -> int | None:
    return int(word) if word and word.isdigit() else None


def _next_month(start: datetime) -> datetime:
    return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _relative(match: re.Match[str], now: datetime) -> Period:
    unit, this = match["unit"].lower(), match["which"].lower() == "this"
    today = _midnight(now)
    if unit == "year":
        start = today.replace(year=today.year - (not this), month=1, day=1)
        return Period(start, start.replace(year=start.year + 1))
    if unit == "month":
        start = today.replace(day=1)
        start = start if this else (start - timedelta(days=1)).replace(day=1)
        return Period(start, _next_month(start))
    if unit == "week":
        start = today - timedelta(days=today.weekday() + (0 if this else 7))
        return Period(start, start + timedelta(days=7))
    start = today - timedelta(days=0 if this else 1)
    return Period(start, start + timedelta(days=1))


def _ago(match: re.Match[str], now: datetime) -> Period:
    """Read "three weeks ago": half a unit of slack either way, as people round."""
    words = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3}
    count, unit = match["count"].lower(), UNITS[match["unit"].lower()]
    middle = _midnight(now) - timedelta(days=(words.get(count) or int(count)) * unit)
    slack = timedelta(days=unit / 2) if unit > 1 else timedelta()
    return Period(middle - slack, middle + slack + timedelta(days=1))


def _named_day(match: re.Match[str], now: datetime) -> Period:
    start = _midnight(now) - timedelta(days=match["name"].lower() == "yesterday")
    return Period(start, start + timedelta(days=1))


def _weekday(match: re.Match[str], now: datetime) -> Period:
    back = (now.weekday() - WEEKDAYS.index(match["name"].lower())) % 7 or 7
    start = _midnight(now) - timedelta(days=back)
    return Period(start, start + timedelta(days=1))


_READINGS: Final = (
    (_ISO, _date),
    (_DAY_MONTH, _date),
    (_MONTH_DAY, _date),
    (_MONTH_YEAR, _date),
    (_BARE_MONTH, _date),
    (_BARE_YEAR, _date),
    (_RELATIVE, _relative),
    (_AGO, _ago),
    (_NAMED_DAY, _named_day),
    (_WEEKDAY, _weekday),
)


def only_period(text: str, now: datetime) -> Period | None:
    """Return the stretch of time that is all `text` says, in UTC; None when it says more or something else."""
    for pattern, reading in _READINGS:
        if match := pattern.fullmatch(text.strip()):
            with contextlib.suppress(ValueError, OverflowError):
                return reading(match, now.astimezone(UTC))
    return None
