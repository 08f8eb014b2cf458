"""Moments as people and models write them: a date, no zone, "yesterday", "in 2 weeks"."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

from pgengram import fields as f
from pgengram.errors import InvalidInput
from pgengram.runtime.context import here
from pgengram.search.dates import UNITS, WEEKDAYS, only_time

LONGEST_MOMENT: Final = 100  # characters; to find a time in a longer text takes seconds
_NUMERIC: Final = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})", re.ASCII)
_YEAR_FIRST: Final = re.compile(r"(\d{4})[./](\d{1,2})[./](\d{1,2})", re.ASCII)
_YEAR: Final = re.compile(r"(19|20)\d\d", re.ASCII)
_SECONDS: Final = re.compile(r"\d{9,13}(\.\d+)?", re.ASCII)
_SECONDS_OF: Final = {"minute": 60, "hour": 3_600} | {unit: days * 86_400 for unit, days in UNITS.items()}
_AWAY: Final = re.compile(
    rf"(?P<in>in )?(?P<count>\d{{1,4}}|an?|one|two|three) (?P<unit>{'|'.join(_SECONDS_OF)})s?(?P<way> ago| from now)?"
)
_SPAN: Final = re.compile(r"(\d{1,4})([hdwy])", re.ASCII)  # as git, journalctl and gh have it
_SECONDS_OF_LETTER: Final = {
    unit[0]: seconds for unit, seconds in _SECONDS_OF.items() if unit not in ("minute", "month")
}
_NEXT: Final = re.compile(rf"next (?P<what>week|month|year|{'|'.join(WEEKDAYS)})")
_CLOCK: Final = re.compile(
    r"(?P<day>.+?),? (?P<at>at |um |a las |à |alle )?(?P<hour>\d{1,2})(?:[:.h](?P<minute>\d\d))? ?"
    r"(?P<half>[ap]m)?(?: ?(?:uhr|h))?",
    re.ASCII,
)
_COUNTS: Final = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3}
_DAYS: Final = {
    "today": 0, "heute": 0, "hoy": 0, "yesterday": -1, "gestern": -1, "ayer": -1,
    "tomorrow": 1, "morgen": 1, "mañana": 1, "day after tomorrow": 2, "day before yesterday": -2,
}  # fmt: skip
_DAY: Final = timedelta(days=1)
_INSTANT: Final = timedelta(microseconds=1)
_MILLISECONDS_FROM: Final = 1e11  # a number this large counts no seconds: that would be the year 5138


def read_moment(given: str | float, now: datetime, *, end: bool = False, ahead: bool = False) -> datetime | None:
    """Return the moment that `given` names, with its zone; None when it names none.

    A time of day without a zone is this machine's; a day or a longer stretch without one is UTC's.

    Args:
        given: ISO 8601 in whole or in part, a date in words, "last week", "in 2 weeks", "7d", or seconds since 1970.
        now: from when to count.
        end: of a day or a longer stretch its last instant is meant, not its first.
        ahead: a day without a year lies in the future.

    Raises:
        InvalidInput: it may be one of two days.
    """
    text = str(given).strip()
    with contextlib.suppress(ValueError, OverflowError):
        if _YEAR.fullmatch(text):
            return _edge_of_period(
                datetime(int(text), 1, 1, tzinfo=UTC), datetime(int(text) + 1, 1, 1, tzinfo=UTC), end=end
            )
        if _SECONDS.fullmatch(text):
            seconds = float(text)
            return datetime.fromtimestamp(seconds / 1_000 if seconds >= _MILLISECONDS_FROM else seconds, UTC)
    return None if isinstance(given, (int, float)) else _moment_of_text(text, now, end=end, ahead=ahead)


LAST_INSTANT: Final = frozenset({"until", "expires_at", "as_of"})  # a day as their value is meant whole
NEAR: Final = timedelta(days=31)  # what is nearer is meant, where the other is not


def moment_of(name: str, given: str | float, now: datetime) -> datetime | None:
    """Return the moment that an argument names: an end lies ahead, an event may lie anywhere, anything else has been.

    Raises:
        InvalidInput: it may be one of two days.
    """
    end = name in LAST_INSTANT
    if name != "occurred_at":
        return read_moment(given, now, end=end, ahead=name == "expires_at")
    been, coming = (read_moment(given, now, ahead=ahead) for ahead in (False, True))
    if been is None or coming is None or been == coming:
        return been or coming
    near = [one for one in (been, coming) if abs(one - now) <= NEAR]
    if len(near) == 1:
        return near[0]
    raise _either(given, f"{been:%Y-%m-%d}", f"{coming:%Y-%m-%d}")


def _either(given: str | float, one: str, other: str) -> InvalidInput:
    return InvalidInput(f"{given} may be {one} or {other}.", f"Call again with one of them, such as {one}T00:00:00Z.")


def _moment_of_text(text: str, now: datetime, *, end: bool, ahead: bool) -> datetime | None:
    with contextlib.suppress(ValueError, OverflowError):
        return _of_iso(re.sub(r"\s*(?:UTC|GMT)$", "+00:00", text), end=end)
    low = " ".join(text.lower().removeprefix("the ").split())
    if low in ("now", "jetzt", "ahora"):
        return now
    with contextlib.suppress(ValueError, OverflowError):
        return (
            _at_distance(low, now, ahead=ahead)
            or _of_days(low, now, end=end, ahead=ahead)
            or _at_clock(low, now, ahead=ahead)
            or _of_date(text, now, end=end, ahead=ahead)
        )
    return None


def _at_distance(low: str, now: datetime, *, ahead: bool) -> datetime | None:
    """Read "in 2 weeks", "3 days ago", "7d"."""
    away = _AWAY.fullmatch(low)
    if away and (bool(away["in"]) != bool(away["way"]) or (ahead and not away["way"])):
        return _away(away, now)
    if span := _SPAN.fullmatch(low):
        distance = timedelta(seconds=int(span[1]) * _SECONDS_OF_LETTER[span[2]])
        return now + distance if ahead else now - distance
    return None


def _of_days(low: str, now: datetime, *, end: bool, ahead: bool) -> datetime | None:
    """Read "yesterday", "next month", "friday"."""
    today = datetime.combine(now.date(), time(), UTC)
    if low in _DAYS:
        day = today + _DAYS[low] * _DAY
        return _edge_of_period(day, day + _DAY, end=end)
    if following := _NEXT.fullmatch(low):
        return _next(following["what"], today, end=end)
    if low in WEEKDAYS:
        return _next(low, today if ahead else today - 8 * _DAY, end=end)
    return None


def _at_clock(low: str, now: datetime, *, ahead: bool) -> datetime | None:
    """Read "yesterday 19:30", "next friday at 8 pm", "übermorgen um 19 Uhr"."""
    clock = _CLOCK.fullmatch(low)
    if clock is None or not (clock["at"] or clock["minute"] or clock["half"]):
        return None
    first, last = (_moment_of_text(clock["day"], now, end=end, ahead=ahead) for end in (False, True))
    if first is None or last is None or last - first != _DAY - _INSTANT:
        return None
    return datetime.combine(first.date(), _time_of(clock)).astimezone()


def _time_of(clock: re.Match[str]) -> time:
    hour = int(clock["hour"])
    if clock["half"]:
        hour = hour % 12 + 12 * (clock["half"] == "pm")
    return time(hour, int(clock["minute"] or 0))


def _of_date(text: str, now: datetime, *, end: bool, ahead: bool) -> datetime | None:
    """Read a date in numbers, or a time in any words that a question may have."""
    if day := _date_of_numbers(text):
        return _edge_of_period(day, day + _DAY, end=end)
    only = only_time(text, now)
    if only is None:
        return None
    period = only.period
    if not period.sure and ahead and period.end <= now:
        period = only.come_round()
    return _edge_of_period(period.start, period.end, end=end)


def _of_iso(text: str, *, end: bool) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        return moment
    if not any(sign in text for sign in ":Tt"):  # a day alone
        day = moment.replace(tzinfo=UTC)
        return _edge_of_period(day, day + _DAY, end=end)
    return moment.astimezone()


def _date_of_numbers(text: str) -> datetime | None:
    """Read a date of numbers; where day and month could be exchanged only dots say which is which."""
    if match := _YEAR_FIRST.fullmatch(text):
        return datetime(int(match[1]), int(match[2]), int(match[3]), tzinfo=UTC)
    if not (match := _NUMERIC.fullmatch(text)):
        return None
    first, second, year = int(match[1]), int(match[3]), int(match[4])
    if match[2] == "." or first > 12 or first == second:
        return datetime(year, second, first, tzinfo=UTC)
    if second > 12:
        return datetime(year, first, second, tzinfo=UTC)
    one, other = f"{year}-{second:02}-{first:02}", f"{year}-{first:02}-{second:02}"
    raise _either(text, one, other)


def _away(match: re.Match[str], now: datetime) -> datetime:
    count = _COUNTS.get(match["count"]) or int(match["count"])
    distance = timedelta(seconds=count * _SECONDS_OF[match["unit"]])
    return now - distance if match["way"] == " ago" else now + distance


def _next(what: str, today: datetime, *, end: bool) -> datetime:
    if what in WEEKDAYS:
        day = today + ((WEEKDAYS.index(what) - today.weekday()) % 7 or 7) * _DAY
        return _edge_of_period(day, day + _DAY, end=end)
    if what == "week":
        monday = today + (7 - today.weekday()) * _DAY
        return _edge_of_period(monday, monday + 7 * _DAY, end=end)
    if what == "year":
        first = today.replace(year=today.year + 1, month=1, day=1)
        return _edge_of_period(first, first.replace(year=first.year + 1), end=end)
    first = (today.replace(day=1) + 32 * _DAY).replace(day=1)
    return _edge_of_period(first, (first + 32 * _DAY).replace(day=1), end=end)


def _edge_of_period(start: datetime, stop: datetime, *, end: bool) -> datetime:
    return stop - _INSTANT if end else start


def exact_moment(value: object) -> datetime | None:
    """Return the moment that ISO 8601 with a zone names."""
    if isinstance(value, str) and value[10:11] in ("T", "t"):
        with contextlib.suppress(ValueError):
            exact = datetime.fromisoformat(value)
            return None if exact.tzinfo is None else exact
    return None


def in_order(given: dict[str, Any], coerced: dict[str, str]) -> dict[str, Any]:
    """Return arguments with the first and the last day of a time in their places."""
    first, last = (_moment_or_none(given[name], end=name == "until") for name in ("since", "until"))
    if first is None or last is None or first <= last:
        return given
    coerced["since, until"] = "swapped"
    return {**given, "since": given["until"], "until": given["since"]}


def _moment_or_none(value: Any, *, end: bool = False) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or len(str(value)) > LONGEST_MOMENT:
        return None
    with contextlib.suppress(InvalidInput):
        return exact_moment(value) or read_moment(value, here(), end=end)
    return None


def day_before(value: Any) -> Any:
    """Return the last instant before a day that is a bound itself; any other value as it is."""
    start = read_moment(value, here()) if isinstance(value, str) else None
    if start is None or start == read_moment(value, here(), end=True):
        return value
    return f.as_utc(start - _INSTANT)


def tell_of_past_end(made: Mapping[str, Any], coerced: dict[str, str], *, refuses: bool) -> None:
    """Say of a memory that it has ended, or where `refuses` is set refuse a new one that no search would ever find: of
    what began and ended in the past `as_of` tells.

    Raises:
        InvalidInput: nothing says when it began.
    """
    end = exact_moment(made["expires_at"])
    if end is None or end >= datetime.now(UTC):
        return
    given = coerced.get("expires_at", made["expires_at"])
    if refuses and made.get("occurred_at") is None:
        raise InvalidInput(
            f"expires_at is in the past ({given}): no search would ever find this memory.",
            "Leave expires_at out to keep what was so, give a day to come, or add occurred_at for what held between "
            "the "
            "two.",
        )
    coerced["expires_at"] = f"{given}: in the past, hidden at once; as_of finds it"
