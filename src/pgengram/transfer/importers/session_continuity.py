"""claude-session-continuity-mcp: a SQLite file with memories and relations."""

from __future__ import annotations

from pathlib import Path

from pgengram.transfer.records import Item, Left, Read, Tables, edge, kind, mapping, memory, moment, of_ten, words

SYSTEM = "session-continuity"
NOT_MEMORIES = ("sessions", "tasks", "solutions", "project_context", "active_context", "work_patterns")


def read(source: str) -> Read:
    """Read `.claude/sessions.db`; what is about sessions and tasks is no memory and is told so."""
    tables = Tables(Path(source))
    ids: dict[object, str] = {}
    for row in tables.needed("memories", "id", "content"):
        at = moment(row.get("created_at"))
        record = memory(
            SYSTEM, row["id"], row["content"], kind=kind(row.get("memory_type")), tags=words(row.get("tags")),
            project=row.get("project"), importance=of_ten(row.get("importance")), metadata=mapping(row.get("metadata")),
            created_at=at, last_accessed_at=moment(row.get("accessed_at")), access_count=row.get("access_count"),
        )  # fmt: skip
        ids[row["id"]] = record["id"]
        yield Item(f"memories {row['id']}", record)
    for row in tables.rows("memory_relations"):
        place = f"memory_relations {row.get('id')}"
        ends = ids.get(row["source_id"]), ids.get(row["target_id"])
        if ends[0] is None or ends[1] is None:
            yield Left(place, "one of its memories is not there")
            continue
        yield Item(
            place,
            edge(ends[0], ends[1], row["relation_type"], row.get("strength"), created_at=moment(row.get("created_at"))),
        )
    for name in NOT_MEMORIES:
        if rows := tables.rows(name):
            yield Left(f"table {name}", f"{len(rows)} rows that are no memories")
