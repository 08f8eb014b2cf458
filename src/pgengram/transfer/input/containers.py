"""Compressed files, read piece by piece and within bounds: gzip, Zstandard, xz and bzip2."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import sqlite3
import stat
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, cast

from pgengram.errors import InvalidInput
from pgengram.transfer.input.json_records import Broken

BOMB: Final = (64 << 20, 200)  # bytes unpacked, and how many times as many as packed, that together are a bomb
TOO_MUCH: Final = f"it unpacks to more than {BOMB[1]} times its size"
ENCRYPTED: Final = "age"
# How each begins, and what unpacks it where this can't.
BEGINS: Final = {
    b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\0": "xz", b"BZh": "bzip2",
    b"age-encryption.org/": ENCRYPTED, b"-----BEGIN AGE ENCRY": ENCRYPTED, b"\x04\x22\x4d\x18": "lz4", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!\x1a\x07": "unrar", b"\x1f\x9d": "uncompress",
}  # fmt: skip
CHUNK: Final = 1 << 20  # bytes read at once
READ: Final = frozenset({"gzip", "zstd", "xz", "bzip2"})
ENDINGS: Final = frozenset({".gz", ".zst", ".zstd", ".xz", ".bz2", ".lz4", ".7z", ".rar", ".Z"})
# Of several files, which are not read inside a folder, and what to do with each.
ARCHIVES: Final = {".zip": "an archive, which can be imported by itself"} | dict.fromkeys(
    (".tar", ".tgz", ".7z", ".rar"), "an archive: unpack it and import the folder"
)
MOST_OF_A_MARK: Final = max(map(len, BEGINS))


def plain_name(path: PurePosixPath) -> PurePosixPath:
    """Return what a file is called once it is unpacked."""
    return path.with_suffix("") if path.suffix in ENDINGS and path.stem else path


def compression_of(begins: bytes) -> str:
    """Return how a file that begins so is compressed; empty where it is not."""
    if begins[1:4] == b"\x2a\x4d\x18" and begins[0] >> 4 == 5:  # a frame of Zstandard that is skipped, before others
        return "zstd"
    return next((name for mark, name in BEGINS.items() if begins.startswith(mark)), "")


def _unpacked_stream(packed: BinaryIO, how: str) -> BinaryIO:
    """Return a compressed stream as the stream that it was.

    Raises:
        ValueError: it is compressed in a way that is not read.
    """
    if how == ENCRYPTED:
        raise ValueError("it is encrypted; `pgengram import` asks for its passphrase where it is given alone")
    if how not in READ:
        raise ValueError(f"it is compressed; unpack it with {how} and import that")
    match how:
        case "gzip":
            opened: Any = gzip.GzipFile(fileobj=packed)
        case "zstd":
            opened = _zstd().ZstdFile(packed)
        case "xz":
            opened = lzma.LZMAFile(packed)  # noqa: SIM115 - it ends with what it reads
        case _:
            opened = bz2.BZ2File(packed)
    return cast("BinaryIO", opened)


def read_unpacked(opened: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield what a stream of `size` bytes holds: unpacked if it is compressed, and otherwise no more than its size."""
    begins = opened.read(min(MOST_OF_A_MARK, size))
    how = compression_of(begins)
    if how:
        opened.seek(0)
        stream = _unpacked_stream(opened, how)
        while chunk := stream.read(CHUNK):
            yield chunk
        return
    chunk = begins + opened.read(min(CHUNK, size - len(begins)))
    while chunk:
        size -= len(chunk)
        yield chunk
        chunk = opened.read(min(CHUNK, size))


def _zstd() -> Any:
    """Return the module of the standard library, which older versions of Python have as a package; loading it takes a
    moment that only an import with such a file pays.
    """
    return importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def refuse_bomb(read: int, packed: int) -> None:
    """Refuse what unpacks to far more than any text does.

    Raises:
        ValueError: it does.
    """
    if read > BOMB[0] and read > BOMB[1] * packed:
        raise ValueError(TOO_MUCH)


LEADS_OUT: Final = "it leads out of the folder"


def changed_at(entry: zipfile.ZipInfo) -> datetime | None:
    """Return when a file of a zip was changed; a zip knows no time zone, and 1980 is none."""
    try:
        return datetime(*entry.date_time, tzinfo=UTC) if entry.date_time[0] > 1980 else None
    except ValueError:
        return None


def entry_path(entry: zipfile.ZipInfo) -> str:
    """Return the path of a file in a zip: Windows may write backslashes, and macOS UTF-8 without saying so."""
    name = entry.filename
    if not entry.flag_bits & 0x800:
        with suppress(UnicodeError):
            name = name.encode("cp437").decode()
    return name.replace("\\", "/")


def leads_out(parts: tuple[str, ...]) -> bool:
    """Whether a path of these parts is absolute, begins with a drive, or climbs."""
    return ".." in parts or parts[:1] == ("/",) or any(":" in part for part in parts[:1])


def unreadable(entry: zipfile.ZipInfo) -> str:
    """Return why a file of a zip is not read; empty where it is."""
    if stat.S_ISLNK(entry.external_attr >> 16):
        return LEADS_OUT
    try:
        refuse_bomb(entry.file_size, entry.compress_size)
    except ValueError as error:
        return str(error)
    return "it is encrypted" if entry.flag_bits & 1 else ""


SQLITE: Final = b"SQLite format 3\0"  # as such a file begins


def read_only(path: Path) -> sqlite3.Connection:
    """Open a database so that nothing of it can change."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def schema_of(path: Path) -> bytes:
    """Return the statements that made a database's tables; nothing of what is none."""
    try:
        with closing(read_only(path)) as connection:
            rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    except sqlite3.DatabaseError:
        return b""
    return "\n".join(row[0] for row in rows).encode()


def damage_of(path: Path) -> str:
    """Return why nothing of a database can be read; empty where something can."""
    try:
        with closing(read_only(path)) as connection:
            connection.execute("SELECT name FROM sqlite_master").fetchall()
    except sqlite3.DatabaseError as error:
        return f"it is damaged ({error}); `sqlite3 FILE .recover | sqlite3 NEW` saves what is left"
    return ""


class Tables:
    """The tables of a SQLite database, read without changing it; what is damaged is told, and the rest is read.

    Args:
        path: where it can be opened.
        name: as a report calls it.
        faults: gets what can't be read.

    Raises:
        InvalidInput: the file is none, or its beginning is damaged.
    """

    def __init__(self, path: Path, name: str, faults: list[Broken]) -> None:
        self._path, self._name, self._faults = path, name, faults
        hint = "Give the path of the other system's database file."
        with path.open("rb") as opened:
            if opened.read(len(SQLITE)) != SQLITE:
                raise InvalidInput(f"{name} is not a SQLite database.", hint)
        if damage := damage_of(path):
            raise InvalidInput(f"{name}: {damage}.", "Nothing was imported.")
        with closing(read_only(path)) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        self.names = {row[0] for row in found}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return all rows of a table in the order in which they were added; none when it is not there."""
        if table not in self.names:
            return []
        quoted = '"' + table.replace('"', '""') + '"'
        rows: list[dict[str, Any]] = []
        try:
            with closing(read_only(self._path)) as connection:
                connection.row_factory = sqlite3.Row
                connection.text_factory = lambda text: text.decode("utf-8", "replace")
                named = connection.execute(f"SELECT * FROM {quoted} LIMIT 0").description  # noqa: S608 - the file's own name
                order = "rowid" if not _without_rowid(connection, table) else f'"{named[0][0]}"'
                for row in connection.execute(f"SELECT * FROM {quoted} ORDER BY {order}"):  # noqa: S608
                    rows.append(dict(row))  # noqa: PERF401 - those before a damaged one are kept
        except sqlite3.Error as error:
            reason = f"the rest of it can't be read after {len(rows):,} rows: {error}"
            self._faults.append(Broken(f"{self._name}, table {table}", reason))
        return rows

    def needed(self, table: str, *columns: str) -> list[dict[str, Any]]:
        """Return all rows of a table that must be there, with these columns.

        Raises:
            InvalidInput: it is not.
        """
        rows = self.rows(table)
        if table not in self.names or any(rows and column not in rows[0] for column in columns):
            raise InvalidInput(
                f"{self._name} has no table {table} with {', '.join(columns)}.",
                "Give the path of the other system's database file.",
            )
        return rows


def _without_rowid(connection: sqlite3.Connection, table: str) -> bool:
    made = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [table]).fetchone()
    return bool(made and made[0] and "WITHOUT ROWID" in made[0].upper())
