"""Runs the migrations on the connection handed over by pgengram.store.schema.migrate, or on PGENGRAM_DATABASE_URL."""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import create_engine

from pgengram.store.schema.tables import metadata


def migrate_on(connection) -> None:
    """Run each migration in a transaction of its own, so that a killed run goes on where it stopped."""
    context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    migrate_on(handed_over)
else:
    url = os.environ["PGENGRAM_DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://", 1)
    with create_engine(url).connect() as connection:
        migrate_on(connection)
