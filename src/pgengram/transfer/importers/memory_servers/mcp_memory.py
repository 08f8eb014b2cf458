"""@modelcontextprotocol/server-memory: a file of JSON lines with entities, their observations, and relations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgengram.transfer.input.databases import existing
from pgengram.transfer.records import Item, Left, Read, edge, memory

SYSTEM = "mcp-memory"
ABOUT = "about"


def read(source: str) -> Read:
    """Read a knowledge graph: a memory for each entity and one for each observation, which leads to its entity.

    Relations become edges between the entities' memories. The file knows no times.
    """
    lines = list(_lines(Path(source)))
    entities = {row["name"]: _entity(row) for _, row in lines if row.get("type") == "entity" and "name" in row}
    for place, row in lines:
        match row.get("type"):
            case "entity" if "name" in row:
                yield from _items(place, row, entities[row["name"]])
            case "relation" if row.get("from") in entities and row.get("to") in entities:
                ends = entities[row["from"]]["id"], entities[row["to"]]["id"]
                type_ = row.get("relationType") or "related_to"
                yield Item(place, edge(*ends, type_, properties={"relation_type": type_}))
            case "relation":
                yield Left(place, "one of its entities is missing")
            case _:
                yield Left(place, "it is neither an entity nor a relation")


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(existing(path).read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError:
                row = {}
            yield f"line {number}", row if isinstance(row, dict) else {}


def _entity(row: dict[str, Any]) -> dict[str, Any]:
    name, type_ = str(row["name"]), str(row.get("entityType") or "")
    about = {"entity": name, "entity_type": type_}
    return memory(SYSTEM, name, f"{name} ({type_})" if type_ else name, kind=type_, tags=[type_], metadata=about)


def _items(place: str, row: dict[str, Any], entity: dict[str, Any]) -> Iterator[Item | Left]:
    yield Item(place, entity)
    for number, observation in enumerate(row.get("observations") or []):
        where = f"{place}, observation {number + 1}"
        if not isinstance(observation, str) or not observation.strip():
            yield Left(where, "it is empty")
            continue
        about = {"entity": row["name"], "entity_type": row.get("entityType"), "observation": observation}
        alike = {name: entity.get(name) for name in ("kind", "tags")}
        key = f"{row['name']}\0{observation}"
        fields = memory(SYSTEM, key, f"{row['name']}: {observation}", metadata=about, **alike)
        fields["metadata"]["imported"]["id"] = row["name"]
        yield Item(where, fields)
        yield Item(where, edge(fields["id"], entity["id"], ABOUT))
