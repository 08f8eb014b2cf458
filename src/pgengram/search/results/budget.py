"""How much of what was found is worth a caller's room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Final

from pgengram.fields import WHOLE_CONTENT
from pgengram.ids import short
from pgengram.runtime.context import author_of
from pgengram.search.results.hits import FITS_STILL, Hit
from pgengram.text.fencing import fenced, one_line
from pgengram.text.similarity.differences import overlap
from pgengram.text.similarity.normalising import folded
from pgengram.views import BASE_FIELDS, HIT_FIELDS, Shown, cut, language_view, stated, view_of

LIST_LIMIT: Final = 25  # memories that a question for all of something shows, unless it sets a limit of its own
LIST_REACH: Final = 60  # memories that are looked at for it
SAME: Final = 0.5  # share of the words of two texts that both have, up to which nothing is lost
SPREAD: Final = 0.5  # of how well the best one fits: what a memory loses that has the very words of one before it


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
    Goldstein 1998): what is told again and again shall not hide the rest of a list.

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
        chosen = max(may, key=lambda place: fits[place] - SPREAD * best * alike[place])
        left.remove(chosen)
        placed.append(first[chosen])
        for place in left:
            shared = overlap(first[place].content, first[chosen].content)
            alike[place] = max(alike[place], (shared - SAME) / (1 - SAME))
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
    told, happens = stated(vars(hit)).date(), hit.occurred_at
    when = f", when {happens:%Y-%m-%d}" if happens and happens.date() not in (told, day) else ""
    source = f", {hit.speaker}" if hit.speaker else ""
    author = author_of(hit.person_id)
    source += f", shared by {author}" if author else ""
    sure = ", inferred" if hit.capture_mode == "inferred" else ""
    beside = {
        "newer than": hit.older,
        "perhaps replaced by": hit.newer,
        "disagrees with": [other["id"] for other in hit.conflicts_with],
    }
    notes = "".join(f"; {what} {', '.join(map(short, ids))}" for what, ids in beside.items() if ids)
    due = f"{day}: " if day else ""
    return f"- {due}{one_line(hit.content)} (stated {told}{when}{one_line(source)}{sure}; {short(hit.id)}{notes})"
