"""How much of what was found is worth a caller's room."""

from __future__ import annotations

from typing import Final

from pgengram.fields import WHOLE_CONTENT
from pgengram.store.connection.database import Row
from pgengram.text.fencing import fenced
from pgengram.text.similarity.normalising import folded
from pgengram.views import recalled_line

LIST_LIMIT: Final = 25  # memories that a question for all of something shows, unless it sets a limit of its own
LIST_REACH: Final = 60  # memories that are looked at for it
LIST_FLOOR: Final = 0.4  # of how well the best one fits


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


def gather(rows: list[Row], most: int) -> tuple[list[Row], int]:
    """Return what a question for all of something has as its answer, and how many more match.

    Args:
        rows: hits, best first, more than are shown.
        most: how many to show; those far behind the best one are none of it.
    """
    best = max((row["fit"] for row in rows), default=0.0)
    matching = [row for row in rows if row["fit"] >= LIST_FLOOR * best]
    return matching[:most], len(matching[most:])


def recalled(rows: list[Row]) -> str:
    """Return the rows as one fenced text; nothing for none."""
    return fenced([recalled_line(row) for row in rows]) if rows else ""
