"""AGI Memory: its PostgreSQL database by URL, a plain dump of it, or its tables as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from pgengram import fields as f
from pgengram.details import DETAILS
from pgengram.errors import InvalidInput
from pgengram.transfer.records import Item, Left, Read, as_json, edge, existing, id_of, memory, moment, share

SYSTEM = "agi"
DETAIL_TABLES: Final = {f"{type_}_memories": type_ for type_ in f.TYPES}
TAKEN: Final = ("memories", *DETAIL_TABLES, "memory_clusters", "memory_cluster_members", "memory_relationships")
NOT_MEMORIES: Final = ("working_memory", "worldview_primitives", "identity_model", "cluster_relationships")
LEFT_OUT: Final = frozenset({"embedding", "centroid_embedding", "relevance_score", "success_rate"})
Rows = list[dict[str, Any]]
JSONS: Final = frozenset({
    "action_taken", "context", "result", "source_references", "contradictions", "steps", "prerequisites", "failure_points",
    "supporting_evidence", "success_metrics", "adaptation_history", "context_applicability", "properties", "emotional_signature",
})  # fmt: skip
_COPY: Final = re.compile(r"^COPY (?:public\.)?\"?(\w+)\"? \((.*)\) FROM stdin;$")
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def read(source: str) -> Read:
    """Read memories with their detail, clusters with their members, and relationships."""
    tables = _tables(source)
    details: dict[str, dict[str, Any]] = {}
    for name in DETAIL_TABLES:
        for row in tables.get(name, []):
            details[row["memory_id"]] = row
    ids: dict[Any, str] = {}
    for place, row in enumerate(tables["memories"]):
        if "id" not in row or "content" not in row:
            yield Left(f"memories[{place}]", "it has no id or no content")
            continue
        record = _record(row, details.get(row["id"], {}))
        ids[row["id"]] = record["id"]
        yield Item(f"memories {row['id']}", record)
    yield from _clusters(tables, ids)
    for place, row in enumerate(tables.get("memory_relationships", [])):
        ends = ids.get(row.get("from_memory_id")), ids.get(row.get("to_memory_id"))
        if ends[0] is None or ends[1] is None:
            yield Left(f"memory_relationships[{place}]", "one of its memories is not there")
        else:
            told = {"properties": row.get("properties"), "created_at": moment(row.get("created_at"))}
            yield Item(
                f"memory_relationships[{place}]",
                edge(ends[0], ends[1], row["relationship_type"], row.get("strength"), **told),
            )
    for name in NOT_MEMORIES:
        if rows := tables.get(name):
            yield Left(f"table {name}", f"{len(rows)} rows that are no memories")


def _record(row: Mapping[str, Any], detail: Mapping[str, Any]) -> dict[str, Any]:
    type_ = row.get("type")
    confidence = detail.get("confidence_score") if type_ == "strategic" else detail.get("confidence")
    names = DETAILS[type_].model_fields.keys() if type_ in DETAILS else ()
    own = {name: value for name, value in detail.items() if name in names and value is not None}
    own = {name: value for name, value in own.items() if name not in ("confidence", "confidence_score")}
    if own.get("pattern_description") == row.get("content"):
        del own["pattern_description"]
    for name in ("event_time", "last_validated"):
        if name in own:
            own[name] = f.as_utc(moment(own[name]))
    for name in ("category", "related_concepts"):
        if isinstance(own.get(name), str):
            own[name] = _array(own[name])
    return memory(
        SYSTEM, row["id"], row["content"], type=type_, status=row.get("status") or "active",
        importance=share(row.get("importance") or 0), confidence=None if confidence is None else share(confidence),
        created_at=moment(row.get("created_at")), updated_at=moment(row.get("updated_at")),
        last_accessed_at=moment(row.get("last_accessed")), access_count=row.get("access_count"),
        metadata=own, occurred_at=moment(own.get("event_time")),
    )  # fmt: skip


def _clusters(tables: Mapping[str, Rows], ids: Mapping[Any, str]) -> Iterator[Item | Left]:
    made: dict[Any, str] = {}
    for row in tables.get("memory_clusters", []):
        at = moment(row.get("created_at"))
        made[row["id"]] = str(id_of(SYSTEM, row["id"], row["name"], at))
        type_ = row.get("cluster_type")
        keywords = row.get("keywords") or []
        yield Item(
            f"memory_clusters {row['id']}",
            {
                "record": "cluster", "id": made[row["id"]], "name": row["name"], "description": row.get("description"),
                "type": type_ if type_ in f.CLUSTER_TYPES else "mixed",
                "keywords": _array(keywords) if isinstance(keywords, str) else keywords,
                "emotional_signature": row.get("emotional_signature"),
                "importance": share(row.get("importance_score") or 0), "activation_count": row.get("activation_count") or 0,
                "last_activated_at": moment(row.get("last_activated")), "created_at": at, "updated_at": moment(row.get("updated_at")),
            },
        )  # fmt: skip
    for place, row in enumerate(tables.get("memory_cluster_members", [])):
        if row.get("cluster_id") in made and row.get("memory_id") in ids:
            yield Item(
                f"memory_cluster_members[{place}]",
                {
                    "record": "cluster_member", "cluster_id": made[row["cluster_id"]], "memory_id": ids[row["memory_id"]],
                    "strength": share(1 if row.get("membership_strength") is None else row["membership_strength"]),
                    "automatic": False, "added_at": moment(row.get("added_at")),
                },
            )  # fmt: skip
        else:
            yield Left(f"memory_cluster_members[{place}]", "its cluster or its memory is not there")


# -- the three sources -------------------------------------------------------------------------------------------------


def _tables(source: str) -> dict[str, Rows]:
    if source.startswith(("postgresql://", "postgres://")):
        found = _of_database(source)
    else:
        path = existing(Path(source))
        text = path.read_text(encoding="utf-8")
        found = _of_json(text, path) if text.lstrip()[:1] in ("{", "[") else _of_dump(text)
    if "memories" not in found:
        raise InvalidInput(
            "There is no table memories.", "Give a URL, a plain pg_dump (not --inserts), or JSON of the tables."
        )
    return found


def _of_database(url: str) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    try:
        # A pooler may stand before it, and would lose what is prepared.
        with psycopg.connect(url, row_factory=dict_row, connect_timeout=10, prepare_threshold=None) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            for name in (*TAKEN, *NOT_MEMORIES):
                if connection.execute("SELECT to_regclass(%s) AS there", [name]).fetchone() != {"there": None}:
                    statement = sql.SQL("SELECT to_jsonb(t) - %s::text[] AS row FROM {} t").format(sql.Identifier(name))
                    found[name] = [row["row"] for row in connection.execute(statement, [list(LEFT_OUT)])]
    except psycopg.Error as error:
        raise InvalidInput(
            f"The database to import from cannot be read (SQLSTATE {error.sqlstate or 'none'}).",
            "Check its URL and rights.",
        ) from None
    return found


def _of_json(text: str, path: Path) -> dict[str, Rows]:
    try:
        found = json.loads(text)
    except ValueError:
        raise InvalidInput(f"{path} is no JSON file.", "Give the tables as one JSON object of lists.") from None
    tables = {"memories": found} if isinstance(found, list) else found
    return {
        name: [{_snake(key): value for key, value in row.items() if _snake(key) not in LEFT_OUT} for row in rows if isinstance(row, dict)]
        for name, rows in tables.items()
        if isinstance(rows, list)
    }  # fmt: skip


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda match: "_" + match[0].lower(), name)


def _of_dump(text: str) -> dict[str, Rows]:
    """Read the COPY blocks of a plain dump."""
    found: dict[str, Rows] = {}
    rows: Rows | None = None
    columns: list[str] = []
    for line in text.split("\n"):
        if rows is None:
            if begun := _COPY.match(line):
                columns = [name.strip().strip('"') for name in begun[2].split(",")]
                rows = found.setdefault(begun[1], [])
        elif line == "\\.":
            rows = None
        else:
            values = (None if value == "\\N" else _unescaped(value) for value in line.split("\t"))
            row = {name: value for name, value in zip(columns, values, strict=True) if name not in LEFT_OUT}
            rows.append({name: as_json(value) if name in JSONS else value for name, value in row.items()})
    return found


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), value)


def _array(text: str) -> list[str]:
    """Read a one-dimensional array of texts as PostgreSQL writes it."""
    items = re.findall(r'"((?:[^"\\]|\\.)*)"|([^,{}]+)', text)
    return [re.sub(r"\\(.)", r"\1", quoted) if quoted or not bare else bare for quoted, bare in items]
