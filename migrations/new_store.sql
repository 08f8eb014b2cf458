-- What the migrations do to an empty database. Written by tests/store/dump_release.py; a test compares.
CREATE TABLE pgengram_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT pgengram_version_pkc PRIMARY KEY (version_num)
);
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') THEN CREATE EXTENSION vector; END IF;
END $$;
CREATE UNLOGGED TABLE client_rates (
  client BYTEA NOT NULL,
  paid_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT client_rates_pkey PRIMARY KEY (client)
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
CREATE UNIQUE INDEX embedding_models_active ON embedding_models (state) WHERE state = 'active';
CREATE UNIQUE INDEX embedding_models_filling ON embedding_models (state) WHERE state = 'filling';
CREATE TABLE deletion_log (
  former_namespace_id INTEGER NOT NULL,
  namespace_since TIMESTAMP WITH TIME ZONE NOT NULL,
  memory_id UUID,
  at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT deletion_log_former_namespace_id_namespace_since_memory_id_key UNIQUE NULLS NOT DISTINCT (former_namespace_id, namespace_since, memory_id)
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
  CONSTRAINT memory_history_pkey PRIMARY KEY (namespace_id, memory_id, version)
);
CREATE TABLE memory_posting_lists (
  namespace_id INTEGER NOT NULL,
  term INTEGER NOT NULL,
  segment INTEGER NOT NULL,
  memory_ids UUID[] NOT NULL,
  measures INTEGER[] NOT NULL,
  CONSTRAINT memory_posting_lists_pkey PRIMARY KEY (namespace_id, term, segment)
);
CREATE TABLE namespaces (
  id INTEGER GENERATED ALWAYS AS IDENTITY,
  name TEXT NOT NULL CONSTRAINT namespaces_name_check CHECK (length(name) >= 1 AND length(name) <= 128),
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT namespaces_pkey PRIMARY KEY (id),
  CONSTRAINT namespaces_name_key UNIQUE (name)
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
  CONSTRAINT access_tokens_pkey PRIMARY KEY (id),
  CONSTRAINT access_tokens_namespace_fkey FOREIGN KEY(namespace) REFERENCES namespaces (name) ON DELETE CASCADE
);
CREATE INDEX access_tokens_of_namespace ON access_tokens (namespace);
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
  voice TEXT,
  traits SMALLINT DEFAULT 0 NOT NULL,
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
  CONSTRAINT memories_pkey PRIMARY KEY (namespace_id, id),
  CONSTRAINT memories_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
);
CREATE UNIQUE INDEX memories_active_content ON memories (namespace_id, content_hash) WHERE status = 'active';
CREATE INDEX memories_by_collection ON memories (namespace_id, collection, id) WHERE collection IS NOT NULL;
CREATE UNIQUE INDEX memories_by_idempotency_key ON memories (namespace_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX memories_by_occurrence ON memories (namespace_id, (CASE WHEN occurred_at IS NULL THEN created_at ELSE occurred_at END));
CREATE INDEX memories_by_project ON memories (namespace_id, project, id) WHERE project IS NOT NULL;
CREATE INDEX memories_by_session ON memories (namespace_id, session_id, session_sequence);
CREATE INDEX memories_by_short_id ON memories (namespace_id, short_id);
CREATE INDEX memories_by_time ON memories (namespace_id, created_at);
CREATE INDEX memories_by_user ON memories (namespace_id, "user", id) WHERE "user" IS NOT NULL;
CREATE INDEX memories_hidden ON memories (namespace_id, status, expires_at, id) WHERE status <> 'active' OR expires_at IS NOT NULL;
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
CREATE TABLE memory_tag_synonyms (
  namespace_id INTEGER NOT NULL,
  alias TEXT NOT NULL,
  tag TEXT NOT NULL,
  CONSTRAINT memory_tag_synonyms_pkey PRIMARY KEY (namespace_id, alias),
  CONSTRAINT memory_tag_synonyms_namespace_id_fkey FOREIGN KEY(namespace_id) REFERENCES namespaces (id)
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
CREATE TABLE memory_tags (
  namespace_id INTEGER NOT NULL,
  memory_id UUID NOT NULL,
  tag TEXT NOT NULL,
  position SMALLINT NOT NULL,
  CONSTRAINT memory_tags_pkey PRIMARY KEY (namespace_id, memory_id, tag),
  CONSTRAINT memory_tags_namespace_id_memory_id_fkey FOREIGN KEY(namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE
);
CREATE INDEX memory_tags_by_tag ON memory_tags (namespace_id, tag, memory_id);
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
CREATE INDEX memory_words_by_segment ON memory_words (namespace_id, segment) WHERE segment > 0;
CREATE INDEX memory_words_waiting ON memory_words (namespace_id, memory_id) WHERE segment IS NULL;
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
DO $$ BEGIN
          IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgengram_app') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO pgengram_app', current_schema()); GRANT SELECT ON decay_classes TO pgengram_app; GRANT SELECT ON embedding_models TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_history TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_posting_lists TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memories TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_beliefs TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_clusters TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_confirmations TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_identities TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_tag_synonyms TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON episodic_memories TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_activation TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_belief_evidence TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_cluster_activations TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_cluster_members TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_relationships TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_tags TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_vectors TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON memory_words TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON procedural_memories TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON semantic_memories TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON strategic_memories TO pgengram_app; GRANT SELECT, INSERT, UPDATE, DELETE ON working_memories TO pgengram_app;
          END IF;
        END $$;
ALTER TABLE memory_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_history FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_history
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_posting_lists ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_posting_lists FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_posting_lists
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memories
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_beliefs ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_beliefs FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_beliefs
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_clusters ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_clusters FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_clusters
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_confirmations ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_confirmations FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_confirmations
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_identities ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_identities FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_identities
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_tag_synonyms ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_tag_synonyms FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_tag_synonyms
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE episodic_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE episodic_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON episodic_memories
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_activation ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_activation FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_activation
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_belief_evidence ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_belief_evidence FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_belief_evidence
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_cluster_activations ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_cluster_activations FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_cluster_activations
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_cluster_members ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_cluster_members FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_cluster_members
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_relationships ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_relationships FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_relationships
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_tags ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_tags FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_tags
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_vectors FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_vectors
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE memory_words ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_words FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON memory_words
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE procedural_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE procedural_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON procedural_memories
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE semantic_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE semantic_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON semantic_memories
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE strategic_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE strategic_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON strategic_memories
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
ALTER TABLE working_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE working_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON working_memories
            USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
            WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
CREATE POLICY maintenance ON memory_vectors FOR SELECT TO CURRENT_USER
           USING (current_setting('pgengram.maintenance', true) = 'on');
INSERT INTO pgengram_version (version_num) VALUES ('0001') RETURNING pgengram_version.version_num;
CREATE TABLE conversations (
          namespace_id integer NOT NULL,
          client text NOT NULL,
          conversation text NOT NULL,
          project text,
          transcript text,
          read_to integer DEFAULT -1 NOT NULL,
          at timestamptz DEFAULT now() NOT NULL,
          CONSTRAINT conversations_pkey PRIMARY KEY (namespace_id, client, conversation)
        );
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
        );
CREATE TABLE conversation_settings (
          namespace_id integer NOT NULL,
          keeps boolean DEFAULT true NOT NULL,
          keep_days integer DEFAULT 90 NOT NULL,
          CONSTRAINT conversation_settings_pkey PRIMARY KEY (namespace_id),
          CONSTRAINT conversation_settings_keep_days_check CHECK (keep_days >= 1 AND keep_days <= 3650)
        );
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
        );
CREATE INDEX conversation_turns_by_time ON conversation_turns (namespace_id, time);
CREATE INDEX recall_receipts_by_conversation ON recall_receipts (namespace_id, client, conversation, at);
CREATE INDEX conversations_by_time ON conversations (namespace_id, at);
ALTER TABLE conversations ADD CONSTRAINT conversations_namespace_id_fkey
       FOREIGN KEY (namespace_id) REFERENCES namespaces (id);
ALTER TABLE conversation_turns ADD CONSTRAINT conversation_turns_namespace_id_client_conversation_fkey
       FOREIGN KEY (namespace_id, client, conversation) REFERENCES conversations (namespace_id, client, conversation)
       ON DELETE CASCADE;
ALTER TABLE conversation_settings ADD CONSTRAINT conversation_settings_namespace_id_fkey
       FOREIGN KEY (namespace_id) REFERENCES namespaces (id);
ALTER TABLE recall_receipts ADD CONSTRAINT recall_receipts_namespace_id_memory_id_fkey
       FOREIGN KEY (namespace_id, memory_id) REFERENCES memories (namespace_id, id) ON DELETE CASCADE;
ALTER TABLE conversations ENABLE ROW LEVEL SECURITY;
ALTER TABLE conversations FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON conversations
       USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
       WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
DO $$ BEGIN
         IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgengram_app') THEN
           GRANT SELECT, INSERT, UPDATE, DELETE ON conversations TO pgengram_app;
         END IF;
       END $$;
ALTER TABLE conversation_turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE conversation_turns FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON conversation_turns
       USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
       WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
DO $$ BEGIN
         IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgengram_app') THEN
           GRANT SELECT, INSERT, UPDATE, DELETE ON conversation_turns TO pgengram_app;
         END IF;
       END $$;
ALTER TABLE conversation_settings ENABLE ROW LEVEL SECURITY;
ALTER TABLE conversation_settings FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON conversation_settings
       USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
       WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
DO $$ BEGIN
         IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgengram_app') THEN
           GRANT SELECT, INSERT, UPDATE, DELETE ON conversation_settings TO pgengram_app;
         END IF;
       END $$;
ALTER TABLE recall_receipts ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_receipts FORCE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON recall_receipts
       USING (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer)
       WITH CHECK (namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer);
DO $$ BEGIN
         IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgengram_app') THEN
           GRANT SELECT, INSERT, UPDATE, DELETE ON recall_receipts TO pgengram_app;
         END IF;
       END $$;
UPDATE pgengram_version SET version_num='0002' WHERE pgengram_version.version_num = '0001';
ALTER TABLE conversations ADD COLUMN title text, ADD COLUMN imported boolean DEFAULT false NOT NULL;
UPDATE pgengram_version SET version_num='0003' WHERE pgengram_version.version_num = '0002';
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
ALTER TABLE conversation_turns ADD COLUMN terms integer[] GENERATED ALWAYS AS (pgengram_turn_terms(text)) STORED;
UPDATE pgengram_version SET version_num='0004' WHERE pgengram_version.version_num = '0003';
ALTER TABLE memory_vectors ADD COLUMN words bytea;
ALTER TABLE memory_vectors ALTER COLUMN words SET STORAGE EXTERNAL;
ALTER TABLE memory_vectors ALTER COLUMN words SET STATISTICS 0;
UPDATE pgengram_version SET version_num='0005' WHERE pgengram_version.version_num = '0004';
DO $$ BEGIN
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
END $$;
UPDATE pgengram_version SET version_num='0006' WHERE pgengram_version.version_num = '0005';
ALTER TABLE conversations ADD COLUMN forked_from text, ADD COLUMN withdrawn bigint[] DEFAULT '{}' NOT NULL, ADD COLUMN as_of timestamp with time zone, ADD COLUMN kept_from timestamp with time zone;
ALTER TABLE conversation_turns ADD COLUMN source_key bigint;
CREATE INDEX conversation_turns_by_source ON conversation_turns (namespace_id, client, source_key);
UPDATE pgengram_version SET version_num='0007' WHERE pgengram_version.version_num = '0006';
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
      WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relname = ANY ('{memory_history,memory_posting_lists,conversation_settings,conversations,memories,memory_beliefs,memory_clusters,memory_confirmations,memory_identities,memory_tag_synonyms,conversation_turns,episodic_memories,memory_activation,memory_belief_evidence,memory_cluster_activations,memory_cluster_members,memory_relationships,memory_tags,memory_vectors,memory_words,procedural_memories,recall_receipts,semantic_memories,strategic_memories,working_memories,decay_classes,embedding_models,access_tokens,client_rates,deletion_log,namespaces,pgengram_version}')),
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
            GRANT SELECT, INSERT, UPDATE, DELETE ON memory_tag_synonyms TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON conversation_turns TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON episodic_memories TO pgengram_app;
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
            GRANT SELECT, INSERT, UPDATE, DELETE ON strategic_memories TO pgengram_app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON working_memories TO pgengram_app;
            FOR one IN SELECT p.oid::regprocedure AS name FROM pg_proc p
              WHERE p.pronamespace = quote_ident(current_schema())::regnamespace AND p.proname LIKE 'pgengram\_%'
                AND NOT has_function_privilege('pgengram_app', p.oid, 'EXECUTE')
            LOOP
              EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO pgengram_app', one.name);
            END LOOP;
          END IF;
        END $$;
DO $$ DECLARE one record; BEGIN
  FOR one IN
    SELECT c.oid::regclass AS name, pg_get_userbyid(c.relowner) AS owner FROM pg_class c
    WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relname = ANY ('{memory_history,memory_posting_lists,conversation_settings,conversations,memories,memory_beliefs,memory_clusters,memory_confirmations,memory_identities,memory_tag_synonyms,conversation_turns,episodic_memories,memory_activation,memory_belief_evidence,memory_cluster_activations,memory_cluster_members,memory_relationships,memory_tags,memory_vectors,memory_words,procedural_memories,recall_receipts,semantic_memories,strategic_memories,working_memories}') AND NOT EXISTS (
      SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'maintenance' AND p.polroles = ARRAY[c.relowner])
    ORDER BY 1
  LOOP
    EXECUTE format('DROP POLICY IF EXISTS maintenance ON %s', one.name);
    EXECUTE format('CREATE POLICY maintenance ON %s FOR SELECT TO %I
      USING (current_setting(''pgengram.maintenance'', true) = ''on'')', one.name, one.owner);
  END LOOP;
END $$;
