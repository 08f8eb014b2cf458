"""Conversations that were imported: they are kept until they are erased, and have a title.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns."""
    op.get_bind().exec_driver_sql(
        "ALTER TABLE conversations ADD COLUMN title text, ADD COLUMN imported boolean DEFAULT false NOT NULL"
    )
