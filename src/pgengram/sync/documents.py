"""Memories and other rows as documents, read and written in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from pgengram.embedders import Passage
from pgengram.store.connection.database import Transaction
from pgengram.store.memory import statements as s
from pgengram.store.reading.transferring import Arrival
from pgengram.store.sync import disputes, rows, state
from pgengram.sync import memories
from pgengram.sync.merging import GONE, TAG, Document, as_one, merged, with_changes
from pgengram.transfer.arrivals import arrival

Counts = dict[str, list[float]]
# For each kind of row moments, with 1 where the later one holds and -1 where the earlier one does.
GROWING: Final[Mapping[str, Mapping[str, int]]] = {
    "conversation": {"at": 1, "as_of": 1, "kept_from": 1, "began_at": -1}
}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Line:
    """One record of a file: the state of a memory or of a row."""

    kind: str
    key: str
    document: Document

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Line:
        """Read a record.

        Raises:
            KeyError, TypeError, ValueError: it has another form.
        """
        return cls(str(record["kind"]), str(record["key"]), Document.from_json(record["state"]))


class MemoryDocuments:
    """Memories as documents, in one transaction."""

    def __init__(self, tx: Transaction, device: str, writer: str, clock: int, model_id: int | None) -> None:
        self._tx, self._device, self._writer, self._clock, self._model_id = tx, device, writer, clock, model_id

    async def current(self, times: Mapping[str, int]) -> dict[str, Document]:
        """Return memories as they are here, by their ids, with what was changed at these times.

        Those that only a working memory holds are nobody else's, and those that are gone are told of otherwise.
        """
        there = await rows.records(self._tx, list(times))
        known, _ = await state.documents(self._tx, state.MEMORY, list(times))
        return {
            id_: self._document(known.get(id_), record, times[id_])
            for id_, record in there.items()
            if record["status"] != "working"
        }

    def _document(self, known: Any, record: Mapping[str, Any], at: int) -> Document:
        before = Document.from_json(known) if known else Document()
        fields = memories.fields_of(record, before.shown())
        after = with_changes(before, fields, at=at, clock=self._clock, writer=self._writer)
        if _is_confirmed(before, after):  # whoever says that it holds has chosen what is shown
            after.entries = {name: (max(all_, key=lambda one: one.order),) for name, all_ in after.entries.items()}
        after.counts = memories.with_counts(before, self._device, memories.counts_of(record))
        return after

    async def take(self, lines: Sequence[Line], parts: Mapping[str, Passage]) -> int:
        """Take in what other machines say of memories, and return of how many that was something new."""
        tx = self._tx
        gone = await rows.erased(tx, [line.key for line in lines])
        lines = [line for line in lines if line.key not in gone]
        ids = [line.key for line in lines]
        await tx.rows(s.LOCK, {"ids": [UUID(id_) for id_ in ids]})
        there = await rows.records(tx, ids)
        mine = await self._mine(there)
        after = {line.key: merged(mine.get(line.key, Document()), line.document) for line in lines}
        said = {id_: one for id_, one in after.items() if "content" in one.entries and one != mine.get(id_)}
        added = await self._add({id_: one for id_, one in said.items() if id_ not in there}, parts)
        await self._change(
            {
                id_: Changed(mine.get(id_, Document()), said[id_], there.get(id_), parts.get(id_))
                for id_ in sorted(said.keys() - added)
            }
        )
        await state.keep(tx, state.MEMORY, [kept_state(id_, one) for id_, one in after.items()])
        return len(said)

    async def _mine(self, there: Mapping[str, Mapping[str, Any]]) -> dict[str, Document]:
        """Return memories that are here, by their ids, with what was changed since it was written down."""
        known, _ = await state.documents(self._tx, state.MEMORY, list(there))
        changed = await _times_of_changes(self._tx, state.MEMORY, list(there))
        mine = {
            id_: self._document(known.get(id_), record, changed.get(id_, self._clock)) for id_, record in there.items()
        }
        await state.note_untold(self._tx, state.MEMORY, {id_: one.seen for id_, one in mine.items()}, known, changed)
        return mine

    # -- memories that are not here yet --------------------------------------------------------------------------------

    async def _alone(self, said: Mapping[str, Mapping[str, Any]]) -> list[Arrival]:
        """Return of memories that are not here, by what is shown of them, those that say what no other says."""
        arrivals = [_arrival(id_, shown, 1) for id_, shown in said.items()]
        times = Counter(one.hash for one in arrivals if one.active)
        twins = await rows.twins(self._tx, list(times)) if times else {}
        return [one for one in arrivals if not one.active or (times[one.hash] == 1 and one.hash not in twins)]

    async def _add(self, said: Mapping[str, Document], parts: Mapping[str, Passage]) -> set[str]:
        """Store those memories that say what no other says, all together; return their ids."""
        fresh = await self._alone({id_: one.shown() for id_, one in said.items()})
        if not fresh:
            return set()
        documents = {str(one.id): said[str(one.id)] for one in fresh}
        for one in fresh:
            one.parts = parts.get(str(one.id), Passage())
        await rows.silently(self._tx, on=True)
        await rows.take_in(self._tx, fresh, self._model_id)
        await rows.tell(self._tx, {id_: memories.events(one.shown()) for id_, one in documents.items()})
        await rows.set_counts(self._tx, {id_: memories.totals(one) for id_, one in documents.items()}, memories.NEVER)
        await rows.silently(self._tx, on=False)
        return {*documents}

    # -- memories that are, and those whose text another one has -------------------------------------------------------

    async def _change(self, changed: Mapping[str, Changed]) -> None:
        """Give memories the state that all machines together say."""
        if not changed:
            return
        twins = [twin for id_, one in changed.items() if one.is_other and (twin := await self._put(id_, one))]
        await rows.silently(self._tx, on=True)
        for id_, one in changed.items():
            await rows.untell(self._tx, id_, one.untold)
        await rows.tell(self._tx, {id_: events for id_, one in changed.items() if (events := one.events)})
        await rows.set_counts(
            self._tx, {id_: memories.totals(one.after) for id_, one in changed.items()}, memories.NEVER
        )
        await rows.silently(self._tx, on=False)
        for into, other in twins:
            await rows.unite(self._tx, into, other)
            await state.note_changed(self._tx, state.MEMORY, [str(into), str(other)])

    async def _put(self, id_: str, given: Changed) -> tuple[UUID, UUID] | None:
        """Give one memory its state but for its history and counts; return it with another that says the same, the
        older one first.
        """
        one, twin = await self._one_of_twins(id_, given.after.shown(), given.before["version"] if given.before else 1)
        await rows.silently(self._tx, on=True)
        if given.before is None:
            one.parts = given.parts if given.parts is not None else Passage()
            await rows.take_in(self._tx, [one], self._model_id)
        else:
            await rows.change(self._tx, one, given.parts, self._model_id)
        await rows.silently(self._tx, on=False)
        return None if twin is None else (min(twin, one.id), max(twin, one.id))

    async def _one_of_twins(self, id_: str, shown: Mapping[str, Any], version: int) -> tuple[Arrival, UUID | None]:
        """Return a memory, forgotten if an older one that is here says the same, and that one, or the newer one that
        was forgotten instead.
        """
        one = _arrival(id_, shown, version)
        twin = (await rows.twins(self._tx, [one.hash])).get(one.hash) if one.active else None
        if twin is None or twin == one.id:
            return one, None
        if twin < one.id:
            same = {"status": "invalidated", "replaced_by": [str(twin)], "reason": rows.SAME_ELSEWHERE}
            return _arrival(id_, {**shown, **same}, version), twin
        await rows.retire(self._tx, twin, one.id)
        return one, twin


@dataclass(frozen=True, slots=True)
class Changed:
    """What becomes of a memory: its document, that with what other machines say, its record here, and its vectors."""

    mine: Document
    after: Document
    before: Mapping[str, Any] | None
    parts: Passage | None

    @property
    def is_other(self) -> bool:
        """Whether more is other than what happened to it and how often it was used."""
        shown, here = (memories.without_history(one.shown()) for one in (self.after, self.mine))
        return self.before is None or shown != here

    @property
    def untold(self) -> list[int]:
        """The versions of entries of its history that were stripped of their text elsewhere."""
        names = self.after.entries
        return [version for name, version in self._versions.items() if name not in names]

    @property
    def events(self) -> list[dict[str, Any]]:
        """What happened to it elsewhere."""
        return memories.events(self.after.shown(), without=self._versions.keys())

    @property
    def _versions(self) -> dict[str, int]:
        return {name: row["version"] for name, row in memories.history_of(self.before).items()} if self.before else {}


def _arrival(id_: str, shown: Mapping[str, Any], version: int) -> Arrival:
    record = memories.record_of(id_, shown, version)
    return arrival(record, tags=record["tags"])


@dataclass(frozen=True, slots=True)
class Here:
    """What is known here of a row.

    waits: whether it waits for what it leads to. expired: whether it is kept here no longer, though nobody erased it.
    """

    document: Document
    waits: bool = False
    expired: bool = False


class RowDocuments:
    """Rows of one kind as documents, in one transaction.

    Args:
        tx: of the namespace.
        kind: of the rows.
        writer: this process.
        writers: the processes of this machine that wrote files.
        clock: what time it is, in microseconds.
    """

    def __init__(self, tx: Transaction, kind: str, writer: str, writers: Collection[str], clock: int) -> None:
        table = rows.table_of(kind)
        assert table is not None  # noqa: S101 - callers look first
        self._tx, self._kind, self._table, self._clock = tx, kind, table, clock
        self._writer, self._writers = writer, writers

    @property
    def _is_turn(self) -> bool:
        return self._kind == state.TURN

    async def current(self, times: Mapping[str, int], model_id: int | None) -> dict[str, Document]:
        """Return rows as they are here, by their keys, with what was changed at these times."""
        there = await rows.rows_now(self._tx, self._table, list(times))
        known, waits = await state.documents(self._tx, self._kind, list(times))
        if met := sorted(waits & there.keys()):  # a row of ours is where another machine's waits to be
            await self.take([Line(self._kind, key, Document.from_json(known[key])) for key in met], model_id)
            return await self.current(times, model_id)
        found = {
            key: self._document(known.get(key), there.get(key, {}), at)
            for key, at in times.items()
            if key in there or self._is_turn or (key in known and key not in waits)
        }
        await self._put({key: one for key, one in found.items() if one.gone and key in there}, model_id)
        await self._note_erasure(found.values())
        return found

    async def take(self, lines: Sequence[Line], model_id: int | None) -> int:
        """Take in what other machines say of rows, and return of how many that was something new."""
        here = await self._known_here(lines)
        after = {line.key: merged(here[line.key].document, line.document) for line in lines}
        fresh = {key: one for key, one in after.items() if _is_to_be_put(here[key], one)}
        left = await self._put(fresh, model_id)
        await state.keep(self._tx, self._kind, [kept_state(key, one, waits=key in left) for key, one in after.items()])
        await self._note_erasure(fresh.values())
        return len(fresh) - len(left)

    async def _known_here(self, lines: Sequence[Line]) -> dict[str, Here]:
        keys = [line.key for line in lines]
        there = await rows.rows_now(self._tx, self._table, keys)
        known, waits = await state.documents(self._tx, self._kind, keys)
        changed = await _times_of_changes(self._tx, self._kind, keys)
        found = {
            line.key: self._here(known.get(line.key), there[line.key], changed.get(line.key), waits=line.key in waits)
            if line.key in there
            else self._not_here(known.get(line.key), line, is_removed=line.key in changed, waits=line.key in waits)
            for line in lines
        }
        seen = {key: one.document.seen for key, one in found.items() if key in there or key in known}
        await state.note_untold(self._tx, self._kind, seen, known, changed)
        return found

    def _here(self, known: Any, row: Mapping[str, Any], at: int | None, *, waits: bool) -> Here:
        at = self._clock if at is None else at
        return Here(self._with_waiting(known, row, at) if waits else self._document(known, row, at), waits=waits)

    def _not_here(self, known: Any, line: Line, *, is_removed: bool, waits: bool) -> Here:
        """Return what is known of a row that is not here.

        One of which nothing is known may be removed all the same, and be in a file that this machine wrote: if the
        transaction failed after that, or its process was killed.
        """
        if is_removed and self._is_turn:
            return Here(GONE)
        if not known:
            seen = {writer: number for writer, number in line.document.seen.items() if writer in self._writers}
            return Here(Document(seen if is_removed else {}))
        before = Document.from_json(known)
        if waits:
            return Here(before, waits=True)
        if not is_removed and self._kind in state.OF_CONVERSATIONS:
            return Here(before, expired=bool(before.entries))
        return Here(self._document(known, {}, self._clock))

    def _with_waiting(self, known: Any, fields: Mapping[str, Any], at: int) -> Document:
        """Return a row of another machine that waits to be here, together with the one that is here."""
        before = Document.from_json(known)
        if before.gone:
            return before
        apart = Document({self._writer: before.seen.get(self._writer, 0)})
        return merged(before, as_one(self._with_changes(apart, fields, at), self._writer))

    def _document(self, known: Any, fields: Mapping[str, Any], at: int) -> Document:
        before = Document.from_json(known) if known else Document()
        if before.gone or (self._is_turn and not fields):
            return GONE
        after = self._with_changes(before, fields, at)
        is_changed = bool(after.entries) and after.seen != before.seen
        return as_one(after, self._writer) if is_changed and not self._is_turn else after

    def _with_changes(self, before: Document, fields: Mapping[str, Any], at: int) -> Document:
        now, counts = _split_row(self._kind, fields)
        after = with_changes(before, now, at=at, clock=self._clock, writer=self._writer)
        return merged(after, Document(counts=counts))

    async def _put(self, given: Mapping[str, Document], model_id: int | None) -> set[str]:
        """Give rows the state that all machines together say; return the keys of those that wait."""
        await rows.silently(self._tx, on=True)
        left = await rows.put_rows(self._tx, self._table, {key: self._row(one) for key, one in given.items()})
        if self._kind == "cluster_member":
            clusters = {rows.key_row(self._table, key)["cluster_id"] for key in given.keys() - left}
            await rows.renew_clusters(self._tx, clusters, model_id)
        await rows.silently(self._tx, on=False)
        return left

    def _row(self, document: Document) -> dict[str, Any]:
        shown = document.shown()
        return shown | _grown_columns(self._kind, document.counts) if shown else {}

    async def _note_erasure(self, documents: Iterable[Document]) -> None:
        """Have our files cleared of turns that are not kept any more."""
        if any(document.gone for document in documents):
            await state.note_erasure(self._tx)


def _is_to_be_put(here: Here, after: Document) -> bool:
    return after.gone or not here.expired if after != here.document else here.waits


async def _times_of_changes(tx: Transaction, kind: str, keys: Sequence[str]) -> dict[str, int]:
    """Return when those of these memories or rows were changed that are not written down yet."""
    found = await tx.rows(state.WHEN_CHANGED, {"kind": kind, "keys": list(keys)})
    return {row["key"]: microseconds(row["at"]) for row in found}


def _is_confirmed(before: Document, after: Document) -> bool:
    dots = [{one.dot for one in document.entries.get("last_confirmed_at", ())} for document in (before, after)]
    return bool(before.entries) and dots[0] != dots[1]


def kept_state(key: str, document: Document, *, waits: bool = False) -> dict[str, Any]:
    """Return what is kept of a document in the database, by its key."""
    disputed = any(
        name not in disputes.BOOKKEEPING and not name.startswith((TAG, memories.HISTORY))
        for name, _ in document.disputed()
    )
    # What waits is known by nothing but this, so it is kept whole.
    return {"key": key, "state": document.as_json(whole=waits), "disputed": disputed, "waits": waits}


def microseconds(moment: datetime) -> int:
    """Return a moment in microseconds since 1970."""
    return int(moment.timestamp() * 1_000_000)


def _split_row(kind: str, row: Mapping[str, Any]) -> tuple[dict[str, Any], Counts]:
    """Return the columns of a row that anybody may set to anything, and the others as counts."""
    signs = GROWING.get(kind, {})
    counts = {
        name: [float(sign * ((datetime.fromisoformat(row[name]) - EPOCH) // MICROSECOND))]
        for name, sign in signs.items()
        if row.get(name) is not None
    }
    return {name: value for name, value in row.items() if name not in signs}, counts


def _grown_columns(kind: str, counts: Mapping[str, list[float]]) -> dict[str, str]:
    """Return what counts say as columns of a row."""
    return {
        name: (EPOCH + sign * int(counts[name][0]) * MICROSECOND).isoformat()
        for name, sign in GROWING.get(kind, {}).items()
        if name in counts
    }
