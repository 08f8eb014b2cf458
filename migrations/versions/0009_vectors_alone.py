"""No words in bits beside the vectors: nothing is ranked by them any more.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import run

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Drop the column; PostgreSQL uses its room again as rows change."""
    run("ALTER TABLE memory_vectors DROP COLUMN words")
