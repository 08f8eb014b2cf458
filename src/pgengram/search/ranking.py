"""Ranking: candidates scored by their features, the best read whole, put in the order of what holds, and judged.

What each of several namespaces has is ranked by itself, then judged together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate, compress
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from pgengram.fields import MAX_LIMIT
from pgengram.search import what_holds
from pgengram.search.candidates import (
    CANDIDATES,
    HIDDEN,
    adds_only,
    rarest,
    set_for_index,
    statement,
    with_vector_search,
)
from pgengram.search.dates import date_pattern
from pgengram.search.features import Candidates, Terms, best_words, features, weights
from pgengram.search.filters import WITH_ACTIVATION, Asked, AskedWord, scope_of
from pgengram.search.results import FITS_STILL, HIT_COLUMNS, Hit, Hits, How, Match, hits_of
from pgengram.search.results.evidence import JUDGED, TURNS_READ, Field, add_probabilities, lead, way_of
from pgengram.search.vector_index import UNRELATED, Embedded, VectorIndex
from pgengram.search.what_holds import note_differing
from pgengram.store.connection.database import Transaction
from pgengram.text.sameness import folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from pgengram.inputs import Question
    from pgengram.search.features import Numbers

COUNTED_WORDS: Final = 63  # of a question, a bit for each
WEIGHT_RELEVANCE: Final = 0.06  # what matters more now, which no data set tells

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
    """Return the score of each candidate: the weighted sum of its features, and of what no data set tells.

    What happened in the time that is asked for weighs as much as a turn that names one where a time is asked.
    """
    import numpy as np

    its = weights("ranking")
    untold = its["when"] * found.period + WEIGHT_RELEVANCE * found.relevance
    return np.asarray(untold + sum(weight * columns[name] for name, weight in its.items()))


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


HOWS: Final[tuple[How, ...]] = ("list", "words", "approximate", "exact")  # one is enough to call the whole so
EARLIEST: Final = "-infinity"
TOLD_APART: Final = 4  # decimals of a fit: each namespace is asked at a moment of its own, by which relevance has faded


@dataclass(frozen=True, slots=True)
class Ranking:
    """What one namespace has for a question, still to be judged.

    found: in their order, from place `first` of the ranking on; nearest: cosines of the nearest hundred, greatest
    first; hidden: the memories that would have fitted, and what they stand among.
    """

    asked: Asked
    found: list[Hit]
    first: int
    field: Field
    nearest: Numbers
    hidden: list[Hit]
    hidden_field: Field
    how: How


def judged(rankings: Sequence[Ranking], offset: int, limit: int) -> Hits:
    """Return a page of what one namespace has, or several have together.

    Args:
        rankings: that of one's own memories first; those of several begin with their best.
        offset: where the page begins.
        limit: how many hits it has.
    """
    asked, found, field = _together(rankings)
    answered, evidence = add_probabilities(asked, found, field)
    found = found[offset - rankings[0].first :][:limit]
    note_differing(found)
    hidden: dict[UUID, str] = {}
    for one in rankings:
        hidden |= _as_fitting(one, found, limit)
    return Hits(found, _least_sure([one.how for one in rankings]), dict([*hidden.items()][:limit]), answered, evidence)


def joined_lists(question: Question, lists: Sequence[Hits], offset: int) -> Hits:
    """Return a page of several lists in the same order as one; each begins at the same place.

    Args:
        question: with the order that they are in, and how many the page has.
        lists: that of one's own memories first.
        offset: how many to skip.
    """
    found = interleaved([[(_list_key(question, hit), hit) for hit in one.found] for one in lists])
    hidden = [item for one in lists for item in one.hidden.items()]
    return Hits(found[offset:][: question.limit], "list", dict(hidden[: question.limit]))


def _together(rankings: Sequence[Ranking]) -> tuple[Asked, list[Hit], Field]:
    """Return several rankings as one: the question as all of them know it, their hits, and what these stand among."""
    import numpy as np

    fitting = [one for one in rankings if one.found] or [rankings[0]]
    if len(fitting) == 1:
        return fitting[0].asked, fitting[0].found, fitting[0].field
    found = interleaved([_by_fit(one.found) for one in rankings])
    asked = _known_by_all([one.asked for one in fitting])
    sharpness = weights("sharpness")[way_of(asked, by_meaning=_by_meaning(found))]
    best = max(one.field.best_fit for one in fitting)
    crowd = sum(one.field.crowd * math.exp(sharpness * (one.field.best_fit - best)) for one in fitting)
    nearest = np.sort(np.concatenate([one.nearest for one in fitting]))[::-1][:CANDIDATES]
    return asked, found, Field(best, crowd, lead(nearest))


def _by_meaning(found: Sequence[Hit]) -> bool:
    return any(hit.match is not None and hit.match.similarity is not None for hit in found)


def interleaved(parts: Sequence[Sequence[tuple[Any, Hit]]]) -> list[Hit]:
    """Return hits by their keys, greatest first; those of each part keep their order.

    Of two that are worth the same that of the first part comes first, and it stands for a copy of it in any other.
    """
    own = {folded(hit.content) for _, hit in parts[0]} if len(parts) > 1 else set[str]()
    found = list[Hit]()
    heads = [0] * len(parts)
    while left := [number for number, part in enumerate(parts) if heads[number] < len(part)]:
        best = max(left, key=lambda number: (parts[number][heads[number]][0], -number))
        hit = parts[best][heads[best]][1]
        heads[best] += 1
        if best == 0 or folded(hit.content) not in own:
            found.append(hit)
    return found


def _by_fit(found: Sequence[Hit]) -> list[tuple[float, Hit]]:
    """Return hits with how well the best of those from each on fits: what holds stands before what held, however it
    fits.
    """
    best = [*accumulate((round(hit.fit, TOLD_APART) for hit in reversed(found)), max)][::-1]
    return [*zip(best, found, strict=True)]


def _list_key(question: Question, hit: Hit) -> tuple[Any, int]:
    key = hit.sort_key or ""
    if question.sort == "relevance" and not scope_of(question).narrowed:
        return float(key), -hit.id.int
    if question.sort in ("importance", "relevance"):
        return float(key), hit.id.int
    return (key != EARLIEST, datetime.fromisoformat(key) if key != EARLIEST else hit.created_at), hit.id.int


def _known_by_all(askeds: Sequence[Asked]) -> Asked:
    """Return a question with all that any namespace knows of its words."""
    words: dict[str, AskedWord] = {}
    for word in (word for asked in askeds for word in asked.words):
        other = words.get(word.text, word)
        words[word.text] = replace(
            word,
            weight=max(word.weight, other.weight),
            known=word.known or other.known,
            is_speaker=word.is_speaker or other.is_speaker,
        )
    speakers = sorted({speaker for asked in askeds for speaker in asked.speakers})
    return replace(askeds[0], words=[*words.values()], speakers=speakers)


def _as_fitting(ranking: Ranking, found: list[Hit], limit: int) -> dict[UUID, str]:
    """Return the status of the hidden memories that fit no less than the last of the hits asked for."""
    hidden = ranking.hidden
    if not hidden or add_probabilities(ranking.asked, hidden, ranking.hidden_field)[1] == "none":
        return {}
    least = FITS_STILL * max(hit.fit for hit in hidden)
    if len(found) >= limit:
        least = max(least, found[-1].fit)
    return {hit.id: hit.status for hit in hidden if hit.fit >= least}


def _least_sure(hows: Sequence[How]) -> How:
    return next(one for one in HOWS if one in hows)
