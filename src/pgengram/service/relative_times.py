"""Times in a text that count from now, such as "tomorrow" and "last week": what they mean, kept beside the text.

A year later nobody knows which day "tomorrow" was; so the date is stored when the text is.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pgengram.inputs import Change, NewMemory
from pgengram.runtime.clock import here
from pgengram.search.times.dates import TimeRead, times

if TYPE_CHECKING:
    from datetime import datetime

Written = TypeVar("Written", NewMemory, Change)
LONGEST: Final = 1_000  # characters; a longer text is a log or a letter, with dates of its own
A_WEEK: Final = timedelta(days=7)  # what is longer has no day on which it happens
LATER: Final = timedelta(days=3 * 366)  # a time that counts from now is another one then
KEPT: Final = "times"  # the key of `metadata` for what `occurred_at` has no room for


def with_dates(given: Written) -> tuple[Written, dict[str, str]]:
    """Return a memory or a change with the dates that its text counts from now, and how each was read.

    One day or week is `occurred_at`, where the caller named none; anything else is in `metadata`.
    """
    text = given.content
    if not text or given.occurred_at is not None or len(text) > LONGEST:
        return given, {}
    now = here()
    if not (found := _counted_from(text, now)):
        return given, {}
    read = {text[one.start : one.end].strip(" .,;:!?"): str(one.period) for one in found}
    [first, *others] = found
    update: dict[str, Any]
    if others or first.period.end - first.period.start > A_WEEK:
        update, where = {"metadata": {**(given.metadata or {}), KEPT: read}}, f"metadata.{KEPT}"
    else:
        start = first.period.start
        update, where = {"occurred_at": start}, "occurred_at"
    return given.model_copy(update=update), {word: f"{_as_day(dates)}, kept in {where}" for word, dates in read.items()}


def _counted_from(text: str, now: datetime) -> list[TimeRead]:
    """Return the times in a text that are sure, but others when it is told later."""
    found = [one for one in times(text, now) if one.period.sure]
    if not found:
        return []
    later = {(one.start, str(one.period)) for one in times(text, now + LATER)}
    return [one for one in found if (one.start, str(one.period)) not in later]


def _as_day(period: str) -> str:
    first, _, last = period.partition("..")
    return first if first == last else period
