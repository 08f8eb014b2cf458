CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;
CREATE FUNCTION public.pgengram_keep_text() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  RAISE EXCEPTION 'The text of a memory is not changed by UPDATE: searches would go on finding the old one.'
    USING ERRCODE = 'restrict_violation',
      HINT = format('pgengram call update_memory id=%s content=…', right(OLD.id::text, 8));
END
$$;
CREATE FUNCTION public.pgengram_relevance(anchor double precision, rate_per_day double precision, at timestamp with time zone) RETURNS double precision
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  -- exp(anchor - rate * days), 0 where that would underflow; above 1 only the answer is cut, the order stays. One
  -- expression without FROM, so that PostgreSQL writes it into the statement that asks: a tenth of the cost of a call.
  SELECT CASE WHEN anchor - rate_per_day * (date_part('epoch', at AT TIME ZONE 'UTC') / 86400 - 20000) < -700 THEN 0.0
    ELSE least(1.0, exp(anchor - rate_per_day * (date_part('epoch', at AT TIME ZONE 'UTC') / 86400 - 20000))) END
$$;
CREATE FUNCTION public.pgengram_terms(body text, extra text[]) RETURNS TABLE(term integer, count smallint)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  -- A term is the first 32 bits of the MD5 of its stem: the same for ever, on every machine and version.
  SELECT ('x' || left(md5(word), 8))::bit(32)::integer, least(sum(times), 32767)::smallint
  FROM (SELECT lexeme, cardinality(positions) FROM unnest(to_tsvector('pg_catalog.english'::regconfig, body))
        UNION ALL SELECT e, 1 FROM unnest(extra) AS e) AS words(word, times)
  GROUP BY 1
$$;
CREATE FUNCTION public.pgengram_turn_terms(body text) RETURNS integer[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
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
$_$;
CREATE TABLE public.access_events (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    event text NOT NULL,
    namespace text,
    client_host text,
    redirect_host text,
    scope text,
    grant_id text
);
ALTER TABLE public.access_events ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.access_events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.access_tokens (
    id text NOT NULL,
    secret_hash bytea NOT NULL,
    name text NOT NULL,
    namespace text NOT NULL,
    scope text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    grant_id text,
    CONSTRAINT access_tokens_name_check CHECK (((length(name) >= 1) AND (length(name) <= 64))),
    CONSTRAINT access_tokens_scope_check CHECK ((scope = ANY (ARRAY['read-only'::text, 'read-write'::text])))
);
CREATE UNLOGGED TABLE public.client_rates (
    client bytea NOT NULL,
    paid_at timestamp with time zone NOT NULL
);
CREATE TABLE public.conversation_settings (
    namespace_id integer NOT NULL,
    keeps boolean DEFAULT true NOT NULL,
    keep_days integer DEFAULT 90 NOT NULL,
    CONSTRAINT conversation_settings_keep_days_check CHECK (((keep_days >= 1) AND (keep_days <= 3650)))
);
ALTER TABLE ONLY public.conversation_settings FORCE ROW LEVEL SECURITY;
CREATE TABLE public.conversation_turns (
    namespace_id integer NOT NULL,
    client text NOT NULL,
    conversation text NOT NULL,
    number integer NOT NULL,
    role text NOT NULL,
    text text NOT NULL,
    project text,
    "time" timestamp with time zone NOT NULL,
    terms integer[] GENERATED ALWAYS AS (public.pgengram_turn_terms(text)) STORED,
    source_key bigint,
    as_of timestamp with time zone,
    copy_of bigint,
    CONSTRAINT conversation_turns_role_check CHECK ((role = ANY (ARRAY['user'::text, 'assistant'::text, 'tool'::text])))
);
ALTER TABLE ONLY public.conversation_turns FORCE ROW LEVEL SECURITY;
CREATE TABLE public.conversations (
    namespace_id integer NOT NULL,
    client text NOT NULL,
    conversation text NOT NULL,
    project text,
    transcript text,
    read_to integer DEFAULT '-1'::integer NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    title text,
    imported boolean DEFAULT false NOT NULL,
    forked_from text,
    as_of timestamp with time zone,
    kept_from timestamp with time zone,
    began_at timestamp with time zone
);
ALTER TABLE ONLY public.conversations FORCE ROW LEVEL SECURITY;
CREATE TABLE public.decay_classes (
    rate_per_day double precision NOT NULL,
    CONSTRAINT decay_classes_rate_per_day_check CHECK ((rate_per_day >= (0)::double precision))
);
CREATE TABLE public.deletion_log (
    former_namespace_id integer NOT NULL,
    namespace_since timestamp with time zone NOT NULL,
    memory_id uuid,
    at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.embedding_models (
    id smallint NOT NULL,
    name text NOT NULL,
    dimensions integer NOT NULL,
    index_method text DEFAULT 'ivfflat'::text NOT NULL,
    state text DEFAULT 'retired'::text NOT NULL,
    embedder text,
    index_lists integer,
    rows_at_build bigint,
    rows_at_check bigint,
    measured_recall double precision,
    built_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT embedding_models_dimensions_check CHECK (((dimensions >= 1) AND (dimensions <= 4000))),
    CONSTRAINT embedding_models_index_method_check CHECK ((index_method = ANY (ARRAY['ivfflat'::text, 'hnsw'::text]))),
    CONSTRAINT embedding_models_state_check CHECK ((state = ANY (ARRAY['active'::text, 'filling'::text, 'retired'::text])))
);
ALTER TABLE public.embedding_models ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.embedding_models_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.episodic_memories (
    namespace_id integer NOT NULL,
    memory_id uuid NOT NULL,
    action_taken jsonb,
    context jsonb,
    result jsonb,
    emotional_valence double precision DEFAULT 0.0 NOT NULL,
    verification_status boolean,
    event_time timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT episodic_memories_emotional_valence_check CHECK (((emotional_valence >= ('-1'::integer)::double precision) AND (emotional_valence <= (1)::double precision)))
);
ALTER TABLE ONLY public.episodic_memories FORCE ROW LEVEL SECURITY;
CREATE TABLE public.hidden_turns (
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
    CONSTRAINT hidden_turns_role_check CHECK ((role = ANY (ARRAY['user'::text, 'assistant'::text, 'tool'::text])))
);
ALTER TABLE ONLY public.hidden_turns FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memories (
    namespace_id integer NOT NULL,
    id uuid NOT NULL,
    type text NOT NULL,
    kind text,
    status text DEFAULT 'active'::text NOT NULL,
    content text NOT NULL,
    content_hash bytea NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    source text,
    source_provider text,
    capture_mode text,
    session_id text,
    session_sequence bigint,
    speaker text,
    voice text,
    traits smallint DEFAULT 0 NOT NULL,
    "user" text,
    project text,
    collection text,
    confidence double precision,
    emotion text,
    sources jsonb,
    pinned boolean DEFAULT false NOT NULL,
    idempotency_key text,
    version integer DEFAULT 1 NOT NULL,
    reason text,
    replaced_by uuid[],
    occurred_at timestamp with time zone,
    expires_at timestamp with time zone,
    last_confirmed_at timestamp with time zone,
    valid_from timestamp with time zone NOT NULL,
    valid_to timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    short_id text GENERATED ALWAYS AS ("right"((id)::text, 8)) STORED NOT NULL,
    CONSTRAINT memories_capture_mode_check CHECK ((capture_mode = ANY (ARRAY['explicit'::text, 'inferred'::text]))),
    CONSTRAINT memories_confidence_check CHECK (((confidence >= (0)::double precision) AND (confidence <= (1)::double precision))),
    CONSTRAINT memories_content_check CHECK (((length(content) >= 1) AND (length(content) <= 16000))),
    CONSTRAINT memories_emotion_check CHECK ((emotion = ANY (ARRAY['curiosity'::text, 'satisfaction'::text, 'concern'::text, 'neutral'::text, 'excitement'::text]))),
    CONSTRAINT memories_kind_check CHECK ((kind = ANY (ARRAY['observation'::text, 'decision'::text, 'learning'::text, 'error'::text, 'pattern'::text, 'preference'::text, 'insight'::text, 'fact'::text, 'connection'::text, 'project'::text, 'person'::text, 'process'::text, 'goal'::text, 'general'::text]))),
    CONSTRAINT memories_status_check CHECK ((status = ANY (ARRAY['active'::text, 'archived'::text, 'invalidated'::text, 'working'::text]))),
    CONSTRAINT memories_type_check CHECK ((type = ANY (ARRAY['episodic'::text, 'semantic'::text, 'procedural'::text, 'strategic'::text])))
);
ALTER TABLE ONLY public.memories FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_activation (
    namespace_id integer NOT NULL,
    memory_id uuid NOT NULL,
    importance double precision NOT NULL,
    rate_per_day double precision NOT NULL,
    started_at timestamp with time zone NOT NULL,
    last_accessed_at timestamp with time zone,
    access_count integer DEFAULT 0 NOT NULL,
    reinforcement double precision,
    used_at timestamp with time zone[],
    use_weights real[],
    relevance_anchor double precision GENERATED ALWAYS AS (
CASE
    WHEN (reinforcement IS NULL) THEN
    CASE
        WHEN (importance > (0)::double precision) THEN (ln(importance) + (rate_per_day * (((EXTRACT(epoch FROM (started_at AT TIME ZONE 'UTC'::text)))::double precision / (86400)::double precision) - (20000)::double precision)))
        ELSE '-Infinity'::double precision
    END
    WHEN (importance = (0)::double precision) THEN reinforcement
    ELSE (GREATEST(
    CASE
        WHEN (importance > (0)::double precision) THEN (ln(importance) + (rate_per_day * (((EXTRACT(epoch FROM (started_at AT TIME ZONE 'UTC'::text)))::double precision / (86400)::double precision) - (20000)::double precision)))
        ELSE '-Infinity'::double precision
    END, reinforcement) + ln(((1)::double precision + exp(GREATEST((- abs((
    CASE
        WHEN (importance > (0)::double precision) THEN (ln(importance) + (rate_per_day * (((EXTRACT(epoch FROM (started_at AT TIME ZONE 'UTC'::text)))::double precision / (86400)::double precision) - (20000)::double precision)))
        ELSE '-Infinity'::double precision
    END - reinforcement))), ('-700'::integer)::double precision)))))
END) STORED NOT NULL,
    CONSTRAINT memory_activation_importance_check CHECK (((importance >= (0)::double precision) AND (importance <= (1)::double precision))),
    CONSTRAINT memory_activation_uses_check CHECK ((COALESCE(cardinality(used_at), 0) = COALESCE(cardinality(use_weights), 0)))
);
ALTER TABLE ONLY public.memory_activation FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_tags (
    namespace_id integer NOT NULL,
    memory_id uuid NOT NULL,
    tag text NOT NULL,
    "position" smallint NOT NULL
);
ALTER TABLE ONLY public.memory_tags FORCE ROW LEVEL SECURITY;
CREATE TABLE public.procedural_memories (
    namespace_id integer NOT NULL,
    memory_id uuid NOT NULL,
    steps jsonb DEFAULT '{}'::jsonb NOT NULL,
    prerequisites jsonb DEFAULT '{}'::jsonb NOT NULL,
    success_count integer DEFAULT 0 NOT NULL,
    total_attempts integer DEFAULT 0 NOT NULL,
    success_rate double precision GENERATED ALWAYS AS (
CASE
    WHEN (total_attempts > 0) THEN ((success_count)::double precision / (total_attempts)::double precision)
    ELSE (0.0)::double precision
END) STORED,
    failure_points jsonb,
    average_duration interval,
    CONSTRAINT procedural_memories_success_count_check CHECK ((success_count >= 0)),
    CONSTRAINT procedural_memories_total_attempts_check CHECK ((total_attempts >= success_count))
);
ALTER TABLE ONLY public.procedural_memories FORCE ROW LEVEL SECURITY;
CREATE TABLE public.semantic_memories (
    namespace_id integer NOT NULL,
    memory_id uuid NOT NULL,
    category text[] DEFAULT '{}'::text[] NOT NULL,
    related_concepts text[] DEFAULT '{}'::text[] NOT NULL,
    source_references jsonb,
    contradictions jsonb,
    last_validated timestamp with time zone
);
ALTER TABLE ONLY public.semantic_memories FORCE ROW LEVEL SECURITY;
CREATE TABLE public.strategic_memories (
    namespace_id integer NOT NULL,
    memory_id uuid NOT NULL,
    pattern_description text,
    supporting_evidence jsonb,
    success_metrics jsonb,
    adaptation_history jsonb,
    context_applicability jsonb
);
ALTER TABLE ONLY public.strategic_memories FORCE ROW LEVEL SECURITY;
CREATE VIEW public.memories_now WITH (security_invoker='true') AS
 SELECT m.id,
    m.short_id,
    m.type,
    m.kind,
    m.content,
    public.pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance,
    a.importance,
    ARRAY( SELECT t.tag
           FROM public.memory_tags t
          WHERE ((t.namespace_id = m.namespace_id) AND (t.memory_id = m.id))
          ORDER BY t."position") AS tags,
    m.project,
    m.collection,
    m."user",
    m.speaker,
    m.source,
    m.session_id,
    m.confidence,
    m.emotion,
    m.pinned,
        CASE m.type
            WHEN 'episodic'::text THEN ( SELECT ((to_jsonb(d.*) - 'namespace_id'::text) - 'memory_id'::text)
               FROM public.episodic_memories d
              WHERE ((d.namespace_id = m.namespace_id) AND (d.memory_id = m.id)))
            WHEN 'semantic'::text THEN ( SELECT ((to_jsonb(d.*) - 'namespace_id'::text) - 'memory_id'::text)
               FROM public.semantic_memories d
              WHERE ((d.namespace_id = m.namespace_id) AND (d.memory_id = m.id)))
            WHEN 'procedural'::text THEN ( SELECT ((to_jsonb(d.*) - 'namespace_id'::text) - 'memory_id'::text)
               FROM public.procedural_memories d
              WHERE ((d.namespace_id = m.namespace_id) AND (d.memory_id = m.id)))
            ELSE ( SELECT ((to_jsonb(d.*) - 'namespace_id'::text) - 'memory_id'::text)
               FROM public.strategic_memories d
              WHERE ((d.namespace_id = m.namespace_id) AND (d.memory_id = m.id)))
        END AS detail,
    m.metadata,
    m.occurred_at,
    m.created_at,
    m.updated_at,
    m.expires_at,
    a.last_accessed_at,
    a.access_count,
    m.version,
    m.namespace_id
   FROM (public.memories m
     JOIN public.memory_activation a ON (((a.namespace_id = m.namespace_id) AND (a.memory_id = m.id))))
  WHERE ((m.status = 'active'::text) AND ((m.expires_at IS NULL) OR (m.expires_at > now())));
CREATE TABLE public.memory_belief_evidence (
    namespace_id integer NOT NULL,
    belief_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    supports boolean DEFAULT true NOT NULL,
    added_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE ONLY public.memory_belief_evidence FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_beliefs (
    namespace_id integer NOT NULL,
    id uuid NOT NULL,
    category text NOT NULL,
    belief text NOT NULL,
    belief_hash bytea NOT NULL,
    confidence double precision DEFAULT 0.8 NOT NULL,
    stability double precision DEFAULT 0.5 NOT NULL,
    emotional_valence double precision DEFAULT 0.0 NOT NULL,
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT memory_beliefs_confidence_check CHECK (((confidence >= (0)::double precision) AND (confidence <= (1)::double precision))),
    CONSTRAINT memory_beliefs_emotional_valence_check CHECK (((emotional_valence >= ('-1'::integer)::double precision) AND (emotional_valence <= (1)::double precision))),
    CONSTRAINT memory_beliefs_stability_check CHECK (((stability >= (0)::double precision) AND (stability <= (1)::double precision)))
);
ALTER TABLE ONLY public.memory_beliefs FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_cluster_activations (
    namespace_id integer NOT NULL,
    cluster_id uuid NOT NULL,
    id uuid NOT NULL,
    context text,
    strength double precision DEFAULT 1.0 NOT NULL,
    session_id text,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT memory_cluster_activations_strength_check CHECK (((strength >= (0)::double precision) AND (strength <= (1)::double precision)))
);
ALTER TABLE ONLY public.memory_cluster_activations FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_cluster_members (
    namespace_id integer NOT NULL,
    cluster_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    strength double precision DEFAULT 1.0 NOT NULL,
    automatic boolean DEFAULT false NOT NULL,
    added_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT memory_cluster_members_strength_check CHECK (((strength >= (0)::double precision) AND (strength <= (1)::double precision)))
);
ALTER TABLE ONLY public.memory_cluster_members FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_clusters (
    namespace_id integer NOT NULL,
    id uuid NOT NULL,
    type text NOT NULL,
    name text NOT NULL,
    description text,
    keywords text[] DEFAULT '{}'::text[] NOT NULL,
    emotional_signature jsonb,
    importance double precision DEFAULT 0.5 NOT NULL,
    activation_count integer DEFAULT 0 NOT NULL,
    last_activated_at timestamp with time zone,
    model_id smallint,
    centroid public.halfvec,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT memory_clusters_importance_check CHECK (((importance >= (0)::double precision) AND (importance <= (1)::double precision))),
    CONSTRAINT memory_clusters_type_check CHECK ((type = ANY (ARRAY['theme'::text, 'emotion'::text, 'temporal'::text, 'person'::text, 'pattern'::text, 'mixed'::text])))
);
ALTER TABLE ONLY public.memory_clusters FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_confirmations (
    namespace_id integer NOT NULL,
    token_hash bytea NOT NULL,
    action text NOT NULL,
    arguments jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
ALTER TABLE ONLY public.memory_confirmations FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_history (
    namespace_id integer NOT NULL,
    memory_id uuid NOT NULL,
    version integer NOT NULL,
    operation text NOT NULL,
    actor text DEFAULT NULLIF(current_setting('pgengram.actor'::text, true), ''::text),
    session_id text,
    changes jsonb,
    at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE ONLY public.memory_history FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_identities (
    namespace_id integer NOT NULL,
    id uuid NOT NULL,
    self_concept jsonb,
    agency_beliefs jsonb,
    purpose_framework jsonb,
    group_identifications jsonb,
    boundary_definitions jsonb,
    emotional_baseline jsonb,
    threat_sensitivity double precision,
    change_resistance double precision,
    session_id text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT memory_identities_change_resistance_check CHECK (((change_resistance >= (0)::double precision) AND (change_resistance <= (1)::double precision))),
    CONSTRAINT memory_identities_threat_sensitivity_check CHECK (((threat_sensitivity >= (0)::double precision) AND (threat_sensitivity <= (1)::double precision)))
);
ALTER TABLE ONLY public.memory_identities FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_posting_lists (
    namespace_id integer NOT NULL,
    term integer NOT NULL,
    segment integer NOT NULL,
    memory_ids uuid[] NOT NULL,
    measures integer[] NOT NULL
);
ALTER TABLE ONLY public.memory_posting_lists FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_relationships (
    namespace_id integer NOT NULL,
    from_id uuid NOT NULL,
    to_id uuid NOT NULL,
    type text NOT NULL,
    strength double precision DEFAULT 1.0 NOT NULL,
    properties jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT memory_relationships_strength_check CHECK (((strength >= (0)::double precision) AND (strength <= (1)::double precision))),
    CONSTRAINT memory_relationships_two_ends_check CHECK ((from_id <> to_id)),
    CONSTRAINT memory_relationships_type_check CHECK (((length(type) >= 1) AND (length(type) <= 64)))
);
ALTER TABLE ONLY public.memory_relationships FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_tag_synonyms (
    namespace_id integer NOT NULL,
    alias text NOT NULL,
    tag text NOT NULL
);
ALTER TABLE ONLY public.memory_tag_synonyms FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_vectors (
    namespace_id integer NOT NULL,
    memory_id uuid NOT NULL,
    model_id smallint NOT NULL,
    part smallint NOT NULL,
    embedding public.halfvec NOT NULL
);
ALTER TABLE ONLY public.memory_vectors ALTER COLUMN embedding SET STATISTICS 0;
ALTER TABLE ONLY public.memory_vectors ALTER COLUMN embedding SET STORAGE PLAIN;
ALTER TABLE ONLY public.memory_vectors FORCE ROW LEVEL SECURITY;
CREATE TABLE public.memory_words (
    namespace_id integer NOT NULL,
    memory_id uuid NOT NULL,
    terms integer[] NOT NULL,
    counts smallint[] NOT NULL,
    length integer NOT NULL,
    segment integer
);
ALTER TABLE ONLY public.memory_words FORCE ROW LEVEL SECURITY;
CREATE TABLE public.namespaces (
    id integer NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT namespaces_name_check CHECK (((length(name) >= 1) AND (length(name) <= 128)))
);
ALTER TABLE public.namespaces ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.namespaces_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.oauth_grants (
    id text NOT NULL,
    client_id text NOT NULL,
    client_name text NOT NULL,
    client_host text NOT NULL,
    redirect_host text NOT NULL,
    namespace text NOT NULL,
    scope text NOT NULL,
    resource text NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    refresh_hash bytea,
    previous_hash bytea,
    rotated_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    CONSTRAINT oauth_grants_scope_check CHECK ((scope = ANY (ARRAY['read-only'::text, 'read-write'::text])))
);
CREATE TABLE public.oauth_requests (
    id_hash bytea NOT NULL,
    cookie_hash bytea NOT NULL,
    asked jsonb NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    code_hash bytea,
    code_expires_at timestamp with time zone,
    code_used_at timestamp with time zone,
    grant_id text
);
CREATE TABLE public.pairing_codes (
    code_hash bytea NOT NULL,
    namespace text NOT NULL,
    may_write boolean NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE TABLE public.pgengram_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.recall_receipts (
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
    at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE ONLY public.recall_receipts FORCE ROW LEVEL SECURITY;
CREATE TABLE public.server_keys (
    purpose text NOT NULL,
    secret bytea NOT NULL
);
CREATE TABLE public.sync_changes (
    namespace_id integer NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    at timestamp with time zone NOT NULL,
    uses boolean NOT NULL
);
ALTER TABLE ONLY public.sync_changes FORCE ROW LEVEL SECURITY;
CREATE TABLE public.sync_documents (
    namespace_id integer NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    state jsonb NOT NULL,
    disputed boolean DEFAULT false NOT NULL,
    waits boolean DEFAULT false NOT NULL
);
ALTER TABLE ONLY public.sync_documents FORCE ROW LEVEL SECURITY;
CREATE TABLE public.sync_files (
    namespace_id integer NOT NULL,
    device text NOT NULL,
    name text NOT NULL,
    mark text NOT NULL,
    written boolean DEFAULT false NOT NULL,
    problem text
);
ALTER TABLE ONLY public.sync_files FORCE ROW LEVEL SECURITY;
CREATE TABLE public.sync_settings (
    namespace_id integer NOT NULL,
    secret bytea NOT NULL,
    folder text NOT NULL,
    device text NOT NULL,
    device_name text NOT NULL,
    writers text[] DEFAULT '{}'::text[] NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    problem text,
    failed_at timestamp with time zone
);
ALTER TABLE ONLY public.sync_settings FORCE ROW LEVEL SECURITY;
CREATE TABLE public.working_memories (
    namespace_id integer NOT NULL,
    memory_id uuid NOT NULL,
    promote boolean DEFAULT false NOT NULL,
    context jsonb
);
ALTER TABLE ONLY public.working_memories FORCE ROW LEVEL SECURITY;
INSERT INTO public.access_events OVERRIDING SYSTEM VALUE VALUES (1, '2026-11-28 04:14:46.255027+00', 'pairing_opened', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.access_tokens VALUES ('abcdef', '\x00', 'Mara', 'default', 'read-only', '2026-11-28 04:14:46.150467+00', NULL, NULL, NULL, NULL);
INSERT INTO public.conversation_settings VALUES (1, true, 30);
INSERT INTO public.conversation_turns VALUES (1, 'claude-code', 's-1', 1, 'user', 'We pay by Stripe.', 'ark', '2026-11-28 04:14:46.170353+00', DEFAULT, NULL, NULL, NULL);
INSERT INTO public.conversations VALUES (1, 'claude-code', 's-1', 'ark', '/home/mara/s-1.jsonl', 1, '2026-11-28 04:14:46.158445+00', 'Payments', false, NULL, NULL, NULL, NULL);
INSERT INTO public.decay_classes VALUES (0);
INSERT INTO public.decay_classes VALUES (0.001);
INSERT INTO public.decay_classes VALUES (0.002);
INSERT INTO public.decay_classes VALUES (0.003);
INSERT INTO public.decay_classes VALUES (0.005);
INSERT INTO public.decay_classes VALUES (0.01);
INSERT INTO public.decay_classes VALUES (0.05);
INSERT INTO public.deletion_log VALUES (1, '2026-11-28 04:14:44.174632+00', '01a2205c-da53-7604-a697-4af207c533ae', '2026-11-28 04:14:45.89053+00');
INSERT INTO public.embedding_models OVERRIDING SYSTEM VALUE VALUES (1, 'tiny', 3, 'ivfflat', 'active', NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-28 04:14:46.109737+00');
INSERT INTO public.episodic_memories VALUES (1, '01a2205c-d49e-7a30-8006-9f445dafdf6b', NULL, NULL, NULL, 0, NULL, '2026-11-28 04:14:44.4071+00');
INSERT INTO public.episodic_memories VALUES (1, '01a2205c-d9d1-7269-8423-0ff9204dfa2c', NULL, NULL, NULL, 0, NULL, '2026-11-28 04:14:45.713423+00');
INSERT INTO public.hidden_turns VALUES (1, 'claude-code', 's-1', 7, true, 'x', 'user', 2, '2026-11-28 04:14:46.182651+00', NULL, NULL);
INSERT INTO public.memories VALUES (1, '01a2205c-d886-7caf-a07a-9a68bfa6e5af', 'procedural', NULL, 'active', 'To deploy, tag the commit and wait for the checks.', '\x008f3b4c221ac1b727543f380b563e9d', '{}', NULL, NULL, NULL, 's-01a2205ccdfe-a367b2ff', 3, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, 1, NULL, NULL, NULL, NULL, '2026-11-28 04:14:45.383087+00', '2026-11-28 04:14:45.383087+00', NULL, '2026-11-28 04:14:45.383087+00', '2026-11-28 04:14:45.383087+00', DEFAULT);
INSERT INTO public.memories VALUES (1, '01a2205c-d8ac-7129-9cea-3b102150009f', 'strategic', NULL, 'active', 'Small invoices are paid sooner than large ones.', '\x98ef32bbabcd4601e90d30f5c21bb85c', '{}', NULL, NULL, NULL, 's-01a2205ccdfe-a367b2ff', 4, NULL, NULL, 0, NULL, NULL, NULL, 0.7, NULL, NULL, false, NULL, 1, NULL, NULL, NULL, NULL, '2026-11-28 04:14:45.420391+00', '2026-11-28 04:14:45.420391+00', NULL, '2026-11-28 04:14:45.420391+00', '2026-11-28 04:14:45.420391+00', DEFAULT);
INSERT INTO public.memories VALUES (1, '01a2205c-d862-74a3-acc5-aebd3c178e54', 'semantic', NULL, 'active', 'Jonas is allergic to peanuts.', '\xb63443946c3fc90f6768eaf6d2590521', '{}', NULL, NULL, NULL, 's-01a2205ccdfe-a367b2ff', 2, NULL, NULL, 0, NULL, NULL, NULL, 0.8, NULL, NULL, false, NULL, 2, NULL, NULL, NULL, NULL, '2026-11-28 04:14:45.346742+00', '2026-11-28 04:14:45.346742+00', NULL, '2026-11-28 04:14:45.346742+00', '2026-11-28 04:14:45.510642+00', DEFAULT);
INSERT INTO public.memories VALUES (1, '01a2205c-d49e-7a30-8006-9f445dafdf6b', 'episodic', NULL, 'active', 'Mara moved billing to Stripe on 3 March 2026.', '\xb751a465223808d47ebc9c5bc5dc7250', '{}', NULL, NULL, NULL, 's-01a2205ccdfe-a367b2ff', 1, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, 3, NULL, NULL, NULL, NULL, '2026-11-28 04:14:44.4071+00', '2026-11-28 04:14:44.4071+00', NULL, '2026-11-28 04:14:44.4071+00', '2026-11-28 04:14:45.546134+00', DEFAULT);
INSERT INTO public.memories VALUES (1, '01a2205c-d9d1-7269-8423-0ff9204dfa2c', 'episodic', NULL, 'working', 'Call Stripe.', '\x948efc5148aae12943316f442ced3d88', '{}', NULL, NULL, NULL, 's-01a2205ccdfe-a367b2ff', 5, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, 1, NULL, NULL, NULL, '2026-11-28 05:14:45.734632+00', '2026-11-28 04:14:45.713423+00', '2026-11-28 04:14:45.713423+00', NULL, '2026-11-28 04:14:45.713423+00', '2026-11-28 04:14:45.713423+00', DEFAULT);
INSERT INTO public.memory_activation VALUES (1, '01a2205c-d886-7caf-a07a-9a68bfa6e5af', 0.5, 0.002, '2026-11-28 04:14:45.383087+00', NULL, 0, NULL, NULL, NULL, DEFAULT);
INSERT INTO public.memory_activation VALUES (1, '01a2205c-d8ac-7129-9cea-3b102150009f', 0.5, 0.001, '2026-11-28 04:14:45.420391+00', NULL, 0, NULL, NULL, NULL, DEFAULT);
INSERT INTO public.memory_activation VALUES (1, '01a2205c-d9d1-7269-8423-0ff9204dfa2c', 0.5, 0.01, '2026-11-28 04:14:45.713423+00', NULL, 0, NULL, NULL, NULL, DEFAULT);
INSERT INTO public.memory_activation VALUES (1, '01a2205c-d49e-7a30-8006-9f445dafdf6b', 0.5, 0.01, '2026-11-28 04:14:44.4071+00', NULL, 1, NULL, NULL, NULL, DEFAULT);
INSERT INTO public.memory_activation VALUES (1, '01a2205c-d862-74a3-acc5-aebd3c178e54', 0.9, 0.003, '2026-11-28 04:14:45.346742+00', '2026-11-28 04:14:45.50272+00', 2, 0.05294565362818027, '{"2026-11-28 04:14:45.50272+00"}', '{0.1}', DEFAULT);
INSERT INTO public.memory_belief_evidence VALUES (1, '01a2205c-da25-7a2b-b10f-0a5993aedf1f', '01a2205c-d49e-7a30-8006-9f445dafdf6b', true, '2026-11-28 04:14:45.790825+00');
INSERT INTO public.memory_beliefs VALUES (1, '01a2205c-da25-7a2b-b10f-0a5993aedf1f', 'general', 'Invoices are paid late.', '\x99859252a132bb4be63a61fcce526fb0', 0.8, 0.5, 0, '{}', 1, '2026-11-28 04:14:45.790825+00', '2026-11-28 04:14:45.790825+00');
INSERT INTO public.memory_cluster_activations VALUES (1, '01a2205c-d966-769d-8e27-9b84ae67d14c', '01a2205c-d99e-793e-b300-63d806323a87', NULL, 1, 's-01a2205ccdfe-a367b2ff', '2026-11-28 04:14:45.653346+00');
INSERT INTO public.memory_cluster_members VALUES (1, '01a2205c-d966-769d-8e27-9b84ae67d14c', '01a2205c-d49e-7a30-8006-9f445dafdf6b', 1, false, '2026-11-28 04:14:45.599152+00');
INSERT INTO public.memory_cluster_members VALUES (1, '01a2205c-d966-769d-8e27-9b84ae67d14c', '01a2205c-d862-74a3-acc5-aebd3c178e54', 1, false, '2026-11-28 04:14:45.599152+00');
INSERT INTO public.memory_clusters VALUES (1, '01a2205c-d966-769d-8e27-9b84ae67d14c', 'theme', 'Billing', NULL, '{}', NULL, 0.5, 1, '2026-11-28 04:14:45.653346+00', NULL, NULL, '2026-11-28 04:14:45.599152+00', '2026-11-28 04:14:45.599152+00');
INSERT INTO public.memory_confirmations VALUES (1, '\x30224141f9b846747f4e26f76750473a5e717950187f9633d25566ac389b6dc5', 'erase', '{"versions": {"01a2205c-d49e-7a30-8006-9f445dafdf6b": 3}, "fingerprint": "6ea10c0ef0ad255273ed7c882dc87ced7b166fe78121de8e10a17ff8472b5327"}', '2026-11-28 04:14:45.953031+00', '2026-11-28 04:15:45.953031+00');
INSERT INTO public.memory_history VALUES (1, '01a2205c-d49e-7a30-8006-9f445dafdf6b', 1, 'create', 'mcp', 's-01a2205ccdfe-a367b2ff', NULL, '2026-11-28 04:14:44.4071+00');
INSERT INTO public.memory_history VALUES (1, '01a2205c-d862-74a3-acc5-aebd3c178e54', 1, 'create', 'mcp', 's-01a2205ccdfe-a367b2ff', NULL, '2026-11-28 04:14:45.346742+00');
INSERT INTO public.memory_history VALUES (1, '01a2205c-d886-7caf-a07a-9a68bfa6e5af', 1, 'create', 'mcp', 's-01a2205ccdfe-a367b2ff', NULL, '2026-11-28 04:14:45.383087+00');
INSERT INTO public.memory_history VALUES (1, '01a2205c-d8ac-7129-9cea-3b102150009f', 1, 'create', 'mcp', 's-01a2205ccdfe-a367b2ff', NULL, '2026-11-28 04:14:45.420391+00');
INSERT INTO public.memory_history VALUES (1, '01a2205c-d862-74a3-acc5-aebd3c178e54', 2, 'update', 'mcp', 's-01a2205ccdfe-a367b2ff', '{"importance": [0.5, 0.9]}', '2026-11-28 04:14:45.50272+00');
INSERT INTO public.memory_history VALUES (1, '01a2205c-d49e-7a30-8006-9f445dafdf6b', 2, 'link', 'mcp', 's-01a2205ccdfe-a367b2ff', '{"relationship": [null, {"type": "near", "to_id": "01a2205c-d862-74a3-acc5-aebd3c178e54", "strength": 1, "properties": {}}]}', '2026-11-28 04:14:45.546134+00');
INSERT INTO public.memory_history VALUES (1, '01a2205c-d49e-7a30-8006-9f445dafdf6b', 3, 'link', 'mcp', 's-01a2205ccdfe-a367b2ff', '{"relationship": [null, {"type": "near", "to_id": "01a2205c-d886-7caf-a07a-9a68bfa6e5af", "strength": 1, "properties": {}}]}', '2026-11-28 04:14:45.546134+00');
INSERT INTO public.memory_history VALUES (1, '01a2205c-d9d1-7269-8423-0ff9204dfa2c', 1, 'create', 'mcp', 's-01a2205ccdfe-a367b2ff', NULL, '2026-11-28 04:14:45.713423+00');
INSERT INTO public.memory_history VALUES (1, '01a2205c-da53-7604-a697-4af207c533ae', 1, 'create', NULL, NULL, NULL, '2026-11-28 04:14:45.843645+00');
INSERT INTO public.memory_history VALUES (1, '01a2205c-da53-7604-a697-4af207c533ae', 2, 'erase', 'mcp', 's-01a2205ccdfe-a367b2ff', NULL, '2026-11-28 04:14:45.89053+00');
INSERT INTO public.memory_identities VALUES (1, '01a2205c-da08-71a8-a77a-39ffd4ad1da0', '"Keeper of the books."', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 's-01a2205ccdfe-a367b2ff', '2026-11-28 04:14:45.768489+00');
INSERT INTO public.memory_posting_lists VALUES (1, 1, 1, '{01a2205c-d886-7caf-a07a-9a68bfa6e5af,01a2205c-d8ac-7129-9cea-3b102150009f,01a2205c-d862-74a3-acc5-aebd3c178e54,01a2205c-d49e-7a30-8006-9f445dafdf6b,01a2205c-d9d1-7269-8423-0ff9204dfa2c}', '{65537,65537,65537,65537,65537}');
INSERT INTO public.memory_relationships VALUES (1, '01a2205c-d49e-7a30-8006-9f445dafdf6b', '01a2205c-d862-74a3-acc5-aebd3c178e54', 'near', 1, '{}', '2026-11-28 04:14:45.546134+00', '2026-11-28 04:14:45.546134+00');
INSERT INTO public.memory_relationships VALUES (1, '01a2205c-d49e-7a30-8006-9f445dafdf6b', '01a2205c-d886-7caf-a07a-9a68bfa6e5af', 'near', 1, '{}', '2026-11-28 04:14:45.546134+00', '2026-11-28 04:14:45.546134+00');
INSERT INTO public.memory_tag_synonyms VALUES (1, 'job', 'work');
INSERT INTO public.memory_tags VALUES (1, '01a2205c-d49e-7a30-8006-9f445dafdf6b', 'work', 1);
INSERT INTO public.memory_tags VALUES (1, '01a2205c-d862-74a3-acc5-aebd3c178e54', 'work', 1);
INSERT INTO public.memory_tags VALUES (1, '01a2205c-d886-7caf-a07a-9a68bfa6e5af', 'work', 1);
INSERT INTO public.memory_tags VALUES (1, '01a2205c-d8ac-7129-9cea-3b102150009f', 'work', 1);
INSERT INTO public.memory_vectors VALUES (1, '01a2205c-d862-74a3-acc5-aebd3c178e54', 1, 0, '[1,0,0]');
INSERT INTO public.memory_words VALUES (1, '01a2205c-d49e-7a30-8006-9f445dafdf6b', '{-1969698709,-1934868325,-919990222,-399024772,-322189186,180895920,926198019,1080132495,1743334535}', '{1,1,1,1,1,1,1,1,1}', 8, NULL);
INSERT INTO public.memory_words VALUES (1, '01a2205c-d862-74a3-acc5-aebd3c178e54', '{-932954061,829327361,934968691,1179824542,1743334535}', '{1,1,1,1,1}', 4, NULL);
INSERT INTO public.memory_words VALUES (1, '01a2205c-d886-7caf-a07a-9a68bfa6e5af', '{-455983484,-219946,126828794,195314590,1227189144,1743334535}', '{1,1,1,1,1,1}', 6, NULL);
INSERT INTO public.memory_words VALUES (1, '01a2205c-d8ac-7129-9cea-3b102150009f', '{-346287207,-109290199,734038762,956856616,1743334535,1855414335,1994425463}', '{1,1,1,1,1,1,1}', 7, NULL);
INSERT INTO public.memory_words VALUES (1, '01a2205c-d9d1-7269-8423-0ff9204dfa2c', '{-1969698709,180895920,1404692839}', '{1,1,1}', 2, 0);
INSERT INTO public.namespaces OVERRIDING SYSTEM VALUE VALUES (1, 'default', '2026-11-28 04:14:44.174632+00');
INSERT INTO public.oauth_grants VALUES ('ab', 'https://claude.ai/x', 'Claude', 'claude.ai', 'claude.ai', 'default', 'read-only', 'https://memory.example.org/mcp', 0, NULL, NULL, NULL, '2026-11-28 04:14:46.218465+00', '2026-11-28 04:14:46.218465+00', NULL);
INSERT INTO public.oauth_requests VALUES ('\x00', '\x00', '{}', 0, '2026-11-28 04:14:46.227509+00', NULL, NULL, NULL, NULL);
INSERT INTO public.pairing_codes VALUES ('\x00', 'default', true, 0, '2026-11-28 04:14:46.232031+00');
INSERT INTO public.pgengram_version VALUES ('0012');
INSERT INTO public.procedural_memories VALUES (1, '01a2205c-d886-7caf-a07a-9a68bfa6e5af', '{}', '{}', 0, 0, DEFAULT, NULL, NULL);
INSERT INTO public.recall_receipts VALUES (1, '01a2205c-d862-74a3-acc5-aebd3c178e54', 'claude-code', 's-1', 1, 'SessionStart', NULL, NULL, NULL, 12, 34, '2026-11-28 04:14:46.266374+00');
INSERT INTO public.semantic_memories VALUES (1, '01a2205c-d862-74a3-acc5-aebd3c178e54', '{}', '{}', NULL, NULL, NULL);
INSERT INTO public.server_keys VALUES ('tokens', '\x00');
INSERT INTO public.strategic_memories VALUES (1, '01a2205c-d8ac-7129-9cea-3b102150009f', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.sync_changes VALUES (1, 'memory', '01a2205c-d862-74a3-acc5-aebd3c178e54', '2026-11-28 04:14:46.202531+00', false);
INSERT INTO public.sync_documents VALUES (1, 'memory', '01a2205c-d862-74a3-acc5-aebd3c178e54', '{}', false, false);
INSERT INTO public.sync_files VALUES (1, '00', 'device.sync', '1-1', false, NULL);
INSERT INTO public.sync_settings VALUES (1, '\x00', '/home/mara/Sync', '00', 'laptop', '{}', '2026-11-28 04:14:46.19832+00', NULL, NULL);
INSERT INTO public.working_memories VALUES (1, '01a2205c-d9d1-7269-8423-0ff9204dfa2c', false, NULL);
SELECT pg_catalog.setval('public.access_events_id_seq', 1, true);
SELECT pg_catalog.setval('public.embedding_models_id_seq', 1, true);
SELECT pg_catalog.setval('public.namespaces_id_seq', 1, true);
ALTER TABLE ONLY public.access_events
    ADD CONSTRAINT access_events_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.access_tokens
    ADD CONSTRAINT access_tokens_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.client_rates
    ADD CONSTRAINT client_rates_pkey PRIMARY KEY (client);
ALTER TABLE ONLY public.conversation_settings
    ADD CONSTRAINT conversation_settings_pkey PRIMARY KEY (namespace_id);
ALTER TABLE ONLY public.conversation_turns
    ADD CONSTRAINT conversation_turns_pkey PRIMARY KEY (namespace_id, client, conversation, number);
ALTER TABLE ONLY public.conversations
    ADD CONSTRAINT conversations_pkey PRIMARY KEY (namespace_id, client, conversation);
ALTER TABLE ONLY public.decay_classes
    ADD CONSTRAINT decay_classes_pkey PRIMARY KEY (rate_per_day);
ALTER TABLE ONLY public.deletion_log
    ADD CONSTRAINT deletion_log_former_namespace_id_namespace_since_memory_id_key UNIQUE NULLS NOT DISTINCT (former_namespace_id, namespace_since, memory_id);
ALTER TABLE ONLY public.embedding_models
    ADD CONSTRAINT embedding_models_name_key UNIQUE (name);
ALTER TABLE ONLY public.embedding_models
    ADD CONSTRAINT embedding_models_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.episodic_memories
    ADD CONSTRAINT episodic_memories_pkey PRIMARY KEY (namespace_id, memory_id);
ALTER TABLE ONLY public.hidden_turns
    ADD CONSTRAINT hidden_turns_pkey PRIMARY KEY (namespace_id, client, conversation, source_key, withdrawn, digest);
ALTER TABLE ONLY public.memories
    ADD CONSTRAINT memories_pkey PRIMARY KEY (namespace_id, id);
ALTER TABLE ONLY public.memory_activation
    ADD CONSTRAINT memory_activation_pkey PRIMARY KEY (namespace_id, memory_id);
ALTER TABLE ONLY public.memory_belief_evidence
    ADD CONSTRAINT memory_belief_evidence_pkey PRIMARY KEY (namespace_id, belief_id, memory_id);
ALTER TABLE ONLY public.memory_beliefs
    ADD CONSTRAINT memory_beliefs_namespace_id_belief_hash_key UNIQUE (namespace_id, belief_hash);
ALTER TABLE ONLY public.memory_beliefs
    ADD CONSTRAINT memory_beliefs_pkey PRIMARY KEY (namespace_id, id);
ALTER TABLE ONLY public.memory_cluster_activations
    ADD CONSTRAINT memory_cluster_activations_pkey PRIMARY KEY (namespace_id, cluster_id, id);
ALTER TABLE ONLY public.memory_cluster_members
    ADD CONSTRAINT memory_cluster_members_pkey PRIMARY KEY (namespace_id, cluster_id, memory_id);
ALTER TABLE ONLY public.memory_clusters
    ADD CONSTRAINT memory_clusters_pkey PRIMARY KEY (namespace_id, id);
ALTER TABLE ONLY public.memory_confirmations
    ADD CONSTRAINT memory_confirmations_pkey PRIMARY KEY (namespace_id, token_hash);
ALTER TABLE ONLY public.memory_history
    ADD CONSTRAINT memory_history_pkey PRIMARY KEY (namespace_id, memory_id, version);
ALTER TABLE ONLY public.memory_identities
    ADD CONSTRAINT memory_identities_pkey PRIMARY KEY (namespace_id, id);
ALTER TABLE ONLY public.memory_posting_lists
    ADD CONSTRAINT memory_posting_lists_pkey PRIMARY KEY (namespace_id, term, segment);
ALTER TABLE ONLY public.memory_relationships
    ADD CONSTRAINT memory_relationships_pkey PRIMARY KEY (namespace_id, from_id, to_id, type);
ALTER TABLE ONLY public.memory_tag_synonyms
    ADD CONSTRAINT memory_tag_synonyms_pkey PRIMARY KEY (namespace_id, alias);
ALTER TABLE ONLY public.memory_tags
    ADD CONSTRAINT memory_tags_pkey PRIMARY KEY (namespace_id, memory_id, tag);
ALTER TABLE ONLY public.memory_vectors
    ADD CONSTRAINT memory_vectors_pkey PRIMARY KEY (namespace_id, memory_id, model_id, part);
ALTER TABLE ONLY public.memory_words
    ADD CONSTRAINT memory_words_pkey PRIMARY KEY (namespace_id, memory_id);
ALTER TABLE ONLY public.namespaces
    ADD CONSTRAINT namespaces_name_key UNIQUE (name);
ALTER TABLE ONLY public.namespaces
    ADD CONSTRAINT namespaces_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.oauth_grants
    ADD CONSTRAINT oauth_grants_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.oauth_requests
    ADD CONSTRAINT oauth_requests_code_hash_key UNIQUE (code_hash);
ALTER TABLE ONLY public.oauth_requests
    ADD CONSTRAINT oauth_requests_pkey PRIMARY KEY (id_hash);
ALTER TABLE ONLY public.pairing_codes
    ADD CONSTRAINT pairing_codes_pkey PRIMARY KEY (code_hash);
ALTER TABLE ONLY public.pgengram_version
    ADD CONSTRAINT pgengram_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.procedural_memories
    ADD CONSTRAINT procedural_memories_pkey PRIMARY KEY (namespace_id, memory_id);
ALTER TABLE ONLY public.recall_receipts
    ADD CONSTRAINT recall_receipts_pkey PRIMARY KEY (namespace_id, memory_id, client, conversation, version);
ALTER TABLE ONLY public.semantic_memories
    ADD CONSTRAINT semantic_memories_pkey PRIMARY KEY (namespace_id, memory_id);
ALTER TABLE ONLY public.server_keys
    ADD CONSTRAINT server_keys_pkey PRIMARY KEY (purpose);
ALTER TABLE ONLY public.strategic_memories
    ADD CONSTRAINT strategic_memories_pkey PRIMARY KEY (namespace_id, memory_id);
ALTER TABLE ONLY public.sync_changes
    ADD CONSTRAINT sync_changes_pkey PRIMARY KEY (namespace_id, kind, key);
ALTER TABLE ONLY public.sync_documents
    ADD CONSTRAINT sync_documents_pkey PRIMARY KEY (namespace_id, kind, key);
ALTER TABLE ONLY public.sync_files
    ADD CONSTRAINT sync_files_pkey PRIMARY KEY (namespace_id, device, name);
ALTER TABLE ONLY public.sync_settings
    ADD CONSTRAINT sync_settings_pkey PRIMARY KEY (namespace_id);
ALTER TABLE ONLY public.working_memories
    ADD CONSTRAINT working_memories_pkey PRIMARY KEY (namespace_id, memory_id);
CREATE INDEX access_tokens_of_grant ON public.access_tokens USING btree (grant_id);
CREATE INDEX access_tokens_of_namespace ON public.access_tokens USING btree (namespace);
CREATE INDEX conversation_turns_by_source ON public.conversation_turns USING btree (namespace_id, client, source_key);
CREATE INDEX conversation_turns_by_time ON public.conversation_turns USING btree (namespace_id, "time");
CREATE INDEX conversations_by_time ON public.conversations USING btree (namespace_id, at);
CREATE UNIQUE INDEX embedding_models_active ON public.embedding_models USING btree (state) WHERE (state = 'active'::text);
CREATE UNIQUE INDEX embedding_models_filling ON public.embedding_models USING btree (state) WHERE (state = 'filling'::text);
CREATE INDEX hidden_turns_by_source ON public.hidden_turns USING btree (namespace_id, client, source_key);
CREATE UNIQUE INDEX memories_active_content ON public.memories USING btree (namespace_id, content_hash) WHERE (status = 'active'::text);
CREATE INDEX memories_by_collection ON public.memories USING btree (namespace_id, collection, id) WHERE (collection IS NOT NULL);
CREATE UNIQUE INDEX memories_by_idempotency_key ON public.memories USING btree (namespace_id, idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX memories_by_occurrence ON public.memories USING btree (namespace_id, (
CASE
    WHEN (occurred_at IS NULL) THEN created_at
    ELSE occurred_at
END));
CREATE INDEX memories_by_project ON public.memories USING btree (namespace_id, project, id) WHERE (project IS NOT NULL);
CREATE INDEX memories_by_session ON public.memories USING btree (namespace_id, session_id, session_sequence);
CREATE INDEX memories_by_short_id ON public.memories USING btree (namespace_id, short_id);
CREATE INDEX memories_by_time ON public.memories USING btree (namespace_id, created_at);
CREATE INDEX memories_by_user ON public.memories USING btree (namespace_id, "user", id) WHERE ("user" IS NOT NULL);
CREATE INDEX memories_hidden ON public.memories USING btree (namespace_id, status, expires_at, id) WHERE ((status <> 'active'::text) OR (expires_at IS NOT NULL));
CREATE INDEX memory_activation_rank ON public.memory_activation USING btree (namespace_id, rate_per_day, relevance_anchor DESC, memory_id);
CREATE INDEX memory_belief_evidence_by_memory ON public.memory_belief_evidence USING btree (namespace_id, memory_id);
CREATE INDEX memory_cluster_activations_by_time ON public.memory_cluster_activations USING btree (namespace_id, at);
CREATE INDEX memory_cluster_members_by_memory ON public.memory_cluster_members USING btree (namespace_id, memory_id);
CREATE INDEX memory_relationships_to ON public.memory_relationships USING btree (namespace_id, to_id, type);
CREATE INDEX memory_tags_by_tag ON public.memory_tags USING btree (namespace_id, tag, memory_id);
CREATE INDEX memory_words_by_segment ON public.memory_words USING btree (namespace_id, segment) WHERE (segment > 0);
CREATE INDEX memory_words_waiting ON public.memory_words USING btree (namespace_id, memory_id) WHERE (segment IS NULL);
CREATE INDEX oauth_grants_of_namespace ON public.oauth_grants USING btree (namespace);
CREATE INDEX recall_receipts_by_conversation ON public.recall_receipts USING btree (namespace_id, client, conversation, at);
CREATE INDEX sync_documents_disputed ON public.sync_documents USING btree (namespace_id, kind, key) WHERE disputed;
CREATE INDEX sync_documents_waiting ON public.sync_documents USING btree (namespace_id, kind, key) WHERE waits;
CREATE TRIGGER pgengram_keeps_text BEFORE UPDATE OF content ON public.memories FOR EACH ROW WHEN (((old.content IS DISTINCT FROM new.content) AND (old.version = new.version))) EXECUTE FUNCTION public.pgengram_keep_text();
ALTER TABLE ONLY public.access_tokens
    ADD CONSTRAINT access_tokens_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES public.oauth_grants(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.access_tokens
    ADD CONSTRAINT access_tokens_namespace_fkey FOREIGN KEY (namespace) REFERENCES public.namespaces(name) ON DELETE CASCADE;
ALTER TABLE ONLY public.conversation_settings
    ADD CONSTRAINT conversation_settings_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);
ALTER TABLE ONLY public.conversation_turns
    ADD CONSTRAINT conversation_turns_namespace_id_client_conversation_fkey FOREIGN KEY (namespace_id, client, conversation) REFERENCES public.conversations(namespace_id, client, conversation) ON DELETE CASCADE;
ALTER TABLE ONLY public.conversations
    ADD CONSTRAINT conversations_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);
ALTER TABLE ONLY public.episodic_memories
    ADD CONSTRAINT episodic_memories_namespace_id_memory_id_fkey FOREIGN KEY (namespace_id, memory_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.hidden_turns
    ADD CONSTRAINT hidden_turns_namespace_id_client_conversation_fkey FOREIGN KEY (namespace_id, client, conversation) REFERENCES public.conversations(namespace_id, client, conversation) ON DELETE CASCADE;
ALTER TABLE ONLY public.memories
    ADD CONSTRAINT memories_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);
ALTER TABLE ONLY public.memory_activation
    ADD CONSTRAINT memory_activation_namespace_id_memory_id_fkey FOREIGN KEY (namespace_id, memory_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.memory_activation
    ADD CONSTRAINT memory_activation_rate_per_day_fkey FOREIGN KEY (rate_per_day) REFERENCES public.decay_classes(rate_per_day);
ALTER TABLE ONLY public.memory_belief_evidence
    ADD CONSTRAINT memory_belief_evidence_namespace_id_belief_id_fkey FOREIGN KEY (namespace_id, belief_id) REFERENCES public.memory_beliefs(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.memory_belief_evidence
    ADD CONSTRAINT memory_belief_evidence_namespace_id_memory_id_fkey FOREIGN KEY (namespace_id, memory_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.memory_beliefs
    ADD CONSTRAINT memory_beliefs_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);
ALTER TABLE ONLY public.memory_cluster_activations
    ADD CONSTRAINT memory_cluster_activations_namespace_id_cluster_id_fkey FOREIGN KEY (namespace_id, cluster_id) REFERENCES public.memory_clusters(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.memory_cluster_members
    ADD CONSTRAINT memory_cluster_members_namespace_id_cluster_id_fkey FOREIGN KEY (namespace_id, cluster_id) REFERENCES public.memory_clusters(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.memory_cluster_members
    ADD CONSTRAINT memory_cluster_members_namespace_id_memory_id_fkey FOREIGN KEY (namespace_id, memory_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.memory_clusters
    ADD CONSTRAINT memory_clusters_model_id_fkey FOREIGN KEY (model_id) REFERENCES public.embedding_models(id);
ALTER TABLE ONLY public.memory_clusters
    ADD CONSTRAINT memory_clusters_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);
ALTER TABLE ONLY public.memory_confirmations
    ADD CONSTRAINT memory_confirmations_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);
ALTER TABLE ONLY public.memory_identities
    ADD CONSTRAINT memory_identities_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);
ALTER TABLE ONLY public.memory_relationships
    ADD CONSTRAINT memory_relationships_namespace_id_from_id_fkey FOREIGN KEY (namespace_id, from_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.memory_relationships
    ADD CONSTRAINT memory_relationships_namespace_id_to_id_fkey FOREIGN KEY (namespace_id, to_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.memory_tag_synonyms
    ADD CONSTRAINT memory_tag_synonyms_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);
ALTER TABLE ONLY public.memory_tags
    ADD CONSTRAINT memory_tags_namespace_id_memory_id_fkey FOREIGN KEY (namespace_id, memory_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.memory_vectors
    ADD CONSTRAINT memory_vectors_model_id_fkey FOREIGN KEY (model_id) REFERENCES public.embedding_models(id);
ALTER TABLE ONLY public.memory_vectors
    ADD CONSTRAINT memory_vectors_namespace_id_memory_id_fkey FOREIGN KEY (namespace_id, memory_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.memory_words
    ADD CONSTRAINT memory_words_namespace_id_memory_id_fkey FOREIGN KEY (namespace_id, memory_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.oauth_grants
    ADD CONSTRAINT oauth_grants_namespace_fkey FOREIGN KEY (namespace) REFERENCES public.namespaces(name) ON DELETE CASCADE;
ALTER TABLE ONLY public.oauth_requests
    ADD CONSTRAINT oauth_requests_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES public.oauth_grants(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.pairing_codes
    ADD CONSTRAINT pairing_codes_namespace_fkey FOREIGN KEY (namespace) REFERENCES public.namespaces(name) ON DELETE CASCADE;
ALTER TABLE ONLY public.procedural_memories
    ADD CONSTRAINT procedural_memories_namespace_id_memory_id_fkey FOREIGN KEY (namespace_id, memory_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.recall_receipts
    ADD CONSTRAINT recall_receipts_namespace_id_memory_id_fkey FOREIGN KEY (namespace_id, memory_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.semantic_memories
    ADD CONSTRAINT semantic_memories_namespace_id_memory_id_fkey FOREIGN KEY (namespace_id, memory_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.strategic_memories
    ADD CONSTRAINT strategic_memories_namespace_id_memory_id_fkey FOREIGN KEY (namespace_id, memory_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.sync_changes
    ADD CONSTRAINT sync_changes_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);
ALTER TABLE ONLY public.sync_documents
    ADD CONSTRAINT sync_documents_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);
ALTER TABLE ONLY public.sync_files
    ADD CONSTRAINT sync_files_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);
ALTER TABLE ONLY public.sync_settings
    ADD CONSTRAINT sync_settings_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES public.namespaces(id);
ALTER TABLE ONLY public.working_memories
    ADD CONSTRAINT working_memories_namespace_id_memory_id_fkey FOREIGN KEY (namespace_id, memory_id) REFERENCES public.memories(namespace_id, id) ON DELETE CASCADE;
ALTER TABLE public.access_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.access_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.client_rates ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.conversation_settings ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.conversation_turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.conversations ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.decay_classes ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.deletion_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.embedding_models ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.episodic_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.hidden_turns ENABLE ROW LEVEL SECURITY;
CREATE POLICY maintenance ON public.conversation_settings FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.conversation_turns FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.conversations FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.episodic_memories FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.hidden_turns FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memories FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_activation FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_belief_evidence FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_beliefs FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_cluster_activations FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_cluster_members FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_clusters FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_confirmations FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_history FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_identities FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_posting_lists FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_relationships FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_tag_synonyms FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_tags FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_vectors FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.memory_words FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.procedural_memories FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.recall_receipts FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.semantic_memories FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.strategic_memories FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.sync_changes FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.sync_documents FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.sync_files FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.sync_settings FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
CREATE POLICY maintenance ON public.working_memories FOR SELECT TO CURRENT_USER USING ((current_setting('pgengram.maintenance'::text, true) = 'on'::text));
ALTER TABLE public.memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_activation ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_belief_evidence ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_beliefs ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_cluster_activations ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_cluster_members ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_clusters ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_confirmations ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_identities ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_posting_lists ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_relationships ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_tag_synonyms ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_tags ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.memory_words ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.namespaces ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.oauth_grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.oauth_requests ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_namespace ON public.conversation_settings USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.conversation_turns USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.conversations USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.episodic_memories USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.hidden_turns USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memories USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_activation USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_belief_evidence USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_beliefs USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_cluster_activations USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_cluster_members USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_clusters USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_confirmations USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_history USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_identities USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_posting_lists USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_relationships USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_tag_synonyms USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_tags USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_vectors USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.memory_words USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.procedural_memories USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.recall_receipts USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.semantic_memories USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.strategic_memories USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.sync_changes USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.sync_documents USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.sync_files USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.sync_settings USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
CREATE POLICY one_namespace ON public.working_memories USING ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer)) WITH CHECK ((namespace_id = (NULLIF(current_setting('pgengram.namespace_id'::text, true), ''::text))::integer));
ALTER TABLE public.pairing_codes ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.procedural_memories ENABLE ROW LEVEL SECURITY;
CREATE POLICY readable ON public.decay_classes FOR SELECT USING (true);
CREATE POLICY readable ON public.embedding_models FOR SELECT USING (true);
ALTER TABLE public.recall_receipts ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.semantic_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.server_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.strategic_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.sync_changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.sync_documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.sync_files ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.sync_settings ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.working_memories ENABLE ROW LEVEL SECURITY;
GRANT USAGE ON SCHEMA public TO pgengram_app;
REVOKE ALL ON FUNCTION public.pgengram_keep_text() FROM PUBLIC;
GRANT ALL ON FUNCTION public.pgengram_keep_text() TO pgengram_app;
REVOKE ALL ON FUNCTION public.pgengram_relevance(anchor double precision, rate_per_day double precision, at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION public.pgengram_relevance(anchor double precision, rate_per_day double precision, at timestamp with time zone) TO pgengram_app;
REVOKE ALL ON FUNCTION public.pgengram_terms(body text, extra text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION public.pgengram_terms(body text, extra text[]) TO pgengram_app;
REVOKE ALL ON FUNCTION public.pgengram_turn_terms(body text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.pgengram_turn_terms(body text) TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.conversation_settings TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.conversation_turns TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.conversations TO pgengram_app;
GRANT SELECT ON TABLE public.decay_classes TO pgengram_app;
GRANT SELECT ON TABLE public.embedding_models TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.episodic_memories TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.hidden_turns TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memories TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_activation TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_tags TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.procedural_memories TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.semantic_memories TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.strategic_memories TO pgengram_app;
GRANT SELECT ON TABLE public.memories_now TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_belief_evidence TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_beliefs TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_cluster_activations TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_cluster_members TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_clusters TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_confirmations TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_history TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_identities TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_posting_lists TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_relationships TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_tag_synonyms TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_vectors TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.memory_words TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.recall_receipts TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.sync_changes TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.sync_documents TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.sync_files TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.sync_settings TO pgengram_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.working_memories TO pgengram_app;
