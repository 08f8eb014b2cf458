"""The file that a backup is: a tar of two files, `manifest.json`, which says what must come back, and `database.dump`
in pg_dump's custom format, which pg_restore understands without us.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Thread
from typing import IO, Annotated, Any, Final

import psycopg
from psycopg import sql
from pydantic import ConfigDict, Field, NonNegativeInt, TypeAdapter
from pydantic.dataclasses import dataclass as checked_dataclass
from typing_extensions import TypedDict

from pgengram.errors import InvalidInput, NotReady
from pgengram.postgres import binaries
from pgengram.runtime.operating_system import rename

FORMAT: Final = 1
MANIFEST, DUMP = "manifest.json", "database.dump"
MOST_MANIFEST_BYTES: Final = 1 << 20
CHUNK: Final = 1 << 20
NOT_ONE: Final = "Give the path of a file that `pgengram backup` has written. Nothing was changed."


class Print(TypedDict):
    """How many rows a table has, and a hash over all of them, whatever their order."""

    rows: NonNegativeInt
    sha256: str


Tables = dict[str, Print]


@checked_dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Manifest:
    """What a backup holds.

    schema: the version of the tables; postgres: of the server, as in 18.4; tables: what each table holds.
    dump_sha256, dump_bytes: of the dump inside the backup.
    """

    format: int
    pgengram: str
    schema: str
    postgres: Annotated[str, Field(pattern=r"^\d{1,4}(\.|$)")]
    made_at: str
    dump_sha256: str
    dump_bytes: int
    tables: Tables

    @property
    def memories(self) -> int:
        """How many memories it holds, forgotten ones too."""
        return self.tables["memories"]["rows"] if "memories" in self.tables else 0


_SHAPE: Final = TypeAdapter(Manifest)


def read_manifest(path: Path) -> Manifest:
    """Return what a backup holds, after every byte of it was compared with its hash.

    Raises:
        InvalidInput: it is damaged or not a backup.
    """
    with opened(path) as (manifest, dump):
        digest = hashlib.sha256()
        while chunk := dump.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != manifest.dump_sha256:
        raise InvalidInput(f"{path} is damaged: the dump doesn't match its hash.", "Nothing was changed.")
    return manifest


@contextmanager
def opened(path: Path) -> Iterator[tuple[Manifest, IO[bytes]]]:
    """Yield what a backup says of itself, and its dump."""
    try:
        with tarfile.open(path, mode="r:") as packed:
            about, dump = (packed.extractfile(packed.getmember(name)) for name in (MANIFEST, DUMP))
            if about is None or dump is None:
                raise InvalidInput(f"{path} is not a backup.", NOT_ONE)
            text = about.read(MOST_MANIFEST_BYTES)
            said = json.loads(text)
            if isinstance(said, dict) and said.get("format") != FORMAT:
                raise InvalidInput(f"{path} has a format that this version doesn't know.", NOT_ONE)
            yield _SHAPE.validate_json(text), dump
    except FileNotFoundError as error:
        raise InvalidInput(f"There is no file {path}.", NOT_ONE) from error
    except (tarfile.TarError, KeyError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is damaged or not a backup.", NOT_ONE) from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read and unpacked: {error.strerror}.", NOT_ONE) from error


@contextmanager
def draft_archive(path: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the paths of a draft and of its dump; the draft takes its name when it is complete and on the disk.

    Raises:
        InvalidInput: the file cannot be written.
    """
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InvalidInput(f"{path} cannot be written.", "Give the path of a file in a folder that exists.")
    draft, dump = (path.with_name(f"{path.name}.{word}") for word in ("unfinished", "dump"))
    try:
        for one in (draft, dump):
            one.unlink(missing_ok=True)
            os.close(os.open(one, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield draft, dump
        rename(draft, path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.", "Give another path.") from error
    finally:
        for one in (draft, dump):
            one.unlink(missing_ok=True)


def pack(draft: Path, manifest: Manifest, dump: Path) -> None:
    """Write the tar, down to the disk."""
    text = json.dumps(asdict(manifest), indent=2).encode() + b"\n"
    with draft.open("wb") as file:
        with tarfile.open(fileobj=file, mode="w") as packed:
            entry = tarfile.TarInfo(MANIFEST)
            entry.size, entry.mode = len(text), 0o600
            packed.addfile(entry, io.BytesIO(text))
            packed.add(dump, arcname=DUMP, filter=_without_owner)
        file.flush()
        os.fsync(file.fileno())


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


NAME: Final = r'"(?:[^"]|"")*"|[\w$]+'
COPY: Final = re.compile(rf"COPY (?:(?:{NAME})\.)?(?P<table>{NAME}) \((?P<columns>.+)\) FROM stdin;")
COLUMN: Final = re.compile(NAME)
SEQUENCE: Final = re.compile(
    rf"SELECT pg_catalog\.setval\('(?:(?:{NAME})\.)?(?P<name>{NAME})', (?P<value>\d+), (?P<called>true|false)\);"
)
ENCODING: Final = re.compile(r"SET client_encoding = '(\w+)';")
ENTRY: Final = re.compile(r"-- Name: (?P<name>.*); Type: (?P<kind>[A-Z ]+); Schema: ")
END: Final = b"\\.\n"
BATCH: Final = 1 << 16  # bytes sent at once
# What our own migrations make; of anything else somebody should know that it did not come along.
UNSAID: Final = {
    "ACL", "COMMENT", "CONSTRAINT", "CHECK CONSTRAINT", "DATABASE", "DATABASE PROPERTIES", "DEFAULT", "DEFAULT ACL",
    "FK CONSTRAINT", "POLICY", "ROW SECURITY", "SCHEMA", "SEQUENCE SET", "TABLE DATA",
}  # fmt: skip
NOT_LOADED: Final = {"alembic_version", "pgengram_version", "memories_now"}  # says the version; has no rows of its own
UNLOGGED: Final = {"client_rates"}  # no dump has its rows
EXTENSIONS: Final = {"vector", "plpgsql"}
SET_SEQUENCE: Final = "SELECT setval(%s::regclass, %s, %s)"


@dataclass(slots=True)
class Loaded:
    """What came out of a dump: which tables got rows, and what in it was left out."""

    tables: set[str] = field(default_factory=set)
    left_out: list[str] = field(default_factory=list)


def load_dump(connection: psycopg.Connection[Any], dump: IO[bytes], tables: Iterable[str]) -> Loaded:
    """Put the rows of a dump into tables that are there, empty.

    Args:
        connection: whose search path finds the tables; it is left inside a transaction.
        dump: in pg_dump's custom format.
        tables: the names of those that may be filled.

    Raises:
        NotReady: pg_restore cannot read it, or the rows do not fit the tables.
    """
    known, loaded = set(tables), Loaded()
    with _script_lines(dump) as lines:
        for line in lines:
            text = line.rstrip(b"\n").decode("utf-8", "replace")
            if copy := COPY.fullmatch(text):
                _take_rows(connection, lines, _unquoted(copy["table"]), copy["columns"], known, loaded)
            elif sequence := SEQUENCE.fullmatch(text):
                _position(connection, sequence, known)
            elif encoding := ENCODING.fullmatch(text):
                connection.execute("SELECT set_config('client_encoding', %s, true)", [encoding[1]])
            elif (entry := ENTRY.match(text)) and not _is_our_object(entry["kind"], entry["name"], known):
                loaded.left_out.append(f"{entry['kind'].lower()} {entry['name']}")
    connection.execute("SELECT set_config('client_encoding', 'UTF8', true)")
    return loaded


def _take_rows(
    connection: psycopg.Connection[Any],
    lines: Iterator[bytes],
    table: str,
    columns: str,
    known: set[str],
    loaded: Loaded,
) -> None:
    """Take the rows of one block of COPY; those of a table that is not ours are passed over."""
    if table not in known:
        for line in lines:
            if line == END:
                return
    names = sql.SQL(", ").join(sql.Identifier(_unquoted(name)) for name in COLUMN.findall(columns))
    batch = bytearray()
    try:
        with connection.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)) as copy:
            for line in lines:
                if line == END:
                    break
                batch += line
                if len(batch) > BATCH:
                    copy.write(bytes(batch))
                    batch.clear()
            copy.write(bytes(batch))
    except psycopg.Error as error:
        raise NotReady(
            f"The rows of {table} in the backup don't fit the table (SQLSTATE {error.sqlstate}).",
            "The store was left as it was.",
        ) from error
    loaded.tables.add(table)


def _position(connection: psycopg.Connection[Any], sequence: re.Match[str], known: set[str]) -> None:
    name = _unquoted(sequence["name"])
    if any(name == f"{table}_id_seq" for table in known):
        given = [sql.Identifier(name).as_string(), int(sequence["value"]), sequence["called"] == "true"]
        connection.execute(SET_SEQUENCE, given)


def _is_our_object(kind: str, name: str, known: set[str]) -> bool:
    if kind in UNSAID:
        return True
    if kind == "EXTENSION":
        return name in EXTENSIONS
    if kind == "FUNCTION":
        return name.startswith("pgengram_")
    if kind in ("INDEX", "SEQUENCE"):
        return any(name.startswith(f"{table}_") for table in (*known, *UNLOGGED))
    if kind == "TRIGGER":
        table, _, trigger = name.partition(" ")
        return table in known and trigger.startswith("pgengram_")
    return name in known or name in UNLOGGED or name in NOT_LOADED


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


@contextmanager
def _script_lines(dump: IO[bytes]) -> Iterator[Iterator[bytes]]:
    """Yield the lines of a dump as a script; nothing of it is ever in a file.

    Raises:
        NotReady: pg_restore cannot read it.
    """
    process = binaries.script_of_dump()
    assert process.stdin is not None  # noqa: S101 - all three are pipes
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    said: list[bytes] = []
    feeding = Thread(target=_fed, args=(dump, process.stdin), daemon=True)
    listening = Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
    feeding.start()
    listening.start()
    try:
        yield map(_with_plain_end, process.stdout)
        if process.wait():
            listening.join()
            raise NotReady(f"pg_restore failed.\n{b''.join(said[-binaries.SAID_LINES :]).decode(errors='replace')}")
    finally:
        process.kill()
        process.wait()
        feeding.join()
        listening.join()
        process.stdout.close()
        process.stderr.close()


def _with_plain_end(line: bytes) -> bytes:
    """Return a line as COPY takes it: on Windows pg_restore ends it with CR LF, while in a value CR is escaped."""
    return line[:-2] + b"\n" if line.endswith(b"\r\n") else line


def _fed(dump: IO[bytes], pipe: IO[bytes]) -> None:
    with suppress(OSError), pipe:  # it may have ended, and says itself why
        shutil.copyfileobj(dump, pipe, BATCH)
