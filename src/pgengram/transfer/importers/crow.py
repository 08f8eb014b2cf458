"""Crow's memory server: a SQLite file."""

from __future__ import annotations

from pathlib import Path

from pgengram.transfer.records import Item, Read, Tables, kind, memory, moment, of_ten, words

SYSTEM = "crow"


def read(source: str) -> Read:
    """Read the table `memories`; category becomes the kind, and stays in the metadata where there is no such kind."""
    for row in Tables(Path(source)).needed("memories", "id", "content"):
        known = kind(row.get("category"))
        kept = {
            "context": row.get("context"),
            "category": None if known else row.get("category"),
            "instance_id": row.get("instance_id"),
        }
        yield Item(
            f"memories {row['id']}",
            memory(
                SYSTEM, row["id"], row["content"], kind=known, tags=words(row.get("tags")), source=row.get("source"),
                project=None if row.get("project_id") is None else str(row["project_id"]),
                importance=of_ten(row.get("importance")), metadata={name: value for name, value in kept.items() if value},
                created_at=moment(row.get("created_at")), updated_at=moment(row.get("updated_at")),
                last_accessed_at=moment(row.get("accessed_at")), access_count=row.get("access_count"),
            ),
        )  # fmt: skip
