"""The schema: tables, row-level security and the application's rights.

The first migration says the same as SQL text; a test builds a database from each and asserts that they do not differ.

Imported by the migrations and by tests, never while a server serves: SQLAlchemy costs start-up time and memory.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    event,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL, JSONB, UUID
from sqlalchemy.types import UserDefinedType

from pgengram import fields as f
from pgengram.store.connection.begin import FIRST_SPACE
from pgengram.store.schema import rights

NAMING: Final = {
    "ix": "%(table_name)s_%(column_0_N_name)s",
    "uq": "%(table_name)s_%(column_0_N_name)s_key",
    "ck": "%(table_name)s_%(constraint_name)s_check",
    "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
    "pk": "%(table_name)s_pkey",
}
metadata = MetaData(naming_convention=NAMING)


# Who asks in a space is a setting of the transaction, so that no statement can leave it out, nor a client say it.
THIS_PERSON: Final = text("nullif(nullif(current_setting('pgengram.person_id', true), ''), '-1')::integer")


class HalfVector(UserDefinedType[Any]):
    """pgvector's halfvec: 2 bytes a dimension, of any length; the model says how many."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the type's name in SQL."""
        return "halfvec"


def _one_of(column: str, words: tuple[str, ...]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(word) for word in words)})", name=column)


def _between(column: str, low: int, high: int) -> CheckConstraint:
    return CheckConstraint(f"{column} >= {low} AND {column} <= {high}", name=column)


def _moment(name: str, **options: Any) -> Column[Any]:
    return Column(name, DateTime(timezone=True), **options)


def _of_memory(table: str, *more: Any) -> Table:
    """A table whose rows belong to one memory and go with it."""
    return Table(
        table,
        metadata,
        Column("namespace_id", Integer, primary_key=True),
        Column("memory_id", UUID, primary_key=True),
        *more,
        ForeignKeyConstraint(
            ["namespace_id", "memory_id"], ["memories.namespace_id", "memories.id"], ondelete="CASCADE"
        ),
    )


# Lookup tables: no namespace's data; the application role may read what it needs and write none of it.
namespaces = Table(
    "namespaces",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, CheckConstraint("length(name) >= 1 AND length(name) <= 128", name="name"), nullable=False),
    _moment("created_at", nullable=False, server_default=func.now()),
    UniqueConstraint("name"),
)

# People, and what they share: a space is a namespace with a key from 1,000,000,000 on. The login's alone, as all about
# who may come in: the function of the policies looks here with the rights of its owner.
persons = Table(
    "persons",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, CheckConstraint("length(name) >= 1 AND length(name) <= 64", name="name")),  # none once erased
    Column("personal_id", Integer, ForeignKey("namespaces.id", ondelete="SET NULL")),
    _moment("created_at", nullable=False, server_default=func.now()),
    UniqueConstraint("name"),
    UniqueConstraint("personal_id"),
)
spaces = Table(
    "spaces",
    metadata,
    Column(
        "id",
        Integer,
        Identity(always=True, start=FIRST_SPACE),
        ForeignKey("namespaces.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    _moment("created_at", nullable=False, server_default=func.now()),
)
space_members = Table(
    "space_members",
    metadata,
    Column("space_id", Integer, ForeignKey("spaces.id", ondelete="CASCADE"), primary_key=True),
    Column("person_id", Integer, ForeignKey("persons.id"), primary_key=True),
    Column("role", Text, _one_of("role", rights.ROLES), nullable=False),
    _moment("since", nullable=False, server_default=func.now()),
    _moment("until"),
    Column("anonymous", Boolean, nullable=False, server_default=text("false")),
)
# What a person is told once, by whichever assistant asks next.
person_notices = Table(
    "person_notices",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("person_id", Integer, ForeignKey("persons.id", ondelete="CASCADE"), nullable=False),
    _moment("at", nullable=False, server_default=func.now()),
    Column("text", Text, nullable=False),
)
Index("person_notices_of_person", person_notices.c.person_id)

# Who may come in from outside. The application's role has no right on it: only the login asks it, before a namespace is
# known.
access_tokens = Table(
    "access_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("name", Text, CheckConstraint("length(name) >= 1 AND length(name) <= 64", name="name"), nullable=False),
    Column("namespace", Text, ForeignKey("namespaces.name", ondelete="CASCADE"), nullable=False),
    Column("scope", Text, _one_of("scope", ("read-only", "read-write")), nullable=False),
    _moment("created_at", nullable=False, server_default=func.now()),
    _moment("expires_at"),
    _moment("last_used_at"),
    _moment("revoked_at"),
    Column("grant_id", Text, ForeignKey("oauth_grants.id", ondelete="CASCADE")),
    Column("spaces", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
)
Index("access_tokens_of_namespace", access_tokens.c.namespace)
Index("access_tokens_of_grant", access_tokens.c.grant_id)

# Programs that signed in, and what their owner allowed them. Of all secrets only hashes are kept.
oauth_grants = Table(
    "oauth_grants",
    metadata,
    Column("id", Text, primary_key=True),
    Column("client_id", Text, nullable=False),
    Column("client_name", Text, nullable=False),
    Column("client_host", Text, nullable=False),
    Column("redirect_host", Text, nullable=False),
    Column("namespace", Text, ForeignKey("namespaces.name", ondelete="CASCADE"), nullable=False),
    Column("scope", Text, _one_of("scope", ("read-only", "read-write")), nullable=False),
    Column("resource", Text, nullable=False),
    Column("generation", Integer, nullable=False, server_default=text("0")),
    Column("refresh_hash", LargeBinary),
    Column("previous_hash", LargeBinary),
    _moment("rotated_at"),
    _moment("created_at", nullable=False, server_default=func.now()),
    _moment("expires_at", nullable=False),
    _moment("revoked_at"),
    Column("spaces", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
)
Index("oauth_grants_of_namespace", oauth_grants.c.namespace)
# A request to sign in that was answered, to the code that is used once; until then the page itself holds it, sealed.
oauth_requests = Table(
    "oauth_requests",
    metadata,
    Column("id_hash", LargeBinary, primary_key=True),
    Column("asked", JSONB, nullable=False),
    Column("tries", Integer, nullable=False, server_default=text("0")),
    _moment("expires_at", nullable=False),
    Column("code_hash", LargeBinary),
    _moment("code_expires_at"),
    _moment("code_used_at"),
    Column("grant_id", Text, ForeignKey("oauth_grants.id", ondelete="CASCADE")),
    Column("namespace", Text, ForeignKey("namespaces.name", ondelete="CASCADE")),
    Column("allowed", JSONB),
    UniqueConstraint("code_hash"),
)
# What a person at the machine types to let a program in.
pairing_codes = Table(
    "pairing_codes",
    metadata,
    Column("code_hash", LargeBinary, primary_key=True),
    Column("namespace", Text, ForeignKey("namespaces.name", ondelete="CASCADE"), nullable=False),
    Column("may_write", Boolean, nullable=False),
    Column("spaces", JSONB),
    Column("tries", Integer, nullable=False, server_default=text("0")),
    _moment("expires_at", nullable=False),
    Column("person", Text),
)
# What a device confirms with instead of such a code, until somebody removes it; then the key is forgotten.
passkeys = Table(
    "passkeys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("credential_id", LargeBinary, nullable=False),
    Column("credential", LargeBinary),
    Column("sign_count", BigInteger, nullable=False),
    Column("rp_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("namespace", Text, ForeignKey("namespaces.name", ondelete="CASCADE"), nullable=False),
    Column("may_write", Boolean, nullable=False),
    Column("spaces", JSONB),
    _moment("created_at", nullable=False, server_default=func.now()),
    _moment("last_used_at"),
    _moment("removed_at"),
    UniqueConstraint("credential_id"),
)
Index("passkeys_of_namespace", passkeys.c.namespace)
server_keys = Table(
    "server_keys", metadata, Column("purpose", Text, primary_key=True), Column("secret", LargeBinary, nullable=False)
)
# Who was let in and who was not: names of hosts, no secret and no address.
access_events = Table(
    "access_events",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    _moment("at", nullable=False, server_default=func.now()),
    Column("event", Text, nullable=False),
    Column("namespace", Text),
    Column("client_host", Text),
    Column("redirect_host", Text),
    Column("scope", Text),
    Column("grant_id", Text),
)

# How often clients that come from outside have called. It may be lost, so that counting waits for no disk; like the
# tokens it is the login's alone.
client_rates = Table(
    "client_rates",
    metadata,
    Column("client", LargeBinary, primary_key=True),
    _moment("paid_at", nullable=False),
    prefixes=["UNLOGGED"],
)

# What was erased, so that an older backup does not bring it back: ids alone. No right of the application's role, nor
# row-level security: it outlives its namespace.
deletion_log = Table(
    "deletion_log",
    metadata,
    Column("former_namespace_id", Integer, nullable=False),
    _moment("namespace_since", nullable=False),  # after a restore the same id may be given to somebody else
    Column("memory_id", UUID),  # none: the namespace with everything
    _moment("at", nullable=False, server_default=func.now()),
    UniqueConstraint("former_namespace_id", "namespace_since", "memory_id", postgresql_nulls_not_distinct=True),
)

decay_classes = Table(
    "decay_classes",
    metadata,
    Column("rate_per_day", Double, CheckConstraint("rate_per_day >= 0", name="rate_per_day"), primary_key=True),
)

embedding_models = Table(
    "embedding_models",
    metadata,
    Column("id", SmallInteger, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False),
    Column(
        "dimensions",
        Integer,
        CheckConstraint("dimensions >= 1 AND dimensions <= 4000", name="dimensions"),
        nullable=False,
    ),
    Column(
        "index_method", Text, _one_of("index_method", ("ivfflat", "hnsw")), nullable=False, server_default="ivfflat"
    ),
    Column("state", Text, _one_of("state", ("active", "filling", "retired")), nullable=False, server_default="retired"),
    Column("embedder", Text),  # the setting that makes this model again, for a server that was set to another one
    Column("index_lists", Integer),
    Column("rows_at_build", BigInteger),
    Column("rows_at_check", BigInteger),
    Column("measured_recall", Double),
    _moment("built_at"),
    _moment("created_at", nullable=False, server_default=func.now()),
    UniqueConstraint("name"),
)
for _state in ("active", "filling"):  # searches use one model; one other may be filled meanwhile
    Index(f"embedding_models_{_state}", embedding_models.c.state, unique=True,
          postgresql_where=embedding_models.c.state == text(f"'{_state}'"))  # fmt: skip

memories = Table(
    "memories",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("id", UUID, primary_key=True),
    Column("type", Text, _one_of("type", f.TYPES), nullable=False),
    Column("kind", Text, _one_of("kind", f.KINDS)),
    Column("status", Text, _one_of("status", f.STATUSES), nullable=False, server_default="active"),
    Column(
        "content",
        Text,
        CheckConstraint(f"length(content) >= 1 AND length(content) <= {f.MAX_CONTENT}", name="content"),
        nullable=False,
    ),
    Column("content_hash", LargeBinary, nullable=False),
    Column("metadata", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("source", Text),
    Column("source_provider", Text),
    Column("capture_mode", Text, _one_of("capture_mode", f.CAPTURE_MODES)),
    Column("session_id", Text),
    Column("session_sequence", BigInteger),
    Column("speaker", Text),
    Column("speaker_key", Text),  # who speaks, in lower case, also when only the text says so; helps ranking
    Column("turn_features", SmallInteger, nullable=False, server_default=text("0")),  # bits of text/turn_features.py
    Column("user", Text),
    Column("project", Text),
    Column("collection", Text),
    Column("confidence", Double, _between("confidence", 0, 1)),
    Column("emotion", Text, _one_of("emotion", f.EMOTIONS)),
    Column("sources", JSONB),  # a list of {kind, ref, label, author, observed_at, trust}
    Column("pinned", Boolean, nullable=False, server_default=text("false")),
    Column("idempotency_key", Text),
    Column("version", Integer, nullable=False, server_default=text("1")),
    Column("reason", Text),
    Column("replaced_by", ARRAY(UUID)),
    _moment("occurred_at"),
    _moment("expires_at"),
    _moment("last_confirmed_at"),
    _moment("valid_from", nullable=False),
    _moment("valid_to"),
    _moment("created_at", nullable=False, server_default=func.now()),
    _moment("updated_at", nullable=False, server_default=func.now()),
    # People and models copy the end of an id better than 36 characters; equality on a plain column is leakproof.
    Column("short_id", Text, Computed("right(id::text, 8)", persisted=True), nullable=False),
    Column("person_id", Integer, server_default=THIS_PERSON),  # who stored it, in a space
)
# Only active memories must differ: what was forgotten can be told again.
Index("memories_active_content", memories.c.namespace_id, memories.c.content_hash, unique=True,
      postgresql_where=memories.c.status == text("'active'"))  # fmt: skip
Index("memories_by_idempotency_key", memories.c.namespace_id, memories.c.idempotency_key, unique=True,
      postgresql_where=memories.c.idempotency_key.is_not(None))  # fmt: skip
Index("memories_by_short_id", memories.c.namespace_id, memories.c.short_id)
Index("memories_by_time", memories.c.namespace_id, memories.c.created_at)
# A memory without a time of its own counts from when it was stored. See filters.OCCURRED.
Index(
    "memories_by_occurrence",
    memories.c.namespace_id,
    text("(CASE WHEN occurred_at IS NULL THEN created_at ELSE occurred_at END)"),
)
Index("memories_hidden", memories.c.namespace_id, memories.c.status, memories.c.expires_at, memories.c.id,
      postgresql_where=text("status <> 'active' OR expires_at IS NOT NULL"))  # fmt: skip
for _column in ("collection", "project", "user"):
    Index(f"memories_by_{_column}", memories.c.namespace_id, memories.c[_column], memories.c.id,
          postgresql_where=memories.c[_column].is_not(None))  # fmt: skip
Index("memories_by_session", memories.c.namespace_id, memories.c.session_id, memories.c.session_sequence)

episodic_memories = _of_memory(
    "episodic_memories",
    Column("action_taken", JSONB),
    Column("context", JSONB),
    Column("result", JSONB),
    Column(
        "emotional_valence", Double, _between("emotional_valence", -1, 1), nullable=False, server_default=text("0.0")
    ),
    Column("verification_status", Boolean),
    _moment("event_time", nullable=False, server_default=func.now()),
)
semantic_memories = _of_memory(
    "semantic_memories",
    Column("category", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")),
    Column("related_concepts", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")),
    Column("source_references", JSONB),
    Column("contradictions", JSONB),
    _moment("last_validated"),
)
procedural_memories = _of_memory(
    "procedural_memories",
    Column("steps", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("prerequisites", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("success_count", Integer, CheckConstraint("success_count >= 0", name="success_count"), nullable=False,
           server_default=text("0")),
    Column("total_attempts", Integer, CheckConstraint("total_attempts >= success_count", name="total_attempts"),
           nullable=False, server_default=text("0")),
    Column("success_rate", Double, Computed(
        "CASE WHEN total_attempts > 0 THEN success_count::double precision / total_attempts ELSE 0.0 END",
        persisted=True)),
    Column("failure_points", JSONB),
    Column("average_duration", INTERVAL),
)  # fmt: skip
strategic_memories = _of_memory(
    "strategic_memories",
    Column("pattern_description", Text),  # empty: the memory's content is the description
    Column("supporting_evidence", JSONB),
    Column("success_metrics", JSONB),
    Column("adaptation_history", JSONB),
    Column("context_applicability", JSONB),
)

# Working memories are memories of status 'working' that expire; those worth keeping become active instead of being
# removed.
working_memories = _of_memory(
    "working_memories",
    Column("promote", Boolean, nullable=False, server_default=text("false")),
    Column("context", JSONB),
)

# ln(importance) + rate·days is a line in log space: live relevance at any moment t is exp(anchor − rate·t), so within
# one rate the order never changes and a B-tree holds it for ever. `reinforcement` is the log of the summed,
# forward-decayed uses (Cormode et al., "Forward decay", ICDE 2009). Days count from a fixed origin near the present to
# keep them small.
EPOCH_DAYS: Final = 20_000  # 2024-10-04 UTC, in days since 1970
SMALLEST_EXP: Final = -700  # exp() of less raises underflow in PostgreSQL
_LINE = (
    f"CASE WHEN importance > 0 THEN ln(importance) + rate_per_day * "
    f"(extract(epoch FROM started_at AT TIME ZONE 'UTC')::double precision / 86400 - {EPOCH_DAYS}) "
    f"ELSE '-Infinity'::double precision END"
)
_ANCHOR = (
    f"CASE WHEN reinforcement IS NULL THEN {_LINE} WHEN importance = 0 THEN reinforcement "
    f"ELSE greatest({_LINE}, reinforcement) "
    f"+ ln(1 + exp(greatest(-abs(({_LINE}) - reinforcement), {SMALLEST_EXP}))) END"
)
memory_activation = _of_memory(
    "memory_activation",
    Column("importance", Double, _between("importance", 0, 1), nullable=False),
    Column("rate_per_day", Double, ForeignKey("decay_classes.rate_per_day"), nullable=False),
    _moment("started_at", nullable=False),
    _moment("last_accessed_at"),
    Column("access_count", Integer, nullable=False, server_default=text("0")),
    Column("reinforcement", Double),
    # The last uses, newest first, each with its weight; only a picture needs them, as the sum above holds all.
    Column("used_at", ARRAY(DateTime(timezone=True))),
    Column("use_weights", ARRAY(REAL)),
    CheckConstraint("coalesce(cardinality(used_at), 0) = coalesce(cardinality(use_weights), 0)", name="uses"),
    Column("relevance_anchor", Double, Computed(_ANCHOR, persisted=True), nullable=False),
)
Index("memory_activation_rank", memory_activation.c.namespace_id, memory_activation.c.rate_per_day,
      memory_activation.c.relevance_anchor.desc(), memory_activation.c.memory_id)  # fmt: skip

memory_vectors = _of_memory(
    "memory_vectors",
    Column("model_id", SmallInteger, ForeignKey("embedding_models.id"), primary_key=True),
    Column("part", SmallInteger, primary_key=True),
    Column("embedding", HalfVector, nullable=False),
)

# The words of a memory are its own list until a background job compacts those of many into lists by word. Each is found
# by equality, because that is leakproof: subject to row-level security a GIN index would be ignored.
memory_words = _of_memory(
    "memory_words",
    Column("terms", ARRAY(Integer), nullable=False),
    Column("counts", ARRAY(SmallInteger), nullable=False),
    Column("length", Integer, nullable=False),
    # Of the posting lists that hold its terms; none while it waits, 0 when no search finds it.
    Column("segment", Integer),
)
# Each holds no more than it is asked for, so that no plan reads all words of a namespace to find the few that wait.
Index("memory_words_waiting", memory_words.c.namespace_id, memory_words.c.memory_id,
      postgresql_where=memory_words.c.segment.is_(None))  # fmt: skip
Index("memory_words_by_segment", memory_words.c.namespace_id, memory_words.c.segment,
      postgresql_where=memory_words.c.segment > 0)  # fmt: skip
memory_posting_lists = Table(
    "memory_posting_lists",
    metadata,
    Column("namespace_id", Integer, primary_key=True),
    Column("term", Integer, primary_key=True, autoincrement=False),
    Column("segment", Integer, primary_key=True, autoincrement=False),
    Column("memory_ids", ARRAY(UUID), nullable=False),
    Column("measures", ARRAY(Integer), nullable=False),  # count << 16 | length, one for each memory
)
memory_tags = _of_memory(
    "memory_tags", Column("tag", Text, primary_key=True), Column("position", SmallInteger, nullable=False)
)
Index("memory_tags_by_tag", memory_tags.c.namespace_id, memory_tags.c.tag, memory_tags.c.memory_id)

# No foreign key: history outlives a memory that is erased (its texts do not).
memory_history = Table(
    "memory_history",
    metadata,
    Column("namespace_id", Integer, primary_key=True),
    Column("memory_id", UUID, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("operation", Text, nullable=False),
    # Whoever calls is a setting of the transaction, so that no statement can leave it out.
    Column("actor", Text, server_default=text("nullif(current_setting('pgengram.actor', true), '')")),
    Column("session_id", Text),
    Column("changes", JSONB),
    _moment("at", nullable=False, server_default=func.now()),
    Column("person_id", Integer, server_default=THIS_PERSON),
)

memory_tag_synonyms = Table(
    "memory_tag_synonyms",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("alias", Text, primary_key=True),
    Column("tag", Text, nullable=False),
)

# What was shown and waits for a yes: only the token's hash is kept, and it is used once.
memory_confirmations = Table(
    "memory_confirmations",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("token_hash", LargeBinary, primary_key=True),
    Column("action", Text, nullable=False),
    Column("arguments", JSONB, nullable=False),
    _moment("created_at", nullable=False, server_default=func.now()),
    _moment("expires_at", nullable=False),
)


def _points_at(column: str, table: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["namespace_id", column], [f"{table}.namespace_id", f"{table}.id"], ondelete="CASCADE")


memory_relationships = Table(
    "memory_relationships",
    metadata,
    Column("namespace_id", Integer, primary_key=True),
    Column("from_id", UUID, primary_key=True),
    Column("to_id", UUID, primary_key=True),
    Column("type", Text, CheckConstraint(f"length(type) >= 1 AND length(type) <= {f.MAX_TAG}", name="type"),
           primary_key=True),
    Column("strength", Double, _between("strength", 0, 1), nullable=False, server_default=text("1.0")),
    Column("properties", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    _moment("created_at", nullable=False, server_default=func.now()),
    _moment("updated_at", nullable=False, server_default=func.now()),
    CheckConstraint("from_id <> to_id", name="two_ends"),
    _points_at("from_id", "memories"),
    _points_at("to_id", "memories"),
)  # fmt: skip
Index("memory_relationships_to", memory_relationships.c.namespace_id, memory_relationships.c.to_id,
      memory_relationships.c.type)  # fmt: skip

memory_clusters = Table(
    "memory_clusters",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("id", UUID, primary_key=True),
    Column("type", Text, _one_of("type", f.CLUSTER_TYPES), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("keywords", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")),
    Column("emotional_signature", JSONB),
    Column("importance", Double, _between("importance", 0, 1), nullable=False, server_default=text("0.5")),
    Column("activation_count", Integer, nullable=False, server_default=text("0")),
    _moment("last_activated_at"),
    Column("model_id", SmallInteger, ForeignKey("embedding_models.id")),
    Column("centroid", HalfVector),  # none while there is no member with a vector
    _moment("created_at", nullable=False, server_default=func.now()),
    _moment("updated_at", nullable=False, server_default=func.now()),
)
memory_cluster_members = Table(
    "memory_cluster_members",
    metadata,
    Column("namespace_id", Integer, primary_key=True),
    Column("cluster_id", UUID, primary_key=True),
    Column("memory_id", UUID, primary_key=True),
    Column("strength", Double, _between("strength", 0, 1), nullable=False, server_default=text("1.0")),
    Column("automatic", Boolean, nullable=False, server_default=text("false")),
    _moment("added_at", nullable=False, server_default=func.now()),
    _points_at("cluster_id", "memory_clusters"),
    _points_at("memory_id", "memories"),
)
Index("memory_cluster_members_by_memory", memory_cluster_members.c.namespace_id, memory_cluster_members.c.memory_id)
memory_cluster_activations = Table(
    "memory_cluster_activations",
    metadata,
    Column("namespace_id", Integer, primary_key=True),
    Column("cluster_id", UUID, primary_key=True),
    Column("id", UUID, primary_key=True),
    Column("context", Text),
    Column("strength", Double, _between("strength", 0, 1), nullable=False, server_default=text("1.0")),
    Column("session_id", Text),
    _moment("at", nullable=False, server_default=func.now()),
    _points_at("cluster_id", "memory_clusters"),
)
Index("memory_cluster_activations_by_time", memory_cluster_activations.c.namespace_id, memory_cluster_activations.c.at)

# Who the assistant is to this namespace; every recording is kept, the newest one holds.
memory_identities = Table(
    "memory_identities",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("id", UUID, primary_key=True),
    Column("self_concept", JSONB),
    Column("agency_beliefs", JSONB),
    Column("purpose_framework", JSONB),
    Column("group_identifications", JSONB),
    Column("boundary_definitions", JSONB),
    Column("emotional_baseline", JSONB),
    Column("threat_sensitivity", Double, _between("threat_sensitivity", 0, 1)),
    Column("change_resistance", Double, _between("change_resistance", 0, 1)),
    Column("session_id", Text),
    _moment("created_at", nullable=False, server_default=func.now()),
)
memory_beliefs = Table(
    "memory_beliefs",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("id", UUID, primary_key=True),
    Column("category", Text, nullable=False),
    Column("belief", Text, nullable=False),
    Column("belief_hash", LargeBinary, nullable=False),
    Column("confidence", Double, _between("confidence", 0, 1), nullable=False, server_default=text("0.8")),
    Column("stability", Double, _between("stability", 0, 1), nullable=False, server_default=text("0.5")),
    Column("emotional_valence", Double, _between("emotional_valence", -1, 1), nullable=False,
           server_default=text("0.0")),
    Column("details", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("version", Integer, nullable=False, server_default=text("1")),
    _moment("created_at", nullable=False, server_default=func.now()),
    _moment("updated_at", nullable=False, server_default=func.now()),
    UniqueConstraint("namespace_id", "belief_hash"),
)  # fmt: skip
memory_belief_evidence = Table(
    "memory_belief_evidence",
    metadata,
    Column("namespace_id", Integer, primary_key=True),
    Column("belief_id", UUID, primary_key=True),
    Column("memory_id", UUID, primary_key=True),
    Column("supports", Boolean, nullable=False, server_default=text("true")),
    _moment("added_at", nullable=False, server_default=func.now()),
    _points_at("belief_id", "memory_beliefs"),
    _points_at("memory_id", "memories"),
)
Index("memory_belief_evidence_by_memory", memory_belief_evidence.c.namespace_id, memory_belief_evidence.c.memory_id)

# A conversation with a client, and how far it was read; that stays when its turns are erased, so that they don't come
# again with the next event.
conversations = Table(
    "conversations",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("client", Text, primary_key=True),
    Column("conversation", Text, primary_key=True),
    Column("project", Text),
    Column("transcript", Text),  # the client's own file
    Column("read_to", Integer, nullable=False, server_default=text("-1")),  # the number of the last turn
    _moment("at", nullable=False, server_default=func.now()),
    Column("title", Text),
    Column("imported", Boolean, nullable=False, server_default=text("false")),  # kept until it is erased
    Column("forked_from", Text),  # the conversation that it begins with a copy of
    _moment("as_of"),  # the newest state that its source told
    _moment("kept_from"),  # what hooks find that was said before was erased, or off the record
    _moment("began_at"),  # a turn that several conversations have is in the one that began first
)
Index("conversations_by_time", conversations.c.namespace_id, conversations.c.at)

# What was said, word for word, apart from the memories: no search among these shows it. The number is a turn's place in
# its conversation as the client counts, so that a turn that comes twice is stored once.
conversation_turns = Table(
    "conversation_turns",
    metadata,
    Column("namespace_id", Integer, primary_key=True),
    Column("client", Text, primary_key=True),
    Column("conversation", Text, primary_key=True),
    Column("number", Integer, nullable=False),  # its place; two machines may have said something in the same
    Column("role", Text, _one_of("role", f.ROLES), nullable=False),
    Column("text", Text, nullable=False),
    Column("project", Text),
    _moment("time", nullable=False),
    Column("terms", ARRAY(Integer), Computed("pgengram_turn_terms(text)", persisted=True)),
    Column("source_key", BigInteger),  # a hash of how its source calls it; see store/turn_arrivals.py
    _moment("as_of"),  # the newest state of the conversation that has it
    Column("copy_of", BigInteger),  # the key of the turn of another conversation that it is a copy of
    # What tells it from all others for ever, on each machine; see store/turn_arrivals.py.
    Column(
        "id",
        BigInteger,
        primary_key=True,
        autoincrement=False,
        server_default=text("(hashtextextended(gen_random_uuid()::text, 0) & 9223372036854775807)"),
    ),
    ForeignKeyConstraint(
        ["namespace_id", "client", "conversation"],
        ["conversations.namespace_id", "conversations.client", "conversations.conversation"],
        ondelete="CASCADE",
    ),
)
Index("conversation_turns_by_time", conversation_turns.c.namespace_id, conversation_turns.c.time)
Index("conversation_turns_by_source", conversation_turns.c.namespace_id, conversation_turns.c.client,
      conversation_turns.c.source_key)  # fmt: skip

# What a conversation has of turns that are not stored there: those that were taken back, and copies of turns that are
# stored in a conversation that began earlier.
hidden_turns = Table(
    "hidden_turns",
    metadata,
    Column("namespace_id", Integer, primary_key=True),
    Column("client", Text, primary_key=True),
    Column("conversation", Text, primary_key=True),
    Column("source_key", BigInteger, primary_key=True, autoincrement=False),
    Column("withdrawn", Boolean, primary_key=True),
    Column("digest", Text, primary_key=True),  # the MD5 of its text
    Column("role", Text, _one_of("role", f.ROLES), nullable=False),
    Column("number", Integer, nullable=False),
    _moment("time", nullable=False),
    _moment("as_of"),
    Column("copy_of", BigInteger),
    ForeignKeyConstraint(
        ["namespace_id", "client", "conversation"],
        ["conversations.namespace_id", "conversations.client", "conversations.conversation"],
        ondelete="CASCADE",
    ),
)
Index("hidden_turns_by_source", hidden_turns.c.namespace_id, hidden_turns.c.client, hidden_turns.c.source_key)

# Whether conversations are kept, and how long; a namespace without a row keeps them as long as by default.
conversation_settings = Table(
    "conversation_settings",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("keeps", Boolean, nullable=False, server_default=text("true")),
    Column("keep_days", Integer, CheckConstraint(f"keep_days >= 1 AND keep_days <= {f.MAX_KEEP_DAYS}", name="keep_days"),
           nullable=False, server_default=text(str(f.KEEP_DAYS))),
)  # fmt: skip

# What was put before a model unasked: one row for each memory and conversation, so that no version of one comes twice.
recall_receipts = _of_memory(
    "recall_receipts",
    Column("client", Text, primary_key=True),
    Column("conversation", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("event", Text, nullable=False),
    Column("project", Text),
    Column("score", REAL),
    Column("evidence", Text),
    Column("tokens", Integer, nullable=False),
    Column("milliseconds", Integer, nullable=False),
    _moment("at", nullable=False, server_default=func.now()),
)
Index("recall_receipts_by_conversation", recall_receipts.c.namespace_id, recall_receipts.c.client,
      recall_receipts.c.conversation, recall_receipts.c.at)  # fmt: skip

# Which files were imported, and what each stored, so that an import can be undone.
memory_imports = Table(
    "memory_imports",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("id", UUID, primary_key=True),
    Column("name", Text, nullable=False),
    Column("system", Text, nullable=False),
    Column("actor", Text),
    Column("others", JSONB, nullable=False, server_default=text("'{}'::jsonb")),  # an undo leaves them
    _moment("began_at", nullable=False, server_default=func.now()),
    _moment("ended_at", nullable=False, server_default=func.now()),
    _moment("undone_at"),
)


def _of_import() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["namespace_id", "import_id"], ["memory_imports.namespace_id", "memory_imports.id"], ondelete="CASCADE"
    )


imported_memories = _of_memory(
    "imported_memories",
    Column("import_id", UUID, primary_key=True),
    Column("version", Integer, nullable=False),
    _moment("at", nullable=False),
    _moment("before_undo"),  # its `updated_at` then; none while the undo has not forgotten it
    _of_import(),
)
Index("imported_memories_by_import", imported_memories.c.namespace_id, imported_memories.c.import_id)
imported_turns = Table(
    "imported_turns",
    metadata,
    Column("namespace_id", Integer, primary_key=True),
    Column("import_id", UUID, primary_key=True),
    Column("client", Text, primary_key=True),
    Column("conversation", Text, primary_key=True),
    Column("turn_ids", ARRAY(BigInteger), nullable=False),  # none where it has only copies of turns of another
    _of_import(),
)

# What a person has copied from here into a space, in the version that was shown; the copy does not know of it.
shared_copies = _of_memory(
    "shared_copies",
    Column("space_id", Integer, primary_key=True, autoincrement=False),
    Column("copy_id", UUID, nullable=False),
    _moment("at", nullable=False, server_default=func.now()),
)
# The projects whose conversations a person keeps in a space, and takes what it knows from there.
project_spaces = Table(
    "project_spaces",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("project", Text, primary_key=True),
    Column("space_id", Integer, nullable=False),
    _moment("at", nullable=False, server_default=func.now()),
)

# How a namespace is exchanged with other machines: its key, the folder, and who this machine is there.
sync_settings = Table(
    "sync_settings",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("secret", LargeBinary, nullable=False),
    Column("folder", Text, nullable=False),
    Column("token", Text),  # that lets this machine into a server
    Column("device", Text, nullable=False),
    Column("device_name", Text, nullable=False),
    Column("writers", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")),
    _moment("since", nullable=False, server_default=func.now()),
    Column("problem", Text),  # why the last exchange failed
    _moment("exchanged_at"),
)
# What was changed and is not yet in a file; written by triggers in the transaction that changed it.
sync_changes = Table(
    "sync_changes",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    _moment("at", nullable=False),
    Column("uses", Boolean, nullable=False),  # it was only found or used
)
# What is known of each memory, link or other row: which machine wrote what, and what the machines disagree about.
sync_documents = Table(
    "sync_documents",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("state", JSONB, nullable=False),
    Column("disputed", Boolean, nullable=False, server_default=text("false")),
    Column("waits", Boolean, nullable=False, server_default=text("false")),  # for what it leads to
)
for _flag, _name in (("disputed", "disputed"), ("waits", "waiting")):
    Index(f"sync_documents_{_name}", sync_documents.c.namespace_id, sync_documents.c.kind, sync_documents.c.key,
          postgresql_where=sync_documents.c[_flag])  # fmt: skip
# The files of all machines that were read or written, each with what tells whether it is another since.
sync_files = Table(
    "sync_files",
    metadata,
    Column("namespace_id", Integer, ForeignKey("namespaces.id"), primary_key=True),
    Column("device", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("mark", Text, nullable=False),
    Column("written", Boolean, nullable=False, server_default=text("false")),
    Column("problem", Text),
)

OWNED: Final = tuple(table for table in metadata.sorted_tables if "namespace_id" in table.c)
LOOKUPS: Final = (decay_classes, embedding_models)
VIEWS: Final = ("memories_now",)
OTHERS: Final = (
    access_events, access_tokens, client_rates, deletion_log, namespaces, oauth_grants, oauth_requests, pairing_codes,
    passkeys, person_notices, persons, server_keys, space_members, spaces,
)  # fmt: skip # the login's alone

TERMS_FUNCTION: Final = """
CREATE FUNCTION pgengram_terms(body text, extra text[]) RETURNS TABLE(term integer, count smallint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  -- A term is the first 32 bits of the MD5 of its stem: the same for ever, on every machine and version.
  SELECT ('x' || left(md5(word), 8))::bit(32)::integer, least(sum(times), 32767)::smallint
  FROM (SELECT lexeme, cardinality(positions) FROM unnest(to_tsvector('pg_catalog.english'::regconfig, body))
        UNION ALL SELECT e, 1 FROM unnest(extra) AS e) AS words(word, times)
  GROUP BY 1
$$
"""
# Scripts without spaces, of which two characters at a time are a term.
_UNSPACED = r"\u0E00-\u0EFF\u1000-\u109F\u1780-\u17D3\u3040-\u30FF\u3400-\u9FFF\uAC00-\uD7AF"
# Calls nothing of ours: a dump that is restored fills the column before it knows where our functions are.
TURN_TERMS_FUNCTION: Final = rf"""
CREATE FUNCTION pgengram_turn_terms(body text) RETURNS integer[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  -- What a turn is found by: the first 32 bits of the MD5 of each stem of its first 50,000 characters.
  SELECT coalesce(array_agg(DISTINCT ('x' || left(md5(word), 8))::bit(32)::integer), '{{}}')
  FROM (
    SELECT unnest(tsvector_to_array(to_tsvector('pg_catalog.english'::regconfig,
      regexp_replace(left(body, 50000), '[{_UNSPACED}]+', ' ', 'g'))))
    UNION ALL
    SELECT first || second
    FROM (SELECT c AS first, lead(c, 1, '') OVER (ORDER BY n) AS second
          FROM unnest(string_to_array(left(body, 50000), NULL)) WITH ORDINALITY AS t(c, n)
          WHERE body ~ '[{_UNSPACED}]') AS pairs
    WHERE first || second ~ '^[{_UNSPACED}]{{2}}$') AS found(word)
$$
"""
_DAYS = f"(date_part('epoch', at AT TIME ZONE 'UTC') / 86400 - {EPOCH_DAYS})"
RELEVANCE_FUNCTION: Final = f"""
CREATE FUNCTION pgengram_relevance(anchor double precision, rate_per_day double precision, at timestamptz)
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  -- exp(anchor - rate * days), 0 where that would underflow; above 1 only the answer is cut, the order stays. One
  -- expression without FROM, so that PostgreSQL writes it into the statement that asks: a tenth of the cost of a call.
  SELECT CASE WHEN anchor - rate_per_day * {_DAYS} < {SMALLEST_EXP} THEN 0.0
    ELSE least(1.0, exp(anchor - rate_per_day * {_DAYS})) END
$$
"""


# Searches go by words and vectors that are made of a text. Whoever changes it by a tool makes a new version.
KEEP_TEXT_FUNCTION: Final = """
CREATE FUNCTION pgengram_keep_text() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  RAISE EXCEPTION 'The text of a memory is not changed by UPDATE: searches would go on finding the old one.'
    USING ERRCODE = 'restrict_violation',
      HINT = format('pgengram call update_memory id=%s content=…', right(OLD.id::text, 8));
END
$$
"""
# Tables that are spread over machines have no triggers, and a view of them would have to be dealt out first.
_DETAILS: Final = "".join(
    f"""
    {"ELSE" if type_ == f.TYPES[-1] else f"WHEN '{type_}' THEN"} (SELECT to_jsonb(d) - 'namespace_id' - 'memory_id'
      FROM {type_}_memories d WHERE d.namespace_id = m.namespace_id AND d.memory_id = m.id)"""
    for type_ in f.TYPES
)
FOR_PEOPLE: Final = f"""
DO $do$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
CREATE TRIGGER pgengram_keeps_text BEFORE UPDATE OF content ON memories FOR EACH ROW
  WHEN (OLD.content IS DISTINCT FROM NEW.content AND OLD.version = NEW.version) EXECUTE FUNCTION pgengram_keep_text();
CREATE VIEW memories_now WITH (security_invoker = true) AS
SELECT m.id, m.short_id, m.type, m.kind, m.content,
  pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance, a.importance,
  ARRAY(SELECT t.tag FROM memory_tags t WHERE t.namespace_id = m.namespace_id AND t.memory_id = m.id ORDER BY t.position) AS tags,
  m.project, m.collection, m."user", m.speaker, m.source, m.session_id, m.confidence, m.emotion, m.pinned,
  CASE m.type{_DETAILS} END AS detail,
  m.metadata, m.occurred_at, m.created_at, m.updated_at, m.expires_at, a.last_accessed_at, a.access_count, m.version,
  m.namespace_id
FROM memories m JOIN memory_activation a ON a.namespace_id = m.namespace_id AND a.memory_id = m.id
WHERE m.status = 'active' AND (m.expires_at IS NULL OR m.expires_at > now());
  END IF;
END $do$
"""

# Where the extension is, nobody needs the right to make it; with IF NOT EXISTS, Citus would ask for that all the same.
EXTENSION: Final = """DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') THEN CREATE EXTENSION vector; END IF;
END $$"""


def setup_statements() -> list[str]:
    """Return what the tables cannot say: functions, row-level security for each namespace, and rights."""
    rates = sorted({*f.RATE_PER_DAY_OF_KIND.values(), *f.RATE_PER_DAY_OF_TYPE.values(), f.PINNED_RATE_PER_DAY})
    return [
        TERMS_FUNCTION,
        RELEVANCE_FUNCTION,
        f"INSERT INTO decay_classes VALUES {', '.join(f'({rate})' for rate in rates)}",
        "ALTER TABLE memory_vectors ALTER COLUMN embedding SET STORAGE PLAIN",
        "ALTER TABLE memory_vectors ALTER COLUMN embedding SET STATISTICS 0",  # nobody asks how they are spread
        *rights.MEMBERSHIP,
        *(statement for table in OWNED for statement in rights.row_level_security(table.name)),
        rights.closed(*_names(LOOKUPS, OTHERS)),
        KEEP_TEXT_FUNCTION,
        FOR_PEOPLE,
        *rights_statements(),
    ]


def rights_statements() -> list[str]:
    """Return what makes the rights on all of this what they must be; it can run again at any time."""
    owned, lookups, others = _names(OWNED, LOOKUPS, OTHERS)
    return rights.statements(owned, lookups, others, list(VIEWS))


def _names(*groups: tuple[Table, ...]) -> list[list[str]]:
    return [[table.name for table in group] for group in groups]


@event.listens_for(metadata, "before_create")
def _extension(_: MetaData, connection: Any, **__: Any) -> None:
    connection.exec_driver_sql(EXTENSION)
    connection.exec_driver_sql(TURN_TERMS_FUNCTION)  # a column is made of it


@event.listens_for(metadata, "after_create")
def _setup(_: MetaData, connection: Any, **__: Any) -> None:
    for statement in setup_statements():
        connection.exec_driver_sql(statement.replace("%", "%%"))
