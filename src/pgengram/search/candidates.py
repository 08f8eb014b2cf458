"""The two ways in which memories become candidates of a ranking: by meaning and by words. Each is SQL text."""

from __future__ import annotations

from typing import Final

from pgengram.search.filters import Scope
from pgengram.search.vector_index import VectorIndex

CANDIDATES: Final = 100  # of each arm
MAX_POSTINGS: Final = (
    20_000  # read for one question, rarest words first; the commoner ones only score what others found
)
BM25_K1: Final = 0.9  # saturation of repeated words; short texts want little of it
BM25_B: Final = 0.4  # how much longer memories are discounted


def in_scope(scope: Scope, memory_id: str) -> str:
    """Return the condition that a memory counts; a CASE keeps the planner from turning the look-up into a join."""
    if scope.narrowed:
        return f"CASE WHEN {memory_id} IN (SELECT id FROM allowed) THEN true END"
    return f"{memory_id} NOT IN (SELECT id FROM hidden)"


def sized(model: VectorIndex | None, scope: Scope) -> str:
    """Return how many memories are in scope, counting no further than to the border between few and many.

    Uses memory_vectors_pkey where nothing narrows the scope.
    """
    if model is None or scope.way != "either":
        many = 0 if model is None else model.few + 1
        return f"sized AS MATERIALIZED (SELECT {many if scope.way == 'index' else 0} AS vectors)"
    mine = f"memory_vectors WHERE namespace_id = %(namespace_id)s AND model_id = {model.id}"
    return f"""sized AS MATERIALIZED (
  SELECT count(*) AS vectors FROM (SELECT 1 FROM {"allowed" if scope.narrowed else mine} LIMIT {model.few + 1}) AS some_of_them)"""


def by_meaning(model: VectorIndex | None, scope: Scope, limit: int = CANDIDATES) -> str:
    """Nearest vectors first, each memory by its best part.

    Each: every vector of the scope (memory_vectors_pkey). Index: the ivfflat index of the model, whose number must
    stand in the text for the partial index to be chosen. Either: what fits the number in scope; the other is not
    walked.
    """
    if model is None:
        return NO_VECTORS
    each, index = _each_vector(model, scope, limit), _nearest_by_index(model, scope, limit)
    if scope.way == "either":
        return f"""(SELECT * FROM ({each}) AS few WHERE (SELECT vectors <= {model.few} FROM sized))
      UNION ALL (SELECT * FROM ({index}) AS many WHERE (SELECT vectors > {model.few} FROM sized))"""
    return each if scope.way == "each" else index


def _each_vector(model: VectorIndex, scope: Scope, limit: int) -> str:
    mine = f"v.namespace_id = %(namespace_id)s AND v.model_id = {model.id}"
    source = (
        f"""FROM allowed CROSS JOIN LATERAL (
        SELECT v.memory_id, v.embedding FROM memory_vectors v WHERE {mine} AND v.memory_id = allowed.id OFFSET 0) AS v"""
        if scope.narrowed
        else f"FROM memory_vectors v WHERE {mine} AND {in_scope(scope, 'v.memory_id')}"
    )
    return f"""SELECT v.memory_id, 1 - min(v.embedding <=> %(vector)b::halfvec) AS similarity {source}
      GROUP BY v.memory_id ORDER BY similarity DESC, v.memory_id DESC LIMIT {limit}"""


def _nearest_by_index(model: VectorIndex, scope: Scope, limit: int) -> str:
    mine = f"v.namespace_id = %(namespace_id)s AND v.model_id = {model.id}"
    distance = f"(v.embedding::halfvec({model.dimensions})) <=> %(vector)b::halfvec({model.dimensions})"
    return f"""SELECT memory_id, 1 - min(distance) AS similarity
      FROM (SELECT v.memory_id, {distance} AS distance FROM memory_vectors v
            WHERE {mine} AND {in_scope(scope, "v.memory_id")} ORDER BY {distance} LIMIT {limit}) AS nearest
      GROUP BY memory_id"""


def by_words(scope: Scope) -> str:
    """Every memory with one of the rarer asked words, scored by BM25, and which of them it has, a bit for each.

    Of the active memories those that wait are looked at each (memory_words_waiting), the rest are in posting lists
    (memory_posting_lists_pkey); among others each one in scope is looked at (memory_words_pkey). A word that only adds
    finds no memory by itself.
    """
    if scope.parameters["status"] == "active":
        return f"""WITH found AS MATERIALIZED (
        {_posted("asked.rare AND NOT asked.adds")}
        UNION ALL
        SELECT w.memory_id, asked.weight * {bm25("w")}, asked.bit
        FROM (SELECT w.memory_id, w.length, t.term, t.count
              FROM memory_words w CROSS JOIN LATERAL unnest(w.terms, w.counts) AS t(term, count)
              WHERE w.namespace_id = %(namespace_id)s AND w.segment IS NULL AND w.terms && %(terms)s::integer[]
                AND t.term = ANY(%(terms)s::integer[])) AS w
        JOIN asked ON asked.term = w.term AND asked.rare
      )
      SELECT p.memory_id, sum(p.words) AS words, bit_or(p.bit) AS matched FROM (
        SELECT * FROM found
        UNION ALL
        {_posted("asked.rare AND asked.adds AND e.id IN (SELECT memory_id FROM found)")}) AS p
      WHERE {in_scope(scope, "p.memory_id")} GROUP BY p.memory_id"""
    return f"""SELECT allowed.id AS memory_id, w.* FROM allowed
      CROSS JOIN LATERAL {words_of("allowed.id", "asked.rare", ", bit_or(asked.bit) AS matched")} AS w"""


def _posted(condition: str) -> str:
    """Return the memories in the posting lists of the asked words that meet `condition`, each as often as it is there."""
    return f"""SELECT e.id AS memory_id, asked.weight * {bm25("e")} AS words, asked.bit
        FROM asked CROSS JOIN LATERAL (
          SELECT e.id, (e.measure >> 16)::smallint AS count, (e.measure & 65535)::smallint AS length
          FROM memory_posting_lists l, unnest(l.memory_ids, l.measures) AS e(id, measure)
          WHERE l.namespace_id = %(namespace_id)s AND l.term = asked.term LIMIT {MAX_POSTINGS}) AS e
        WHERE {condition}"""


def words_of(memory_id: str, condition: str, more: str = "") -> str:
    """Return one memory's BM25 score for the asked words that meet `condition`; uses memory_words_pkey."""
    return f"""(SELECT coalesce(sum(asked.weight * {bm25("t")}), 0) AS words{more}
      FROM (SELECT t.term, t.count, w.length FROM memory_words w, unnest(w.terms, w.counts) AS t(term, count)
            WHERE w.namespace_id = %(namespace_id)s AND w.memory_id = {memory_id} OFFSET 0) AS t
      JOIN asked ON asked.term = t.term WHERE {condition})"""


def bm25(term: str) -> str:
    """Return BM25's share of one term (Robertson and Zaragoza 2009), without its inverse document frequency."""
    count = f"{term}.count::double precision"
    share = f"{term}.length / greatest(%(mean_length)s::double precision, 1)"
    saturation = (
        f"{BM25_K1}::double precision * ({1 - BM25_B}::double precision + {BM25_B}::double precision * {share})"
    )
    return f"({count} * {BM25_K1 + 1}::double precision / ({count} + {saturation}))"


NO_VECTORS: Final = "SELECT NULL::uuid AS memory_id, NULL::double precision AS similarity WHERE false"


def similarity_of(model: VectorIndex | None, memory_id: str) -> str:
    """Return the similarity of one memory by its key; nothing without a model. Uses memory_vectors_pkey."""
    if model is None:
        return "NULL::double precision"
    return f"""(SELECT 1 - min(v.embedding <=> %(vector)b::halfvec) FROM memory_vectors v
      WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = {memory_id} AND v.model_id = {model.id})"""
