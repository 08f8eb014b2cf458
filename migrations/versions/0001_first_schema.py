"""The first schema: memories with their details, what ranks them, row-level security.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import run

revision = "0001"
down_revision = None

STATEMENTS = (
    r"""
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') THEN CREATE EXTENSION vector; END IF;
END $$
    """,
    r"""
CREATE FUNCTION pgengram_turn_terms(body text) RETURNS integer[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  -- What a turn is found by: the first 32 bits of the MD5 of each stem of its first 50,000 characters.
  SELECT coalesce(array_agg(DISTINCT ('x' || left(md5(word), 8))::bit(32)::integer), '{}')
  FROM (
    SELECT unnest(tsvector_to_array(to_tsvector('pg_catalog.english'::regconfig,
      regexp_replace(left(body, 50000), '[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17D3\u3040-\u30FF\u3400-\u9FFF\uAC00-\uD7AF]+', ' ', 'g'))))
    UNION ALL
    SELECT first || second
    FROM (SELECT c AS first, lead(c, 1, '') OVER (ORDER BY n) AS second
          FROM unnest(string_to_array(left(body, 50000), NULL)) WITH ORDINALITY AS t(c, n)
          WHERE body ~ '[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17D3\u3040-\u30FF\u3400-\u9FFF\uAC00-\uD7AF]') AS pairs
    WHERE first || second ~ '^[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17D3\u3040-\u30FF\u3400-\u9FFF\uAC00-\uD7AF]{2}$') AS found(word)
$$
    """,
    r"""
CREATE TABLE namespaces (
  id INTEGER GENERATED ALWAYS AS IDENTITY,
  name TEXT NOT NULL CONSTRAINT namespaces_name_check CHECK (length(name) >= 1 AND length(name) <= 128),
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT namespaces_pkey PRIMARY KEY (id),
  CONSTRAINT namespaces_name_key UNIQUE (name)
)
    """,
    r"""
CREATE TABLE persons (
  id INTEGER GENERATED ALWAYS AS IDENTITY,
  name TEXT CONSTRAINT persons_name_check CHECK (length(name) >= 1 AND length(name) <= 64),
  personal_id INTEGER,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT persons_pkey PRIMARY KEY (id),
  CONSTRAINT persons_name_key UNIQUE (name),
  CONSTRAINT persons_personal_id_key UNIQUE (personal_id),
  CONSTRAINT persons_personal_id_fkey FOREIGN KEY(personal_id) REFERENCES namespaces (id) ON DELETE SET NULL
)
    """,
    r"""
CREATE TABLE spaces (
  id INTEGER GENERATED ALWAYS AS IDENTITY (START WITH 1000000000),
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT spaces_pkey PRIMARY KEY (id),
  CONSTRAINT spaces_id_fkey FOREIGN KEY(id) REFERENCES namespaces (id) ON DELETE CASCADE
)
    """,
    r"""
CREATE TABLE space_members (
  space_id INTEGER NOT NULL,
  person_id INTEGER NOT NULL,
  role TEXT NOT NULL CONSTRAINT space_members_role_check CHECK (role IN ('read', 'write', 'admin')),
  since TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  until TIMESTAMP WITH TIME ZONE,
  anonymous BOOLEAN DEFAULT false NOT NULL,
  CONSTRAINT space_members_pkey PRIMARY KEY (space_id, person_id),
  CONSTRAINT space_members_space_id_fkey FOREIGN KEY(space_id) REFERENCES spaces (id) ON DELETE CASCADE,
  CONSTRAINT space_members_person_id_fkey FOREIGN KEY(person_id) REFERENCES persons (id)
)
    """,
    r"""
CREATE TABLE person_notices (
  id BIGINT GENERATED ALWAYS AS IDENTITY,
  person_id INTEGER NOT NULL,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  text TEXT NOT NULL,
  CONSTRAINT person_notices_pkey PRIMARY KEY (id),
  CONSTRAINT person_notices_person_id_fkey FOREIGN KEY(person_id) REFERENCES persons (id) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX person_notices_of_person ON person_notices (person_id)
    """,
    r"""
CREATE TABLE server_keys (
  purpose TEXT NOT NULL,
  secret BYTEA NOT NULL,
  CONSTRAINT server_keys_pkey PRIMARY KEY (purpose)
)
    """,
    r"""
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
)
    """,
    r"""
CREATE UNLOGGED TABLE client_rates (
  client BYTEA NOT NULL,
  paid_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT client_rates_pkey PRIMARY KEY (client)
)
    """,
    r"""
CREATE TABLE deletion_log (
  former_namespace_id INTEGER NOT NULL,
  namespace_since TIMESTAMP WITH TIME ZONE NOT NULL,
  memory_id UUID,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT deletion_log_former_namespace_id_namespace_since_memory_id_key UNIQUE NULLS NOT DISTINCT (former_namespace_id, namespace_since, memory_id)
)
    """,
    r"""
CREATE TABLE decay_classes (
  rate_per_day DOUBLE PRECISION NOT NULL CONSTRAINT decay_classes_rate_per_day_check CHECK (rate_per_day >= 0),
  CONSTRAINT decay_classes_pkey PRIMARY KEY (rate_per_day)
)
    """,
    r"""
CREATE TABLE embedding_models (
  id SMALLINT GENERATED ALWAYS AS IDENTITY,
  name TEXT NOT NULL,
  dimensions INTEGER NOT NULL CONSTRAINT embedding_models_dimensions_check CHECK (dimensions >= 1 AND dimensions <= 4000),
  index_method TEXT DEFAULT 'ivfflat' NOT NULL CONSTRAINT embedding_models_index_method_check CHECK (index_method IN ('ivfflat', 'hnsw')),
  state TEXT DEFAULT 'retired' NOT NULL CONSTRAINT embedding_models_state_check CHECK (state IN ('active', 'filling', 'retired')),
  embedder TEXT,
  index_lists INTEGER,
  rows_at_build BIGINT,
  rows_at_check BIGINT,
  measured_recall DOUBLE PRECISION,
  built_at TIMESTAMP WITH TIME ZONE,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT embedding_models_pkey PRIMARY KEY (id),
  CONSTRAINT embedding_models_name_key UNIQUE (name)
)
    """,
    r"""
CREATE UNIQUE INDEX embedding_models_filling ON embedding_models (state) WHERE state = 'filling'
    """,
    r"""
CREATE UNIQUE INDEX embedding_models_active ON embedding_models (state) WHERE state = 'active'
    """,
    r"""
CREATE TABLE memory_posting_lists (
  namespace_id INTEGER NOT NULL,
  term INTEGER NOT NULL,
  segment INTEGER NOT NULL,
  memory_ids UUID[] NOT NULL,
  measures INTEGER[] NOT NULL,
  CONSTRAINT memory_posting_lists_pkey PRIMARY KEY (namespace_id, term, segment)
)
    """,
    r"""
CREATE TABLE memory_history (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  version INTEGER NOT NULL,
  operation TEXT NOT NULL,
  actor TEXT DEFAULT nullif(current_setting('pgengram.actor', true), ''),
  session_id TEXT,
  changes JSONB,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  person_id INTEGER DEFAULT nullif(nullif(current_setting('pgengram.person_id', true), ''), '-1')::integer,
  CONSTRAINT memory_history_pkey PRIMARY KEY (namespace_id, memory_id, version)
)
    """,
    r"""
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
  spaces JSONB DEFAULT '{}'::jsonb NOT NULL,
  CONSTRAINT oauth_grants_pkey PRIMARY KEY (id),
  CONSTRAINT oauth_grants_namespace_fkey FOREIGN KEY(namespace) REFERENCES namespaces (name) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX oauth_grants_of_namespace ON oauth_grants (namespace)
    """,
    r"""
CREATE TABLE pairing_codes (
  code_hash BYTEA NOT NULL,
  namespace TEXT NOT NULL,
  may_write BOOLEAN NOT NULL,
  spaces JSONB,
  tries INTEGER DEFAULT 0 NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  person TEXT,
  CONSTRAINT pairing_codes_pkey PRIMARY KEY (code_hash),
  CONSTRAINT pairing_codes_namespace_fkey FOREIGN KEY(namespace) REFERENCES namespaces (name) ON DELETE CASCADE
)
    """,
    r"""
CREATE TABLE passkeys (
  id TEXT NOT NULL,
  credential_id BYTEA NOT NULL,
  credential BYTEA,
  sign_count BIGINT NOT NULL,
  rp_id TEXT NOT NULL,
  name TEXT NOT NULL,
  namespace TEXT NOT NULL,
  may_write BOOLEAN NOT NULL,
  spaces JSONB,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  last_used_at TIMESTAMP WITH TIME ZONE,
  removed_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT passkeys_pkey PRIMARY KEY (id),
  CONSTRAINT passkeys_credential_id_key UNIQUE (credential_id),
  CONSTRAINT passkeys_namespace_fkey FOREIGN KEY(namespace) REFERENCES namespaces (name) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX passkeys_of_namespace ON passkeys (namespace)
    """,
    r"""
CREATE TABLE memories (
  namespace_id INTEGER NOT NULL,
  id UUID NOT NULL,
  type TEXT NOT NULL CONSTRAINT memories_type_check CHECK (type IN ('episodic', 'semantic', 'procedural', 'strategic')),
  kind TEXT CONSTRAINT memories_kind_check CHECK (kind IN ('observation', 'decision', 'learning', 'error', 'pattern', 'preference', 'insight', 'fact', 'connection', 'project', 'person', 'process', 'goal', 'general')),
  status TEXT DEFAULT 'active' NOT NULL CONSTRAINT memories_status_check CHECK (status IN ('active', 'archived', 'invalidated', 'working')),
  content TEXT NOT NULL CONSTRAINT memories_content_check CHECK (length(content) >= 1 AND length(content) <= 16000),
  content_hash BYTEA NOT NULL,
  metadata JSONB DEFAULT '{}'::jsonb NOT NULL,
  source TEXT,
  source_provider TEXT,
  capture_mode TEXT CONSTRAINT memories_capture_mode_check CHECK (capture_mode IN ('explicit', 'inferred')),
  session_id TEXT,
  session_sequence BIGINT,
  speaker TEXT,
  speaker_key TEXT,
  turn_features SMALLINT DEFAULT 0 NOT NULL,
  "user" TEXT,
  project TEXT,
  collection TEXT,
  confidence DOUBLE PRECISION CONSTRAINT memories_confidence_check CHECK (confidence >= 0 AND confidence <= 1),
  emotion TEXT CONSTRAINT memories_emotion_check CHECK (emotion IN ('curiosity', 'satisfaction', 'concern', 'neutral', 'excitement')),
  sources JSONB,
  pinned BOOLEAN DEFAULT false NOT NULL,
  idempotency_key TEXT,
  version INTEGER DEFAULT 1 NOT NULL,
  reason TEXT,
  replaced_by UUID[],
  occurred_at TIMESTAMP WITH TIME ZONE,
  expires_at TIMESTAMP WITH TIME ZONE,
  last_confirmed_at TIMESTAMP WITH TIME ZONE,
  valid_from TIMESTAMP WITH TIME ZONE NOT NULL,
  valid_to TIMESTAMP WITH TIME ZONE,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  short_id TEXT GENERATED ALWAYS AS (right(id::text, 8)) STORED NOT NULL,
  person_id INTEGER DEFAULT nullif(nullif(current_setting('pgengram.person_id', true), ''), '-1')::integer,
  CONSTRAINT memories_pkey PRIMARY KEY (namespace_id, id),
  CONSTRAINT memories_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
)
    """,
    r"""
CREATE INDEX memories_by_time ON memories (namespace_id, created_at)
    """,
    r"""
CREATE INDEX memories_by_collection ON memories (namespace_id, collection, id) WHERE collection IS NOT NULL
    """,
    r"""
CREATE INDEX memories_by_occurrence ON memories (namespace_id, (CASE WHEN occurred_at IS NULL THEN created_at ELSE occurred_at END))
    """,
    r"""
CREATE INDEX memories_hidden ON memories (namespace_id, status, expires_at, id) WHERE status <> 'active' OR expires_at IS NOT NULL
    """,
    r"""
CREATE INDEX memories_by_user ON memories (namespace_id, "user", id) WHERE "user" IS NOT NULL
    """,
    r"""
CREATE INDEX memories_by_session ON memories (namespace_id, session_id, session_sequence)
    """,
    r"""
CREATE UNIQUE INDEX memories_active_content ON memories (namespace_id, content_hash) WHERE status = 'active'
    """,
    r"""
CREATE INDEX memories_by_project ON memories (namespace_id, project, id) WHERE project IS NOT NULL
    """,
    r"""
CREATE UNIQUE INDEX memories_by_idempotency_key ON memories (namespace_id, idempotency_key) WHERE idempotency_key IS NOT NULL
    """,
    r"""
CREATE INDEX memories_by_short_id ON memories (namespace_id, short_id)
    """,
    r"""
CREATE TABLE memory_tag_synonyms (
  namespace_id INTEGER NOT NULL,
  alias TEXT NOT NULL,
  tag TEXT NOT NULL,
  CONSTRAINT memory_tag_synonyms_pkey PRIMARY KEY (namespace_id, alias),
  CONSTRAINT memory_tag_synonyms_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
)
    """,
    r"""
CREATE TABLE memory_confirmations (
  namespace_id INTEGER NOT NULL,
  token_hash BYTEA NOT NULL,
  action TEXT NOT NULL,
  arguments JSONB NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT memory_confirmations_pkey PRIMARY KEY (namespace_id, token_hash),
  CONSTRAINT memory_confirmations_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
)
    """,
    r"""
CREATE TABLE memory_clusters (
  namespace_id INTEGER NOT NULL,
  id UUID NOT NULL,
  type TEXT NOT NULL CONSTRAINT memory_clusters_type_check CHECK (type IN ('theme', 'emotion', 'temporal', 'person', 'pattern', 'mixed')),
  name TEXT NOT NULL,
  description TEXT,
  keywords TEXT[] DEFAULT '{}'::text[] NOT NULL,
  emotional_signature JSONB,
  importance DOUBLE PRECISION DEFAULT 0.5 NOT NULL CONSTRAINT memory_clusters_importance_check CHECK (importance >= 0 AND importance <= 1),
  activation_count INTEGER DEFAULT 0 NOT NULL,
  last_activated_at TIMESTAMP WITH TIME ZONE,
  model_id SMALLINT,
  centroid halfvec,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT memory_clusters_pkey PRIMARY KEY (namespace_id, id),
  CONSTRAINT memory_clusters_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id),
  CONSTRAINT memory_clusters_model_id_fkey FOREIGN KEY(model_id) REFERENCES embedding_models (id)
)
    """,
    r"""
CREATE TABLE memory_identities (
  namespace_id INTEGER NOT NULL,
  id UUID NOT NULL,
  self_concept JSONB,
  agency_beliefs JSONB,
  purpose_framework JSONB,
  group_identifications JSONB,
  boundary_definitions JSONB,
  emotional_baseline JSONB,
  threat_sensitivity DOUBLE PRECISION CONSTRAINT memory_identities_threat_sensitivity_check CHECK (threat_sensitivity >= 0 AND threat_sensitivity <= 1),
  change_resistance DOUBLE PRECISION CONSTRAINT memory_identities_change_resistance_check CHECK (change_resistance >= 0 AND change_resistance <= 1),
  session_id TEXT,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT memory_identities_pkey PRIMARY KEY (namespace_id, id),
  CONSTRAINT memory_identities_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
)
    """,
    r"""
CREATE TABLE memory_beliefs (
  namespace_id INTEGER NOT NULL,
  id UUID NOT NULL,
  category TEXT NOT NULL,
  belief TEXT NOT NULL,
  belief_hash BYTEA NOT NULL,
  confidence DOUBLE PRECISION DEFAULT 0.8 NOT NULL CONSTRAINT memory_beliefs_confidence_check CHECK (confidence >= 0 AND confidence <= 1),
  stability DOUBLE PRECISION DEFAULT 0.5 NOT NULL CONSTRAINT memory_beliefs_stability_check CHECK (stability >= 0 AND stability <= 1),
  emotional_valence DOUBLE PRECISION DEFAULT 0.0 NOT NULL CONSTRAINT memory_beliefs_emotional_valence_check CHECK (emotional_valence >= -1 AND emotional_valence <= 1),
  details JSONB DEFAULT '{}'::jsonb NOT NULL,
  version INTEGER DEFAULT 1 NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT memory_beliefs_pkey PRIMARY KEY (namespace_id, id),
  CONSTRAINT memory_beliefs_namespace_id_belief_hash_key UNIQUE (namespace_id, belief_hash),
  CONSTRAINT memory_beliefs_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
)
    """,
    r"""
CREATE TABLE conversations (
  namespace_id INTEGER NOT NULL,
  client TEXT NOT NULL,
  conversation TEXT NOT NULL,
  project TEXT,
  transcript TEXT,
  read_to INTEGER DEFAULT -1 NOT NULL,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  title TEXT,
  imported BOOLEAN DEFAULT false NOT NULL,
  forked_from TEXT,
  as_of TIMESTAMP WITH TIME ZONE,
  kept_from TIMESTAMP WITH TIME ZONE,
  began_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT conversations_pkey PRIMARY KEY (namespace_id, client, conversation),
  CONSTRAINT conversations_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
)
    """,
    r"""
CREATE INDEX conversations_by_time ON conversations (namespace_id, at)
    """,
    r"""
CREATE TABLE conversation_settings (
  namespace_id INTEGER NOT NULL,
  keeps BOOLEAN DEFAULT true NOT NULL,
  keep_days INTEGER DEFAULT 90 NOT NULL CONSTRAINT conversation_settings_keep_days_check CHECK (keep_days >= 1 AND keep_days <= 3650),
  CONSTRAINT conversation_settings_pkey PRIMARY KEY (namespace_id),
  CONSTRAINT conversation_settings_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
)
    """,
    r"""
CREATE TABLE sync_settings (
  namespace_id INTEGER NOT NULL,
  secret BYTEA NOT NULL,
  folder TEXT NOT NULL,
  token TEXT,
  device TEXT NOT NULL,
  device_name TEXT NOT NULL,
  writers TEXT[] DEFAULT '{}'::text[] NOT NULL,
  since TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  problem TEXT,
  exchanged_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT sync_settings_pkey PRIMARY KEY (namespace_id),
  CONSTRAINT sync_settings_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
)
    """,
    r"""
CREATE TABLE sync_changes (
  namespace_id INTEGER NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  at TIMESTAMP WITH TIME ZONE NOT NULL,
  uses BOOLEAN NOT NULL,
  CONSTRAINT sync_changes_pkey PRIMARY KEY (namespace_id, kind, key),
  CONSTRAINT sync_changes_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
)
    """,
    r"""
CREATE TABLE sync_documents (
  namespace_id INTEGER NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  state JSONB NOT NULL,
  disputed BOOLEAN DEFAULT false NOT NULL,
  waits BOOLEAN DEFAULT false NOT NULL,
  CONSTRAINT sync_documents_pkey PRIMARY KEY (namespace_id, kind, key),
  CONSTRAINT sync_documents_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
)
    """,
    r"""
CREATE INDEX sync_documents_disputed ON sync_documents (namespace_id, kind, key) WHERE disputed
    """,
    r"""
CREATE INDEX sync_documents_waiting ON sync_documents (namespace_id, kind, key) WHERE waits
    """,
    r"""
CREATE TABLE sync_files (
  namespace_id INTEGER NOT NULL,
  device TEXT NOT NULL,
  name TEXT NOT NULL,
  mark TEXT NOT NULL,
  written BOOLEAN DEFAULT false NOT NULL,
  problem TEXT,
  CONSTRAINT sync_files_pkey PRIMARY KEY (namespace_id, device, name),
  CONSTRAINT sync_files_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
)
    """,
    r"""
CREATE TABLE access_tokens (
  id TEXT NOT NULL,
  secret_hash BYTEA NOT NULL,
  name TEXT NOT NULL CONSTRAINT access_tokens_name_check CHECK (length(name) >= 1 AND length(name) <= 64),
  namespace TEXT NOT NULL,
  scope TEXT NOT NULL CONSTRAINT access_tokens_scope_check CHECK (scope IN ('read-only', 'read-write')),
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE,
  last_used_at TIMESTAMP WITH TIME ZONE,
  revoked_at TIMESTAMP WITH TIME ZONE,
  grant_id TEXT,
  spaces JSONB DEFAULT '{}'::jsonb NOT NULL,
  CONSTRAINT access_tokens_pkey PRIMARY KEY (id),
  CONSTRAINT access_tokens_namespace_fkey FOREIGN KEY(namespace) REFERENCES namespaces (name) ON DELETE CASCADE,
  CONSTRAINT access_tokens_grant_id_fkey FOREIGN KEY(grant_id) REFERENCES oauth_grants (id) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX access_tokens_of_namespace ON access_tokens (namespace)
    """,
    r"""
CREATE INDEX access_tokens_of_grant ON access_tokens (grant_id)
    """,
    r"""
CREATE TABLE oauth_requests (
  id_hash BYTEA NOT NULL,
  asked JSONB NOT NULL,
  tries INTEGER DEFAULT 0 NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  code_hash BYTEA,
  code_expires_at TIMESTAMP WITH TIME ZONE,
  code_used_at TIMESTAMP WITH TIME ZONE,
  grant_id TEXT,
  namespace TEXT,
  allowed JSONB,
  CONSTRAINT oauth_requests_pkey PRIMARY KEY (id_hash),
  CONSTRAINT oauth_requests_code_hash_key UNIQUE (code_hash),
  CONSTRAINT oauth_requests_grant_id_fkey FOREIGN KEY(grant_id) REFERENCES oauth_grants (id) ON DELETE CASCADE,
  CONSTRAINT oauth_requests_namespace_fkey FOREIGN KEY(namespace) REFERENCES namespaces (name) ON DELETE CASCADE
)
    """,
    r"""
CREATE TABLE episodic_memories (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  action_taken JSONB,
  context JSONB,
  result JSONB,
  emotional_valence DOUBLE PRECISION DEFAULT 0.0 NOT NULL CONSTRAINT episodic_memories_emotional_valence_check CHECK (emotional_valence >= -1 AND emotional_valence <= 1),
  verification_status BOOLEAN,
  event_time TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT episodic_memories_pkey PRIMARY KEY (namespace_id, memory_id),
  CONSTRAINT episodic_memories_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE TABLE semantic_memories (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  category TEXT[] DEFAULT '{}'::text[] NOT NULL,
  related_concepts TEXT[] DEFAULT '{}'::text[] NOT NULL,
  source_references JSONB,
  contradictions JSONB,
  last_validated TIMESTAMP WITH TIME ZONE,
  CONSTRAINT semantic_memories_pkey PRIMARY KEY (namespace_id, memory_id),
  CONSTRAINT semantic_memories_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE TABLE procedural_memories (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  steps JSONB DEFAULT '{}'::jsonb NOT NULL,
  prerequisites JSONB DEFAULT '{}'::jsonb NOT NULL,
  success_count INTEGER DEFAULT 0 NOT NULL CONSTRAINT procedural_memories_success_count_check CHECK (success_count >= 0),
  total_attempts INTEGER DEFAULT 0 NOT NULL CONSTRAINT procedural_memories_total_attempts_check CHECK (total_attempts >= success_count),
  success_rate DOUBLE PRECISION GENERATED ALWAYS AS (CASE WHEN total_attempts > 0 THEN success_count::double precision / total_attempts ELSE 0.0 END) STORED,
  failure_points JSONB,
  average_duration INTERVAL,
  CONSTRAINT procedural_memories_pkey PRIMARY KEY (namespace_id, memory_id),
  CONSTRAINT procedural_memories_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE TABLE strategic_memories (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  pattern_description TEXT,
  supporting_evidence JSONB,
  success_metrics JSONB,
  adaptation_history JSONB,
  context_applicability JSONB,
  CONSTRAINT strategic_memories_pkey PRIMARY KEY (namespace_id, memory_id),
  CONSTRAINT strategic_memories_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE TABLE working_memories (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  promote BOOLEAN DEFAULT false NOT NULL,
  context JSONB,
  CONSTRAINT working_memories_pkey PRIMARY KEY (namespace_id, memory_id),
  CONSTRAINT working_memories_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE TABLE memory_activation (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  importance DOUBLE PRECISION NOT NULL CONSTRAINT memory_activation_importance_check CHECK (importance >= 0 AND importance <= 1),
  rate_per_day DOUBLE PRECISION NOT NULL,
  started_at TIMESTAMP WITH TIME ZONE NOT NULL,
  last_accessed_at TIMESTAMP WITH TIME ZONE,
  access_count INTEGER DEFAULT 0 NOT NULL,
  reinforcement DOUBLE PRECISION,
  used_at TIMESTAMP WITH TIME ZONE[],
  use_weights REAL[],
  relevance_anchor DOUBLE PRECISION GENERATED ALWAYS AS (CASE WHEN reinforcement IS NULL THEN CASE WHEN importance > 0 THEN ln(importance) + rate_per_day * (extract(epoch FROM started_at AT TIME ZONE 'UTC')::double precision / 86400 - 20000) ELSE '-Infinity'::double precision END WHEN importance = 0 THEN reinforcement ELSE greatest(CASE WHEN importance > 0 THEN ln(importance) + rate_per_day * (extract(epoch FROM started_at AT TIME ZONE 'UTC')::double precision / 86400 - 20000) ELSE '-Infinity'::double precision END, reinforcement) + ln(1 + exp(greatest(-abs((CASE WHEN importance > 0 THEN ln(importance) + rate_per_day * (extract(epoch FROM started_at AT TIME ZONE 'UTC')::double precision / 86400 - 20000) ELSE '-Infinity'::double precision END) - reinforcement), -700))) END) STORED NOT NULL,
  CONSTRAINT memory_activation_pkey PRIMARY KEY (namespace_id, memory_id),
  CONSTRAINT memory_activation_uses_check CHECK (coalesce(cardinality(used_at), 0) = coalesce(cardinality(use_weights), 0)),
  CONSTRAINT memory_activation_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE,
  CONSTRAINT memory_activation_rate_per_day_fkey FOREIGN KEY(rate_per_day) REFERENCES decay_classes (rate_per_day)
)
    """,
    r"""
CREATE INDEX memory_activation_rank ON memory_activation (namespace_id, rate_per_day, relevance_anchor DESC, memory_id)
    """,
    r"""
CREATE TABLE memory_vectors (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  model_id SMALLINT NOT NULL,
  part SMALLINT NOT NULL,
  embedding halfvec NOT NULL,
  CONSTRAINT memory_vectors_pkey PRIMARY KEY (namespace_id, memory_id, model_id, part),
  CONSTRAINT memory_vectors_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE,
  CONSTRAINT memory_vectors_model_id_fkey FOREIGN KEY(model_id) REFERENCES embedding_models (id)
)
    """,
    r"""
CREATE TABLE memory_words (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  terms INTEGER[] NOT NULL,
  counts SMALLINT[] NOT NULL,
  length INTEGER NOT NULL,
  segment INTEGER,
  CONSTRAINT memory_words_pkey PRIMARY KEY (namespace_id, memory_id),
  CONSTRAINT memory_words_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX memory_words_waiting ON memory_words (namespace_id, memory_id) WHERE segment IS NULL
    """,
    r"""
CREATE INDEX memory_words_by_segment ON memory_words (namespace_id, segment) WHERE segment > 0
    """,
    r"""
CREATE TABLE memory_tags (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  tag TEXT NOT NULL,
  position SMALLINT NOT NULL,
  CONSTRAINT memory_tags_pkey PRIMARY KEY (namespace_id, memory_id, tag),
  CONSTRAINT memory_tags_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX memory_tags_by_tag ON memory_tags (namespace_id, tag, memory_id)
    """,
    r"""
CREATE TABLE memory_relationships (
  namespace_id INTEGER NOT NULL,
  from_id UUID NOT NULL,
  to_id UUID NOT NULL,
  type TEXT NOT NULL CONSTRAINT memory_relationships_type_check CHECK (length(type) >= 1 AND length(type) <= 64),
  strength DOUBLE PRECISION DEFAULT 1.0 NOT NULL CONSTRAINT memory_relationships_strength_check CHECK (strength >= 0 AND strength <= 1),
  properties JSONB DEFAULT '{}'::jsonb NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT memory_relationships_pkey PRIMARY KEY (namespace_id, from_id, to_id, type),
  CONSTRAINT memory_relationships_two_ends_check CHECK (from_id <> to_id),
  CONSTRAINT memory_relationships_namespace_id_from_id_fkey FOREIGN KEY(namespace_id, from_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE,
  CONSTRAINT memory_relationships_namespace_id_to_id_fkey FOREIGN KEY(namespace_id, to_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX memory_relationships_to ON memory_relationships (namespace_id, to_id, type)
    """,
    r"""
CREATE TABLE memory_cluster_members (
  namespace_id INTEGER NOT NULL,
  cluster_id UUID NOT NULL,
  memory_id UUID NOT NULL,
  strength DOUBLE PRECISION DEFAULT 1.0 NOT NULL CONSTRAINT memory_cluster_members_strength_check CHECK (strength >= 0 AND strength <= 1),
  automatic BOOLEAN DEFAULT false NOT NULL,
  added_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT memory_cluster_members_pkey PRIMARY KEY (namespace_id, cluster_id, memory_id),
  CONSTRAINT memory_cluster_members_namespace_id_cluster_id_fkey FOREIGN KEY(namespace_id, cluster_id) REFERENCES memory_clusters (namespace_id, id) ON DELETE CASCADE,
  CONSTRAINT memory_cluster_members_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX memory_cluster_members_by_memory ON memory_cluster_members (namespace_id, memory_id)
    """,
    r"""
CREATE TABLE memory_cluster_activations (
  namespace_id INTEGER NOT NULL,
  cluster_id UUID NOT NULL,
  id UUID NOT NULL,
  context TEXT,
  strength DOUBLE PRECISION DEFAULT 1.0 NOT NULL CONSTRAINT memory_cluster_activations_strength_check CHECK (strength >= 0 AND strength <= 1),
  session_id TEXT,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT memory_cluster_activations_pkey PRIMARY KEY (namespace_id, cluster_id, id),
  CONSTRAINT memory_cluster_activations_namespace_id_cluster_id_fkey FOREIGN KEY(namespace_id, cluster_id) REFERENCES memory_clusters (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX memory_cluster_activations_by_time ON memory_cluster_activations (namespace_id, at)
    """,
    r"""
CREATE TABLE memory_belief_evidence (
  namespace_id INTEGER NOT NULL,
  belief_id UUID NOT NULL,
  memory_id UUID NOT NULL,
  supports BOOLEAN DEFAULT true NOT NULL,
  added_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT memory_belief_evidence_pkey PRIMARY KEY (namespace_id, belief_id, memory_id),
  CONSTRAINT memory_belief_evidence_namespace_id_belief_id_fkey FOREIGN KEY(namespace_id, belief_id) REFERENCES memory_beliefs (namespace_id, id) ON DELETE CASCADE,
  CONSTRAINT memory_belief_evidence_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX memory_belief_evidence_by_memory ON memory_belief_evidence (namespace_id, memory_id)
    """,
    r"""
CREATE TABLE conversation_turns (
  namespace_id INTEGER NOT NULL,
  client TEXT NOT NULL,
  conversation TEXT NOT NULL,
  number INTEGER NOT NULL,
  role TEXT NOT NULL CONSTRAINT conversation_turns_role_check CHECK (role IN ('user', 'assistant', 'tool')),
  text TEXT NOT NULL,
  project TEXT,
  time TIMESTAMP WITH TIME ZONE NOT NULL,
  terms INTEGER[] GENERATED ALWAYS AS (pgengram_turn_terms(text)) STORED,
  source_key BIGINT,
  as_of TIMESTAMP WITH TIME ZONE,
  copy_of BIGINT,
  id BIGINT NOT NULL DEFAULT (hashtextextended(gen_random_uuid()::text, 0) & 9223372036854775807),
  CONSTRAINT conversation_turns_pkey PRIMARY KEY (namespace_id, client, conversation, id),
  CONSTRAINT conversation_turns_namespace_id_client_conversation_fkey FOREIGN KEY(namespace_id, client, conversation) REFERENCES conversations (namespace_id, client, conversation) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX conversation_turns_by_time ON conversation_turns (namespace_id, time)
    """,
    r"""
CREATE INDEX conversation_turns_by_source ON conversation_turns (namespace_id, client, source_key)
    """,
    r"""
CREATE TABLE hidden_turns (
  namespace_id INTEGER NOT NULL,
  client TEXT NOT NULL,
  conversation TEXT NOT NULL,
  source_key BIGINT NOT NULL,
  withdrawn BOOLEAN NOT NULL,
  digest TEXT NOT NULL,
  role TEXT NOT NULL CONSTRAINT hidden_turns_role_check CHECK (role IN ('user', 'assistant', 'tool')),
  number INTEGER NOT NULL,
  time TIMESTAMP WITH TIME ZONE NOT NULL,
  as_of TIMESTAMP WITH TIME ZONE,
  copy_of BIGINT,
  CONSTRAINT hidden_turns_pkey PRIMARY KEY (namespace_id, client, conversation, source_key, withdrawn, digest),
  CONSTRAINT hidden_turns_namespace_id_client_conversation_fkey FOREIGN KEY(namespace_id, client, conversation) REFERENCES conversations (namespace_id, client, conversation) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX hidden_turns_by_source ON hidden_turns (namespace_id, client, source_key)
    """,
    r"""
CREATE TABLE recall_receipts (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  client TEXT NOT NULL,
  conversation TEXT NOT NULL,
  version INTEGER NOT NULL,
  event TEXT NOT NULL,
  project TEXT,
  score REAL,
  evidence TEXT,
  tokens INTEGER NOT NULL,
  milliseconds INTEGER NOT NULL,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT recall_receipts_pkey PRIMARY KEY (namespace_id, memory_id, client, conversation, version),
  CONSTRAINT recall_receipts_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE INDEX recall_receipts_by_conversation ON recall_receipts (namespace_id, client, conversation, at)
    """,
    r"""
CREATE TABLE shared_copies (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  space_id INTEGER NOT NULL,
  copy_id UUID NOT NULL,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT shared_copies_pkey PRIMARY KEY (namespace_id, memory_id, space_id),
  CONSTRAINT shared_copies_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
)
    """,
    r"""
CREATE TABLE project_spaces (
  namespace_id INTEGER NOT NULL,
  project TEXT NOT NULL,
  space_id INTEGER NOT NULL,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT project_spaces_pkey PRIMARY KEY (namespace_id, project),
  CONSTRAINT project_spaces_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
)
    """,
)
# Each row of these belongs to a namespace.
OWNED = (
    "memory_history",
    "memory_posting_lists",
    "conversation_settings",
    "conversations",
    "memories",
    "memory_beliefs",
    "memory_clusters",
    "memory_confirmations",
    "memory_identities",
    "memory_tag_synonyms",
    "sync_changes",
    "sync_documents",
    "sync_files",
    "sync_settings",
    "conversation_turns",
    "episodic_memories",
    "hidden_turns",
    "memory_activation",
    "memory_belief_evidence",
    "memory_cluster_activations",
    "memory_cluster_members",
    "memory_relationships",
    "memory_tags",
    "memory_vectors",
    "memory_words",
    "procedural_memories",
    "project_spaces",
    "recall_receipts",
    "semantic_memories",
    "shared_copies",
    "strategic_memories",
    "working_memories",
)
ROW_LEVEL_SECURITY = (
    r"""
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY
    """,
    r"""
ALTER TABLE {table} FORCE ROW LEVEL SECURITY
    """,
    r"""
CREATE POLICY one_namespace ON {table}
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')))
    """,
)
# Whoever is no admin of a space removes only what they stored themselves.
REMOVING = r"""
CREATE POLICY removing ON {table} AS RESTRICTIVE FOR DELETE USING ({condition})
"""
ANYBODYS = "namespace_id = (SELECT pgengram_may('write'))"
ONES_OWN = (
    "namespace_id = (SELECT pgengram_may('admin')) OR (namespace_id = (SELECT pgengram_may('write'))"
    " AND person_id = nullif(current_setting('pgengram.person_id', true), '')::integer)"
)
MEMBERSHIP = (
    r"""
CREATE FUNCTION pgengram_may(wanted text) RETURNS integer LANGUAGE plpgsql STABLE
AS $$
DECLARE
  named integer := nullif(current_setting('pgengram.namespace_id', true), '')::integer;
BEGIN
  IF named IS NULL OR named < 1000000000 THEN
    RETURN named;
  END IF;
  RETURN pgengram_may_as_member(named, wanted);
END
$$
    """,
    r"""
DO $do$ BEGIN
  EXECUTE format($f$
CREATE FUNCTION pgengram_may_as_member(space integer, wanted text) RETURNS integer LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = %I, pg_temp
AS $$
DECLARE
  who integer := nullif(current_setting('pgengram.person_id', true), '')::integer;
  has text;
BEGIN
  IF who = -1 THEN  -- the upkeep of the server
    RETURN CASE WHEN wanted = 'role' THEN 3 ELSE space END;
  END IF;
  SELECT m.role INTO has FROM space_members m WHERE m.space_id = space AND m.person_id = who AND m.until IS NULL;
  IF has <> 'read' AND current_setting('pgengram.may_write', true) = 'off' THEN
    has := 'read';
  END IF;
  IF wanted = 'role' THEN
    RETURN array_position(ARRAY['read', 'write', 'admin'], has);
  END IF;
  RETURN CASE WHEN has = 'admin' OR has = wanted OR (has = 'write' AND wanted = 'read') THEN space END;
END
$$
  $f$, current_schema());
END $do$
    """,
)
FUNCTIONS_AND_RIGHTS = (
    r"""
CREATE FUNCTION pgengram_terms(body text, extra text[]) RETURNS TABLE(term integer, count smallint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  -- A term is the first 32 bits of the MD5 of its stem: the same for ever, on every machine and version.
  SELECT ('x' || left(md5(word), 8))::bit(32)::integer, least(sum(times), 32767)::smallint
  FROM (SELECT lexeme, cardinality(positions) FROM unnest(to_tsvector('pg_catalog.english'::regconfig, body))
        UNION ALL SELECT e, 1 FROM unnest(extra) AS e) AS words(word, times)
  GROUP BY 1
$$
    """,
    r"""
CREATE FUNCTION pgengram_relevance(anchor double precision, rate_per_day double precision, at timestamptz)
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  -- exp(anchor - rate * days), 0 where that would underflow; above 1 only the answer is cut, the order stays. One
  -- expression without FROM, so that PostgreSQL writes it into the statement that asks: a tenth of the cost of a call.
  SELECT CASE WHEN anchor - rate_per_day * (date_part('epoch', at AT TIME ZONE 'UTC') / 86400 - 20000) < -700 THEN 0.0
    ELSE least(1.0, exp(anchor - rate_per_day * (date_part('epoch', at AT TIME ZONE 'UTC') / 86400 - 20000))) END
$$
    """,
    r"""
INSERT INTO decay_classes VALUES (0.0), (0.001), (0.002), (0.003), (0.005), (0.01), (0.05)
    """,
    r"""
ALTER TABLE memory_vectors ALTER COLUMN embedding SET STORAGE PLAIN
    """,
    r"""
ALTER TABLE memory_vectors ALTER COLUMN embedding SET STATISTICS 0
    """,
    r"""
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
    ALTER TABLE decay_classes ENABLE ROW LEVEL SECURITY;
    ALTER TABLE embedding_models ENABLE ROW LEVEL SECURITY;
    ALTER TABLE access_events ENABLE ROW LEVEL SECURITY;
    ALTER TABLE access_tokens ENABLE ROW LEVEL SECURITY;
    ALTER TABLE client_rates ENABLE ROW LEVEL SECURITY;
    ALTER TABLE deletion_log ENABLE ROW LEVEL SECURITY;
    ALTER TABLE namespaces ENABLE ROW LEVEL SECURITY;
    ALTER TABLE oauth_grants ENABLE ROW LEVEL SECURITY;
    ALTER TABLE oauth_requests ENABLE ROW LEVEL SECURITY;
    ALTER TABLE pairing_codes ENABLE ROW LEVEL SECURITY;
    ALTER TABLE passkeys ENABLE ROW LEVEL SECURITY;
    ALTER TABLE person_notices ENABLE ROW LEVEL SECURITY;
    ALTER TABLE persons ENABLE ROW LEVEL SECURITY;
    ALTER TABLE server_keys ENABLE ROW LEVEL SECURITY;
    ALTER TABLE space_members ENABLE ROW LEVEL SECURITY;
    ALTER TABLE spaces ENABLE ROW LEVEL SECURITY;
    CREATE POLICY readable ON decay_classes FOR SELECT USING (true);
    CREATE POLICY readable ON embedding_models FOR SELECT USING (true);
  END IF;
END $$
    """,
    r"""
CREATE FUNCTION pgengram_keep_text() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  RAISE EXCEPTION 'The text of a memory is not changed by UPDATE: searches would go on finding the old one.'
    USING ERRCODE = 'restrict_violation',
      HINT = format('pgengram call update_memory id=%s content=…', right(OLD.id::text, 8));
END
$$
    """,
    r"""
DO $do$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
CREATE TRIGGER pgengram_keeps_text BEFORE UPDATE OF content ON memories FOR EACH ROW
  WHEN (OLD.content IS DISTINCT FROM NEW.content AND OLD.version = NEW.version) EXECUTE FUNCTION pgengram_keep_text();
CREATE VIEW memories_now WITH (security_invoker = true) AS
SELECT m.id, m.short_id, m.type, m.kind, m.content,
  pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance, a.importance,
  ARRAY(SELECT t.tag FROM memory_tags t WHERE t.namespace_id = m.namespace_id AND t.memory_id = m.id ORDER BY t.position) AS tags,
  m.project, m.collection, m."user", m.speaker, m.source, m.session_id, m.confidence, m.emotion, m.pinned,
  CASE m.type
    WHEN 'episodic' THEN (SELECT to_jsonb(d) - 'namespace_id' - 'memory_id' FROM episodic_memories d
                          WHERE d.namespace_id = m.namespace_id AND d.memory_id = m.id)
    WHEN 'semantic' THEN (SELECT to_jsonb(d) - 'namespace_id' - 'memory_id' FROM semantic_memories d
                          WHERE d.namespace_id = m.namespace_id AND d.memory_id = m.id)
    WHEN 'procedural' THEN (SELECT to_jsonb(d) - 'namespace_id' - 'memory_id' FROM procedural_memories d
                            WHERE d.namespace_id = m.namespace_id AND d.memory_id = m.id)
    ELSE (SELECT to_jsonb(d) - 'namespace_id' - 'memory_id' FROM strategic_memories d
          WHERE d.namespace_id = m.namespace_id AND d.memory_id = m.id)
  END AS detail,
  m.metadata, m.occurred_at, m.created_at, m.updated_at, m.expires_at, a.last_accessed_at, a.access_count, m.version,
  m.namespace_id
FROM memories m JOIN memory_activation a ON a.namespace_id = m.namespace_id AND a.memory_id = m.id
WHERE m.status = 'active' AND (m.expires_at IS NULL OR m.expires_at > now());
  END IF;
END $do$
    """,
)


def upgrade() -> None:
    """Create everything."""
    for statement in STATEMENTS:
        run(statement)
    for statement in MEMBERSHIP:
        run(statement)
    for table in OWNED:
        for statement in ROW_LEVEL_SECURITY:
            run(statement.format(table=table))
        run(REMOVING.format(table=table, condition=ONES_OWN if table == "memories" else ANYBODYS))
    for statement in FUNCTIONS_AND_RIGHTS:
        run(statement)
