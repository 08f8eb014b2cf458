"""What people are shown, the same at the command line and at the page: moments in words, and which hits of a search.

These are the hits that are likely to answer, and those that contain all that was typed, as people type parts of words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, Final, NamedTuple

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


LEAST_PART: Final = 3  # letters of a part of a word
ACCENTS: Final = re.compile(r"[\u0300-\u036f]")
NEAREST: Final = 3  # hits that are shown where none may answer


class Fit(NamedTuple):
    """The hits that fit, those that don't, both best first, and whether it is sure that one of them answers."""

    hits: list[dict[str, Any]]
    others: list[dict[str, Any]]
    sure: bool


def is_likely(hit: Mapping[str, Any], evidence: str | None) -> bool:
    """Whether a hit is likely to answer: none is where there is no evidence, and no hit that is marked."""
    return evidence != "none" and not hit.get("unlikely")


def fit_of(question: str, hits: Sequence[dict[str, Any]], evidence: str | None) -> Fit:
    """Return what a person is shown for a question, as it was typed, of its hits, best first, with their evidence."""
    part = _plain(question)
    containing = [len(part) >= LEAST_PART and part in _plain(hit["content"]) for hit in hits]
    fits = [contains or is_likely(hit, evidence) for hit, contains in zip(hits, containing, strict=True)]
    return Fit(
        [hit for hit, fit in zip(hits, fits, strict=True) if fit],
        [hit for hit, fit in zip(hits, fits, strict=True) if not fit],
        any(containing) or evidence not in ("weak", "none"),
    )


def _plain(text: str) -> str:
    """Return a text in small letters without accents, as it may be typed in a hurry."""
    folded = text.casefold()
    if not folded.isascii():
        folded = ACCENTS.sub("", unicodedata.normalize("NFKD", folded))
    return " ".join(folded.split())
