"""What leads from one memory to another and whatever else belongs to a namespace, on its way in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast
from uuid import UUID

from pgengram import fields as f
from pgengram.errors import PgengramError
from pgengram.service.core import Core
from pgengram.store import turn_arrivals
from pgengram.store.connection.database import Transaction
from pgengram.store.conversations import Conversation, Turn, source_key
from pgengram.store.edges import normalised_type
from pgengram.store.identity import belief_hash
from pgengram.store.memory import changes, memories
from pgengram.store.memory import statements as s
from pgengram.store.reading import newer_states, transferring
from pgengram.store.reading.transferring import Arrival, Table
from pgengram.store.recovery.imports import Note, removed_by_undo
from pgengram.transfer.arrivals import batches, imported_actor, one_by_one_if_needed, record_without_secrets
from pgengram.transfer.records import OTHER_FORMS, Item, Left, Said, made_of, moment, of_another_form, uuid_of
from pgengram.transfer.report import Imported
from pgengram.transfer.transcripts import REPEATED

ENDS: Final = {"relationship": ("from_id", "to_id"), "cluster_member": ("memory_id",), "evidence": ("memory_id",)}
DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "relationship": {"strength": 1.0, "properties": {}},
    "cluster": {"keywords": [], "importance": 0.5, "activation_count": 0},
    "cluster_member": {"strength": 1.0, "automatic": False},
    "conversation": {"imported": False},
}
TAKEN_BACK: Final = "its link was removed here later"
ERASED_THERE: Final = "It was erased in another copy of the store."
Row = dict[str, Any]


def _computed(record: str, row: Row, *, foreign: bool) -> Row:
    """Return the columns of a row that are made from others."""
    match record:
        case "relationship" if foreign:
            return {"type": normalised_type(str(row["type"]))}
        case "history":
            return {"actor": imported_actor(row.get("actor"))}
        case "turn":
            return {"id": _turn_id(row)}
        case "belief":
            return {"belief_hash": "\\x" + belief_hash(str(row.get("belief"))).hex()}
    return {}


class RelatedRows:
    """Takes in the rows of `transferring.TABLES`.

    Attributes:
        same: memories that came under another id than the one they are here under.
        fresh: those that came new, with their history; a dry run would have added them.
        turns: of conversations that were here already, whose turns may have other numbers than in the file.
        note: of what the import stores.
    """

    def __init__(self, core: Core, report: Imported, note: Note) -> None:
        self._core, self._report, self.note = core, report, note
        self.same: dict[str, str] = {}
        self.fresh: set[UUID] = set()
        self.turns: list[Said] = []
        self.conversations: set[tuple[str, str]] = set()  # that came new

    async def take(self, record: str, items: Sequence[Item]) -> None:
        """Take in the records of one kind."""
        for batch in batches(items):
            rows: list[tuple[Item, Row]] = []
            for item in batch:
                try:
                    rows.append((item, self._row(record, item)))
                except PgengramError as error:
                    self._report.leave(Left(item.place, error.message))
                except OTHER_FORMS:
                    self._report.leave(of_another_form(item.place))
            if usable := await self._usable(record, rows):
                [table] = [one for one in transferring.TABLES if one.record == record]
                await one_by_one_if_needed(usable, _Adding(self, table).add, self._report)

    def note_memories(self, fresh: Sequence[Arrival], same: Mapping[UUID, UUID]) -> None:
        """Note which memories came new, and which are here, by the ids they came with."""
        self.fresh |= {arrived.id for arrived in fresh}
        self.same |= {str(id_): str(there) for id_, there in same.items() if id_ != there}

    async def _usable(self, record: str, rows: list[tuple[Item, Row]]) -> list[tuple[Item, Row]]:
        """Return the rows that can be stored; tell of the others."""
        usable = await self._with_ends(record, rows)
        if record == "history":
            usable = await self._of_erased(usable)
        if record == "relationship":
            usable = await self._not_taken_back(usable)
        if record == "turn":
            usable = await self._not_removed(usable)
        return self._of_new_conversations(usable) if record in ("turn", "hidden_turn") else usable

    def _row(self, record: str, item: Item) -> Row:
        now = datetime.now(UTC)
        row = {**DEFAULTS.get(record, {}), **record_without_secrets(item.record, self._core, self._report)}
        del row["record"]
        row |= {name: row.get(name) or now for name in ("created_at", "added_at")}
        row["updated_at"] = row.get("updated_at") or row["created_at"]
        row = {name: f.as_utc(value) if isinstance(value, datetime) else value for name, value in row.items()}
        for name in ENDS.get(record, ()):
            row[name] = self.same.get(str(row.get(name)), row.get(name))
        return row | _computed(record, row, foreign=item.foreign)

    async def _with_ends(self, record: str, rows: list[tuple[Item, Row]]) -> list[tuple[Item, Row]]:
        """Return the rows whose memories are there; tell of the others."""
        ends = ENDS.get(record, ())
        if not ends or not rows:
            return rows
        named = cast("list[UUID]", list({uuid_of(row.get(name)) for _, row in rows for name in ends} - {None}))
        async with self._core.store.transaction() as tx:
            there = await transferring.there(tx, named) | self.fresh
            erased = await transferring.erased_here(tx, named)
        usable = []
        for item, row in rows:
            ids = {uuid_of(row.get(name)) for name in ends}
            if ids & erased:
                self._report.leave(Left(item.place, "one of its memories was erased here", by_design=True))
            elif ids - there:
                self._report.leave(Left(item.place, "one of its memories is missing"))
            elif len(ids) < len(ends):
                self._report.leave(Left(item.place, "it leads from a memory to itself"))
            else:
                usable.append((item, row))
        return usable

    async def _not_taken_back(self, rows: list[tuple[Item, Row]]) -> list[tuple[Item, Row]]:
        """Return the edges but for those that were removed here after they had been made there; one that does not say
        when it was made is older than anything.
        """
        async with self._core.store.transaction() as tx:
            ids = {one for _, row in rows if (one := uuid_of(row["from_id"]))}
            removed = await newer_states.unlinked(tx, ids)
        usable = []
        for item, row in rows:
            at = removed.get((str(uuid_of(row["from_id"])), str(uuid_of(row["to_id"])), row["type"]))
            made = moment(item.record.get("updated_at")) or moment(item.record.get("created_at"))
            if at is not None and (made is None or made <= at):
                self._report.leave(Left(item.place, TAKEN_BACK, by_design=True))
            else:
                usable.append((item, row))
        return usable

    async def _not_removed(self, rows: list[tuple[Item, Row]]) -> list[tuple[Item, Row]]:
        """Return the turns but for those that were erased on one of the machines that exchange this store, and by no
        undo.
        """
        async with self._core.store.transaction() as tx:
            gone = await turn_arrivals.removed(tx, [row for _, row in rows])
            gone -= await removed_by_undo(tx, gone)
        for item, row in rows:
            if row["id"] in gone:
                self._report.leave(Left(item.place, "it was erased here", by_design=True))
        return [(item, row) for item, row in rows if row["id"] not in gone]

    def _of_new_conversations(self, rows: list[tuple[Item, Row]]) -> list[tuple[Item, Row]]:
        """Return the turns of conversations that came new; the others become `turns`."""
        usable = []
        for item, row in rows:
            if (row.get("client"), row.get("conversation")) in self.conversations:
                usable.append((item, row))
            elif isinstance(turn := made_of(item.place, _turn_of, item.place, row), Said):
                self.turns.append(turn)
            else:
                self._report.leave(turn)
        return usable

    async def _of_erased(self, rows: list[tuple[Item, Row]]) -> list[tuple[Item, Row]]:
        """Return the history of what is not here; what was erased there since it was changed here is forgotten here."""
        ids = {one for _, row in rows if (one := uuid_of(row.get("memory_id")))}
        async with self._core.store.transaction() as tx:
            there = await transferring.there(tx, list(ids)) | self.fresh
        usable = []
        for item, row in rows:
            id_ = uuid_of(row.get("memory_id"))
            if id_ not in there:
                usable.append((item, row))
            elif row.get("operation") == "erase" and (at := moment(row.get("at"))):
                await self._forget(item, id_, at)
        return usable

    async def _forget(self, item: Item, id_: UUID, erased_at: datetime) -> None:
        async with self._core.store.transaction() as tx:
            await tx.rows(s.LOCK, {"ids": [id_]})
            row = (await memories.read_memories(tx, [id_], None)).get(id_)
            if row is None or row["status"] == "invalidated" or row["updated_at"] > erased_at:
                return
            reason = f"it was erased in the other store and is forgotten here; pgengram forget --hard {id_} erases it"
            self._report.leave(Left(item.place, reason, by_design=True))
            self._report.updated["memory"] += 1
            if not self._report.dry_run:
                await changes.forget_memory(tx, row, reason=ERASED_THERE, replaced_by=[], session_id=None)
                await self.note.changed(tx, [id_])


def _turn_id(row: Row) -> int:
    """Return the id of a turn; where the file has none, one that is always the same.

    Raises:
        ValueError, TypeError: what the file has cannot be an id.
    """
    names = ("conversation", "number", "role", "text")
    key = row.get("source_key") or source_key(*(row.get(name) for name in names))
    id_ = int(row.get("id") or turn_arrivals.turn_id(key, str(row.get("text"))))
    if not 0 <= id_ < 1 << turn_arrivals.ID_BITS:
        raise ValueError(id_)
    return id_


def _turn_of(place: str, row: Row) -> Said | Left:
    """Return a turn, or that it was taken back; what is a copy of another is none by itself."""
    time, number = moment(row.get("time")), row.get("number")
    withdrawn = row.get("withdrawn")
    if withdrawn is False:
        return Left(place, REPEATED, by_design=True)
    row = {"text": "", **row} if withdrawn else row
    if (
        time is None
        or not isinstance(number, int)
        or row.get("role") not in f.ROLES
        or not isinstance(row.get("text"), str)
    ):
        return of_another_form(place)
    conversation = Conversation(
        str(row["client"]), str(row["conversation"]), row.get("project"), as_of=moment(row.get("as_of"))
    )
    turn = Turn(number, row["role"], row["text"], time, row.get("source_key"), bool(withdrawn), id=row.get("id"))
    return Said(place, conversation, turn)


class _Adding:
    """Adds rows of one table, and lets those that are there take over newer ones."""

    def __init__(self, related: RelatedRows, table: Table) -> None:
        self._core, self._report, self._related = related._core, related._report, related
        self._table = table

    async def add(self, pairs: list[tuple[Item, Row]]) -> None:
        """Add them in one transaction, and count them."""
        table, dry_run, rows = self._table, self._report.dry_run, [row for _, row in pairs]
        async with self._core.store.transaction() as tx:
            dated = [row for item, row in pairs if item.record.get("updated_at")] if table.dated else []
            changed = await transferring.renew_rows(tx, table, dated, dry_run=dry_run)
            there = await transferring.keys_present(tx, table, rows)
            keyed = {tuple(str(row.get(name)) for name, _ in table.key): row for row in reversed(rows)}
            fresh = [row for key, row in reversed(keyed.items()) if key not in there]
            added = len(fresh)
            if not dry_run:
                added = await transferring.add_rows(tx, table.name, fresh)
                await self._follow(tx, fresh)
                await self._note(tx, fresh, added + changed)
        if table.record == "conversation":
            self._related.conversations |= {(row["client"], row["conversation"]) for row in fresh}
        self._report.added[table.record] += added
        self._report.updated[table.record] += changed
        self._report.known[table.record] += len(rows) - added - changed

    async def _note(self, tx: Transaction, fresh: list[Row], count: int) -> None:
        """Note in the same transaction what was stored; what belongs to a new memory or turn is noted with that."""
        record, note = self._table.record, self._related.note
        if record == "turn":
            stored = [((row["client"], row["conversation"]), row["id"]) for row in fresh]
            await note.turns(tx, {name for name, _ in stored}, stored)
        elif record not in ("conversation", "hidden_turn", "history"):
            ends, new = ENDS.get(record, ()), self._related.fresh
            its_own = [row for row in fresh if any(UUID(str(row[name])) in new for name in ends)]
            await note.others(tx, record, count, len(its_own))

    async def _follow(self, tx: Transaction, fresh: list[Row]) -> None:
        if self._table.record == "cluster_member":
            await transferring.renew_imported_clusters(
                tx, [str(row["cluster_id"]) for row in fresh], self._core.model_key
            )
        if self._table.record == "relationship":
            edges = [row for row in fresh if UUID(str(row["from_id"])) not in self._related.fresh]
            await tx.rows(s.LOCK, {"ids": [row["from_id"] for row in edges]})
            for row in edges:
                made = {name: row.get(name) for name in ("to_id", "type", "strength", "properties")}
                await newer_states.append_history(
                    tx, row["from_id"], "link", {"relationship": [None, made]}, row["updated_at"]
                )
            await self._related.note.versions(tx, [UUID(str(row["from_id"])) for row in edges])
