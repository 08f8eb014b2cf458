"""Memories and other rows as documents, read and written in one transaction."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pgengram.embedders.vectors import Passage
from pgengram.store.assistant import turn_arrivals
from pgengram.store.connection.database import Transaction
from pgengram.store.memory import statements as s
from pgengram.store.reading.transferring import Arrival
from pgengram.store.sync import disputes, rows, state
from pgengram.sync import memories, moves
from pgengram.sync.merging import Document, Dot, as_one, latest, merged, with_changes
from pgengram.transfer.arrivals import arrival


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
        fields = memories.fields_of(record)
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
        known, _ = await state.documents(tx, state.MEMORY, ids)
        changed = await _times_of_changes(tx, state.MEMORY, ids)
        fresh = await self._put_fresh([line for line in lines if line.key not in there], parts)
        taken, kept = len(fresh), [kept_state(id_, document) for id_, document in fresh.items()]
        for line in sorted((line for line in lines if line.key not in fresh), key=lambda one: one.key):
            mine = Document()
            if line.key in there:
                mine = self._document(known.get(line.key), there[line.key], changed.get(line.key, self._clock))
            after = merged(mine, line.document)
            if after != mine and "content" in after.entries:
                await self._put(line.key, mine, after, there.get(line.key), parts.get(line.key))
                taken += 1
            kept.append(kept_state(line.key, after))
        await state.keep(tx, state.MEMORY, kept)
        return taken

    async def _put_fresh(self, lines: Sequence[Line], parts: Mapping[str, Passage]) -> dict[str, Document]:
        """Store all together memories that are not here and say what no other says, and return their documents."""
        documents = {line.key: line.document for line in lines if "content" in line.document.entries}
        said = {id_: document.shown() for id_, document in documents.items()}
        arrivals = [_arrival(id_, shown, 1) for id_, shown in said.items()]
        times = Counter(one.hash for one in arrivals if one.active)
        twins = await rows.twins(self._tx, list(times)) if times else {}
        alone = [one for one in arrivals if not one.active or (times[one.hash] == 1 and one.hash not in twins)]
        if not alone:
            return {}
        ids = [str(one.id) for one in alone]
        for one in alone:
            one.parts = parts.get(str(one.id), Passage())
        await rows.silently(self._tx, on=True)
        await rows.take_in(self._tx, alone, self._model_id)
        await rows.tell(self._tx, {id_: memories.events(said[id_]) for id_ in ids})
        await rows.set_counts(self._tx, {id_: memories.totals(documents[id_]) for id_ in ids}, memories.NEVER)
        await rows.silently(self._tx, on=False)
        return {id_: documents[id_] for id_ in ids}

    async def _put(
        self, id_: str, mine: Document, after: Document, before: Mapping[str, Any] | None, parts: Passage | None
    ) -> None:
        """Give a memory the state that all machines together say."""
        shown, version = after.shown(), before["version"] if before else 1
        same = before is not None and memories.without_history(shown) == memories.without_history(mine.shown())
        one, twin = (_arrival(id_, shown, version), None) if same else await self._one_of_twins(id_, shown, version)
        await rows.silently(self._tx, on=True)
        if before is None:
            one.parts = parts if parts is not None else Passage()
            await rows.take_in(self._tx, [one], self._model_id)
        elif not same:
            await rows.change(self._tx, one, parts, self._model_id)
        await self._tell(id_, shown, before)
        await rows.set_counts(self._tx, {id_: memories.totals(after)}, memories.NEVER)
        await rows.silently(self._tx, on=False)
        if twin is not None:
            into, other = sorted((twin, one.id))
            await rows.unite(self._tx, into, other)
            await state.note_changed(self._tx, state.MEMORY, [str(into), str(other)])

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

    async def _tell(self, id_: str, shown: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
        here = {memories.history_name(row): row["version"] for row in before["history"]} if before else {}
        await rows.untell(self._tx, id_, [version for name, version in here.items() if name not in shown])
        await rows.tell(self._tx, {id_: memories.events(shown, without=here.keys())})


def _arrival(id_: str, shown: Mapping[str, Any], version: int) -> Arrival:
    record = memories.record_of(id_, shown, version)
    return arrival(record, tags=record["tags"])


class RowDocuments:
    """Rows of one kind as documents, in one transaction.

    Args:
        tx: of the namespace.
        kind: of the rows.
        writer: this process.
        writers: the processes of this machine that wrote files.
        clock: what time it is, in microseconds.
    """

    def __init__(self, tx: Transaction, kind: str, writer: str, writers: Sequence[str], clock: int) -> None:
        table = rows.table_of(kind)
        assert table is not None  # noqa: S101 - callers look first
        self._tx, self._kind, self._table, self._clock = tx, kind, table, clock
        self._writer, self._writers = writer, writers

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
            if key in there or (key in known and key not in waits)
        }
        await self._note_erasure(found.values())
        return found

    def _is_displaced(self, mine: Document, after: Document) -> bool:
        """Whether another machine has kept another turn in the place of one of ours, and that is shown."""
        said, now = mine.entries.get("text", ()), after.entries.get("text", ())
        ours = [one for one in said if one in now and one.writer in self._writers]
        return bool(ours) and latest(said).digest != latest(now).digest

    async def _place_elsewhere(self, displaced: Mapping[str, Mapping[str, Any]], said: Mapping[str, Dot]) -> None:
        """Give turns of ours places of their own, which triggers note; given by the keys that they had, with the dots
        of their texts there, which their new places name.

        Only after all that came with what displaced them has its place, as another turn may have come for any other.
        """
        keys = {key: rows.key_row(self._table, key) for key in displaced}
        turns = [{**row, **keys[key], "number": int(keys[key]["number"])} for key, row in displaced.items()]
        numbers = await turn_arrivals.add_turns(self._tx, turns)
        await state.note_changed(self._tx, self._kind, list(displaced))
        places = {
            json.dumps([*json.loads(key)[:-1], str(number)], ensure_ascii=False): key
            for key, number in zip(displaced, numbers, strict=True)
        }
        moved = await self.current(dict.fromkeys(places, self._clock), None)
        for place, document in moved.items():
            before = places[place]
            document.counts |= moves.moved_mark(before, said[before], latest(document.entries["text"]).dot)
        await state.keep(self._tx, self._kind, [kept_state(key, one) for key, one in moved.items()])

    async def erase_moved(self, documents: Iterable[Document]) -> None:
        """Remove turns that were erased elsewhere in the places that they had before, if one of these documents, which
        are kept, may tell of such.
        """
        if self._kind != state.TURN or not any(document.counts for document in documents):
            return
        gone = moves.erased_there(await state.marked_turns(self._tx))
        there = await rows.rows_now(self._tx, self._table, list(gone))
        known, waits = await state.documents(self._tx, self._kind, list(gone))
        after = {}
        for key, dots in gone.items():
            mine = self._here(known.get(key), there.get(key, {}), self._clock, waits=key in waits)
            after[key] = moves.without(mine, dots)
        await rows.silently(self._tx, on=True)
        left = await rows.put_rows(self._tx, self._table, {key: one.shown() for key, one in after.items()})
        await rows.silently(self._tx, on=False)
        await state.keep(self._tx, self._kind, [kept_state(key, one, waits=key in left) for key, one in after.items()])
        await state.note_changed(self._tx, self._kind, list(after))
        await self._note_erasure(after.values())

    async def _note_erasure(self, documents: Iterable[Document]) -> None:
        """Have our files cleared of turns that are not kept any more."""
        if self._kind == state.TURN and not all(document.entries for document in documents):
            await state.note_erasure(self._tx)

    def _here(self, known: Any, fields: Mapping[str, Any], at: int, *, waits: bool) -> Document:
        """Return a row as it is here; if another machine's waits to be here, together with that one."""
        if not waits:
            return self._document(known, fields, at)
        before = Document.from_json(known)
        if not fields:
            return before
        apart = Document({self._writer: before.seen.get(self._writer, 0)})
        return merged(
            before, as_one(with_changes(apart, fields, at=at, clock=self._clock, writer=self._writer), self._writer)
        )

    def _document(self, known: Any, fields: Mapping[str, Any], at: int) -> Document:
        before = Document.from_json(known) if known else Document()
        is_turn = self._kind == state.TURN
        after = with_changes(before, fields, at=at, clock=self._clock, writer=self._writer, apart=is_turn)
        if is_turn:  # also if something else was said in its place since
            stays = {one.digest for one in after.entries.get("text", ())}
            gone = [one for one in before.entries.get("text", ()) if one.digest not in stays]
            after.counts |= moves.erased_marks(gone)
        is_changed = bool(after.entries) and after.seen != before.seen
        if is_changed and is_turn:  # it is what was said; if that is erased elsewhere, nothing of it stays
            is_changed = {one.dot for one in after.entries["text"]} != {
                one.dot for one in before.entries.get("text", ())
            }
        return as_one(after, self._writer) if is_changed else after

    async def take(self, lines: Sequence[Line], model_id: int | None) -> int:
        """Take in what other machines say of rows, and return of how many that was something new."""
        tx, keys = self._tx, [line.key for line in lines]
        there = await rows.rows_now(tx, self._table, keys)
        known, waits = await state.documents(tx, self._kind, keys)
        changed = await _times_of_changes(tx, self._kind, keys)
        after: dict[str, Document] = {}
        fresh: dict[str, Document] = {}
        displaced, said = {}, {}
        for line in lines:
            mine = self._here(
                known.get(line.key),
                there.get(line.key, {}),
                changed.get(line.key, self._clock),
                waits=line.key in waits,
            )
            one = merged(mine, line.document)
            if self._kind == state.TURN and "text" not in one.entries:
                one = Document(one.seen, counts=one.counts)
            elif self._kind == state.TURN and line.key in there and self._is_displaced(mine, one):
                displaced[line.key], said[line.key] = there[line.key], latest(mine.entries["text"]).dot
                one = Document(one.seen, {name: (latest(all_),) for name, all_ in one.entries.items()}, one.counts)
            after[line.key] = one
            if one != mine or line.key in waits:
                fresh[line.key] = one
        await rows.silently(tx, on=True)
        left = await rows.put_rows(tx, self._table, {key: one.shown() for key, one in fresh.items()})
        if self._kind == "cluster_member":
            clusters = {rows.key_row(self._table, key)["cluster_id"] for key in fresh.keys() - left}
            await rows.renew_clusters(tx, clusters, model_id)
        await rows.silently(tx, on=False)
        await state.keep(tx, self._kind, [kept_state(key, one, waits=key in left) for key, one in after.items()])
        if displaced:
            await self._place_elsewhere(displaced, said)
        await self.erase_moved(after.values())
        await self._note_erasure(fresh.values())
        return len(fresh) - len(left)


async def _times_of_changes(tx: Transaction, kind: str, keys: Sequence[str]) -> dict[str, int]:
    """Return when those of these memories or rows were changed that are not written down yet."""
    found = await tx.rows(state.WHEN_CHANGED, {"kind": kind, "keys": list(keys)})
    return {row["key"]: microseconds(row["at"]) for row in found}


def _is_confirmed(before: Document, after: Document) -> bool:
    name = "last_confirmed_at"
    return bool(before.entries) and before.entries.get(name) != after.entries.get(name)


def kept_state(key: str, document: Document, *, waits: bool = False) -> dict[str, Any]:
    """Return what is kept of a document in the database, by its key."""
    disputed = any(
        name not in disputes.BOOKKEEPING and not name.startswith((memories.TAG, memories.HISTORY))
        for name, _ in document.disputed()
    )
    # What waits is known by nothing but this, so it is kept whole.
    return {"key": key, "state": document.as_json(whole=waits), "disputed": disputed, "waits": waits}


def microseconds(moment: datetime) -> int:
    """Return a moment in microseconds since 1970."""
    return int(moment.timestamp() * 1_000_000)
