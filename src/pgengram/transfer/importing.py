"""Bringing memories in: what is there already is left alone, what cannot be taken is reported with its reason."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import islice
from typing import Any, Final, TypeVar, cast
from uuid import UUID

import psycopg

from pgengram import fields as f
from pgengram.errors import Conflict, DatabaseFailed, PgengramError
from pgengram.inputs import Change, checked
from pgengram.runtime.context import ACTOR
from pgengram.runtime.retry import retrying
from pgengram.service.conversations import Conversations
from pgengram.service.core import Core
from pgengram.service.manager import MemoryManager
from pgengram.service.secret_filter import filter_fields
from pgengram.store.assistant.identity import belief_hash
from pgengram.store.connection.database import Row
from pgengram.store.connection.translation import broken_rule
from pgengram.store.graph.edges import normalised_type
from pgengram.store.memory import memories
from pgengram.store.reading import transferring
from pgengram.store.reading.transferring import Arrival
from pgengram.transfer import gone
from pgengram.transfer.arrivals import arrival, imported_actor
from pgengram.transfer.opening import Opened
from pgengram.transfer.records import EDITED, Item, Left, Said, uuid_of
from pgengram.transfer.report import Imported

BATCH: Final = 64  # memories embedded and stored together
ENDS: Final = {"relationship": ("from_id", "to_id"), "cluster_member": ("memory_id",), "evidence": ("memory_id",)}
IDS: Final = {"id", "replaced_by", "cluster_id", "belief_id", *(end for ends in ENDS.values() for end in ends)}
DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "relationship": {"strength": 1.0, "properties": {}},
    "cluster": {"keywords": [], "importance": 0.5, "activation_count": 0},
    "cluster_member": {"strength": 1.0, "automatic": False},
    "conversation": {"imported": False},
}
ALONE: Final = ("conversation", "turn")  # records that lead to no memory, so that they need not wait for any
ACTING: Final = "import"  # as the history names who changed a memory
Report = Callable[[int, int], None]  # records looked at, records in all
One = TypeVar("One")


async def import_from(
    core: Core, system: str, source: str, *, dry_run: bool, report: Report,
    mapping: Mapping[str, str] | None = None, encoding: str = "", name: str = "",
) -> Imported:  # fmt: skip
    """Bring in what `source` holds; a second time adds nothing.

    It is read and stored in batches, each in one transaction, so an import that is broken off can be repeated, and a
    large one takes no more memory than a small one.

    Args:
        core: whose memories they will be.
        system: one of `importers.SYSTEMS`; empty to recognise it.
        source: a path; for `agi` also a URL.
        dry_run: look at everything and change nothing.
        report: called with how many records were looked at and how many there are, which is estimated until the end.
        mapping: of the formats `csv` and `json`, our fields with the columns that they are in.
        encoding: of the texts, where they are not in Unicode.
        name: of the file, as its giver calls it; that of the path by default.

    Raises:
        InvalidInput: there is no such system, or the source is not what it should be.
    """
    opened = await asyncio.to_thread(Opened, system, source, mapping, encoding, name)
    importing = _Import(core, Imported(opened.system, dry_run))
    importing.look_for_gone(*await asyncio.to_thread(opened.gone))
    done = 0
    actor = ACTOR.set(ACTING)  # whoever runs it has not read what the file says
    try:
        batch = await asyncio.to_thread(opened.batch)
        while batch:  # the next one is read while this one is stored
            _, following = await asyncio.gather(importing.take(batch), asyncio.to_thread(opened.batch))
            done += len(batch)
            report(done, max(done, opened.estimated(done)))
            batch = following
        await importing.rest()
        await importing.tell_gone()
        report(done, done)
    finally:
        ACTOR.reset(actor)
        await importing.close()
    if not dry_run:
        core.notice_growth(importing.report.added["memory"])
    return importing.report


def _batches(items: Iterable[One]) -> Iterator[list[One]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


class _Import:
    """One import under way."""

    def __init__(self, core: Core, report: Imported) -> None:
        self._core = core
        self.report = report
        self._conversations = Conversations(core)
        self._others: dict[str, list[Item]] = {}
        self._same: dict[str, str] = {}  # memories that came under another id than the one they are there under
        self._coming: set[UUID] = set()  # that a dry run would have added
        self._gone: dict[UUID, str] | None = None  # notes that were exported and have not turned up yet

    async def close(self) -> None:
        """Let go of what changed memories."""
        if "_manager" in vars(self):
            await self._manager.close()

    # -- notes that are gone ---------------------------------------------------------------------------------------

    def look_for_gone(self, gone: dict[UUID, str] | None, unreadable: Left | None) -> None:
        """Begin with the notes that no file is called like; some may turn up under another name."""
        self._gone = gone
        if unreadable:
            self.report.leave(unreadable)

    def _turned_up(self, ids: Iterable[UUID | None]) -> None:
        for id_ in ids if self._gone else ():
            self._gone.pop(cast("UUID", id_), None)  # type: ignore[union-attr]

    async def tell_gone(self) -> None:
        """Note in the report which memories' notes are gone; they stay as they are."""
        if self._gone is not None:
            async with self._core.store.transaction() as tx:
                self.report.gone = await gone.of_memories(tx, self._gone)

    # -- memories --------------------------------------------------------------------------------------------------

    async def take(self, items: Sequence[Item | Said | Left]) -> None:
        """Take in the memories and turns among `items`; what leads from one to another waits until all are there."""
        memories: list[Item] = []
        said: list[Said] = []
        alone: dict[str, list[Item]] = {record: [] for record in ALONE}
        for item in items:
            if isinstance(item, Left):
                self.report.leave(item)
            elif isinstance(item, Said):
                said.append(item)
            elif item.record.get("record") == "memory":
                memories.append(item)
            else:
                record = str(item.record.get("record"))
                (alone if record in ALONE or item.last else self._others).setdefault(record, []).append(item)
        for batch in _batches(memories):
            await self._memories(batch)
        if said:
            await self._turns(said)
        for record, waiting in alone.items():
            await self._rows_of(record, waiting)

    async def _turns(self, said: Sequence[Said]) -> None:
        brought = await self._conversations.bring(
            [(one.conversation, one.turn) for one in said], dry_run=self.report.dry_run
        )
        taken_back = [one for one in said if one.turn.withdrawn]
        self.report.known["turn"] += len(said) - len(taken_back) - len(brought.added)
        self.report.redacted += brought.redacted
        for one in taken_back:
            self.report.leave(Left(one.place, EDITED, by_design=True))
        for place in brought.added:
            conversation, turn = said[place].conversation, said[place].turn
            self.report.add("turn", f"{turn.role}'s turn", turn.text, turn.time, conversation.id)
        for place in brought.shortened:
            self.report.leave(Left(said[place].place, "only its beginning is kept, as it is too long"))

    async def _memories(self, items: Sequence[Item]) -> None:
        arrivals: list[tuple[Item, Arrival]] = []
        self._turned_up(uuid_of(item.record.get("id")) for item in items)
        for item in items:
            try:
                arrivals.append((item, await self._arrival(item)))
            except PgengramError as error:
                self.report.leave(Left(item.place, error.message))
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
        arrived = [arrival for _, arrival in pairs]
        async with self._core.store.transaction() as tx:
            known = await transferring.known(tx, arrived)
        self._turned_up(known.values())
        fresh = _apart([one for one in arrived if one.id not in known], known)
        if self.report.dry_run:
            self._coming |= {arrival.id for arrival in fresh}
        elif fresh:
            await self._store(fresh)
        await self._change([pair for pair in pairs if pair[0].edits and pair[1].id in known])
        self._same |= {str(id_): str(there) for id_, there in known.items() if id_ != there}
        self.report.known["memory"] += len(known)
        self._report_added(fresh, dated={arrival.id for item, arrival in pairs if item.record.get("created_at")})

    def _report_added(self, fresh: Sequence[Arrival], *, dated: set[UUID]) -> None:
        """Note in the report which memories were added; one that brought no date has only that of its import."""
        self.report.added["memory"] += 0  # so that it is listed
        for one in fresh:
            row = one.rows["memories"]
            said = row["occurred_at"] or (row["created_at"] if one.id in dated else None)
            at = datetime.fromisoformat(said) if said else None
            self.report.add("memory", str(row.get("kind") or "general"), row["content"], at, str(one.id))

    async def _change(self, pairs: Sequence[tuple[Item, Arrival]]) -> None:
        """Let memories that are there take over what their edited notes say."""
        if not pairs:
            return
        async with self._core.store.transaction() as tx:
            rows = await memories.read(tx, [arrival.id for _, arrival in pairs], None)
        for item, arrived in pairs:
            change = _edited(rows.get(arrived.id), item.record, arrived)
            if change is None:
                continue
            if not self.report.dry_run:
                try:
                    await self._manager.update_memory(checked(Change, change))
                except PgengramError as error:
                    self.report.leave(Left(item.place, error.message))
                    continue
            self.report.updated["memory"] += 1

    @cached_property
    def _manager(self) -> MemoryManager:
        """What changes memories, on the same store."""
        return MemoryManager(self._core.settings, self._core)

    @retrying
    async def _store(self, fresh: Sequence[Arrival]) -> None:
        texts = [arrival.rows["memories"]["content"] for arrival in fresh]
        embedded = await self._core.models.passages(texts)
        for one, parts in zip(fresh, embedded.vectors, strict=True):
            one.parts = parts
        async with self._core.store.transaction() as tx:
            await transferring.take_in(tx, fresh, embedded.model_id)

    # -- everything else -------------------------------------------------------------------------------------------

    async def rest(self) -> None:
        """Take in what leads from one memory to another, and whatever else belongs to the namespace."""
        for table in transferring.TABLES:
            await self._rows_of(table.record, self._others.pop(table.record, []))
        for record, items in self._others.items():
            for item in items:
                self.report.leave(Left(item.place, f"{record} is not a kind of record"))

    async def _rows_of(self, record: str, items: Sequence[Item]) -> None:
        for batch in _batches(items):
            rows: list[tuple[Item, dict[str, Any]]] = []
            for item in batch:
                try:
                    rows.append((item, self._row(record, item)))
                except PgengramError as error:
                    self.report.leave(Left(item.place, error.message))
            usable = await self._with_ends(record, rows)
            if usable:
                table = next(one for one in transferring.TABLES if one.record == record)
                await self._one_by_one_if_needed(usable, partial(self._add, table))

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
        if record == "history":
            row["actor"] = imported_actor(row.get("actor"))
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
        named = {uuid_of(row.get(name)) for _, row in rows for name in ends} - {None}
        async with self._core.store.transaction() as tx:
            there = await transferring.there(tx, cast("list[UUID]", list(named))) | self._coming
        usable = []
        for item, row in rows:
            ids = {uuid_of(row.get(name)) for name in ends}
            if ids - there:
                self.report.leave(Left(item.place, "one of its memories is missing"))
            elif len(ids) < len(ends):
                self.report.leave(Left(item.place, "it leads from a memory to itself"))
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
                self.report.leave(Left(items[0][0].place, reason))
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


def _edited(row: Row | None, record: Mapping[str, Any], arrived: Arrival) -> dict[str, Any] | None:
    """Return how a memory differs from its note, as a change; None where it does not, or is forgotten."""
    if row is None or row["status"] != "active":
        return None
    given = {"content": arrived.rows["memories"]["content"], "tags": arrived.tags}
    given |= {name: record[name] for name in ("kind", "importance", "project", "user") if name in record}
    differs = {
        name: value for name, value in given.items() if value != row[name] and not (name == "tags" and not value)
    }
    if not arrived.tags and row["tags"]:
        differs["clear"] = ["tags"]
    return {"id": str(row["id"]), **differs} if differs else None


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
