"""Conversations that were imported: they are kept until they are erased, and have a title.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import run

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns."""
    run("ALTER TABLE conversations ADD COLUMN title text, ADD COLUMN imported boolean DEFAULT false NOT NULL")
