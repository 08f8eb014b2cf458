"""Where the files of a memory are: a folder that the machines share, or one of our own that a remote keeps alike.

Other machines' files become what they are elsewhere. Ours are taken from there only if they are missing here or were
written later, as after this machine was restored from a backup; and nothing of ours is removed there before its emptied
form was brought, so that a file that comes back later holds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from pgengram.store.sync import state
from pgengram.sync import files
from pgengram.sync.folder import CHANGES, ERASED, ID, Folder

Files = dict[str, str]  # DEVICE/NAME of each file, and the digest of what is in it


class Remote(Protocol):
    """Brings files of one memory to and from one place. All methods block, and raise OSError if the place is away.

    idle_pauses: how many of the usual pauses may pass between two looks while nothing happens; 1 where a look is cheap.
    """

    idle_pauses: int

    def digest(self, data: bytes) -> str:
        """Return the digest of a file's bytes, as `list_files` gives it."""

    def list_files(self) -> Files:
        """Return which files there are."""

    def get(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield files with their bytes; without those that have just gone."""

    def put(self, folder: Path, names: Sequence[str]) -> None:
        """Bring files of one device from the folder of the memory, each whole or not at all."""

    def drop(self, folder: Path, names: Sequence[str]) -> None:
        """Remove files of one device, which are not in the folder any more."""


class ExchangedFolder:
    """The folder of a memory's files, and what keeps it like one elsewhere.

    Args:
        folder: the files.
        remote: None if the machines share the folder itself.
    """

    def __init__(self, folder: Folder, remote: Remote | None) -> None:
        self.folder, self.remote = folder, remote
        self._there: Files = {}
        self._digests: dict[str, tuple[str, str]] = {}  # of each file here, with the mark that it had

    @property
    def idle_pauses(self) -> int:
        """See `Remote`."""
        return 1 if self.remote is None else self.remote.idle_pauses

    def fetch(self, device: str) -> None:
        """Bring what other devices have there, and what this one had written that is not here.

        Raises:
            OSError: the place is away, or this disk is full.
        """
        if self.remote is None:
            return
        self._there = {name: digest for name, digest in self.remote.list_files().items() if _is_ours(name)}
        here = self._here()
        for name, data in self.remote.get([name for name in self._there if self._there[name] != here.get(name)]):
            path = self.folder.path / name
            if name in self._there and not (
                _is_of(name, device) and path.exists() and not _was_written_later(data, path)
            ):
                files.put_bytes(path, [data])
        for name in here.keys() - self._there.keys():
            if not _is_of(name, device):
                (self.folder.path / name).unlink(missing_ok=True)

    def publish(self, device: str, emptied: Sequence[str]) -> None:
        """Bring there what this device has written, and let go of files whose records another one has now.

        Raises:
            OSError: the place is away or full.
        """
        if self.remote is not None:
            own = {name: digest for name, digest in self._here().items() if _is_of(name, device)}
            if changed := sorted(name for name in own if own[name] != self._there.get(name)):
                self.remote.put(self.folder.path, changed)
        names = [f"{device}/{name}" for name in emptied]
        for name in names:
            (self.folder.path / name).unlink(missing_ok=True)
        if names and self.remote is not None:
            self.remote.drop(self.folder.path, names)

    def _here(self) -> Files:
        """Return the files that are here; only those that changed since they were last looked at are read."""
        if self.remote is None or not self.folder.is_there:
            return {}
        found: dict[str, tuple[str, str]] = {}
        for file in self.folder.listed():
            name = f"{file.device}/{file.name}"
            mark, digest = self._digests.get(name, ("", ""))
            found[name] = (file.mark, digest if mark == file.mark else self.remote.digest(file.path.read_bytes()))
        self._digests = found
        return {name: digest for name, (_, digest) in found.items()}


def _is_ours(name: str) -> bool:
    """Whether a name is that of a file of ours, and leads nowhere else."""
    device, _, file = name.partition("/")
    return bool(ID.fullmatch(device) and (CHANGES.fullmatch(file) or file in (ERASED, state.DEVICE)))


def _is_of(name: str, device: str) -> bool:
    return name.startswith(device + "/")


def _was_written_later(data: bytes, path: Path) -> bool:
    """Whether a file was written later than the one at a path, by its device's clock; any is than a damaged one."""
    try:
        theirs = files.written_at(data)
    except files.Unreadable:
        return False
    try:
        return theirs > files.written_at(path.read_bytes())
    except files.Unreadable:
        return True
