"""Brings a database's schema to this version, once, however many servers start together."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg

from pgengram.errors import NotReady, PgengramError
from pgengram.postgres.process_locks import NO_WINDOW
from pgengram.runtime import module_command
from pgengram.store.connection import locks
from pgengram.store.connection.begin import HAS_CITUS
from pgengram.store.connection.translation import parsed
from pgengram.store.schema import place as places

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection


NO_VECTOR: Final = ("0A000", "58P01", "42704")  # no such extension on this server, or one without halfvec
IN_THE_WAY: Final = ("42P07", "42710", "42723")  # a table, another object or a function of that name is there
NEW_STORE: Final = "new_store.sql"  # beside the migrations: what they do to an empty database, as one text
COMMENTS: Final = "comments.sql"  # beside it: what docs/reference/schema.md says of tables and columns
MADE: Final = re.compile(r"^CREATE (?:UNIQUE |UNLOGGED )*(?:TABLE|INDEX|VIEW) (\w+)", re.MULTILINE)
SEARCH_PATH: Final = "SELECT set_config('search_path', %s, true)"
# On a cluster a migration goes to each machine by one connection, so that a step sees what the one before it did;
# elsewhere unknown.
ONE_BY_ONE: Final = "SELECT set_config('citus.multi_shard_modify_mode', 'sequential', true)"


@dataclass(frozen=True, slots=True)
class State:
    """What a server finds before it uses a database.

    version: of the schema, None where there is no store; search_path: what its connections have to set, if anything.
    holds: whether the application and maintenance have the rights that they need.
    """

    version: str | None
    search_path: str | None
    holds: bool

    @property
    def ready(self) -> bool:
        """Whether there is nothing to migrate."""
        return self.version == newest_version() and self.holds


def migrations_folder() -> Path:
    """Return the folder of the migrations: inside the installed package, or beside `src` in a checkout."""
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "migrations", package.parents[1] / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise NotReady("The migrations are missing from the installation.", "Reinstall pgengram.")


@cache
def newest_version() -> str:
    """Return the schema version that the migrations lead to: the number that the name of the last one begins with."""
    return max(file.name for file in (migrations_folder() / "versions").glob("[0-9]*.py")).partition("_")[0]


def state(url: str) -> State:
    """Return how a database's schema is.

    Raises:
        NotReady: the database cannot be reached.
    """
    try:
        with connected(url) as connection:
            place = places.look(connection)
            version = places.version(connection, place)
            return State(version, place.search_path, version is None or places.holds(connection, place))
    except psycopg.Error as error:
        raise _unreachable(error) from error


def make_new(url: str) -> None:
    """Make the tables of a store in a database without one, all or none, without the migrations and what these import;
    leave a store or a cluster as it is.

    Raises:
        NotReady: as `migrate`.
    """
    statements = (migrations_folder() / NEW_STORE).read_text(encoding="utf-8")
    try:
        with connected(url, prepare_threshold=None) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [locks.MIGRATION])
            place = places.look(connection)
            if places.version(connection, place) is not None or connection.execute(HAS_CITUS).fetchone():
                return
            places.expect_room_for_a_store(connection, place, MADE.findall(statements))
            if place.search_path is not None:
                connection.execute(SEARCH_PATH, [place.search_path])
            connection.execute(statements.encode())
            places.expect_open(connection, place)
    except psycopg.OperationalError as error:
        raise _unreachable(error) from error
    except psycopg.Error as error:
        raise _migration_refused(error) from error


def migrate(url: str, target: str = "head") -> str | None:
    """Bring the schema to this version and return the one it had; the rights are made what they must be in any case.

    Args:
        url: of the database.
        target: an older version to stop at, to read what a program of that version has written.

    Raises:
        NotReady: the database cannot be reached, is newer than this program, or refuses the change.
    """
    try:
        with connected(url) as connection:
            place = places.look(connection)
        return _upgrade(places.pinned(url, place.search_path), target)
    except psycopg.Error as error:
        raise _unreachable(error) from error


def known_versions() -> set[str]:
    """Return the schema versions that this program can read or bring up to date."""
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


def finish(connection: Connection) -> None:
    """Make the rights and comments what they must be, on a schema of this version."""
    for statement in finishing_statements():
        connection.exec_driver_sql(statement.replace("%", "%%"))


def finishing_statements() -> list[str]:
    """Return what is run after all migrations, whenever any was."""
    from pgengram.store.schema.tables import rights_statements

    comments = (migrations_folder() / COMMENTS).read_text(encoding="utf-8")
    return [*rights_statements(), *(one for one in comments.split(";\n") if one)]


def connected(url: str, **how: Any) -> psycopg.Connection[Any]:
    """Return a connection to a database whose texts come as text, whatever its encoding is."""
    parsed(url)  # the driver's own error for one that it cannot read has pieces of it
    return psycopg.connect(url, connect_timeout=10, client_encoding="utf8", **how)


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)  # noqa: S101 - no other is ever made
    return driver


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _upgrade(url: str, target: str) -> str | None:
    from alembic import command
    from sqlalchemy import create_engine, event, text
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import NullPool

    config = _config()
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: connected(url, prepare_threshold=None), poolclass=NullPool
    )
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(ONE_BY_ONE))
    try:
        # The lock is a transaction's, for a pooler's sake, and each migration is another: so it is held by the first
        # connection.
        with engine.connect() as turn, engine.connect() as connection:
            turn.execute(text("SELECT set_config('idle_in_transaction_session_timeout', '0', true)"))
            turn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": locks.MIGRATION})
            before = _expect_ours(_driver(connection))
            connection.rollback()
            config.attributes["connection"] = connection
            config.attributes["at once"] = before is None
            command.upgrade(config, target)
            connection.commit()
            return before
    except DBAPIError as error:
        raise _migration_refused(error.orig) from error
    finally:
        engine.dispose()


def _expect_ours(connection: psycopg.Connection[Any]) -> str | None:
    """Return the version of a store that can be brought up to date, None where one can be made."""
    place = places.look(connection)
    before = places.version(connection, place)
    if before is None:
        names = MADE.findall((migrations_folder() / NEW_STORE).read_text(encoding="utf-8"))
        places.expect_room_for_a_store(connection, place, names)
    elif before not in known_versions():
        known_to_us = f"this one knows up to {newest_version()}"
        raise NotReady(
            f"The store was written by a newer pgengram (schema {before}); {known_to_us}.",
            "Install the newer version; nothing was changed.",
        )
    else:
        places.expect_changeable(place)
    return before


def _unreachable(error: psycopg.Error) -> NotReady:
    return NotReady(
        f"The database cannot be used: {type(error).__name__}.",
        "Check that the server runs and that PGENGRAM_DATABASE_URL is right; `pgengram doctor` says more.",
    )


def _migration_refused(error: BaseException | None) -> NotReady:
    found = getattr(error, "sqlstate", None)
    if found in NO_VECTOR:
        return NotReady(
            "This PostgreSQL has no pgvector 0.8 or newer.",
            "Install pgvector on the server, or leave PGENGRAM_DATABASE_URL empty to use the embedded PostgreSQL.",
        )
    if found in IN_THE_WAY:
        return NotReady(
            "The database has something of another program that is called as pgengram's.",
            "Nothing was changed. Give pgengram a database of its own.",
        )
    return NotReady(
        f"PostgreSQL refused the schema change (SQLSTATE {found}).",
        "Nothing was changed. The login must own the tables that are there, and the database.",
    )


def migrate_apart(url: str) -> None:
    """Bring a schema to this version, in another process, with which the 25 MB of its imports end. Blocks.
    Raises:
        NotReady: as `migrate`.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    how = {"text": True, "encoding": "utf-8", "creationflags": NO_WINDOW} | pipes
    process = subprocess.Popen(module_command(__name__), **how)  # type: ignore[call-overload]  # noqa: S603
    answer, _ = process.communicate(json.dumps(url))
    if process.returncode != 0:
        raise NotReady("The process that updates the schema stopped.", "See the log (stderr).")
    if answer:
        raise NotReady(*json.loads(answer))


def main() -> None:
    """Migrate the database whose URL comes; without one do nothing, as whoever started this is gone."""
    url = sys.stdin.read()
    if not url:
        return
    try:
        migrate(json.loads(url))
    except PgengramError as error:
        sys.stdout.write(json.dumps([error.message, error.hint]))


if __name__ == "__main__":
    main()
