"""claude-session-continuity-mcp: a SQLite file with memories and relations."""

from __future__ import annotations

from pathlib import Path

from pgengram.transfer.records import Item, Read, Tables, link, mapping, memory, of_ten, other_tables, picked

SYSTEM = "session-continuity"
NOT_MEMORIES = ("sessions", "tasks", "solutions", "project_context", "active_context", "work_patterns")


def read(source: str) -> Read:
    """Read `.claude/sessions.db`; sessions and tasks are no memories, and are counted."""
    tables = Tables(Path(source))
    ids: dict[object, str] = {}
    for row in tables.needed("memories", "id", "content"):
        names = {"kind": "memory_type", "last_accessed_at": "accessed_at"}
        fields = picked(row, "tags", "project", "created_at", "access_count", **names)
        more = {"importance": of_ten(row.get("importance")), "metadata": mapping(row.get("metadata"))}
        record = memory(SYSTEM, row["id"], row["content"], **fields, **more)
        ids[row["id"]] = record["id"]
        yield Item(f"memories {row['id']}", record)
    for row in tables.rows("memory_relations"):
        ends = row["source_id"], row["target_id"]
        place = f"memory_relations {row.get('id')}"
        yield link(place, ids, ends, row["relation_type"], row.get("strength"), created_at=row.get("created_at"))
    yield from other_tables(NOT_MEMORIES, tables.rows)
