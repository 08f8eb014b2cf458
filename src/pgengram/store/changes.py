"""Changing one memory: what a change would do, worked out first and shown, then done in the caller's transaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from pgengram import fields as f
from pgengram.details import CONFIDENCE_NAME, DETAILS, split_metadata
from pgengram.inputs import Change
from pgengram.store import memories
from pgengram.store import statements as s
from pgengram.store.database import Row, Transaction
from pgengram.text.normalising import content_hash
from pgengram.views import moment

BASE: Final = (
    "content", "kind", "emotion", "confidence", "occurred_at", "expires_at", "pinned", "status", "source",
    "source_provider", "capture_mode", "session_id", "speaker", "user", "project", "collection",
)  # fmt: skip
IDENTITY: Final = frozenset({"content", "user", "project", "collection", "speaker", "occurred_at"})
SEARCHED: Final = frozenset({"content", "speaker", "tags", "occurred_at", "metadata", "status"})
USE_WEIGHT: Final = 0.1  # what one use adds to a memory's relevance; it fades like the rest


@dataclass(slots=True)
class Plan:
    """What a change comes to: the new values by column, and each changed field with its old and new value."""

    base: dict[str, Any] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)
    importance: float | None = None
    tags: list[str] | None = None
    changes: dict[str, list[Any]] = field(default_factory=dict)
    extra_metadata: list[str] = field(default_factory=list)

    @property
    def changed_fields(self) -> list[str]:
        """The names of the fields that differ, as callers know them."""
        return list(self.changes)


def plan(row: Row, change: Change) -> Plan:
    """Return what `change` does to the memory in `row`; fields that stay the same are left out.

    Raises:
        ValidationError: a key of `metadata` that is detail of the type has a wrong value.
    """
    made = Plan()
    wanted = dict.fromkeys(change.clear) | change.given
    _plan_metadata(made, row, change, wanted)
    for name in BASE:
        if name in wanted and wanted[name] != row[name]:
            _note(made, name, row[name], wanted[name])
            made.base[name] = wanted[name]
    if "importance" in wanted and wanted["importance"] != row["importance"]:
        _note(made, "importance", row["importance"], wanted["importance"])
        made.importance = wanted["importance"]
    if "tags" in wanted and (tags := list(dict.fromkeys(t.strip() for t in wanted["tags"] or []))) != row["tags"]:
        _note(made, "tags", row["tags"], tags)
        made.tags = tags
    if made.base.get("status") == "active" and row["status"] == "invalidated":
        made.base |= {"valid_to": None, "reason": None, "replaced_by": None}
    if change.confirm:
        now = datetime.now(UTC)
        _note(made, "last_confirmed_at", row["last_confirmed_at"], now)
        made.base["last_confirmed_at"] = now
    if IDENTITY & made.base.keys():
        made.base["content_hash"] = content_hash(**{name: {**row, **made.base}[name] for name in IDENTITY})
    return made


def _plan_metadata(made: Plan, row: Row, change: Change, wanted: dict[str, Any]) -> None:
    """Put detail keys of `metadata` where they belong, and merge the others (RFC 7396: null removes a key)."""
    type_ = row["type"]
    known, extra = split_metadata(type_, change.metadata or {})
    model = DETAILS[type_]
    given = model.model_validate({name: value for name, value in known.items() if value is not None})
    values = {name: getattr(given, name) for name in known}
    if CONFIDENCE_NAME.get(type_) in values:
        wanted.setdefault("confidence", values.pop(CONFIDENCE_NAME[type_]))
    if values.get("event_time") is not None:
        wanted.setdefault("occurred_at", values["event_time"])
    elif type_ == "episodic" and wanted.get("occurred_at") is not None:
        values["event_time"] = wanted["occurred_at"]
    values = {name: value for name, value in values.items() if not (name == "event_time" and value is None)}
    for name, value in values.items():
        old, new = row["detail"].get(name), moment(value)
        if _comparable(old) != _comparable(new):
            _note(made, f"detail.{name}", old, new)
            is_json = model.model_fields[name].annotation is Any
            made.detail[name] = Jsonb(value) if is_json and value is not None else value
    merged = merge_patch({} if "metadata" in change.clear else row["metadata"], extra)
    if merged != row["metadata"]:
        _note(made, "metadata", row["metadata"], merged)
        made.base["metadata"] = Jsonb(merged)
    made.extra_metadata = sorted(extra)


def _comparable(value: Any) -> Any:
    """Moments that PostgreSQL and Python write differently compare as moments."""
    if isinstance(value, str) and value[:2].isdigit() and "T" in value:
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return value
    return value


def _note(made: Plan, name: str, old: Any, new: Any) -> None:
    made.changes[name] = [moment(old), moment(new)]


def merge_patch(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return `target` with `patch` merged in: null removes a key, objects merge, all else replaces (RFC 7396)."""
    merged = dict(target)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            old = merged.get(key)
            merged[key] = merge_patch(old if isinstance(old, dict) else {}, value)
        else:
            merged[key] = value
    return merged


async def apply(
    tx: Transaction, row: Row, made: Plan, *, parts: Any, model_id: int | None, session_id: str | None
) -> int:
    """Do what `made` says to the locked memory in `row`, and return its new version."""
    id_: UUID = row["id"]
    version: int = row["version"] + 1
    after = {**row, **made.base}
    await memories.set_columns(tx, "memories", id_, {**made.base, "version": version, "updated_at": datetime.now(UTC)})
    if made.detail:
        await memories.set_columns(tx, memories.DETAIL_TABLE[row["type"]], id_, made.detail)
    if made.tags is not None:
        await tx.run(s.SET_TAGS, {"id": id_, "tags": made.tags})
    importance = row["importance"] if made.importance is None else made.importance
    rate = f.rate_per_day(row["type"], after["kind"], pinned=after["pinned"])
    if (importance, rate) != (row["importance"], row["rate_per_day"]):
        await tx.run(s.SET_ACTIVATION, {"id": id_, "importance": importance, "rate_per_day": rate})
    if parts is not None:
        await memories.set_vectors(tx, id_, parts, model_id)
    if SEARCHED & made.base.keys() or made.tags is not None or made.detail:
        await memories.set_words(tx, (await memories.read(tx, [id_], model_id))[id_])
    operation = "confirm" if made.changed_fields == ["last_confirmed_at"] else "update"
    await memories.add_history(tx, id_, version, operation, changes=made.changes, session_id=session_id)
    await tx.run(s.REINFORCE, {"ids": [id_], "weight": USE_WEIGHT})
    return version


async def forget(
    tx: Transaction, row: Row, *, reason: str | None, replaced_by: list[UUID], session_id: str | None
) -> None:
    """Take the locked memory in `row` out of every answer; its text, words and vectors stay, so it can be restored."""
    found = await tx.row(s.FORGET, {"id": row["id"], "reason": reason, "replaced_by": replaced_by or None})
    if found is None:
        return
    await tx.run(s.DROP_POSTINGS, {"ids": [row["id"]]})
    changes = {"status": [row["status"], "invalidated"], "reason": [row["reason"], reason]}
    if replaced_by:
        changes["replaced_by"] = [None, [str(id_) for id_ in replaced_by]]
    await memories.add_history(tx, row["id"], found["version"], "forget", changes=changes, session_id=session_id)
