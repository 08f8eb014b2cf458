"""What an address or a form says, read: days, numbers, ids, names of findings, memories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any, Final, TypeVar
from uuid import UUID

from pydantic import BaseModel

from pgengram import fields as f
from pgengram.errors import InvalidInput, NotFound
from pgengram.service.calls.arguments import Reader
from pgengram.views import Shown

PAIRED: Final = ("duplicates", "contradictions", "outdated")
PLAN: Final = "plan"
FIND_IT: Final = "It may have been erased. Search for it in its own words."
MAX_WHOLE: Final = 10_000_000
Model = TypeVar("Model", bound=BaseModel)
_reader: Final = cache(lambda model: Reader(model, liberal=False))


def filled(model: type[Model], fields: Mapping[str, Any]) -> Model:
    """Return the request that a form or an address asks for.

    Raises:
        InvalidInput: a field cannot be as it is; the message names it and says what is allowed.
        LimitExceeded: a text or a list is too long.
    """
    found: Model = _reader(model).read(fields)[0]
    return found


def chosen_finding(given: str | None, names: Sequence[str], found: Mapping[str, int]) -> str:
    """Return which findings to show: those asked for, else the first pairs, else the plan."""
    chosen = given or next((name for name in PAIRED if found.get(name)), PLAN)
    if chosen not in names:
        raise InvalidInput(f"find must be one of {', '.join(names)}.")
    return chosen


def days_beside(day: date | None, days: Iterable[date]) -> tuple[date | None, date | None]:
    """Return the days with memories before and after one."""
    if day is None:
        return None, None
    return max((one for one in days if one < day), default=None), min((one for one in days if one > day), default=None)


def date_of(given: str | None) -> date | None:
    """Return a day, or None when none is given."""
    if not given:
        return None
    try:
        day = date.fromisoformat(given)
    except ValueError:
        raise InvalidInput("day must be a date such as 2026-03-31.") from None
    if not f.FIRST_MOMENT.date() < day < f.LAST_MOMENT.date() - timedelta(days=1):
        raise InvalidInput("day must be between the years 1 and 9999.")
    return day


def moment_of(given: str | None) -> datetime:
    """Return a moment that an address says, or this one when it says none."""
    try:
        return datetime.fromisoformat(given).astimezone(UTC) if given else datetime.now(UTC)
    except ValueError:
        raise InvalidInput("at must be a moment such as 2026-03-31T12:00:00+00:00.") from None


def number_given(given: str | None, otherwise: float) -> float:
    """Return a number, or `otherwise` when none is given."""
    try:
        return otherwise if given is None or given == "" else float(given)
    except ValueError:
        raise InvalidInput("That is not a number.") from None


def whole_number(given: str | None, least: int) -> int:
    """Return a whole number, or `least` when none is given."""
    number = number_given(given, least)
    if not (number.is_integer() if isinstance(number, float) else True) or not least <= number <= MAX_WHOLE:
        raise InvalidInput(f"That must be a whole number from {least} on.")
    return int(number)


def memory_id(given: str) -> UUID:
    """Return the id of a memory."""
    try:
        return UUID(given)
    except ValueError:
        raise NotFound("memory", given[:64], FIND_IT) from None


def turn_place(cite: str) -> dict[str, str]:
    """Return client, conversation and number of a turn that is cited as `turn:client/conversation/number`."""
    client, _, rest = cite.partition(":")[2].partition("/")
    conversation, _, number = rest.rpartition("/")
    return {"client": client, "conversation": conversation, "number": number}


def turn_after(given: str | None) -> int:
    """Return a turn's id, or -1 when none is given."""
    try:
        return int(given or -1)
    except ValueError:
        raise InvalidInput("after must be the id of a message.") from None


SUBJECTS: Final = {
    "project": "project",
    "tags": "topic",
    "name": "name",
}  # what an address may ask about, and how it is called
# In this order, with the kinds of each; what has no kind is told by its type.
SECTIONS: Final[dict[str, frozenset[str]]] = {
    "In short": frozenset({"person", "project", "fact", "general", "connection", "semantic"}),
    "Decisions": frozenset({"decision", "strategic"}),
    "Preferences": frozenset({"preference"}),
    "Goals": frozenset({"goal"}),
    "How it is done": frozenset({"process", "procedural"}),
    "What was learned": frozenset({"learning", "insight", "pattern", "error"}),
    "What happened": frozenset({"observation", "episodic"}),
}
MOST_CHANGED: Final = 5


def stated_at(one: Mapping[str, str]) -> str:
    """Return when something happened, or else was stored."""
    return one.get("occurred_at") or one["created_at"]


def sections(memories: Sequence[Shown]) -> dict[str, list[Shown]]:
    """Return memories by section, each what matters most first; what happened from the latest back."""
    found: dict[str, list[Shown]] = {}
    for title, kinds in SECTIONS.items():
        mine = [one for one in memories if (one.get("kind") or one["type"]) in kinds]
        newest = sorted(mine, key=stated_at, reverse=True)
        if mine:
            found[title] = newest if title == "What happened" else sorted(newest, key=lambda one: -one["importance"])
    return found


def changed_lately(memories: Sequence[Shown]) -> list[Shown]:
    """Return the memories that were changed last."""
    changed = [one for one in memories if one["version"] > 1 and one["updated_at"] > one["created_at"]]
    return sorted(changed, key=lambda one: one["updated_at"], reverse=True)[:MOST_CHANGED]
