"""What an import is given, a file, a folder or a zip of one, as streams of bytes that stay within bounds.

Nothing is unpacked to disk and no file is read whole: a gigabyte passes through a few megabytes of memory.
"""

from __future__ import annotations

import codecs
import stat
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, cast

from pgengram.errors import InvalidInput
from pgengram.transfer.input.databases import SQLITE, schema_of
from pgengram.transfer.input.json_records import CHUNK, MOST_OF_ONE, Broken, Record, Records, parsed

MOST_OF_ALL: Final = 64 << 30  # bytes of all files of a zip, unpacked
MOST_FILES: Final = 200_000
BOMB: Final = (64 << 20, 200)  # bytes of a file unpacked, and how many times its packed size, that together are a bomb
MOST_BESIDE: Final = 48 << 20  # bytes of a hidden file that is asked for by its name
HEAD: Final = 64 << 10  # bytes that tell which format a file has
LEADS_OUT: Final = "it leads out of the folder"


@dataclass(frozen=True, slots=True)
class File:
    """One file: its path below what was given, its size, and why it is not read, if so."""

    path: PurePosixPath
    size: int
    reason: str = ""
    packed: int = 0  # its size in the zip

    @property
    def place(self) -> str:
        """How a report calls it."""
        return str(self.path)


def is_one_of(file: File, patterns: Iterable[str]) -> bool:
    """Whether a file's name, or its path below what was given, fits one of the patterns."""
    return any(fnmatch(file.path.name, one) or fnmatch(file.place, one) for one in patterns)


class Source:
    """What was given to an import.

    Args:
        path: a file, a folder or a zip of one.
        encoding: of its texts, where they are not in Unicode.

    Attributes:
        done: bytes read so far.
        total: bytes of all files.

    Raises:
        InvalidInput: there is nothing at `path`, the zip is broken or has too many files, or there is no such encoding.
    """

    def __init__(self, path: Path, encoding: str = "", name: str = "") -> None:
        self.path = path
        self._name = name or path.name
        self.encoding = encoding
        self.done = 0
        try:
            codecs.lookup(encoding or "utf-8")
        except LookupError:
            raise InvalidInput(f"Unknown encoding {encoding}.", "Common ones are cp1252 and shift_jis.") from None
        self._zip = zipfile.is_zipfile(path) if path.is_file() else False
        self.files = sorted(self._found(), key=lambda file: file.path)
        if len(self.files) > MOST_FILES:
            raise InvalidInput(f"{path} has more than {MOST_FILES:,} files.", "Import a part of it.")
        self.total = sum(file.size for file in self.files if not file.reason)

    def _found(self) -> Iterator[File]:
        if self.path.is_dir():
            yield from self._of_folder()
        elif self._zip:
            yield from self._of_zip()
        elif self.path.is_file():
            yield File(PurePosixPath(self._name), self.path.stat().st_size)
        else:
            raise InvalidInput(f"There is no file or folder {self.path}.", "Give the path of what was exported.")

    def _of_folder(self) -> Iterator[File]:
        root = self.path.resolve()
        for path in self.path.rglob("*"):
            below = PurePosixPath(path.relative_to(self.path).as_posix())
            if any(part.startswith(".") for part in below.parts):
                continue
            if not path.resolve().is_relative_to(root):
                yield File(below, 0, LEADS_OUT)
            elif path.is_file():
                yield File(below, path.stat().st_size)

    def _of_zip(self) -> Iterator[File]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                entries = archive.infolist()
        except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
            raise InvalidInput(f"{self.path} is a broken zip: {error}.", "Download or create it again.") from None
        if sum(entry.file_size for entry in entries) > MOST_OF_ALL:
            raise InvalidInput(f"{self.path} unpacks to more than {MOST_OF_ALL >> 30} GB.", "Import a part of it.")
        for entry in entries:
            parts = PurePosixPath(entry.filename.replace("\\", "/")).parts
            outside = _leads_out(parts)
            hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
            if not entry.is_dir() and (outside or not hidden):
                reason = LEADS_OUT if outside else _unreadable(entry)
                yield File(PurePosixPath(entry.filename), entry.file_size, reason, entry.compress_size)

    # -- bytes -----------------------------------------------------------------------------------------------------

    def _open(self, file: File) -> BinaryIO:
        if self._zip:
            with zipfile.ZipFile(self.path) as archive:  # the open entry keeps the zip open
                return cast("BinaryIO", archive.open(str(file.path)))
        return self._beneath(file).open("rb")

    def _beneath(self, file: File) -> Path:
        return self.path / file.path if self.path.is_dir() else self.path

    def on_disk(self, file: File) -> Path | None:
        """Return where a file is that no zip holds."""
        return None if self._zip else self._beneath(file)

    def _raw(self, file: File) -> Iterator[bytes]:
        """Yield the bytes of a file, no more than it says that it has.

        Raises:
            ValueError: a zip holds something else than it says.
        """
        left = file.size
        try:
            with self._open(file) as opened:
                while left and (chunk := opened.read(min(CHUNK, left))):
                    left -= len(chunk)
                    self.done += len(chunk)
                    yield chunk
        except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError) as error:
            raise ValueError(str(error)) from None
        except Exception as error:
            if type(error).__module__ in ("zlib", "_lzma", "_bz2"):
                raise ValueError("its packed bytes are broken") from None
            raise

    def chunks(self, file: File) -> Iterator[bytes]:
        """Yield a file as UTF-8, from any kind of Unicode or from the encoding that was told."""
        raw = self._raw(file)
        first = next(raw, b"")
        encoding, mark = _unicode(first)
        encoding = encoding or self.encoding or "utf-8"
        parts = chain((first[mark:],), raw)
        if codecs.lookup(encoding).name == "utf-8":
            yield from parts
            return
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        for part in parts:
            yield decoder.decode(part).encode("utf-8", "replace")
        yield decoder.decode(b"", final=True).encode("utf-8", "replace")

    def beside(self, name: str) -> bytes | None:
        """Return a hidden file of at most MOST_BESIDE bytes that lies beside the others, at the top of the folder or
        in the one folder at the top of a zip; None where there is none.
        """
        if self.path.is_dir():
            path = self.path / name
            fits = path.is_file() and not path.is_symlink() and path.stat().st_size <= MOST_BESIDE
            return path.read_bytes() if fits else None
        return self._beside_in_zip(name) if self._zip else None

    def _beside_in_zip(self, name: str) -> bytes | None:
        tops = {file.path.parts[0] for file in self.files if not file.reason}
        with zipfile.ZipFile(self.path) as archive:
            for place in (name, *(f"{top}/{name}" for top in tops if len(tops) == 1)):
                if place in archive.NameToInfo and archive.getinfo(place).file_size <= MOST_BESIDE:
                    return archive.read(place)
        return None

    def head(self, file: File) -> bytes:
        """Return how a file begins; of a SQLite database the statements that made its tables."""
        done = self.done
        try:
            begins = next(self.chunks(file), b"")[:HEAD]
        except ValueError:
            begins = b""
        self.done = done
        path = self.on_disk(file)
        return schema_of(path) if begins.startswith(SQLITE) and path else begins

    # -- what is in them -------------------------------------------------------------------------------------------

    def lines(self, file: File) -> Iterator[tuple[int, bytes | Broken]]:
        """Yield the lines of a file with their numbers, from 0."""
        number, buffer, skipping = 0, b"", False
        try:
            for chunk in self.chunks(file):
                *whole, buffer = (buffer + chunk).split(b"\n")
                for line in whole:
                    yield number, self._too_long(file, number) if skipping else line
                    number, skipping = number + 1, False
                if len(buffer) > MOST_OF_ONE:
                    buffer, skipping = b"", True
        except ValueError as error:
            yield number, Broken(file.place, f"it can't be read to its end: {error}")
            return
        if buffer.strip() or skipping:
            yield number, self._too_long(file, number) if skipping else buffer

    def objects(self, file: File) -> Iterator[tuple[int, dict[str, Any] | Broken]]:
        """Yield the objects of a file of JSON lines with the numbers of their lines, from 0."""
        for number, line in self.lines(file):
            if isinstance(line, Broken):
                yield number, line
            elif line.strip():
                found = parsed(line, f"{file.place}, line {number + 1}")
                value = found.value if isinstance(found, Record) else found
                yield (
                    number,
                    value
                    if isinstance(value, dict | Broken)
                    else Broken(f"{file.place}, line {number + 1}", "it is not a JSON object"),
                )

    def records(self, file: File) -> Iterator[Record | Broken]:
        """Yield the objects of a JSON array, or of the arrays in a JSON object, one at a time.

        A record that is broken costs the others nothing: reading goes on where the next one begins.
        """
        return Records(file.place, self.chunks(file)).found()

    def whole(self, file: File) -> Any:
        """Return a small file of JSON; a `Broken` where it is none or too large."""
        if file.size > MOST_OF_ONE:
            return Broken(file.place, f"it is larger than {MOST_OF_ONE >> 20} MB")
        try:
            found = parsed(b"".join(self.chunks(file)), file.place)
        except ValueError as error:
            return Broken(file.place, f"it can't be read: {error}")
        return found.value if isinstance(found, Record) else found

    @staticmethod
    def _too_long(file: File, number: int) -> Broken:
        return Broken(f"{file.place}, line {number + 1}", f"it is longer than {MOST_OF_ONE >> 20} MB")


def _leads_out(parts: tuple[str, ...]) -> bool:
    """Whether a path of these parts is absolute, begins with a drive, or climbs."""
    return ".." in parts or parts[:1] == ("/",) or any(":" in part for part in parts[:1])


def _unreadable(entry: zipfile.ZipInfo) -> str:
    """Return why a file of a zip is not read; empty where it is."""
    if stat.S_ISLNK(entry.external_attr >> 16):
        return LEADS_OUT
    if entry.file_size > BOMB[0] and entry.file_size > BOMB[1] * entry.compress_size:
        return f"it unpacks to more than {BOMB[1]} times its size"
    return "it is encrypted" if entry.flag_bits & 1 else ""


def _unicode(begins: bytes) -> tuple[str, int]:
    """Return which kind of Unicode, beside plain UTF-8, a file is in, and how long its mark is."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
        (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):  # fmt: skip
        if begins.startswith(mark):
            return encoding, len(mark)
    zeros = tuple(byte == 0 for byte in begins[:4])  # the first characters of JSON and CSV are ASCII
    shapes: dict[tuple[bool, ...], str] = {
        (True, True, True, False): "utf-32-be", (False, True, True, True): "utf-32-le",
        (True, False, True, False): "utf-16-be", (False, True, False, True): "utf-16-le",
    }  # fmt: skip
    return shapes.get(zeros, ""), 0
