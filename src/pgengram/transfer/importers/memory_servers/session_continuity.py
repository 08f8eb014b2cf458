"""claude-session-continuity-mcp: a SQLite file with memories and relations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pgengram.transfer.input.reading import tables_of
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import (
    Item,
    Left,
    Read,
    known_kind,
    linked,
    made_of,
    mapping,
    memory,
    of_ten,
    other_tables,
    picked_fields,
)

SYSTEM = "session-continuity"
URGENT: Final = 0.9  # importance of a directive of high priority
NOT_MEMORIES = ("sessions", "tasks", "solutions", "project_context", "active_context", "work_patterns")


def read(source: Source) -> Read:
    """Read `.claude/sessions.db`: directives as preferences; sessions and tasks are only counted."""
    tables = tables_of(source)
    ids: dict[object, str] = {}
    for row in tables.needed("memories", "id", "content"):
        record = made_of(f"memories {row['id']}", _directive_record, row)
        if isinstance(record, Left):
            yield record
            continue
        ids[row["id"]] = record["id"]
        yield Item(f"memories {row['id']}", record)
    for row in tables.rows("memory_relations"):
        ends = row.get("source_id"), row.get("target_id")
        place = f"memory_relations {row.get('id')}"
        yield linked(place, ids, ends, row.get("relation_type"), row.get("strength"), created_at=row.get("created_at"))
    for row in tables.rows("user_directives"):
        place = f"user_directives {row.get('id')}"
        yield made_of(place, lambda at, one: Item(at, _directive(one)), place, row)
    yield from other_tables(NOT_MEMORIES, tables.rows)


def _directive_record(row: Mapping[str, Any]) -> dict[str, Any]:
    names = {"kind": "memory_type", "last_accessed_at": "accessed_at"}
    fields = picked_fields(row, "tags", "project", "created_at", "access_count", **names)
    unknown = {} if known_kind(row.get("memory_type")) else {"memory_type": row.get("memory_type")}
    metadata = mapping(row.get("metadata")) | {name: word for name, word in unknown.items() if word}
    more = {"importance": of_ten(row.get("importance")), "metadata": metadata}
    return memory(SYSTEM, row["id"], row["content"], **fields, **more)


def _directive(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the user told the assistant to do in a project as a preference."""
    kept = {name: row.get(name) for name in ("context", "source", "priority") if row.get(name)}
    fields = picked_fields(row, "project", "created_at")
    importance = URGENT if row.get("priority") == "high" else None
    return memory(
        SYSTEM,
        f"directive {row.get('id')}",
        row.get("directive"),
        kind="preference",
        tags=["directive"],
        importance=importance,
        metadata=kept,
        **fields,
    )
