"""What a search gives: the memories with all that is shown of them, and how many are hidden."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from pgengram.fields import Evidence
from pgengram.search.results.evidence import level
from pgengram.store.connection.database import Row
from pgengram.store.schema.visibility import HIDDEN

HIT_COLUMNS: Final = """
  m.id, m.type, m.kind, m.status, m.content, m.metadata, m.speaker, m."user", m.project, m.collection, m.session_id, m.source,
  m.source_provider, m.capture_mode, m.emotion, m.confidence, m.sources, m.occurred_at, m.created_at, m.updated_at, m.last_confirmed_at,
  m.expires_at, m.valid_from, m.valid_to, m.reason, m.replaced_by, m.pinned, m.version, m.traits, a.importance, a.access_count,
  pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance,
  ARRAY(SELECT tag FROM memory_tags t WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = m.id ORDER BY position, tag) AS tags
"""
# How many memories a search does not show, by reason. Uses memories_hidden.
COUNT_HIDDEN: Final = f"""
SELECT jsonb_strip_nulls(jsonb_build_object('expired', nullif(count(*) FILTER (WHERE status = 'active'), 0),
  'archived', nullif(count(*) FILTER (WHERE status = 'archived'), 0),
  'forgotten', nullif(count(*) FILTER (WHERE status = 'invalidated'), 0))) AS hidden
FROM memories WHERE namespace_id = %(namespace_id)s AND {HIDDEN}
"""


class Hits(NamedTuple):
    """Memories in their order, how they were found, and how many are hidden, by reason; reasons without any are left
    out.

    answered: the probability that one of them answers; None where nothing was asked.
    """

    rows: list[Row]
    how: Literal["list", "exact", "approximate", "words"]
    hidden: dict[str, int]
    answered: float | None = None

    @property
    def evidence(self) -> Evidence | None:
        """How sure it is that one of them answers."""
        return None if self.answered is None else level(self.answered)
