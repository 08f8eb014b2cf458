"""Programs that sign in: what they were allowed, their requests and codes, the server's keys, and the log.

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import run

revision = "0012"
down_revision = "0011"

STATEMENTS = (
    """
CREATE TABLE oauth_grants (
  id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  client_name TEXT NOT NULL,
  client_host TEXT NOT NULL,
  redirect_host TEXT NOT NULL,
  namespace TEXT NOT NULL,
  scope TEXT NOT NULL CONSTRAINT oauth_grants_scope_check CHECK (scope IN ('read-only', 'read-write')),
  resource TEXT NOT NULL,
  generation INTEGER DEFAULT 0 NOT NULL,
  refresh_hash BYTEA,
  previous_hash BYTEA,
  rotated_at TIMESTAMP WITH TIME ZONE,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  revoked_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT oauth_grants_pkey PRIMARY KEY (id),
  CONSTRAINT oauth_grants_namespace_fkey FOREIGN KEY(namespace) REFERENCES namespaces (name) ON DELETE CASCADE
)""",
    """
CREATE TABLE oauth_requests (
  id_hash BYTEA NOT NULL,
  cookie_hash BYTEA NOT NULL,
  asked JSONB NOT NULL,
  tries INTEGER DEFAULT 0 NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  code_hash BYTEA,
  code_expires_at TIMESTAMP WITH TIME ZONE,
  code_used_at TIMESTAMP WITH TIME ZONE,
  grant_id TEXT,
  CONSTRAINT oauth_requests_pkey PRIMARY KEY (id_hash),
  CONSTRAINT oauth_requests_code_hash_key UNIQUE (code_hash),
  CONSTRAINT oauth_requests_grant_id_fkey FOREIGN KEY(grant_id) REFERENCES oauth_grants (id) ON DELETE CASCADE
)""",
    """
CREATE TABLE pairing_codes (
  code_hash BYTEA NOT NULL,
  namespace TEXT NOT NULL,
  may_write BOOLEAN NOT NULL,
  tries INTEGER DEFAULT 0 NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT pairing_codes_pkey PRIMARY KEY (code_hash),
  CONSTRAINT pairing_codes_namespace_fkey FOREIGN KEY(namespace) REFERENCES namespaces (name) ON DELETE CASCADE
)""",
    """
CREATE TABLE server_keys (
  purpose TEXT NOT NULL,
  secret BYTEA NOT NULL,
  CONSTRAINT server_keys_pkey PRIMARY KEY (purpose)
)""",
    """
CREATE TABLE access_events (
  id BIGINT GENERATED ALWAYS AS IDENTITY,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  event TEXT NOT NULL,
  namespace TEXT,
  client_host TEXT,
  redirect_host TEXT,
  scope TEXT,
  grant_id TEXT,
  CONSTRAINT access_events_pkey PRIMARY KEY (id)
)""",
    "CREATE INDEX oauth_grants_of_namespace ON oauth_grants (namespace)",
    "ALTER TABLE access_tokens ADD COLUMN grant_id text CONSTRAINT access_tokens_grant_id_fkey REFERENCES oauth_grants (id) ON DELETE CASCADE",
    "CREATE INDEX access_tokens_of_grant ON access_tokens (grant_id)",
)
CLOSED = """DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
    ALTER TABLE oauth_grants ENABLE ROW LEVEL SECURITY;
    ALTER TABLE oauth_requests ENABLE ROW LEVEL SECURITY;
    ALTER TABLE pairing_codes ENABLE ROW LEVEL SECURITY;
    ALTER TABLE server_keys ENABLE ROW LEVEL SECURITY;
    ALTER TABLE access_events ENABLE ROW LEVEL SECURITY;
  END IF;
END $$"""


def upgrade() -> None:
    """Create the tables, which are the login's alone."""
    for statement in (*STATEMENTS, CLOSED):
        run(statement)
