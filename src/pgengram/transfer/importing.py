"""Bringing memories in: what is there already is left alone, what cannot be taken is told with its reason."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from uuid import UUID

import psycopg
from pydantic import TypeAdapter, ValidationError

from pgengram import fields as f
from pgengram.details import CONFIDENCE_NAME, DETAILS, split_metadata
from pgengram.errors import Conflict, DatabaseFailed, InvalidInput, PgengramError
from pgengram.inputs import NewMemory, refusal
from pgengram.runtime.retry import retrying
from pgengram.service.arguments import reader
from pgengram.service.core import Core
from pgengram.service.moments import read_moment
from pgengram.service.secret_filter import filter_fields
from pgengram.service.vocabulary import TARGETS
from pgengram.store.assistant.identity import belief_hash
from pgengram.store.connection.database import broken_rule
from pgengram.store.graph.edges import normalised_type
from pgengram.store.memory import memories
from pgengram.store.reading import transferring
from pgengram.store.reading.transferring import Arrival
from pgengram.text.derived import IDENTITY, derived
from pgengram.transfer.importers import reader_of
from pgengram.transfer.records import Item, Left, existing, id_of

BATCH: Final = 64  # memories embedded and stored together
MOMENTS: Final = (
    "created_at", "updated_at", "last_accessed_at", "last_confirmed_at", "expires_at", "occurred_at", "valid_from", "valid_to",
)  # fmt: skip
COUNTED: Final = {"activation", "access_count", "last_accessed_at", "importance"}
OF_PARTS: Final = {"record", "tags", "detail", "working", "history", "metadata"} | COUNTED
ENDS: Final = {"relationship": ("from_id", "to_id"), "cluster_member": ("memory_id",), "evidence": ("memory_id",)}
IDS: Final = {"id", "replaced_by", "cluster_id", "belief_id", *(end for ends in ENDS.values() for end in ends)}
DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "relationship": {"strength": 1.0, "properties": {}},
    "cluster": {"keywords": [], "importance": 0.5, "activation_count": 0},
    "cluster_member": {"strength": 1.0, "automatic": False},
}
OF_A_MEMORY: Final = {"content", "kind", "importance", "occurred_at", "user", "project", "tags"}
WORDS_AND_NAMES: Final = (
    "content", "type", "kind", "emotion", "capture_mode", "source", "source_provider", "session_id", "speaker", "user",
    "project", "collection",
)  # fmt: skip
NOT_CHECKED: Final = {"embedding", "related_to", "dedup_policy", "idempotency_key", "tags", "metadata"}

Report = Callable[[int, int], None]  # records looked at, records in all
One = TypeVar("One")
_Moment: Final[TypeAdapter[datetime]] = TypeAdapter(f.Moment)


@dataclass(slots=True)
class Imported:
    """What an import came to, by the kind of record: added, there already; and what was left, with its reason.

    redacted: how many records had secrets taken out of them.
    """

    system: str
    dry_run: bool
    added: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    left: list[Left] = field(default_factory=list)
    redacted: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        left = [{"place": one.place, "reason": one.reason} for one in self.left]
        counts = {"added": dict(self.added), "known": dict(self.known), "redacted": self.redacted}
        return {"from": self.system, "dry_run": self.dry_run, **counts, "left": left}


async def import_from(core: Core, system: str, source: str, *, dry_run: bool, report: Report) -> Imported:
    """Bring in what `source` holds; a second time adds nothing.

    Memories are stored in batches, each in one transaction, so an import that is broken off can be repeated.

    Args:
        core: whose memories they will be.
        system: one of `importers.SYSTEMS`.
        source: a path; for `agi` also a URL.
        dry_run: look at everything and change nothing.
        report: told how far it is.

    Raises:
        InvalidInput: there is no such system, or the source is not what it should be.
    """
    reader = reader_of(system)
    items: Iterable[Item | Left] = (
        reader(source) if system == "jsonl" else await asyncio.to_thread(lambda: list(reader(source)))
    )
    total = _lines(Path(source)) if system == "jsonl" else len(items)  # type: ignore[arg-type]
    importing = _Import(core, Imported(system, dry_run))
    done = 0
    for batch in _batches(items):
        await importing.memories(batch)
        done += len(batch)
        report(done, total)
    await importing.rest()
    if not dry_run:
        core.notice_growth(importing.report.added["memory"])
    return importing.report


def _lines(path: Path) -> int:
    with existing(path).open("rb") as opened:
        return sum(1 for _ in opened)


def _batches(items: Iterable[One]) -> Iterator[list[One]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


class _Import:
    """One import under way."""

    def __init__(self, core: Core, report: Imported) -> None:
        self._core = core
        self.report = report
        self._others: dict[str, list[Item]] = {}
        self._same: dict[str, str] = {}  # memories that came under another id than the one they are there under
        self._coming: set[UUID] = set()  # that a dry run would have added

    # -- memories --------------------------------------------------------------------------------------------------

    async def memories(self, items: Sequence[Item | Left]) -> None:
        """Take in the memories among `items`; everything else waits until all memories are there."""
        arrivals: list[tuple[Item, Arrival]] = []
        for item in items:
            if isinstance(item, Left):
                self.report.left.append(item)
            elif item.record.get("record") == "memory":
                try:
                    arrivals.append((item, await self._arrival(item)))
                except PgengramError as error:
                    self.report.left.append(Left(item.place, error.message))
            else:
                self._others.setdefault(str(item.record.get("record")), []).append(item)
        unique: dict[UUID, tuple[Item, Arrival]] = {}
        for item, one in arrivals:
            unique.setdefault(one.id, (item, one))
        self.report.known["memory"] += len(arrivals) - len(unique)
        if unique:
            await self._one_by_one_if_needed(list(unique.values()), self._take_in)

    async def _arrival(self, item: Item) -> Arrival:
        record = self._filtered(item.record)
        return arrival(record, tags=await self._core.tags(_texts(record.get("tags"))) if item.foreign else None)

    def _filtered(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a record without secrets; ids, which nobody chose, are not judged.

        Raises:
            SecretRejected: it holds one, and secrets are not to be redacted.
        """
        judged = {name: value for name, value in record.items() if name not in IDS}
        clean, names = filter_fields(judged, redact=self._core.settings.secrets == "redact")
        if names:
            self.report.redacted += 1
        return {**record, **clean} if names else record

    async def _take_in(self, pairs: list[tuple[Item, Arrival]]) -> None:
        async with self._core.store.transaction() as tx:
            known = await transferring.known(tx, [arrival for _, arrival in pairs])
        fresh = _apart([arrival for _, arrival in pairs if arrival.id not in known], known)
        if self.report.dry_run:
            self._coming |= {arrival.id for arrival in fresh}
        elif fresh:
            await self._store(fresh)
        self._same |= {str(id_): str(there) for id_, there in known.items() if id_ != there}
        self.report.known["memory"] += len(known)
        self.report.added["memory"] += len(fresh)

    @retrying
    async def _store(self, fresh: Sequence[Arrival]) -> None:
        texts = [arrival.rows["memories"]["content"] for arrival in fresh]
        embedded = await self._core.models.passages(texts)
        for arrival, parts in zip(fresh, embedded.vectors, strict=True):
            arrival.parts = parts
        async with self._core.store.transaction() as tx:
            await transferring.take_in(tx, fresh, embedded.model_id)

    # -- everything else -------------------------------------------------------------------------------------------

    async def rest(self) -> None:
        """Take in what leads from one memory to another, and whatever else belongs to the namespace."""
        for table in transferring.TABLES:
            waiting = self._others.pop(table.record, [])
            for batch in _batches(waiting):
                rows: list[tuple[Item, dict[str, Any]]] = []
                for item in batch:
                    try:
                        rows.append((item, self._row(table.record, item)))
                    except PgengramError as error:
                        self.report.left.append(Left(item.place, error.message))
                usable = await self._with_ends(table.record, rows)
                if usable:
                    await self._one_by_one_if_needed(usable, lambda some, table=table: self._add(table, some))  # type: ignore[misc]
        for record, items in self._others.items():
            self.report.left += [Left(item.place, f"{record} is not a kind of record") for item in items]

    def _row(self, record: str, item: Item) -> dict[str, Any]:
        now = datetime.now(UTC)
        row = {**DEFAULTS.get(record, {}), **self._filtered(item.record)}
        del row["record"]
        row |= {name: row.get(name) or now for name in ("created_at", "added_at")}
        row["updated_at"] = row.get("updated_at") or row["created_at"]
        row = {name: f.as_utc(value) if isinstance(value, datetime) else value for name, value in row.items()}
        for name in ENDS.get(record, ()):
            row[name] = self._same.get(str(row.get(name)), row.get(name))
        if record == "relationship" and item.foreign:
            row["type"] = normalised_type(str(row["type"]))
        if record == "belief":
            row["belief_hash"] = "\\x" + belief_hash(str(row.get("belief"))).hex()
        return row

    async def _with_ends(
        self, record: str, rows: list[tuple[Item, dict[str, Any]]]
    ) -> list[tuple[Item, dict[str, Any]]]:
        """Return the rows whose memories are there; tell of the others."""
        ends = ENDS.get(record, ())
        if not ends or not rows:
            return rows
        named = {_uuid(row.get(name)) for _, row in rows for name in ends} - {None}
        async with self._core.store.transaction() as tx:
            there = await transferring.there(tx, cast("list[UUID]", list(named))) | self._coming
        usable = []
        for item, row in rows:
            ids = {_uuid(row.get(name)) for name in ends}
            if ids - there:
                self.report.left.append(Left(item.place, "one of its memories is not there"))
            elif len(ids) < len(ends):
                self.report.left.append(Left(item.place, "it leads from a memory to itself"))
            else:
                usable.append((item, row))
        return usable

    async def _add(self, table: transferring.Table, pairs: list[tuple[Item, dict[str, Any]]]) -> None:
        rows = [row for _, row in pairs]
        async with self._core.store.transaction() as tx:
            known = await transferring.count_known(tx, table, rows)
            added = len(rows) - known
            if not self.report.dry_run:
                added = await transferring.add_rows(tx, table.name, rows)
                if table.record == "cluster_member":
                    await transferring.renew_clusters(
                        tx, [str(row["cluster_id"]) for row in rows], self._core.model_key
                    )
        self.report.added[table.record] += added
        self.report.known[table.record] += len(rows) - added

    # -- what goes wrong -------------------------------------------------------------------------------------------

    async def _one_by_one_if_needed(
        self, items: list[tuple[Item, Any]], take: Callable[[Any], Awaitable[None]]
    ) -> None:
        """Take several at once; when the database refuses them, find out which one it is."""
        try:
            await take(items)
        except (DatabaseFailed, Conflict) as error:
            reason = _reason(error)
            if reason is None:
                raise
            if len(items) == 1:
                self.report.left.append(Left(items[0][0].place, reason))
                return
            for item in items:
                await self._one_by_one_if_needed([item], take)


def _reason(error: PgengramError) -> str | None:
    """Return why the database refused a record, or None when the fault is not the record's."""
    cause = error.__cause__
    if not isinstance(cause, psycopg.DataError | psycopg.IntegrityError):
        return None
    rule = broken_rule(cause)
    return f"it breaks the rule {rule}" if rule else f"a value of it is of another sort (SQLSTATE {cause.sqlstate})"


def _apart(arrivals: Sequence[Arrival], known: dict[UUID, UUID]) -> list[Arrival]:
    """Return the arrivals that differ; of several active ones that say the same, the others are known by the first."""
    first: dict[bytes, Arrival] = {}
    fresh = []
    for one in arrivals:
        if one.active and first.setdefault(one.hash, one) is not one:
            known[one.id] = first[one.hash].id
        else:
            fresh.append(one)
    return fresh


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _uuid(value: Any) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None


# -- one memory --------------------------------------------------------------------------------------------------------


def arrival(record: Mapping[str, Any], *, tags: list[str] | None) -> Arrival:
    """Return the record of a memory, checked and completed, as rows of tables.

    Args:
        record: as in an export; all but the content may be missing.
        tags: as they are stored here; None: those of the record.

    Raises:
        InvalidInput: a field has a value that no memory may have.
    """
    record = _named_as_here(record)
    moments = _moments(record)
    exact = isinstance(record.get("detail"), Mapping)
    new = _checked(record, tags)
    record = {**record, **{name: getattr(new, name) for name in WORDS_AND_NAMES if record.get(name) is not None}}
    detail, extra = (record["detail"], new.metadata) if exact else split_metadata(new.memory_type, new.metadata)
    known, event_time = _detail(new.memory_type, detail, exact=exact)
    occurred_at = moments.get("occurred_at") or (None if exact else event_time)
    created_at = moments.get("created_at") or datetime.now(UTC)
    if new.memory_type == "episodic":
        known["event_time"] = known.get("event_time") or f.as_utc(occurred_at or created_at)
    kept_tags = list(new.tags if tags is None else tags)
    follows = derived(
        {**{name: getattr(new, name) for name in IDENTITY}, "occurred_at": occurred_at, "metadata": extra},
        tags=kept_tags,
        detail=known,
        in_conversation=new.session_id is not None,
    )
    made: dict[str, Any] = {
        "voice": follows.speaker_key,
        "traits": follows.turn_features,
        "pinned": False,
        "version": 1,
        "confidence": detail.get(CONFIDENCE_NAME.get(new.memory_type, ""), f.DEFAULT_CONFIDENCE.get(new.memory_type)),
        "valid_from": f.as_utc(occurred_at or created_at),
        **dict.fromkeys(("updated_at", "last_confirmed_at"), f.as_utc(created_at)),
    }
    base = made | {
        **{name: record[name] for name in record.keys() - OF_PARTS if exact or record[name] is not None},
        "id": str(_id(record, follows.content_hash, new.content, moments.get("created_at"))),
        "type": new.memory_type,
        "status": _status(record),
        "content_hash": "\\x" + follows.content_hash.hex(),
        "metadata": dict(extra),
        "occurred_at": f.as_utc(occurred_at),
        "created_at": f.as_utc(created_at),
    }
    rows = {
        "memories": base,
        "memory_activation": _activation(record, new, f.as_utc(created_at)),
        memories.DETAIL_TABLE[new.memory_type]: known,
        **({"working_memories": dict(working)} if isinstance(working := record.get("working"), Mapping) else {}),
    }
    return Arrival(
        UUID(base["id"]),
        follows.content_hash,
        base["status"] == "active",
        rows,
        history=_history(record, base["version"], new.source_provider),
        tags=kept_tags,
        searched=follows.searched,
        extra=follows.extra,
    )


def _id(record: Mapping[str, Any], digest: bytes, content: str, created_at: datetime | None) -> UUID:
    id_ = _uuid(record["id"]) if record.get("id") else id_of("jsonl", digest.hex(), content, created_at)
    if id_ is None:
        raise InvalidInput("id must be a UUID.")
    return id_


def _status(record: Mapping[str, Any]) -> str:
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
    return history


def _moments(record: Mapping[str, Any]) -> dict[str, datetime]:
    return {name: _moment(name, record[name]) for name in MOMENTS if record.get(name) is not None}


def _moment(name: str, value: Any) -> datetime:
    try:
        return _Moment.validate_python(value)
    except ValidationError:
        if isinstance(value, str) and (read := read_moment(value, datetime.now(UTC), end=name == "expires_at")):
            return read
        raise InvalidInput(f"{name} must be a moment with its zone.") from None


def _named_as_here(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record that has no content under the names that memories have here, where others were used."""
    if record.get("content") is not None:
        return record
    named = {name: next((t for t in TARGETS.get(name, ()) if t in OF_A_MEMORY), name) for name in record}
    return {target if target not in record else name: record[name] for name, target in named.items()}


def _checked(record: Mapping[str, Any], tags: list[str] | None) -> NewMemory:
    """Check the fields that a new memory may have."""
    given = {
        name: record[name]
        for name in NewMemory.model_fields
        if name not in NOT_CHECKED and record.get(name) is not None
    }
    if (activation := record.get("activation")) and isinstance(activation, Mapping):
        given["importance"] = activation.get("importance")
    given["tags"] = record.get("tags") or [] if tags is None else tags
    given["metadata"] = record.get("metadata") or {}
    given.setdefault("content", "")
    return reader(NewMemory).read(given)[0]


def _detail(type_: str, detail: Mapping[str, Any], *, exact: bool) -> tuple[dict[str, Any], datetime | None]:
    """Return the row of the type's own table, and when an event happened."""
    judged = {name: value for name, value in detail.items() if name not in ("average_duration", "success_rate")}
    try:
        model = DETAILS[type_].model_validate(judged)
    except ValidationError as error:
        raise refusal(error, "detail") from None
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
