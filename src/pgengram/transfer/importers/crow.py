"""Crow's memory server: a SQLite file."""

from __future__ import annotations

from pathlib import Path

from pgengram.transfer.records import Item, Read, Tables, kind, memory, of_ten, picked

SYSTEM = "crow"


def read(source: str) -> Read:
    """Read the table `memories`; category becomes the kind, and stays in the metadata where there is no such kind."""
    for row in Tables(Path(source)).needed("memories", "id", "content"):
        kept = picked(row, "context", "instance_id", *([] if kind(row.get("category")) else ["category"]))
        fields = picked(
            row,
            "tags",
            "source",
            "created_at",
            "updated_at",
            "access_count",
            kind="category",
            last_accessed_at="accessed_at",
        )
        record = memory(
            SYSTEM,
            row["id"],
            row["content"],
            project=None if row.get("project_id") is None else str(row["project_id"]),
            importance=of_ten(row.get("importance")),
            metadata={name: value for name, value in kept.items() if value},
            **fields,
        )
        yield Item(f"memories {row['id']}", record)
