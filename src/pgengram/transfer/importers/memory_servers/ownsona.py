"""Ownsona: the JSON that its tool export_memories answers."""

from __future__ import annotations

from typing import Any

from pgengram.transfer.input.reading import json_memories
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import Item, Left, Read, made_of, mapping, memory, moment, picked_fields, share

SYSTEM = "ownsona"


def read(source: Source) -> Read:
    """Read `{"memories": […]}`; what was deleted stays forgotten, with its reason and its replacement."""
    rows = json_memories(source, "Save the answer of export_memories to a file.")
    ids: dict[Any, str] = {}
    usable: list[tuple[str, dict[str, Any]]] = []
    for number, row in enumerate(rows):
        place = f"memories[{number}]"
        there = isinstance(row, dict) and "text" in row
        record = made_of(place, _fact_record, row) if there else Left(place, "it is not a memory with a text")
        if isinstance(record, Left):
            yield record
        else:
            ids[str(row.get("id"))] = record["id"]
            usable.append((place, row))
    for place, row in usable:
        yield made_of(place, lambda at, one: Item(at, _fact_record(one) | _forgotten_fields(one, ids)), place, row)


def _fact_record(row: dict[str, Any]) -> dict[str, Any]:
    kept = mapping(row.get("metadata"))
    times = ("expires_at", "last_confirmed_at", "created_at", "updated_at")
    return memory(
        SYSTEM,
        row.get("id"),
        row["text"],
        importance=None if row.get("importance") is None else share(row["importance"]),
        capture_mode=row.get("capture_mode") or kept.pop("capture_mode", None),
        metadata=kept,
        **picked_fields(row, "tags", "source_provider", "session_id", *times),
    )


def _forgotten_fields(row: dict[str, Any], ids: dict[Any, str]) -> dict[str, Any]:
    if not row.get("deleted_at"):
        return {}
    replaced_by = ids.get(str(row.get("replaced_by_id")))
    at = moment(row["deleted_at"])
    return {
        "status": "invalidated",
        "valid_to": None if at is None else at.isoformat(),
        **({} if at is None else {"updated_at": at.isoformat()}),
        "reason": row.get("forget_reason") or row.get("reason"),
        "replaced_by": None if replaced_by is None else [replaced_by],
    }
