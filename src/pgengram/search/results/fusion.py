"""One ranking from the rankings of several questions."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from itertools import takewhile
from typing import Final
from uuid import UUID

from pgengram.fields import MAX_QUERIES
from pgengram.search.results.hits import Hit, Hits
from pgengram.text.sentences import QUESTION_MARKS, letters, sentences

REACH: Final = 50  # hits of each question, so that the first pages are cut from one and the same ranking
WEIGHT_OTHERS: Final = 0.1  # what other questions say of a memory beside its best, and what a part before them loses
LONG: Final = 600  # letters from which on a question is one with a text pasted before it
ASKING: Final = 150  # letters at its end, which ask; only questions, where it ends with some
ENOUGH: Final = 15  # letters of these; "Why?" alone asks nothing
GREEK_QUESTION_MARK: Final = "\u037e"


def question_parts(text: str) -> list[tuple[float, str]]:
    """Return what a question asks, with its weight: itself, or of a long one its last questions (or else its last
    sentences) and the parts before.

    Whoever pastes a text asks after it, and no vector holds thousands of characters.
    """
    if letters(text) <= LONG:
        return [(1.0, text)]
    said = sentences(text)
    questions = [*takewhile(_asks, said[::-1])]
    alone = sum(map(letters, questions)) >= ENOUGH
    asking = _first_sentences(questions if alone else said[::-1], ASKING)[::-1]
    rest = said[: len(said) - len(asking)]
    size = sum(map(letters, rest)) // (MAX_QUERIES - 1) + 1
    pasted = []
    while rest:
        taken = _first_sentences(rest, size)
        rest = rest[len(taken) :]
        pasted.append((1 - WEIGHT_OTHERS, " ".join(taken)))
    return [(1.0, " ".join(asking)), *pasted]


def _asks(sentence: str) -> bool:
    return sentence.rstrip("\"'”’»」』)）").endswith((*QUESTION_MARKS, GREEK_QUESTION_MARK))


def _first_sentences(said: Sequence[str], size: int) -> list[str]:
    """Return as many of the first sentences as reach `size` letters, one at least."""
    taken: list[str] = []
    while len(taken) < len(said) and (not taken or sum(map(letters, [*taken, said[len(taken)]])) <= size):
        taken.append(said[len(taken)])
    return taken


def fused(answers: Sequence[tuple[float, Hits]], first: int, limit: int) -> Hits:
    """Return the memories from place `first` on that fit any of several questions, best first.

    A memory fits as well as it does one question best, and a share of the mean of how it fits the others; its score is
    the best chance it has of answering one.

    Args:
        answers: for each question what it is worth, 0 to 1, and its hits.
        first: how many to skip.
        limit: how many to return.
    """
    found: dict[UUID, list[tuple[float, Hit]]] = {}
    for weight, hits in answers:
        for hit in hits.found:
            found.setdefault(hit.id, []).append((weight * hit.fit, hit))
    best = sorted((_one_hit(its, len(answers)) for its in found.values()), key=lambda hit: -hit.fit)
    hows = {hits.how for _, hits in answers}
    how = next(one for one in ("words", "approximate", "exact") if one in hows)
    hidden = dict(list(ChainMap(*(hits.hidden for _, hits in answers)).items())[:limit])
    surest = max((hits for _, hits in answers), key=lambda hits: -1.0 if hits.answered is None else hits.answered)
    return Hits(best[first : first + limit], how, hidden, surest.answered, surest.evidence)


def _one_hit(its: list[tuple[float, Hit]], questions: int) -> Hit:
    fits = [fit for fit, _ in its]
    best, hit = max(its, key=lambda one: one[0])
    matches = [one.match for _, one in its if one.match is not None]
    if hit.match is not None:
        hit.match.fit = best + WEIGHT_OTHERS * (sum(fits) - best) / max(1, questions - 1)
        hit.match.score = max(match.score for match in matches)
        hit.match.unlikely = all(match.unlikely for match in matches)
        hit.match.recalled = any(match.recalled for match in matches)
    return hit
