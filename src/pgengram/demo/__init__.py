"""A small invented life to try the server on: its memories and the questions that should find them.

The texts lie in corpus.json. Their dates are kept as days before today, so that the demo is always recent. The
questions were worded until meaning finds their memories and shared words do not: they show that a search works, but
they measure nothing; that is what the benchmarks are for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from importlib.resources import files
from typing import Any

DATE_SLOT = re.compile(r"\{(?P<days>[+-]\d+)(?:T(?P<time>\d\d:\d\d))?\}")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)  # strftime would follow the machine's locale


@dataclass(frozen=True, slots=True)
class DemoMemory:
    """One memory of the demo, with its date already counted back from now."""

    key: str
    type: str
    content: str
    occurred_at: datetime
    kind: str | None = None
    importance: float | None = None
    tags: tuple[str, ...] = ()
    session_id: str | None = None
    speaker: str | None = None
    project: str | None = None
    user: str | None = None
    metadata: Mapping[str, Any] | None = None

    def arguments(self) -> dict[str, Any]:
        """Return what create_memories takes for this memory; what it does not have is left out."""
        found = {
            "content": self.content,
            "type": self.type,
            "kind": self.kind,
            "importance": self.importance,
            "tags": list(self.tags) or None,
            "occurred_at": self.occurred_at.isoformat(),
            "session_id": self.session_id,
            "speaker": self.speaker,
            "project": self.project,
            "user": self.user,
            "metadata": dict(self.metadata) if self.metadata else None,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question in other words than the memory that answers it."""

    question: str
    expects: str
    about: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """The memories, oldest first, and the questions about them."""

    memories: tuple[DemoMemory, ...]
    questions: tuple[DemoQuestion, ...]

    def memory(self, key: str) -> DemoMemory:
        """Return the memory that `key` names.

        Raises:
            KeyError: there is none.
        """
        for memory in self.memories:
            if memory.key == key:
                return memory
        raise KeyError(key)


def load_corpus(now: datetime | None = None) -> Corpus:
    """Read the demo corpus and date it backwards from `now` (an aware datetime; the present when omitted).

    Every memory lies before today's midnight in UTC, so none is in the future, whatever the hour.
    """
    today = (now or datetime.now(UTC)).astimezone(UTC).date()
    raw = json.loads(files(__name__).joinpath("corpus.json").read_text(encoding="utf-8"))
    memories = (_dated_memory(item, today) for item in raw["memories"])
    return Corpus(
        memories=tuple(sorted(memories, key=lambda memory: memory.occurred_at)),
        questions=tuple(DemoQuestion(**item) for item in raw["questions"]),
    )


def _dated_memory(item: dict[str, Any], today: date) -> DemoMemory:
    fields = {name: _with_dates(value, today) for name, value in item.items()}
    midnight = datetime.combine(today, time(tzinfo=UTC)) - timedelta(days=fields.pop("days_ago"))
    at = time.fromisoformat(fields.pop("time"))
    fields["tags"] = tuple(fields.get("tags", ()))
    return DemoMemory(occurred_at=midnight + timedelta(hours=at.hour, minutes=at.minute), **fields)


def _with_dates(value: Any, today: date) -> Any:
    """Fill the date slots of every text inside `value`."""
    if isinstance(value, str):
        return DATE_SLOT.sub(lambda slot: _spelled_slot(slot, today), value)
    if isinstance(value, list):
        return [_with_dates(part, today) for part in value]
    if isinstance(value, dict):
        return {name: _with_dates(part, today) for name, part in value.items()}
    return value


def _spelled_slot(slot: re.Match[str], today: date) -> str:
    """Return the slot's date as a person writes it, or its moment in ISO 8601 when it has a time."""
    day = today + timedelta(days=int(slot["days"]))
    if slot["time"]:
        return datetime.combine(day, time.fromisoformat(slot["time"]), tzinfo=UTC).isoformat()
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"
