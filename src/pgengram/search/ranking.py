"""Ranking: candidates by meaning and by words, each scored by both, in one statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pgengram.inputs import Filters
from pgengram.search.filters import narrowing, visible
from pgengram.search.question import Asked
from pgengram.store.database import Row, Transaction

WEIGHT_MEANING: Final = (
    0.6  # cosine; chosen on half of LoCoMo, where scores fused this way beat fused ranks by 4 to 9 points
)
WEIGHT_WORDS: Final = 0.4  # words as a share of the best candidate's
CANDIDATES: Final = 100  # of each arm; more changed no answer on LoCoMo
EXACT_ROWS: Final = 3_000  # a filter that leaves fewer is searched exactly: cheaper than an index, and complete
PROBES: Final = 20  # lists visited of an ivfflat index: recall .985 at sqrt(n) lists
BM25_K1: Final = 0.9  # saturation of repeated words; short texts want little of it
BM25_B: Final = 0.4  # how much longer memories are discounted

HIT_COLUMNS: Final = """
  m.id, m.type, m.kind, m.status, m.content, m.metadata, m.speaker, m."user", m.project, m.collection, m.session_id, m.source,
  m.source_provider, m.capture_mode, m.emotion, m.confidence, m.occurred_at, m.created_at, m.updated_at, m.last_confirmed_at,
  m.expires_at, m.valid_from, m.valid_to, m.reason, m.replaced_by, m.pinned, m.version, a.importance, a.access_count,
  pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance,
  ARRAY(SELECT tag FROM memory_tags t WHERE t.namespace_id = m.namespace_id AND t.memory_id = m.id ORDER BY position, tag) AS tags
"""
WITH_ACTIVATION: Final = "JOIN memory_activation a ON a.namespace_id = m.namespace_id AND a.memory_id = m.id"


@dataclass(slots=True)
class Model:
    """The embedding model of a question: its key, its length and whether its index is there."""

    id: int
    dimensions: int
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """Which memories a question ranges over: conditions on `memories m` and `memory_activation a`, and their parameters.

    narrowed: the caller set conditions, or asks for memories that are not active; exact: each one is looked at.
    """

    conditions: str
    narrowed: bool
    exact: bool
    parameters: dict[str, Any]


# Uses memories_by_time or memories_hidden; stops counting where the answer no longer matters.
COUNT_MATCHES: Final = """
SELECT count(*) AS matches FROM (
  SELECT FROM memories m {activation} WHERE m.namespace_id = %(namespace_id)s AND {conditions} LIMIT {limit}) AS enough
"""
# Uses memory_vectors_pkey; stops counting where the answer no longer matters.
COUNT_VECTORS: Final = """
SELECT count(*) AS matches FROM (
  SELECT FROM memory_vectors WHERE namespace_id = %(namespace_id)s AND model_id = %(model_id)s LIMIT {limit}) AS enough
"""


async def scope_of(tx: Transaction, filters: Filters, model: Model | None) -> Scope:
    """Decide whether few enough memories are left to compare the question with each."""
    base, parameters = visible(filters)
    extra, more = narrowing(filters)
    conditions = " AND ".join([base, *extra])
    narrowed = bool(extra) or filters.status != "active"
    exact = True
    if model is not None and model.indexed:
        statement = (
            COUNT_MATCHES.format(activation=WITH_ACTIVATION, conditions=conditions, limit=EXACT_ROWS + 1)
            if narrowed
            else COUNT_VECTORS.format(limit=EXACT_ROWS + 1)
        )
        counted = await tx.row(statement, {**parameters, **more, "model_id": model.id})
        exact = counted is None or counted["matches"] <= EXACT_ROWS
    return Scope(conditions, narrowed, exact, parameters | more)


# The statement is written so that it has one good plan whatever the planner believes about tables that have just been
# filled: sets are materialised once and looked up by hash, tables are reached from them by their keys.

# Few memories are hidden, so everything else is told by their absence. Uses memories_hidden.
HIDDEN: Final = """hidden AS MATERIALIZED (
  SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND (status <> 'active' OR expires_at IS NOT NULL)
    AND (status <> 'active' OR expires_at <= now()))"""
ALLOWED: Final = """allowed AS MATERIALIZED (
  SELECT m.id FROM memories m {activation} WHERE m.namespace_id = %(namespace_id)s AND {conditions})"""


def in_scope(scope: Scope, memory_id: str) -> str:
    """Return the condition that a memory counts; a CASE keeps the planner from turning the look-up into a join."""
    if scope.narrowed:
        return f"CASE WHEN {memory_id} IN (SELECT id FROM allowed) THEN true END"
    return f"{memory_id} NOT IN (SELECT id FROM hidden)"


def by_meaning(model: Model, scope: Scope) -> str:
    """Nearest vectors first, each memory by its best part.

    Exact: every vector of the scope (memory_vectors_pkey). Otherwise the ivfflat index of the model, whose number must
    stand in the text for the partial index to be chosen.
    """
    mine = f"v.namespace_id = %(namespace_id)s AND v.model_id = {model.id}"
    if scope.exact:
        source = (
            f"""FROM allowed CROSS JOIN LATERAL (
        SELECT v.memory_id, v.embedding FROM memory_vectors v WHERE {mine} AND v.memory_id = allowed.id OFFSET 0) AS v"""
            if scope.narrowed
            else f"FROM memory_vectors v WHERE {mine} AND {in_scope(scope, 'v.memory_id')}"
        )
        return f"""SELECT v.memory_id, 1 - min(v.embedding <=> %(vector)s::halfvec) AS similarity {source}
      GROUP BY v.memory_id ORDER BY similarity DESC, v.memory_id LIMIT {CANDIDATES}"""
    distance = f"(v.embedding::halfvec({model.dimensions})) <=> %(vector)s::halfvec({model.dimensions})"
    return f"""SELECT memory_id, 1 - min(distance) AS similarity
      FROM (SELECT v.memory_id, {distance} AS distance FROM memory_vectors v
            WHERE {mine} AND {in_scope(scope, "v.memory_id")} ORDER BY {distance} LIMIT {CANDIDATES}) AS nearest
      GROUP BY memory_id"""


def by_words(scope: Scope) -> str:
    """Every memory with one of the asked words, scored by BM25.

    Active memories have postings (memory_postings_pkey); among others each one in scope is looked at (memory_words_pkey).
    """
    if scope.parameters["status"] == "active":
        return f"""SELECT p.memory_id, sum(asked.weight * {bm25("p")}) AS words
      FROM asked CROSS JOIN LATERAL (SELECT p.memory_id, p.count, p.length FROM memory_postings p
        WHERE p.namespace_id = %(namespace_id)s AND p.term = asked.term OFFSET 0) AS p
      WHERE {in_scope(scope, "p.memory_id")} GROUP BY p.memory_id"""
    return f"""SELECT allowed.id AS memory_id, sum(asked.weight * {bm25("w")}) AS words
      FROM allowed CROSS JOIN LATERAL (SELECT t.term, t.count, w.length
        FROM memory_words w, unnest(w.terms, w.counts) AS t(term, count)
        WHERE w.namespace_id = %(namespace_id)s AND w.memory_id = allowed.id OFFSET 0) AS w
      JOIN asked ON asked.term = w.term GROUP BY allowed.id"""


def bm25(term: str) -> str:
    """Return BM25's share of one term (Robertson and Zaragoza 2009), without its inverse document frequency."""
    count = f"{term}.count::double precision"
    share = f"{term}.length / greatest(%(mean_length)s::double precision, 1)"
    saturation = (
        f"{BM25_K1}::double precision * ({1 - BM25_B}::double precision + {BM25_B}::double precision * {share})"
    )
    return f"({count} * {BM25_K1 + 1}::double precision / ({count} + {saturation}))"


NO_VECTORS: Final = "SELECT NULL::uuid AS memory_id, NULL::double precision AS similarity WHERE false"


def similarity_of(model: Model | None, memory_id: str) -> str:
    """Return the similarity of one memory by its key; nothing without a model. Uses memory_vectors_pkey."""
    if model is None:
        return "NULL::double precision"
    return f"""(SELECT 1 - min(v.embedding <=> %(vector)s::halfvec) FROM memory_vectors v
      WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = {memory_id} AND v.model_id = {model.id})"""


def statement(scope: Scope, model: Model | None) -> str:
    """Return the whole ranking: both arms, both scores for each candidate, fused; best first."""
    scope_set = ALLOWED.format(activation=WITH_ACTIVATION, conditions=scope.conditions) if scope.narrowed else HIDDEN
    return f"""
WITH {scope_set}, asked AS MATERIALIZED (
  SELECT * FROM unnest(%(terms)s::integer[], %(weights)s::double precision[]) AS a(term, weight)
), near AS MATERIALIZED (
  {by_meaning(model, scope) if model else NO_VECTORS}
), worded AS MATERIALIZED (
  {by_words(scope)}
), candidates AS MATERIALIZED (
  SELECT memory_id FROM near
  UNION (SELECT memory_id FROM worded ORDER BY words DESC, memory_id LIMIT {CANDIDATES})
), judged AS MATERIALIZED (
  SELECT c.memory_id, coalesce(near.similarity, {similarity_of(model, "c.memory_id")}) AS similarity,
    coalesce(worded.words, 0) AS words
  FROM candidates c LEFT JOIN near USING (memory_id) LEFT JOIN worded USING (memory_id)
), scored AS MATERIALIZED (
  SELECT *, {WEIGHT_MEANING} * coalesce(similarity, 0) + {WEIGHT_WORDS} * words_share AS score
  FROM (SELECT *, coalesce(words / nullif(max(words) OVER (), 0), 0) AS words_share FROM judged) AS shared
  WHERE coalesce(similarity, -2) >= %(min_similarity)s
  ORDER BY score DESC, memory_id DESC LIMIT %(limit)s OFFSET %(offset)s
)
SELECT {HIT_COLUMNS}, s.similarity, s.words, s.words_share, s.score
FROM scored s JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = s.memory_id {WITH_ACTIVATION}
ORDER BY s.score DESC, m.id DESC
"""


# Uses memories_by_time.
LIST: Final = f"""
SELECT {HIT_COLUMNS} FROM memories m {WITH_ACTIVATION}
WHERE m.namespace_id = %(namespace_id)s AND {{conditions}}
ORDER BY m.created_at DESC, m.id DESC LIMIT %(limit)s OFFSET %(offset)s
"""
SET_PROBES: Final = """
SELECT set_config('ivfflat.probes', %(probes)s, true), set_config('ivfflat.iterative_scan', 'relaxed_order', true)
"""


async def ranked(
    tx: Transaction, asked: Asked, filters: Filters, model: Model | None, vector: Any, *,
    min_similarity: float | None, limit: int, offset: int,
) -> tuple[list[Row], bool]:  # fmt: skip
    """Return the best hits, and whether every memory in scope was compared with the question."""
    scope = await scope_of(tx, filters, model)
    if not scope.exact:
        await tx.rows(SET_PROBES, {"probes": str(PROBES)})
    parameters = {
        **scope.parameters,
        "terms": asked.terms,
        "weights": asked.weights,
        "mean_length": asked.mean_length,
        "vector": vector,
        "min_similarity": -2.0 if min_similarity is None else min_similarity,
        "limit": limit,
        "offset": offset,
    }
    return await tx.rows(statement(scope, model), parameters), scope.exact


async def listed(tx: Transaction, filters: Filters, *, limit: int, offset: int) -> list[Row]:
    """Return the newest memories that pass the filters."""
    base, parameters = visible(filters)
    extra, more = narrowing(filters)
    conditions = " AND ".join([base, *extra])
    return await tx.rows(LIST.format(conditions=conditions), {**parameters, **more, "limit": limit, "offset": offset})
