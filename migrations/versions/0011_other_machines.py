"""What is exchanged with other machines: how, what was changed, what is known of it, and which files were read.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import beside_memories, run
from pgengram.store.schema.rights import row_level_security

revision = "0011"
down_revision = "0010"

TABLES = {
    "sync_settings": """
CREATE TABLE sync_settings (
  namespace_id integer NOT NULL,
  secret bytea NOT NULL,
  folder text NOT NULL,
  device text NOT NULL,
  device_name text NOT NULL,
  writers text[] DEFAULT '{}'::text[] NOT NULL,
  since timestamp with time zone DEFAULT now() NOT NULL,
  problem text,
  failed_at timestamp with time zone,
  CONSTRAINT sync_settings_pkey PRIMARY KEY (namespace_id)
)""",
    "sync_changes": """
CREATE TABLE sync_changes (
  namespace_id integer NOT NULL,
  kind text NOT NULL,
  key text NOT NULL,
  at timestamp with time zone NOT NULL,
  uses boolean NOT NULL,
  CONSTRAINT sync_changes_pkey PRIMARY KEY (namespace_id, kind, key)
)""",
    "sync_documents": """
CREATE TABLE sync_documents (
  namespace_id integer NOT NULL,
  kind text NOT NULL,
  key text NOT NULL,
  state jsonb NOT NULL,
  disputed boolean DEFAULT false NOT NULL,
  waits boolean DEFAULT false NOT NULL,
  CONSTRAINT sync_documents_pkey PRIMARY KEY (namespace_id, kind, key)
)""",
    "sync_files": """
CREATE TABLE sync_files (
  namespace_id integer NOT NULL,
  device text NOT NULL,
  name text NOT NULL,
  mark text NOT NULL,
  written boolean DEFAULT false NOT NULL,
  problem text,
  CONSTRAINT sync_files_pkey PRIMARY KEY (namespace_id, device, name)
)""",
}
REST = (
    "CREATE INDEX sync_documents_disputed ON sync_documents (namespace_id, kind, key) WHERE disputed",
    "CREATE INDEX sync_documents_waiting ON sync_documents (namespace_id, kind, key) WHERE waits",
)


def upgrade() -> None:
    """Create the tables."""
    for name, statement in TABLES.items():
        run(statement)
        beside_memories(name)
        run(
            f"ALTER TABLE {name} ADD CONSTRAINT {name}_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES namespaces (id)"
        )
        for one in row_level_security(name):
            run(one)
        run(f"""DO $$ BEGIN
         IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgengram_app') THEN
           GRANT SELECT, INSERT, UPDATE, DELETE ON {name} TO pgengram_app;
         END IF;
       END $$""")
    for statement in REST:
        run(statement)
