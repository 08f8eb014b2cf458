"""Ranking: candidates by meaning and by words, each scored by both, in one statement."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from datetime import datetime
from math import isqrt
from typing import Any, Final, Literal
from uuid import UUID

from pgengram.inputs import Mode, Question
from pgengram.search.filters import OCCURRED, narrowing, visible
from pgengram.search.question import GOOD_FOR_S, Asked
from pgengram.store.connection.database import NO_SORT, PROBES, Row, Transaction
from pgengram.store.maintenance.indexes import PROBES_NARROWED

# Weights, chosen on the five even conversations of LoCoMo and rounded by hand. Chosen anew without one of them they find as
# much in it: R@10 85.4 ± 3.3 % against 85.3 ± 2.8 of these (benchmarks/locomo.py --leave-one-out). Scores are fused, not
# ranks: that is worth 4 to 9 points where one ranker is much weaker than the other.
WEIGHT_MEANING: Final = 0.6  # cosine of question and memory
WEIGHT_WORDS: Final = 0.25  # words as a share of the best candidate's; 0.4 where nothing else is known of a memory
WEIGHT_WORDS_ALONE: Final = 0.4
WEIGHT_AROUND: Final = 0.4  # the best turn near by: what a turn leaves out stands in its neighbours
WEIGHT_VOICE: Final = 0.2  # said by the one person whom the question names
WEIGHT_REPLY: Final = 0.15  # the turn before asked something: how well that fits
WEIGHT_ASKING: Final = -0.06  # a question answers nothing
WEIGHT_TRAIT: Final = 0.05  # each of: a time, a digit, a name inside the sentence
USUAL_TRAITS: Final = 1.5  # of a turn that answers a question, on average
WEIGHT_TIME: Final = 0.1  # names a time, and the question asks when
WEIGHT_PERIOD: Final = 0.2  # happened in the time that the question names; half where it names no year
WEIGHT_RELEVANCE: Final = (
    0.05  # live relevance; small, so memories that neither fit by meaning nor by words cannot win by it
)
WEIGHT_RECENCY: Final = 0.02  # decides between memories that say nearly the same: the newer or newly confirmed one
RECENCY_HALF_LIFE_DAYS: Final = 30
WORDS_SHARE_OF_ASKED: Final = 0.5  # a best match with less than half of what was asked counts as less than a full one
NEAR_BY: Final = 5  # turns before and after
SEEDS: Final = 40  # best candidates whose neighbours are looked at
CANDIDATES: Final = 100  # of each arm
MAX_POSTINGS: Final = (
    20_000  # read for one question, rarest words first; the commoner ones only score what others found
)
EXACT_ROWS: Final = (
    5_000  # fewer are compared each: half a microsecond a vector, complete, and the same whatever others store
)
BM25_K1: Final = 0.9  # saturation of repeated words; short texts want little of it
BM25_B: Final = 0.4  # how much longer memories are discounted

HIT_COLUMNS: Final = """
  m.id, m.type, m.kind, m.status, m.content, m.metadata, m.speaker, m."user", m.project, m.collection, m.session_id, m.source,
  m.source_provider, m.capture_mode, m.emotion, m.confidence, m.sources, m.occurred_at, m.created_at, m.updated_at, m.last_confirmed_at,
  m.expires_at, m.valid_from, m.valid_to, m.reason, m.replaced_by, m.pinned, m.version, a.importance, a.access_count,
  pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance,
  ARRAY(SELECT tag FROM memory_tags t WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = m.id ORDER BY position, tag) AS tags
"""
WITH_ACTIVATION: Final = "JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id"
Way = Literal["each", "index", "either"]


@dataclass(slots=True)
class VectorIndex:
    """The embedding model of a question: its key, its length and whether its index is there.

    rows: vectors of all namespaces when they were last counted; sizes: for each namespace until when it is held to have few or many.
    """

    id: int
    dimensions: int
    indexed: bool = False
    rows: int = 0
    sizes: dict[int, tuple[float, Way]] = field(default_factory=dict)

    @property
    def few(self) -> int:
        """How many vectors are compared one by one.

        The index holds the vectors of all namespaces: for one with fewer than the lists visited hold together, to compare each is
        cheaper and complete, and takes no longer when others grow.
        """
        return max(EXACT_ROWS, PROBES * isqrt(self.rows))

    def way(self, namespace_id: int) -> Way:
        """Return how the memories of a namespace are searched when nothing narrows the question."""
        if not self.indexed:
            return "each"
        until, way = self.sizes.get(namespace_id, (0.0, "either"))
        return way if time.monotonic() < until else "either"

    def note(self, namespace_id: int, vectors: int) -> None:
        """Remember for a while how many vectors were counted, unless they are about as many as the border."""
        if vectors < self.few // 2 or vectors > self.few:
            way: Way = "each" if vectors < self.few else "index"
            self.sizes[namespace_id] = (time.monotonic() + GOOD_FOR_S, way)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which memories a question ranges over: conditions on `memories m` and `memory_activation a`, and their parameters.

    narrowed: the caller set conditions, or asks for memories that are not active; way: how vectors are searched;
    activation: the join that makes `a` known, nothing where no condition asks for it.
    """

    conditions: str
    activation: str
    narrowed: bool
    way: Way
    parameters: dict[str, Any]


def scope_of(filters: Question, model: VectorIndex | None, namespace_id: int) -> Scope:
    """Return which memories a question ranges over, and how their vectors are searched."""
    base, parameters = visible(filters)
    extra, more = narrowing(filters)
    narrowed = bool(extra) or filters.status != "active" or filters.as_of is not None
    way: Way = "each" if model is None else model.way(namespace_id)
    way = "either" if narrowed and way != "each" else way
    activation = WITH_ACTIVATION if {"min_importance", "max_importance"} & more.keys() else ""
    return Scope(" AND ".join([base, *extra]), activation, narrowed, way, parameters | more)


# The statement is written so that it has one good plan whatever the planner believes about tables that have just been
# filled: sets are materialised once and looked up by hash, tables are reached from them by their keys.

# Few memories are hidden, so everything else is told by their absence. Uses memories_hidden.
HIDDEN: Final = """hidden AS MATERIALIZED (
  SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND (status <> 'active' OR expires_at IS NOT NULL)
    AND (status <> 'active' OR expires_at <= now()))"""
# How many of them there are, by reason. Uses memories_hidden.
COUNT_HIDDEN: Final = """
SELECT count(*) FILTER (WHERE status = 'active') AS expired, count(*) FILTER (WHERE status = 'archived') AS archived,
  count(*) FILTER (WHERE status = 'invalidated') AS forgotten
FROM memories WHERE namespace_id = %(namespace_id)s AND (status <> 'active' OR expires_at IS NOT NULL)
  AND (status <> 'active' OR expires_at <= now())
"""
ALLOWED: Final = """allowed AS MATERIALIZED (
  SELECT m.id FROM memories m {activation} WHERE m.namespace_id = %(namespace_id)s AND {conditions})"""


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

    Each: every vector of the scope (memory_vectors_pkey). Index: the ivfflat index of the model, whose number must stand
    in the text for the partial index to be chosen. Either: what fits the number in scope; the other is not walked.
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
    """Every memory with one of the rarer asked words, scored by BM25.

    Of the active memories those that wait are looked at each (memory_words_waiting), the rest are in posting lists
    (memory_posting_lists_pkey); among others each one in scope is looked at (memory_words_pkey).
    """
    if scope.parameters["status"] == "active":
        return f"""SELECT p.memory_id, sum(p.words) AS words FROM (
        SELECT e.id AS memory_id, asked.weight * {bm25("e")} AS words
        FROM asked CROSS JOIN LATERAL (
          SELECT e.id, (e.measure >> 16)::smallint AS count, (e.measure & 65535)::smallint AS length
          FROM memory_posting_lists l, unnest(l.memory_ids, l.measures) AS e(id, measure)
          WHERE l.namespace_id = %(namespace_id)s AND l.term = asked.term LIMIT {MAX_POSTINGS}) AS e
        WHERE asked.rare
        UNION ALL
        SELECT w.memory_id, asked.weight * {bm25("w")}
        FROM (SELECT w.memory_id, w.length, t.term, t.count
              FROM memory_words w CROSS JOIN LATERAL unnest(w.terms, w.counts) AS t(term, count)
              WHERE w.namespace_id = %(namespace_id)s AND w.segment IS NULL AND w.terms && %(terms)s::integer[]
                AND t.term = ANY(%(terms)s::integer[])) AS w
        JOIN asked ON asked.term = w.term AND asked.rare) AS p
      WHERE {in_scope(scope, "p.memory_id")} GROUP BY p.memory_id"""
    return f"""SELECT allowed.id AS memory_id, {words_of("allowed.id", "asked.rare")} AS words FROM allowed"""


def words_of(memory_id: str, condition: str) -> str:
    """Return one memory's BM25 score for the asked words that meet `condition`; uses memory_words_pkey."""
    return f"""(SELECT coalesce(sum(asked.weight * {bm25("t")}), 0)
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


# Signals: each is one reason to rank, from 0 (or less) to 1, and has one weight.
PLACED: Final = "(b.traits & 32 <> 0 AND b.session_id IS NOT NULL)"  # traits.TURN


def by_neighbours() -> str:
    """The best of the turns near by, itself left out; a memory outside any conversation is its own surroundings."""
    return f"CASE WHEN {PLACED} THEN greatest(0, coalesce(max(b.base) OVER near_by, 0)) ELSE b.base END"


def by_reply() -> str:
    """How well the turn before fits, when another speaker asked something in it (traits.ASKS)."""
    return f"""CASE WHEN {PLACED} AND max(b.voice) OVER before IS DISTINCT FROM b.voice
      THEN coalesce(max(CASE WHEN b.traits & 8 <> 0 THEN b.base END) OVER before, 0) ELSE 0 END"""


def by_voice() -> str:
    """Said by the one person whom the question names."""
    return "CASE WHEN %(voice)s::text = ANY(string_to_array(m.voice, ' ')) THEN 1 ELSE 0 END"


def by_traits() -> str:
    """How much a turn looks like one that tells something: traits TIME, DIGIT and CAPITAL; the usual for what is no turn."""
    return f"CASE WHEN b.traits = 0 AND NOT {PLACED} THEN {USUAL_TRAITS} ELSE (b.traits & 1) + (b.traits >> 1 & 1) + (b.traits >> 2 & 1) END"


def by_period() -> str:
    """Happened in a time that the question names; half where it names no year."""
    return """coalesce((SELECT max(p.fit) FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[],
      %(fits)s::double precision[]) AS p(start, until, fit) WHERE m.occurred_at >= p.start AND m.occurred_at < p.until), 0)"""


def by_recency() -> str:
    """How new or newly confirmed it is, halving every month."""
    age_s = "greatest(0, date_part('epoch', now()) - date_part('epoch', coalesce(b.occurred_at, b.last_confirmed_at, b.created_at)))"
    return f"power(0.5, least({age_s} / 86400 / {RECENCY_HALF_LIFE_DAYS}, 100))"


def signals() -> dict[str, tuple[float, str]]:
    """Return each signal's weight and value; a memory outside any conversation lives by meaning, words, time and relevance."""
    alone = f"CASE WHEN b.traits = 0 THEN {WEIGHT_WORDS_ALONE / WEIGHT_WORDS} ELSE 1 END"
    return {
        "meaning": (WEIGHT_MEANING, "coalesce(b.similarity, 0)"),
        "words": (WEIGHT_WORDS, f"{alone} * b.words_share"),
        "around": (WEIGHT_AROUND, by_neighbours()),
        "reply": (WEIGHT_REPLY, by_reply()),
        "voice": (WEIGHT_VOICE, "b.voice_share"),
        "traits": (WEIGHT_TRAIT, by_traits()),
        "asking": (WEIGHT_ASKING, "(b.traits >> 4 & 1)"),
        "time": (WEIGHT_TIME, "CASE WHEN %(wants_time)s THEN b.traits & 1 ELSE 0 END"),
        "period": (WEIGHT_PERIOD, "b.period"),
        "relevance": (WEIGHT_RELEVANCE, "b.relevance"),
        "recency": (WEIGHT_RECENCY, by_recency()),
    }


def score() -> str:
    """Return the weighted sum of all signals."""
    return " + ".join(f"{weight} * ({value})" for weight, value in signals().values())


def statement(scope: Scope, model: VectorIndex | None, mode: Mode = "auto", reach: int = CANDIDATES) -> str:
    """Return the whole ranking: candidates of both arms and their neighbours, every signal of each, best first.

    In mode semantic only meaning counts, of the `reach` nearest; in mode text only words; the rest is the same. Each row
    says besides how many vectors are in scope and how many memories are hidden; without a hit there is one row that says
    only that.
    """
    sets = f"{_scope_set(scope)}, {sized(model, scope)}, {COUNTED}"
    if mode == "semantic":
        return f"WITH {sets}, {_by_meaning_alone(model, scope, reach)} {SHOWN}"
    common = f"CASE WHEN %(some_common)s THEN {words_of('c.memory_id', 'NOT asked.rare')} ELSE 0 END"
    total = "b.words_share" if mode == "text" else score()
    base = f"{WEIGHT_MEANING} * coalesce(similarity, 0) + {WEIGHT_WORDS_ALONE} * words_share"
    return f"""
WITH {sets}, asked AS MATERIALIZED (
  SELECT * FROM unnest(%(terms)s::integer[], %(weights)s::double precision[], %(rare)s::boolean[]) AS a(term, weight, rare)
), near AS MATERIALIZED (
  {by_meaning(model, scope)}
), worded AS MATERIALIZED (
  {by_words(scope)}
), seeds AS MATERIALIZED (
  SELECT c.memory_id, coalesce(near.similarity, {similarity_of(model, "c.memory_id")}) AS similarity,
    coalesce(worded.words, 0) + {common} AS words,
    concat_ws(' and ', CASE WHEN near.memory_id IS NOT NULL THEN 'meaning' END,
              CASE WHEN worded.words > 0 THEN 'words' END) AS found_by
  FROM (SELECT memory_id FROM near
        UNION (SELECT memory_id FROM worded WHERE words > 0 {TEXT_ONLY if mode == "text" else ""}
               ORDER BY words DESC, memory_id DESC LIMIT {ALL_WORDED if mode == "text" else CANDIDATES})) AS c
  LEFT JOIN near USING (memory_id) LEFT JOIN worded USING (memory_id)
), best AS MATERIALIZED (
  SELECT greatest(max(words), %(most_words)s::double precision, 1e-9) AS words FROM seeds
), turns AS MATERIALIZED (
  SELECT m.session_id, m.session_sequence
  FROM (SELECT s.memory_id FROM seeds s CROSS JOIN best
        ORDER BY {WEIGHT_MEANING} * coalesce(s.similarity, 0) + {WEIGHT_WORDS_ALONE} * s.words / best.words DESC LIMIT {SEEDS}) AS s
  CROSS JOIN LATERAL (SELECT m.session_id, m.session_sequence FROM memories m
    WHERE m.namespace_id = %(namespace_id)s AND m.id = s.memory_id AND m.traits & 32 <> 0 OFFSET 0) AS m
), around AS MATERIALIZED (
  SELECT DISTINCT n.memory_id FROM turns CROSS JOIN LATERAL (SELECT n.id AS memory_id FROM memories n
    WHERE n.namespace_id = %(namespace_id)s AND n.session_id = turns.session_id
      AND n.session_sequence BETWEEN turns.session_sequence - {NEAR_BY} AND turns.session_sequence + {NEAR_BY} OFFSET 0) AS n
  WHERE {in_scope(scope, "n.memory_id")} AND n.memory_id NOT IN (SELECT memory_id FROM seeds)
), members AS MATERIALIZED (
  SELECT memory_id, similarity, words, found_by FROM seeds
  UNION ALL
  SELECT c.memory_id, {similarity_of(model, "c.memory_id")}, coalesce(worded.words, 0) + {common}, 'conversation'
  FROM around c LEFT JOIN worded USING (memory_id)
), judged AS MATERIALIZED (
  SELECT c.*, m.*, a.*, {base} AS base
  FROM (SELECT members.*, least(members.words / best.words, 1) AS words_share FROM members CROSS JOIN best) AS c
  CROSS JOIN LATERAL (SELECT m.session_id, m.session_sequence, m.voice, m.traits, m.occurred_at, m.last_confirmed_at, m.created_at,
      {by_voice()} AS voice_share, {by_period()} AS period
    FROM memories m WHERE m.namespace_id = %(namespace_id)s AND m.id = c.memory_id OFFSET 0) AS m
  CROSS JOIN LATERAL (SELECT pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance FROM memory_activation a
    WHERE a.namespace_id = %(namespace_id)s AND a.memory_id = c.memory_id OFFSET 0) AS a
), scored AS MATERIALIZED (
  SELECT b.memory_id, b.similarity, b.words_share, b.found_by, CASE WHEN {PLACED} THEN {by_neighbours()} END AS near_by,
    b.voice_share, b.period, {total} AS score
  FROM judged b
  WINDOW near_by AS (PARTITION BY b.session_id ORDER BY b.session_sequence
                     RANGE BETWEEN {NEAR_BY} PRECEDING AND {NEAR_BY} FOLLOWING EXCLUDE CURRENT ROW),
         before AS (PARTITION BY b.session_id ORDER BY b.session_sequence RANGE BETWEEN 1 PRECEDING AND 1 PRECEDING)
), cut AS MATERIALIZED (
  SELECT * FROM scored WHERE coalesce(similarity, -2) >= %(min_similarity)s {NO_NEIGHBOURS if mode == "text" else ""}
  ORDER BY score DESC, memory_id DESC LIMIT %(limit)s OFFSET %(offset)s
)
{SHOWN}
"""


def _scope_set(scope: Scope) -> str:
    return ALLOWED.format(activation=scope.activation, conditions=scope.conditions) if scope.narrowed else HIDDEN


def _by_meaning_alone(model: VectorIndex | None, scope: Scope, reach: int) -> str:
    """Return the hits of mode semantic, for which no other signal needs to be known."""
    return f"""near AS MATERIALIZED (
  {by_meaning(model, scope, reach)}
), cut AS MATERIALIZED (
  SELECT n.memory_id, n.similarity, 0::double precision AS words_share, 'meaning' AS found_by, NULL::double precision AS near_by,
    {by_voice()} AS voice_share, {by_period()} AS period, n.similarity AS score
  FROM (SELECT * FROM near WHERE similarity >= %(min_similarity)s
        ORDER BY similarity DESC, memory_id DESC LIMIT %(limit)s OFFSET %(offset)s) AS n
  CROSS JOIN LATERAL (SELECT m.voice, m.occurred_at FROM memories m
    WHERE m.namespace_id = %(namespace_id)s AND m.id = n.memory_id OFFSET 0) AS m
)"""


# The hits with all that leaves; without a hit still one row, of a memory that has no id.
COUNTED: Final = f"told AS MATERIALIZED (SELECT * FROM sized CROSS JOIN ({COUNT_HIDDEN}) AS hidden)"
# Which are linked as contradicting is said with them, so that few answers need another question. Uses
# memory_relationships_pkey and memory_relationships_to.
CONTRADICTED: Final = """coalesce(
    (SELECT true FROM memory_relationships r
     WHERE r.namespace_id = %(namespace_id)s AND r.from_id = m.id AND r.type = 'contradicts' LIMIT 1),
    (SELECT true FROM memory_relationships r
     WHERE r.namespace_id = %(namespace_id)s AND r.to_id = m.id AND r.type = 'contradicts' LIMIT 1), false) AS contradicted"""
SHOWN: Final = f"""
SELECT {HIT_COLUMNS}, {CONTRADICTED}, s.similarity, s.words_share, s.near_by, s.voice_share, s.period, s.found_by, s.score, told.*
FROM told LEFT JOIN (cut s JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = s.memory_id {WITH_ACTIVATION}) ON true
ORDER BY s.score DESC, m.id DESC
"""
# Scores of words alone do not depend on who else is a candidate, so a later page may take more of them.
ALL_WORDED: Final = f"greatest({CANDIDATES}, %(limit)s + %(offset)s)"
# In mode text, turns that only stand near by are no hits.
NO_NEIGHBOURS: Final = "AND found_by <> 'conversation'"
# Phrases are looked for in the text itself, which nothing indexes: only in memories that hold one of their words, and
# before the cut. Subqueries that give a value, because the planner turns no such one into a join.
TEXT_ONLY: Final = """
    AND CASE WHEN %(phrases)s::text[] = '{}' AND %(unwanted_phrases)s::text[] = '{}' THEN true ELSE (
      SELECT (SELECT coalesce(bool_and(position(lower(phrase) IN said.text) > 0), true) FROM unnest(%(phrases)s::text[]) AS phrase)
        AND (SELECT coalesce(bool_and(position(lower(phrase) IN said.text) = 0), true) FROM unnest(%(unwanted_phrases)s::text[]) AS phrase)
      FROM memories m CROSS JOIN LATERAL (SELECT lower(regexp_replace(m.content, '\\s+', ' ', 'g')) OFFSET 0) AS said(text)
      WHERE m.namespace_id = %(namespace_id)s AND m.id = worded.memory_id) END
    AND CASE WHEN %(unwanted)s::integer[] = '{}' THEN true ELSE NOT coalesce((
      SELECT w.terms && %(unwanted)s::integer[] FROM memory_words w
      WHERE w.namespace_id = %(namespace_id)s AND w.memory_id = worded.memory_id), false) END"""


def rarest(counts: list[int]) -> list[bool]:
    """Return which terms find memories: the rarest, as long as their postings together stay below MAX_POSTINGS."""
    rare, read = [False] * len(counts), 0
    for place in sorted(range(len(counts)), key=counts.__getitem__):
        if read and read + counts[place] > MAX_POSTINGS:
            break
        rare[place] = True
        read += counts[place]
    return rare


SORT_KEYS: Final[dict[str, str]] = {
    "created": "m.created_at",
    "updated": "m.updated_at",
    "occurred": OCCURRED,
    "importance": "a.importance",
    "relevance": "pgengram_relevance(a.relevance_anchor, a.rate_per_day, %(now)s)",
    "accessed": "coalesce(a.last_accessed_at, '-infinity')",
}
# Which they are is found with few columns; only what is shown is read whole. Uses memories_by_time when sorted by creation,
# memories_by_occurrence when sorted by that, a sort of what matches otherwise.
LIST: Final = f"""
WITH listed AS MATERIALIZED (
  SELECT m.id, {{key}} AS key FROM memories m {{activation}}
  WHERE m.namespace_id = %(namespace_id)s AND {{conditions}}
  ORDER BY {{key}} DESC, m.id DESC LIMIT %(limit)s OFFSET %(offset)s
)
SELECT {HIT_COLUMNS}, listed.key::text AS sort_key FROM listed
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = listed.id {WITH_ACTIVATION}
ORDER BY listed.key DESC, m.id DESC
"""
# Said twice: subject to row-level security only the first is looked up in an index, as comparing ids might tell what it sees.
AFTER: Final = "{key} <= %(after_key)s::{kind} AND ({key}, m.id) < (%(after_key)s::{kind}, %(after_id)s)"
COUNT: Final = f"SELECT count(*) AS matches FROM memories m {WITH_ACTIVATION} WHERE m.namespace_id = %(namespace_id)s AND {{conditions}}"


async def set_for_index(tx: Transaction, scope: Scope) -> None:
    """Have the index of the vectors taken where a scope is searched by it, with more probes where the scope is narrowed."""
    if scope.way != "each":
        await tx.set_local(NO_SORT | ({"ivfflat.probes": str(PROBES_NARROWED)} if scope.narrowed else {}))


def parameters(
    asked: Asked, scope: Scope, vector: Any, *, limit: int, offset: int = 0, min_similarity: float | None = None
) -> dict[str, Any]:
    """Return what `statement` needs to know of a question."""
    rare = rarest(asked.counts)
    return {
        **scope.parameters,
        "terms": asked.terms,
        "weights": asked.weights,
        "rare": rare,
        "some_common": not all(rare),
        "most_words": WORDS_SHARE_OF_ASKED * sum(asked.weights),
        "voice": asked.speaker_key,
        "wants_time": asked.wants_time,
        "starts": [period.start for period in asked.periods],
        "ends": [period.end for period in asked.periods],
        "fits": [1.0 if period.sure else 0.5 for period in asked.periods],
        "mean_length": asked.mean_length,
        "vector": vector,
        "min_similarity": -2.0 if min_similarity is None else min_similarity,
        "phrases": asked.phrases,
        "unwanted": asked.unwanted,
        "unwanted_phrases": asked.unwanted_phrases,
        "limit": limit,
        "offset": offset,
    }


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best hits; whether every memory in scope was compared with the question; how many are hidden, by reason."""

    rows: list[Row]
    exact: bool
    hidden: dict[str, int]


async def ranked(
    tx: Transaction, asked: Asked, filters: Question, model: VectorIndex | None, vector: Any, *,
    min_similarity: float | None, limit: int, offset: int,
) -> Ranked:  # fmt: skip
    """Return the best hits."""
    scope = scope_of(filters, model, tx.namespace_id)
    await set_for_index(tx, scope)
    given = parameters(asked, scope, vector, min_similarity=min_similarity, limit=limit, offset=offset)
    reach = CANDIDATES * math.ceil((limit + offset) / CANDIDATES)
    rows = await tx.rows(statement(scope, model, filters.mode, reach), given)
    vectors = rows[0]["vectors"]
    if model is not None and scope.way == "either" and not scope.narrowed:
        model.note(tx.namespace_id, vectors)
    exact = model is None or vectors <= model.few
    return Ranked([row for row in rows if row["id"] is not None], exact, _reasons(rows[0]))


def _conditions(filters: Question) -> tuple[str, dict[str, Any]]:
    base, parameters = visible(filters)
    extra, more = narrowing(filters)
    return " AND ".join([base, *extra]), parameters | more


async def listed(
    tx: Transaction, filters: Question, *, now: datetime, after: tuple[str, UUID] | None, limit: int, offset: int
) -> list[Row]:
    """Return the memories that pass the filters in the order asked for, newest first unless told otherwise.

    Args:
        tx: the namespace's transaction.
        filters: which memories, and `sort`.
        now: the moment of which live relevance is meant; the same for all pages.
        after: key and id of the last memory of the page before.
        limit: how many; offset: how many to pass over.
    """
    narrowed = bool(narrowing(filters)[0]) or filters.status != "active" or filters.as_of is not None
    if filters.sort == "relevance" and not narrowed:
        return await most_relevant(tx, now=now, after=after, limit=limit, offset=offset)
    conditions, parameters = _conditions(filters)
    sort = filters.sort or "created"
    key = SORT_KEYS[sort]
    if after is not None:
        kind = "double precision" if sort in ("importance", "relevance") else "timestamptz"
        conditions += " AND " + AFTER.format(key=key, kind=kind)
        parameters |= {"after_key": after[0], "after_id": after[1]}
    given = {**parameters, "now": now, "limit": limit, "offset": offset}
    activation = WITH_ACTIVATION if "a." in key or {"min_importance", "max_importance"} & parameters.keys() else ""
    return await tx.rows(LIST.format(conditions=conditions, key=key, activation=activation), given)


# The best of each rate of fading are the first of its index, whatever the time is; a page begins near its place in the index
# and there after the last memory of the page before. Uses memory_activation_rank.
MOST_RELEVANT: Final = f"""
WITH {HIDDEN}, moment AS MATERIALIZED (
  SELECT extract(epoch FROM %(now)s::timestamptz)::double precision / 86400 - 20000 AS days
), best AS MATERIALIZED (
  SELECT top.memory_id, top.line FROM decay_classes c CROSS JOIN moment CROSS JOIN LATERAL (
    SELECT a.memory_id, a.relevance_anchor - a.rate_per_day * moment.days AS line FROM memory_activation a
    WHERE a.namespace_id = %(namespace_id)s AND a.rate_per_day = c.rate_per_day AND a.memory_id NOT IN (SELECT id FROM hidden)
      {{after}}
    ORDER BY a.relevance_anchor DESC, a.memory_id LIMIT %(limit)s + %(offset)s) AS top
  ORDER BY top.line DESC, top.memory_id LIMIT %(limit)s OFFSET %(offset)s
)
SELECT {HIT_COLUMNS}, best.line::text AS sort_key FROM best
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = best.memory_id {WITH_ACTIVATION}
ORDER BY best.line DESC, m.id
"""


AFTER_LINE: Final = """AND a.relevance_anchor <= %(line)s + a.rate_per_day * moment.days + 1e-6
      AND (a.relevance_anchor - a.rate_per_day * moment.days < %(line)s
           OR a.relevance_anchor - a.rate_per_day * moment.days = %(line)s AND a.memory_id > %(after_id)s)"""


async def most_relevant(
    tx: Transaction, *, now: datetime, limit: int, offset: int, after: tuple[str, UUID] | None = None
) -> list[Row]:
    """Return the memories that matter most at `now`: importance faded by time and renewed by use."""
    given: dict[str, Any] = {"now": now, "limit": limit, "offset": offset}
    if after is not None:
        given |= {"line": float(after[0]), "after_id": after[1]}
    return await tx.rows(MOST_RELEVANT.format(after=AFTER_LINE if after else ""), given)


async def counted(tx: Transaction, filters: Question) -> int:
    """Return how many memories pass the filters."""
    conditions, parameters = _conditions(filters)
    row = await tx.row(COUNT.format(conditions=conditions), parameters)
    return int(row["matches"]) if row else 0


async def hidden(tx: Transaction) -> dict[str, int]:
    """Return how many memories no ordinary search shows, by reason; reasons without any are left out."""
    return _reasons(await tx.row(COUNT_HIDDEN) or {})


def _reasons(row: Row) -> dict[str, int]:
    return {name: row[name] for name in ("expired", "archived", "forgotten") if row.get(name)}
