"""Brings a database's schema to this version, once, however many servers start together."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

from pgengram.errors import NotReady
from pgengram.store.connection import locks
from pgengram.store.connection.server import HAS_CITUS

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection


NO_VECTOR: Final = ("0A000", "58P01", "42704")  # no such extension on this server, or one without halfvec
NEW_STORE: Final = "new_store.sql"  # beside the migrations: what they do to an empty database, as one text
IS_EMPTY: Final = "SELECT NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace)"
HAS_VERSION: Final = "SELECT to_regclass('alembic_version') IS NOT NULL"
FIND_VERSION: Final = "SELECT version_num FROM alembic_version"
IS_DISTRIBUTED: Final = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('public.memories')"
# On a cluster a migration goes to each machine by one connection, so that a step sees what the one before it did;
# elsewhere unknown.
ONE_BY_ONE: Final = "SELECT set_config('citus.multi_shard_modify_mode', 'sequential', true)"
BESIDE_MEMORIES: Final = "SELECT create_distributed_table('{table}', 'namespace_id', colocate_with => 'memories')"


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


def current_version(url: str) -> str | None:
    """Return the database's schema version, or None when it has none.

    Raises:
        NotReady: the database cannot be reached.
    """
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
            found = connection.execute(HAS_VERSION).fetchone()
            row = connection.execute(FIND_VERSION).fetchone() if found and found[0] else None
    except psycopg.Error as error:
        raise _unreachable(error) from error
    return row[0] if row else None


def make_new(url: str) -> None:
    """Make the tables of an empty database at once, without the migrations and what these import; leave any other as it
    is.

    Raises:
        NotReady: as `migrate`.
    """
    statements = (migrations_folder() / NEW_STORE).read_bytes()
    try:
        with psycopg.connect(url, prepare_threshold=None, connect_timeout=10) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [locks.MIGRATION])
            found = connection.execute(IS_EMPTY).fetchone()
            if found and found[0] and connection.execute(HAS_CITUS).fetchone() is None:
                connection.execute(statements)
    except psycopg.OperationalError as error:
        raise _unreachable(error) from error
    except psycopg.Error as error:
        raise _refused(error) from error


def migrate(url: str) -> str | None:
    """Bring the schema to this version and return the version it had; does nothing when it is up to date.

    Raises:
        NotReady: the database cannot be reached, is newer than this program, or refuses the change.
    """
    before = current_version(url)
    if before == newest_version():
        return before
    try:
        return _upgrade(url)
    except psycopg.Error as error:
        raise _unreachable(error) from error


def known_versions() -> set[str]:
    """Return the schema versions that this program can read or bring up to date."""
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


def beside_memories(connection: Connection, table: str) -> None:
    """Deal a namespace table that a migration has just made to where its namespaces' memories are, if the store is on a
    cluster.

    To be called while the table is empty and has no foreign keys: none may lead from one machine to a table that is on
    several.
    """
    if connection.exec_driver_sql(HAS_CITUS).first() and connection.exec_driver_sql(IS_DISTRIBUTED).first():
        connection.exec_driver_sql(BESIDE_MEMORIES.format(table=table))


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _upgrade(url: str) -> str | None:
    from alembic import command
    from sqlalchemy import create_engine, event, text
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import NullPool

    config, known = _config(), known_versions()
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url, prepare_threshold=None), poolclass=NullPool
    )
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(ONE_BY_ONE))
    try:
        # The lock is a transaction's, for a pooler's sake, and each migration is another: so it is held by the first
        # connection.
        with engine.connect() as turn, engine.connect() as connection:
            turn.execute(text("SELECT set_config('idle_in_transaction_session_timeout', '0', true)"))
            turn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": locks.MIGRATION})
            before = current_version(url)
            if before is not None and before not in known:
                known_to_us = f"this one knows up to {newest_version()}"
                raise NotReady(
                    f"The store was written by a newer pgengram (schema {before}); {known_to_us}.",
                    "Install the newer version; nothing was changed.",
                )
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()
            return before
    except DBAPIError as error:
        raise _refused(error.orig) from error
    finally:
        engine.dispose()


def _unreachable(error: psycopg.Error) -> NotReady:
    return NotReady(
        f"The database cannot be used: {type(error).__name__}.",
        "Check that the server runs and that PGENGRAM_DATABASE_URL is right; `pgengram doctor` says more.",
    )


def _refused(error: BaseException | None) -> NotReady:
    state = getattr(error, "sqlstate", None)
    if state in NO_VECTOR:
        return NotReady(
            "This PostgreSQL has no pgvector 0.8 or newer.",
            "Install pgvector on the server, or leave PGENGRAM_DATABASE_URL empty to use the embedded PostgreSQL.",
        )
    return NotReady(
        f"PostgreSQL refused the schema change (SQLSTATE {state}).",
        "The login must own the database and may need CREATEROLE; where it may not create the extension vector, an "
        "administrator runs CREATE EXTENSION vector once in this database.",
    )
