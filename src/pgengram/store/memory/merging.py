"""Merging: what a memory takes over from others that say nearly the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from pgengram import fields as f
from pgengram.details import CONFIDENCE_NAME, COUNTED, DETAILS
from pgengram.inputs import Change, validated
from pgengram.store import edges
from pgengram.store.connection.database import Transaction

# The edges of those that are merged. Uses memory_relationships_pkey and memory_relationships_to.
EDGES_OF: Final = """
SELECT r.from_id, r.to_id, r.type, r.strength, r.properties FROM memory_relationships r
WHERE r.namespace_id = %(namespace_id)s AND (r.from_id = ANY(%(ids)s) OR r.to_id = ANY(%(ids)s)) ORDER BY r.from_id, r.to_id, r.type
"""
# Uses memory_belief_evidence_by_memory.
MOVE_EVIDENCE: Final = """
INSERT INTO memory_belief_evidence (namespace_id, belief_id, memory_id, supports)
SELECT namespace_id, belief_id, %(into)s, supports FROM memory_belief_evidence
WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s)
ON CONFLICT DO NOTHING
"""


FILLED: Final = ("kind", "emotion", "source", "source_provider", "capture_mode")  # taken over where the memory has none
# Detail that isn't united: what is counted, and what is a column of the memory.
LEFT_OUT: Final = COUNTED - {"failure_points"} | {"event_time", *CONFIDENCE_NAME.values()}
GREATEST: Final = ("confidence", "last_confirmed_at")
SAME_SOURCE: Final = ("kind", "ref", "label", "author", "observed_at")


def merged_change(row: Mapping[str, Any], others: Sequence[Mapping[str, Any]], **more: Any) -> Change:
    """Return the change that gives the memory in `row` what `others` say besides their text.

    Tags, sources and metadata are united; of two values under one key the one that was confirmed last holds, two lists
    become one. Importance, confidence and the day of confirmation are the greatest ones, it stays as long as the one
    that stays longest, a field that is empty is filled, and every other field keeps its value.

    Args:
        row: as `memories.read` gives it.
        others: rows of the same shape.
        more: fields to change besides.

    Raises:
        InvalidInput: together they would hold more metadata than one memory may.
    """
    rows = [row, *others]
    united = _united_columns(rows)
    given = {name: value for name, value in united.items() if value != row[name]} | more
    if metadata := _united_metadata(row, rows):
        given["metadata"] = metadata
    emptied = [name for name, value in given.items() if value is None]
    return validated(
        Change, {"id": str(row["id"]), "clear": emptied} | {n: v for n, v in given.items() if v is not None}
    )


def _united_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns that memories have together; the first memory's values go before those of the others."""
    ends = [one["expires_at"] for one in rows]
    return {
        "tags": united_tags(*(one["tags"] for one in rows)),
        "sources": united_sources(*(one["sources"] for one in rows)),
        "importance": max(one["importance"] for one in rows),
        "pinned": any(one["pinned"] for one in rows),
        "expires_at": None if None in ends else max(ends),
        **{name: next(iter(_present(rows, name)), None) for name in FILLED},
        **{name: max(_present(rows, name), default=None) for name in GREATEST},
    }


def _present(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [one[name] for one in rows if one[name] is not None]


def united_tags(tags: Sequence[str], *others: Sequence[str]) -> list[str]:
    """Return tags and those of others, each once."""
    return list(dict.fromkeys([*tags, *(tag for more in others for tag in more)]))


def united_sources(sources: Any, *others: Any) -> list[dict[str, Any]] | None:
    """Return sources and those of others, each once, as many as one memory may have; None for none."""
    united = list(sources or [])
    known = [_source_identity(source) for source in united]
    for source in (source for more in others for source in more or []):
        if (who := _source_identity(source)) not in known:
            known.append(who)
            united.append(source)
    return united[: f.MAX_SOURCES] or None


def _source_identity(source: Mapping[str, Any]) -> list[Any]:
    return [source.get(name) for name in SAME_SOURCE]


def _united_metadata(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the keys of metadata, detail among them, that the memory in `row` has otherwise or not at all."""
    united: dict[str, Any] = {}
    for one in sorted(rows, key=lambda one: one["last_confirmed_at"] or one["created_at"]):
        for key, value in _stated_fields(one):
            united[key] = _both(united.get(key), value)
    own = dict(_stated_fields(row))
    return {key: value for key, value in united.items() if key not in own or value != own[key]}


def _stated_fields(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a memory's detail and metadata say beyond what its type has anyway."""
    usual = {
        name: field.get_default(call_default_factory=True) for name, field in DETAILS[row["type"]].model_fields.items()
    }
    for name, value in (row["detail"] or {}).items():
        if name not in LEFT_OUT and value is not None and value != usual[name]:
            yield name, value
    yield from ((key, value) for key, value in row["metadata"].items() if value is not None)


def _both(there: Any, value: Any) -> Any:
    if isinstance(there, list) and isinstance(value, list):
        return [*there, *(one for one in value if one not in there)]
    if isinstance(there, dict) and isinstance(value, dict):
        return there | {key: _both(there.get(key), one) for key, one in value.items()}
    return value


async def move_edges(tx: Transaction, into: UUID, ids: Sequence[UUID], session_id: str | None) -> None:
    """Give the memory that stays the edges of those that go, and their place as evidence; its own edges win."""
    found = await tx.rows(EDGES_OF, {"ids": [into]})
    known = {(row["from_id"], row["to_id"], row["type"]) for row in found}
    for row in await tx.rows(EDGES_OF, {"ids": list(ids)}):
        ends = (into if row["from_id"] in ids else row["from_id"], into if row["to_id"] in ids else row["to_id"])
        if ends[0] != ends[1] and (*ends, row["type"]) not in known:
            known.add((*ends, row["type"]))
            await edges.store_link(tx, *ends, row["type"], row["strength"], row["properties"], session_id=session_id)
    await tx.run(MOVE_EVIDENCE, {"into": into, "ids": list(ids)})
