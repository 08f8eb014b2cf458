"""@modelcontextprotocol/server-memory and its forks: entities, their observations and relations, as a file of JSON
lines or as the object that the tool read_graph answers.

Forks write times, tags, importance and aliases, and observations as objects with a time of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.reading import only_file
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import (
    EXPIRES,
    Item,
    Left,
    Read,
    edge,
    made_of,
    mapping,
    memory,
    moment,
    of_ten,
    tag_words,
)

SYSTEM = "mcp-memory"
ABOUT = "about"
CREATED: Final = ("createdAt", "created_at", "timestamp", "ts", "created", "validFrom")
UPDATED: Final = ("updatedAt", "updated_at", "lastModified", "lastUpdated", "modifiedAt")
ENDED: Final = ("validTo", "valid_to", "expiredAt", "deletedAt")
KEPT: Final = (*EXPIRES, "aliases", "version", "durability", "confidence", "source", "changedBy")
NEITHER: Final = "it is neither an entity nor a relation"
_GRAPH: Final = re.compile(rb'\s*\{\s*"(?:entities|relations)"\s*:\s*\[')
Row = Mapping[str, Any]


def read(source: Source) -> Read:
    """Read a knowledge graph: a memory for each entity and one for each observation, which leads to its entity.

    Relations become edges between the entities' memories. An entity that comes again, with the same name, is the same.
    """
    entities: dict[str, str] = {}
    relations: list[tuple[str, Row]] = []
    for place, row in _graph_rows(source):
        if isinstance(row, Left):
            yield row
        elif row.get("type") == "relation":
            relations.append((place, row))
        elif row.get("type") == "entity" and isinstance(row.get("name"), str) and row["name"].strip():
            entity = made_of(place, _entity_record, row)
            if isinstance(entity, Left):
                yield entity
                continue
            entities.setdefault(row["name"], entity["id"])
            yield from _entity_items(place, row, {**entity, "id": entities[row["name"]]})
        else:
            yield Left(place, NEITHER)
    for place, row in relations:
        ends = entities.get(str(row.get("from"))), entities.get(str(row.get("to")))
        if ends[0] is None or ends[1] is None:
            yield Left(place, "one of its entities is missing")
            continue
        type_ = row.get("relationType") or row.get("relation_type") or "related_to"
        times = {"created_at": _row_time(row, CREATED), "properties": {"relation_type": type_}}
        yield Item(place, edge(ends[0], ends[1], type_, row.get("strength"), **times))


def _graph_rows(source: Source) -> Iterator[tuple[str, Row | Left]]:
    file = only_file(source)
    if not _GRAPH.match(source.begins(file)):
        for number, line in source.objects(file):
            place = f"line {number + 1}"
            yield place, Left(place, line.reason) if isinstance(line, Broken) else {**line, **mapping(line.get("data"))}
        return
    for record in source.records(file):
        if isinstance(record, Broken):
            yield record.place, Left(record.place, record.reason)
        else:
            of_kind = {"type": "relation" if record.key == "relations" else "entity"}
            yield record.place, {**mapping(record.value), **of_kind}


def _row_time(row: Row, names: tuple[str, ...]) -> Any:
    """Return a time by the first of the names that has one, also where it is in the metadata."""
    inner = mapping(row.get("metadata"))
    return next((at for name in names if (at := moment(row.get(name)) or moment(inner.get(name)))), None)


def _fork_fields(row: Row) -> dict[str, Any]:
    """Return what forks say beside the text: times, and whether it no longer holds."""
    ended = _row_time(row, ENDED)
    return {
        "created_at": _row_time(row, CREATED),
        "updated_at": _row_time(row, UPDATED) or ended,
        "importance": of_ten(row.get("importance")),
        "metadata": {name: row[name] for name in KEPT if row.get(name) not in (None, "", [])},
        **({"status": "invalidated", "valid_to": ended} if ended and ended <= datetime.now(UTC) else {}),
    }


def _entity_record(row: Row) -> dict[str, Any]:
    name, type_ = str(row["name"]), str(row.get("entityType") or row.get("entity_type") or "")
    fields = _fork_fields(row)
    fields["metadata"] |= {"entity": name, "entity_type": type_}
    text = f"{name} ({type_})" if type_ else name
    return memory(SYSTEM, name, text, kind=type_, tags=[type_, *tag_words(row.get("tags"))], **fields)


def _entity_items(place: str, row: Row, entity: dict[str, Any]) -> Iterator[Item | Left]:
    yield Item(place, entity)
    observations = row.get("observations") or []
    observations = [observations] if isinstance(observations, str) else observations
    if not isinstance(observations, list):
        yield Left(place, "its observations are not a list")
        return
    for number, raw in enumerate(observations):
        where = f"{place}, observation {number + 1}"
        yield from _of_observation(where, raw, row, entity)


def _of_observation(where: str, raw: Any, row: Row, entity: dict[str, Any]) -> Iterator[Item | Left]:
    made = made_of(where, _observation, where, raw, row, entity)
    if isinstance(made, Left):
        yield made
    else:
        yield Item(where, made)
        yield Item(where, edge(made["id"], entity["id"], ABOUT))


def _observation(where: str, raw: Any, row: Row, entity: dict[str, Any]) -> dict[str, Any] | Left:
    one = raw if isinstance(raw, Mapping) else {"content": raw}
    text = one.get("content") or one.get("text") or one.get("observation")
    if not isinstance(text, str) or not text.strip():
        return Left(where, "it is empty")
    own, of_entity = _fork_fields(one), _fork_fields(row)
    fields = {**own, **{name: of_entity[name] for name in ("created_at", "updated_at") if not own[name]}}
    fields["metadata"] = {
        name: of_entity["metadata"][name] for name in EXPIRES if name in of_entity["metadata"]
    } | fields["metadata"]
    if "status" in of_entity:
        fields |= {name: of_entity[name] for name in ("status", "valid_to")}
    fields["metadata"] |= {"entity": row["name"], "entity_type": row.get("entityType"), "observation": text}
    key = f"{row['name']}\0{text}"
    alike = {name: entity.get(name) for name in ("kind", "tags")}
    made = memory(SYSTEM, key, f"{row['name']}: {text}", **alike, **fields)
    made["metadata"]["imported"]["id"] = row["name"]
    return made
