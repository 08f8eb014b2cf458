"""Changing one memory: what a change would do, worked out first and shown, then done in the caller's transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import ValidationError

from pgengram import fields as f
from pgengram.details import CONFIDENCE_NAME, COUNTED, DETAILS, split_metadata
from pgengram.errors import Conflict, InvalidInput
from pgengram.inputs import Change, NewMemory, as_invalid_input, validated
from pgengram.store import clusters
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory import memories, merging, statements
from pgengram.store.memory import statements as s
from pgengram.text.derived import IDENTITY, TURN, derived
from pgengram.views import as_text

BASE: Final = (
    "content", "kind", "emotion", "confidence", "occurred_at", "expires_at", "last_confirmed_at", "pinned", "status",
    "source", "source_provider", "capture_mode", "session_id", "speaker", "user", "project", "collection", "sources",
)  # fmt: skip
SEARCHED: Final = frozenset({"content", "speaker", "tags", "occurred_at", "metadata", "status"})
STATUS_AFTER: Final = {"active": "archived", "archived": "active", "invalidated": "active"}  # by hand, and no other way
MAX_FAILURE_POINTS: Final = 100  # the newest are kept
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
    operation: str = "update"
    confirmed_by_content: bool = False

    @property
    def changed_fields(self) -> list[str]:
        """The names of the fields that differ, as callers know them; a confirmation that nobody asked for is none."""
        return [name for name in self.changes if name != "last_confirmed_at" or not self.confirmed_by_content]


def plan(row: Row, change: Change) -> Plan:
    """Return what `change` does to the memory in `row`; fields that stay the same are left out.

    Raises:
        ValidationError: a key of `metadata` that is detail of the type has a wrong value.
        InvalidInput: the outcome does not fit the memory.
        Conflict: the memory's status does not lead to the one that is wanted.
    """
    made = Plan()
    wanted = _wanted_values(change)
    _plan_metadata(made, row, change, wanted)
    _plan_outcome(made, row, change)
    _check_status(row["status"], wanted.get("status"))
    for name in BASE:
        if name in wanted and wanted[name] != row[name]:
            note_field(made, name, row[name], wanted[name])
            made.base[name] = Jsonb(wanted[name]) if name == "sources" and wanted[name] else wanted[name]
    if "importance" in wanted and wanted["importance"] != row["importance"]:
        note_field(made, "importance", row["importance"], wanted["importance"])
        made.importance = wanted["importance"]
    if (tags := _tags_after(row, change, wanted)) != row["tags"]:
        note_field(made, "tags", row["tags"], tags)
        made.tags = tags
    _plan_status(made, row)
    _plan_confirmation(made, row, change)
    _plan_what_follows(made, row)
    return made


def _wanted_values(change: Change) -> dict[str, Any]:
    """Return the values that fields shall have."""
    wanted = dict.fromkeys(change.clear) | change.given
    if change.sources is not None:
        wanted["sources"] = [source.model_dump(mode="json", exclude_none=True) for source in change.sources] or None
    return wanted


def _plan_confirmation(made: Plan, row: Row, change: Change) -> None:
    """A memory is confirmed when the caller says so, and when it says something else now, unless told as of when."""
    if not change.confirm and ("content" not in made.base or "last_confirmed_at" in made.base):
        return
    made.confirmed_by_content = not change.confirm
    if not made.changes:
        made.operation = "confirm"
    now = datetime.now(UTC)
    note_field(made, "last_confirmed_at", row["last_confirmed_at"], now)
    made.base["last_confirmed_at"] = now


def _tags_after(row: Row, change: Change, wanted: dict[str, Any]) -> list[str]:
    set_ = [tag.strip() for tag in wanted["tags"] or []] if "tags" in wanted else row["tags"]
    return [tag for tag in dict.fromkeys([*set_, *change.add_tags]) if tag not in change.remove_tags]


def refuse_many_tags(row: Row, change: Change) -> None:
    """Refuse a call that gives a memory more tags than one call may, whatever it has already."""
    if len({*(change.tags or ())} - {*row["tags"]}) > f.MAX_TAGS:
        raise InvalidInput(
            f"tags: one call gives a memory at most {f.MAX_TAGS} more.", "Give the others in another call."
        )


def _plan_status(made: Plan, row: Row) -> None:
    """A memory that is restored holds again, with nothing left of why it was forgotten."""
    if "status" not in made.base:
        return
    made.operation = "restore" if made.base["status"] == "active" else "archive"
    for name in ("valid_to", "reason", "replaced_by"):
        if row[name] is not None:
            note_field(made, name, row[name], None)
            made.base[name] = None


def _plan_what_follows(made: Plan, row: Row) -> None:
    """Work out again what is made of the fields that change."""
    after = {**row, **made.base}
    if "occurred_at" in made.base:
        made.base["valid_from"] = after["occurred_at"] or row["created_at"]
    if not (IDENTITY | {"session_id"}) & made.base.keys():
        return
    turn = bool(row["turn_features"] & TURN) if "session_id" not in made.base else after["session_id"] is not None
    follows = derived({**after, "metadata": {}}, tags=(), detail=None, in_conversation=turn)
    made.base |= {
        "speaker_key": follows.speaker_key,
        "turn_features": follows.turn_features,
        "content_hash": follows.content_hash,
    }


def _plan_metadata(made: Plan, row: Row, change: Change, wanted: dict[str, Any]) -> None:
    """Put detail keys of `metadata` where they belong, and merge the others (RFC 7396: null removes a key)."""
    known, extra = split_metadata(row["type"], change.metadata or {})
    for name, value in _detail_values(row, known, wanted).items():
        _plan_detail(made, row, name, value)
    merged = merge_patch({} if "metadata" in change.clear else row["metadata"], extra)
    if not same_json(merged, row["metadata"]):
        validated(NewMemory, {"content": "-", "metadata": merged})  # many small changes may add up to too much
        note_field(made, "metadata", row["metadata"], merged)
        made.base["metadata"] = Jsonb(merged)
    made.extra_metadata = sorted(extra)


def _detail_values(row: Row, known: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the new values of the detail row; those that belong to the base row are added to `wanted`."""
    type_ = row["type"]
    model = DETAILS[type_]
    given = model.model_validate(
        {name: row["detail"][name] for name in model.judged_together if name not in known} | known
    )
    values = {name: getattr(given, name) for name in known}
    if CONFIDENCE_NAME.get(type_) in values:
        wanted.setdefault("confidence", values.pop(CONFIDENCE_NAME[type_]))
    event_time = values.pop("event_time", None)
    if event_time is not None:
        wanted.setdefault("occurred_at", event_time)
    if type_ == "episodic" and (event_time := event_time or wanted.get("occurred_at")) is not None:
        values["event_time"] = event_time
    return values


def _plan_detail(made: Plan, row: Row, name: str, value: Any) -> None:
    """Set one field of the detail row, unless it says so already."""
    old, is_json = row["detail"].get(name), DETAILS[row["type"]].model_fields[name].annotation is Any
    if not (same_json(old, value) if is_json else _holds_already(old, value)):
        note_field(made, f"detail.{name}", old, value)
        made.detail[name] = Jsonb(value) if is_json and value is not None else value


def _plan_outcome(made: Plan, row: Row, change: Change) -> None:
    """Count one more attempt of a procedure; worked out on the locked row, so that two at once both count."""
    if change.outcome is None:
        return
    if row["type"] != "procedural":
        raise InvalidInput(f"Only a procedural memory has outcomes; this one is {row['type']}.")
    if both := sorted(COUNTED & split_metadata(row["type"], change.metadata or {})[0].keys()):
        raise InvalidInput(f"metadata sets {', '.join(both)}, which outcome counts.", "Give only one of them.")
    made.operation = "outcome"
    for name, value in _after_attempt(row["detail"], change).items():
        note_field(made, f"detail.{name}", row["detail"][name], value)
        made.detail[name] = Jsonb(value) if name == "failure_points" else value


def _after_attempt(detail: dict[str, Any], change: Change) -> dict[str, Any]:
    """Return what one more attempt changes in the detail of a procedure."""
    tried = detail["total_attempts"]
    after: dict[str, Any] = {"total_attempts": tried + 1}
    if change.outcome == "success":
        after["success_count"] = detail["success_count"] + 1
    if change.failure_point is not None:
        known = detail["failure_points"]
        points = known if isinstance(known, list) else [] if known is None else [known]
        after["failure_points"] = [*points, change.failure_point][-MAX_FAILURE_POINTS:]
    if change.duration is not None:
        usual = None if detail["average_duration"] is None else _interval(detail["average_duration"])
        took = timedelta(seconds=change.duration)
        after["average_duration"] = took if usual is None or not tried else usual + (took - usual) / (tried + 1)
    return after


def _check_status(now: str, wanted: str | None) -> None:
    if wanted is None or wanted == now or STATUS_AFTER.get(now) == wanted:
        return
    if now == "working":
        raise Conflict(
            "A working memory is kept by promotion, not by its status.",
            "Store what is worth keeping, or consolidate it.",
        )
    raise Conflict("A forgotten memory cannot be archived.", "Restore it first, with status active.")


async def refuse_twin(tx: Transaction, row: Row, made: Plan) -> None:
    """Refuse what would make two active memories say the same; a race is settled by the unique index.

    Raises:
        Conflict: another active memory says it already; the message names it.
    """
    after = {**row, **made.base}
    if after["status"] != "active" or not {"status", "content_hash"} & made.base.keys():
        return
    for twin in await tx.rows(s.FIND_TWINS, {"hashes": [after["content_hash"]]}):
        if twin["id"] != row["id"]:
            raise Conflict(
                f"The active memory {twin['id']} already says exactly this.",
                "Change or confirm that one, or forget it first.",
            )


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON, where true is not 1 and false not 0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _holds_already(old: Any, new: Any) -> bool:
    """Whether a column, as PostgreSQL writes it in JSON, holds `new` already."""
    if isinstance(old, str) and isinstance(new, datetime):
        return datetime.fromisoformat(old) == new
    if isinstance(old, str) and isinstance(new, timedelta):
        return _interval(old) == new
    return bool(old == new)


_INTERVAL: Final = re.compile(r"(?:(-?\d+) days? ?)?(?:([-+]?)(\d+):(\d\d):(\d\d(?:\.\d+)?))?")


def _interval(text: str) -> timedelta | None:
    """Read what PostgreSQL writes for an interval of days and less."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        return None
    days, sign, hours, minutes, seconds = match.groups()
    clock = timedelta(hours=int(hours or 0), minutes=int(minutes or 0), seconds=float(seconds or 0))
    return timedelta(days=int(days or 0)) + (-clock if sign == "-" else clock)


def note_field(made: Plan, name: str, old: Any, new: Any) -> None:
    """Note the old and the new value of a field in the plan of a change, as history shows them."""
    made.changes[name] = [_history_value(as_text(old)), _history_value(as_text(new))]


def _history_value(value: Any) -> Any:
    return [str(one) if isinstance(one, UUID) else one for one in value] if isinstance(value, list) else value


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
    await memories.set_columns(tx, "memories", id_, {**made.base, "version": version, "updated_at": datetime.now(UTC)})
    if made.detail:
        await memories.set_columns(tx, memories.DETAIL_TABLE[row["type"]], id_, made.detail)
    if made.tags is not None:
        await tx.run(s.SET_TAGS, {"id": id_, "tags": made.tags})
    await _set_activation(tx, row, made)
    if parts is not None:
        await statements.set_vectors(tx, id_, parts, model_id)
    if SEARCHED & made.base.keys() or made.tags is not None or made.detail:
        await statements.set_words(tx, [(await memories.read_memories(tx, [id_], model_id))[id_]])
    await memories.add_history(tx, id_, version, made.operation, changes=made.changes, session_id=session_id)
    await tx.run(s.REINFORCE, {"ids": [id_], "weight": USE_WEIGHT})
    if parts is not None:
        await clusters.reassign(tx, [id_])
    elif {"status", "expires_at"} & made.base.keys():
        await clusters.renew_of(tx, [id_])
    if "valid_from" in made.base:
        await _move_ends(tx, row, made.base["valid_from"], session_id)
    return version


async def _set_activation(tx: Transaction, row: Row, made: Plan) -> None:
    after = {**row, **made.base}
    importance = row["importance"] if made.importance is None else made.importance
    rate = f.rate_per_day(row["type"], after["kind"], pinned=after["pinned"])
    if (importance, rate) != (row["importance"], row["rate_per_day"]):
        await tx.run(s.SET_ACTIVATION, {"id": row["id"], "importance": importance, "rate_per_day": rate})


async def _move_ends(tx: Transaction, row: Row, begins: datetime, session_id: str | None) -> None:
    """What held until the memory in `row` began to hold goes on to do so when that beginning is corrected."""
    where = {"id": row["id"], "ended": row["valid_from"], "begins": begins}
    for before in await tx.rows(s.ENDED_BY, where):
        version = before["version"] + 1
        await memories.set_columns(tx, "memories", before["id"], {"valid_to": begins, "version": version})
        changes = {"valid_to": [as_text(before["valid_to"]), as_text(begins)]}
        await memories.add_history(tx, before["id"], version, "update", changes=changes, session_id=session_id)


async def forget_memory(
    tx: Transaction,
    row: Row,
    *,
    reason: str | None,
    replaced_by: list[UUID],
    session_id: str | None,
    replaced_from: datetime | None = None,
) -> None:
    """Take the locked memory in `row` out of every answer; its text, words and vectors stay, so it can be restored.

    Args:
        reason: why; None keeps the one there is.
        replaced_by: what holds instead; empty keeps what there is.
        session_id: the conversation in which it is forgotten.
        replaced_from: when what replaces it began to hold. If that is after this one's own beginning, it held until
            then,
            otherwise until now.
    """
    holds_until = replaced_from if replaced_from is not None and replaced_from > row["valid_from"] else None
    given = {"id": row["id"], "reason": reason, "replaced_by": replaced_by or None, "replaced_from": holds_until}
    found = await tx.row(s.FORGET, given)
    if found is None:
        return
    await statements.unpost(tx, [row["id"]])
    after = {
        "status": "invalidated",
        "reason": reason or row["reason"],
        "replaced_by": replaced_by or row["replaced_by"],
        "valid_to": found["valid_to"],
    }
    made = Plan()
    for name, value in after.items():
        if value != row[name]:
            note_field(made, name, row[name], value)
    await memories.add_history(tx, row["id"], found["version"], "forget", changes=made.changes, session_id=session_id)
    await clusters.renew_of(tx, [row["id"]])


def merged_plan(into: Row, others: Sequence[Row]) -> Plan:
    """Return what a memory becomes when others are merged into it; its text stays, theirs stay with them, forgotten.

    Raises:
        InvalidInput: together they would hold more metadata than one memory may, or a detail does not fit.
    """
    try:
        made = plan(into, merging.merged_change(into, others))
    except ValidationError as error:
        raise as_invalid_input(error, "metadata") from None
    except InvalidInput as error:
        raise InvalidInput(
            f"Nothing can be merged into {into['id']} like this: {error.message}",
            "Merge fewer at once, or remove some of their metadata with update_memory first.",
        ) from None
    made.operation = "merge"
    made.changes["merged"] = [None, [str(row["id"]) for row in others]]
    return made
