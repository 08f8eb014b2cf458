"""The words of a memory, by which a question's words are compared with them.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import run

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column, empty: `pgengram reembed` fills it for the memories that are there."""
    run("ALTER TABLE memory_vectors ADD COLUMN words bytea")
    run("ALTER TABLE memory_vectors ALTER COLUMN words SET STORAGE EXTERNAL")
    run("ALTER TABLE memory_vectors ALTER COLUMN words SET STATISTICS 0")
