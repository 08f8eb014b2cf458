"""Ranking: candidates scored by their features, the best read whole, put in the order of what holds, and judged."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from pgengram.fields import MAX_LIMIT
from pgengram.search import what_holds
from pgengram.search.candidates import (
    CANDIDATES,
    HIDDEN,
    PERHAPS,
    adds_only,
    rarest,
    set_for_index,
    statement,
    with_vector_search,
)
from pgengram.search.features import Candidates, Terms, best_words, features, weights
from pgengram.search.filters import WITH_ACTIVATION, Asked
from pgengram.search.results.evidence import JUDGED, TURNS_READ, Field, lead, way_of
from pgengram.search.results.hits import HIT_COLUMNS, Hit, Hits, How, Match, hits_of
from pgengram.search.several import Ranking, judged
from pgengram.search.times.dates import date_pattern
from pgengram.search.vector_index import UNRELATED, Embedded, VectorIndex
from pgengram.store.connection.database import Transaction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pgengram.search.features import Numbers

COUNTED_WORDS: Final = 63  # of a question, a bit for each
# No data set tells these: what happened in the time that is asked for, and what matters more now.
WEIGHT_PERIOD: Final = 0.25
WEIGHT_RELEVANCE: Final = 0.06

# The hits with all that leaves, in any order. Which are linked as contradicting is read with them, so that few answers
# need another statement. Uses memories_pkey, memory_relationships_pkey and memory_relationships_to.
SHOWN: Final = f"""
SELECT {HIT_COLUMNS}, coalesce(
    (SELECT true FROM memory_relationships r
     WHERE r.namespace_id = %(namespace_id)s AND r.from_id = m.id AND r.type = 'contradicts' LIMIT 1),
    (SELECT true FROM memory_relationships r
     WHERE r.namespace_id = %(namespace_id)s AND r.to_id = m.id AND r.type = 'contradicts' LIMIT 1), false) AS contradicted
FROM memories m {WITH_ACTIVATION} WHERE m.namespace_id = %(namespace_id)s AND m.id = ANY(%(ids)s::uuid[])
"""


def scored(columns: dict[str, Numbers], found: Candidates) -> Numbers:
    """Return the score of each candidate: the weighted sum of its features, and of what no data set tells."""
    import numpy as np

    usual = WEIGHT_PERIOD * found.period + WEIGHT_RELEVANCE * found.relevance
    return np.asarray(usual + sum(weight * columns[name] for name, weight in weights("ranking").items()))


def statement_parameters(asked: Asked, embedded: Embedded) -> dict[str, Any]:
    """Return what `statement` needs to know of a question."""
    parsed, question = asked.parsed, asked.parsed.question
    rare = rarest(asked.counts)
    # Behind a filter a hundred others may not be in scope, and words alone are read page by page.
    may_add = not parsed.scope.narrowed and question.mode != "text"
    adds = adds_only(asked.counts, asked.weights) if may_add else [False] * len(rare)
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
        "written": [date_pattern(period) for period in parsed.periods],
        "fits": [1.0 if period.sure else PERHAPS for period in parsed.periods],
        "mean_length": asked.mean_length,
        "vector": embedded.parameter,
        "named": asked.ids,
        "limit": question.limit,
        "phrases": parsed.phrases,
        "unwanted": asked.unwanted,
        "unwanted_phrases": parsed.unwanted_phrases,
    }


async def ranked(tx: Transaction, asked: Asked, embedded: Embedded, offset: int = 0) -> Hits:
    """Return the best hits from `offset` on.

    Raises:
        ModelSwitched: the store has taken another model since the question was embedded.
    """
    return judged([await ranking_of(tx, asked, embedded, offset)], offset, asked.parsed.question.limit)


async def ranking_of(
    tx: Transaction, asked: Asked, embedded: Embedded, offset: int = 0, candidates: int = CANDIDATES
) -> Ranking:
    """Return what the namespace of a transaction has for a page that begins at `offset`, and some around it.

    Args:
        tx: the namespace's transaction.
        asked: the question.
        embedded: its vector.
        offset: where the page begins.
        candidates: of each arm in mode auto.

    Raises:
        ModelSwitched: the store has taken another model since the question was embedded.
    """
    model, question = embedded.model_in(tx), asked.parsed.question
    scope = with_vector_search(asked.parsed.scope, model, tx.namespace_id)
    if offset:
        scope = replace(scope, hidden=None)
    reach = CANDIDATES * math.ceil((question.limit + offset) / CANDIDATES)
    await set_for_index(tx, scope)
    given = statement_parameters(asked, embedded)
    read = await tx.columns(
        statement(scope, model, question.mode, candidates if question.mode == "auto" else reach), given
    )
    vectors = next(iter(read["vectors"]), 0)
    if model is not None and scope.way == "either" and not scope.narrowed:
        model.note(tx.namespace_id, vectors)
    mean_cosine = UNRELATED if model is None else await model.mean_cosine(tx)
    ordered, first, last = _stretch(asked, offset)
    best, hidden = _ranked(asked, read, given, mean_cosine, last)
    found, hidden_hits = await _whole(tx, best.matches[first:last], hidden.matches)
    if ordered and model is not None and not asked.ids:
        found = await what_holds.current_first(tx, found, model, asked)
    await what_holds.note_linked(tx, found[offset - first :][: question.limit])
    how = _how(embedded.failed, model, vectors)
    return Ranking(asked, found, first, best.field, best.nearest, hidden_hits, hidden.field, how)


class _Ranked(NamedTuple):
    """What the ranking knows of memories, best first, and what they stand among."""

    matches: list[tuple[UUID, Match]]
    field: Field
    nearest: Numbers


def _ranked(
    asked: Asked, read: Mapping[str, Sequence[Any]], given: dict[str, Any], mean_cosine: float, last: int
) -> tuple[_Ranked, _Ranked]:
    """Rank the candidates, of which the best `last` are told, and the hidden memories as if they were some."""
    is_hidden = [how == HIDDEN for how in read["found_by"]]
    apart = (
        {name: [*compress(column, counted)] for name, column in read.items()}
        for counted in ([not hidden for hidden in is_hidden], is_hidden)
    )
    found, hidden = (Candidates.of(part, mean_cosine) for part in apart)
    terms = Terms(asked.weights, given["bits"], given["names"], asked.full)
    most = best_words((found, hidden), terms)
    limit = asked.parsed.question.limit
    return _ranked_together(asked, found, terms, most, last), _ranked_together(asked, hidden, terms, most, limit)


def _ranked_together(asked: Asked, found: Candidates, terms: Terms, most: float, last: int) -> _Ranked:
    import numpy as np

    if not found.ids:
        return _Ranked([], Field(), np.empty(0))
    question = asked.parsed.question
    columns = features(found, terms, {*asked.speakers}, most, asks_when=asked.parsed.wants_time)
    if np.isnan(found.similarity).all():  # without vectors words stand for meaning, too
        columns["meaning"] = columns["words"]
    alone = {"semantic": columns["meaning"], "text": columns["words"]}
    fit = alone[question.mode] if question.mode in alone else scored(columns, found)
    is_named = np.array([id_ in asked.ids for id_ in found.ids])
    fit = np.where(is_named, fit.max() + 1, fit)
    least = -2.0 if question.min_similarity is None else question.min_similarity
    allowed = is_named | (np.nan_to_num(found.similarity, nan=-2.0) >= least)
    why = {"near_by": columns["shown_near_by"], "heard": columns["shown_heard"], "voice": columns["speaker"],
           "period": found.period}  # fmt: skip
    order = _best_places(fit, allowed, found.ids, last)
    matches = [
        (
            found.ids[place],
            Match(
                fit=float(fit[place]),
                similarity=None if np.isnan(found.similarity[place]) else float(found.similarity[place]),
                words=float(columns["words"][place]),
                found_by=found.found_by[place],
                why={name: float(column[place]) for name, column in why.items() if column[place]},
                standalone=float(columns["base"][place]),
                is_named=bool(is_named[place]),
                is_of_long_talk=bool(columns["is_long"][place]),
            ),
        )
        for place in order
    ]
    best = float(fit.max())
    by_meaning = bool((allowed & ~np.isnan(found.similarity)).any())
    sharpness = weights("sharpness")[way_of(asked, by_meaning=by_meaning)]
    nearest = np.sort(found.meaning[~np.isnan(found.meaning)])[::-1][:CANDIDATES]
    return _Ranked(matches, Field(best, float(np.exp(sharpness * (fit - best)).sum()), lead(nearest)), nearest)


def _best_places(fit: Numbers, allowed: NDArray[np.bool_], ids: Sequence[UUID], count: int) -> list[int]:
    """Return the places of the best `count` that are allowed; of equal ones the newest first."""
    import numpy as np

    places = np.flatnonzero(allowed)
    if len(places) > count:
        least = np.partition(fit[places], len(places) - count)[len(places) - count]
        places = places[fit[places] >= least]
    return sorted(map(int, places), key=lambda place: (fit[place], ids[place]), reverse=True)[:count]


async def _whole(tx: Transaction, *parts: Sequence[tuple[UUID, Match]]) -> list[list[Hit]]:
    """Return candidates with all that leaves of them, in their order."""
    ids = [id_ for part in parts for id_, _ in part]
    by_id = {hit.id: hit for hit in hits_of(await tx.rows(SHOWN, {"ids": ids}))} if ids else {}
    found = []
    for part in parts:
        found.append([by_id[id_] for id_, _ in part if id_ in by_id])
        for id_, match in part:
            if id_ in by_id:
                by_id[id_].match = match
    return found


def _stretch(asked: Asked, offset: int) -> tuple[bool, int, int]:
    """Return whether hits are put in the order of what holds now, and the places from and to which they are read."""
    question = asked.parsed.question
    least = TURNS_READ if asked.speaker_key else JUDGED
    if question.mode == "auto" and question.as_of is None and question.limit <= MAX_LIMIT:
        first, last = what_holds.whole_parts(offset, question.limit)
        return True, first, max(last, first + least)
    return False, offset, offset + max(question.limit, least)


def _how(failed: bool, model: VectorIndex | None, vectors: int) -> How:
    if failed:
        return "words"
    return "exact" if model is None or vectors <= model.few else "approximate"
