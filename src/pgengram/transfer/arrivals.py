"""One memory on its way in: its record, checked and completed, as rows of tables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg
from pydantic import TypeAdapter, ValidationError

from pgengram import fields as f
from pgengram.details import CONFIDENCE_NAME, DETAILS, split_metadata
from pgengram.errors import Conflict, DatabaseFailed, InvalidInput, PgengramError
from pgengram.inputs import NewMemory, as_invalid_input
from pgengram.runtime.context import PEOPLE, here
from pgengram.service.calls.arguments import reader
from pgengram.service.calls.moments import read_moment
from pgengram.service.calls.vocabulary import TARGETS
from pgengram.service.core import Core
from pgengram.service.tools import filter_fields
from pgengram.store.connection.translation import broken_rule
from pgengram.store.memory import memories
from pgengram.store.reading.transferring import Arrival
from pgengram.text.derived import IDENTITY, Derived, derived
from pgengram.transfer.records import OTHER_FORMS, Item, Left, id_of, of_another_form, uuid_of
from pgengram.transfer.report import Imported

MOMENTS: Final = (
    "created_at", "updated_at", "last_accessed_at", "last_confirmed_at", "expires_at", "occurred_at",
    "valid_from", "valid_to",
)  # fmt: skip
COUNTED: Final = {"activation", "access_count", "last_accessed_at", "importance"}
OF_PARTS: Final = {"record", "tags", "detail", "working", "history", "metadata"} | COUNTED
OF_A_MEMORY: Final = {"content", "kind", "importance", "occurred_at", "user", "project", "tags"}
WORDS_AND_NAMES: Final = (
    "content", "type", "kind", "emotion", "capture_mode", "source", "source_provider", "session_id", "speaker", "user",
    "project", "collection", "confidence", "pinned",
)  # fmt: skip
NOT_CHECKED: Final = {"embedding", "related_to", "dedup_policy", "idempotency_key", "tags", "metadata"}
_Moment: Final[TypeAdapter[datetime]] = TypeAdapter(f.Moment)
_Tags: Final[TypeAdapter[list[str]]] = TypeAdapter(f.AllTags)


def arrival(record: Mapping[str, Any], *, tags: list[str] | None) -> Arrival:
    """Return the record of a memory, checked and completed, as rows of tables.

    Args:
        record: as in an export; all but the content may be missing.
        tags: as they are stored here; None: those of the record.

    Raises:
        InvalidInput: a field has a value that no memory may have.
    """
    record = _named_as_here(record)
    moments = _given_moments(record)
    exact = isinstance(record.get("detail"), Mapping)
    new = _checked_memory(record)
    record = _with_checked_words(record, new)
    detail, extra = (record["detail"], new.metadata) if exact else split_metadata(new.memory_type, new.metadata)
    known, event_time = _detail_row(new.memory_type, detail, exact=exact)
    occurred_at = moments.get("occurred_at") or (None if exact else event_time)
    created_at = moments.get("created_at") or datetime.now(UTC)
    began_at = occurred_at or created_at
    if new.memory_type == "episodic":
        known["event_time"] = known.get("event_time") or f.as_utc(began_at)
    kept_tags = _checked_tags(record.get("tags") or [] if tags is None else tags)
    follows = derived(
        {**{name: getattr(new, name) for name in IDENTITY}, "occurred_at": occurred_at, "metadata": extra},
        tags=kept_tags,
        detail=known,
        in_conversation=new.session_id is not None,
    )
    base = {
        **_defaults(new.memory_type, detail, follows, began_at=began_at, created_at=created_at),
        **_given_columns(record, with_empty=exact),
        "id": str(_id(record, follows.content_hash, new.content, moments.get("created_at"))),
        "type": new.memory_type,
        "status": _checked_status(record),
        "content_hash": "\\x" + follows.content_hash.hex(),
        "metadata": dict(extra),
        "occurred_at": f.as_utc(occurred_at),
        "created_at": f.as_utc(created_at),
    }
    return Arrival(
        UUID(base["id"]),
        follows.content_hash,
        base["status"] == "active",
        _table_rows(record, new, base, known),
        history=_history(record, base["version"], new.source_provider),
        tags=kept_tags,
        searched=follows.searched,
        extra=follows.extra,
    )


def _with_checked_words(record: Mapping[str, Any], new: NewMemory) -> Mapping[str, Any]:
    """Return the record with its texts and names as they were read."""
    return {**record, **{name: getattr(new, name) for name in WORDS_AND_NAMES if record.get(name) is not None}}


def _given_columns(record: Mapping[str, Any], *, with_empty: bool) -> dict[str, Any]:
    """Return what a record says of the columns of a memory; empty ones too if so asked."""
    return {name: record[name] for name in record.keys() - OF_PARTS if with_empty or record[name] is not None}


def _defaults(
    type_: str, detail: Mapping[str, Any], follows: Derived, *, began_at: datetime, created_at: datetime
) -> dict[str, Any]:
    """Return the columns that a record may leave out."""
    return {
        "speaker_key": follows.speaker_key,
        "turn_features": follows.turn_features,
        "pinned": False,
        "version": 1,
        "confidence": detail.get(CONFIDENCE_NAME.get(type_, ""), f.DEFAULT_CONFIDENCE.get(type_)),
        "valid_from": f.as_utc(began_at),
        "updated_at": f.as_utc(created_at),
        "last_confirmed_at": f.as_utc(created_at),
    }


def _table_rows(
    record: Mapping[str, Any], new: NewMemory, base: dict[str, Any], detail: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the rows of one memory by their tables."""
    rows = {
        "memories": base,
        "memory_activation": _activation(record, new, base["created_at"]),
        memories.DETAIL_TABLE[new.memory_type]: detail,
    }
    if isinstance(working := record.get("working"), Mapping):
        rows["working_memories"] = dict(working)
    return rows


def _id(record: Mapping[str, Any], digest: bytes, content: str, created_at: datetime | None) -> UUID:
    id_ = uuid_of(record["id"]) if record.get("id") else id_of("jsonl", digest.hex(), content, created_at)
    if id_ is None:
        raise InvalidInput("id must be a UUID.")
    return id_


def _checked_status(record: Mapping[str, Any]) -> str:
    status = record.get("status") or "active"
    if status not in f.STATUSES:
        raise InvalidInput(f"status must be one of {', '.join(f.STATUSES)}.")
    return str(status)


def _history(record: Mapping[str, Any], version: int, actor: str | None) -> list[dict[str, Any]]:
    history = record.get("history")
    if history is None:
        now = f.as_utc(datetime.now(UTC))
        return [{"version": version, "operation": "import", "actor": actor, "at": now}]
    if not (isinstance(history, list) and all(isinstance(row, Mapping) for row in history)):
        raise InvalidInput("history must be a list of objects.")
    return [{**row, "actor": imported_actor(row.get("actor"))} for row in history]


def imported_actor(name: Any) -> Any:
    """Return who acted, as a file says; what only a person can be is marked, as a file vouches for nobody."""
    return f"imported {name}" if name in PEOPLE else name


def _given_moments(record: Mapping[str, Any]) -> dict[str, datetime]:
    return {name: _read_moment(name, record[name]) for name in MOMENTS if record.get(name) is not None}


def _read_moment(name: str, value: Any) -> datetime:
    try:
        return _Moment.validate_python(value)
    except ValidationError:
        if isinstance(value, str) and (read := read_moment(value, here(), end=name == "expires_at")):
            return read
        raise InvalidInput(f"{name} must be a time with a time zone.") from None


def _named_as_here(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record that has no content under the names that memories have here, where others were used."""
    if record.get("content") is not None:
        return record
    named = {name: next((t for t in TARGETS.get(name, ()) if t in OF_A_MEMORY), name) for name in record}
    return {target if target not in record else name: record[name] for name, target in named.items()}


def _checked_memory(record: Mapping[str, Any]) -> NewMemory:
    """Check the fields that a new memory may have."""
    given = {
        name: record[name]
        for name in NewMemory.model_fields
        if name not in NOT_CHECKED and record.get(name) is not None
    }
    if (activation := record.get("activation")) and isinstance(activation, Mapping):
        given["importance"] = activation.get("importance")
    given["metadata"] = record.get("metadata") or {}
    given.setdefault("content", "")
    return reader(NewMemory).read(given)[0]


def _checked_tags(given: Any) -> list[str]:
    """Return tags, which may be more than one call gives."""
    try:
        return _Tags.validate_python(given)
    except ValidationError as error:
        raise as_invalid_input(error, "tags") from None


def _detail_row(type_: str, detail: Mapping[str, Any], *, exact: bool) -> tuple[dict[str, Any], datetime | None]:
    """Return the row of the type's own table, and when an event happened."""
    judged = {name: value for name, value in detail.items() if name not in ("average_duration", "success_rate")}
    try:
        model = DETAILS[type_].model_validate(judged)
    except ValidationError as error:
        raise as_invalid_input(error, "detail") from None
    row = model.model_dump(mode="json", exclude={CONFIDENCE_NAME.get(type_, "")})
    if type_ == "procedural":
        row["average_duration"] = detail.get("average_duration")
    return row | (dict(detail) if exact else {}), getattr(model, "event_time", None)


def _activation(record: Mapping[str, Any], new: NewMemory, created_at: str | None) -> dict[str, Any]:
    if isinstance(record.get("activation"), Mapping):
        return dict(record["activation"])
    used = record.get("last_accessed_at")
    return {
        "importance": new.importance,
        "rate_per_day": f.rate_per_day(new.memory_type, new.kind, pinned=new.pinned),
        "started_at": created_at,
        "last_accessed_at": f.as_utc(used) if isinstance(used, datetime) else used,
        "access_count": record.get("access_count") or 0,
    }


BATCH: Final = 64  # memories embedded and stored together
IDS: Final = frozenset({"id", "replaced_by", "cluster_id", "belief_id", "from_id", "to_id", "memory_id"})
One = TypeVar("One")


def batches(items: Iterable[One]) -> Iterator[list[One]]:
    """Yield items a batch at a time."""
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


def record_without_secrets(record: Mapping[str, Any], core: Core, report: Imported) -> Mapping[str, Any]:
    """Return a record without secrets; ids, which nobody chose, are not judged.

    Raises:
        SecretRejected: it holds one, and secrets are not to be redacted.
    """
    judged = {name: value for name, value in record.items() if name not in IDS}
    clean, names = filter_fields(judged, redact=core.settings.secrets == "redact")
    if names:
        report.redacted += 1
    return {**record, **clean} if names else record


async def one_by_one_if_needed(
    items: list[tuple[Item, Any]], take: Callable[[Any], Awaitable[None]], report: Imported
) -> None:
    """Take several at once; when the database refuses them, find out which one it is."""
    try:
        await take(items)
    except (DatabaseFailed, Conflict, *OTHER_FORMS) as error:
        reason = _refusal_reason(error) if isinstance(error, PgengramError) else of_another_form("").reason
        if reason is None:
            raise
        if len(items) == 1:
            report.leave(Left(items[0][0].place, reason))
            return
        for item in items:
            await one_by_one_if_needed([item], take, report)


def _refusal_reason(error: PgengramError) -> str | None:
    """Return why the database refused a record, or None when the fault is not the record's."""
    cause = error.__cause__
    if not isinstance(cause, psycopg.DataError | psycopg.IntegrityError):
        return None
    rule = broken_rule(cause)
    return f"it breaks the rule {rule}" if rule else f"a value of it is of another sort (SQLSTATE {cause.sqlstate})"
