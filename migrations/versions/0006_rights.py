"""No role but the owner and the application's reaches a table, whatever rights somebody is given.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import run

revision = "0006"
down_revision = "0005"

# A cluster copies these tables to its machines by ways of its own, so there it is the rights alone.
CLOSED = """DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
    ALTER TABLE decay_classes ENABLE ROW LEVEL SECURITY;
    ALTER TABLE embedding_models ENABLE ROW LEVEL SECURITY;
    ALTER TABLE access_tokens ENABLE ROW LEVEL SECURITY;
    ALTER TABLE client_rates ENABLE ROW LEVEL SECURITY;
    ALTER TABLE deletion_log ENABLE ROW LEVEL SECURITY;
    ALTER TABLE namespaces ENABLE ROW LEVEL SECURITY;
    CREATE POLICY readable ON decay_classes FOR SELECT USING (true);
    CREATE POLICY readable ON embedding_models FOR SELECT USING (true);
  END IF;
END $$"""


def upgrade() -> None:
    """Close the tables without a namespace; the rights themselves are made after every migration."""
    run(CLOSED)
