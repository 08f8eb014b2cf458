"""Memories that are here and are imported again: a newer state is taken over, and so is what was edited in a note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from pgengram import fields as f
from pgengram.embedders import Passage
from pgengram.errors import PgengramError
from pgengram.inputs import Change, validated
from pgengram.runtime.context import retrying
from pgengram.service.core import Core
from pgengram.service.manager import MemoryManager
from pgengram.store.connection.database import Row
from pgengram.store.memory import memories
from pgengram.store.memory import statements as s
from pgengram.store.reading import history, newer_states, transferring
from pgengram.store.reading.transferring import Arrival
from pgengram.store.recovery.imports import Note
from pgengram.text.differences import tokens
from pgengram.transfer.records import Item, Left, moment, uuid_of
from pgengram.transfer.report import Imported

Pair = tuple[Item, Arrival]
ALIKE: Final = 0.6  # of the words of a note that another state of it has, too
SHOWN: Final = 400  # characters of each text of a conflict
OF_A_NOTE: Final = (
    "kind", "importance", "project", "user", "collection", "source", "speaker", "emotion", "pinned", "confidence",
    "occurred_at", "expires_at",
)  # fmt: skip # beside its text and tags


class ChangedMemories:
    """Changes memories as newer states and edited notes say."""

    def __init__(self, core: Core, report: Imported, note: Note) -> None:
        self._core, self._report, self._note = core, report, note
        self._blocked: dict[UUID, Item] = {}
        self._ending = False

    def blocked(self) -> list[Item]:
        """Return what could not be taken over because another memory says the same, once all that may change that one
        has come; what still can't is left out from now on.
        """
        self._ending = True
        return list(self._blocked.values())

    async def close(self) -> None:
        """Let go of what changed memories."""
        if "_manager" in vars(self):
            await self._manager.close()

    @cached_property
    def _manager(self) -> MemoryManager:
        """What changes memories, on the same store."""
        return MemoryManager(self._core.settings, self._core)

    async def without_order(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Return other systems' memories that say what they never said here, in an order that no time tells, or what
        has little to do with what they say here.
        """
        asked = [pair for pair in pairs if _is_foreign(pair[0])]
        if not asked:
            return []
        texts = {arrived.id: str(arrived.rows["memories"]["content"]) for _, arrived in asked}
        by_place = [arrived.id for item, arrived in asked if item.by_place]
        async with self._core.store.transaction() as tx:
            known = await transferring.known_memories(tx, [arrived for _, arrived in asked])
            unseen = await newer_states.unseen(tx, texts)
            rows = await memories.read_memories(tx, by_place, None)
        strange = {id_ for id_, row in rows.items() if not _is_alike(row["content"], texts[id_])}

        def is_apart(item: Item, arrived: Arrival) -> bool:
            at = moment(item.record.get("updated_at"))
            return arrived.id in strange or at in (None, known.states.get(arrived.id, (None, 0))[0])

        return [pair for pair in asked if pair[1].id in unseen and is_apart(*pair)]

    async def take(self, pairs: Sequence[Pair]) -> None:
        """Change the memories that are here under their own ids, and count those that changed."""
        async with self._core.store.transaction() as tx:
            known = await transferring.known_memories(tx, [arrived for _, arrived in pairs])
            copied = {one.id: str(one.rows["memories"]["content"]) for item, one in pairs if item.by_file_time}
            unseen = await newer_states.unseen(tx, copied) if copied else set()
        newer: list[Pair] = []
        edited: list[Pair] = []
        for pair in pairs:
            try:
                if pair[0].by_file_time and pair[1].id not in unseen:
                    continue
                if pair[0].record.get("updated_at") and newer_states.is_newer(pair[1], known):
                    newer.append(pair)
                elif pair[0].edits:
                    edited.append(pair)
            except PgengramError as error:
                self._report.leave(Left(pair[0].place, str(error)))
        before = len(self._blocked)
        changed = await self._take_newer(newer) if newer else 0
        changed += await self._take_edited(edited) if edited else 0
        await self._take_back(pairs)
        self._report.updated["memory"] += changed
        self._report.known["memory"] += len(pairs) - changed - (len(self._blocked) - before)

    # -- newer states ----------------------------------------------------------------------------------------------

    @retrying
    async def _take_newer(self, pairs: Sequence[Pair]) -> int:
        arrivals = [arrival for _, arrival in pairs]
        said = {arrival.id: _named_fields(item) for item, arrival in pairs}
        items = {arrival.id: item for item, arrival in pairs}
        async with self._core.store.transaction() as tx:
            found = await newer_states.compared(tx, arrivals, said)
        if self._report.dry_run:
            return sum(bool(one.changes) for one in found)
        texts = {one.id: one.columns["content"] for one in found if "content" in one.columns}
        embedded = await self._core.models.passages(list(texts.values()))
        parts: dict[UUID, Passage] = dict(zip(texts, embedded.vectors, strict=True))
        async with self._core.store.transaction() as tx:
            await tx.rows(s.LOCK, {"ids": [one.id for one in found]})
            changed: list[UUID] = []
            for one in await newer_states.compared(tx, [one.arrival for one in found], said):
                if twin := await newer_states.twin_of(tx, one):
                    self._block(items[one.id], one, twin)
                    continue
                await newer_states.take_over(tx, one, parts.get(one.id), embedded.model_id)
                changed += [one.id] if one.changes else []
            await self._note.changed(tx, changed)
        return len(changed)

    def _block(self, item: Item, new: newer_states.Newer, twin: UUID) -> None:
        if self._ending:
            reason = f"the memory {twin} already says what {new.id} says now; forget one of them and import again"
            self._report.leave(Left(item.place, reason))
        else:
            self._blocked[new.id] = item

    async def _take_back(self, pairs: Sequence[Pair]) -> None:
        """Remove the links that were removed in the other store."""
        removed: dict[newer_states.Edge, datetime] = {}
        for _, arrival in pairs:
            for row in arrival.history:
                edge = _removed_link(row)
                if edge and (at := moment(row.get("at"))):
                    key = (str(arrival.id), str(edge.get("to_id")), str(edge.get("type")))
                    removed[key] = max(at, removed.get(key, at))
        removed = {edge: at for edge, at in removed.items() if uuid_of(edge[1])}
        if removed and not self._report.dry_run:
            async with self._core.store.transaction() as tx:
                await tx.rows(s.LOCK, {"ids": [edge[0] for edge in removed]})
                await newer_states.take_edges_back(tx, removed)

    # -- edited notes ----------------------------------------------------------------------------------------------

    async def _take_edited(self, pairs: Sequence[Pair]) -> int:
        """Let memories take over what their edited notes say; a memory that was changed, too, stays as it is."""
        ids = [arrival.id for _, arrival in pairs]
        changed = 0
        async with self._core.store.transaction() as tx:
            rows = await memories.read_memories(tx, ids, None)
            exported = {
                arrival.id: await _as_exported(tx, rows[arrival.id], item)
                for item, arrival in pairs
                if arrival.id in rows
            }
        blocked = {arrived.id for _, arrived in pairs if arrived.id in self._blocked}
        hashes = {id_: rows[id_]["content_hash"] for id_ in blocked & rows.keys()}
        await self._set_hashes(dict.fromkeys(hashes))  # so that their texts may change places
        for item, arrived in pairs:
            if arrived.id not in rows:
                continue
            try:
                taken = await self._take_note(item, arrived, rows[arrived.id], exported[arrived.id])
                changed += taken
                if taken:
                    hashes.pop(arrived.id, None)
            except PgengramError as error:
                self._report.leave(Left(item.place, str(error)))
        await self._set_hashes(hashes)
        return changed

    async def _set_hashes(self, hashes: Mapping[UUID, bytes | None]) -> None:
        """Set by what memories are known to say the same as others; None for nothing that any other can say."""
        if hashes and not self._report.dry_run:
            async with self._core.store.transaction() as tx:
                await newer_states.set_hashes(tx, hashes)

    async def _twin(self, arrived: Arrival) -> bool:
        """Whether another active memory says what a note says now."""
        async with self._core.store.transaction() as tx:
            twins = await tx.rows(s.FIND_TWINS, {"hashes": [arrived.hash]})
        return any(twin["id"] != arrived.id for twin in twins)

    async def _take_note(self, item: Item, arrived: Arrival, row: Row, exported: Row) -> bool:
        edits = _differences(exported, item.record, arrived)
        wanted = {name: value for name, value in edits.items() if row[name] != value}
        if not wanted:
            return False
        if row["status"] != "active":
            reason = f"the note was edited, but its memory is {row['status']}; first: pgengram restore {row['id']}"
            self._report.leave(Left(item.place, reason))
        elif _may_have_changed(item, row) or any(
            row[name] != exported[name] for name in ("content", "tags", *OF_A_NOTE)
        ):
            self._report.leave(Left(item.place, _conflict(row, arrived)))
        elif not self._ending and "content" in wanted and await self._twin(arrived):
            self._blocked[arrived.id] = item
        else:
            if not self._report.dry_run:
                change: dict[str, Any] = {"id": str(row["id"]), "expected_version": row["version"], **wanted}
                if not change.get("tags", True):
                    change |= {"tags": None, "clear": ["tags"]}
                await self._manager.update_memory(
                    validated(Change, {name: value for name, value in change.items() if value is not None})
                )
                async with self._core.store.transaction() as tx:
                    await self._note.changed(tx, [row["id"]])
            return True
        return False


def _is_alike(one: str, other: str) -> bool:
    """Whether a note may have become another: most words of the shorter one, without its title, are in both."""
    title, first, second = tokens(one.partition("\n")[0]), tokens(one), tokens(other)
    if title < first and title < second:
        first, second = first - title, second - title
    return len(first & second) >= ALIKE * min(len(first), len(second))


def _is_foreign(item: Item) -> bool:
    """Whether a record is of another system that has a name for it."""
    metadata = item.record.get("metadata")
    return item.foreign and not item.edits and isinstance(metadata, Mapping) and "imported" in metadata


def _named_fields(item: Item) -> set[str] | None:
    """Return which fields a record names; None where it is a whole one of an export."""
    return None if isinstance(item.record.get("detail"), Mapping) else set(item.record)


def _removed_link(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the link that an entry of a history removed."""
    changes = row.get("changes")
    pair = changes.get("relationship") if row.get("operation") == "unlink" and isinstance(changes, Mapping) else None
    return pair[0] if isinstance(pair, list) and pair and isinstance(pair[0], Mapping) else None


async def _as_exported(tx: Any, row: Row, item: Item) -> Row:
    """Return a memory as it was when its note was written, which the note's updated_at tells."""
    at = moment(item.record.get("updated_at"))
    [then] = await history.rows_as_of(tx, [dict(row)], at)
    return then


def _may_have_changed(item: Item, row: Row) -> bool:
    """Whether a memory was ever changed, of a note that does not tell which state it was written of."""
    return moment(item.record.get("updated_at")) is None and row["version"] > 1


def _differences(then: Row, record: Mapping[str, Any], arrived: Arrival) -> dict[str, Any]:
    """Return what a note says differently from the memory that it was written of."""
    given: dict[str, Any] = {"content": arrived.rows["memories"]["content"], "tags": arrived.tags}
    for name in OF_A_NOTE:
        if name in record:
            given[name] = moment(record[name]) if name.endswith("_at") else record[name]
    return {name: value for name, value in given.items() if value != then[name]}


def _conflict(row: Row, arrived: Arrival) -> str:
    texts = (arrived.rows["memories"]["content"], row["content"])
    note, memory = (" ".join(text.split())[:SHOWN] for text in texts)
    return (
        f"the note was edited, and its memory was changed since the export, so nothing was changed. Note: “{note}” "
        f"Memory: “{memory}” To keep the note's text, set updated_at in it to {f.as_utc(row['updated_at'])} and import "
        f"it again; "
        "to keep the memory's, export again."
    )
