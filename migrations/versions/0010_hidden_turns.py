"""What a conversation has of turns that aren't stored there, and as of when each turn was there.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import beside_memories, run

revision = "0010"
down_revision = "0009"

TABLE = """
CREATE TABLE hidden_turns (
  namespace_id integer NOT NULL,
  client text NOT NULL,
  conversation text NOT NULL,
  source_key bigint NOT NULL,
  withdrawn boolean NOT NULL,
  digest text NOT NULL,
  role text NOT NULL,
  number integer NOT NULL,
  "time" timestamp with time zone NOT NULL,
  as_of timestamp with time zone,
  copy_of bigint,
  CONSTRAINT hidden_turns_pkey PRIMARY KEY (namespace_id, client, conversation, source_key, withdrawn, digest),
  CONSTRAINT hidden_turns_role_check CHECK (role IN ('user', 'assistant', 'tool'))
)"""
REST = (
    "CREATE INDEX hidden_turns_by_source ON hidden_turns (namespace_id, client, source_key)",
    """ALTER TABLE hidden_turns ADD CONSTRAINT hidden_turns_namespace_id_client_conversation_fkey
       FOREIGN KEY (namespace_id, client, conversation) REFERENCES conversations (namespace_id, client, conversation)
       ON DELETE CASCADE""",
    "ALTER TABLE conversations ADD COLUMN began_at timestamp with time zone",
    "ALTER TABLE conversation_turns ADD COLUMN as_of timestamp with time zone, ADD COLUMN copy_of bigint",
)
# What was taken back so far, in conversations whose turns have no other place to be known by.
MOVE = """
INSERT INTO hidden_turns (namespace_id, client, conversation, source_key, withdrawn, digest, role, number, "time", as_of)
SELECT DISTINCT ON (c.namespace_id, c.client, c.conversation, key) c.namespace_id, c.client, c.conversation, key, true, '', 'user',
  0, c.at, c.as_of
FROM conversations c, unnest(c.withdrawn) AS key"""

WALL = (
    "ALTER TABLE hidden_turns ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE hidden_turns FORCE ROW LEVEL SECURITY",
    """CREATE POLICY one_namespace ON hidden_turns
       USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
       WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)""",
    """DO $$ BEGIN
         IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgengram_app') THEN
           GRANT SELECT, INSERT, UPDATE, DELETE ON hidden_turns TO pgengram_app;
         END IF;
       END $$""",
)


def upgrade() -> None:
    """Create the table, and move to it which turns were taken back."""
    run(TABLE)
    beside_memories("hidden_turns")
    for statement in REST:
        run(statement)
    run(MOVE)
    run("ALTER TABLE conversations DROP COLUMN withdrawn")
    for statement in WALL:
        run(statement)
