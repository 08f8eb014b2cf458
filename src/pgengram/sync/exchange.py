"""One exchange with the other machines: read what they wrote, write what was changed here."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from pgengram import __version__
from pgengram import fields as f
from pgengram.service.core import Core
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.sync import rows, state
from pgengram.store.sync.state import DEVICE
from pgengram.sync import memories
from pgengram.sync.addresses import SLOW, exchanged_folder, is_due, renewed
from pgengram.sync.documents import MemoryDocuments, RowDocuments, kept_state, microseconds
from pgengram.sync.files import Unreadable
from pgengram.sync.folder import CHANGES, File, Folder, small
from pgengram.sync.intake import Intake, Memo, Outcome
from pgengram.sync.merging import TOO_FAR_AHEAD_US, Document, digest_of
from pgengram.sync.mirror import ExchangedFolder

WRITTEN_AT_ONCE: Final = 500  # records of one file
TURNS_AT_ONCE: Final = 100  # … if they are turns, which may be much longer than memories
AWAY: Final = "The folder {} is not there. Mount it, or start what keeps it alike; changes are kept until it is back."


def now_us() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000


class Exchange:
    """Exchanges the changes of one namespace with other machines.

    Args:
        core: whose memories.
        clock: returns microseconds since 1970.
    """

    def __init__(self, core: Core, clock: Callable[[], int] = now_us) -> None:
        self._core = core
        self._clock = clock
        self._writer = _new_writer()  # of this process alone, so that a copy of a store never writes as another
        self._latest = 0  # microseconds since 1970 at the last exchange
        self._memo = Memo()
        self._folders: dict[state.Settings, ExchangedFolder] = {}  # one: a remote may hold a connection

    @property
    def idle_pauses(self) -> int:
        """How many of the usual pauses may pass between two exchanges while nothing happens."""
        return max((one.idle_pauses for one in self._folders.values()), default=1)

    async def run(self) -> Outcome | None:
        """Exchange once; None where the namespace is not synchronised.

        Raises:
            Conflict: another process does it just now.
            DatabaseFailed: see Database.transaction.
        """
        async with self._core.store.transaction() as tx:
            settings = await state.settings(tx)
        if settings is None:
            return None
        outcome, now = Outcome(), self._clock()
        set_back, self._latest = now + TOO_FAR_AHEAD_US < self._latest or not self._latest, now
        if set_back:
            self._memo = Memo()
        run = None
        try:
            if is_due(settings):
                async with _alone(self._core) as tx:
                    settings = await renewed(tx) or settings
            folder = self._folder(settings)
            run = _Run(self._core, settings, folder, self._writer, self._clock, self._memo, outcome)
            await run.all(set_back=set_back)
        except OSError as error:
            outcome.problem = f"{error.strerror or error}: {error.filename or settings.folder}"
        finally:
            if run and run.is_unsure:
                self._writer = _new_writer()
        self._core.notice_growth(outcome.taken)
        async with self._core.store.transaction() as tx:
            await tx.run(state.SET_OUTCOME, {"problem": outcome.problem})
        return outcome

    def _folder(self, settings: state.Settings) -> ExchangedFolder:
        """Return the folder of these settings, the same one as long as they stay."""
        lasting = replace(settings, writers=(), problem=None, exchanged_at=None)
        if lasting not in self._folders:
            self._folders = {lasting: exchanged_folder(settings, self._core.settings.data_path)}
        return self._folders[lasting]


def _new_writer() -> str:
    return secrets.token_hex(6)


@dataclass(slots=True)
class _Run:
    """One exchange under way.

    Attributes:
        is_unsure: whether a file may be there of which this store doesn't know; then nothing may be written by the same
            writer any more, as what comes next would have the numbers of what is in the file.
    """

    _core: Core
    _settings: state.Settings
    _exchanged: ExchangedFolder
    _writer: str
    _clock: Callable[[], int]
    _memo: Memo
    outcome: Outcome
    is_unsure: bool = False
    _emptied: list[str] = field(default_factory=list)  # names of our own files whose records another one has now

    @property
    def _folder(self) -> Folder:
        return self._exchanged.folder

    async def all(self, *, set_back: bool) -> None:
        """Read, then write.

        Args:
            set_back: whether the clock may have been ahead until now.

        Raises:
            OSError: the folder or server is away, full, or not to be written to.
        """
        async with self._transaction() as tx:
            known = {(row["device"], row["name"]): row for row in await tx.rows(state.FILES)}
        if self._exchanged.remote is None and not self._folder.is_there and known:
            self.outcome.problem = AWAY.format(self._settings.folder)
            return
        await asyncio.to_thread(self._folder.make)
        await asyncio.to_thread(self._exchanged.fetch, self._settings.device)
        listed = await asyncio.to_thread(lambda: list(self._folder.listed()))
        await self._be_somebody(listed, known)
        if set_back:
            await self._date_again(listed)
        await self._miss(listed, known)
        intake = Intake(
            self._core,
            self._settings,
            self._folder,
            self._writer,
            self._clock,
            self._transaction,
            self._memo,
            self.outcome,
        )
        for file in await intake.read(listed, known):
            await self._write_again(file)
        await intake.take_waiting()
        await self._write_changes(listed, known)
        await self._write_erased()
        await asyncio.to_thread(self._exchanged.publish, self._settings.device, self._emptied)

    def _transaction(self) -> AbstractAsyncContextManager[Transaction]:
        return _alone(self._core)

    # -- who we are ------------------------------------------------------------------------------------------------

    async def _be_somebody(self, listed: Sequence[File], known: Mapping[tuple[str, str], Row]) -> None:
        """Become another device if somebody else writes as ours: this store, or that one, is a copy or a backup."""
        settings = self._settings
        strange = any(
            file.device == settings.device and file.name[13:25] not in (*settings.writers, self._writer)
            for file in listed
            if file.has_changes and (file.device, file.name) not in known
        )
        if not strange and self._writer in settings.writers:
            return
        device = secrets.token_hex(8) if strange else settings.device
        writers = [self._writer] if strange else [*settings.writers, self._writer]
        async with self._transaction() as tx:
            await tx.run(state.SET_DEVICE, {"device": device, "writers": writers})
        self._settings = replace(settings, device=device, writers=tuple(writers))

    async def _miss(self, listed: Sequence[File], known: Mapping[tuple[str, str], Row]) -> None:
        """Have all written again if files of ours are gone."""
        device = self._settings.device
        gone = {name for (of, name), row in known.items() if of == device and row["written"]}
        gone -= {file.name for file in listed if file.device == device}
        if gone:
            async with self._transaction() as tx:
                await tx.run(state.DROP_FILES, {"device": device, "names": sorted(gone)})
                await state.note_everything(tx)

    async def _date_again(self, listed: Sequence[File]) -> None:
        """Write again what our clock once dated far ahead, which the other machines don't take."""
        for file in (one for one in listed if one.device == self._settings.device and one.has_changes):
            try:
                at = await asyncio.to_thread(self._folder.written_at, file)
            except Unreadable:
                continue
            if at > self._clock() + TOO_FAR_AHEAD_US:
                await self._write_again(file)

    async def _write_again(self, file: File) -> None:
        """Empty a file of ours, and have all that it said rewritten."""
        await self._note_own(await asyncio.to_thread(self._folder.write, file.device, file.name, [], self._clock()))
        async with self._transaction() as tx:
            await state.note_everything(tx)

    # -- writing ---------------------------------------------------------------------------------------------------

    async def _write_changes(self, listed: Sequence[File], known: Mapping[tuple[str, str], Row]) -> None:
        device = self._settings.device
        names = [file.name for file in listed if file.device == device] + [name for of, name in known if of == device]
        number = 1 + max((int(name[:12]) for name in names if CHANGES.fullmatch(name)), default=0)
        while await self._write_some(device, f"{number:012d}-{self._writer}.sync"):
            number += 1
        while self.outcome.written and await self._join(device):
            pass

    async def _join(self, device: str) -> bool:
        """Make one file of several of ours, and return whether there may be more to join; whatever breaks off, each
        thing is in at least one that is there.
        """
        parts = small(await asyncio.to_thread(self._folder.changes_of, device))
        if not parts:
            return False
        async with self._transaction() as tx:
            await tx.set_local(SLOW)
            joined = await asyncio.to_thread(self._folder.join, parts)
            if joined is None:
                return False
            file, emptied = joined
            self._emptied += emptied
            await state.note_files(tx, [file.noted(written=True)])
            await tx.run(state.DROP_FILES, {"device": file.device, "names": emptied})
        return True

    async def _write_some(self, device: str, name: str) -> bool:
        """Write a file of what was changed; return whether there may be more."""
        async with self._transaction() as tx:
            changed = await state.changed(tx, WRITTEN_AT_ONCE, TURNS_AT_ONCE)
            if not changed:
                return False
            records = await self._written(tx, changed)
            if records:
                await tx.set_local(SLOW)
                self.is_unsure = True
                file = await asyncio.to_thread(self._folder.write, device, name, records, self._clock())
                await state.note_files(tx, [file.noted(written=True)])
            await state.written_down(tx, changed)
        self.is_unsure = False
        self.outcome.written += len(records)
        return True

    async def _written(self, tx: Transaction, changed: Sequence[Row]) -> list[dict[str, Any]]:
        """Keep what is known of all that was changed, and return it as the records of a file."""
        records = []
        for kind in dict.fromkeys(row["kind"] for row in changed):
            times = {row["key"]: microseconds(row["at"]) for row in changed if row["kind"] == kind}
            documents = await (self._of_memories if kind == state.MEMORY else self._of_rows)(tx, kind, times)
            for key, document in documents.items():
                told = memories.told_by(document, self._settings.device_name, self._settings.writers)
                records.append({"kind": kind, "key": key, "state": told.as_json(whole=True)})
        return records

    async def _of_memories(self, tx: Transaction, kind: str, times: Mapping[str, int]) -> dict[str, Document]:
        """Return what is known of memories that were changed, and keep it."""
        documents = await MemoryDocuments(tx, self._settings.device, self._writer, self._clock(), None).current(times)
        if await rows.erased(tx, times.keys() - documents.keys()):
            await state.note_erasure(tx)
        await state.keep(tx, kind, [kept_state(key, document) for key, document in documents.items()])
        return documents

    async def _of_rows(self, tx: Transaction, kind: str, times: Mapping[str, int]) -> dict[str, Document]:
        """Return what is known of other rows that were changed, and keep it."""
        taking = RowDocuments(tx, kind, self._writer, self._settings.writers, self._clock())
        documents = await taking.current(times, self._core.model_key)
        await state.keep(tx, kind, [kept_state(key, document) for key, document in documents.items()])
        return documents

    async def _write_erased(self) -> None:
        """Say what was erased, and clear our own files of it, whenever that is more than we last said.

        All erased memories are looked up once a day, when each machine says that it still takes part, and after
        something was noted as gone; at other times that would take longer than all the rest.
        """
        device, now = self._settings.device, datetime.now(UTC)
        async with self._transaction() as tx:
            told, day = await state.last_erasure_notice(tx, device)
            if day == f"{now:%Y-%m-%d}":
                return
            erased, turns = await state.erased(tx), await state.removed_turns(tx)
        digest = digest_of(sorted(erased))
        mark = digest_of([digest, *sorted(turns)])
        if (erased or turns) and told != mark:
            await self._clear_files(device, erased, turns)
        facts = {"name": self._settings.device_name, "erased": digest, "version": __version__, "at": f.as_utc(now)}
        file = await asyncio.to_thread(self._folder.write, device, DEVICE, [facts], self._clock())
        await self._note_own(replace(file, mark=f"{mark} {now:%Y-%m-%d}"))

    async def _clear_files(self, device: str, erased: set[str], turns: set[str]) -> None:
        await self._note_own(await asyncio.to_thread(self._folder.write_erased, device, erased, self._clock()))
        for file in await asyncio.to_thread(self._folder.changes_of, device):
            try:
                anew = await asyncio.to_thread(self._folder.rewrite, file, erased, turns)
            except Unreadable:  # damaged since: the next exchange writes all of it anew
                continue
            if anew is not None:
                await self._note_own(anew)

    async def _note_own(self, file: File) -> None:
        async with self._transaction() as tx:
            await state.note_files(tx, [file.noted(written=True)])


@asynccontextmanager
async def _alone(core: Core) -> AsyncIterator[Transaction]:
    """Run a block in a transaction of the only process that synchronises the namespace."""
    async with core.store.transaction() as tx:
        await state.lock(tx)
        yield tx
