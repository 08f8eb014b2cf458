"""Crow's memory server: a SQLite file."""

from __future__ import annotations

from typing import Any

from pgengram.transfer.input.reading import tables_of
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import Item, Read, known_kind, made_of, memory, of_ten, picked_fields

SYSTEM = "crow"


def read(source: Source) -> Read:
    """Read the table `memories`; a category becomes the kind, or the collection where there is no such kind."""
    for row in tables_of(source).needed("memories", "id", "content"):
        place = f"memories {row['id']}"
        yield made_of(place, lambda at, one: Item(at, _row_record(one)), place, row)


def _row_record(row: dict[str, Any]) -> dict[str, Any]:
    fields = picked_fields(
        row,
        "tags",
        "source",
        "created_at",
        "updated_at",
        "access_count",
        kind="category",
        source_provider="instance_id",
        last_accessed_at="accessed_at",
    )
    return memory(
        SYSTEM,
        row["id"],
        row["content"],
        project=None if row.get("project_id") is None else str(row["project_id"]),
        importance=of_ten(row.get("importance")),
        collection=None if known_kind(row.get("category")) else row.get("category"),
        metadata={"context": row["context"]} if row.get("context") else {},
        **fields,
    )
