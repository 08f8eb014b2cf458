"""Ranking: every candidate scored by all signals, in one statement."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final, Literal

from pgengram.fields import MAX_LIMIT
from pgengram.inputs import Mode
from pgengram.search.candidates import (
    BM25_K1,
    CANDIDATES,
    MAX_POSTINGS,
    by_meaning,
    by_words,
    in_scope,
    similarity_of,
    sized,
    words_of,
)
from pgengram.search.filters import BY_CLOCK, WITH_ACTIVATION, Scope
from pgengram.search.question import Asked
from pgengram.search.results.evidence import JUDGED, TURNS_READ, asks_for_older, judge
from pgengram.search.results.hits import COUNT_HIDDEN, HIT_COLUMNS, Hits
from pgengram.search.times.dates import written
from pgengram.search.vector_index import Embedded, VectorIndex, Way
from pgengram.search.words_met import ranked_by_words
from pgengram.store.connection.begin import NO_SORT
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.maintenance.indexes import PROBES_NARROWED
from pgengram.store.reading import conflicts, history, outdated
from pgengram.store.schema.turns import SPOKEN
from pgengram.store.schema.visibility import HIDDEN_IDS
from pgengram.text.turn_features import ASKS, CAPITAL, DIGIT, ENDS_ASKING, TIME, TURN

# Weights, chosen on the five even conversations of LoCoMo and rounded by hand. Chosen anew without one of them they
# find a little less in it: R@10 84.1 ± 2.8 % against 85.3 ± 2.8 of these (benchmarks/locomo.py --leave-one-out). Scores
# are fused, not ranks: that is worth 4 to 9 points where one ranker is much weaker than the other.
WEIGHT_MEANING: Final = 0.6  # cosine of question and memory
WEIGHT_WORDS: Final = 0.25  # words as a share of the best candidate's
WEIGHT_WORDS_ALONE: Final = 0.4  # the same where nothing else is known of a memory
WEIGHT_WORDS_PLACED: Final = 0.15  # the same in a conversation, beside the next one
WEIGHT_NAMES: Final = 0.1  # has the names in the question, outside a conversation
WEIGHT_HEARD: Final = 0.25  # the question's words that this turn or the two before have: a reply leaves them out
WEIGHT_AROUND: Final = 0.4  # the best turn near by, as a turn leaves out what was said just before it
WEIGHT_SPEAKER: Final = 0.2  # the speaker is the one person named in the question
WEIGHT_ABSENT: Final = -0.2  # a turn of a conversation without the speakers named in the question
WEIGHT_REPLY: Final = 0.15  # the turn before asked something: how well that fits
WEIGHT_ASKING: Final = -0.06  # a question answers nothing
WEIGHT_TRAIT: Final = 0.05  # each of: a time, a digit, a name inside the sentence
USUAL_TRAITS: Final = 1.5  # of a turn that answers a question, on average
WEIGHT_TIME: Final = 0.1  # names a time, and the question asks when
WEIGHT_PERIOD: Final = 0.2  # happened in the time that the question names; half where it names no year
STORED_THEN: Final = 0.5  # what was stored in that time happened then more likely than not
WEIGHT_RELEVANCE: Final = (
    0.05  # live relevance; small, so memories that neither fit by meaning nor by words cannot win by it
)
WEIGHT_RECENCY: Final = 0.02  # decides between memories that say nearly the same: the newer or newly confirmed one
RECENCY_HALF_LIFE_DAYS: Final = 30
WORDS_SHARE_OF_ASKED: Final = 0.5  # a best match with less than half of what was asked counts as less than a full one
NEAR_BY: Final = 5  # turns before and after
LATELY: Final = 2  # turns before, whose words still hold
FEW_POSTINGS: Final = 2_000  # read as quickly as what the candidates have of a term is looked up
LEAST_SHARE: Final = 0.7  # of a term's weight that a memory of three times the usual length gets for having it once
MOST_SHARE: Final = BM25_K1 + 1  # the most that BM25 gives
COUNTED_WORDS: Final = 63  # of a question, a bit for each
SEEDS: Final = 60  # best candidates whose neighbours are looked at


# The statement is written so that it has one good plan whatever the planner believes about tables that have just been
# filled: sets are materialised once and looked up by hash, tables are reached from them by their keys.

ALLOWED: Final = """allowed AS MATERIALIZED (
  SELECT m.id FROM memories m {activation} WHERE m.namespace_id = %(namespace_id)s AND {conditions})"""


# Signals: each is one reason to rank, from 0 (or less) to 1, and has one weight.
PLACED: Final = "b.placed"  # a turn of a conversation, see `CONVERSATIONS`


def by_neighbours() -> str:
    """The best of the turns near by; a memory outside any conversation is its own surroundings.

    A turn whose conversation was not named counts itself as well, as what was stored beside it may belong to another.
    """
    own = f"CASE WHEN b.traits & {TURN} = 0 THEN b.base END"
    return f"CASE WHEN {PLACED} THEN greatest(0, {own}, max(b.base) OVER near_by) ELSE b.base END"


def has(trait: int) -> str:
    """Return 1 for a turn with this trait, else 0."""
    return f"(b.traits & {trait} <> 0)::integer"


def by_reply() -> str:
    """How well the turn before fits, when another speaker asked something in it."""
    return f"""CASE WHEN {PLACED} AND max(b.voice) OVER before IS DISTINCT FROM b.voice
      THEN coalesce(max(CASE WHEN b.traits & {ASKS} <> 0 THEN b.base END) OVER before, 0) ELSE 0 END"""


def by_heard() -> str:
    """Which of the question's words a turn and those just before it have, by their weight, as a share of all; nothing
    outside a conversation.
    """
    return f"""CASE WHEN {PLACED} THEN
      coalesce((SELECT sum(asked.weight) FROM asked WHERE asked.bit & b.lately_matched <> 0), 0) / best.asked END"""


def by_names() -> str:
    """The share of the names in the question that a memory outside any conversation has."""
    return f"""CASE WHEN b.matched = 0 OR b.traits <> 0 OR {PLACED} THEN 0 ELSE coalesce(
      (SELECT avg((b.matched & name <> 0)::integer) FROM unnest(%(names)s::bigint[]) AS name), 0) END"""


BY_NAMED: Final = "string_to_array(m.voice, ' ') && %(speakers)s::text[]"  # a named speaker says it


def by_speaker() -> str:
    """1 where the speaker is the one person named in the question, else 0."""
    return f"CASE WHEN cardinality(%(speakers)s::text[]) = 1 AND {BY_NAMED} THEN 1 ELSE 0 END"


def by_absent() -> str:
    """1 for a turn of a conversation without the speakers named in the question, as far as its turns are candidates or
    next to one, unless the turn names one of them; else 0.
    """
    return f"CASE WHEN {PLACED} AND NOT b.present AND NOT b.names_them THEN 1 ELSE 0 END"


# Whether a turn names one of the named speakers. Read only where that counts: a text may be long.
NAMES_THEM: Final = f"""CASE WHEN %(speakers)s::text[] = '{{}}' OR m.voice IS NULL AND m.traits & {TURN} = 0 THEN true
      ELSE m.content ~* %(any_speaker)s END"""


def by_traits() -> str:
    """How much a turn looks like one that states a fact: a time, a digit, a name; the average for what is no turn."""
    return f"""CASE WHEN b.traits = 0 AND NOT {PLACED} THEN {USUAL_TRAITS}
      ELSE {has(TIME)} + {has(DIGIT)} + {has(CAPITAL)} END"""


def by_period() -> str:
    """Happened in a time that the question names, as its date or its text says; half as much where it was only stored
    then, and where the question names no year.
    """
    then = "clock.at >= p.start AND clock.at < p.until"
    return f"""CASE WHEN %(starts)s::timestamptz[] = '{{}}' THEN 0 ELSE coalesce((SELECT max(p.fit * CASE
      WHEN m.occurred_at IS NOT NULL AND {then} OR m.content ~* p.written THEN 1
      WHEN m.occurred_at IS NULL AND {then} THEN {STORED_THEN} END)
    FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[], %(written)s::text[], %(fits)s::double precision[])
      AS p(start, until, written, fit), (SELECT {BY_CLOCK} AS at) AS clock), 0) END"""


def by_recency() -> str:
    """How new or newly confirmed it is, halving every month."""
    moment = "coalesce(b.occurred_at, b.last_confirmed_at, b.created_at)"
    age_s = f"greatest(0, date_part('epoch', now()) - date_part('epoch', {moment}))"
    return f"power(0.5, least({age_s} / 86400 / {RECENCY_HALF_LIFE_DAYS}, 100))"


# Signals of the memory `m` alone. A hit says under `why` how strong each is, where it is not 0.
SHOWN_SIGNALS: Final = {"voice": by_speaker, "period": by_period}


def shown_signals() -> str:
    """Return the columns of what is shown under `why` and known of a memory alone."""
    return ", ".join(f"{signal()} AS why_{name}" for name, signal in SHOWN_SIGNALS.items())


def signals() -> dict[str, tuple[float, str]]:
    """Return each signal's weight and value; a memory outside any conversation lives by meaning, words, time and
    relevance.
    """
    share = f"""CASE WHEN {PLACED} THEN {WEIGHT_WORDS_PLACED / WEIGHT_WORDS}
      WHEN b.traits = 0 THEN {WEIGHT_WORDS_ALONE / WEIGHT_WORDS} ELSE 1 END"""
    return {
        "meaning": (WEIGHT_MEANING, "coalesce(b.similarity, 0)"),
        "words": (WEIGHT_WORDS, f"{share} * b.words_share"),
        "names": (WEIGHT_NAMES, by_names()),
        "heard": (WEIGHT_HEARD, "coalesce(b.why_heard, 0)"),
        "around": (WEIGHT_AROUND, "b.around"),
        "reply": (WEIGHT_REPLY, "b.reply"),
        "voice": (WEIGHT_SPEAKER, "b.why_voice"),
        "absent": (WEIGHT_ABSENT, "b.absent"),
        "traits": (WEIGHT_TRAIT, by_traits()),
        "asking": (WEIGHT_ASKING, has(ENDS_ASKING)),
        "time": (WEIGHT_TIME, f"CASE WHEN %(wants_time)s THEN {has(TIME)} ELSE 0 END"),
        "period": (WEIGHT_PERIOD, "b.why_period"),
        "relevance": (WEIGHT_RELEVANCE, "b.relevance"),
        "recency": (WEIGHT_RECENCY, by_recency()),
    }


def score() -> str:
    """Return the weighted sum of all signals."""
    return " + ".join(f"{weight} * ({value})" for weight, value in signals().values())


def statement(scope: Scope, model: VectorIndex | None, mode: Mode = "auto", reach: int = CANDIDATES) -> str:
    """Return the whole ranking: candidates of both arms and their neighbours, every signal of each, best first.

    In mode semantic only meaning counts, of the `reach` nearest; in mode text only words; the rest is the same. Each
    row says besides how many vectors are in scope and how many memories are hidden; without a hit there is one row that
    says only that.
    """
    sets = f"{_scope_set(scope)}, {sized(model, scope)}, {COUNTED}"
    if mode == "semantic":
        return f"WITH {sets}, {_by_meaning_alone(model, scope, reach)} {SHOWN}"
    left_out = words_of("c.memory_id", "NOT asked.rare OR asked.adds AND worded.memory_id IS NULL")
    common = f"CASE WHEN %(some_common)s OR %(some_add)s AND worded.memory_id IS NULL THEN {left_out} ELSE 0 END"
    total = "b.words_share" if mode == "text" else score()
    base = f"{WEIGHT_MEANING} * coalesce(similarity, 0) + {WEIGHT_WORDS_ALONE} * words_share"
    return f"""
WITH {sets}, asked AS MATERIALIZED (
  SELECT * FROM unnest(%(terms)s::integer[], %(weights)s::double precision[], %(rare)s::boolean[], %(adds)s::boolean[], %(bits)s::bigint[])
    AS a(term, weight, rare, adds, bit)
), near AS MATERIALIZED (
  {by_meaning(model, scope)}
), worded AS MATERIALIZED (
  {by_words(scope)}
), seeds AS MATERIALIZED (
  SELECT c.memory_id, coalesce(near.similarity, {similarity_of(model, "c.memory_id")}) AS similarity,
    coalesce(worded.words, 0) + {common} AS words, coalesce(worded.matched, 0) AS matched,
    concat_ws(' and ', CASE WHEN near.memory_id IS NOT NULL THEN 'meaning' END,
              CASE WHEN worded.words > 0 THEN 'words' END) AS found_by
  FROM (SELECT memory_id FROM near
        UNION (SELECT memory_id FROM worded WHERE words > 0 {TEXT_ONLY if mode == "text" else ""}
               ORDER BY words DESC, memory_id DESC LIMIT {ALL_WORDED if mode == "text" else CANDIDATES})) AS c
  LEFT JOIN near USING (memory_id) LEFT JOIN worded USING (memory_id)
), {USUAL}, best AS MATERIALIZED (
  SELECT greatest(max(words), %(most_words)s::double precision, 1e-9) AS words,
    (SELECT greatest(sum(weight), 1e-9) FROM asked WHERE bit <> 0) AS asked FROM seeds
), turns AS MATERIALIZED (
  SELECT m.session_id, m.session_sequence
  FROM (SELECT s.memory_id FROM seeds s CROSS JOIN best
        ORDER BY {WEIGHT_MEANING} * coalesce(s.similarity, 0) + {WEIGHT_WORDS_ALONE} * s.words / best.words DESC LIMIT {SEEDS}) AS s
  CROSS JOIN LATERAL (SELECT m.session_id, m.session_sequence FROM memories m
    WHERE m.namespace_id = %(namespace_id)s AND m.id = s.memory_id AND {SPOKEN.format("m")} OFFSET 0) AS m
), around AS MATERIALIZED (
  SELECT DISTINCT n.memory_id FROM turns CROSS JOIN LATERAL (SELECT n.id AS memory_id FROM memories n
    WHERE n.namespace_id = %(namespace_id)s AND n.session_id = turns.session_id
      AND n.session_sequence BETWEEN turns.session_sequence - {NEAR_BY} AND turns.session_sequence + {NEAR_BY} OFFSET 0) AS n
  WHERE {in_scope(scope, "n.memory_id")} AND n.memory_id NOT IN (SELECT memory_id FROM seeds)
), members AS MATERIALIZED (
  SELECT memory_id, similarity, words, matched, found_by FROM seeds
  UNION ALL
  SELECT c.memory_id, {similarity_of(model, "c.memory_id")}, coalesce(worded.words, 0) + {common}, coalesce(worded.matched, 0), 'conversation'
  FROM around c LEFT JOIN worded USING (memory_id)
), judged AS MATERIALIZED (
  SELECT c.*, m.*, a.*, {base} AS base
  FROM (SELECT members.*, least(members.words / best.words, 1) AS words_share FROM members CROSS JOIN best) AS c
  CROSS JOIN LATERAL (SELECT m.session_id, m.session_sequence, m.voice, m.traits, m.occurred_at, m.last_confirmed_at, m.created_at,
      {BY_NAMED} AS by_named, {NAMES_THEM} AS names_them, {shown_signals()}
    FROM memories m WHERE m.namespace_id = %(namespace_id)s AND m.id = c.memory_id OFFSET 0) AS m
  CROSS JOIN LATERAL (SELECT pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance FROM memory_activation a
    WHERE a.namespace_id = %(namespace_id)s AND a.memory_id = c.memory_id OFFSET 0) AS a
), {CONVERSATIONS}, scored AS MATERIALIZED (
  SELECT b.memory_id, b.similarity, b.words_share, b.found_by, CASE WHEN {PLACED} THEN b.around END AS why_near_by,
    b.why_heard, b.absent, {WHY.format("b")}, {total} AS score
  FROM (SELECT b.*, {by_heard()} AS why_heard, {by_absent()} AS absent FROM surrounded b CROSS JOIN best OFFSET 0) AS b
), cut AS MATERIALIZED (
  SELECT *, max(score) OVER () AS best_score FROM scored WHERE coalesce(similarity, -2) >= %(min_similarity)s {NO_NEIGHBOURS if mode == "text" else ""}
  ORDER BY score DESC, memory_id DESC LIMIT %(limit)s OFFSET %(offset)s
)
{SHOWN}
"""


IN_SEQUENCE: Final = f"ORDER BY b.session_sequence RANGE BETWEEN {NEAR_BY} PRECEDING AND {NEAR_BY} FOLLOWING"
# Turns of a conversation that the caller named, or lines that one connection stored in sequence where at least two
# people speak near by, each more than once: whoever stores a chat without naming it still stores a chat. Most memories
# were stored where nobody speaks, and pass by the sorting that this takes.
CONVERSATIONS: Final = f"""spoken AS MATERIALIZED (
  SELECT session_id, coalesce(bool_or(by_named), false) AS present FROM judged
  WHERE session_id IS NOT NULL AND {SPOKEN.format("judged")} GROUP BY session_id
), heard AS MATERIALIZED (
  SELECT b.*, spoken.present, count(b.voice) OVER (PARTITION BY b.session_id, b.voice {IN_SEQUENCE}) > 1 AS again
  FROM judged b JOIN spoken USING (session_id)
), turned AS MATERIALIZED (
  SELECT b.*, b.traits & {TURN} <> 0 OR b.again AND coalesce(
    min(b.voice) FILTER (WHERE b.again) OVER near_by <> max(b.voice) FILTER (WHERE b.again) OVER near_by, false) AS placed
  FROM heard b WINDOW near_by AS (PARTITION BY b.session_id {IN_SEQUENCE})
), surrounded AS MATERIALIZED (
  SELECT b.*, {by_neighbours()} AS around, {by_reply()} AS reply, bit_or(b.matched) OVER lately AS lately_matched
  FROM turned b
  WINDOW near_by AS (PARTITION BY b.session_id {IN_SEQUENCE} EXCLUDE CURRENT ROW),
         before AS (PARTITION BY b.session_id ORDER BY b.session_sequence RANGE BETWEEN 1 PRECEDING AND 1 PRECEDING),
         lately AS (PARTITION BY b.session_id ORDER BY b.session_sequence RANGE BETWEEN {LATELY} PRECEDING AND CURRENT ROW)
  UNION ALL
  SELECT b.*, true, false, false, b.base, 0, 0 FROM judged b WHERE b.session_id IS NULL OR b.session_id NOT IN (SELECT session_id FROM spoken)
)"""


def _scope_set(scope: Scope) -> str:
    return ALLOWED.format(activation=scope.activation, conditions=scope.conditions) if scope.narrowed else HIDDEN_IDS


def _by_meaning_alone(model: VectorIndex | None, scope: Scope, reach: int) -> str:
    """Return the hits of mode semantic, for which no other signal needs to be known."""
    return f"""near AS MATERIALIZED (
  {by_meaning(model, scope, reach)}
), {USUAL}, cut AS MATERIALIZED (
  SELECT n.memory_id, n.similarity, 0::double precision AS words_share, 'meaning' AS found_by, NULL::double precision AS why_near_by, NULL::double precision AS why_heard,
    0 AS absent, {WHY.format("m")}, n.similarity AS score, (SELECT best_similarity FROM usual) AS best_score
  FROM (SELECT * FROM near WHERE similarity >= %(min_similarity)s
        ORDER BY similarity DESC, memory_id DESC LIMIT %(limit)s OFFSET %(offset)s) AS n
  CROSS JOIN LATERAL (SELECT {shown_signals()} FROM memories m
    WHERE m.namespace_id = %(namespace_id)s AND m.id = n.memory_id OFFSET 0) AS m
)"""


# What the nearest hundred have in common with the question, whatever it is: how near the best one is says less alone.
USUAL: Final = """usual AS MATERIALIZED (
  SELECT count(*) AS near, coalesce(avg(similarity), 0) AS near_similarity, coalesce(max(similarity), 0) AS best_similarity
  FROM (SELECT similarity FROM near ORDER BY similarity DESC LIMIT [candidates]) AS nearest
)""".replace("[candidates]", str(CANDIDATES))
WHY: Final = ", ".join(f"{{0}}.why_{name}" for name in SHOWN_SIGNALS)
# The hits with all that leaves; without a hit still one row, of a memory that has no id.
COUNTED: Final = f"counted AS MATERIALIZED (SELECT * FROM sized CROSS JOIN ({COUNT_HIDDEN}) AS hidden)"
# Which are linked as contradicting is said with them, so that few answers need another question. Uses
# memory_relationships_pkey and memory_relationships_to.
CONTRADICTED: Final = """coalesce(
    (SELECT true FROM memory_relationships r
     WHERE r.namespace_id = %(namespace_id)s AND r.from_id = m.id AND r.type = 'contradicts' LIMIT 1),
    (SELECT true FROM memory_relationships r
     WHERE r.namespace_id = %(namespace_id)s AND r.to_id = m.id AND r.type = 'contradicts' LIMIT 1), false) AS contradicted"""
SHOWN: Final = f"""
SELECT {HIT_COLUMNS}, {CONTRADICTED}, s.similarity, s.words_share, s.why_near_by, s.why_heard, s.absent, {WHY.format("s")}, s.found_by, s.score, s.best_score, usual.*,
  counted.*
FROM counted CROSS JOIN usual LEFT JOIN (cut s JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = s.memory_id {WITH_ACTIVATION}) ON true
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


def adding(counts: list[int], weights: list[float]) -> list[bool]:
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


def searched(scope: Scope, model: VectorIndex | None, namespace_id: int) -> Scope:
    """Return `scope` with the way in which its vectors are searched."""
    way: Way = "each" if model is None else model.way(namespace_id)
    return replace(scope, way="either" if scope.narrowed and way != "each" else way)


async def set_for_index(tx: Transaction, scope: Scope) -> None:
    """Have the index of the vectors taken where a scope is searched by it, with more probes where the scope is
    narrowed.
    """
    if scope.way != "each":
        await tx.set_local(NO_SORT | ({"ivfflat.probes": str(PROBES_NARROWED)} if scope.narrowed else {}))


def parameters(asked: Asked, embedded: Embedded, offset: int) -> dict[str, Any]:
    """Return what `statement` needs to know of a question."""
    parsed, question = asked.parsed, asked.parsed.question
    rare = rarest(asked.counts)
    # Behind a filter a hundred others may not be in scope, and words alone are read page by page.
    may_add = not parsed.scope.narrowed and question.mode != "text"
    adds = adding(asked.counts, asked.weights) if may_add else [False] * len(rare)
    bits = [1 << place if place < COUNTED_WORDS and finds else 0 for place, finds in enumerate(rare)]
    bit_of = dict(zip(asked.terms, bits, strict=True))
    return {
        **parsed.scope.parameters,
        "terms": asked.terms,
        "weights": asked.weights,
        "rare": rare,
        "adds": adds,
        "bits": bits,
        "some_add": any(adds),
        "some_common": not all(rare),
        "most_words": WORDS_SHARE_OF_ASKED * asked.full,
        "names": [sum(bit_of.get(term, 0) for term in terms) for terms in asked.name_terms],
        "speakers": asked.speakers,
        "any_speaker": rf"\m({'|'.join(map(re.escape, asked.speakers))})\M",
        "wants_time": parsed.wants_time,
        "utc_offset": parsed.utc_offset,
        "starts": [period.start for period in parsed.periods],
        "ends": [period.end for period in parsed.periods],
        "written": [written(period) for period in parsed.periods],
        "fits": [1.0 if period.sure else 0.5 for period in parsed.periods],
        "mean_length": asked.mean_length,
        "vector": embedded.parameter,
        "min_similarity": -2.0 if question.min_similarity is None else question.min_similarity,
        "phrases": parsed.phrases,
        "unwanted": asked.unwanted,
        "unwanted_phrases": parsed.unwanted_phrases,
        "limit": question.limit,
        "offset": offset,
    }


async def ranked(tx: Transaction, asked: Asked, embedded: Embedded, offset: int = 0) -> Hits:
    """Return the best hits from `offset` on.

    Raises:
        ModelSwitched: the store has taken another model since the question was embedded.
    """
    model, question = embedded.model_in(tx), asked.parsed.question
    scope = searched(asked.parsed.scope, model, tx.namespace_id)
    reach = CANDIDATES * math.ceil((question.limit + offset) / CANDIDATES)
    text, given = statement(scope, model, question.mode, reach), parameters(asked, embedded, offset)
    ordered, first, last = _stretch(asked, offset)
    given |= {"offset": first, "limit": last - first}
    await set_for_index(tx, scope)
    rows = await tx.rows(text, given)
    vectors = rows[0]["vectors"]
    if model is not None and scope.way == "either" and not scope.narrowed:
        model.note(tx.namespace_id, vectors)
    found = [row for row in rows if row["id"] is not None]
    if ordered and model is not None:
        if first == 0 and embedded.words is not None:
            found = await ranked_by_words(tx, found, embedded.words, model.id)
        found = await outdated.current_first(tx, found, model.id, asks_for_older(asked))
    answered = judge(asked, found, fit_alone if question.mode == "auto" else itemgetter("score"))
    found = found[offset - first :][: question.limit]
    await history.complete(tx, found, question.as_of)
    await conflicts.note(tx, found)
    return Hits(found, _how(embedded.failed, model, vectors), rows[0]["hidden"], answered)


def fit_alone(row: Row) -> float:
    """Return the score of a hit by itself: without what stands near by, without who speaks there, and as it was before
    words were compared.
    """
    fit = row["score"] - row.get("gain", 0) - WEIGHT_SPEAKER * row["why_voice"] - WEIGHT_ABSENT * row["absent"]
    if row["why_near_by"] is not None:
        fit -= WEIGHT_AROUND * row["why_near_by"] + WEIGHT_HEARD * row["why_heard"]
        fit += (WEIGHT_WORDS - WEIGHT_WORDS_PLACED) * row["words_share"]
    return float(fit)


def _stretch(asked: Asked, offset: int) -> tuple[bool, int, int]:
    """Return whether hits are put in the order of what holds now, and the places from and to which they are read."""
    question = asked.parsed.question
    least = TURNS_READ if asked.speaker_key else JUDGED
    if question.mode == "auto" and question.as_of is None and question.limit <= MAX_LIMIT:
        first, last = outdated.whole_parts(offset, question.limit)
        return True, first, max(last, first + least)
    return False, offset, offset + max(question.limit, least)


def _how(failed: bool, model: VectorIndex | None, vectors: int) -> Literal["exact", "approximate", "words"]:
    if failed:
        return "words"
    return "exact" if model is None or vectors <= model.few else "approximate"
