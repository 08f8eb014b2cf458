"""mcp-memory-service: its SQLite database, or its export as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgengram.transfer.input.reading import is_sqlite, json_memories, tables_of
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import (
    Item,
    Left,
    Read,
    as_json,
    known_kind,
    linked,
    made_of,
    mapping,
    memory,
    moment,
    picked_fields,
    share,
    tag_words,
)

SYSTEM = "mcp-memory-service"
FILLER = "untagged"  # which it writes where nobody gave a tag


def read(source: Source) -> Read:
    """Read memories and, from a database, what it found to be related; deleted and superseded ones stay forgotten.

    A new version of a memory leads to the one that it revises.
    """
    tables = tables_of(source) if is_sqlite(source) else None
    rows = _json_rows(source) if tables is None else tables.needed("memories", "content_hash", "content")
    ids: dict[Any, str] = {}
    usable: list[tuple[str, dict[str, Any]]] = []
    for number, row in enumerate(rows):
        record = made_of(f"memories[{number}]", _service_record, row)
        if isinstance(record, Left):
            yield record
        else:
            ids[str(row.get("content_hash"))] = record["id"]
            usable.append((f"memories[{number}]", row))
    for place, row in usable:
        yield made_of(place, lambda at, one: Item(at, _service_record(one) | _end_of_validity(one, ids)), place, row)
    for place, row in usable:
        if (parent := str(row.get("parent_id"))) in ids:
            yield linked(f"{place}.parent_id", ids, (str(row.get("content_hash")), parent), "revises", 1.0)
    for row in [] if tables is None else tables.rows("memory_graph"):
        yield _related_pair(row, ids)


def _json_rows(source: Source) -> list[Any]:
    return json_memories(source, "Give the database, or the file that its export wrote.")


def _service_record(row: dict[str, Any]) -> dict[str, Any]:
    kept = mapping(row.get("metadata"))
    if row.get("memory_type") and known_kind(row["memory_type"]) is None:
        kept["memory_type"] = row["memory_type"]
    kept |= {"version": row["version"]} if isinstance(row.get("version"), int) and row["version"] > 1 else {}
    return memory(
        SYSTEM,
        metadata=kept,
        collection=None if row.get("store") in (None, "default") else row["store"],
        created_at=moment(row.get("created_at")) or row.get("created_at_iso"),
        updated_at=moment(row.get("updated_at")) or row.get("updated_at_iso"),
        confidence=None if row.get("confidence") is None else share(row["confidence"]),
        last_accessed_at=row.get("last_accessed"),
        tags=[word for word in tag_words(row.get("tags")) if word != FILLER],
        **picked_fields(row, "content", key="content_hash", kind="memory_type"),
    )


def _end_of_validity(row: dict[str, Any], ids: dict[Any, str]) -> dict[str, Any]:
    """Return when and why a memory holds no more; nothing of one that still does."""
    if deleted := moment(row.get("deleted_at")):
        ended = deleted.isoformat()
        reason = "Deleted in mcp-memory-service."
        return {"status": "invalidated", "valid_to": ended, "reason": reason, "updated_at": ended}
    newer = str(row.get("superseded_by") or mapping(row.get("metadata")).get("superseded_by") or "")
    if not newer:
        return {}
    at = moment(row.get("updated_at"))
    return {
        "status": "invalidated",
        "valid_to": None if at is None else at.isoformat(),
        "reason": "Superseded in mcp-memory-service.",
        "replaced_by": [ids[newer]] if newer in ids else None,
    }


def _related_pair(row: dict[str, Any], ids: dict[Any, str]) -> Item | Left:
    ends = row.get("source_hash"), row.get("target_hash")
    place = f"memory_graph {' → '.join(str(end)[:12] for end in ends)}"
    sorts = as_json(row.get("connection_types"))
    type_ = row.get("relationship_type") or next(_strings_in(sorts), "related")
    fields = {"properties": {"connection_types": sorts} if sorts else {}, "created_at": row.get("created_at")}
    return linked(place, ids, ends, type_, row.get("similarity"), **fields)


def _strings_in(value: Any) -> Iterator[str]:
    yield from (word for word in value if isinstance(word, str)) if isinstance(value, list) else ()
