"""Moments in words, the same for a person at the command line and at the page."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Final

MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
MONTH: Final = 30  # days, from which on a date says more than a number of weeks
NEAR: Final = {0: "today", 1: "yesterday", -1: "tomorrow"}  # by the days that have passed


def is_day(moment: datetime) -> bool:
    """Whether a moment stands for a whole day, as a date without a time is kept."""
    return moment.astimezone(UTC).time() == time()


def local_moment(moment: datetime) -> datetime:
    """Return a moment in this machine's time; one that stands for a day as the beginning of that day here."""
    return (
        datetime.combine(moment.astimezone(UTC).date(), time()).astimezone() if is_day(moment) else moment.astimezone()
    )


def day_in_words(day: date) -> str:
    """Return a date, such as 2 Feb 2026."""
    return f"{day.day} {day:%b} {day.year}"


def ago(moment: datetime, now: datetime | None = None) -> str:
    """Return how long ago a moment is, or how far ahead: today in hours, then in days; from a month on its date."""
    now = now or datetime.now(UTC)
    at, today = local_moment(moment), now.astimezone()
    seconds, days = (now - moment).total_seconds(), (today.date() - at.date()).days
    if is_day(moment) or (days and abs(seconds) >= HOUR_S):
        return _by_days(at.date(), days)
    if abs(seconds) < MINUTE_S:
        return "just now"
    length, unit = (HOUR_S, "hour") if abs(seconds) >= HOUR_S else (MINUTE_S, "minute")
    return _ago_text(int(abs(seconds) // length), unit, past=seconds > 0)


def _by_days(day: date, days: int) -> str:
    if days in NEAR:
        return NEAR[days]
    if abs(days) >= MONTH:
        return day_in_words(day)
    return (
        _ago_text(abs(days) // 7, "week", past=days > 0)
        if abs(days) >= 7
        else _ago_text(abs(days), "day", past=days > 0)
    )


def _ago_text(count: int, unit: str, *, past: bool) -> str:
    words = f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{words} ago" if past else f"in {words}"


def exact(moment: datetime) -> str:
    """Return a moment to the minute in this machine's time, or the day alone where that is all that is known."""
    at = local_moment(moment)
    return day_in_words(at) if is_day(moment) else f"{day_in_words(at)}, {at:%H:%M}"


def counted(number: int, one: str = "memory", several: str = "memories") -> str:
    """Return a number with what is counted, in the singular or the plural."""
    return f"{number:,} {one if number == 1 else several}"
