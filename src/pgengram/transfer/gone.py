"""Notes that an export wrote and that are not in their folder any more, and the memories that they were of.

An export leaves a list of its notes in the folder. Whatever that list doesn't name is nobody's business, so a folder
without one, or one of another store, never costs a memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final
from uuid import UUID

from pgengram.store.connection.database import Transaction
from pgengram.store.memory import memories
from pgengram.store.memory.bulk_changes.plans import LIVING, ChangePlan, Step, refuse_changed
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import uuid_of

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
