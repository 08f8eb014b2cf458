"""A view of the memories as they are now, and no text that is changed behind the back of the search.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import run

revision = "0008"
down_revision = "0007"

# Tables that are spread over machines have no triggers, and a view of them would have to be dealt out first.
STATEMENTS = (
    """
CREATE FUNCTION pgengram_keep_text() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  RAISE EXCEPTION 'The text of a memory is not changed by UPDATE: searches would go on finding the old one.'
    USING ERRCODE = 'restrict_violation',
      HINT = format('pgengram call update_memory id=%s content=…', right(OLD.id::text, 8));
END
$$
    """,
    """
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
    """Make the trigger and the view."""
    for statement in STATEMENTS:
        run(statement)
