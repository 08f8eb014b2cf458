-- What the migrations do to an empty database. Written by tests/store/write_schema.py; a test compares.
CREATE TABLE pgengram_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT pgengram_version_pkc PRIMARY KEY (version_num)
);
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') THEN CREATE EXTENSION vector; END IF;
END $$;
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
$$;
CREATE TABLE namespaces (
  id INTEGER GENERATED ALWAYS AS IDENTITY,
  name TEXT NOT NULL CONSTRAINT namespaces_name_check CHECK (length(name) >= 1 AND length(name) <= 128),
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT namespaces_pkey PRIMARY KEY (id),
  CONSTRAINT namespaces_name_key UNIQUE (name)
);
CREATE TABLE persons (
  id INTEGER GENERATED ALWAYS AS IDENTITY,
  name TEXT CONSTRAINT persons_name_check CHECK (length(name) >= 1 AND length(name) <= 64),
  personal_id INTEGER,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT persons_pkey PRIMARY KEY (id),
  CONSTRAINT persons_name_key UNIQUE (name),
  CONSTRAINT persons_personal_id_key UNIQUE (personal_id),
  CONSTRAINT persons_personal_id_fkey FOREIGN KEY(personal_id) REFERENCES namespaces (id) ON DELETE SET NULL
);
CREATE TABLE spaces (
  id INTEGER GENERATED ALWAYS AS IDENTITY (START WITH 1000000000),
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT spaces_pkey PRIMARY KEY (id),
  CONSTRAINT spaces_id_fkey FOREIGN KEY(id) REFERENCES namespaces (id) ON DELETE CASCADE
);
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
);
CREATE TABLE person_notices (
  id BIGINT GENERATED ALWAYS AS IDENTITY,
  person_id INTEGER NOT NULL,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  text TEXT NOT NULL,
  CONSTRAINT person_notices_pkey PRIMARY KEY (id),
  CONSTRAINT person_notices_person_id_fkey FOREIGN KEY(person_id) REFERENCES persons (id) ON DELETE CASCADE
);
CREATE INDEX person_notices_of_person ON person_notices (person_id);
CREATE TABLE server_keys (
  purpose TEXT NOT NULL,
  secret BYTEA NOT NULL,
  CONSTRAINT server_keys_pkey PRIMARY KEY (purpose)
);
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
);
CREATE UNLOGGED TABLE client_rates (
  client BYTEA NOT NULL,
  paid_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT client_rates_pkey PRIMARY KEY (client)
);
CREATE TABLE deletion_log (
  former_namespace_id INTEGER NOT NULL,
  namespace_since TIMESTAMP WITH TIME ZONE NOT NULL,
  memory_id UUID,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT deletion_log_former_namespace_id_namespace_since_memory_id_key UNIQUE NULLS NOT DISTINCT (former_namespace_id, namespace_since, memory_id)
);
CREATE TABLE decay_classes (
  rate_per_day DOUBLE PRECISION NOT NULL CONSTRAINT decay_classes_rate_per_day_check CHECK (rate_per_day >= 0),
  CONSTRAINT decay_classes_pkey PRIMARY KEY (rate_per_day)
);
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
);
CREATE UNIQUE INDEX embedding_models_filling ON embedding_models (state) WHERE state = 'filling';
CREATE UNIQUE INDEX embedding_models_active ON embedding_models (state) WHERE state = 'active';
CREATE TABLE memory_posting_lists (
  namespace_id INTEGER NOT NULL,
  term INTEGER NOT NULL,
  segment INTEGER NOT NULL,
  memory_ids UUID[] NOT NULL,
  measures INTEGER[] NOT NULL,
  CONSTRAINT memory_posting_lists_pkey PRIMARY KEY (namespace_id, term, segment)
);
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
);
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
);
CREATE INDEX oauth_grants_of_namespace ON oauth_grants (namespace);
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
);
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
);
CREATE INDEX passkeys_of_namespace ON passkeys (namespace);
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
);
CREATE INDEX memories_by_time ON memories (namespace_id, created_at);
CREATE INDEX memories_by_collection ON memories (namespace_id, collection, id) WHERE collection IS NOT NULL;
CREATE INDEX memories_by_occurrence ON memories (namespace_id, (CASE WHEN occurred_at IS NULL THEN created_at ELSE occurred_at END));
CREATE INDEX memories_hidden ON memories (namespace_id, status, expires_at, id) WHERE status <> 'active' OR expires_at IS NOT NULL;
CREATE INDEX memories_by_user ON memories (namespace_id, "user", id) WHERE "user" IS NOT NULL;
CREATE INDEX memories_by_session ON memories (namespace_id, session_id, session_sequence);
CREATE UNIQUE INDEX memories_active_content ON memories (namespace_id, content_hash) WHERE status = 'active';
CREATE INDEX memories_by_project ON memories (namespace_id, project, id) WHERE project IS NOT NULL;
CREATE UNIQUE INDEX memories_by_idempotency_key ON memories (namespace_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX memories_by_short_id ON memories (namespace_id, short_id);
CREATE TABLE memory_tag_synonyms (
  namespace_id INTEGER NOT NULL,
  alias TEXT NOT NULL,
  tag TEXT NOT NULL,
  CONSTRAINT memory_tag_synonyms_pkey PRIMARY KEY (namespace_id, alias),
  CONSTRAINT memory_tag_synonyms_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
);
CREATE TABLE memory_confirmations (
  namespace_id INTEGER NOT NULL,
  token_hash BYTEA NOT NULL,
  action TEXT NOT NULL,
  arguments JSONB NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT memory_confirmations_pkey PRIMARY KEY (namespace_id, token_hash),
  CONSTRAINT memory_confirmations_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
);
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
);
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
);
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
);
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
);
CREATE INDEX conversations_by_time ON conversations (namespace_id, at);
CREATE TABLE conversation_settings (
  namespace_id INTEGER NOT NULL,
  keeps BOOLEAN DEFAULT true NOT NULL,
  keep_days INTEGER DEFAULT 90 NOT NULL CONSTRAINT conversation_settings_keep_days_check CHECK (keep_days >= 1 AND keep_days <= 3650),
  CONSTRAINT conversation_settings_pkey PRIMARY KEY (namespace_id),
  CONSTRAINT conversation_settings_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
);
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
);
CREATE TABLE sync_changes (
  namespace_id INTEGER NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  at TIMESTAMP WITH TIME ZONE NOT NULL,
  uses BOOLEAN NOT NULL,
  CONSTRAINT sync_changes_pkey PRIMARY KEY (namespace_id, kind, key),
  CONSTRAINT sync_changes_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
);
CREATE TABLE sync_documents (
  namespace_id INTEGER NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  state JSONB NOT NULL,
  disputed BOOLEAN DEFAULT false NOT NULL,
  waits BOOLEAN DEFAULT false NOT NULL,
  CONSTRAINT sync_documents_pkey PRIMARY KEY (namespace_id, kind, key),
  CONSTRAINT sync_documents_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
);
CREATE INDEX sync_documents_disputed ON sync_documents (namespace_id, kind, key) WHERE disputed;
CREATE INDEX sync_documents_waiting ON sync_documents (namespace_id, kind, key) WHERE waits;
CREATE TABLE sync_files (
  namespace_id INTEGER NOT NULL,
  device TEXT NOT NULL,
  name TEXT NOT NULL,
  mark TEXT NOT NULL,
  written BOOLEAN DEFAULT false NOT NULL,
  problem TEXT,
  CONSTRAINT sync_files_pkey PRIMARY KEY (namespace_id, device, name),
  CONSTRAINT sync_files_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
);
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
);
CREATE INDEX access_tokens_of_namespace ON access_tokens (namespace);
CREATE INDEX access_tokens_of_grant ON access_tokens (grant_id);
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
);
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
);
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
);
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
);
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
);
CREATE TABLE working_memories (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  promote BOOLEAN DEFAULT false NOT NULL,
  context JSONB,
  CONSTRAINT working_memories_pkey PRIMARY KEY (namespace_id, memory_id),
  CONSTRAINT working_memories_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
);
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
);
CREATE INDEX memory_activation_rank ON memory_activation (namespace_id, rate_per_day, relevance_anchor DESC, memory_id);
CREATE TABLE memory_vectors (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  model_id SMALLINT NOT NULL,
  part SMALLINT NOT NULL,
  embedding halfvec NOT NULL,
  CONSTRAINT memory_vectors_pkey PRIMARY KEY (namespace_id, memory_id, model_id, part),
  CONSTRAINT memory_vectors_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE,
  CONSTRAINT memory_vectors_model_id_fkey FOREIGN KEY(model_id) REFERENCES embedding_models (id)
);
CREATE TABLE memory_words (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  terms INTEGER[] NOT NULL,
  counts SMALLINT[] NOT NULL,
  length INTEGER NOT NULL,
  segment INTEGER,
  CONSTRAINT memory_words_pkey PRIMARY KEY (namespace_id, memory_id),
  CONSTRAINT memory_words_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
);
CREATE INDEX memory_words_waiting ON memory_words (namespace_id, memory_id) WHERE segment IS NULL;
CREATE INDEX memory_words_by_segment ON memory_words (namespace_id, segment) WHERE segment > 0;
CREATE TABLE memory_tags (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  tag TEXT NOT NULL,
  position SMALLINT NOT NULL,
  CONSTRAINT memory_tags_pkey PRIMARY KEY (namespace_id, memory_id, tag),
  CONSTRAINT memory_tags_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
);
CREATE INDEX memory_tags_by_tag ON memory_tags (namespace_id, tag, memory_id);
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
);
CREATE INDEX memory_relationships_to ON memory_relationships (namespace_id, to_id, type);
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
);
CREATE INDEX memory_cluster_members_by_memory ON memory_cluster_members (namespace_id, memory_id);
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
);
CREATE INDEX memory_cluster_activations_by_time ON memory_cluster_activations (namespace_id, at);
CREATE TABLE memory_belief_evidence (
  namespace_id INTEGER NOT NULL,
  belief_id UUID NOT NULL,
  memory_id UUID NOT NULL,
  supports BOOLEAN DEFAULT true NOT NULL,
  added_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT memory_belief_evidence_pkey PRIMARY KEY (namespace_id, belief_id, memory_id),
  CONSTRAINT memory_belief_evidence_namespace_id_belief_id_fkey FOREIGN KEY(namespace_id, belief_id) REFERENCES memory_beliefs (namespace_id, id) ON DELETE CASCADE,
  CONSTRAINT memory_belief_evidence_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
);
CREATE INDEX memory_belief_evidence_by_memory ON memory_belief_evidence (namespace_id, memory_id);
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
);
CREATE INDEX conversation_turns_by_time ON conversation_turns (namespace_id, time);
CREATE INDEX conversation_turns_by_source ON conversation_turns (namespace_id, client, source_key);
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
);
CREATE INDEX hidden_turns_by_source ON hidden_turns (namespace_id, client, source_key);
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
);
CREATE INDEX recall_receipts_by_conversation ON recall_receipts (namespace_id, client, conversation, at);
CREATE TABLE shared_copies (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  space_id INTEGER NOT NULL,
  copy_id UUID NOT NULL,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT shared_copies_pkey PRIMARY KEY (namespace_id, memory_id, space_id),
  CONSTRAINT shared_copies_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
);
CREATE TABLE project_spaces (
  namespace_id INTEGER NOT NULL,
  project TEXT NOT NULL,
  space_id INTEGER NOT NULL,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT project_spaces_pkey PRIMARY KEY (namespace_id, project),
  CONSTRAINT project_spaces_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
);
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
$$;
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
END $do$;
ALTER TABLE memory_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_history FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_history
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_history AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_posting_lists ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_posting_lists FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_posting_lists
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_posting_lists AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE conversation_settings ENABLE ROW LEVEL SECURITY;
ALTER TABLE conversation_settings FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON conversation_settings
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON conversation_settings AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE conversations ENABLE ROW LEVEL SECURITY;
ALTER TABLE conversations FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON conversations
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON conversations AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memories
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memories AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('admin')) OR (namespace_id = (SELECT pgengram_may('write')) AND person_id = nullif(current_setting('pgengram.person_id', true), '')::integer));
ALTER TABLE memory_beliefs ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_beliefs FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_beliefs
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_beliefs AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_clusters ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_clusters FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_clusters
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_clusters AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_confirmations ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_confirmations FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_confirmations
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_confirmations AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_identities ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_identities FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_identities
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_identities AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_tag_synonyms ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_tag_synonyms FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_tag_synonyms
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_tag_synonyms AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE sync_changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE sync_changes FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON sync_changes
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON sync_changes AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE sync_documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE sync_documents FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON sync_documents
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON sync_documents AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE sync_files ENABLE ROW LEVEL SECURITY;
ALTER TABLE sync_files FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON sync_files
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON sync_files AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE sync_settings ENABLE ROW LEVEL SECURITY;
ALTER TABLE sync_settings FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON sync_settings
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON sync_settings AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE conversation_turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE conversation_turns FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON conversation_turns
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON conversation_turns AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE episodic_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE episodic_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON episodic_memories
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON episodic_memories AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE hidden_turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE hidden_turns FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON hidden_turns
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON hidden_turns AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_activation ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_activation FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_activation
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_activation AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_belief_evidence ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_belief_evidence FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_belief_evidence
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_belief_evidence AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_cluster_activations ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_cluster_activations FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_cluster_activations
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_cluster_activations AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_cluster_members ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_cluster_members FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_cluster_members
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_cluster_members AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_relationships ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_relationships FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_relationships
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_relationships AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_tags ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_tags FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_tags
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_tags AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_vectors FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_vectors
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_vectors AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE memory_words ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_words FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_words
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_words AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE procedural_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE procedural_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON procedural_memories
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON procedural_memories AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE project_spaces ENABLE ROW LEVEL SECURITY;
ALTER TABLE project_spaces FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON project_spaces
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON project_spaces AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE recall_receipts ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_receipts FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON recall_receipts
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON recall_receipts AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE semantic_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE semantic_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON semantic_memories
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON semantic_memories AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE shared_copies ENABLE ROW LEVEL SECURITY;
ALTER TABLE shared_copies FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON shared_copies
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON shared_copies AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE strategic_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE strategic_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON strategic_memories
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON strategic_memories AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE working_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE working_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON working_memories
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON working_memories AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
CREATE FUNCTION pgengram_terms(body text, extra text[]) RETURNS TABLE(term integer, count smallint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  -- A term is the first 32 bits of the MD5 of its stem: the same for ever, on every machine and version.
  SELECT ('x' || left(md5(word), 8))::bit(32)::integer, least(sum(times), 32767)::smallint
  FROM (SELECT lexeme, cardinality(positions) FROM unnest(to_tsvector('pg_catalog.english'::regconfig, body))
        UNION ALL SELECT e, 1 FROM unnest(extra) AS e) AS words(word, times)
  GROUP BY 1
$$;
CREATE FUNCTION pgengram_relevance(anchor double precision, rate_per_day double precision, at timestamptz)
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  -- exp(anchor - rate * days), 0 where that would underflow; above 1 only the answer is cut, the order stays. One
  -- expression without FROM, so that PostgreSQL writes it into the statement that asks: a tenth of the cost of a call.
  SELECT CASE WHEN anchor - rate_per_day * (date_part('epoch', at AT TIME ZONE 'UTC') / 86400 - 20000) < -700 THEN 0.0
    ELSE least(1.0, exp(anchor - rate_per_day * (date_part('epoch', at AT TIME ZONE 'UTC') / 86400 - 20000))) END
$$;
INSERT INTO decay_classes VALUES (0.0), (0.001), (0.002), (0.003), (0.005), (0.01), (0.05);
ALTER TABLE memory_vectors ALTER COLUMN embedding SET STORAGE PLAIN;
ALTER TABLE memory_vectors ALTER COLUMN embedding SET STATISTICS 0;
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
END $$;
CREATE FUNCTION pgengram_keep_text() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  RAISE EXCEPTION 'The text of a memory is not changed by UPDATE: searches would go on finding the old one.'
    USING ERRCODE = 'restrict_violation',
      HINT = format('pgengram call update_memory id=%s content=…', right(OLD.id::text, 8));
END
$$;
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
END $do$;
INSERT INTO pgengram_version (version_num) VALUES ('0001') RETURNING pgengram_version.version_num;
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
);
CREATE TABLE imported_memories (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  import_id UUID NOT NULL,
  version INTEGER NOT NULL,
  at TIMESTAMP WITH TIME ZONE NOT NULL,
  before_undo TIMESTAMP WITH TIME ZONE,
  CONSTRAINT imported_memories_pkey PRIMARY KEY (namespace_id, memory_id, import_id)
);
CREATE TABLE imported_turns (
  namespace_id INTEGER NOT NULL,
  import_id UUID NOT NULL,
  client TEXT NOT NULL,
  conversation TEXT NOT NULL,
  turn_ids BIGINT[] NOT NULL,
  CONSTRAINT imported_turns_pkey PRIMARY KEY (namespace_id, import_id, client, conversation)
);
ALTER TABLE memory_imports ADD CONSTRAINT memory_imports_namespace_id_fkey
  FOREIGN KEY(namespace_id) REFERENCES namespaces (id);
ALTER TABLE imported_memories ADD CONSTRAINT imported_memories_namespace_id_memory_id_fkey
  FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE;
ALTER TABLE imported_memories ADD CONSTRAINT imported_memories_namespace_id_import_id_fkey
  FOREIGN KEY(namespace_id, import_id) REFERENCES memory_imports (namespace_id, id) ON DELETE CASCADE;
ALTER TABLE imported_turns ADD CONSTRAINT imported_turns_namespace_id_import_id_fkey
  FOREIGN KEY(namespace_id, import_id) REFERENCES memory_imports (namespace_id, id) ON DELETE CASCADE;
CREATE INDEX imported_memories_by_import ON imported_memories (namespace_id, import_id);
ALTER TABLE memory_imports ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_imports FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_imports
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON memory_imports AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE imported_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE imported_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON imported_memories
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON imported_memories AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
ALTER TABLE imported_turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE imported_turns FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON imported_turns
            USING (namespace_id = (SELECT pgengram_may('read'))) WITH CHECK (namespace_id = (SELECT pgengram_may('write')));
CREATE POLICY removing ON imported_turns AS RESTRICTIVE FOR DELETE USING (namespace_id = (SELECT pgengram_may('write')));
UPDATE pgengram_version SET version_num='0002' WHERE pgengram_version.version_num = '0001';
DO $$ BEGIN
          IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgengram_app') THEN
            CREATE ROLE pgengram_app NOLOGIN NOSUPERUSER NOBYPASSRLS;
          END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
        END $$;
DO $$ BEGIN
          IF current_setting('server_version_num')::integer < 160000 THEN
            IF NOT pg_has_role(current_user, 'pgengram_app', 'MEMBER') THEN
              EXECUTE format('GRANT pgengram_app TO %I', current_user);
            END IF;
          ELSIF NOT pg_has_role(current_user, 'pgengram_app', 'SET') THEN
            EXECUTE format('GRANT pgengram_app TO %I WITH SET TRUE', current_user);
          END IF;
        EXCEPTION WHEN insufficient_privilege OR undefined_object THEN NULL;
        END $$;
DO $$ DECLARE one record; BEGIN
  FOR one IN 
    WITH ours AS (
      SELECT c.oid, c.relowner, c.relacl FROM pg_class c
      WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relname = ANY ('{memory_history,memory_posting_lists,conversation_settings,conversations,memories,memory_beliefs,memory_clusters,memory_confirmations,memory_identities,memory_imports,memory_tag_synonyms,project_spaces,sync_changes,sync_documents,sync_files,sync_settings,conversation_turns,episodic_memories,hidden_turns,imported_memories,imported_turns,memory_activation,memory_belief_evidence,memory_cluster_activations,memory_cluster_members,memory_relationships,memory_tags,memory_vectors,memory_words,procedural_memories,recall_receipts,semantic_memories,shared_copies,strategic_memories,working_memories,decay_classes,embedding_models,access_events,access_tokens,client_rates,deletion_log,namespaces,oauth_grants,oauth_requests,pairing_codes,passkeys,person_notices,persons,server_keys,space_members,spaces,memories_now,pgengram_version}')),
    reached AS (
      SELECT 'TABLE ' || oid::regclass AS what, relowner AS owner, relacl AS acl FROM ours
      UNION ALL
      SELECT 'TABLE ' || o.oid::regclass, o.relowner, a.attacl FROM ours o
      JOIN pg_attribute a ON a.attrelid = o.oid AND a.attnum > 0 AND NOT a.attisdropped
      UNION ALL
      SELECT 'SEQUENCE ' || s.oid::regclass, s.relowner, s.relacl FROM ours o
      JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = o.oid AND d.classid = d.refclassid
      JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
      UNION ALL
      SELECT 'FUNCTION ' || p.oid::regprocedure, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
      FROM pg_proc p WHERE p.pronamespace = quote_ident(current_schema())::regnamespace AND p.proname LIKE 'pgengram\_%'
        AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus'))
    SELECT DISTINCT r.what, a.grantee FROM reached r, aclexplode(r.acl) a WHERE a.grantee <> r.owner
  LOOP
    EXECUTE format('REVOKE ALL ON %s FROM %s CASCADE', one.what, CASE one.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(one.grantee)) END);
  END LOOP;
END $$;
DO $$ DECLARE one record; BEGIN
  FOR one IN
    SELECT DISTINCT a.grantee,
      CASE WHEN d.defaclnamespace = 0 THEN '' ELSE 'IN SCHEMA ' || quote_ident(current_schema()) END AS place,
      CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' ELSE 'FUNCTIONS' END AS what
    FROM pg_default_acl d, aclexplode(d.defaclacl) a
    WHERE d.defaclrole = current_user::regrole AND d.defaclnamespace IN (0, quote_ident(current_schema())::regnamespace)
      AND d.defaclobjtype IN ('r', 'S', 'f') AND a.grantee <> d.defaclrole
      AND NOT (d.defaclobjtype = 'f' AND d.defaclnamespace = 0 AND a.grantee = 0)
  LOOP
    EXECUTE format('ALTER DEFAULT PRIVILEGES %s REVOKE ALL ON %s FROM %s', one.place, one.what, CASE one.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(one.grantee)) END);
  END LOOP;
END $$;
DO $$ DECLARE one record; BEGIN
          IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgengram_app') THEN
            FOR one IN SELECT n.nspname FROM pg_namespace n
              WHERE n.nspname = current_schema() OR n.oid = (SELECT extnamespace FROM pg_extension WHERE extname = 'vector')
            LOOP
              BEGIN
                EXECUTE format('GRANT USAGE ON SCHEMA %I TO pgengram_app', one.nspname);
              EXCEPTION WHEN insufficient_privilege THEN NULL;
              END;
            END LOOP;
            GRANT SELECT ON decay_classes TO pgengram_app;
            GRANT SELECT ON embedding_models TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_history TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_posting_lists TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON conversation_settings TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON conversations TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memories TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_beliefs TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_clusters TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_confirmations TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_identities TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_imports TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_tag_synonyms TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON project_spaces TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON sync_changes TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON sync_documents TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON sync_files TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON sync_settings TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON conversation_turns TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON episodic_memories TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON hidden_turns TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON imported_memories TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON imported_turns TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_activation TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_belief_evidence TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_cluster_activations TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_cluster_members TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_relationships TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_tags TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_vectors TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_words TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON procedural_memories TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON recall_receipts TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON semantic_memories TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON shared_copies TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON strategic_memories TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON working_memories TO pgengram_app;
            FOR one IN SELECT p.oid::regprocedure AS name FROM pg_proc p
              WHERE p.pronamespace = quote_ident(current_schema())::regnamespace AND p.proname LIKE 'pgengram\_%'
                AND NOT has_function_privilege('pgengram_app', p.oid, 'EXECUTE')
            LOOP
              EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO pgengram_app', one.name);
            END LOOP;
            IF to_regclass('memories_now') IS NOT NULL THEN GRANT SELECT ON memories_now TO pgengram_app; END IF;
          END IF;
        END $$;
DO $$ DECLARE one record; BEGIN
  FOR one IN
    SELECT c.oid::regclass AS name, pg_get_userbyid(c.relowner) AS owner FROM pg_class c
    WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relname = ANY ('{memory_history,memory_posting_lists,conversation_settings,conversations,memories,memory_beliefs,memory_clusters,memory_confirmations,memory_identities,memory_imports,memory_tag_synonyms,project_spaces,sync_changes,sync_documents,sync_files,sync_settings,conversation_turns,episodic_memories,hidden_turns,imported_memories,imported_turns,memory_activation,memory_belief_evidence,memory_cluster_activations,memory_cluster_members,memory_relationships,memory_tags,memory_vectors,memory_words,procedural_memories,recall_receipts,semantic_memories,shared_copies,strategic_memories,working_memories}') AND NOT EXISTS (
      SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'maintenance' AND p.polroles = ARRAY[c.relowner])
    ORDER BY 1
  LOOP
    EXECUTE format('DROP POLICY IF EXISTS maintenance ON %s', one.name);
    EXECUTE format('CREATE POLICY maintenance ON %s FOR SELECT TO %I
      USING (current_setting(''pgengram.maintenance'', true) = ''on'')', one.name, one.owner);
  END LOOP;
END $$;
COMMENT ON TABLE memories IS 'Memories: what all types share.';
COMMENT ON COLUMN memories."namespace_id" IS 'The namespace.';
COMMENT ON COLUMN memories."id" IS 'UUID version 7, so ids sort by time. Its last 8 or more digits name it, too.';
COMMENT ON COLUMN memories."type" IS 'episodic, semantic, procedural or strategic.';
COMMENT ON COLUMN memories."kind" IS 'A finer category, or empty. It sets the rate of fading.';
COMMENT ON COLUMN memories."status" IS 'active; archived; invalidated when forgotten; working while held for a task.';
COMMENT ON COLUMN memories."content" IS '1 to 16,000 characters, stored unchanged.';
COMMENT ON COLUMN memories."content_hash" IS 'Hash of content, user, project, collection, speaker and time. Unique among active memories.';
COMMENT ON COLUMN memories."metadata" IS 'The caller''s other keys.';
COMMENT ON COLUMN memories."source" IS 'Where it comes from.';
COMMENT ON COLUMN memories."source_provider" IS 'Who stored it.';
COMMENT ON COLUMN memories."capture_mode" IS 'explicit (said) or inferred.';
COMMENT ON COLUMN memories."session_id" IS 'The conversation and the position in it. Without one, a connection is a session, until 30 idle minutes pass.';
COMMENT ON COLUMN memories."session_sequence" IS 'The conversation and the position in it. Without one, a connection is a session, until 30 idle minutes pass.';
COMMENT ON COLUMN memories."speaker" IS 'Who said it.';
COMMENT ON COLUMN memories."user" IS 'Who it is about or for.';
COMMENT ON COLUMN memories."speaker_key" IS 'The speaker in lower case, also if only the text names one.';
COMMENT ON COLUMN memories."turn_features" IS 'What the text has as a turn of a conversation, as bits: a time, a digit, a name, a question, ….';
COMMENT ON COLUMN memories."project" IS 'Its project.';
COMMENT ON COLUMN memories."collection" IS 'Any other grouping.';
COMMENT ON COLUMN memories."confidence" IS 'How certain it is, 0 to 1; by default 0.8 for semantic memories and 0.7 for strategic ones.';
COMMENT ON COLUMN memories."emotion" IS 'curiosity, satisfaction, concern, neutral or excitement.';
COMMENT ON COLUMN memories."sources" IS 'Who says so: a list of objects with kind, ref, label, author, observed_at and trust.';
COMMENT ON COLUMN memories."pinned" IS 'Whether it never fades.';
COMMENT ON COLUMN memories."idempotency_key" IS 'The key of the call that stored it.';
COMMENT ON COLUMN memories."version" IS '1 at first; each change adds 1.';
COMMENT ON COLUMN memories."reason" IS 'Why it was forgotten.';
COMMENT ON COLUMN memories."replaced_by" IS 'Which memories replace it.';
COMMENT ON COLUMN memories."occurred_at" IS 'When it happened.';
COMMENT ON COLUMN memories."expires_at" IS 'When it stops appearing in search.';
COMMENT ON COLUMN memories."last_confirmed_at" IS 'When it was last said or confirmed.';
COMMENT ON COLUMN memories."valid_from" IS 'When it became true (occurred_at, or when it was stored).';
COMMENT ON COLUMN memories."valid_to" IS 'When its replacement became true, or it was forgotten.';
COMMENT ON COLUMN memories."created_at" IS 'When it was stored.';
COMMENT ON COLUMN memories."updated_at" IS 'When it was last changed.';
COMMENT ON COLUMN memories."short_id" IS 'The last 8 digits of the id; generated.';
COMMENT ON COLUMN memories."person_id" IS 'Who stored it, in a space; set by the database.';
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON VIEW memories_now IS 'A view for looking with SQL: active memories that have not expired, with what other tables say of them.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."content" IS 'The text.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."type" IS 'The type.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."kind" IS 'The finer category.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."relevance" IS 'How much it matters now, 0 to 1: importance, faded since, strengthened by use.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."importance" IS '0 to 1, as given; use does not change it.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."tags" IS 'Its tags, in their order.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."detail" IS 'The columns of its type''s table, as a JSON object.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."metadata" IS 'The caller''s other keys.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."project" IS 'Its project.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."collection" IS 'Any other grouping.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."user" IS 'Who it is about or for.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."speaker" IS 'Who said it.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."source" IS 'Where it comes from.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."session_id" IS 'Its conversation.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."confidence" IS 'How certain it is, 0 to 1.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."emotion" IS 'The emotion.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."pinned" IS 'Whether it never fades.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."occurred_at" IS 'When it happened.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."created_at" IS 'Was stored.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."updated_at" IS 'Was last changed.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."expires_at" IS 'Stops appearing in search.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."last_accessed_at" IS 'When it was last read by its id or changed.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."access_count" IS 'How often it was read, changed or found.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."id" IS 'The id.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."short_id" IS 'Its last 8 digits.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."version" IS 'Its version.'; END IF; END $$;
DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON COLUMN memories_now."namespace_id" IS 'The namespace.'; END IF; END $$;
COMMENT ON TABLE episodic_memories IS 'What happened.';
COMMENT ON COLUMN episodic_memories."action_taken" IS 'Any JSON.';
COMMENT ON COLUMN episodic_memories."context" IS 'Any JSON.';
COMMENT ON COLUMN episodic_memories."result" IS 'Any JSON.';
COMMENT ON COLUMN episodic_memories."emotional_valence" IS '−1 to 1; 0 by default.';
COMMENT ON COLUMN episodic_memories."verification_status" IS 'Whether it was verified; empty if nobody has checked.';
COMMENT ON COLUMN episodic_memories."event_time" IS 'When it happened; by default occurred_at, else when it was stored.';
COMMENT ON TABLE semantic_memories IS 'What is true.';
COMMENT ON COLUMN semantic_memories."category" IS 'Lists of words.';
COMMENT ON COLUMN semantic_memories."related_concepts" IS 'Lists of words.';
COMMENT ON COLUMN semantic_memories."source_references" IS 'Any JSON.';
COMMENT ON COLUMN semantic_memories."contradictions" IS 'Any JSON.';
COMMENT ON COLUMN semantic_memories."last_validated" IS 'When it was last checked.';
COMMENT ON TABLE procedural_memories IS 'How to do something.';
COMMENT ON COLUMN procedural_memories."steps" IS 'Any JSON.';
COMMENT ON COLUMN procedural_memories."prerequisites" IS 'Empty objects by default.';
COMMENT ON COLUMN procedural_memories."success_count" IS 'How often it worked.';
COMMENT ON COLUMN procedural_memories."total_attempts" IS 'How often it was tried.';
COMMENT ON COLUMN procedural_memories."success_rate" IS 'The first divided by the second, 0 without attempts; generated.';
COMMENT ON COLUMN procedural_memories."failure_points" IS 'Any JSON; recorded outcomes make it a list of the latest 100.';
COMMENT ON COLUMN procedural_memories."average_duration" IS 'Mean of the recorded durations, an interval.';
COMMENT ON TABLE strategic_memories IS 'Decisions, goals and patterns.';
COMMENT ON COLUMN strategic_memories."pattern_description" IS 'The pattern in words; empty if the content says it.';
COMMENT ON COLUMN strategic_memories."supporting_evidence" IS 'Any JSON.';
COMMENT ON COLUMN strategic_memories."success_metrics" IS 'Any JSON.';
COMMENT ON COLUMN strategic_memories."adaptation_history" IS 'Any JSON.';
COMMENT ON COLUMN strategic_memories."context_applicability" IS 'Any JSON.';
COMMENT ON TABLE memory_activation IS 'How much a memory matters now: relevance is a line in log space.';
COMMENT ON COLUMN memory_activation."importance" IS '0 to 1, as given; use does not change it.';
COMMENT ON COLUMN memory_activation."rate_per_day" IS 'How fast it fades.';
COMMENT ON COLUMN memory_activation."started_at" IS 'When it starts to fade.';
COMMENT ON COLUMN memory_activation."last_accessed_at" IS 'When it was last read by its id or changed.';
COMMENT ON COLUMN memory_activation."access_count" IS 'How often it was read, changed or found. Being found doesn''t strengthen it.';
COMMENT ON COLUMN memory_activation."reinforcement" IS 'Logarithm of the sum of all uses, each faded to a fixed day.';
COMMENT ON COLUMN memory_activation."used_at" IS 'The last 32 uses, newest first.';
COMMENT ON COLUMN memory_activation."use_weights" IS 'The weight of each.';
COMMENT ON COLUMN memory_activation."relevance_anchor" IS 'Constant term of the line; generated. pgengram_relevance(relevance_anchor, rate_per_day, now()) is the relevance, 0 to 1.';
COMMENT ON TABLE memory_vectors IS 'Vectors of the parts of memories.';
COMMENT ON COLUMN memory_vectors."memory_id" IS 'The memory.';
COMMENT ON COLUMN memory_vectors."model_id" IS 'The model.';
COMMENT ON COLUMN memory_vectors."part" IS 'Which of the text''s overlapping parts, from 0.';
COMMENT ON COLUMN memory_vectors."embedding" IS 'A vector of unit length, 2 bytes per dimension.';
COMMENT ON TABLE memory_words IS 'The words of the content, the speaker, the tags, the day, and up to 4,000 characters of detail and metadata.';
COMMENT ON COLUMN memory_words."terms" IS 'The words, as hashed stems.';
COMMENT ON COLUMN memory_words."counts" IS 'How often each occurs.';
COMMENT ON COLUMN memory_words."length" IS 'The number of words.';
COMMENT ON COLUMN memory_words."segment" IS 'The segment of the posting lists that has the words; empty until a job adds them, 0 for none.';
COMMENT ON TABLE memory_posting_lists IS 'Which memories contain a word.';
COMMENT ON COLUMN memory_posting_lists."term" IS 'The word.';
COMMENT ON COLUMN memory_posting_lists."segment" IS 'A group of up to 4,096 memories.';
COMMENT ON COLUMN memory_posting_lists."memory_ids" IS 'The memories of the group that have the word.';
COMMENT ON COLUMN memory_posting_lists."measures" IS 'How often, and the length of the text, in one number.';
COMMENT ON TABLE memory_tags IS 'Tags of memories.';
COMMENT ON COLUMN memory_tags."tag" IS 'Up to 64 characters.';
COMMENT ON COLUMN memory_tags."position" IS 'Its position among the memory''s tags.';
COMMENT ON TABLE memory_tag_synonyms IS 'Words that mean another tag, as you edited them; built-in synonyms are in the program.';
COMMENT ON COLUMN memory_tag_synonyms."alias" IS 'The word as written.';
COMMENT ON COLUMN memory_tag_synonyms."tag" IS 'The tag that is stored and searched instead. An alias of itself turns off a built-in synonym.';
COMMENT ON TABLE memory_relationships IS 'Links between memories.';
COMMENT ON COLUMN memory_relationships."from_id" IS 'From which memory.';
COMMENT ON COLUMN memory_relationships."to_id" IS 'To which.';
COMMENT ON COLUMN memory_relationships."type" IS 'A type in lower case.';
COMMENT ON COLUMN memory_relationships."strength" IS '0 to 1.';
COMMENT ON COLUMN memory_relationships."properties" IS 'Any JSON object.';
COMMENT ON COLUMN memory_relationships."created_at" IS 'When the link was first stored.';
COMMENT ON COLUMN memory_relationships."updated_at" IS 'When last.';
COMMENT ON TABLE memory_clusters IS 'Groups of memories.';
COMMENT ON COLUMN memory_clusters."id" IS 'The key.';
COMMENT ON COLUMN memory_clusters."name" IS 'The name.';
COMMENT ON COLUMN memory_clusters."description" IS 'What belongs in it.';
COMMENT ON COLUMN memory_clusters."keywords" IS 'Words for it.';
COMMENT ON COLUMN memory_clusters."type" IS 'theme, emotion, temporal, person, pattern or mixed.';
COMMENT ON COLUMN memory_clusters."emotional_signature" IS 'Any JSON.';
COMMENT ON COLUMN memory_clusters."importance" IS '0 to 1.';
COMMENT ON COLUMN memory_clusters."activation_count" IS 'How often it was activated.';
COMMENT ON COLUMN memory_clusters."last_activated_at" IS 'When last.';
COMMENT ON COLUMN memory_clusters."model_id" IS 'The model.';
COMMENT ON COLUMN memory_clusters."centroid" IS 'The mean vector of its (1,000 strongest) members, empty while none has a vector.';
COMMENT ON COLUMN memory_clusters."created_at" IS 'When it was made.';
COMMENT ON COLUMN memory_clusters."updated_at" IS 'When it or its members last changed.';
COMMENT ON TABLE memory_cluster_members IS 'Memories in clusters.';
COMMENT ON COLUMN memory_cluster_members."cluster_id" IS 'The cluster.';
COMMENT ON COLUMN memory_cluster_members."memory_id" IS 'The memory in it.';
COMMENT ON COLUMN memory_cluster_members."strength" IS '0 to 1; for automatic members, the cosine similarity to the centroid.';
COMMENT ON COLUMN memory_cluster_members."automatic" IS 'Whether it was added because it is similar, not by a caller.';
COMMENT ON COLUMN memory_cluster_members."added_at" IS 'When it was added.';
COMMENT ON TABLE memory_cluster_activations IS 'When clusters were activated.';
COMMENT ON COLUMN memory_cluster_activations."cluster_id" IS 'The cluster.';
COMMENT ON COLUMN memory_cluster_activations."id" IS 'The key.';
COMMENT ON COLUMN memory_cluster_activations."context" IS 'Why it was activated.';
COMMENT ON COLUMN memory_cluster_activations."strength" IS 'How strongly.';
COMMENT ON COLUMN memory_cluster_activations."session_id" IS 'In which conversation.';
COMMENT ON COLUMN memory_cluster_activations."at" IS 'When.';
COMMENT ON TABLE working_memories IS 'Memories of status working.';
COMMENT ON COLUMN working_memories."promote" IS 'Whether to keep it when it expires.';
COMMENT ON COLUMN working_memories."context" IS 'Any JSON.';
COMMENT ON TABLE memory_identities IS 'Who the assistant is; the newest row counts.';
COMMENT ON COLUMN memory_identities."id" IS 'The key.';
COMMENT ON COLUMN memory_identities."session_id" IS 'The conversation.';
COMMENT ON COLUMN memory_identities."created_at" IS 'When it was recorded.';
COMMENT ON COLUMN memory_identities."self_concept" IS 'Any JSON.';
COMMENT ON COLUMN memory_identities."agency_beliefs" IS 'Any JSON.';
COMMENT ON COLUMN memory_identities."purpose_framework" IS 'Any JSON.';
COMMENT ON COLUMN memory_identities."group_identifications" IS 'Any JSON.';
COMMENT ON COLUMN memory_identities."boundary_definitions" IS 'Any JSON.';
COMMENT ON COLUMN memory_identities."emotional_baseline" IS 'Any JSON.';
COMMENT ON COLUMN memory_identities."threat_sensitivity" IS '0 to 1.';
COMMENT ON COLUMN memory_identities."change_resistance" IS '0 to 1.';
COMMENT ON TABLE memory_beliefs IS 'What the assistant believes.';
COMMENT ON COLUMN memory_beliefs."id" IS 'The key.';
COMMENT ON COLUMN memory_beliefs."category" IS 'What it is about, in one word.';
COMMENT ON COLUMN memory_beliefs."belief" IS 'What is believed.';
COMMENT ON COLUMN memory_beliefs."belief_hash" IS 'Hash of the text, so that no belief is stored twice.';
COMMENT ON COLUMN memory_beliefs."confidence" IS '0 to 1: how certain it is.';
COMMENT ON COLUMN memory_beliefs."stability" IS 'How hard to change.';
COMMENT ON COLUMN memory_beliefs."emotional_valence" IS '−1 to 1.';
COMMENT ON COLUMN memory_beliefs."details" IS 'Any JSON object.';
COMMENT ON COLUMN memory_beliefs."version" IS 'How often it changed.';
COMMENT ON COLUMN memory_beliefs."created_at" IS 'When it was first recorded.';
COMMENT ON COLUMN memory_beliefs."updated_at" IS 'When last.';
COMMENT ON TABLE memory_belief_evidence IS 'Memories that speak for or against a belief.';
COMMENT ON COLUMN memory_belief_evidence."belief_id" IS 'The belief.';
COMMENT ON COLUMN memory_belief_evidence."memory_id" IS 'A memory that is evidence.';
COMMENT ON COLUMN memory_belief_evidence."supports" IS 'Whether the memory supports the belief or contradicts it.';
COMMENT ON COLUMN memory_belief_evidence."added_at" IS 'When it was recorded.';
COMMENT ON TABLE memory_confirmations IS 'Changes that wait for a confirmation.';
COMMENT ON COLUMN memory_confirmations."token_hash" IS 'SHA-256 of the token, which only the caller knows.';
COMMENT ON COLUMN memory_confirmations."action" IS 'What will be done.';
COMMENT ON COLUMN memory_confirmations."arguments" IS 'To which memories.';
COMMENT ON COLUMN memory_confirmations."created_at" IS 'A token is valid for 60 seconds and one use.';
COMMENT ON COLUMN memory_confirmations."expires_at" IS 'A token is valid for 60 seconds and one use.';
COMMENT ON TABLE conversations IS 'What hooks keep and imports add.';
COMMENT ON COLUMN conversations."client" IS 'The assistant, such as claude-code.';
COMMENT ON COLUMN conversations."conversation" IS 'Its id for the conversation.';
COMMENT ON COLUMN conversations."project" IS 'The project of the folder where the assistant worked.';
COMMENT ON COLUMN conversations."transcript" IS 'The path of the assistant''s own file.';
COMMENT ON COLUMN conversations."read_to" IS 'The number of the last turn that was read.';
COMMENT ON COLUMN conversations."title" IS 'Its name in the system it was imported from.';
COMMENT ON COLUMN conversations."imported" IS 'Whether it was imported, and so is kept until you erase it.';
COMMENT ON COLUMN conversations."at" IS 'When something was last said.';
COMMENT ON COLUMN conversations."forked_from" IS 'The conversation that it begins with a copy of.';
COMMENT ON COLUMN conversations."as_of" IS 'The newest state of it that was read.';
COMMENT ON COLUMN conversations."kept_from" IS 'Hooks keep what was said from then on.';
COMMENT ON COLUMN conversations."began_at" IS 'When it began. A turn of several conversations is stored in the earliest.';
COMMENT ON TABLE conversation_turns IS 'Turns of conversations.';
COMMENT ON COLUMN conversation_turns."client" IS 'Which conversation.';
COMMENT ON COLUMN conversation_turns."conversation" IS 'Which conversation.';
COMMENT ON COLUMN conversation_turns."number" IS 'Its position. Turns from two machines may have the same.';
COMMENT ON COLUMN conversation_turns."role" IS 'user, assistant or tool.';
COMMENT ON COLUMN conversation_turns."text" IS 'Word for word, without secrets; a tool''s output is cut at 2,000 characters, other text at 200,000.';
COMMENT ON COLUMN conversation_turns."project" IS 'The conversation''s project when it was said.';
COMMENT ON COLUMN conversation_turns."time" IS 'When it was said.';
COMMENT ON COLUMN conversation_turns."terms" IS 'The words of its first 50,000 characters, as hashed stems.';
COMMENT ON COLUMN conversation_turns."source_key" IS 'Hash of the assistant''s name for the turn, or of its position and text.';
COMMENT ON COLUMN conversation_turns."as_of" IS 'The newest state of the conversation that had the turn.';
COMMENT ON COLUMN conversation_turns."copy_of" IS 'The key of the turn of another conversation that it copies.';
COMMENT ON COLUMN conversation_turns."id" IS 'The same on every machine, and never used again: from source_key and text, or random.';
COMMENT ON TABLE hidden_turns IS 'Turns that a conversation has but that aren''t stored there, without their words.';
COMMENT ON COLUMN hidden_turns."client" IS 'Which conversation.';
COMMENT ON COLUMN hidden_turns."conversation" IS 'Which conversation.';
COMMENT ON COLUMN hidden_turns."source_key" IS 'As in conversation_turns.';
COMMENT ON COLUMN hidden_turns."role" IS 'As in conversation_turns.';
COMMENT ON COLUMN hidden_turns."number" IS 'As in conversation_turns.';
COMMENT ON COLUMN hidden_turns."time" IS 'As in conversation_turns.';
COMMENT ON COLUMN hidden_turns."copy_of" IS 'As in conversation_turns.';
COMMENT ON COLUMN hidden_turns."withdrawn" IS 'Whether the turn was taken back. Otherwise it is stored in a conversation that began earlier.';
COMMENT ON COLUMN hidden_turns."digest" IS 'MD5 of its text.';
COMMENT ON COLUMN hidden_turns."as_of" IS 'The newest state of the conversation that had it or had taken it back.';
COMMENT ON TABLE conversation_settings IS 'Namespaces with their own rules for keeping conversations.';
COMMENT ON COLUMN conversation_settings."keeps" IS 'Whether conversations are kept.';
COMMENT ON COLUMN conversation_settings."keep_days" IS 'For how many days conversations and receipts are kept; 90 by default.';
COMMENT ON TABLE recall_receipts IS 'Memories that hooks gave to a model; deleted with the memory.';
COMMENT ON COLUMN recall_receipts."memory_id" IS 'What the model got. It gets a version once per conversation.';
COMMENT ON COLUMN recall_receipts."version" IS 'What the model got. It gets a version once per conversation.';
COMMENT ON COLUMN recall_receipts."client" IS 'In which conversation.';
COMMENT ON COLUMN recall_receipts."conversation" IS 'In which conversation.';
COMMENT ON COLUMN recall_receipts."event" IS 'On which event of the assistant.';
COMMENT ON COLUMN recall_receipts."at" IS 'When.';
COMMENT ON COLUMN recall_receipts."project" IS 'The folder''s project.';
COMMENT ON COLUMN recall_receipts."score" IS 'From the search that found it.';
COMMENT ON COLUMN recall_receipts."evidence" IS 'Empty if there was no question.';
COMMENT ON COLUMN recall_receipts."tokens" IS 'About how many tokens it took.';
COMMENT ON COLUMN recall_receipts."milliseconds" IS 'How long the hook took.';
COMMENT ON TABLE sync_settings IS 'How a namespace is exchanged with other machines.';
COMMENT ON COLUMN sync_settings."secret" IS 'The key, 32 bytes.';
COMMENT ON COLUMN sync_settings."folder" IS 'The shared folder, or the address of the server or repository.';
COMMENT ON COLUMN sync_settings."token" IS 'What lets this machine into the server.';
COMMENT ON COLUMN sync_settings."device" IS 'What this machine is called in file names.';
COMMENT ON COLUMN sync_settings."device_name" IS 'What people call it.';
COMMENT ON COLUMN sync_settings."writers" IS 'The processes of this machine that wrote files.';
COMMENT ON COLUMN sync_settings."since" IS 'When it began.';
COMMENT ON COLUMN sync_settings."problem" IS 'Why the last exchange failed.';
COMMENT ON COLUMN sync_settings."exchanged_at" IS 'When one last succeeded.';
COMMENT ON TABLE sync_changes IS 'Changes that are in no file yet, written by triggers in stores that are exchanged.';
COMMENT ON COLUMN sync_changes."kind" IS 'What kind of row.';
COMMENT ON COLUMN sync_changes."key" IS 'Its key.';
COMMENT ON COLUMN sync_changes."at" IS 'When it was changed last.';
COMMENT ON COLUMN sync_changes."uses" IS 'Whether it was only found or used.';
COMMENT ON TABLE sync_documents IS 'What is known of each row, as in the files.';
COMMENT ON COLUMN sync_documents."kind" IS 'As in sync_changes.';
COMMENT ON COLUMN sync_documents."key" IS 'As in sync_changes.';
COMMENT ON COLUMN sync_documents."state" IS 'Who wrote what; values that are shown are known by their digests.';
COMMENT ON COLUMN sync_documents."disputed" IS 'Whether two machines changed a field at the same time, until somebody chooses.';
COMMENT ON COLUMN sync_documents."waits" IS 'Whether it isn''t here yet, as what it leads to is missing.';
COMMENT ON TABLE sync_files IS 'Files that were read or written.';
COMMENT ON COLUMN sync_files."device" IS 'Whose file.';
COMMENT ON COLUMN sync_files."name" IS 'Its name.';
COMMENT ON COLUMN sync_files."mark" IS 'Its size and time, which tell whether it has changed.';
COMMENT ON COLUMN sync_files."written" IS 'Whether this machine wrote it.';
COMMENT ON COLUMN sync_files."problem" IS 'Why it could not be read.';
COMMENT ON TABLE memory_history IS 'Changes of memories.';
COMMENT ON COLUMN memory_history."memory_id" IS 'Which memory.';
COMMENT ON COLUMN memory_history."version" IS 'The version that the change made.';
COMMENT ON COLUMN memory_history."operation" IS 'create, update, confirm, outcome, archive, forget, restore, revive, merge, link, unlink, promote, consolidate, import or erase.';
COMMENT ON COLUMN memory_history."actor" IS 'The client''s name for itself, command line or pgengram ui; for a create without one, its source_provider.';
COMMENT ON COLUMN memory_history."session_id" IS 'The conversation in which it was changed.';
COMMENT ON COLUMN memory_history."changes" IS 'Old and new value of each field; empty for a create. Of an erased memory only the fields'' names are left, and no actor or session.';
COMMENT ON COLUMN memory_history."at" IS 'When it was changed.';
COMMENT ON COLUMN memory_history."person_id" IS 'Who changed it, in a space; set by the database.';
COMMENT ON TABLE namespaces IS 'Whose memories there are.';
COMMENT ON COLUMN namespaces."id" IS 'The key.';
COMMENT ON COLUMN namespaces."name" IS 'The value of PGENGRAM_NAMESPACE that selects it.';
COMMENT ON COLUMN namespaces."created_at" IS 'When it was first used.';
COMMENT ON TABLE persons IS 'People who may share memories.';
COMMENT ON COLUMN persons."id" IS 'The key; it stays when the person is erased.';
COMMENT ON COLUMN persons."name" IS 'How others see them; empty once the person is erased.';
COMMENT ON COLUMN persons."personal_id" IS 'The namespace with their own memories.';
COMMENT ON COLUMN persons."created_at" IS 'When they were added.';
COMMENT ON TABLE spaces IS 'Shared spaces.';
COMMENT ON COLUMN spaces."id" IS 'The key of its namespace, from 1,000,000,000 on; that is called space: and the space''s name.';
COMMENT ON COLUMN spaces."created_at" IS 'When it was created.';
COMMENT ON TABLE space_members IS 'Who is or was in a space.';
COMMENT ON COLUMN space_members."space_id" IS 'The space.';
COMMENT ON COLUMN space_members."person_id" IS 'Who is in it.';
COMMENT ON COLUMN space_members."role" IS 'read, write or admin.';
COMMENT ON COLUMN space_members."since" IS 'When they joined.';
COMMENT ON COLUMN space_members."until" IS 'When they left or were removed.';
COMMENT ON COLUMN space_members."anonymous" IS 'Whether they left and asked to be shown as a former member.';
COMMENT ON TABLE person_notices IS 'What people are told once.';
COMMENT ON COLUMN person_notices."id" IS 'The key.';
COMMENT ON COLUMN person_notices."person_id" IS 'Who is told.';
COMMENT ON COLUMN person_notices."at" IS 'When it happened.';
COMMENT ON COLUMN person_notices."text" IS 'What the next answer tells them.';
COMMENT ON TABLE shared_copies IS 'Memories that people have copied into a space.';
COMMENT ON COLUMN shared_copies."memory_id" IS 'The personal memory.';
COMMENT ON COLUMN shared_copies."space_id" IS 'The space.';
COMMENT ON COLUMN shared_copies."copy_id" IS 'The copy in it. Nothing in the space leads back.';
COMMENT ON COLUMN shared_copies."at" IS 'When it was shared.';
COMMENT ON TABLE project_spaces IS 'Projects whose conversations are kept in a space.';
COMMENT ON COLUMN project_spaces."project" IS 'The name of the project.';
COMMENT ON COLUMN project_spaces."space_id" IS 'The space in which hooks keep its conversations, and search.';
COMMENT ON COLUMN project_spaces."at" IS 'When a person bound it.';
COMMENT ON TABLE memory_imports IS 'Imports, which can be undone.';
COMMENT ON COLUMN memory_imports."id" IS 'The import.';
COMMENT ON COLUMN memory_imports."name" IS 'The name of the file.';
COMMENT ON COLUMN memory_imports."system" IS 'Its system.';
COMMENT ON COLUMN memory_imports."actor" IS 'command line or pgengram ui.';
COMMENT ON COLUMN memory_imports."others" IS 'Counts of what else it stored.';
COMMENT ON COLUMN memory_imports."began_at" IS 'When it stored the first.';
COMMENT ON COLUMN memory_imports."ended_at" IS 'The last.';
COMMENT ON COLUMN memory_imports."undone_at" IS 'When it was undone.';
COMMENT ON TABLE imported_memories IS 'Memories that imports stored or found.';
COMMENT ON COLUMN imported_memories."memory_id" IS 'The memory.';
COMMENT ON COLUMN imported_memories."import_id" IS 'The import.';
COMMENT ON COLUMN imported_memories."version" IS 'The version that it made.';
COMMENT ON COLUMN imported_memories."at" IS 'When it was stored.';
COMMENT ON COLUMN imported_memories."before_undo" IS 'The updated_at before the undo forgot it.';
COMMENT ON TABLE imported_turns IS 'Turns that imports stored or found.';
COMMENT ON COLUMN imported_turns."import_id" IS 'The import.';
COMMENT ON COLUMN imported_turns."client" IS 'As in conversations.';
COMMENT ON COLUMN imported_turns."conversation" IS 'As in conversations.';
COMMENT ON COLUMN imported_turns."turn_ids" IS 'Their ids.';
COMMENT ON TABLE access_tokens IS 'Tokens of HTTP clients.';
COMMENT ON COLUMN access_tokens."id" IS 'The part of a token that isn''t secret.';
COMMENT ON COLUMN access_tokens."secret_hash" IS 'SHA-256 of the other part, which only the client knows.';
COMMENT ON COLUMN access_tokens."name" IS 'Who it is for; the history names it as the actor.';
COMMENT ON COLUMN access_tokens."namespace" IS 'The namespace it gives access to.';
COMMENT ON COLUMN access_tokens."scope" IS 'read-only or read-write.';
COMMENT ON COLUMN access_tokens."created_at" IS 'When it was created.';
COMMENT ON COLUMN access_tokens."expires_at" IS 'Expires.';
COMMENT ON COLUMN access_tokens."revoked_at" IS 'Was revoked.';
COMMENT ON COLUMN access_tokens."last_used_at" IS 'When it was last used, to the minute.';
COMMENT ON COLUMN access_tokens."grant_id" IS 'The connection it belongs to; empty if a person made it.';
COMMENT ON COLUMN access_tokens."spaces" IS 'The spaces that it may use, each with read or write.';
COMMENT ON TABLE oauth_grants IS 'Programs that signed in, and what their owners allowed.';
COMMENT ON COLUMN oauth_grants."id" IS 'What pgengram connection revoke takes.';
COMMENT ON COLUMN oauth_grants."client_id" IS 'Its id.';
COMMENT ON COLUMN oauth_grants."client_name" IS 'What it calls itself.';
COMMENT ON COLUMN oauth_grants."client_host" IS 'The host of the document about it, if there is one.';
COMMENT ON COLUMN oauth_grants."redirect_host" IS 'Where its answers go.';
COMMENT ON COLUMN oauth_grants."namespace" IS 'Whose memories.';
COMMENT ON COLUMN oauth_grants."scope" IS 'read-only or read-write.';
COMMENT ON COLUMN oauth_grants."resource" IS 'At which address.';
COMMENT ON COLUMN oauth_grants."generation" IS 'The number of the present refresh token.';
COMMENT ON COLUMN oauth_grants."refresh_hash" IS 'Its hash.';
COMMENT ON COLUMN oauth_grants."previous_hash" IS 'That of the one before.';
COMMENT ON COLUMN oauth_grants."rotated_at" IS 'Since when.';
COMMENT ON COLUMN oauth_grants."created_at" IS 'When it began.';
COMMENT ON COLUMN oauth_grants."expires_at" IS 'Ends at the latest.';
COMMENT ON COLUMN oauth_grants."revoked_at" IS 'Was ended.';
COMMENT ON COLUMN oauth_grants."spaces" IS 'The spaces that it may use, each with read or write.';
COMMENT ON TABLE oauth_requests IS 'Answered requests to sign in.';
COMMENT ON COLUMN oauth_requests."id_hash" IS 'The page that was answered.';
COMMENT ON COLUMN oauth_requests."asked" IS 'What the program asks for, and where its answer goes.';
COMMENT ON COLUMN oauth_requests."tries" IS 'How many wrong codes were typed.';
COMMENT ON COLUMN oauth_requests."expires_at" IS 'When the page is over.';
COMMENT ON COLUMN oauth_requests."code_hash" IS 'The authorization code.';
COMMENT ON COLUMN oauth_requests."code_expires_at" IS 'Until when it is valid.';
COMMENT ON COLUMN oauth_requests."code_used_at" IS 'When it was used.';
COMMENT ON COLUMN oauth_requests."grant_id" IS 'The connection it is for.';
COMMENT ON COLUMN oauth_requests."namespace" IS 'Whose memories a code or passkey has opened.';
COMMENT ON COLUMN oauth_requests."allowed" IS 'What it allows.';
COMMENT ON TABLE pairing_codes IS 'Codes that wait to be typed.';
COMMENT ON COLUMN pairing_codes."code_hash" IS 'The code of pgengram pair.';
COMMENT ON COLUMN pairing_codes."namespace" IS 'Whose memories it opens.';
COMMENT ON COLUMN pairing_codes."may_write" IS 'Whether to write.';
COMMENT ON COLUMN pairing_codes."spaces" IS 'Which shared spaces, empty for all.';
COMMENT ON COLUMN pairing_codes."person" IS 'Who becomes a person when it is typed, if anybody.';
COMMENT ON COLUMN pairing_codes."tries" IS 'How many wrong codes were typed while it waited.';
COMMENT ON COLUMN pairing_codes."expires_at" IS 'When it is over.';
COMMENT ON TABLE passkeys IS 'Passkeys with which people confirm a sign-in.';
COMMENT ON COLUMN passkeys."id" IS 'What pgengram passkey remove takes.';
COMMENT ON COLUMN passkeys."credential_id" IS 'The passkey''s own id.';
COMMENT ON COLUMN passkeys."credential" IS 'Its public key, empty once it is removed.';
COMMENT ON COLUMN passkeys."sign_count" IS 'How often it had signed, by its own count, or 0.';
COMMENT ON COLUMN passkeys."rp_id" IS 'The name of the server that it is for.';
COMMENT ON COLUMN passkeys."name" IS 'The browser that added it.';
COMMENT ON COLUMN passkeys."namespace" IS 'Whose memories it opens.';
COMMENT ON COLUMN passkeys."may_write" IS 'Whether to write.';
COMMENT ON COLUMN passkeys."spaces" IS 'Which shared spaces, empty for all.';
COMMENT ON COLUMN passkeys."created_at" IS 'When it was added.';
COMMENT ON COLUMN passkeys."last_used_at" IS 'Last used.';
COMMENT ON COLUMN passkeys."removed_at" IS 'Removed.';
COMMENT ON TABLE server_keys IS 'Keys of the server.';
COMMENT ON COLUMN server_keys."purpose" IS 'What the key is for.';
COMMENT ON COLUMN server_keys."secret" IS 'Its 32 bytes.';
COMMENT ON TABLE access_events IS 'What pgengram connection log shows, without tokens, codes and addresses; kept for a year.';
COMMENT ON COLUMN access_events."id" IS 'The order.';
COMMENT ON COLUMN access_events."at" IS 'The time.';
COMMENT ON COLUMN access_events."event" IS 'What happened.';
COMMENT ON COLUMN access_events."namespace" IS 'What it was about.';
COMMENT ON COLUMN access_events."client_host" IS 'What it was about.';
COMMENT ON COLUMN access_events."redirect_host" IS 'What it was about.';
COMMENT ON COLUMN access_events."scope" IS 'What it was about.';
COMMENT ON COLUMN access_events."grant_id" IS 'What it was about.';
COMMENT ON TABLE deletion_log IS 'What an older backup must not restore: ids, but no text.';
COMMENT ON COLUMN deletion_log."former_namespace_id" IS 'Key of the namespace.';
COMMENT ON COLUMN deletion_log."namespace_since" IS 'When it was created, as a restore may give the key to another.';
COMMENT ON COLUMN deletion_log."memory_id" IS 'Which memory, or empty for the whole namespace.';
COMMENT ON COLUMN deletion_log."at" IS 'When it was erased.';
COMMENT ON TABLE client_rates IS 'HTTP clients that called recently.';
COMMENT ON COLUMN client_rates."client" IS 'SHA-256 of what identifies a client: its token''s id, or issuer and subject.';
COMMENT ON COLUMN client_rates."paid_at" IS 'When its calls are paid off; too far ahead, and the client has to wait.';
COMMENT ON TABLE embedding_models IS 'Embedding models ever used.';
COMMENT ON COLUMN embedding_models."id" IS 'The key.';
COMMENT ON COLUMN embedding_models."name" IS 'The model with its build.';
COMMENT ON COLUMN embedding_models."dimensions" IS 'The length of its vectors.';
COMMENT ON COLUMN embedding_models."state" IS 'active: searches use it. filling: its vectors are being computed. retired: it was used earlier.';
COMMENT ON COLUMN embedding_models."embedder" IS 'The value of PGENGRAM_EMBEDDER that selects it.';
COMMENT ON COLUMN embedding_models."index_method" IS 'ivfflat, or hnsw if you chose it.';
COMMENT ON COLUMN embedding_models."index_lists" IS 'The lists of its index.';
COMMENT ON COLUMN embedding_models."rows_at_build" IS 'How many vectors it was built from.';
COMMENT ON COLUMN embedding_models."built_at" IS 'When.';
COMMENT ON COLUMN embedding_models."rows_at_check" IS 'How many vectors there were at the last check.';
COMMENT ON COLUMN embedding_models."measured_recall" IS 'The share of the true ten nearest that the index found. Below 0.95 it is rebuilt.';
COMMENT ON COLUMN embedding_models."created_at" IS 'When it was first used.';
COMMENT ON TABLE decay_classes IS 'rate_per_day has every rate that a memory can have.';
