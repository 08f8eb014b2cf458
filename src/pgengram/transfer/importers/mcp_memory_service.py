"""mcp-memory-service: its SQLite database, or its export as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgengram.errors import InvalidInput
from pgengram.transfer.records import (
    Item,
    Left,
    Read,
    Tables,
    as_json,
    edge,
    is_sqlite,
    json_file,
    kind,
    mapping,
    memory,
    moment,
    words,
)

SYSTEM = "mcp-memory-service"


def read(source: str) -> Read:
    """Read memories and, from a database, what it found to be related; deleted ones stay forgotten."""
    path = Path(source)
    tables = Tables(path) if is_sqlite(path) else None
    rows = _of_json(path) if tables is None else tables.needed("memories", "content_hash", "content")
    ids: dict[Any, str] = {}
    for place, row in enumerate(rows):
        record = _record(row)
        ids[row.get("content_hash")] = record["id"]
        yield Item(f"memories[{place}]", record)
    for row in [] if tables is None else tables.rows("memory_graph"):
        yield _related(row, ids)


def _of_json(path: Path) -> list[dict[str, Any]]:
    found = json_file(path)
    rows = found.get("memories") if isinstance(found, dict) else found
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInput(f"{path} has no list of memories.", "Give the database, or the file that its export wrote.")
    return rows


def _record(row: dict[str, Any]) -> dict[str, Any]:
    kept = mapping(row.get("metadata"))
    word = row.get("memory_type")
    known = kind(word)
    if word and known is None:
        kept["memory_type"] = word
    at = moment(row.get("created_at")) or moment(row.get("created_at_iso"))
    record = memory(
        SYSTEM, row.get("content_hash"), row.get("content"), kind=known, tags=words(row.get("tags")), metadata=kept,
        collection=None if row.get("store") in (None, "default") else row["store"], created_at=at,
        updated_at=moment(row.get("updated_at")) or moment(row.get("updated_at_iso")),
    )  # fmt: skip
    if deleted := moment(row.get("deleted_at")):
        record |= {"status": "invalidated", "valid_to": deleted.isoformat(), "reason": "Deleted in mcp-memory-service."}
    return record


def _related(row: dict[str, Any], ids: dict[Any, str]) -> Item | Left:
    place = f"memory_graph {str(row.get('source_hash'))[:12]} → {str(row.get('target_hash'))[:12]}"
    ends = ids.get(row.get("source_hash")), ids.get(row.get("target_hash"))
    if ends[0] is None or ends[1] is None:
        return Left(place, "one of its memories is not there")
    sorts = as_json(row.get("connection_types"))
    type_ = row.get("relationship_type") or next(_texts(sorts), "related")
    properties = {"connection_types": sorts} if sorts else {}
    return Item(
        place, edge(ends[0], ends[1], type_, row.get("similarity"), properties=properties, created_at=moment(row.get("created_at")))
    )  # fmt: skip


def _texts(value: Any) -> Iterator[str]:
    yield from (word for word in value if isinstance(word, str)) if isinstance(value, list) else ()
