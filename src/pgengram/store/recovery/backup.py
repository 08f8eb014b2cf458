"""Whole databases into files and back, each checked by counts and hashes of all rows before anything is replaced.

A backup is a tar of two files: `manifest.json`, which says what must come back, and `database.dump` in pg_dump's custom
format, which pg_restore understands without us.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgengram import __version__
from pgengram.errors import Conflict, InvalidInput, NotReady
from pgengram.postgres import programs
from pgengram.runtime.system.files import move
from pgengram.store.connection import locks, pooler
from pgengram.store.connection.server import HAS_CITUS
from pgengram.store.recovery import deletion_log
from pgengram.store.schema.migrate import (
    FIND_VERSION,
    HAS_VERSION,
    IS_DISTRIBUTED,
    known_versions,
    migrate,
    newest_version,
)

FORMAT: Final = 1
MANIFEST, DUMP = "manifest.json", "database.dump"
CHUNK: Final = 1 << 20
NAME_LENGTH: Final = 50  # of 63, which leaves room for what is added to it
NOT_ONE: Final = "Give the path of a file that `pgengram backup` has written. Nothing was changed."

# Values are compared as text, which the server shall write in one way only; rows hidden by row-level security shall be
# an error, not missing.
AS_TEXT: Final = """
SELECT set_config('datestyle', 'ISO, YMD', false), set_config('timezone', 'UTC', false),
       set_config('intervalstyle', 'iso_8601', false), set_config('bytea_output', 'hex', false),
       set_config('extra_float_digits', '1', false), set_config('statement_timeout', '0', false),
       set_config('row_security', 'off', false)
"""
# What the lasting tables hold, without what they work out themselves; uses pg_class_relname_nsp_index.
COLUMNS: Final = """
SELECT c.relname, array_agg(a.attname ORDER BY a.attname)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'p' GROUP BY c.relname ORDER BY c.relname
"""
# The order of rows is no part of what they say. Reads the whole table.
PRINT_OF_ROWS: Final = """
SELECT count(*), encode(sha256(coalesce(string_agg(print, ''::bytea ORDER BY print), ''::bytea)), 'hex')
FROM (SELECT sha256(convert_to(ROW({columns})::text, 'UTF8')) AS print FROM {table}) AS rows
"""
# Names the login of the server that made the dump, which may be unknown here.
OF_LOGIN: Final = "POLICY public memory_vectors maintenance"
LEAVING_S: Final = 5  # the server process of a client that has left is there for a moment longer
CONNECTED: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = %s AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
LOCALE: Final = """
SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database WHERE datname = %s AND datlocprovider = 'c'
"""

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Manifest:
    """What a backup holds.

    tables: of each table the number of its rows and a hash over all of them, whatever their order.
    dump_sha256, dump_bytes: of the dump inside the backup.
    """

    format: int
    pgengram: str
    schema: str
    postgres: str
    made_at: str
    dump_sha256: str
    dump_bytes: int
    tables: Tables

    @property
    def memories(self) -> int:
        """How many memories it holds, forgotten ones too."""
        return int(self.tables.get("memories", {}).get("rows", 0))


def make(url: str, path: Path) -> Manifest:
    """Write the whole database into the file `path`, which only its owner can read and which is complete or not there.

    Others may go on writing: the backup is of one moment.

    Raises:
        NotReady: the database cannot be reached, read as a whole, or dumped.
        InvalidInput: the file cannot be written.
    """
    with _unfinished(path) as (draft, dump), _reached(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        schema = _schema(connection)
        if schema is None:
            raise NotReady("There is nothing to back up: the database has no memories yet.", "Store one first.")
        tables = prints(connection)
        [snapshot] = _one(connection, "SELECT pg_export_snapshot()")
        tools = programs.programs_for(connection.info.server_version // 10_000)
        programs.dump(tools, url, dump, snapshot)
        with dump.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        version = ".".join(map(str, divmod(connection.info.server_version, 10_000)))
        at = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = Manifest(FORMAT, __version__, schema, version, at, digest, dump.stat().st_size, tables)
        _pack(draft, manifest, dump)
    return manifest


def read(path: Path) -> Manifest:
    """Return what a backup holds, after every byte of it was compared with its hash.

    Raises:
        InvalidInput: it is damaged or not a backup.
    """
    with _opened(path) as (manifest, dump):
        digest = hashlib.sha256()
        while chunk := dump.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != manifest.dump_sha256:
        raise InvalidInput(f"{path} is damaged: the dump doesn't match its hash.", "Nothing was changed.")
    return manifest


def restore(url: str, path: Path, report: Callable[[str], None] = lambda _: None) -> deletion_log.Again:
    """Put what a backup holds in the place of the database of `url`; return what of it was erased again.

    Everything is restored into a new database, compared with the manifest row by row, and migrated. What the former
    database knows to have been erased since is erased there too. Then the two change their names in one transaction,
    and only then is the former one removed.

    Raises:
        InvalidInput: the file is damaged or no backup.
        Conflict: somebody else is connected to the database.
        NotReady: the backup is of a newer pgengram, or PostgreSQL refuses something. The database is as it was.
    """
    report("Checking the backup")
    manifest = read(path)
    if manifest.schema not in known_versions():
        raise NotReady(
            f"The backup was written by a newer pgengram ({manifest.pgengram}, schema {manifest.schema}).",
            "Install that version; nothing was changed.",
        )
    with _reached(url) as connection:
        name, beside = connection.info.dbname, _first_of(connection, "postgres", "template1")
    try:
        with _reached(in_database(url, beside)) as server:
            server.autocommit = True
            return _replace(server, url, name, path, manifest, report)
    except psycopg.Error as error:
        raise _refused(error) from error


def _replace(
    server: psycopg.Connection[Any], url: str, name: str, path: Path, manifest: Manifest, report: Callable[[str], None]
) -> deletion_log.Again:
    incoming, outgoing = f"{name[:NAME_LENGTH]}_incoming", f"{name[:NAME_LENGTH]}_outgoing"
    _alone(server, name)
    _drop(server, incoming)  # of an attempt that was broken off
    fresh = _created(server, url, name, incoming)
    try:
        report("Restoring into a new database")
        _fill(fresh, path, manifest)
        report("Comparing every row")
        _compare(fresh, manifest)
        if manifest.schema != newest_version():
            report("Bringing the schema up to date")
            migrate(fresh)
        with psycopg.connect(url) as connection:
            gone = deletion_log.gone(connection)
        again = deletion_log.repeat(fresh, gone, report)
        with psycopg.connect(fresh, autocommit=True) as connection:
            connection.execute("ANALYZE")
        _swap(server, name, incoming, outgoing)
    except BaseException:
        _drop(server, incoming)
        raise
    _drop(server, outgoing)
    return again


def prints(connection: psycopg.Connection[Any]) -> Tables:
    """Return of each table how many rows it has and a hash over them; what the tables generate themselves is left out.

    Raises:
        NotReady: row-level security hides rows from this login.
    """
    connection.execute(AS_TEXT)
    found: Tables = {}
    try:
        for table, columns in connection.execute(COLUMNS).fetchall():
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            rows, digest = _one(connection, sql.SQL(PRINT_OF_ROWS).format(columns=names, table=sql.Identifier(table)))
            found[table] = {"rows": rows, "sha256": digest}
    except psycopg.errors.InsufficientPrivilege as error:
        raise NotReady(
            "This login cannot read the rows of all namespaces.",
            "Set PGENGRAM_DATABASE_URL to a superuser or a role with BYPASSRLS.",
        ) from error
    return found


def in_database(url: str, name: str) -> str:
    """Return the connection string `url` with another database in it."""
    return make_conninfo(url, dbname=name)


def _created(server: psycopg.Connection[Any], url: str, like: str, name: str) -> str:
    """Make an empty database with the locale of another and return its URL."""
    locale = server.execute(LOCALE, [like]).fetchone()
    options: sql.Composable = sql.SQL("")
    if locale is not None:
        encoding, collate, ctype = map(sql.Literal, locale)
        options = sql.SQL(" ENCODING {} LC_COLLATE {} LC_CTYPE {}").format(encoding, collate, ctype)
    empty = _first_of(server, "template0", "template1")
    made = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(empty))
    server.execute(made + options)
    return in_database(url, name)


def _first_of(server: psycopg.Connection[Any], usual: str, otherwise: str) -> str:
    """Return the usual database where the server has it; our own server has fewer than others."""
    known = server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [usual]).fetchone()
    return usual if known else otherwise


def _fill(url: str, path: Path, manifest: Manifest) -> None:
    from pgengram.store.schema import tables

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in tables.ROLE:
            connection.execute(statement.encode())
        major = connection.info.server_version // 10_000
    made_by = int(manifest.postgres.partition(".")[0])
    with tempfile.TemporaryDirectory(prefix="pgengram-restore-") as folder, _opened(path) as (_, packed):
        dump = Path(folder) / DUMP
        with dump.open("xb") as file:
            while chunk := packed.read(CHUNK):
                file.write(chunk)
        programs.restore(programs.programs_for(max(major, made_by)), url, dump, without=OF_LOGIN)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(tables.MAINTENANCE_POLICY)


def _compare(url: str, manifest: Manifest) -> None:
    with psycopg.connect(url) as connection:
        there = prints(connection)
    if there != manifest.tables:
        different = sorted(name for name in there | manifest.tables if there.get(name) != manifest.tables.get(name))
        raise NotReady(
            f"The restored data differs from the backup: {', '.join(different)}.", "The store was left as it was."
        )


def _alone(server: psycopg.Connection[Any], name: str) -> None:
    """Make sure that nobody restores the database at the same moment and that nobody uses it."""
    [locked] = _one(server, "SELECT pg_try_advisory_lock(%s, hashtext(%s))", [locks.RESTORE, name[:NAME_LENGTH]])
    if not locked:
        raise Conflict("Another restore of this database is in progress.", "Wait for it; nothing was changed.")
    deadline = time.monotonic() + LEAVING_S
    while others := _one(server, CONNECTED, [name])[0]:
        if time.monotonic() > deadline:
            raise _in_use(others)
        time.sleep(0.05)


def _swap(server: psycopg.Connection[Any], name: str, incoming: str, outgoing: str) -> None:
    """Let the new database take the name of the former one: both or neither is renamed."""
    _drop(server, outgoing)
    rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
    try:
        with server.transaction():
            server.execute(rename.format(sql.Identifier(name), sql.Identifier(outgoing)))
            server.execute(rename.format(sql.Identifier(incoming), sql.Identifier(name)))
    except psycopg.errors.ObjectInUse as error:
        raise _in_use(1) from error


def _in_use(others: int) -> Conflict:
    return Conflict(
        f"The store is in use ({others} connection{'s' if others > 1 else ''} to its database).",
        "Close the assistants and other programs that use it, then call again; nothing was changed.",
    )


def _drop(server: psycopg.Connection[Any], name: str) -> None:
    """Remove one of the two databases that only a restore knows, also from under a pg_restore that outlived its
    caller.
    """
    server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _refused(error: psycopg.Error) -> NotReady:
    state = error.sqlstate or "unknown"
    if state == "42501":
        return NotReady(
            "This login is not allowed to replace the database.",
            "It must own the database and have CREATEDB; nothing was changed.",
        )
    return NotReady(f"PostgreSQL refused the restore (SQLSTATE {state}).", "The store was left as it was.")


def _schema(connection: psycopg.Connection[Any]) -> str | None:
    [has] = _one(connection, HAS_VERSION)
    row = connection.execute(FIND_VERSION).fetchone() if has else None
    return str(row[0]) if row else None


def _one(connection: psycopg.Connection[Any], statement: Any, parameters: Any = None) -> tuple[Any, ...]:
    row = connection.execute(statement, parameters).fetchone()
    if row is None:
        raise NotReady("PostgreSQL gave no answer.")
    return tuple(row)


@contextmanager
def _reached(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Connect to a database, for as long as the block runs."""
    try:
        connection = psycopg.connect(url, connect_timeout=10)
    except psycopg.Error as error:
        raise NotReady(
            f"The database cannot be reached: {type(error).__name__}.", "`pgengram doctor` says more."
        ) from error
    with connection:
        pooler.refuse_behind(connection)
        _refuse_cluster(connection)
        connection.rollback()  # whoever uses it says how its transaction begins
        yield connection


def _refuse_cluster(connection: psycopg.Connection[Any]) -> None:
    if connection.execute(HAS_CITUS).fetchone() and connection.execute(IS_DISTRIBUTED).fetchone():
        raise NotReady(
            "This store is spread over several machines, which one file cannot hold.",
            "Back up each machine with its own tools, or `pgengram export` each namespace: "
            "docs/how-to/run-a-cluster.md.",
        )


@contextmanager
def _unfinished(path: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the paths of a draft and of its dump; the draft takes its name when it is complete and on the disk."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InvalidInput(f"{path} cannot be written.", "Give the path of a file in a folder that exists.")
    draft, dump = (path.with_name(f"{path.name}.{word}") for word in ("unfinished", "dump"))
    try:
        for one in (draft, dump):
            one.unlink(missing_ok=True)
            os.close(os.open(one, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield draft, dump
        move(draft, path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.", "Give another path.") from error
    finally:
        for one in (draft, dump):
            one.unlink(missing_ok=True)


def _pack(draft: Path, manifest: Manifest, dump: Path) -> None:
    text = json.dumps(asdict(manifest), indent=2).encode() + b"\n"
    with draft.open("wb") as file:
        with tarfile.open(fileobj=file, mode="w") as packed:
            entry = tarfile.TarInfo(MANIFEST)
            entry.size, entry.mode = len(text), 0o600
            packed.addfile(entry, io.BytesIO(text))
            packed.add(dump, arcname=DUMP, filter=_nobodys)
        file.flush()
        os.fsync(file.fileno())


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Manifest, IO[bytes]]]:
    """Yield what a backup says of itself, and its dump."""
    try:
        with tarfile.open(path, mode="r:") as packed:
            about, dump = (packed.extractfile(packed.getmember(name)) for name in (MANIFEST, DUMP))
            if about is None or dump is None:
                raise InvalidInput(f"{path} is not a backup.", NOT_ONE)
            said = json.load(about)
            if said.get("format") != FORMAT:
                raise InvalidInput(f"{path} has a format that this version doesn't know.", NOT_ONE)
            yield Manifest(**said), dump
    except FileNotFoundError as error:
        raise InvalidInput(f"There is no file {path}.", NOT_ONE) from error
    except (tarfile.TarError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"{path} is damaged or not a backup.", NOT_ONE) from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read and unpacked: {error.strerror}.", NOT_ONE) from error
