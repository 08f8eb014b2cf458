"""Which files were imported and what each stored, so that an import can be undone.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import beside_memories, run

revision = "0002"
down_revision = "0001"

TABLES = {
    "memory_imports": r"""
CREATE TABLE memory_imports (
  namespace_id INTEGER NOT NULL,
  id UUID NOT NULL,
  name TEXT NOT NULL,
  system TEXT NOT NULL,
  actor TEXT,
  others JSONB DEFAULT '{}'::jsonb NOT NULL,
  began_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  ended_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  undone_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT memory_imports_pkey PRIMARY KEY (namespace_id, id)
)
    """,
    "imported_memories": r"""
CREATE TABLE imported_memories (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  import_id UUID NOT NULL,
  version INTEGER NOT NULL,
  at TIMESTAMP WITH TIME ZONE NOT NULL,
  before_undo TIMESTAMP WITH TIME ZONE,
  CONSTRAINT imported_memories_pkey PRIMARY KEY (namespace_id, memory_id, import_id)
)
    """,
    "imported_turns": r"""
CREATE TABLE imported_turns (
  namespace_id INTEGER NOT NULL,
  import_id UUID NOT NULL,
  client TEXT NOT NULL,
  conversation TEXT NOT NULL,
  turn_ids BIGINT[] NOT NULL,
  CONSTRAINT imported_turns_pkey PRIMARY KEY (namespace_id, import_id, client, conversation)
)
    """,
}
KEYS = (
    r"""
ALTER TABLE memory_imports ADD CONSTRAINT memory_imports_namespace_id_fkey
  FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
    """,
    r"""
ALTER TABLE imported_memories ADD CONSTRAINT imported_memories_namespace_id_memory_id_fkey
  FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
    """,
    r"""
ALTER TABLE imported_memories ADD CONSTRAINT imported_memories_namespace_id_import_id_fkey
  FOREIGN KEY(namespace_id, import_id) REFERENCES memory_imports (namespace_id, id) ON DELETE CASCADE
    """,
    r"""
ALTER TABLE imported_turns ADD CONSTRAINT imported_turns_namespace_id_import_id_fkey
  FOREIGN KEY(namespace_id, import_id) REFERENCES memory_imports (namespace_id, id) ON DELETE CASCADE
    """,
    r"""
CREATE INDEX imported_memories_by_import ON imported_memories (namespace_id, import_id)
    """,
)
ROW_LEVEL_SECURITY = (
    r"""
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY
    """,
    r"""
ALTER TABLE {table} FORCE ROW LEVEL SECURITY
    """,
)
POLICIES = (
    r"""
CREATE POLICY one_namespace ON {table}
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')))
    """,
    r"""
CREATE POLICY removing ON {table} AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')))
    """,
)
# On a cluster no policy may ask a query, and each command has one of its own.
MINE = (
    "(namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer"
    " AND (namespace_id < 1000000000 OR namespace_id = pgengram_may('{right}')))"
)
READ, WRITE = MINE.format(right="read"), MINE.format(right="write")
POLICIES_ON_SHARDS = (
    f"CREATE POLICY one_namespace ON {{table}} FOR SELECT USING ({READ})",
    f"CREATE POLICY adding ON {{table}} FOR INSERT WITH CHECK ({WRITE})",
    f"CREATE POLICY changing ON {{table}} FOR UPDATE USING ({READ}) WITH CHECK ({WRITE})",
    f"CREATE POLICY removing ON {{table}} FOR DELETE USING ({WRITE})",
)


def upgrade() -> None:
    """Add the tables, each where the memories of its namespaces are."""
    for statement in TABLES.values():
        run(statement)
    distributed = [beside_memories(table) for table in TABLES]
    for statement in KEYS:
        run(statement)
    for table in TABLES:
        for statement in (*ROW_LEVEL_SECURITY, *(POLICIES_ON_SHARDS if all(distributed) else POLICIES)):
            run(statement.format(table=table))
