"""Taking in what the other machines wrote, the records of many files at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final
from uuid import UUID

from pgengram.errors import InvalidInput
from pgengram.runtime.context import retrying
from pgengram.service.core import Core
from pgengram.store import conversations
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory import deletion
from pgengram.store.sync import rows, state
from pgengram.store.sync.state import DEVICE
from pgengram.sync import memories
from pgengram.sync.documents import Line, MemoryDocuments, RowDocuments
from pgengram.sync.files import Unreadable
from pgengram.sync.folder import ERASED, File, Folder
from pgengram.sync.merging import TAG, TOO_FAR_AHEAD_US, merged

TAKEN_AT_ONCE: Final = 200  # records taken in one transaction
ERASED_AT_ONCE: Final = 200
WAITING_AT_ONCE: Final = 500
Names = Mapping[str, set[str]]  # of fields, by the kind of record
FORM: Final = (KeyError, TypeError, ValueError, AttributeError)  # what a record of another form raises
SET_CLOCK: Final = "Set the clock that is wrong; then they are taken."
OTHER_FORM: Final = "It has a form that can't be read."
# Until a file that could not be read, and has not changed since, is read again.
RETRY_US: Final = 10 * 60 * 1_000_000


@dataclass(slots=True)
class Outcome:
    """What an exchange did: memories and rows taken, written and erased, and files that could not be read, with why."""

    taken: int = 0
    written: int = 0
    erased: int = 0
    unread: dict[str, str] = field(default_factory=dict)
    problem: str | None = None

    @property
    def did_anything(self) -> bool:
        """Whether something came from the other machines or was written for them."""
        return bool(self.taken or self.written or self.erased)


@dataclass(slots=True)
class Memo:
    """What a process remembers from one exchange to the next.

    due: when files that could not be read are to be read again, by device, name and mark, in microseconds; waits:
    whether rows may wait for what has come since.
    """

    due: dict[tuple[str, str, str], int] = field(default_factory=dict)
    waits: bool = True


@dataclass(slots=True)
class Reading:
    """How far a file was read.

    problem: why not all of it could be; due: when to try again; gone: whether it went away meanwhile.
    """

    file: File
    problem: str | None = None
    due: int = 0
    gone: bool = False

    def lines(self, folder: Folder, clock: int, names: Names) -> Iterator[Line]:
        """Yield what can be taken of the file, and note why the rest cannot; `names` are those of fields known here."""
        late: list[int] = []
        unknown: set[str] = set()
        try:
            for record in folder.read(self.file):
                line = Line.of(record)
                stamp = line.document.latest_stamp()
                if newer := _unknown(line, names):
                    unknown |= newer
                elif stamp > clock + TOO_FAR_AHEAD_US:
                    late.append(stamp - TOO_FAR_AHEAD_US)
                else:
                    yield line
        except FileNotFoundError:
            self.gone = True
        except (Unreadable, InvalidInput) as error:
            self.fail(_reason(error), clock)
        except FORM:
            self.fail(OTHER_FORM, clock)
        if unknown:
            what = f"It has {', '.join(sorted(unknown))}, which {folder.written_by(self.file)} wrote."
            self.fail(f"{what} Update pgengram on this machine.", clock)
        if late and self.problem is None:
            self.problem = f"{len(late)} changes are dated more than a day ahead of this machine's clock. {SET_CLOCK}"
            self.due = min(late)

    def fail(self, problem: str, clock: int) -> None:
        """Note why a file could not be read, and try again later."""
        self.problem, self.due = problem, clock + RETRY_US


def _reason(error: Unreadable | InvalidInput) -> str:
    """Return why a file could not be read, and what to do, if that helps."""
    return f"{error.message} {error.hint}" if isinstance(error, Unreadable) else error.message


def _unknown(line: Line, names: Names) -> set[str]:
    """Return what this version doesn't know of a record: its kind, or fields, which would be lost if it were taken."""
    if line.kind not in names:
        return {f"records called {line.kind}"}
    fields = {name for name in line.document.entries if not name.startswith((TAG, memories.HISTORY))}
    return {f"the field {name} of a {line.kind}" for name in fields - names[line.kind]}


@dataclass(slots=True)
class Intake:
    """Takes in what other machines wrote, in one exchange.

    core: whose memories; settings: how they are synchronised; folder: of the files; writer: this process; clock: gives
    microseconds since 1970; begin: begins a transaction; memo: of this process; outcome: in which it is noted.
    """

    core: Core
    settings: state.Settings
    folder: Folder
    writer: str
    clock: Callable[[], int]
    begin: Callable[[], AbstractAsyncContextManager[Transaction]]
    memo: Memo
    outcome: Outcome

    async def read(self, listed: Sequence[File], known: Mapping[tuple[str, str], Row]) -> list[File]:
        """Take in what the files say that were not read yet; return those of our own that are damaged."""
        unread = [Reading(file) for file in listed if file.name != DEVICE and self._is_unread(file, known)]
        whole = [reading for reading in unread if reading.file.name == ERASED]
        for reading in whole:  # first, so that it never comes
            await self._read_erased(reading)
        async with self.begin() as tx:
            names = await rows.known_names(tx) if unread else {}
        stream = self._stream([reading for reading in unread if reading.file.has_changes], whole, names)
        while True:
            batch = await asyncio.to_thread(lambda: list(islice(stream, TAKEN_AT_ONCE)))
            await self._take_all(batch)
            await self._note(whole, known)
            if len(batch) < TAKEN_AT_ONCE:
                break
        return [reading.file for reading in unread if reading.problem and _is_own(reading.file, known)]

    async def take_waiting(self) -> None:
        """Try again what waited for what it leads to, if something came since."""
        if not (self.memo.waits or self.outcome.taken):
            return
        self.memo.waits = True  # also if this is interrupted
        async with self.begin() as tx:
            waiting = await tx.rows(state.WAITING, {"limit": WAITING_AT_ONCE})
        if waiting:
            await self._take([Line.of(row) for row in waiting])
        self.memo.waits = False

    def _is_unread(self, file: File, known: Mapping[tuple[str, str], Row]) -> bool:
        """Whether a file is to be read now; note the problem of one that would be no other than it was."""
        row = known.get((file.device, file.name))
        if row is None or row["mark"] != file.mark:
            return True
        if row["problem"] and self.clock() < self.memo.due.get((file.device, file.name, file.mark), 0):
            self.outcome.unread[f"{file.device}/{file.name}"] = row["problem"]
            return False
        return bool(row["problem"])

    def _stream(
        self, readings: Iterable[Reading], whole: list[Reading], names: Names
    ) -> Iterator[tuple[Reading, Line]]:
        for reading in readings:
            for line in reading.lines(self.folder, self.clock(), names):
                yield reading, line
            whole.append(reading)

    async def _note(self, whole: list[Reading], known: Mapping[tuple[str, str], Row]) -> None:
        """Note files of which all that can be was taken, and take them off the list."""
        noted = [one for one in whole if not (one.gone or (one.problem and _is_own(one.file, known)))]
        for one in noted:
            if one.problem:
                self.outcome.unread[f"{one.file.device}/{one.file.name}"] = one.problem
                self.memo.due[one.file.device, one.file.name, one.file.mark] = one.due
        if noted:
            async with self.begin() as tx:
                await state.note_files(tx, [one.file.noted(one.problem) for one in noted])
        whole.clear()

    async def _read_erased(self, reading: Reading) -> None:
        try:
            there = await asyncio.to_thread(lambda: {str(one["id"]) for one in self.folder.read(reading.file)})
            async with self.begin() as tx:
                fresh = iter(sorted(UUID(id_) for id_ in there - await state.erased(tx)))
            while batch := list(islice(fresh, ERASED_AT_ONCE)):
                async with self.begin() as tx:
                    await deletion.erase_memories(tx, batch, session_id=None)
                self.outcome.erased += len(batch)
        except FileNotFoundError:
            reading.gone = True
        except (Unreadable, InvalidInput) as error:
            reading.fail(_reason(error), self.clock())
        except FORM:
            reading.fail(OTHER_FORM, self.clock())

    async def _take_all(self, batch: Sequence[tuple[Reading, Line]]) -> None:
        """Take in lines; if one of them cannot be, the others all the same."""
        if not batch:
            return
        try:
            await self._take([line for _, line in batch])
        except (InvalidInput, *FORM) as error:
            if len(batch) > 1:
                half = len(batch) // 2
                await self._take_all(batch[:half])
                await self._take_all(batch[half:])
                return
            [(reading, _)] = batch
            reading.fail(error.message if isinstance(error, InvalidInput) else OTHER_FORM, self.clock())

    async def _take(self, lines: Sequence[Line]) -> None:
        latest: dict[tuple[str, str], Line] = {}
        for line in lines:
            there = latest.get((line.kind, line.key))
            latest[line.kind, line.key] = (
                replace(line, document=merged(there.document, line.document)) if there else line
            )
        kinds: dict[str, list[Line]] = {}
        for line in latest.values():
            kinds.setdefault(line.kind, []).append(line)
        texts = {
            line.key: text
            for line in kinds.get(state.MEMORY, ())
            if isinstance(text := line.document.shown().get("content"), str)
        }
        if texts:
            async with self.begin() as tx:
                there_is = await rows.contents(tx, texts)
            texts = {id_: text for id_, text in texts.items() if there_is.get(id_) != text}
        self.outcome.taken += await self._store(kinds, texts)

    @retrying
    async def _store(self, kinds: Mapping[str, Sequence[Line]], texts: Mapping[str, str]) -> int:
        """Take in lines by their kinds, in one transaction; return of how many that was something new."""
        embedded = await self.core.models.passages(list(texts.values()))
        parts = dict(zip(texts, embedded.vectors, strict=True))
        taken = 0
        async with self.begin() as tx:
            await tx.allow_for(sum(map(len, kinds.values())))
            if ours := kinds.get(state.MEMORY):
                taking = MemoryDocuments(tx, self.settings.device, self.writer, self.clock(), embedded.model_id)
                taken += await taking.take(ours, parts)
            of_conversations = kinds.keys() & set(state.OF_CONVERSATIONS)
            keeps = not of_conversations or (await conversations.keeping(tx)).keeps
            for kind in (table.record for table in state.ROWS if table.record in kinds):
                if keeps or kind not in of_conversations:
                    documents = RowDocuments(tx, kind, self.writer, self.settings.writers, self.clock())
                    taken += await documents.take(kinds[kind], self.core.model_key)
        return taken


def _is_own(file: File, known: Mapping[tuple[str, str], Any]) -> bool:
    return bool(known.get((file.device, file.name), {}).get("written"))
