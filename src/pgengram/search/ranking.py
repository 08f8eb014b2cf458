"""Ranking: candidates by meaning and by words, each scored by both, in one statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pgengram.inputs import Filters
from pgengram.search.filters import narrowing, visible
from pgengram.search.question import Asked
from pgengram.store.database import Row, Transaction

WEIGHT_MEANING: Final = 0.6  # cosine; chosen on half of LoCoMo, where scores fused this way beat fused ranks by 4 to 9 points
WEIGHT_WORDS: Final = 0.4  # words as a share of the best candidate's
CANDIDATES: Final = 100  # of each arm; more changed no answer on LoCoMo
EXACT_ROWS: Final = 3_000  # a filter that leaves fewer is searched exactly: cheaper than an index, and complete
PROBES: Final = 20  # lists visited of an ivfflat index: recall .985 at sqrt(n) lists
BM25_K1: Final = 0.9  # saturation of repeated words; short texts want little of it
BM25_B: Final = 0.4  # how much longer memories are discounted

HIT_COLUMNS: Final = """
  m.id, m.type, m.kind, m.status, m.content, m.metadata, m.speaker, m."user", m.project, m.collection, m.session_id, m.source,
  m.emotion, m.confidence, m.occurred_at, m.created_at, m.updated_at, m.last_confirmed_at, m.expires_at, m.pinned, m.version,
  a.importance, pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance,
  ARRAY(SELECT tag FROM memory_tags t WHERE t.namespace_id = m.namespace_id AND t.memory_id = m.id ORDER BY position, tag) AS tags
"""
WITH_ACTIVATION: Final = "JOIN memory_activation a ON a.namespace_id = m.namespace_id AND a.memory_id = m.id"
JOIN_MEMORY: Final = f"JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = {{arm}}.memory_id {WITH_ACTIVATION}"


@dataclass(slots=True)
class Model:
    """The embedding model of a question: its key, its length and whether its index is there."""

    id: int
    dimensions: int
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """Which memories a question ranges over: SQL conditions, their parameters, and whether to look at each one."""

    conditions: str
    narrowed: bool
    exact: bool
    parameters: dict[str, Any]


# Uses memories_pkey; stops counting where the answer no longer matters.
COUNT_MATCHES: Final = """
SELECT count(*) AS matches FROM (
  SELECT FROM memories m {activation} WHERE m.namespace_id = %(namespace_id)s AND {conditions} LIMIT {limit}) AS some
"""
# Uses memory_vectors_pkey; stops counting where the answer no longer matters.
COUNT_VECTORS: Final = """
SELECT count(*) AS matches FROM (
  SELECT FROM memory_vectors WHERE namespace_id = %(namespace_id)s AND model_id = %(model_id)s LIMIT {limit}) AS some
"""


async def scope_of(tx: Transaction, filters: Filters, model: Model | None) -> Scope:
    """Decide whether few enough memories are left to compare the question with each."""
    base, parameters = visible(filters)
    extra, more = narrowing(filters)
    parameters |= more
    conditions = " AND ".join([base, *extra])
    exact = True
    if model is not None and model.indexed:
        statement = (
            COUNT_MATCHES.format(activation=WITH_ACTIVATION, conditions=conditions, limit=EXACT_ROWS + 1)
            if extra
            else COUNT_VECTORS.format(limit=EXACT_ROWS + 1)
        )
        counted = await tx.row(statement, {**parameters, "model_id": model.id})
        exact = counted is None or counted["matches"] <= EXACT_ROWS
    return Scope(conditions, bool(extra) or filters.status != "active", exact, parameters)


def by_meaning(model: Model, scope: Scope) -> str:
    """Nearest vectors first, each memory by its best part.

    Exact: every vector of the scope (memory_vectors_pkey). Otherwise the ivfflat index of the model, whose number must
    stand in the text for the partial index to be chosen.
    """
    source = f"""FROM memory_vectors v {JOIN_MEMORY.format(arm="v")}
      WHERE v.namespace_id = %(namespace_id)s AND v.model_id = {model.id} AND {scope.conditions}"""
    if scope.exact:
        return f"""SELECT v.memory_id, 1 - min(v.embedding <=> %(vector)s::halfvec) AS similarity {source}
      GROUP BY v.memory_id ORDER BY similarity DESC, v.memory_id LIMIT {CANDIDATES}"""
    distance = f"(v.embedding::halfvec({model.dimensions})) <=> %(vector)s::halfvec({model.dimensions})"
    return f"""SELECT memory_id, 1 - min(distance) AS similarity
      FROM (SELECT v.memory_id, {distance} AS distance {source} ORDER BY {distance} LIMIT {CANDIDATES}) AS nearest
      GROUP BY memory_id"""


def by_words(scope: Scope) -> str:
    """Memories with the most telling of the asked words first (BM25, any word counts); uses memory_postings_pkey."""
    memory = JOIN_MEMORY.format(arm="p")
    return f"""SELECT p.memory_id, sum(asked.weight * {bm25("p")}) AS words
      FROM asked JOIN memory_postings p ON p.namespace_id = %(namespace_id)s AND p.term = asked.term
      {memory} WHERE {scope.conditions}
      GROUP BY p.memory_id ORDER BY words DESC, p.memory_id LIMIT {CANDIDATES}"""


def by_words_of_hidden(scope: Scope) -> str:
    """The same for memories that are not active, which have no postings: every one of them is looked at."""
    memory = JOIN_MEMORY.format(arm="w")
    return f"""SELECT w.memory_id, sum(asked.weight * {bm25("t", "w")}) AS words
      FROM memory_words w {memory}, unnest(w.terms, w.counts) AS t(term, count) JOIN asked ON asked.term = t.term
      WHERE w.namespace_id = %(namespace_id)s AND {scope.conditions}
      GROUP BY w.memory_id ORDER BY words DESC, w.memory_id LIMIT {CANDIDATES}"""


def bm25(term: str, memory: str | None = None) -> str:
    """Return BM25's share of one term (Robertson and Zaragoza 2009), without its inverse document frequency."""
    length = f"{memory or term}.length"
    return f"""({term}.count * {BM25_K1 + 1}
        / ({term}.count + {BM25_K1} * ({1 - BM25_B} + {BM25_B} * {length} / greatest(%(mean_length)s, 1))))"""


NO_CANDIDATES: Final = "SELECT NULL::uuid AS memory_id, NULL::double precision AS {score} WHERE false"


def statement(scope: Scope, model: Model | None, *, hidden: bool) -> str:
    """Return the whole ranking: both arms, both scores for each candidate, fused; best first."""
    meaning = by_meaning(model, scope) if model else NO_CANDIDATES.format(score="similarity")
    words = by_words_of_hidden(scope) if hidden else by_words(scope)
    similarity = (
        f"""coalesce(near.similarity, (SELECT 1 - min(v.embedding <=> %(vector)s::halfvec) FROM memory_vectors v
      WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = c.memory_id AND v.model_id = {model.id}))"""
        if model
        else "NULL::double precision"
    )
    return f"""
WITH asked AS MATERIALIZED (
  SELECT * FROM unnest(%(terms)s::integer[], %(weights)s::double precision[]) AS a(term, weight)
), near AS MATERIALIZED (
  {meaning}
), worded AS MATERIALIZED (
  {words}
), candidates AS (
  SELECT memory_id FROM near UNION SELECT memory_id FROM worded
), judged AS MATERIALIZED (
  SELECT c.memory_id, {similarity} AS similarity,
    coalesce(worded.words, (SELECT sum(asked.weight * {bm25("t", "w")})
      FROM memory_words w, unnest(w.terms, w.counts) AS t(term, count) JOIN asked ON asked.term = t.term
      WHERE w.namespace_id = %(namespace_id)s AND w.memory_id = c.memory_id), 0) AS words
  FROM candidates c LEFT JOIN near USING (memory_id) LEFT JOIN worded USING (memory_id)
), scored AS (
  SELECT *, coalesce(words / nullif(max(words) OVER (), 0), 0) AS words_share FROM judged
)
SELECT {HIT_COLUMNS}, s.similarity, s.words, s.words_share,
  {WEIGHT_MEANING} * coalesce(s.similarity, 0) + {WEIGHT_WORDS} * s.words_share AS score
FROM scored s {JOIN_MEMORY.format(arm="s")}
WHERE {scope.conditions} AND coalesce(s.similarity, -2) >= %(min_similarity)s
ORDER BY score DESC, m.created_at DESC, m.id LIMIT %(limit)s OFFSET %(offset)s
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
    return await tx.rows(statement(scope, model, hidden=filters.status != "active"), parameters), scope.exact


async def listed(tx: Transaction, filters: Filters, *, limit: int, offset: int) -> list[Row]:
    """Return the newest memories that pass the filters."""
    base, parameters = visible(filters)
    extra, more = narrowing(filters)
    conditions = " AND ".join([base, *extra])
    return await tx.rows(LIST.format(conditions=conditions), {**parameters, **more, "limit": limit, "offset": offset})
