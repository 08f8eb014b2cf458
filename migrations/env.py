"""Runs the migrations on the connection handed over by pgengram.store.schema.migrate, or on PGENGRAM_DATABASE_URL.

For maintainers: `alembic upgrade head`, `current`, `check`, `history`, and `upgrade head --sql` from a checkout.
"""

from __future__ import annotations

import os
from typing import Any

import psycopg
from alembic import context
from alembic.util import CommandError
from sqlalchemy import Connection, create_engine
from sqlalchemy.dialects.postgresql import base

from pgengram.errors import NotReady
from pgengram.store.schema import migrate, place
from pgengram.store.schema.rights import VERSION_TABLE
from pgengram.store.schema.tables import HalfVector, metadata

COMMAND = getattr(context.config.cmd_opts, "cmd", [None])[0]
asked_for = getattr(COMMAND, "__name__", "")


def migrate_on(connection: Connection, *, changes: bool, at_once: bool) -> None:
    """Run each migration in a transaction of its own, so that a killed run goes on where it stopped; all of them in one
    where there is no store yet.
    """
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        transaction_per_migration=not at_once,
        include_object=declared,
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()
        if at_once and changes:
            finish(connection)
    if changes and not at_once:
        finish(connection)


def finish(connection: Connection) -> None:
    """Make the rights what they must be, unless an older version was asked for."""
    if place.version(driver := connection.connection.driver_connection, place.look(driver)) == migrate.newest_version():
        migrate.finish(connection)


def declared(_: Any, name: str | None, kind: str, reflected: bool, compared_to: Any) -> bool:
    """Whether `alembic check` looks at something: not at other programs' tables, nor at what only SQL can say."""
    if kind == "table" and reflected and compared_to is None:
        return False
    return not (kind == "index" and name in ("memories_by_occurrence",))


def url_of_the_store() -> str:
    """Return PGENGRAM_DATABASE_URL, in every form that libpq knows, with the search path that the store needs."""
    url = os.environ.get("PGENGRAM_DATABASE_URL", "")
    if not url:
        raise CommandError("PGENGRAM_DATABASE_URL is not set. Name the database: postgresql://login@host/database")
    try:
        with migrate.connected(url) as connection:
            return place.pinned(url, place.look(connection).search_path)
    except psycopg.Error as error:
        raise CommandError(f"The database of PGENGRAM_DATABASE_URL cannot be used: {type(error).__name__}.") from error


def write_down() -> None:
    """Write the statements of the migrations down, for `--sql`."""
    context.configure(
        dialect_name="postgresql",
        version_table=VERSION_TABLE,
        transaction_per_migration=False,
        target_metadata=metadata,
    )
    with context.begin_transaction():
        context.run_migrations()
        for statement in migrate.finishing_statements():
            context.get_context().impl.static_output(f"{statement.strip()};")


base.ischema_names["halfvec"] = HalfVector
if asked_for == "downgrade":
    raise CommandError(
        "There is no way back to an older schema: restore a backup made before, with `pgengram restore`."
    )
if context.is_offline_mode():
    write_down()
elif (handed_over := context.config.attributes.get("connection")) is not None:
    migrate_on(handed_over, changes=True, at_once=context.config.attributes.get("at once", False))
else:
    url = url_of_the_store()
    try:
        with create_engine("postgresql+psycopg://", creator=lambda: migrate.connected(url)).connect() as own:
            changes = asked_for == "upgrade"
            own.dialect.supports_comments = False  # they are made from the documentation, not from the tables
            at_once = changes and migrate._expect_ours(own.connection.driver_connection) is None
            own.rollback()
            migrate_on(own, changes=changes, at_once=at_once)
            own.commit()
    except NotReady as error:
        raise CommandError(f"{error.message} {error.hint}") from error
