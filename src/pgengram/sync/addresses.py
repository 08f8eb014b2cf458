"""From what a person names, a path or an address, to the place where the files of a memory are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pgengram.errors import InvalidInput
from pgengram.runtime.operating_system import remove_tree
from pgengram.store.sync import state
from pgengram.sync.folder import Folder
from pgengram.sync.keys import Key
from pgengram.sync.mirror import ExchangedFolder, Remote

MIRRORS: Final = "exchange"  # folder in the data folder, of what a remote keeps like elsewhere
STORED: Final = "exchanged"  # … of what a server stores for others
MakeRemote = Callable[[str, Key, str | None, Path], Remote]


def exchanged_folder(settings: state.Settings, data: Path) -> ExchangedFolder:
    """Return where the files of a memory are, by its settings; `data` is this machine's data folder."""
    key = Key(settings.secret)
    make = remote_for(settings.folder)
    if make is None:
        return ExchangedFolder(Folder(Path(settings.folder), key), None)
    mirror = _mirror(settings, data)
    return ExchangedFolder(Folder(mirror, key), make(settings.folder, key, settings.token, mirror))


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


def remote_for(address: str) -> MakeRemote | None:
    """Return what makes the remote to an address, of: the address, the key, a token, and a folder for what it keeps;
    None if the address is a path.

    Raises:
        InvalidInput: it is an address of a kind that nothing is carried to.
    """
    scheme = urlsplit(address).scheme if "://" in address else ""
    if scheme in ("http", "https"):
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
