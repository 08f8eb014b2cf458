"""When the next thing is that a memory tells of, within some days: by its fields, or by the dates in its text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pgengram.search.times.dates import Period, TimeRead, times

if TYPE_CHECKING:
    from pgengram.search.results.hits import Hit

AHEAD: Final = timedelta(days=14)
A_DAY: Final = timedelta(days=1)
LONGEST: Final = 1_000  # characters; a longer text is a log or a letter
COMES_ROUND: Final = timedelta(days=366)  # a day that was so long past when it was told comes round, as birthdays do


def window(now: datetime) -> Period:
    """Return the days that are soon: today and the `AHEAD` after it, by the clock of who asks."""
    start = now.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    return Period(start, start + AHEAD + A_DAY)


def due(hit: Hit, now: datetime) -> date | None:
    """Return the first day within the window on which something that a memory tells of happens or ends; None where
    nothing does.
    """
    soon = window(now)
    days = [day for day in _days_of(hit, now, soon) if soon.start <= day < soon.end]
    return min(days).date() if days else None


def _days_of(hit: Hit, now: datetime, soon: Period) -> Iterator[datetime]:
    for name in ("occurred_at", "expires_at"):
        if getattr(hit, name) is not None:
            yield getattr(hit, name).astimezone(UTC)
    if len(hit.content) > LONGEST:
        return
    later = {str(one.period) for one in times(hit.content, now + 3 * COMES_ROUND)}
    for one in times(hit.content, now):
        absolute = one.period.sure and str(one.period) in later  # what counts from now is kept in a field
        if absolute or not one.period.sure:
            yield from _days_meant(hit, one, soon)


def _days_meant(hit: Hit, one: TimeRead, soon: Period) -> Iterator[datetime]:
    """Yield the first day of a period, and of a single day when it comes round next."""
    start = one.period.start
    if one.period.sure:
        yield start
    single = one.period.end - start <= A_DAY
    past = hit.created_at - start > COMES_ROUND and hit.type != "episodic"
    if single and (past or not one.period.sure):
        for year in {soon.start.year, soon.end.year}:
            if (start.month, start.day) != (2, 29):
                yield start.replace(year=year)
