"""Bringing memories in: what is there already is left alone, what cannot be taken is reported with its reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

from pgengram.errors import InvalidInput, PgengramError
from pgengram.runtime.context import ACTOR, retrying
from pgengram.service.conversations import Conversations
from pgengram.service.core import Core
from pgengram.store.connection.database import Row
from pgengram.store.reading import transferring
from pgengram.store.reading.transferring import Arrival, Known
from pgengram.store.recovery import imports
from pgengram.store.sync import state as sync_state
from pgengram.store.turn_arrivals import clean
from pgengram.transfer import report
from pgengram.transfer.arrivals import arrival, batches, one_by_one_if_needed, record_without_secrets
from pgengram.transfer.changed_memories import ChangedMemories, Pair
from pgengram.transfer.opening import Opened
from pgengram.transfer.records import EDITED, OTHER_FORMS, Item, Left, Said, id_of, moment, of_another_form, uuid_of
from pgengram.transfer.related_rows import RelatedRows
from pgengram.transfer.report import Imported

ALONE: Final = (
    "conversation",
    "turn",
    "hidden_turn",
)  # records that lead to no memory, so that they need not wait for any
ACTING: Final = "import"  # as the history names who changed a memory
ERASED: Final = "it was erased here; --restore-erased imports it again"
Report = Callable[[int, int], None]  # records looked at, records in all


async def import_from(
    core: Core, system: str, source: str, *, dry_run: bool, report: Report,
    mapping: Mapping[str, str] | None = None, encoding: str = "", name: str = "", restore_erased: bool = False,
) -> Imported:  # fmt: skip
    """Import what `source` holds; a second time changes nothing.

    Of a memory that is here the newer state is kept, by `updated_at`; what was erased here stays erased.

    It is read and stored in batches, each in one transaction, so an import that is interrupted can be repeated, and a
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
        restore_erased: import what was erased here, too.

    Raises:
        InvalidInput: there is no such system, or the source is not what it should be.
    """
    if restore_erased and not dry_run:
        await _refuse_if_synchronised(core)
    opened = await asyncio.to_thread(Opened, system, source, mapping, encoding, name)
    note = imports.Note(clean(name or _name_of_source(source)), opened.system, ACTOR.get())
    importing = _Import(core, Imported(opened.system, dry_run), note, restore_erased=restore_erased)
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
        await importing.note_found()
        report(done, done)
    finally:
        ACTOR.reset(actor)
        await importing.close()
    if not dry_run:
        core.notice_growth(importing.report.added["memory"])
    return importing.report


def _name_of_source(source: str) -> str:
    """Return how a file or folder is called; of an address nothing, as it may hold a password."""
    return "a database" if "://" in source else Path(source).absolute().name


async def _refuse_if_synchronised(core: Core) -> None:
    async with core.store.transaction() as tx:
        if await sync_state.settings(tx) is not None:
            raise InvalidInput(
                "What was erased is permanently erased on the other machines, and would be erased here again.",
                "Nothing was changed. Store it again with `pgengram add`, or `pgengram sync leave` first.",
            )


class _Import:
    """One import under way."""

    def __init__(self, core: Core, report: Imported, note: imports.Note, *, restore_erased: bool) -> None:
        self._core = core
        self._restore_erased = restore_erased
        self.report = report
        self._note = note
        self._conversations = Conversations(core)
        self._changed = ChangedMemories(core, report, note)
        self._related = RelatedRows(core, report, note)
        self._others: dict[str, list[Item]] = {}
        self._late: list[Item] = []  # that say what another memory says, which may change by what comes
        self._ending = False
        self._gone: dict[UUID, str] | None = None  # notes that were exported and have not turned up yet

    async def close(self) -> None:
        """Let go of what changed memories."""
        await self._changed.close()

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
                self.report.gone = await report.of_memories(tx, self._gone)

    async def note_found(self) -> None:
        """Note what other imports have stored of this file, too."""
        if not self.report.dry_run:
            async with self._core.store.transaction() as tx:
                await self._note.end(tx)

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
        for batch in batches(memories):
            await self._memories(batch)
        if said:
            await self._turns(said)
        for record, waiting in alone.items():
            await self._related.take(record, waiting)
        if self._related.turns:
            said, self._related.turns = self._related.turns, []
            await self._turns(said)

    async def _turns(self, said: Sequence[Said]) -> None:
        try:
            brought = await self._conversations.bring(
                [(one.conversation, one.turn) for one in said], dry_run=self.report.dry_run, note=self._note.turns
            )
        except OTHER_FORMS:
            if len(said) == 1:
                self.report.leave(of_another_form(said[0].place))
            else:  # find out which one it is
                await self._turns(said[: len(said) // 2])
                await self._turns(said[len(said) // 2 :])
            return
        self._note.found_turns(brought.known)
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
        self.report.added["memory"] += 0  # so that it is listed
        self._turned_up(uuid_of(item.record.get("id")) for item in items)
        for item in items:
            try:
                arrivals.append((item, await self._arrival(item)))
            except PgengramError as error:
                self.report.leave(Left(item.place, error.message))
            except OTHER_FORMS:
                self.report.leave(of_another_form(item.place))
        unique: dict[UUID, tuple[Item, Arrival]] = {}
        for item, one in arrivals:
            unique.setdefault(one.id, (item, one))
        self.report.known["memory"] += len(arrivals) - len(unique)
        if unique:
            await self._take_in(list(unique.values()))

    async def _arrival(self, item: Item) -> Arrival:
        record = record_without_secrets(item.record, self._core, self.report)
        return arrival(record, tags=await self._core.tags(_given_tags(record.get("tags"))) if item.foreign else None)

    async def _take_in(self, pairs: list[Pair]) -> None:
        async with self._core.store.transaction() as tx:
            known = await transferring.known_memories(tx, [arrived for _, arrived in pairs])
        self._turned_up(known.same.values())
        self._note.found(known.same.values())
        erased = set() if self._restore_erased else known.erased
        there: list[Pair] = []
        rest: list[Pair] = []
        for item, arrived in pairs:
            if arrived.id in erased:
                self.report.leave(Left(item.place, ERASED, by_design=True))
            if arrived.id in known.states:
                there.append((item, arrived))
            elif arrived.id not in erased:
                rest.append((item, arrived))
        await self._take_changed(await self._take_undone(there))
        if rest:
            await one_by_one_if_needed(rest, self._take_rest, self.report)

    async def _take_undone(self, pairs: list[Pair]) -> list[Pair]:
        """Restore those of these memories that an undo forgot; return the others, and those that differ in the file."""
        given = {arrived.id: (item, arrived) for item, arrived in pairs}
        async with self._core.store.transaction() as tx:
            found = await imports.forgotten_by_undo(tx, given.keys())
            changing = {id_ for id_, row in found.items() if _is_another_state(*given[id_], row)}
            if found and not self.report.dry_run:
                await imports.restore_forgotten(tx, found, changing)
                await self._note.memories(tx, list(found))
        self._report_added([given[id_][1] for id_ in found], pairs)
        done = found.keys() - (set() if self.report.dry_run else changing)
        return [pair for pair in pairs if pair[1].id not in done]

    async def _take_changed(self, pairs: list[Pair]) -> None:
        """Take in memories that are here under their own ids."""
        apart = await self._changed.without_order(pairs)
        in_order = [pair for pair in pairs if pair not in apart]
        if in_order:
            await one_by_one_if_needed(in_order, self._changed.take, self.report)
        if apart:
            await self._memories([_by_its_text(item) for item, _ in apart])

    async def _take_rest(self, pairs: list[Pair]) -> None:
        """Take in memories that are not here under their own ids."""
        async with self._core.store.transaction() as tx:
            known = await transferring.known_memories(tx, [arrived for _, arrived in pairs])
        late = [
            (item, arrived.id) for item, arrived in pairs if not self._ending and _comes_later(item, arrived, known)
        ]
        fresh = _distinct([one for _, one in pairs if one.id not in known.same], known.same)
        if fresh and not self.report.dry_run:
            await self._store(fresh)
        self._late += [item for item, _ in late]
        self._related.note_memories(fresh, known.same)
        self.report.known["memory"] += len(known.same.keys() - {id_ for _, id_ in late})
        self._report_added(fresh, pairs)

    def _report_added(self, fresh: Sequence[Arrival], pairs: Sequence[Pair]) -> None:
        """Note in the report which memories were added; one that brought no date has only that of its import."""
        dated = {arrived.id for item, arrived in pairs if item.record.get("created_at")}
        for one in fresh:
            row = one.rows["memories"]
            said = row["occurred_at"] or (row["created_at"] if one.id in dated else None)
            at = datetime.fromisoformat(said) if said else None
            self.report.add("memory", str(row.get("kind") or "general"), row["content"], at, str(one.id))

    @retrying
    async def _store(self, fresh: Sequence[Arrival]) -> None:
        texts = [arrival.rows["memories"]["content"] for arrival in fresh]
        embedded = await self._core.models.passages(texts)
        for one, parts in zip(fresh, embedded.vectors, strict=True):
            one.parts = parts
        async with self._core.store.transaction() as tx:
            await transferring.store_arrivals(tx, fresh, embedded.model_id)
            await self._note.memories(tx, [one.id for one in fresh])

    # -- everything else -------------------------------------------------------------------------------------------

    async def rest(self) -> None:
        """Take in what leads from one memory to another, and whatever else belongs to the namespace."""
        self._ending = True
        late, self._late = self._late, []
        for batch in batches([*late, *self._changed.blocked()]):
            await self._memories(batch)
        for table in transferring.TABLES:
            await self._related.take(table.record, self._others.pop(table.record, []))
        for record, items in self._others.items():
            for item in items:
                self.report.leave(Left(item.place, f"{record} is not a kind of record"))


def _distinct(arrivals: Sequence[Arrival], known: dict[UUID, UUID]) -> list[Arrival]:
    """Return the arrivals that differ; of several active ones that say the same, the others are known by the first."""
    first: dict[bytes, Arrival] = {}
    fresh = []
    for one in arrivals:
        if one.active and first.setdefault(one.hash, one) is not one:
            known[one.id] = first[one.hash].id
        else:
            fresh.append(one)
    return fresh


def _is_another_state(item: Item, arrived: Arrival, row: Row) -> bool:
    """Whether a file has another state of a memory than the one that an undo forgot."""
    at = moment(item.record.get("updated_at"))
    return (at is not None and at > row["before_undo"]) or arrived.hash != bytes(row["content_hash"])


def _by_its_text(item: Item) -> Item:
    """Return a memory of another system that is known by what it says, too."""
    source = item.record["metadata"]["imported"]
    at = moment(item.record.get("created_at"))
    id_ = id_of(source.get("from"), source.get("id"), str(item.record.get("content")), at)
    return replace(item, record={**item.record, "id": str(id_)})


def _comes_later(item: Item, arrived: Arrival, known: Known) -> bool:
    """Whether the memory that says the same here comes later in the same export, and may say something else then."""
    twin = known.same.get(arrived.id)
    return twin is not None and not item.foreign and twin > arrived.id


def _given_tags(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
