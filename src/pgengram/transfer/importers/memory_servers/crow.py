"""Crow's memory server: a SQLite file."""

from __future__ import annotations

from pathlib import Path

from pgengram.transfer.input.databases import Tables
from pgengram.transfer.records import Item, Read, kind, memory, of_ten, picked

SYSTEM = "crow"


def read(source: str) -> Read:
    """Read the table `memories`; a category becomes the kind, or the collection where there is no such kind."""
    for row in Tables(Path(source)).needed("memories", "id", "content"):
        free = None if kind(row.get("category")) else row.get("category")
        fields = picked(
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
        record = memory(
            SYSTEM,
            row["id"],
            row["content"],
            project=None if row.get("project_id") is None else str(row["project_id"]),
            importance=of_ten(row.get("importance")),
            collection=free,
            metadata={"context": row["context"]} if row.get("context") else {},
            **fields,
        )
        yield Item(f"memories {row['id']}", record)
