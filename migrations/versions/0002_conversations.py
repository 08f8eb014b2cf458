"""Conversations word for word, whether and how long they are kept, and what was put before a model unasked.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import beside_memories, run

revision = "0002"
down_revision = "0001"

TABLES = {
    "conversations": """
        CREATE TABLE conversations (
          namespace_id integer NOT NULL,
          client text NOT NULL,
          conversation text NOT NULL,
          project text,
          transcript text,
          read_to integer DEFAULT -1 NOT NULL,
          at timestamptz DEFAULT now() NOT NULL,
          CONSTRAINT conversations_pkey PRIMARY KEY (namespace_id, client, conversation)
        )""",
    "conversation_turns": """
        CREATE TABLE conversation_turns (
          namespace_id integer NOT NULL,
          client text NOT NULL,
          conversation text NOT NULL,
          number integer NOT NULL,
          role text NOT NULL,
          text text NOT NULL,
          project text,
          "time" timestamptz NOT NULL,
          CONSTRAINT conversation_turns_pkey PRIMARY KEY (namespace_id, client, conversation, number),
          CONSTRAINT conversation_turns_role_check CHECK (role IN ('user', 'assistant', 'tool'))
        )""",
    "conversation_settings": """
        CREATE TABLE conversation_settings (
          namespace_id integer NOT NULL,
          keeps boolean DEFAULT true NOT NULL,
          keep_days integer DEFAULT 90 NOT NULL,
          CONSTRAINT conversation_settings_pkey PRIMARY KEY (namespace_id),
          CONSTRAINT conversation_settings_keep_days_check CHECK (keep_days >= 1 AND keep_days <= 3650)
        )""",
    "recall_receipts": """
        CREATE TABLE recall_receipts (
          namespace_id integer NOT NULL,
          memory_id uuid NOT NULL,
          client text NOT NULL,
          conversation text NOT NULL,
          version integer NOT NULL,
          event text NOT NULL,
          project text,
          score real,
          evidence text,
          tokens integer NOT NULL,
          milliseconds integer NOT NULL,
          at timestamptz DEFAULT now() NOT NULL,
          CONSTRAINT recall_receipts_pkey PRIMARY KEY (namespace_id, memory_id, client, conversation, version)
        )""",
}
# A table gets its foreign keys once it lies where its namespaces' memories are.
REST = (
    "CREATE INDEX conversation_turns_by_time ON conversation_turns (namespace_id, time)",
    "CREATE INDEX recall_receipts_by_conversation ON recall_receipts (namespace_id, client, conversation, at)",
    "CREATE INDEX conversations_by_time ON conversations (namespace_id, at)",
    """ALTER TABLE conversations ADD CONSTRAINT conversations_namespace_id_fkey
       FOREIGN KEY (namespace_id) REFERENCES namespaces (id)""",
    """ALTER TABLE conversation_turns ADD CONSTRAINT conversation_turns_namespace_id_client_conversation_fkey
       FOREIGN KEY (namespace_id, client, conversation) REFERENCES conversations (namespace_id, client, conversation)
       ON DELETE CASCADE""",
    """ALTER TABLE conversation_settings ADD CONSTRAINT conversation_settings_namespace_id_fkey
       FOREIGN KEY (namespace_id) REFERENCES namespaces (id)""",
    """ALTER TABLE recall_receipts ADD CONSTRAINT recall_receipts_namespace_id_memory_id_fkey
       FOREIGN KEY (namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE""",
)
WALL = (
    "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
    """CREATE POLICY one_namespace ON {table}
       USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
       WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)""",
    """DO $$ BEGIN
         IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgengram_app') THEN
           GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO pgengram_app;
         END IF;
       END $$""",
)


def upgrade() -> None:
    """Create the tables, each behind row-level security."""
    for table, statement in TABLES.items():
        run(statement)
        beside_memories(table)
    for statement in REST:
        run(statement)
    for table in TABLES:
        for statement in WALL:
            run(statement.format(table=table))
