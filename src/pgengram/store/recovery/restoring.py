"""Backups in the place of a database: their rows in our own tables, compared before anything goes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from pgengram.errors import Conflict, NotReady
from pgengram.runtime.process_setup import event_loop
from pgengram.store.connection import locks
from pgengram.store.maintenance import indexes
from pgengram.store.memory import deletion
from pgengram.store.recovery import archive, backup
from pgengram.store.recovery.archive import Manifest
from pgengram.store.recovery.backup import one
from pgengram.store.schema import place
from pgengram.store.schema.migrate import connected, known_versions, make_new, migrate, newest_version
from pgengram.store.schema.rights import VERSION_TABLE

Report = Callable[[str], None]

NAME_LENGTH: Final = 50  # of 63, which leaves room for what is added to it
SHOWN: Final = 10  # of what is in the way
LEAVING_S: Final = 5  # the server process of a client that has left is there for a moment longer
CONNECTED: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = %s AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
LOCALE: Final = """
SELECT datcollate, datctype FROM pg_database WHERE datname = %s AND datlocprovider = 'c'
"""
MAY: Final = """
SELECT r.rolsuper OR r.rolcreatedb AS make, pg_has_role(d.datdba, 'USAGE') AS own
FROM pg_roles r, pg_database d WHERE r.rolname = current_user AND d.datname = current_database()
"""
# What a database itself says: its settings, also those for a role in it, and who may connect.
SETTINGS: Final = """
SELECT CASE WHEN s.setrole <> 0 THEN s.setrole::regrole::text END, split_part(c, '=', 1), substr(c, strpos(c, '=') + 1)
FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase, unnest(s.setconfig) AS c WHERE d.datname = %s
"""
RIGHTS: Final = """
SELECT a.grantee::regrole::text, a.grantee = 0, a.privilege_type FROM pg_database d, aclexplode(d.datacl) a
WHERE d.datname = %s AND a.grantee <> d.datdba
"""
LISTS: Final = ("search_path", "session_preload_libraries", "local_preload_libraries", "temp_tablespaces")
FOREIGN_KEYS: Final = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE contype = 'f' AND connamespace = quote_ident(current_schema())::regnamespace
"""
FORCED: Final = """
SELECT relname FROM pg_class WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relforcerowsecurity
"""
MODELS: Final = "SELECT id, dimensions FROM embedding_models WHERE built_at IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore erased again, whom it lets in, and what of the file it left out."""

    again: deletion.Again
    access: Renewed
    left_out: list[str] = field(default_factory=list)


def restore_backup(
    url: str, path: Path, report: Report = lambda _: None, keep: Callable[[str], None] | None = None
) -> Restored:
    """Put the rows that a backup holds in the place of the database of `url`.

    A new database gets the tables of the backup's version from our own migrations and the rows from the file, whose
    statements are never run. It is compared with the manifest row by row, and migrated. What the former database knows
    to have been erased since is erased there too, and whom it shut out stays out. Then `keep` is called with the URL of
    the former one, the two change their names in one transaction, and only then is the former one removed.

    Raises:
        InvalidInput: the file is damaged or no backup.
        Conflict: somebody else is connected to the database, or it holds what is not ours.
        NotReady: the backup is of a newer pgengram, the login may not do that, or PostgreSQL refuses something. The
            database is as it was.
    """
    report("Checking the backup")
    manifest = archive.read_manifest(path)
    if manifest.schema not in known_versions():
        raise NotReady(
            f"The backup has schema {manifest.schema}, which this pgengram does not know: it is of a newer pgengram, "
            f"or of "
            "a build from before the first release.",
            f"Nothing was changed. Restore it with the version that wrote it ({manifest.pgengram}).",
        )
    try:
        with backup.reached(url) as (connection, pinned):
            found = place.look(connection)
            expect_nothing_else(connection, found)
            expect_restorable(connection, found)
            name, beside = connection.info.dbname, _first_of(connection, "postgres", "template1")
        with backup.reached(in_database(url, beside)) as (server, _):
            server.autocommit = True
            return _Replacement(server, pinned, name, found).run(path, manifest, report, keep)
    except psycopg.Error as error:
        raise _not_ready(error) from error


def expect_nothing_else(connection: psycopg.Connection[Any], found: place.Place) -> None:
    """Refuse to replace a database with what is not pgengram's, as no backup of ours holds that.

    Raises:
        Conflict: there is such a thing.
    """
    if others := backup.foreign(connection, found):
        names = ", ".join(map(str, others[:SHOWN])) + (", …" if len(others) > SHOWN else "")
        raise Conflict(
            f"The database {found.database} also holds what is not pgengram's, which would be lost: {names}.",
            "Nothing was changed. Take that to a database of its own, or drop it, then call again.",
        )


def in_database(url: str, name: str) -> str:
    """Return the connection string `url` with another database in it."""
    return make_conninfo(url, dbname=name)


@dataclass(frozen=True, slots=True)
class _Replacement:
    """A database that takes the place of another one.

    Args:
        server: a connection beside both, each statement of which is a transaction.
        url: of the database that is replaced.
        name: of it.
        found: what the login sees there.
    """

    server: psycopg.Connection[Any]
    url: str
    name: str
    found: place.Place

    def run(self, path: Path, manifest: Manifest, report: Report, keep: Callable[[str], None] | None) -> Restored:
        incoming, outgoing = f"{self.name[:NAME_LENGTH]}_incoming", f"{self.name[:NAME_LENGTH]}_outgoing"
        _refuse_if_used(self.server, self.name)
        _drop_database(self.server, incoming)  # of an attempt that was broken off
        fresh = in_database(self.url, incoming)
        try:
            report("Restoring into a new database")
            self._create(fresh, incoming)
            loaded = _fill_tables(fresh, path, manifest, report)
            if manifest.schema != newest_version():
                report("Bringing the schema up to date")
                migrate(fresh)
            with backup.reached(fresh) as (_, pinned):
                fresh = pinned
            gone, known = self._known()
            renewed = renew(fresh, known)
            again = deletion.repeat(fresh, gone, report)
            _build_indexes(fresh)
            with psycopg.connect(fresh, autocommit=True) as connection:
                connection.execute("ANALYZE")
            self._take_over(incoming)
            if keep is not None and self._holds_something():
                report("Keeping the store as it is")
                keep(self.url)
            _swap(self.server, self.name, incoming, outgoing)
        except BaseException:
            _drop_database(self.server, incoming)
            raise
        _drop_database(self.server, outgoing)
        return Restored(again, renewed, loaded.left_out)

    def _holds_something(self) -> bool:
        """Whether a restore would lose a memory or a conversation."""
        with connected(self.url) as connection:
            if place.version(connection, self.found) is None:
                return False
            backup.sight(connection)
            row = connection.execute("SELECT EXISTS (SELECT FROM memories) OR EXISTS (SELECT FROM conversation_turns)")
            return bool((row.fetchone() or [False])[0])

    def _known(self) -> tuple[deletion.Gone, Access]:
        """Return what the former database knows to have been erased, and whom it lets in."""
        with connected(self.url) as connection:
            if place.version(connection, place.look(connection)) is None:
                return deletion.Gone(), Access()
            backup.sight(connection)
            return deletion.erased_in_store(connection), read_access(connection)

    def _create(self, fresh: str, name: str) -> None:
        """Make an empty database like the former one: its locale, schemas, and where pgvector is."""
        empty = self._template()
        options: sql.Composable = sql.SQL("")
        locale = self.server.execute(LOCALE, [self.name]).fetchone()
        if locale and self.found.may_make_vector:  # another template than the empty one has its own
            given = locale if self.found.encoding == "UTF8" else ("C", "C")
            options = sql.SQL(" ENCODING 'UTF8' LC_COLLATE {} LC_CTYPE {}").format(*map(sql.Literal, given))
        made = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(empty))
        self.server.execute(made + options)
        with psycopg.connect(in_database(fresh, name)) as connection:
            for schema in filter(None, (self.found.home, self.found.vector_schema)):
                connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
            if self.found.vector_schema and not place.look(connection).vector:
                vector = sql.SQL("CREATE EXTENSION vector WITH SCHEMA {}")
                connection.execute(vector.format(sql.Identifier(self.found.vector_schema)))

    def _template(self) -> str:
        """Return the template: an untouched one, or the one with pgvector, which the login may not make itself."""
        return _first_of(self.server, "template0", "template1") if self.found.may_make_vector else "template1"

    def _take_over(self, name: str) -> None:
        """Give the new database the settings of the former one, and let the same roles connect."""
        new = sql.Identifier(name)
        for role, setting, value in self.server.execute(SETTINGS, [self.name]).fetchall():
            of = (
                sql.SQL("ROLE {} IN DATABASE {}").format(sql.SQL(role), new)
                if role
                else sql.SQL("DATABASE {}").format(new)
            )
            text = sql.SQL(value) if setting in LISTS else sql.Literal(value)
            self.server.execute(sql.SQL("ALTER {} SET {} TO {}").format(of, sql.Identifier(setting), text))
        rights = self.server.execute(RIGHTS, [self.name]).fetchall()
        [default] = one(self.server, "SELECT datacl IS NULL FROM pg_database WHERE datname = %s", [self.name])
        if not default:
            self.server.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(new))
        for role, public, right in rights:
            grantee = sql.SQL("PUBLIC" if public else role)
            self.server.execute(sql.SQL("GRANT {} ON DATABASE {} TO {}").format(sql.SQL(right), new, grantee))


def _fill_tables(url: str, path: Path, manifest: Manifest, report: Report) -> archive.Loaded:
    """Make the tables of the backup's version, put the rows in, and compare them."""
    if manifest.schema == newest_version():
        make_new(url)
    else:
        migrate(url, manifest.schema)
    with backup.reached(url) as (connection, _):
        forced = [sql.Identifier(name) for (name,) in connection.execute(FORCED).fetchall()]
        tables = [
            name for (name, *_) in connection.execute(backup.COLUMNS, {"tables": backup.table_names()}).fetchall()
        ]
        keys = connection.execute(FOREIGN_KEYS).fetchall()
        for table, key, _ in keys:  # rows come in no order of theirs
            connection.execute(sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(sql.SQL(table), sql.Identifier(key)))
        connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(map(sql.Identifier, tables))))
        for table in forced:  # nothing is copied into a table whose rows its owner may not see
            connection.execute(sql.SQL("ALTER TABLE {} NO FORCE ROW LEVEL SECURITY").format(table))
        with archive.opened(path) as (_, dump):
            loaded = archive.load_dump(connection, dump, tables)
        report("Comparing every row")
        _compare(connection, manifest)
        for table, key, definition in keys:
            added = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} ").format(sql.SQL(table), sql.Identifier(key))
            connection.execute(added + sql.SQL(definition))
        for table in forced:
            connection.execute(sql.SQL("ALTER TABLE {} FORCE ROW LEVEL SECURITY").format(table))
    return loaded


def _compare(connection: psycopg.Connection[Any], manifest: Manifest) -> None:
    there = backup.prints(connection)
    said = {name: print_ for name, print_ in manifest.tables.items() if name != VERSION_TABLE}
    if there != said:
        different = sorted(name for name in there | said if there.get(name) != said.get(name))
        raise NotReady(
            f"The restored data differs from the backup: {', '.join(different)}.", "The store was left as it was."
        )


def _build_indexes(url: str) -> None:
    """Build the indexes of vectors, which are in no backup's rows, where there are enough of these."""
    with connected(url) as connection:
        models = connection.execute(MODELS).fetchall()
    with asyncio.Runner(loop_factory=event_loop) as runner:
        for model_id, dimensions in models:
            runner.run(indexes.maintain(url, model_id, dimensions))


def expect_restorable(connection: psycopg.Connection[Any], found: place.Place) -> None:
    """Refuse what a restore would fail at: making a database, and pgvector in it.

    Raises:
        NotReady: the login may not do one of these.
    """
    make, own = one(connection, MAY)
    if not (make and own):
        raise NotReady(
            f"The login {found.login} is not allowed to replace the database {found.database}.",
            f"Nothing was changed. It must own the database, and: ALTER ROLE {found.login} CREATEDB;",
        )
    if not found.may_make_vector and not _has_vector(connection.info.dsn, connection.info.password):
        raise NotReady(
            f"The login {found.login} may not make the extension vector in a new database, which a restore needs.",
            "Nothing was changed. An administrator runs in the database template1: CREATE EXTENSION vector;",
        )


def _has_vector(dsn: str, password: str) -> bool:
    """Whether new databases have pgvector by themselves."""
    with connected(make_conninfo(dsn, dbname="template1", password=password or None)) as connection:
        return place.look(connection).vector is not None


def _first_of(connection: psycopg.Connection[Any], usual: str, otherwise: str) -> str:
    """Return the usual database where the server has it; our own server has fewer than others."""
    known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [usual]).fetchone()
    return usual if known else otherwise


def _refuse_if_used(server: psycopg.Connection[Any], name: str) -> None:
    """Make sure that nobody restores the database at the same moment and that nobody uses it."""
    [locked] = one(server, "SELECT pg_try_advisory_lock(%s, hashtext(%s))", [locks.RESTORE, name[:NAME_LENGTH]])
    if not locked:
        raise Conflict("Another restore of this database is in progress.", "Wait for it; nothing was changed.")
    deadline = time.monotonic() + LEAVING_S
    while others := one(server, CONNECTED, [name])[0]:
        if time.monotonic() > deadline:
            raise _in_use(others)
        time.sleep(0.05)


def _swap(server: psycopg.Connection[Any], name: str, incoming: str, outgoing: str) -> None:
    """Let the new database take the name of the former one: both or neither is renamed."""
    _drop_database(server, outgoing)
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


def _drop_database(server: psycopg.Connection[Any], name: str) -> None:
    """Remove one of the two databases that only a restore knows, also from under whoever outlived it."""
    server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _not_ready(error: psycopg.Error) -> NotReady:
    state = error.sqlstate or "unknown"
    if state == "42501":
        return NotReady(
            "This login is not allowed to replace the database.",
            "It must own the database and have CREATEDB; nothing was changed.",
        )
    return NotReady(f"PostgreSQL refused the restore (SQLSTATE {state}).", "The store was left as it was.")


# The tables by which somebody is let in, in the order in which their rows can be added, and the column that says when
# one was ended.
ENDED: Final = {"oauth_grants": "revoked_at", "access_tokens": "revoked_at", "passkeys": "removed_at"}
READ: Final = "SELECT coalesce(jsonb_agg(t), '[]') FROM {table} AS t"
END: Final = """
UPDATE {table} AS t SET {ended} = known.{ended} FROM jsonb_populate_recordset(NULL::{table}, %(rows)s) AS known
WHERE t.id = known.id AND t.{ended} IS NULL AND known.{ended} IS NOT NULL
"""
ADD_ENDED: Final = """
INSERT INTO {table} SELECT known.* FROM jsonb_populate_recordset(NULL::{table}, %(rows)s) AS known
WHERE known.{ended} IS NOT NULL AND EXISTS (SELECT FROM namespaces n WHERE n.name = known.namespace) {condition}
ON CONFLICT DO NOTHING
"""
CONDITIONS: Final = {
    "access_tokens": "AND (known.grant_id IS NULL OR EXISTS (SELECT FROM oauth_grants g WHERE g.id = known.grant_id))"
}
FORGET_KEYS: Final = "UPDATE passkeys SET credential = NULL WHERE removed_at IS NOT NULL"
# A program that has refreshed since goes on with what it was given last, and with nothing older.
GO_ON: Final = """
UPDATE oauth_grants AS t SET generation = known.generation, refresh_hash = known.refresh_hash,
  previous_hash = known.previous_hash, rotated_at = known.rotated_at
FROM jsonb_populate_recordset(NULL::oauth_grants, %(rows)s) AS known
WHERE t.id = known.id AND t.generation < known.generation
"""
COUNT_ON: Final = """
UPDATE passkeys AS t SET sign_count = known.sign_count, last_used_at = known.last_used_at
FROM jsonb_populate_recordset(NULL::passkeys, %(rows)s) AS known
WHERE t.id = known.id AND t.sign_count < known.sign_count
"""
# Codes that wait may have been used since; they last for minutes only.
FORGET_WAITING: Final = "DELETE FROM oauth_requests; DELETE FROM pairing_codes"
COUNT_UNKNOWN: Final = """
SELECT (SELECT count(*) FROM access_tokens WHERE grant_id IS NULL AND revoked_at IS NULL
    AND coalesce(expires_at > now(), true) AND NOT id = ANY(%(access_tokens)s))
  + (SELECT count(*) FROM oauth_grants WHERE revoked_at IS NULL AND expires_at > now() AND NOT id = ANY(%(oauth_grants)s))
  + (SELECT count(*) FROM passkeys WHERE removed_at IS NULL AND NOT id = ANY(%(passkeys)s))
"""


@dataclass(frozen=True, slots=True)
class Access:
    """Whom a store lets in, and whom no longer: rows as JSON, by their table."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {table: [] for table in ENDED})


@dataclass(frozen=True, slots=True)
class Renewed:
    """What came of the access that a backup holds.

    ended: tokens, connections and passkeys that were ended again.
    unknown: those that are good and that the replaced store did not have.
    """

    ended: int = 0
    unknown: int = 0


def read_access(connection: psycopg.Connection[Any]) -> Access:
    """Return whom a store lets in, and whom no longer."""
    found = {}
    for table in ENDED:
        [found[table]] = connection.execute(READ.format(table=table)).fetchone() or [[]]
    return Access(found)


def renew(url: str, known: Access) -> Renewed:
    """End again in a restored database what the one that it replaces had ended.

    Raises:
        psycopg.Error: that failed; nothing was changed.
    """
    ended = 0
    with psycopg.connect(url) as connection:
        connection.execute(FORGET_WAITING)
        for table, column in ENDED.items():
            names = {"table": table, "ended": column, "condition": CONDITIONS.get(table, "")}
            rows = {"rows": Jsonb(known.rows[table])}
            ended += connection.execute(END.format(**names), rows).rowcount
            connection.execute(ADD_ENDED.format(**names), rows)
        connection.execute(GO_ON, {"rows": Jsonb(known.rows["oauth_grants"])})
        connection.execute(COUNT_ON, {"rows": Jsonb(known.rows["passkeys"])})
        connection.execute(FORGET_KEYS)
        ids = {table: [row["id"] for row in rows] for table, rows in known.rows.items()}
        row = connection.execute(COUNT_UNKNOWN, ids).fetchone()
    return Renewed(ended, int(row[0]) if row else 0)
