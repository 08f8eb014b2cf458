"""AGI Memory: its PostgreSQL database by URL, a plain dump of it, or its tables as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from pgengram import fields as f
from pgengram.details import DETAILS
from pgengram.errors import InvalidInput
from pgengram.store.identity import JSON_ASPECTS, USUAL
from pgengram.text.sameness import folded
from pgengram.transfer.input.reading import file_text
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import (
    Item,
    Left,
    Read,
    as_json,
    id_of,
    linked,
    made_of,
    memory,
    moment,
    other_tables,
    picked_fields,
    share,
)

SYSTEM = "agi"
DETAIL_TABLES: Final = {f"{type_}_memories": type_ for type_ in f.TYPES}
TAKEN: Final = (
    "memories", *DETAIL_TABLES, "memory_clusters", "memory_cluster_members", "memory_relationships",
    "worldview_primitives", "worldview_memory_influences", "identity_model",
)  # fmt: skip
NOT_MEMORIES: Final = ("working_memory", "cluster_relationships", "identity_memory_resonance")
LEFT_OUT: Final = frozenset({"embedding", "centroid_embedding", "relevance_score", "success_rate"})
ARRAYS: Final = ("connected_beliefs", "preferred_clusters")  # of a belief
Rows = list[dict[str, Any]]
JSONS: Final = frozenset({
    "action_taken", "context", "result", "source_references", "contradictions", "steps", "prerequisites",
    "failure_points", "supporting_evidence", "success_metrics", "adaptation_history", "context_applicability",
    "properties", "emotional_signature", "activation_patterns", "memory_filter_rules", "influence_patterns",
    *JSON_ASPECTS,
})  # fmt: skip
_COPY: Final = re.compile(r"^COPY (?:public\.)?\"?(\w+)\"? \((.*)\) FROM stdin;\n((?:.*\n)*?)\\\.$", re.MULTILINE)
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def read(source: Source | str) -> Read:
    """Read memories with their detail, clusters with their members, relationships, identity, and beliefs with their
    evidence.
    """
    tables = _agi_tables(source)
    details = {str(row.get("memory_id")): row for name in DETAIL_TABLES for row in tables.get(name, [])}
    ids: dict[Any, str] = {}
    for number, row in enumerate(tables["memories"]):
        if "id" not in row or "content" not in row:
            yield Left(f"memories[{number}]", "it has no id or no content")
            continue
        place = f"memories {row['id']}"
        record = made_of(place, _memory_record, row, details.get(str(row["id"]), {}))
        if isinstance(record, Left):
            yield record
            continue
        ids[str(row["id"])] = record["id"]
        yield Item(place, record)
    yield from _clusters(tables, ids)
    for number, row in enumerate(tables.get("memory_relationships", [])):
        yield made_of(f"memory_relationships[{number}]", _relation, f"memory_relationships[{number}]", row, ids)
    yield from _beliefs(tables, ids)
    for number, row in enumerate(tables.get("identity_model", [])):
        place = f"identity_model {row.get('id', number)}"
        yield made_of(place, lambda at, one: Item(at, _identity_record(one)), place, row)
    yield from other_tables(NOT_MEMORIES, lambda name: tables.get(name, []))


def _relation(place: str, row: Mapping[str, Any], ids: Mapping[Any, str]) -> Item | Left:
    ends = str(row.get("from_memory_id")), str(row.get("to_memory_id"))
    fields = picked_fields(row, "properties", "created_at")
    return linked(place, ids, ends, row.get("relationship_type"), row.get("strength"), **fields)


def _memory_record(row: Mapping[str, Any], detail: Mapping[str, Any]) -> dict[str, Any]:
    confidence = detail.get("confidence_score" if row.get("type") == "strategic" else "confidence")
    own = _detail_metadata(row, detail)
    return memory(
        SYSTEM,
        row["id"],
        row["content"],
        status=row.get("status") or "active",
        importance=share(row.get("importance") or 0),
        confidence=None if confidence is None else share(confidence),
        metadata=own,
        occurred_at=own.get("event_time"),
        **picked_fields(row, "type", "created_at", "updated_at", "access_count", last_accessed_at="last_accessed"),
    )


def _detail_metadata(row: Mapping[str, Any], detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a type's own table as metadata has them."""
    names = DETAILS[row["type"]].model_fields.keys() if row.get("type") in DETAILS else ()
    left_out = {"confidence", "confidence_score"}
    if detail.get("pattern_description") == row["content"]:
        left_out.add("pattern_description")
    own = {name: detail[name] for name in names if name not in left_out and detail.get(name) is not None}
    own |= {name: f.as_utc(moment(own[name])) for name in ("event_time", "last_validated") if name in own}
    return own | {name: _array(own[name]) for name in ("category", "related_concepts") if name in own}


def _clusters(tables: Mapping[str, Rows], ids: Mapping[Any, str]) -> Iterator[Item | Left]:
    made: dict[Any, str] = {}
    for row in tables.get("memory_clusters", []):
        place = f"memory_clusters {row.get('id')}"
        cluster = made_of(place, _cluster, row)
        if isinstance(cluster, Left):
            yield cluster
            continue
        made[str(row.get("id"))] = cluster["id"]
        yield Item(place, cluster)
    for number, row in enumerate(tables.get("memory_cluster_members", [])):
        place = f"memory_cluster_members[{number}]"
        yield made_of(place, _member, place, row, made, ids)


def _member(place: str, row: Mapping[str, Any], made: Mapping[Any, str], ids: Mapping[Any, str]) -> Item | Left:
    ends = made.get(str(row.get("cluster_id"))), ids.get(str(row.get("memory_id")))
    if None in ends:
        return Left(place, "its cluster or its memory is missing")
    strength = share(1 if row.get("membership_strength") is None else row["membership_strength"])
    member = {"record": "cluster_member", "cluster_id": ends[0], "memory_id": ends[1], "strength": strength}
    return Item(place, member | {"automatic": False, "added_at": moment(row.get("added_at"))})


def _cluster(row: Mapping[str, Any]) -> dict[str, Any]:
    at = moment(row.get("created_at"))
    type_ = row.get("cluster_type")
    return {
        "record": "cluster",
        "id": str(id_of(SYSTEM, row["id"], row["name"], at)),
        "type": type_ if type_ in f.CLUSTER_TYPES else "mixed",
        "keywords": _array(row.get("keywords") or []),
        "importance": share(row.get("importance_score") or 0),
        "activation_count": row.get("activation_count") or 0,
        "last_activated_at": moment(row.get("last_activated")),
        "created_at": at,
        "updated_at": moment(row.get("updated_at")),
        **picked_fields(row, "name", "description", "emotional_signature"),
    }


def _beliefs(tables: Mapping[str, Rows], ids: Mapping[Any, str]) -> Iterator[Item | Left]:
    made: dict[Any, str] = {}
    for number, row in enumerate(tables.get("worldview_primitives", [])):
        if not row.get("belief"):
            yield Left(f"worldview_primitives[{number}]", "it has no belief")
            continue
        place = f"worldview_primitives {row.get('id', number)}"
        belief = made_of(place, _belief, row)
        if isinstance(belief, Left):
            yield belief
            continue
        made[str(row.get("id"))] = belief["id"]
        yield Item(place, belief)
    for number, row in enumerate(tables.get("worldview_memory_influences", [])):
        place = f"worldview_memory_influences[{number}]"
        yield made_of(place, _belief_evidence, place, row, made, ids)


def _belief_evidence(
    place: str, row: Mapping[str, Any], made: Mapping[Any, str], ids: Mapping[Any, str]
) -> Item | Left:
    ends = made.get(str(row.get("worldview_id"))), ids.get(str(row.get("memory_id")))
    if None in ends:
        return Left(place, "its belief or its memory is missing")
    supports = (as_json(row.get("strength")) or 0) >= 0
    evidence = {"record": "evidence", "belief_id": ends[0], "memory_id": ends[1], "supports": supports}
    return Item(place, evidence | {"added_at": moment(row.get("created_at"))})


def _belief(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = (*ARRAYS, "activation_patterns", "memory_filter_rules", "influence_patterns")
    details = {name: _array(row[name]) if name in ARRAYS else row[name] for name in kept if row.get(name)}
    valence = as_json(row.get("emotional_valence"))
    return {
        "record": "belief",
        "id": str(id_of(SYSTEM, row.get("id"), row["belief"], None)),
        "category": folded(str(row.get("category") or USUAL["category"])),
        "belief": row["belief"],
        "confidence": share(USUAL["confidence"] if row.get("confidence") is None else row["confidence"]),
        "stability": share(USUAL["stability"] if row.get("stability_score") is None else row["stability_score"]),
        "emotional_valence": USUAL["emotional_valence"] if valence is None else valence,
        "details": details,
        "version": 1,
    }


def _identity_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return who the assistant was; which clusters were its core has no place here."""
    shares = {
        name: None if row.get(name) is None else share(row[name])
        for name in ("threat_sensitivity", "change_resistance")
    }
    aspects = {name: row.get(name) for name in JSON_ASPECTS}
    return {"record": "identity", "id": str(id_of(SYSTEM, row.get("id"), "identity", None)), **aspects, **shares}


# -- the three sources -------------------------------------------------------------------------------------------------


def _agi_tables(source: Source | str) -> dict[str, Rows]:
    if isinstance(source, str):
        found = _from_database(source)
    else:
        text = file_text(source).replace("\r\n", "\n")
        found = _from_json(text) if text.lstrip()[:1] in ("{", "[") else _of_dump(text)
    if "memories" not in found:
        raise InvalidInput(
            "There is no table memories.", "Give a URL, a plain pg_dump (not --inserts), or JSON of the tables."
        )
    return found


def _from_database(url: str) -> dict[str, Rows]:
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


def _from_json(text: str) -> dict[str, Rows]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("The file is not valid JSON.", "Give the tables as one JSON object of lists.") from None
    tables = {"memories": found} if isinstance(found, list) else found
    return {
        name: [
            {_snake_name(key): value for key, value in row.items() if _snake_name(key) not in LEFT_OUT}
            for row in rows
            if isinstance(row, dict)
        ]
        for name, rows in (tables.items() if isinstance(tables, dict) else ())
        if isinstance(rows, list)
    }


def _snake_name(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda match: "_" + match[0].lower(), name)


def _of_dump(text: str) -> dict[str, Rows]:
    """Read the COPY blocks of a plain dump."""
    found: dict[str, Rows] = {}
    for block in _COPY.finditer(text):
        columns = [name.strip().strip('"') for name in block[2].split(",")]
        found.setdefault(block[1], []).extend(_dumped(columns, line) for line in block[3].split("\n")[:-1])
    return found


def _dumped(columns: list[str], line: str) -> dict[str, Any]:
    values = (None if value == "\\N" else _unescaped(value) for value in line.split("\t"))
    row = {name: value for name, value in zip(columns, values, strict=False) if name not in LEFT_OUT}
    return {name: as_json(value) if name in JSONS else value for name, value in row.items()}


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), value)


def _array(value: Any) -> Any:
    """Read a one-dimensional array of texts as PostgreSQL writes it; a list is one already."""
    if not isinstance(value, str):
        return value
    items = re.findall(r'"((?:[^"\\]|\\.)*)"|([^,{}]+)', value)
    return [re.sub(r"\\(.)", r"\1", quoted) if quoted or not bare else bare for quoted, bare in items]
