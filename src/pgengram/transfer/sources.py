"""What an import is given, a file, a folder or a zip of one, as streams of bytes that stay within bounds.

Nothing is unpacked to disk and no file is read whole: a gigabyte passes through a few megabytes of memory.
"""

from __future__ import annotations

import codecs
import json
import re
import sqlite3
import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, cast

from pgengram.errors import InvalidInput

CHUNK: Final = 1 << 20  # bytes read at once
MOST_OF_ONE: Final = 48 << 20  # bytes of one record
MOST_OF_ALL: Final = 64 << 30  # bytes of all files of a zip, unpacked
MOST_FILES: Final = 200_000
MOST_DEEP: Final = 200  # objects in objects
BOMB: Final = (64 << 20, 200)  # bytes of a file unpacked, and how many times its packed size, that together are a bomb
HEAD: Final = 64 << 10  # bytes that tell which format a file has
MARKER: Final = 4 << 10  # bytes at most by which the beginning of a record is found again
LEADS_OUT: Final = "it leads out of the folder"
NOT_UTF8: Final = "it is not UTF-8; say which encoding it has with --encoding"
SQLITE: Final = b"SQLite format 3\0"

_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(")?|[{}\[\]]', re.DOTALL)
_BEGINS: Final = re.compile(
    rb'\{\s*+"([^"\\]{1,64}+)"\s*+:\s*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^,"{}\[\]]*+)\s*+,\s*+"([^"\\]{1,64}+)"'
)
# As far as the next bracket outside of strings; nothing where a string has no end yet.
_BRACKET: Final = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+([{}\[\]])', re.DOTALL)
_NEXT: Final = re.compile(rb"\s*+(?:,\s*+[\[{]|\])")


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


@dataclass(frozen=True, slots=True)
class Broken:
    """A part of a file that can't be taken, and why."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Record:
    """An object of a file of JSON: the member of the file's own object that it stands in, if any, and its place."""

    place: str
    key: str
    value: Any


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

    def __init__(self, path: Path, encoding: str = "") -> None:
        self.path = path
        self.encoding = encoding
        self.done = 0
        try:
            codecs.lookup(encoding or "utf-8")
        except LookupError:
            raise InvalidInput(f"There is no encoding {encoding}.", "Common ones are cp1252 and shift_jis.") from None
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
            yield File(PurePosixPath(self.path.name), self.path.stat().st_size)
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
            raise InvalidInput(f"{self.path} is a broken zip: {error}.", "Download or make it again.") from None
        if sum(entry.file_size for entry in entries) > MOST_OF_ALL:
            raise InvalidInput(f"{self.path} unpacks to more than {MOST_OF_ALL >> 30} GB.", "Import a part of it.")
        for entry in entries:
            below = PurePosixPath(entry.filename.replace("\\", "/"))
            outside = below.is_absolute() or ".." in below.parts or ":" in (below.parts or ("",))[0]
            if entry.is_dir() or (not outside and any(part.startswith((".", "__MACOSX")) for part in below.parts)):
                continue
            bomb = entry.file_size > BOMB[0] and entry.file_size > BOMB[1] * entry.compress_size
            reason = (
                LEADS_OUT if outside or stat.S_ISLNK(entry.external_attr >> 16)
                else f"it unpacks to more than {BOMB[1]} times its size" if bomb
                else "it is encrypted" if entry.flag_bits & 1
                else ""
            )  # fmt: skip
            yield File(PurePosixPath(entry.filename), entry.file_size, reason, entry.compress_size)

    # -- bytes -----------------------------------------------------------------------------------------------------

    def _open(self, file: File) -> BinaryIO:
        if self._zip:
            with zipfile.ZipFile(self.path) as archive:  # the open entry keeps the zip open
                return cast("BinaryIO", archive.open(str(file.path)))
        return (self.path / file.path if self.path.is_dir() else self.path).open("rb")

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

    def head(self, file: File) -> bytes:
        """Return how a file begins; of a SQLite database the statements that made its tables."""
        done = self.done
        try:
            begins = next(self.chunks(file), b"")[:HEAD]
        except ValueError:
            begins = b""
        self.done = done
        return self._schema() if begins.startswith(SQLITE) and file.size and not self._zip else begins

    def _schema(self) -> bytes:
        if self.path.is_dir():
            return b""
        try:
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        except sqlite3.DatabaseError:
            return b""
        return "\n".join(row[0] for row in rows).encode()

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
                found = _parsed(line, f"{file.place}, line {number + 1}")
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
        return _Records(file.place, self.chunks(file)).found()

    def whole(self, file: File) -> Any:
        """Return a small file of JSON; a `Broken` where it is none or too large."""
        if file.size > MOST_OF_ONE:
            return Broken(file.place, f"it is larger than {MOST_OF_ONE >> 20} MB")
        try:
            found = _parsed(b"".join(self.chunks(file)), file.place)
        except ValueError as error:
            return Broken(file.place, f"it can't be read: {error}")
        return found.value if isinstance(found, Record) else found

    @staticmethod
    def _too_long(file: File, number: int) -> Broken:
        return Broken(f"{file.place}, line {number + 1}", f"it is longer than {MOST_OF_ONE >> 20} MB")


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


def _parsed(text: bytes | memoryview, place: str) -> Record | Broken:
    try:
        return Record(place, "", json.loads(str(text, "utf-8")))
    except UnicodeDecodeError:
        return Broken(place, NOT_UTF8)
    except (ValueError, RecursionError):
        return Broken(place, "it is not valid JSON")


class _Records:
    """The records of one stream of JSON: the objects in its array, or in the arrays that its object has as members.

    A library for streamed JSON ends at the first error. This one only looks for where records begin and end, so what
    is broken stays within one record; records begin with the same two names, which is how the next one is found.
    """

    def __init__(self, place: str, chunks: Iterable[bytes]) -> None:
        self._place = place
        self._chunks = iter(chunks)
        self._buffer = b""
        self._offset = 0  # in the file, of the buffer
        self._start = 0  # in the buffer, of what is still needed
        self._at = 0  # in the buffer, of what is looked at next
        self._begins: re.Pattern[bytes] | None = None
        self._error = ""

    def found(self) -> Iterator[Record | Broken]:
        """Yield the records."""
        outer: list[bytes] = []  # brackets around the records
        key = ""
        while (token := self._token()) is not None:
            text = token.group()
            if text.startswith(b'"'):
                key = text[1:-1].decode("utf-8", "replace") if outer == [b"{"] else key
            elif text in (b"}", b"]"):
                outer = outer[:-1] if len(outer) > 1 else outer  # a stray bracket ends nothing
            elif not outer or (outer == [b"{"] and text == b"["):
                outer.append(text)
            else:
                self._start = token.start()
                yield self._record(key)
            self._start = self._at
        if self._error:
            yield Broken(self._place, f"it can't be read to its end: {self._error}")

    def _record(self, key: str) -> Record | Broken:
        """Return the record whose bracket was just read, and stand behind it."""
        place = f"{self._place}, byte {self._offset + self._start:,}"
        depth = 1
        while depth and depth <= MOST_DEEP and (bracket := self._bracket()):
            depth += 1 if bracket in b"{[" else -1
        read = self._at if depth == 0 else len(self._buffer)
        if read - self._start > MOST_OF_ONE:
            broken = Broken(place, f"it is larger than {MOST_OF_ONE >> 20} MB")
        elif depth == 0:
            found = _parsed(memoryview(self._buffer)[self._start : self._at], place)
            if isinstance(found, Record):
                self._learn()
                return Record(place, key, found.value)
            broken = found
        elif depth > MOST_DEEP:
            broken = Broken(place, f"it has more than {MOST_DEEP} levels")
        else:
            broken = Broken(place, "it ends in the middle")
        self._go_on(balanced=depth == 0)
        return broken

    def _learn(self) -> None:
        """Note how a record begins."""
        if self._begins is None and (names := _BEGINS.match(self._buffer, self._start)):
            first, second = map(re.escape, names.groups())
            self._begins = re.compile(
                rb'\{\s*+"'
                + first
                + rb'"\s*+:\s*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^,"{}\[\]]*+)\s*+,\s*+"'
                + second
                + rb'"'
            )

    def _go_on(self, *, balanced: bool) -> None:
        """Stand where the next record begins, after one that is broken."""
        swallowed = self._begins and self._begins.search(self._buffer, self._start + 1, self._at)
        if balanced and not swallowed and (self._begins is None or _NEXT.match(self._buffer, self._at)):
            return
        if self._begins is None:
            self._at = self._start = len(self._buffer)
            return
        self._start += 1
        while (next_one := self._begins.search(self._buffer, self._start)) is None:
            self._start = self._at = max(self._start, len(self._buffer) - MARKER)
            if not self._more():
                self._start = self._at = len(self._buffer)
                return
        self._start = self._at = next_one.start()

    def _token(self) -> re.Match[bytes] | None:
        """Return the next string or bracket, with as much more read as that takes; None at the end."""
        while True:
            token = _TOKEN.search(self._buffer, self._at)
            if token is not None and (token.group(1) or token.group()[:1] != b'"'):
                self._at = token.end()
                return token
            self._at = len(self._buffer) if token is None else token.start()
            if len(self._buffer) - self._start > MOST_OF_ONE or not self._more():
                return None

    def _bracket(self) -> bytes:
        """Return the next bracket outside of strings, with as much more read as that takes; empty at the end."""
        while (found := _BRACKET.match(self._buffer, self._at)) is None:
            if len(self._buffer) - self._start > MOST_OF_ONE or not self._more():
                return b""
        self._at = found.end()
        return found[1]

    def _more(self) -> bool:
        """Read on, by as much as is there already, so that long strings are not looked through too often."""
        kept = self._buffer[self._start :]
        self._offset += self._start
        self._at -= self._start
        self._start = 0
        read = []
        try:
            for _ in range(max(1, len(kept) // CHUNK)):
                if not (chunk := next(self._chunks, b"")):
                    break
                read.append(chunk)
        except ValueError as error:
            self._error = str(error)
        self._buffer = b"".join([kept, *read])
        return bool(read)
