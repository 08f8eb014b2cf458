"""How much of what was found is worth a caller's room."""

from __future__ import annotations

from typing import Final

from pgengram.fields import WHOLE_CONTENT
from pgengram.store.connection.database import Row
from pgengram.text.fencing import fenced
from pgengram.text.similarity.differences import overlap
from pgengram.text.similarity.normalising import folded
from pgengram.views import recalled_line

LIST_LIMIT: Final = 25  # memories that a question for all of something shows, unless it sets a limit of its own
LIST_REACH: Final = 60  # memories that are looked at for it
LIST_FLOOR: Final = 0.4  # of how well the best one fits
SPREAD: Final = 0.5  # of how well the best one fits: what a memory loses that has the very words of one before it
SAME: Final = 0.5  # share of the words of two texts that both have, up to which nothing is lost


def fit_budget(rows: list[Row], max_chars: int | None, *, whole: bool) -> list[Row]:
    """Return as many of the first rows as fit into `max_chars` of content, at least one."""
    if max_chars is None:
        return rows
    fitting: list[Row] = []
    used = 0
    for row in rows:
        used += len(row["content"]) if whole else min(len(row["content"]), WHOLE_CONTENT)
        if fitting and used > max_chars:
            break
        fitting.append(row)
    return fitting


def select_for_context(rows: list[Row], max_chars: int) -> list[Row]:
    """Return the rows that may well answer, no two of which say the same, within the budget."""
    chosen: list[Row] = []
    seen: set[str] = set()
    left = max_chars - len(fenced([]))
    for row in rows:
        said = folded(row["content"])
        if not row.get("recalled", True) or said in seen:
            continue
        length = len(recalled_line(row)) + 1
        if length > left:
            continue  # a shorter one may still fit
        left -= length
        seen.add(said)
        chosen.append(row)
    return chosen


def matching(rows: list[Row]) -> list[Row]:
    """Return the hits that are not far behind the best one."""
    best = max((row["fit"] for row in rows), default=0.0)
    return [row for row in rows if row["fit"] >= LIST_FLOOR * best]


def spread(rows: list[Row]) -> list[Row]:
    """Return the best hits so that what has most words of one before it stands further behind (MMR: Carbonell and
    Goldstein 1998): what is told again and again shall not hide the rest of a list.

    What held stays behind what holds.
    """
    first, rest = rows[:LIST_REACH], rows[LIST_REACH:]
    best = max((row["fit"] for row in first), default=0.0)
    fits = [max(row["fit"] for row in first[place:]) for place in range(len(first))]  # in the order that they have
    alike = [0.0] * len(first)
    left, placed = list(range(len(first))), list[Row]()
    while left:
        outdated = {id_ for place in left for id_ in first[place].get("put_before", ())}
        may = [place for place in left if first[place]["id"] not in outdated]
        chosen = max(may, key=lambda place: fits[place] - SPREAD * best * alike[place])
        left.remove(chosen)
        placed.append(first[chosen])
        for place in left:
            shared = overlap(first[place]["content"], first[chosen]["content"])
            alike[place] = max(alike[place], (shared - SAME) / (1 - SAME))
    return placed + rest


def recalled(rows: list[Row]) -> str:
    """Return the rows as one fenced text; nothing for none."""
    return fenced([recalled_line(row) for row in rows]) if rows else ""
