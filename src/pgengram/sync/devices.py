"""Beginning and ending to synchronise, and how it stands: which devices take part, and what is not exchanged yet."""

from __future__ import annotations

import asyncio
import platform
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pgengram import fields as f
from pgengram.errors import Conflict, DatabaseFailed, InvalidInput, NotReady
from pgengram.service.core import Core
from pgengram.store.connection.begin import FIRST_SPACE, UPKEEP
from pgengram.store.connection.database import Database, Transaction
from pgengram.store.sync import state
from pgengram.store.sync.state import DEVICE
from pgengram.sync.addresses import exchanged_folder, forget_mirror, is_server, remote_for, renewed
from pgengram.sync.files import Record, Unreadable
from pgengram.sync.folder import Folder
from pgengram.sync.keys import Key
from pgengram.sync.merging import digest_of
from pgengram.sync.mirror import ExchangedFolder

NOT_ON: Final = "This memory is not synchronised."
FORGOTTEN: Final = "forgotten"  # a mark among the files of a device
BEGIN: Final = "`pgengram sync init FOLDER` begins; `pgengram sync join FOLDER CODE` joins another machine's."


@dataclass(frozen=True, slots=True)
class Device:
    """One of the machines. behind: whether its files may still hold what was erased elsewhere."""

    id: str
    name: str
    seen: str
    version: str
    is_this: bool
    behind: bool


@dataclass(slots=True)
class Status:
    """How it stands.

    changes: not written yet; disputed: memories that two machines changed at the same time; exchanged: when an exchange
    last succeeded, empty for never; problem: why the last one failed; unread: files with why they could not be read.
    """

    folder: str
    changes: int
    disputed: int
    exchanged: str
    problem: str | None
    devices: list[Device] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "folder": self.folder, "changes": self.changes, "disputed": self.disputed, "exchanged": self.exchanged,
            "problem": self.problem,
            "devices": [{name: getattr(one, name) for name in Device.__slots__} for one in self.devices],
            "unread": self.unread,
        }  # fmt: skip


async def begin(core: Core, address: str, key: Key | None, name: str = "", token: str | None = None) -> Key:
    """Begin to synchronise, with a key of its own or one that another machine has.

    Args:
        core: whose memories.
        address: the folder that the machines share, or a URL as `remote_for` takes it.
        key: of the memory to join; None begins a new one.
        name: what this machine is called there.
        token: that lets it into a server.

    Raises:
        InvalidInput: the folder cannot be used, or has nothing of that key.
        Conflict: it is synchronised already.
    """
    if remote_for(address) is None:
        address = await asyncio.to_thread(_existing_folder, address)
    joins, key = key is not None, key or Key.new()
    given = state.Settings(key.secret, address, secrets.token_hex(8), machine_name(name), (), None, token)
    await asyncio.to_thread(_reach, exchanged_folder(given, core.settings.data_path), given, joins=joins)
    async with core.store.transaction() as tx:
        if tx.namespace_id >= FIRST_SPACE:
            raise InvalidInput(
                "What people share is not exchanged between machines.",
                "Connect your machines to the server of the space.",
            )
        if tx.distributed:
            raise InvalidInput("A store on a cluster is not synchronised.", "Connect your machines to the cluster.")
        if await state.settings(tx):
            raise Conflict("This memory is synchronised already.", "`pgengram sync status` says with what.")
    await install(core)
    async with core.store.transaction() as tx:
        await tx.allow_for(100_000)
        await state.begin(tx, given)
    return key


def _existing_folder(given: str) -> str:
    chosen = Path(given).expanduser().absolute()
    if not chosen.is_dir():
        raise InvalidInput(f"There is no folder {chosen}.", "Make it, or mount it, first.")
    return str(chosen)


def _reach(exchanged: ExchangedFolder, given: state.Settings, *, joins: bool) -> None:
    """Make sure that files can be exchanged there, and that it has some if somebody joins."""
    try:
        exchanged.fetch(given.device)
        if joins and not exchanged.folder.is_there:
            raise InvalidInput(
                f"{given.folder} has nothing of that code yet.",
                "Wait until the folder is up to date, or check that it is the one that the other machine uses.",
            )
        exchanged.folder.make()
    except OSError as error:
        raise InvalidInput(f"{given.folder} cannot be used: {error.strerror or error}.") from error


async def install(core: Core) -> None:
    """Have changes noted, if they are not yet; as the tables' owner."""
    async with core.store.transaction() as tx:
        if await state.has_triggers(tx):
            return
    async with core.store.as_login() as connection:
        await state.install_triggers(connection)
    async with core.store.transaction() as tx:
        if await state.settings(tx):  # restored from a backup: nobody knows what was changed meanwhile
            await tx.allow_for(100_000)
            await state.note_everything(tx)


async def end(core: Core) -> None:
    """Synchronise no longer; the memories stay, here and on the other machines.

    Raises:
        Conflict: it is not synchronised.
    """
    async with core.store.transaction() as tx:
        settings = await _settings_in_force(tx)
        await state.end(tx)
    await asyncio.to_thread(forget_mirror, settings, core.settings.data_path)


async def _settings_in_force(tx: Transaction) -> state.Settings:
    """Return how a memory is synchronised.

    Raises:
        Conflict: it is not.
    """
    settings = await state.settings(tx)
    if settings is None:
        raise Conflict(NOT_ON, BEGIN)
    return settings


def machine_name(chosen: str) -> str:
    """Return what this machine is called among those that exchange: as somebody chose, or as it calls itself."""
    return chosen or platform.node() or "a machine"


async def is_on(database: Database, namespace_id: int) -> bool:
    """Whether a namespace is synchronised."""
    async with database.transaction(namespace_id, reads=True, member=UPKEEP) as tx:
        return await state.settings(tx) is not None


async def erase_elsewhere(database: Database, namespace_id: int, data: Path) -> None:
    """Have the other machines erase all that a namespace has, which is about to be erased here; `data` is this
    machine's data folder.

    Raises:
        NotReady: the folder is away, so that they would not hear of it.
    """
    async with database.transaction(namespace_id, member=UPKEEP) as tx:
        settings = await _let_in(tx)
        if settings is None:
            return
        erased = await state.erased(tx) | {row["id"] for row in await tx.rows(state.ALL_IDS)}
        gone = [dict(row) for row in await tx.rows(state.REMOVED_ROWS)]
    await asyncio.to_thread(_erase_all, exchanged_folder(settings, data), settings, erased, gone)
    await asyncio.to_thread(forget_mirror, settings, data)


def _erase_all(exchanged: ExchangedFolder, settings: state.Settings, erased: set[str], gone: Sequence[Record]) -> None:
    try:
        exchanged.fetch(settings.device)
        if not exchanged.folder.is_there:
            raise FileNotFoundError
        exchanged.folder.erase_all(settings.device, erased, gone, time.time_ns() // 1000)
        exchanged.publish(settings.device, [])
    except OSError as error:
        raise _would_not_hear(settings.folder) from error


def _would_not_hear(place: str) -> NotReady:
    return NotReady(
        f"{place} is not there, so the other machines would not hear of it.",
        "Nothing was changed. Bring it back, or run `pgengram sync leave` first to erase on this machine only.",
    )


async def _let_in(tx: Transaction) -> state.Settings | None:
    try:
        return await renewed(tx)
    except OSError as error:
        raise _would_not_hear("The server") from error


async def set_token(core: Core, token: str | None) -> None:
    """Let this machine into its server by another token, or after a new sign-in.

    Raises:
        Conflict: it is not synchronised.
        InvalidInput: the server does not let it in so.
    """
    async with core.store.transaction() as tx:
        settings = await _settings_in_force(tx)
    exchanged = exchanged_folder(replace(settings, token=token), core.settings.data_path)
    await asyncio.to_thread(_reach, exchanged, settings, joins=False)
    async with core.store.transaction() as tx:
        await tx.run(state.LET_IN, {"token": token})


async def server_address(core: Core) -> tuple[str, str]:
    """Return the address of the server through which a memory is exchanged, and this machine's name.

    Raises:
        Conflict: it is not synchronised, or through no server.
    """
    async with core.store.transaction() as tx:
        settings = await _settings_in_force(tx)
    if not is_server(settings.folder):
        raise Conflict("This memory is exchanged through no pgengram server.", "There is nothing to sign in to.")
    return settings.folder, settings.device_name


async def key_of(core: Core) -> Key:
    """Return the key of a memory that is synchronised.

    Raises:
        Conflict: it is not.
    """
    async with core.store.transaction() as tx:
        settings = await _settings_in_force(tx)
    return Key(settings.secret)


async def status(core: Core) -> Status:
    """Return how it stands.

    Raises:
        Conflict: it is not synchronised.
    """
    async with core.store.transaction() as tx:
        settings = await _settings_in_force(tx)
        changes, disputed = await tx.row(state.COUNT_CHANGED), await tx.row(state.COUNT_DISPUTED)
        files = await tx.rows(state.FILES)
        erased = digest_of(sorted(await state.erased(tx)))
    if changes is None or disputed is None:
        raise DatabaseFailed("The database gave no answer.")
    exchanged = f.as_utc(settings.exchanged_at) or ""
    found = Status(settings.folder, changes["changes"], disputed["disputed"], exchanged, settings.problem)
    found.unread = {f"{row['device']}/{row['name']}": row["problem"] for row in files if row["problem"]}
    forgotten = {row["device"] for row in files if row["name"] == FORGOTTEN}
    folder = exchanged_folder(settings, core.settings.data_path).folder
    there = await asyncio.to_thread(_devices, folder, settings.device, erased)
    found.devices = [one for one in there if one.id not in forgotten]
    return found


def _devices(folder: Folder, this: str, erased: str) -> list[Device]:
    found = []
    try:
        for file in folder.listed():
            if file.name == DEVICE:
                try:
                    [facts] = folder.read(file)
                except (Unreadable, ValueError):
                    facts = {}
                found.append(_device(file.device, facts, this, erased))
    except OSError:
        return found
    return found


def _device(id_: str, facts: Mapping[str, Any], this: str, erased: str) -> Device:
    return Device(
        id=id_,
        name=str(facts.get("name", "?")),
        seen=str(facts.get("at", "")),
        version=str(facts.get("version", "?")),
        is_this=id_ == this,
        behind=id_ != this and facts.get("erased") != erased,
    )


async def forget(core: Core, given: str) -> Device:
    """Wait no longer for a device that will not come back; what it wrote stays, and is read if it writes again.

    Raises:
        Conflict: it is not synchronised.
        InvalidInput: there is no such device, or it is this one.
    """
    named = [one for one in (await status(core)).devices if given in (one.id, one.name)]
    if len(named) != 1 or named[0].is_this:
        raise InvalidInput(f"There is no one other device called {given!r}.", "`pgengram sync status` lists them.")
    async with core.store.transaction() as tx:
        facts = {"device": named[0].id, "name": FORGOTTEN, "mark": "", "written": False, "problem": None}
        await state.note_files(tx, [facts])
    return named[0]
