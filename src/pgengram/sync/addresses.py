"""From what a person names, a path or an address, to the place where the files of a memory are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pgengram.errors import InvalidInput
from pgengram.runtime.operating_system import remove_tree
from pgengram.store.connection.database import Transaction
from pgengram.store.sync import state
from pgengram.sync.folder import Folder
from pgengram.sync.keys import Key
from pgengram.sync.mirror import ExchangedFolder, Remote

if TYPE_CHECKING:
    from pgengram.sync.remotes.sign_in import SignIn

# While a file is written or a server asked: to a network's disk, or by a slow line.
SLOW: Final = {"idle_in_transaction_session_timeout": "300000"}
MIRRORS: Final = "exchange"  # folder in the data folder, of what a remote keeps like elsewhere
STORED: Final = "exchanged"  # … of what a server stores for others
SERVERS: Final = ("http", "https")  # kinds of addresses of pgengram servers
MakeRemote = Callable[[str, Key, str | None, Path], Remote]


def exchanged_folder(settings: state.Settings, data: Path) -> ExchangedFolder:
    """Return where the files of a memory are, by its settings; `data` is this machine's data folder."""
    key = Key(settings.secret)
    make = remote_for(settings.folder)
    if make is None:
        return ExchangedFolder(Folder(Path(settings.folder), key), None)
    mirror = _mirror(settings, data)
    return ExchangedFolder(Folder(mirror, key), make(settings.folder, key, settings.token, mirror))


async def renewed(tx: Transaction) -> state.Settings | None:
    """Return how a memory is synchronised, if it is, with what lets this machine into a server for a while to come.

    Raises:
        OSError: the server is away, or has ended this machine's connection.
    """
    settings = await state.settings(tx)
    signed_in = _sign_in_of(settings)
    if settings is None or signed_in is None or not signed_in.is_due:
        return settings
    await tx.set_local(SLOW)
    settings = replace(settings, token=(await asyncio.to_thread(signed_in.renewed)).as_token())
    await tx.run(state.LET_IN, {"token": settings.token})
    return settings


def is_due(settings: state.Settings) -> bool:
    """Whether what lets this machine into a server is to be renewed."""
    signed_in = _sign_in_of(settings)
    return signed_in is not None and signed_in.is_due


def _sign_in_of(settings: state.Settings | None) -> SignIn | None:
    if settings is None or not settings.token:
        return None
    from pgengram.sync.remotes.sign_in import SignIn

    return SignIn.of(settings.token)


def forget_mirror(settings: state.Settings, data: Path) -> None:
    """Remove what was kept here of files that are elsewhere, and what a remote kept beside it."""
    mirror = _mirror(settings, data)
    for folder in mirror.parent.glob(f"{mirror.name}*"):
        remove_tree(folder)


def stored_files(namespace_id: int, data: Path) -> Path:
    """Return the folder in which a server keeps the files of a namespace that machines exchange through it."""
    return data / STORED / str(namespace_id)


def _mirror(settings: state.Settings, data: Path) -> Path:
    return data / MIRRORS / settings.device


def _scheme_of(address: str) -> str:
    """Return the kind of an address, in small letters; empty for a path."""
    return urlsplit(address).scheme if "://" in address else ""


def is_server(address: str) -> bool:
    """Whether an address is that of a pgengram server."""
    return _scheme_of(address) in SERVERS


def remote_for(address: str) -> MakeRemote | None:
    """Return what makes the remote to an address, of: the address, the key, a token, and a folder for what it keeps;
    None if the address is a path.

    Raises:
        InvalidInput: it is an address of a kind that nothing is carried to.
    """
    scheme = _scheme_of(address)
    if scheme in SERVERS:
        from pgengram.sync.remotes.server import ServerRemote

        return ServerRemote
    if scheme.startswith("git+"):
        from pgengram.sync.remotes.git import GitRemote

        return GitRemote
    if scheme == "ssh":
        from pgengram.sync.remotes.ssh import SSHRemote

        return SSHRemote
    if scheme:
        raise InvalidInput(
            f"Nothing can be exchanged through {scheme}://.",
            "Use a folder, https://HOST, git+ssh://HOST/REPOSITORY, git+https://… or ssh://HOST/FOLDER.",
        )
    return None
