"""The candidates of a ranking: the best by meaning and by words, the turns beside these, and what is known of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pgengram.inputs import Mode
from pgengram.search.features import BASE_MEANING, NEAR_BY
from pgengram.search.filters import BY_CLOCK, Scope
from pgengram.search.vector_index import VectorIndex, Way
from pgengram.store.connection.begin import NO_SORT, PROBES_NARROWED
from pgengram.store.connection.database import Transaction
from pgengram.store.schema import HIDDEN_IDS, SPOKEN

CANDIDATES: Final = 100  # of each arm
OF_EACH: Final = 50  # of each arm, where several namespaces are asked: together they have as many or more
HIDDEN: Final = "hidden"  # how a memory is found that is no hit, as it expired or was archived or forgotten
HIDDEN_LOOKED_AT: Final = 1_000  # the latest of them
FEW_POSTINGS: Final = 2_000  # read as quickly as what the candidates have of a term is looked up
SEEDS: Final = 60  # best candidates whose neighbours are looked at
MAX_POSTINGS: Final = (
    20_000  # read for one question, rarest words first; the commoner ones only score what others found
)
BM25_K1: Final = 0.9  # saturation of repeated words; short texts want little of it
BM25_B: Final = 0.4  # how much longer memories are discounted; .75 puts 7 fewer of 161 questions about notes first


MOST_SHARE: Final = BM25_K1 + 1  # the most that BM25 gives
# What it gives at least for one word, in a memory of up to three times the usual length.
LEAST_SHARE: Final = MOST_SHARE / (1 + BM25_K1 * (1 + 2 * BM25_B))


def with_vector_search(scope: Scope, model: VectorIndex | None, namespace_id: int) -> Scope:
    """Return `scope` with the way in which its vectors are searched."""
    way: Way = "each" if model is None else model.way(namespace_id)
    return replace(scope, way="either" if scope.narrowed and way != "each" else way)


async def set_for_index(tx: Transaction, scope: Scope) -> None:
    """Have the vectors' index used where a scope is searched by it, with more probes for a narrow one."""
    if scope.way != "each":
        await tx.set_local(NO_SORT | ({"ivfflat.probes": str(PROBES_NARROWED)} if scope.narrowed else {}))


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
    be in the text for the partial index to be chosen. Either: what fits the number in scope; the other is not
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
    """Return the memories in the asked words' posting lists that meet `condition`, as often as they are there."""
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


# The statement is written so that it has one good plan whatever the planner believes about tables that have just been
# filled: sets are materialised once and looked up by hash, tables are reached from them by their keys.

ALLOWED: Final = """allowed AS MATERIALIZED (
  SELECT m.id FROM memories m {activation} WHERE m.namespace_id = %(namespace_id)s AND {conditions})"""


def scope_set(scope: Scope) -> str:
    """Return the set of the memories that are allowed, or else of those that are hidden."""
    return ALLOWED.format(activation=scope.activation, conditions=scope.conditions) if scope.narrowed else HIDDEN_IDS


def statement(scope: Scope, model: VectorIndex | None, mode: Mode = "auto", reach: int = CANDIDATES) -> str:
    """Return the statement that finds candidates and what is known of each.

    In mode semantic they are the `reach` nearest, in mode text those that have the words, else the best `reach` of both
    and the turns beside the best of these.
    """
    gone, and_gone = _hidden_best(scope, model, mode)
    if mode == "semantic":
        return f"""WITH {scope_set(scope)}, {sized(model, scope)}, near AS MATERIALIZED (
  {by_meaning(model, scope, reach)}
){gone}, members AS MATERIALIZED (
  SELECT c.memory_id, of_it.similarity, of_it.parts, 0::double precision AS words, 0::bigint AS matched, 'meaning' AS found_by
  FROM near AS c CROSS JOIN LATERAL {its_vectors(model, "c.memory_id")} {and_gone}
) {KNOWN_OF_EACH}"""
    left_out = words_of("c.memory_id", "NOT asked.rare OR asked.adds AND worded.memory_id IS NULL")
    common = f"CASE WHEN %(some_common)s OR %(some_add)s AND worded.memory_id IS NULL THEN {left_out} ELSE 0 END"
    of_it = its_vectors(model, "c.memory_id")
    beside = BESIDE.format(allowed=in_scope(scope, "n.memory_id"), of_it=of_it, common=common)
    return f"""
WITH {scope_set(scope)}, {sized(model, scope)}, asked AS MATERIALIZED (
  SELECT * FROM unnest(%(terms)s::integer[], %(weights)s::double precision[], %(rare)s::boolean[], %(adds)s::boolean[], %(bits)s::bigint[])
    AS a(term, weight, rare, adds, bit)
), near AS MATERIALIZED (
  {by_meaning(model, scope, reach if mode == "auto" else CANDIDATES)}
), worded AS MATERIALIZED (
  {by_words(scope)}
), seeds AS MATERIALIZED (
  SELECT c.memory_id, of_it.similarity, of_it.parts,
    coalesce(worded.words, 0) + {common} AS words, coalesce(worded.matched, 0) AS matched,
    concat_ws(' and ', CASE WHEN c.memory_id = ANY(%(named)s::uuid[]) THEN 'id' END, CASE WHEN near.memory_id IS NOT NULL THEN 'meaning' END,
              CASE WHEN worded.words > 0 THEN 'words' END) AS found_by
  FROM (SELECT memory_id FROM near
        UNION (SELECT memory_id FROM worded WHERE words > 0 {_sign_condition(mode, "worded")}
               ORDER BY words DESC, memory_id DESC LIMIT {reach})
        UNION SELECT named.id FROM unnest(%(named)s::uuid[]) AS named(id) WHERE {in_scope(scope, "named.id")}) AS c
  LEFT JOIN near USING (memory_id) LEFT JOIN worded USING (memory_id) CROSS JOIN LATERAL {of_it}
){"" if mode == "text" else beside}{gone}, members AS MATERIALIZED (
  SELECT * FROM seeds {"" if mode == "text" else "UNION ALL SELECT * FROM beside"} {and_gone}
) {KNOWN_OF_EACH}"""


def _hidden_best(scope: Scope, model: VectorIndex | None, mode: Mode) -> tuple[str, str]:
    """Return what finds those of the hidden memories that fit best, and what adds them to the others; nothing where
    they don't count. Uses memories_hidden, memory_vectors_pkey and memory_words_pkey; without the OFFSET the order has
    every memory read by its key.
    """
    if scope.hidden is None:
        return "", ""
    words = words_of("h.id", "true", ", bit_or(asked.bit) AS matched")
    if mode == "semantic":
        words = "(SELECT 0::double precision AS words, 0::bigint AS matched)"
    gone = f""", gone AS MATERIALIZED (
  SELECT h.id AS memory_id, of_it.similarity, of_it.parts, w.words, coalesce(w.matched, 0) AS matched
  FROM (SELECT id FROM (SELECT m.id FROM memories m {scope.activation}
                        WHERE m.namespace_id = %(namespace_id)s AND {scope.hidden} OFFSET 0) AS m
        ORDER BY id DESC LIMIT {HIDDEN_LOOKED_AT}) AS h
  CROSS JOIN LATERAL {words} AS w CROSS JOIN LATERAL {its_vectors(model, "h.id")}
)"""
    nearest = f"""(SELECT * FROM gone WHERE similarity IS NOT NULL AND {str(mode != "text").lower()}
    ORDER BY similarity DESC, memory_id LIMIT %(limit)s)"""
    worded = f"""(SELECT * FROM gone WHERE words > 0 {_sign_condition(mode, "gone")} ORDER BY words DESC, memory_id LIMIT %(limit)s)"""
    return gone, f"UNION ALL SELECT *, '{HIDDEN}' FROM ({nearest} UNION {worded}) AS gone"


def _sign_condition(mode: Mode, among: str) -> str:
    """Return the condition that a memory has the phrases and lacks the words that mode text asks."""
    return TEXT_ONLY.replace("[among]", among) if mode == "text" else ""


# The turns near the best candidates. Uses memories_by_session.
BESIDE: Final = f""", turns AS MATERIALIZED (
  SELECT m.session_id, m.session_sequence
  FROM (SELECT s.memory_id FROM seeds s
        ORDER BY {BASE_MEANING} * coalesce(s.similarity, 0) + {1 - BASE_MEANING} * s.words / greatest(max(s.words) OVER (), 1e-9) DESC
        LIMIT {SEEDS}) AS s
  CROSS JOIN LATERAL (SELECT m.session_id, m.session_sequence FROM memories m
    WHERE m.namespace_id = %(namespace_id)s AND m.id = s.memory_id AND {SPOKEN.format("m")} OFFSET 0) AS m
), around AS MATERIALIZED (
  SELECT DISTINCT n.memory_id FROM turns CROSS JOIN LATERAL (SELECT n.id AS memory_id FROM memories n
    WHERE n.namespace_id = %(namespace_id)s AND n.session_id = turns.session_id
      AND n.session_sequence BETWEEN turns.session_sequence - {NEAR_BY} AND turns.session_sequence + {NEAR_BY} OFFSET 0) AS n
  WHERE {{allowed}} AND n.memory_id NOT IN (SELECT memory_id FROM seeds)
), beside AS MATERIALIZED (
  SELECT c.memory_id, of_it.similarity, of_it.parts, coalesce(worded.words, 0) + {{common}} AS words,
    coalesce(worded.matched, 0) AS matched, 'conversation' AS found_by
  FROM around c LEFT JOIN worded USING (memory_id) CROSS JOIN LATERAL {{of_it}}
)"""


def by_period() -> str:
    """Happened, or was stored, in a time that the question names, as its date or its text says."""
    return f"""CASE WHEN %(starts)s::timestamptz[] = '{{}}' THEN 0 ELSE (SELECT EXISTS (
    SELECT 1 FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[], %(written)s::text[]) AS p(start, until, written)
    WHERE clock.at >= p.start AND clock.at < p.until OR m.content ~* p.written)::integer
    FROM (SELECT {BY_CLOCK} AS at) AS clock) END"""


# What reads each member's features; uses memories_pkey and memory_activation_pkey.
KNOWN_OF_EACH: Final = f"""
SELECT c.memory_id AS id, c.similarity, c.words, c.matched, c.found_by, c.parts, m.*, a.relevance, (SELECT vectors FROM sized) AS vectors
FROM members c
CROSS JOIN LATERAL (SELECT m.session_id, m.session_sequence, m.speaker_key, m.turn_features, octet_length(m.content) AS size, {by_period()} AS period
  FROM memories m WHERE m.namespace_id = %(namespace_id)s AND m.id = c.memory_id OFFSET 0) AS m
CROSS JOIN LATERAL (SELECT pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance FROM memory_activation a
  WHERE a.namespace_id = %(namespace_id)s AND a.memory_id = c.memory_id OFFSET 0) AS a"""


# Phrases are looked for in the text itself, which nothing indexes: only in memories that hold one of their words, and
# before the cut. Subqueries that give a value, because the planner turns no such one into a join.
TEXT_ONLY: Final = """
    AND CASE WHEN %(phrases)s::text[] = '{}' AND %(unwanted_phrases)s::text[] = '{}' THEN true ELSE (
      SELECT (SELECT coalesce(bool_and(position(lower(phrase) IN said.text) > 0), true) FROM unnest(%(phrases)s::text[]) AS phrase)
        AND (SELECT coalesce(bool_and(position(lower(phrase) IN said.text) = 0), true) FROM unnest(%(unwanted_phrases)s::text[]) AS phrase)
      FROM memories m CROSS JOIN LATERAL (SELECT lower(regexp_replace(m.content, '\\s+', ' ', 'g')) OFFSET 0) AS said(text)
      WHERE m.namespace_id = %(namespace_id)s AND m.id = [among].memory_id) END
    AND CASE WHEN %(unwanted)s::integer[] = '{}' THEN true ELSE NOT coalesce((
      SELECT w.terms && %(unwanted)s::integer[] FROM memory_words w
      WHERE w.namespace_id = %(namespace_id)s AND w.memory_id = [among].memory_id), false) END"""


def rarest(counts: list[int]) -> list[bool]:
    """Return which terms find memories: the rarest, as long as their postings together stay below MAX_POSTINGS."""
    rare, read = [False] * len(counts), 0
    for place in sorted(range(len(counts)), key=counts.__getitem__):
        if read and read + counts[place] > MAX_POSTINGS:
            break
        rare[place] = True
        read += counts[place]
    return rare


def adds_only(counts: list[int], weights: list[float]) -> list[bool]:
    """Return which terms only add to what others find: a memory that has nothing but these scores below a hundred
    others, so it is not among the best by words (MaxScore: Turtle and Flood 1995).

    They are the commonest ones that together weigh less than one that a hundred memories have, of up to three times the
    usual length; none where that saves few postings.

    Args:
        counts: how many memories have each term, all of which may be found.
        weights: of the terms.
    """
    adds = [False] * len(counts)
    sure = max((LEAST_SHARE * weights[n] for n, count in enumerate(counts) if count >= CANDIDATES), default=0.0)
    most, saved = 0.0, 0
    for place in sorted(range(len(counts)), key=counts.__getitem__, reverse=True):
        most += MOST_SHARE * weights[place]
        if most >= sure:
            break
        adds[place] = True
        saved += counts[place]
    return adds if saved > FEW_POSTINGS else [False] * len(counts)


NO_VECTORS: Final = "SELECT NULL::uuid AS memory_id, NULL::double precision AS similarity WHERE false"


def its_vectors(model: VectorIndex | None, memory_id: str) -> str:
    """Return what reads, as `of_it`, the similarity of a memory by its best part, and its number of parts; without a
    model it has one, and no similarity. Uses memory_vectors_pkey.
    """
    if model is None:
        return "(SELECT NULL::double precision AS similarity, 1 AS parts) AS of_it"
    return f"""(SELECT 1 - min(v.embedding <=> %(vector)b::halfvec) AS similarity, count(*) AS parts FROM memory_vectors v
      WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = {memory_id} AND v.model_id = {model.id}) AS of_it"""
