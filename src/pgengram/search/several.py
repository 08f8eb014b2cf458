"""One answer out of several namespaces: what each has is ranked by itself, then judged together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pgengram.search.candidates import CANDIDATES
from pgengram.search.features import weights
from pgengram.search.filters import Asked, AskedWord, scope_of
from pgengram.search.results.evidence import Field, add_probabilities, lead, way_of
from pgengram.search.results.hits import FITS_STILL, Hit, Hits, How
from pgengram.search.what_holds import note_differing
from pgengram.text.similarity.sameness import folded

if TYPE_CHECKING:
    from pgengram.inputs import Question
    from pgengram.search.features import Numbers

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
    """Return several rankings as one: the question as all of them know it, their hits by how well they fit, and what
    these stand among.
    """
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
