"""What an import is given, a file, a folder or a zip of one, as streams of bytes that stay within bounds.

Nothing is unpacked to disk and no file is read whole: a gigabyte passes through a few megabytes of memory.
"""

from __future__ import annotations

import codecs
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, cast

from pgengram.errors import InvalidInput
from pgengram.transfer.input import containers
from pgengram.transfer.input.containers import (
    MOST_OF_A_MARK,
    SQLITE,
    compression_of,
    damage_of,
    plain_name,
    read_unpacked,
    refuse_bomb,
    schema_of,
)
from pgengram.transfer.input.json_records import (
    MOST_OF_ONE,
    Broken,
    Record,
    RecordForms,
    Records,
    objects_in_line,
    parsed_record,
)

MOST_OF_ALL: Final = 64 << 30  # bytes of all files of a zip, unpacked
MOST_FILES: Final = 200_000
MOST_BESIDE: Final = 48 << 20  # bytes of a hidden file that is asked for by its name
PACKERS: Final = ("zlib", "lzma", "bz2", "zstd", "backports", "compression")  # modules of errors of packed bytes
HEAD: Final = 64 << 10  # bytes that tell which format a file has


@dataclass(frozen=True, slots=True)
class File:
    """One file: its path below what was given, without what only says how it is compressed, its size, and why it is
    not read, if so.
    """

    path: PurePosixPath
    size: int
    reason: str = ""
    found: str = ""  # its path as it is there, where that differs
    entry: int = 0  # its number in the zip
    modified: datetime | None = None

    @property
    def place(self) -> str:
        """How a report calls it."""
        return legible(self.found or str(self.path))


def legible(text: str) -> str:
    """Return a text that can be printed and stored: names of files may hold bytes that are not UTF-8."""
    return text.encode("utf-8", "replace").decode()


def is_one_of(file: File, patterns: Iterable[str]) -> bool:
    """Whether a file's name, or its path below what was given, fits one of the patterns."""
    return any(fnmatch(file.path.name, one) or fnmatch(str(file.path), one) for one in patterns)


class Source:
    """What was given to an import.

    Args:
        path: a file, a folder or a zip of one.
        encoding: of its texts, where they are not in Unicode.

    Attributes:
        done: bytes read so far.
        total: bytes of all files.
        faults: what of its databases can't be read, which whoever reads them needs not tell.

    Raises:
        InvalidInput: there is nothing at `path`, the zip is broken or has too many files, or there is no such encoding.
    """

    def __init__(self, path: Path, encoding: str = "", name: str = "") -> None:
        self.path = path
        self._name = name or path.name
        self.encoding = encoding
        self.done = 0
        self.faults: list[Broken] = []
        try:
            codecs.lookup(encoding or "utf-8")
        except LookupError:
            raise InvalidInput(f"Unknown encoding {encoding}.", "Common ones are cp1252 and shift_jis.") from None
        self._zip: zipfile.ZipFile | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of databases that were unpacked
        self.files = sorted(self._found(), key=lambda file: file.path)
        if len(self.files) > MOST_FILES:
            raise InvalidInput(f"{path} has more than {MOST_FILES:,} files.", "Import a part of it.")
        self.total = sum(file.size for file in self.files if not file.reason)

    @property
    def folder(self) -> str:
        """What the folder is called that was given, or from which a file was; empty where nobody says."""
        path = self.path.absolute()
        found = path.name if path.is_dir() else path.stem if self._zip else path.parent.name
        return found if self._name == self.path.name else ""

    def _found(self) -> Iterator[File]:
        try:
            if self.path.is_dir():
                yield from self._of_folder()
            elif self.path.is_file() and zipfile.is_zipfile(self.path):
                yield from self._of_zip()
            elif self.path.is_file():
                self._refuse_torn_zip()
                stat_ = self.path.stat()
                path = plain_name(PurePosixPath(self._name))
                yield File(path, stat_.st_size, found=self._name, modified=_at(stat_.st_mtime))
            else:
                raise InvalidInput(f"There is no file or folder {self.path}.", "Give the path of what was exported.")
        except (OSError, RuntimeError, ValueError) as error:  # no right to look there, a link to itself, a zero byte
            raise InvalidInput(f"{self.path} can't be read: {error}.", "Give the path of what was exported.") from None

    def _refuse_torn_zip(self) -> None:
        with self.path.open("rb") as opened:
            if opened.read(4) == b"PK\3\4":
                raise InvalidInput(f"{self.path} is a broken zip: its end is missing.", "Download or create it again.")

    def _of_folder(self) -> Iterator[File]:
        root = self.path.resolve()
        unreadable: list[OSError] = []
        for folder, folders, names in os.walk(self.path, onerror=unreadable.append):
            above = Path(folder)
            folders[:] = sorted(one for one in folders if not one.startswith("."))
            for name in sorted([*names, *(one for one in folders if (above / one).is_symlink())]):
                if not name.startswith(".") and (found := self._of_disk(above / name, root)):
                    yield found
        for error in unreadable:
            yield File(PurePosixPath(_below(Path(error.filename), self.path)), 0, f"it can't be read: {error.strerror}")

    def _of_disk(self, path: Path, root: Path) -> File | None:
        """Return a file of a folder; nothing of what is none, such as a link to a folder that is read anyway."""
        below = _below(path, self.path)
        plain = plain_name(PurePosixPath(legible(below)))
        try:
            if not path.resolve(strict=True).is_relative_to(root):
                return File(plain, 0, containers.LEADS_OUT, below)
            if not path.is_file():
                return None
            stat_ = path.stat()
        except (OSError, RuntimeError) as error:  # a link that leads nowhere or to itself
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is a link to itself"
            return File(plain, 0, f"it can't be read: {reason}", below)
        return File(plain, stat_.st_size, "", below, modified=_at(stat_.st_mtime))

    def _of_zip(self) -> Iterator[File]:
        try:
            self._zip = zipfile.ZipFile(self.path)
            entries = self._zip.infolist()
        except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
            raise InvalidInput(f"{self.path} is a broken zip: {error}.", "Download or create it again.") from None
        if sum(entry.file_size for entry in entries) > MOST_OF_ALL:
            raise InvalidInput(f"{self.path} unpacks to more than {MOST_OF_ALL >> 30} GB.", "Import a part of it.")
        for number, entry in enumerate(entries):
            name = containers.entry_path(entry)
            path = PurePosixPath(name)
            outside = containers.leads_out(path.parts)
            hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
            if not name.endswith("/") and (outside or not hidden):
                reason = containers.LEADS_OUT if outside else containers.unreadable(entry)
                yield File(plain_name(path), entry.file_size, reason, name, number, containers.changed_at(entry))

    # -- bytes -----------------------------------------------------------------------------------------------------

    def _open(self, file: File) -> BinaryIO:
        if self._zip:
            return cast("BinaryIO", self._zip.open(self._zip.infolist()[file.entry]))
        return self._beneath(file).open("rb")

    def _beneath(self, file: File) -> Path:
        return self.path / (file.found or file.path) if self.path.is_dir() else self.path

    def on_disk(self, file: File) -> Path | None:
        """Return where a database can be opened, unpacked if it has to be; None where that fails."""
        if not self._zip and not self._is_compressed(file):
            return self._beneath(file)
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="pgengram-")
        place = Path(self._folder.name) / f"{self.files.index(file)}.db"
        if not place.exists():
            try:
                with place.open("wb") as unpacked_file:
                    unpacked_file.writelines(self._raw(file))
            except ValueError:
                place.unlink()
                return None
        return place

    def _is_compressed(self, file: File) -> bool:
        try:
            with self._open(file) as opened:
                return bool(compression_of(opened.read(MOST_OF_A_MARK)))
        except OSError:
            return False

    def _raw(self, file: File) -> Iterator[bytes]:
        """Yield the bytes of a file, unpacked.

        Raises:
            ValueError: it can't be read, or not to its end.
        """
        begin = self.done
        try:
            with self._open(file) as opened:
                read = 0
                for chunk in read_unpacked(opened, file.size):
                    read += len(chunk)
                    at = opened.tell()
                    refuse_bomb(read, at)
                    self.done = begin + at
                    yield chunk
        except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError) as error:
            raise ValueError(_why(error)) from None
        except Exception as error:  # each way to pack has its own error
            if type(error).__module__.lstrip("_").partition(".")[0] in PACKERS:
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
        archive = cast("zipfile.ZipFile", self._zip)
        for place in (name, *(f"{top}/{name}" for top in tops if len(tops) == 1)):
            if place in archive.NameToInfo and archive.getinfo(place).file_size <= MOST_BESIDE:
                return archive.read(place)
        return None

    def fault_of(self, file: File) -> str:
        """Return why there is nothing to read in a file; empty where there is."""
        done = self.done
        try:
            begins = next(self._raw(file), b"")
        except ValueError as error:
            return str(error)
        finally:
            self.done = done
        if begins.startswith(SQLITE):
            path = self.on_disk(file)
            return damage_of(path) if path else "it can't be unpacked"
        if begins[257:262] == b"ustar":
            return "it is a tar archive; unpack it and import the folder"
        return "" if begins else "it is empty"

    def begins(self, file: File) -> bytes:
        """Return the first bytes of a file; none where it can't be read."""
        done = self.done
        try:
            return next(self.chunks(file), b"")[:HEAD]
        except ValueError:
            return b""
        finally:
            self.done = done

    def head(self, file: File) -> bytes:
        """Return how a file begins; of a SQLite database the statements that made its tables."""
        done, begins = self.done, self.begins(file)
        path = self.on_disk(file) if begins.startswith(SQLITE) else None
        self.done = done
        return schema_of(path) if path else begins

    # -- what is in them -------------------------------------------------------------------------------------------

    def lines(self, file: File) -> Iterator[tuple[int, bytes | Broken]]:
        """Yield the lines of a file with their numbers, from 0."""
        number, size, skipping = 0, 0, False
        parts: list[bytes] = []  # of the line that is being read
        try:
            for chunk in self.chunks(file):
                for at, part in enumerate(chunk.split(b"\n")):
                    if at:
                        yield number, self._too_long(file, number) if skipping else b"".join(parts)
                        number, size, skipping, parts = number + 1, 0, False, []
                    parts.append(part)
                    size += len(part)
                    if size > MOST_OF_ONE:
                        size, skipping, parts = 0, True, []
        except ValueError as error:
            yield number, Broken(file.place, f"it can't be read to its end: {error}")
            return
        line = b"".join(parts)
        if line.strip() or skipping:
            yield number, self._too_long(file, number) if skipping else line

    def objects(self, file: File) -> Iterator[tuple[int, dict[str, Any] | Broken]]:
        """Yield the objects of a file of JSON lines with the numbers of their lines, from 0."""
        forms = RecordForms()
        for number, line in self.lines(file):
            if isinstance(line, Broken):
                yield number, line
                continue
            for found in objects_in_line(line, f"{file.place}, line {number + 1}", forms):
                yield number, found

    def records(self, file: File) -> Iterator[Record | Broken]:
        """Yield the objects of a JSON array, or of the arrays in a JSON object, one at a time.

        A record that is broken costs the others nothing: reading goes on where the next one begins.
        """
        return Records(file.place, self.chunks(file)).found()

    def whole(self, file: File) -> Any:
        """Return a small file of JSON; a `Broken` where it is none or too large."""
        try:
            found = parsed_record(self.content(file, MOST_OF_ONE), file.place)
        except ValueError as error:
            return Broken(file.place, str(error))
        return found.value if isinstance(found, Record) else found

    def content(self, file: File, most: int) -> bytes:
        """Return a file whole, as UTF-8.

        Raises:
            ValueError: it can't be read, or is larger than `most` bytes.
        """
        content = bytearray()
        try:
            for chunk in self.chunks(file):
                content += chunk
                if len(content) > most:
                    break
        except ValueError as error:
            raise ValueError(f"it can't be read: {error}") from None
        if len(content) > most:
            limit = f"{most >> 20} MB" if most >= MOST_OF_ONE else f"{most:,} bytes"
            raise ValueError(f"it is larger than {limit}")
        return bytes(content)

    @staticmethod
    def _too_long(file: File, number: int) -> Broken:
        return Broken(f"{file.place}, line {number + 1}", f"it is longer than {MOST_OF_ONE >> 20} MB")


def _below(path: Path, top: Path) -> str:
    return path.relative_to(top).as_posix()


def _at(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _why(error: Exception) -> str:
    """Return why a file can't be read, without its path."""
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or type(error).__name__


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
