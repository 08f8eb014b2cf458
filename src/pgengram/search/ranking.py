"""Ranking: every candidate scored by all its features, best first, and the hits read whole."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pgengram.fields import MAX_LIMIT, bare_id, is_id
from pgengram.search import conflicts, what_holds
from pgengram.search.asked import Asked
from pgengram.search.candidates import CANDIDATES, adding, rarest, statement
from pgengram.search.features import Candidates, Terms, features
from pgengram.search.filters import WITH_ACTIVATION, Scope
from pgengram.search.results.evidence import JUDGED, TURNS_READ, asks_for_older, judge
from pgengram.search.results.hits import COUNT_HIDDEN, HIT_COLUMNS, Hits
from pgengram.search.times.dates import written
from pgengram.search.vector_index import Embedded, VectorIndex, Way
from pgengram.store.connection.begin import NO_SORT
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.maintenance.indexes import PROBES_NARROWED
from pgengram.store.memory.memories import resolve
from pgengram.store.reading import history

if TYPE_CHECKING:
    from uuid import UUID

    from pgengram.search.features import Numbers

MEANING_ALONE, WORDS_ALONE = 0.6, 0.25  # of what a hit is worth by itself, when it is asked whether one answers
COUNTED_WORDS: Final = 63  # of a question, a bit for each
WEIGHTS: Final = Path(__file__).parent / "weights.json"  # fitted by benchmarks/retrieval.py --fit
# No data set tells these: what happened in the time that is asked for; what matters more now; and of what says nearly
# the same the newer.
WEIGHT_PERIOD: Final = 0.25
WEIGHT_RELEVANCE: Final = 0.06
WEIGHT_RECENCY: Final = 0.025
RECENCY_HALF_LIFE_DAYS: Final = 30

# Which are linked as contradicting is said with them, so that few answers need another question. Uses
# memory_relationships_pkey and memory_relationships_to.
CONTRADICTED: Final = """coalesce(
    (SELECT true FROM memory_relationships r
     WHERE r.namespace_id = %(namespace_id)s AND r.from_id = m.id AND r.type = 'contradicts' LIMIT 1),
    (SELECT true FROM memory_relationships r
     WHERE r.namespace_id = %(namespace_id)s AND r.to_id = m.id AND r.type = 'contradicts' LIMIT 1), false) AS contradicted"""
# The hits with all that leaves, in any order; without a hit still one row, of a memory that has no id. Uses memories_pkey.
SHOWN: Final = f"""
SELECT {HIT_COLUMNS}, {CONTRADICTED}, hidden.hidden
FROM ({COUNT_HIDDEN}) AS hidden
LEFT JOIN (memories m {WITH_ACTIVATION}) ON m.namespace_id = %(namespace_id)s AND m.id = ANY(%(ids)s::uuid[])
"""


@cache
def weights() -> dict[str, float]:
    """Return what each feature counts."""
    return dict(json.loads(WEIGHTS.read_text(encoding="utf-8"))["weights"])


def scored(columns: dict[str, Numbers], rows: list[Row]) -> Numbers:
    """Return the score of each candidate: the weighted sum of its features, and of what no data set tells."""
    import numpy as np

    periods, relevance, days = (np.array([row[name] for row in rows]) for name in ("period", "relevance", "age_days"))
    recency = 0.5 ** (np.maximum(days, 0) / RECENCY_HALF_LIFE_DAYS)
    usual = WEIGHT_PERIOD * periods + WEIGHT_RELEVANCE * relevance + WEIGHT_RECENCY * recency
    return np.asarray(usual + sum(weight * columns[name] for name, weight in weights().items()))


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


def parameters(asked: Asked, embedded: Embedded) -> dict[str, Any]:
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
        "names": [sum(bit_of.get(term, 0) for term in terms) for terms in asked.name_terms],
        "utc_offset": parsed.utc_offset,
        "starts": [period.start for period in parsed.periods],
        "ends": [period.end for period in parsed.periods],
        "written": [written(period) for period in parsed.periods],
        "fits": [1.0 if period.sure else 0.5 for period in parsed.periods],
        "mean_length": asked.mean_length,
        "vector": embedded.parameter,
        "phrases": parsed.phrases,
        "unwanted": asked.unwanted,
        "unwanted_phrases": parsed.unwanted_phrases,
    }


async def ranked(tx: Transaction, asked: Asked, embedded: Embedded, offset: int = 0) -> Hits:
    """Return the best hits from `offset` on.

    Raises:
        ModelSwitched: the store has taken another model since the question was embedded.
    """
    model, question = embedded.model_in(tx), asked.parsed.question
    scope = searched(asked.parsed.scope, model, tx.namespace_id)
    reach = CANDIDATES * math.ceil((question.limit + offset) / CANDIDATES)
    await set_for_index(tx, scope)
    named = await _named(tx, question.query)
    given = parameters(asked, embedded) | {"named": named}
    rows = await tx.rows(
        statement(scope, model, question.mode, CANDIDATES if question.mode == "auto" else reach), given
    )
    vectors = rows[0]["vectors"] if rows else 0
    if model is not None and scope.way == "either" and not scope.narrowed:
        model.note(tx.namespace_id, vectors)
    ordered, first, last = _stretch(asked, offset)
    best = _best(asked, rows, given)
    found, hidden = await _whole(tx, best[first:last])
    if ordered and model is not None and not named:
        found = await what_holds.current_first(tx, found, model.id, asks_for_older(asked))
    answered = judge(asked, found)
    found = found[offset - first :][: question.limit]
    await history.complete(tx, found, question.as_of)
    await conflicts.note(tx, found)
    return Hits(found, _how(embedded.failed, model, vectors), hidden, answered)


async def _named(tx: Transaction, query: str) -> list[UUID]:
    """Return the memory whose id a query consists of, whole, or its end or beginning as it is shown; none for other
    queries.
    """
    given = str(bare_id(query))
    return (await resolve(tx, [given])).ids if is_id(given) else []


def _best(asked: Asked, rows: list[Row], given: dict[str, Any]) -> list[Row]:
    """Return what the ranking knows of each candidate, best first: its score, and what is shown of that as `why_…`."""
    import numpy as np

    if not rows:
        return []
    question = asked.parsed.question
    found = Candidates.of(rows)
    terms = Terms(asked.weights, given["bits"], given["names"], asked.full)
    columns = features(found, terms, {*asked.speakers}, asks_when=asked.parsed.wants_time)
    score = {"semantic": columns["meaning"], "text": columns["words"]}.get(question.mode)
    alone = (
        columns["meaning"]
        if question.mode == "semantic"
        else MEANING_ALONE * columns["meaning"] + WORDS_ALONE * columns["words"]
    )
    score = scored(columns, rows) if score is None else score
    is_named = np.isin(np.array(found.ids, dtype=object), given["named"])
    score = np.where(is_named, score.max() + 1, score)
    least = -2.0 if question.min_similarity is None else question.min_similarity
    allowed = is_named | (np.nan_to_num(found.similarity, nan=-2.0) >= least)
    nearest = np.sort(found.similarity[~np.isnan(found.similarity)])[::-1][:CANDIDATES]
    common = {"near": len(nearest), "near_similarity": float(nearest.mean()) if len(nearest) else 0.0,
              "best_similarity": float(nearest[0]) if len(nearest) else 0.0, "best_score": float(score.max())}  # fmt: skip
    order = sorted(np.flatnonzero(allowed), key=lambda place: (score[place], found.ids[place]), reverse=True)
    return [
        {
            "id": found.ids[place],
            "similarity": None if np.isnan(found.similarity[place]) else float(found.similarity[place]),
            "words_share": float(columns["words"][place]),
            "found_by": rows[place]["found_by"],
            "why_near_by": float(columns["shown_near_by"][place]) if columns["in_talk"][place] else None,
            "why_heard": float(columns["shown_heard"][place]),
            "why_voice": float(columns["speaker"][place]),
            "why_period": float(rows[place]["period"]),
            "is_named": bool(is_named[place]),
            "is_of_long_talk": bool(columns["is_long"][place]),
            "alone": float(alone[place]),
            "score": float(score[place]),
            **common,
        }
        for place in order
    ]


async def _whole(tx: Transaction, best: list[Row]) -> tuple[list[Row], dict[str, int]]:
    """Return candidates with all that leaves of them, in their order, and how many memories are hidden, by reason."""
    rows = await tx.rows(SHOWN, {"ids": [one["id"] for one in best]})
    by_id = {row["id"]: row for row in rows}
    return [by_id[one["id"]] | one for one in best if one["id"] in by_id], rows[0]["hidden"]


def _stretch(asked: Asked, offset: int) -> tuple[bool, int, int]:
    """Return whether hits are put in the order of what holds now, and the places from and to which they are read."""
    question = asked.parsed.question
    least = TURNS_READ if asked.speaker_key else JUDGED
    if question.mode == "auto" and question.as_of is None and question.limit <= MAX_LIMIT:
        first, last = what_holds.whole_parts(offset, question.limit)
        return True, first, max(last, first + least)
    return False, offset, offset + max(question.limit, least)


def _how(failed: bool, model: VectorIndex | None, vectors: int) -> Literal["exact", "approximate", "words"]:
    if failed:
        return "words"
    return "exact" if model is None or vectors <= model.few else "approximate"
