"""How much of what was found is worth a caller's room."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import takewhile
from typing import Final
from uuid import UUID

from pgengram.fields import MAX_QUERIES, WHOLE_CONTENT
from pgengram.ids import short
from pgengram.runtime.context import author_of
from pgengram.search.results import FITS_STILL, Hit, Hits
from pgengram.text.differences import ALIKE, overlap
from pgengram.text.markdown import fenced, one_line
from pgengram.text.sameness import folded
from pgengram.text.words import QUESTION_MARKS, letters, sentences
from pgengram.views import BASE_FIELDS, HIT_FIELDS, Shown, cut, language_view, stated, stated_text, view_of

LIST_LIMIT: Final = 25  # memories that a question for all of something shows, unless it sets a limit of its own
LIST_REACH: Final = 60  # memories that are looked at for it


def fit_budget(hits: list[Hit], max_chars: int | None, *, whole: bool) -> list[Hit]:
    """Return as many of the first hits as fit into `max_chars` of content, at least one."""
    if max_chars is None:
        return hits
    fitting: list[Hit] = []
    used = 0
    for hit in hits:
        used += len(hit.content) if whole else min(len(hit.content), WHOLE_CONTENT)
        if fitting and used > max_chars:
            break
        fitting.append(hit)
    return fitting


def select_for_context(hits: Iterable[Hit], max_chars: int) -> list[Hit]:
    """Return the first hits, no two of which say the same, within the budget."""
    chosen: list[Hit] = []
    seen: set[str] = set()
    left = max_chars - len(fenced([]))
    for hit in hits:
        said = folded(hit.content)
        length = len(recalled_line(hit)) + 1
        if said in seen or length > left:
            continue  # a shorter one may still fit
        left -= length
        seen.add(said)
        chosen.append(hit)
    return chosen


def worth_recalling(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits that may well answer."""
    return [hit for hit in hits if hit.match is None or hit.match.recalled]


def matching(hits: list[Hit]) -> list[Hit]:
    """Return the hits that are not far behind the best one."""
    best = max((hit.fit for hit in hits), default=0.0)
    return [hit for hit in hits if hit.fit >= FITS_STILL * best]


def diversified(hits: list[Hit]) -> list[Hit]:
    """Return the best hits so that what has most words of one before it stands further behind (MMR: Carbonell and
    Goldstein 1998): what is told again and again shall not hide the rest of a list. The very words of one before it
    are worth nothing more.

    What held stays behind what holds.
    """
    first, rest = hits[:LIST_REACH], hits[LIST_REACH:]
    best = max((hit.fit for hit in first), default=0.0)
    fits = [max(hit.fit for hit in first[place:]) for place in range(len(first))]  # in the order that they have
    alike = [0.0] * len(first)
    left, placed = list(range(len(first))), list[Hit]()
    while left:
        outdated = {id_ for place in left if (match := first[place].match) for id_ in match.succeeds}
        may = [place for place in left if first[place].id not in outdated]
        chosen = max(may, key=lambda place: fits[place] - best * alike[place])
        left.remove(chosen)
        placed.append(first[chosen])
        for place in left:
            shared = overlap(first[place].content, first[chosen].content)
            alike[place] = max(alike[place], (shared - ALIKE) / (1 - ALIKE))
    return placed + rest


def recall_text(hits: Sequence[Hit]) -> str:
    """Return the hits as one fenced text; nothing for none."""
    return fenced([recalled_line(hit) for hit in hits]) if hits else ""


def hit_view(hit: Hit, *, detail: bool) -> Shown:
    """Return one search hit with the parts of its score."""
    view = view_of(vars(hit), BASE_FIELDS if detail else HIT_FIELDS)
    view["content"] = hit.content if detail else cut(hit.content, WHOLE_CONTENT)
    if view["content"] != hit.content:
        view["truncated"] = True
    view |= language_view(hit.content)
    if (match := hit.match) is not None:
        view["score"] = round(match.score, 4)
        if match.unlikely:
            view["unlikely"] = True
        view["why"] = {
            "similarity": None if match.similarity is None else round(match.similarity, 4),
            "distance": None if match.similarity is None else round(1 - match.similarity, 4),
            "words": round(match.words, 4),
            "relevance": round(hit.relevance, 4),
            "found_by": match.found_by,
            **{name: round(value, 4) for name, value in match.why.items()},
        }
    return view


def recalled_line(hit: Hit, day: date | None = None) -> str:
    """Return one memory as a line of recalled text: the day on which it is due, what, when it was stated last, when it
    happens, how it got here, and the end of its id.
    """
    told, happens = stated(vars(hit)), hit.occurred_at
    when = f", when {happens:%Y-%m-%d}" if happens and happens.date() not in (told.date(), day) else ""
    source = f", {hit.speaker}" if hit.speaker else ""
    author = hit.author or author_of(hit.person_id)
    source += f", shared by {author}" if author else ""
    sure = ", inferred" if hit.capture_mode == "inferred" else ""
    beside = {
        "newer than": hit.older,
        "perhaps replaced by": hit.newer,
        "disagrees with": [other["id"] for other in hit.conflicts_with],
    }
    notes = "".join(f"; {what} {', '.join(map(short, ids))}" for what, ids in beside.items() if ids)
    due = f"{day}: " if day else ""
    at = stated_text(told, exactly=bool(hit.conflicts_with))
    return f"- {due}{one_line(hit.content)} (stated {at}{when}{one_line(source)}{sure}; {short(hit.id)}{notes})"


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
