"""Ownsona: the JSON that its tool export_memories answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgengram.transfer.input.databases import json_memories
from pgengram.transfer.records import Item, Left, Read, mapping, memory, moment, picked, share

SYSTEM = "ownsona"


def read(source: str) -> Read:
    """Read `{"memories": […]}`; what was deleted stays forgotten, with its reason and its replacement."""
    rows = json_memories(Path(source), "Save the answer of export_memories to a file.")
    usable = [row for row in rows if isinstance(row, dict) and "text" in row]
    ids = {row.get("id"): _record(row)["id"] for row in usable}
    for place, row in enumerate(rows):
        if isinstance(row, dict) and "text" in row:
            yield Item(f"memories[{place}]", _record(row) | _end(row, ids))
        else:
            yield Left(f"memories[{place}]", "it is not a memory with a text")


def _record(row: dict[str, Any]) -> dict[str, Any]:
    kept = mapping(row.get("metadata"))
    times = ("expires_at", "last_confirmed_at", "created_at", "updated_at")
    return memory(
        SYSTEM,
        row.get("id"),
        row["text"],
        importance=None if row.get("importance") is None else share(row["importance"]),
        capture_mode=row.get("capture_mode") or kept.pop("capture_mode", None),
        metadata=kept,
        **picked(row, "tags", "source_provider", "session_id", *times),
    )


def _end(row: dict[str, Any], ids: dict[Any, str]) -> dict[str, Any]:
    if not row.get("deleted_at"):
        return {}
    replaced_by = ids.get(row.get("replaced_by_id"))
    at = moment(row["deleted_at"])
    return {
        "status": "invalidated",
        "valid_to": None if at is None else at.isoformat(),
        "reason": row.get("forget_reason") or row.get("reason"),
        "replaced_by": None if replaced_by is None else [replaced_by],
    }
