"""Whole stores into files: of one moment, with a count and a hash of each table's rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgengram import __version__
from pgengram.errors import NotReady
from pgengram.postgres import binaries
from pgengram.store.connection import pooler
from pgengram.store.connection.begin import HAS_CITUS
from pgengram.store.recovery import archive
from pgengram.store.recovery.archive import Manifest, Print, Tables
from pgengram.store.schema import migrate, place
from pgengram.store.schema.rights import VERSION_TABLE

# Values are compared as text, which the server shall write in one way only; rows hidden by row-level security shall be
# an error, not missing. The owner sees all by its policy, and says so.
AS_TEXT: Final = """
SELECT set_config('datestyle', 'ISO, YMD', false), set_config('timezone', 'UTC', false),
       set_config('intervalstyle', 'iso_8601', false), set_config('bytea_output', 'hex', false),
       set_config('extra_float_digits', '1', false), set_config('statement_timeout', '0', false),
       set_config('pgengram.maintenance', 'on', false),
       set_config('row_security', CASE WHEN %(passes)s THEN 'off' ELSE 'on' END, false)
"""
# Whether the login passes row-level security, and whether it sees all rows as their owner.
SIGHT: Final = """
SELECT r.rolsuper OR r.rolbypassrls AS passes, NOT EXISTS (
  SELECT FROM pg_class c
  WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relname = ANY (%(tables)s) AND c.relkind = 'r' AND NOT (
    pg_has_role(c.relowner, 'USAGE') AND (NOT c.relforcerowsecurity OR EXISTS (
      SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'maintenance' AND p.polroles = ARRAY[c.relowner])))
) AS owns FROM pg_roles r WHERE r.rolname = current_user
"""
# What the lasting tables hold, without what they work out themselves; uses pg_class_relname_nsp_index.
COLUMNS: Final = """
SELECT c.relname, array_agg(a.attname ORDER BY a.attname)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relname = ANY (%(tables)s) AND c.relkind = 'r'
  AND c.relpersistence = 'p'
GROUP BY c.relname ORDER BY c.relname
"""
# The order of rows is no part of what they say. Reads the whole table.
PRINT_OF_ROWS: Final = """
SELECT count(*), encode(sha256(coalesce(string_agg(print, ''::bytea ORDER BY print), ''::bytea)), 'hex')
FROM (SELECT sha256(convert_to(ROW({columns})::text, 'UTF8')) AS print FROM {table}) AS rows
"""
# Whatever is in the database and neither ours, an extension's nor PostgreSQL's.
FOREIGN: Final = """
WITH made AS (
  SELECT c.oid, n.nspname, c.relname AS name, c.relkind::text AS kind FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND c.relpersistence <> 't'
    AND NOT (n.nspname = %(home)s AND c.relname = ANY (%(tables)s))
    AND NOT EXISTS (SELECT FROM pg_depend d JOIN pg_class o ON o.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass
                    WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i'))
  UNION ALL
  SELECT p.oid, n.nspname, p.proname, 'function' FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE NOT (n.nspname = %(home)s AND p.proname LIKE 'pgengram\\_%%'))
SELECT m.nspname, m.name, m.kind FROM made m
WHERE m.nspname <> 'information_schema' AND m.nspname NOT LIKE 'pg\\_%%'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = m.oid AND d.deptype = 'e') ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class Sight:
    """How a login sees the rows of all namespaces: past row-level security, or as the tables' owner."""

    passes: bool
    owns: bool


@dataclass(frozen=True, slots=True)
class Foreign:
    """Something in the database that is not pgengram's: a relation's letter in pg_class, or `function`."""

    schema: str
    name: str
    kind: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" + ("()" if self.kind == "function" else "")


def write_backup(url: str, path: Path) -> tuple[Manifest, list[Foreign]]:
    """Write the whole store into the file `path`, which only its owner can read and which is complete or not there;
    return what of the database is not in it, as it is another program's.

    Others may go on writing: the backup is of one moment.

    Raises:
        NotReady: the database cannot be reached, read as a whole, or dumped.
        InvalidInput: the file cannot be written.
    """
    with archive.draft_archive(path) as (draft, dump), reached(url) as (connection, pinned):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        found = place.look(connection)
        schema = place.version(connection, found)
        if schema is None:
            raise NotReady("There is nothing to back up: the database has no memories yet.", "Store one first.")
        tables, others = prints(connection), foreign(connection, found)
        [snapshot] = one(connection, "SELECT pg_export_snapshot()")
        tools = binaries.programs_for(connection.info.server_version // 10_000)
        how = [] if sight(connection).passes else ["--enable-row-security"]
        binaries.dump(tools, _as_maintenance(pinned), dump, snapshot, [*how, *_without(others, found)])
        with dump.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        version = ".".join(map(str, divmod(connection.info.server_version, 10_000)))
        at = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = Manifest(archive.FORMAT, __version__, schema, version, at, digest, dump.stat().st_size, tables)
        archive.pack(draft, manifest, dump)
    return manifest, others


def prints(connection: psycopg.Connection[Any]) -> Tables:
    """Return of each table how many rows it has and a hash over them; what the tables generate themselves is left out.

    Raises:
        NotReady: row-level security hides rows from this login.
    """
    seen = sight(connection)
    connection.execute(AS_TEXT, {"passes": seen.passes})
    found: Tables = {}
    try:
        for table, columns in connection.execute(COLUMNS, {"tables": table_names()}).fetchall():
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            rows, digest = one(connection, sql.SQL(PRINT_OF_ROWS).format(columns=names, table=sql.Identifier(table)))
            found[table] = Print(rows=rows, sha256=digest)
    except psycopg.errors.InsufficientPrivilege as error:
        raise _rows_hidden() from error
    return found


def sight(connection: psycopg.Connection[Any]) -> Sight:
    """Return how the login sees the rows of all namespaces.

    Raises:
        NotReady: it does not.
    """
    passes, owns = one(connection, SIGHT, {"tables": table_names()})
    if not (passes or owns):
        raise _rows_hidden()
    return Sight(passes, owns)


def foreign(connection: psycopg.Connection[Any], found: place.Place) -> list[Foreign]:
    """Return what is in the database besides the store."""
    ours = [*table_names(), *views(), VERSION_TABLE]
    known = {"home": found.home, "tables": ours}
    return [Foreign(*row) for row in connection.execute(FOREIGN, known).fetchall()]


def table_names() -> list[str]:
    """Return the names of all tables with rows, of this version and those before it."""
    from pgengram.store.schema.tables import metadata

    return list(metadata.tables)


def views() -> tuple[str, ...]:
    """Return the names of the views."""
    from pgengram.store.schema.tables import VIEWS

    return tuple(VIEWS)


@contextmanager
def reached(url: str) -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """Connect to a database for as long as the block runs; yield the connection and the URL that finds the tables.

    Raises:
        NotReady: it cannot be reached, or is of a sort that one file cannot hold.
    """
    try:
        with migrate.connected(url) as looking:
            pinned = place.pinned(url, place.look(looking).search_path)
        connection = migrate.connected(pinned)
    except psycopg.Error as error:
        raise NotReady(
            f"The database cannot be reached: {type(error).__name__}.", "`pgengram doctor` says more."
        ) from error
    with connection:
        pooler.refuse_behind(connection)
        _refuse_cluster(connection)
        connection.rollback()  # whoever uses it says how its transaction begins
        yield connection, pinned


def one(connection: psycopg.Connection[Any], statement: Any, parameters: Any = None) -> tuple[Any, ...]:
    """Return the one row of a statement."""
    row = connection.execute(statement, parameters).fetchone()
    if row is None:
        raise NotReady("PostgreSQL gave no answer.")
    return tuple(row)


def _rows_hidden() -> NotReady:
    return NotReady(
        "This login cannot read the rows of all namespaces.",
        "Use the login that owns the tables, after `pgengram migrate`, or a superuser.",
    )


def _as_maintenance(url: str) -> str:
    """Return a connection string whose sessions see all namespaces' rows where they are the owner's."""
    options = conninfo_to_dict(url).get("options")
    return make_conninfo(url, options=f"{options or ''} -cpgengram.maintenance=on".strip())


def _without(others: list[Foreign], found: place.Place) -> list[str]:
    """Return the options that leave out what is not ours, which the login may not be allowed to read."""
    kept = {found.home, found.vector_schema}
    schemas = {other.schema for other in others if other.schema not in kept}
    relations = [other for other in others if other.schema in kept and other.kind != "function"]
    patterns = [sql.Identifier(other.schema, other.name).as_string() for other in relations]
    return [
        *(f"--exclude-schema={sql.Identifier(schema).as_string()}" for schema in sorted(schemas)),
        *(f"--exclude-table={pattern}" for pattern in patterns),
    ]


def _refuse_cluster(connection: psycopg.Connection[Any]) -> None:
    if connection.execute(HAS_CITUS).fetchone() and connection.execute(place.IS_DISTRIBUTED).fetchone():
        raise NotReady(
            "This store is spread over several machines, which one file cannot hold.",
            "Back up each machine with its own tools, or `pgengram export` each namespace: "
            "docs/how-to/run-a-cluster.md.",
        )
