"""Skynet: what ChromaDB holds, as `collection.get()` gives it, or its file chroma.sqlite3."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from pgengram import fields as f
from pgengram.errors import InvalidInput
from pgengram.transfer.input.reading import is_sqlite, json_of, tables_of
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import Item, Left, Read, made_of, mapping, memory, picked_fields, share

SYSTEM = "skynet"
DOCUMENT = "chroma:document"
COLLECTION = "skynet_memories"  # where Skynet keeps what is told without one; collection.get() does not say its own
USED = ("type", "user", "importance", "confidence", "emotion", "tags", "timestamp", "source")
Entry = tuple[str, str | None, Any, dict[str, Any]]  # id, collection, document, metadata


def read(source: Source) -> Read:
    """Read every document; what the metadata holds beyond Skynet's own keys stays metadata."""
    for entry in _database_entries(source) if is_sqlite(source) else _json_entries(source):
        yield made_of(f"id {entry[0]}", _entry_item, entry)


def _entry_item(entry: Entry) -> Item | Left:
    id_, collection, document, metadata = entry
    if not isinstance(document, str):
        return Left(f"id {id_}", "it has no document")
    emotion = metadata.get("emotion")
    record = memory(
        SYSTEM,
        id_,
        document,
        collection=collection,
        importance=_as_number(metadata.get("importance")),
        confidence=_as_number(metadata.get("confidence")),
        emotion=emotion if emotion in f.EMOTIONS else None,
        metadata={name: value for name, value in metadata.items() if name not in USED},
        **picked_fields(metadata, "tags", "user", "source", kind="type", created_at="timestamp"),
    )
    return Item(f"id {id_}", record)


def _as_number(value: Any) -> float | None:
    return None if value is None else share(value)


def _json_entries(source: Source) -> Iterator[Entry]:
    found = json_of(source)
    several = found if isinstance(found, list) else [found]
    for one in several:
        if not isinstance(one, dict) or not {"ids", "documents"} <= one.keys():
            raise InvalidInput(f"{source.path} has no ids and documents.", "Save what collection.get() gives, as JSON.")
        ids, documents, metadatas = (_as_list(one.get(name)) for name in ("ids", "documents", "metadatas"))
        for id_, document, metadata in zip_longest(ids, documents, metadatas):
            yield str(id_), one.get("name") or one.get("collection") or COLLECTION, document, mapping(metadata)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _database_entries(source: Source) -> Iterator[Entry]:
    tables = tables_of(source)
    collections = {row["id"]: row["name"] for row in tables.rows("collections")}
    segments = {row["id"]: collections.get(row["collection"]) for row in tables.rows("segments")}
    metadata: dict[Any, dict[str, Any]] = {}
    for row in tables.needed("embedding_metadata", "id", "key"):
        values = (row.get("string_value"), row.get("int_value"), row.get("float_value"))
        value = next((value for value in values if value is not None), None)
        if value is None and row.get("bool_value") is not None:
            value = bool(row["bool_value"])
        metadata.setdefault(row["id"], {})[row["key"]] = value
    for row in tables.needed("embeddings", "id", "segment_id", "embedding_id"):
        fields = metadata.get(row["id"], {})
        document = fields.pop(DOCUMENT, None)
        yield row["embedding_id"], segments.get(row["segment_id"]), document, fields
