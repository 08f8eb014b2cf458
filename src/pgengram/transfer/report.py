"""What an import came to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final
from uuid import UUID

from pgengram import fields as f
from pgengram.store.connection.database import Transaction
from pgengram.store.memory import memories
from pgengram.store.memory.confirmations import refuse_changed
from pgengram.store.memory.plans import LIVING, ChangePlan, Step
from pgengram.text.secrets import redacted
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import Left, uuid_of

LIST: Final = ".pgengram-notes.json"
REASON: Final = "its note was deleted"


@dataclass(frozen=True, slots=True)
class Gone:
    """A memory whose note is gone: as it is now, and where the note was."""

    id: UUID
    version: int
    place: str
    content: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"id": str(self.id), "version": self.version, "place": self.place, "content": self.content}


def parsed_list(content: bytes | None) -> dict[str, str] | None:
    """Return where the notes of a list are, by the ids of their memories; None where it is not a list."""
    try:
        found = json.loads(content or b"")
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    return {id_: place for id_, place in found.items() if isinstance(place, str) and uuid_of(id_)}


def write_list(folder: Path, places: Mapping[str, str]) -> None:
    """Write the list of a folder's notes, one on each line in the order of their names."""
    ordered = dict(sorted(places.items(), key=lambda one: (one[1], one[0])))
    text = json.dumps(ordered, ensure_ascii=False, indent=1) + "\n"
    (folder / LIST).write_text(text, encoding="utf-8", newline="\n")


def deleted_notes(source: Source, content: bytes) -> dict[UUID, str] | None:
    """Return the notes of a list of which no file of the source has the name; None where the list can't be read."""
    names = {file.path.name for file in source.files}
    listed = parsed_list(content)
    if listed is None:
        return None
    return {UUID(id_): place for id_, place in listed.items() if PurePosixPath(place).name not in names}


async def of_memories(tx: Transaction, places: Mapping[UUID, str]) -> list[Gone]:
    """Return the memories among these that are there and not forgotten, in the order of their notes."""
    rows = await memories.read_memories(tx, list(places), None) if places else {}
    return [
        Gone(id_, rows[id_]["version"], place, rows[id_]["content"])
        for id_, place in sorted(places.items(), key=lambda one: one[1])
        if id_ in rows and rows[id_]["status"] in LIVING
    ]


async def forgetting(tx: Transaction, gone: list[Gone]) -> ChangePlan:
    """Return the plan of forgetting these memories.

    Raises:
        ConfirmRequired: one of them was changed or erased since it was listed.
    """
    await refuse_changed(tx, {str(one.id): one.version for one in gone})
    return await ChangePlan.read(tx, [Step("forget", [one.id for one in gone], reason=REASON)])


MOST_LEFT: Final = 1_000  # of what was left out that are kept each for itself
PLACES: Final = 3  # that are told for each reason
EXAMPLES: Final = 10
EXAMPLE: Final = 100  # characters of one


@dataclass(slots=True)
class LeftOut:
    """How much was left out for one reason, and where the first were."""

    count: int = 0
    first: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Imported:
    """What an import came to, by the kind of record: added, there already, of those changed; and what was left, with
    its reason.

    left: of what somebody would miss, the first MOST_LEFT; reasons: all of it by reason; passed: what nobody would
        miss.
    gone: memories whose note is gone from the folder that it was exported to; None where no list tells.
    redacted: how many records had secrets taken out of them. since, until: from when to when the added ones are.
    """

    system: str
    dry_run: bool
    added: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    updated: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    left: list[Left] = field(default_factory=list)
    reasons: dict[str, LeftOut] = field(default_factory=dict)
    passed: dict[str, LeftOut] = field(default_factory=dict)
    gone: list[Gone] | None = None
    redacted: int = 0
    since: datetime | None = None
    until: datetime | None = None
    examples: list[str] = field(default_factory=list)
    _last_example: str = ""

    def leave(self, one: Left) -> None:
        """Note that something was not taken."""
        group = (self.passed if one.by_design else self.reasons).setdefault(one.reason, LeftOut())
        group.count += 1
        if len(group.first) < PLACES:
            group.first.append(one.place)
        if not one.by_design and len(self.left) < MOST_LEFT:
            self.left.append(one)

    def add(self, record: str, kind: str, text: str, at: datetime | None, of: str) -> None:
        """Note that something was added; an example is shown of each `of`, such as a conversation."""
        self.added[record] += 1
        self.kinds[kind] += 1
        if at is not None:
            self.since = min(self.since or at, at)
            self.until = max(self.until or at, at)
        if len(self.examples) < EXAMPLES and of != self._last_example:
            self._last_example = of
            date = f"{at:%Y-%m-%d} " if at else ""
            self.examples.append(f"{date}{kind}: {' '.join(redacted(text[: EXAMPLE * 4])[0].split())[:EXAMPLE]}")

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        counts = {
            "added": dict(self.added), "known": dict(self.known), "updated": dict(+self.updated),
            "kinds": dict(self.kinds), "redacted": self.redacted,
        }  # fmt: skip
        period = {"since": f.as_utc(self.since), "until": f.as_utc(self.until)} if self.since and self.until else {}
        groups = {
            name: [{"reason": reason, "count": one.count, "first": one.first} for reason, one in found.items()]
            for name, found in (("reasons", self.reasons), ("passed", self.passed))
        }
        left = [{"place": one.place, "reason": one.reason} for one in self.left]
        common = {"from": self.system, "dry_run": self.dry_run, **counts, **period, "examples": self.examples}
        gone = {} if self.gone is None else {"gone": [one.as_dict() for one in self.gone]}
        return {**common, **groups, **gone, "left": left}
