"""The folder that machines share: whose files are there, and writing our own."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Self

from pgengram import __version__
from pgengram.store.sync.state import DEVICE, TURN
from pgengram.sync import files
from pgengram.sync.keys import Key

NAME: Final = "pgengram-sync"
ERASED: Final = "erased.sync"
CHANGES: Final = re.compile(r"\d{12}-[0-9a-f]{12}\.sync")
ID: Final = re.compile(r"[0-9a-f]{16}")
EMPTY_BYTES: Final = 120  # at most, of a file without records
SMALL_BYTES: Final = 256_000
MIN_JOINED: Final = 2
MANY: Final = 48  # small files of a device before they become one
JOINED_BYTES: Final = 1_000_000  # of files that become one at a time: their records are in memory, and others wait


@dataclass(frozen=True, slots=True)
class File:
    """One file of a device. mark: what tells whether it is another than the one that was read."""

    device: str
    name: str
    path: Path
    mark: str
    size: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the file that is at a path now.

        Raises:
            FileNotFoundError: there is none.
        """
        found = path.stat()
        return cls(path.parent.name, path.name, path, f"{found.st_size}-{found.st_mtime_ns}", found.st_size)

    def noted(self, problem: str | None = None, *, written: bool = False) -> dict[str, Any]:
        """Return what is noted of it once it was read, maybe with a problem, or `written`."""
        return {
            "device": self.device, "name": self.name, "mark": self.mark, "written": written, "problem": problem,
        }  # fmt: skip

    @property
    def has_changes(self) -> bool:
        """Whether it is a file of changes, and not one about its device."""
        return CHANGES.fullmatch(self.name) is not None


class Folder:
    """The files of one memory in the folder that a person chose.

    Args:
        chosen: that folder.
        key: of the memory.
    """

    def __init__(self, chosen: Path, key: Key) -> None:
        self.path = chosen / NAME / key.folder_name
        self.key = key

    @property
    def is_there(self) -> bool:
        """Whether some device wrote here, and the folder is not away."""
        return self.path.is_dir()

    def make(self) -> None:
        """Make the folder, for the first device.

        Raises:
            OSError: it cannot be made.
        """
        self.path.mkdir(parents=True, exist_ok=True)

    def listed(self) -> Iterator[File]:
        """Yield the files of all devices, oldest first; see `listed_in`."""
        return listed_in(self.path)

    def read(self, file: File) -> Iterator[dict[str, Any]]:
        """Yield a file's records; see `files.read`."""
        return files.read(file.path, self.key)

    def write(self, device: str, name: str, records: Iterable[Mapping[str, Any]], at: int = 0) -> File:
        """Write a file of a device, at a time in microseconds as its clock has it, and return it; see `files.write`."""
        path = self.path / device / name
        files.write(path, self.key, records, {"at": at, "version": __version__})
        return File.of(path)

    def changes_of(self, device: str) -> list[File]:
        """Return a device's files of changes, oldest first."""
        return [file for file in self.listed() if file.device == device and file.has_changes]

    def write_erased(self, device: str, erased: Iterable[str], at: int) -> File:
        """Say which memories were erased, at a time as in `write`."""
        return self.write(device, ERASED, [{"id": id_} for id_ in sorted(erased)], at)

    def erase_all(self, device: str, erased: set[str], gone: Sequence[Mapping[str, Any]], at: int) -> None:
        """Say that these memories were erased and that these records are gone, and leave nothing else in our own files;
        at a time as in `write`.
        """
        self.write_erased(device, erased, at)
        number = 1
        for file in self.changes_of(device):
            self.write(device, file.name, [], at)
            number = 1 + int(file.name[:12])
        self.write(device, f"{number:012d}-{secrets.token_hex(6)}.sync", gone, at)

    def written_at(self, file: File) -> int:
        """Return when a file was written, in microseconds as the clock of its device had it."""
        with file.path.open("rb") as there:
            return files.written_at(there.read(2 * files.HEAD_BYTES))

    def written_by(self, file: File) -> str:
        """Return which program wrote a file, in words."""
        with file.path.open("rb") as there:
            return files.written_by(there.read(2 * files.HEAD_BYTES))

    def rewrite(self, file: File, erased: set[str], turns: set[str]) -> File | None:
        """Write one of our files again without erased memories and turns, if it has any; return the new one."""
        records = list(self.read(file))
        kept = [record for record in records if not (names_any(record, erased) or _says_any(record, turns))]
        return self.write(file.device, file.name, kept, self.written_at(file)) if len(kept) < len(records) else None

    def join(self, parts: Sequence[File]) -> tuple[File, list[str]] | None:
        """Make one file of several of our own, under the name of the last; of each thing the latest state stays.

        The others are emptied; `ExchangedFolder.publish` lets go of them. What is interrupted in the middle leaves some
        things twice, which changes nothing. Damaged ones, which came back from elsewhere, are left as they are.

        Returns:
            The file and the names of the emptied ones; None if fewer than two can be read.
        """
        latest: dict[tuple[str, str], dict[str, Any]] = {}
        whole = []
        for file in parts:
            with suppress(files.Unreadable):
                latest |= {(record["kind"], record["key"]): record for record in self.read(file)}
                whole.append(file)
        if len(whole) < MIN_JOINED:
            return None
        made = self.write(whole[-1].device, whole[-1].name, latest.values(), self.written_at(whole[-1]))
        for file in whole[:-1]:
            self.write(file.device, file.name, [], self.written_at(file))
        return made, [file.name for file in whole[:-1]]


def listed_in(folder: Path) -> Iterator[File]:
    """Yield the files of all devices in the folder of a memory, oldest first; what other programs put there is passed
    over.

    Raises:
        OSError: the folder cannot be read.
    """
    for device in sorted(folder.iterdir()) if folder.is_dir() else ():
        if ID.fullmatch(device.name) and device.is_dir():
            for path in sorted(device.iterdir()):
                if CHANGES.fullmatch(path.name) or path.name in (ERASED, DEVICE):
                    with suppress(FileNotFoundError):  # just replaced by a larger one
                        yield File.of(path)


def names_any(record: Mapping[str, Any], erased: set[str]) -> bool:
    """Whether a record is of an erased memory, or of a row that leads to one."""
    return any(id_ in erased for id_ in re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", record["key"]))


def _says_any(record: Mapping[str, Any], turns: set[str]) -> bool:
    """Whether a record has the words of one of these turns, and does not only say that it was erased."""
    return bool(record["kind"] == TURN and record["key"] in turns and record["state"]["entries"])


def small(own: Iterable[File]) -> list[File]:
    """Return the oldest small ones among our files of changes, as many as become one at a time, if there are many."""
    found = [file for file in own if EMPTY_BYTES < file.size < SMALL_BYTES]
    sizes = accumulate(file.size for file in found)
    return [file for file, sum_ in zip(found, sizes, strict=True) if sum_ <= JOINED_BYTES] if len(found) > MANY else []
