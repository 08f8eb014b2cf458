"""How a turn's source calls it, which turns were taken back, and what a conversation was forked from.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import run

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns; the turns that are there get their key when their source is read again."""
    run(
        "ALTER TABLE conversations ADD COLUMN forked_from text, ADD COLUMN withdrawn bigint[] DEFAULT '{}' NOT NULL, "
        "ADD COLUMN as_of timestamp with time zone, ADD COLUMN kept_from timestamp with time zone"
    )
    run("ALTER TABLE conversation_turns ADD COLUMN source_key bigint")
    run("CREATE INDEX conversation_turns_by_source ON conversation_turns (namespace_id, client, source_key)")
