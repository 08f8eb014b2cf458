"""Why a search with filters found nothing: names that no memory has, the nearest that there are, and hits without
them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from pgengram.inputs import Question
from pgengram.search.results.hits import Hit
from pgengram.store.connection.database import Transaction
from pgengram.store.reading.names import alike, names, unknown
from pgengram.store.store import Store
from pgengram.views import EMPTY

NAMED: Final = ("user", "project", "collection", "speaker", "tags")
# Arguments of a search that narrow nothing down.
STEERING: Final = frozenset(
    {
        "query",
        "further_queries",
        "mode",
        "sort",
        "limit",
        "offset",
        "cursor",
        "max_chars",
        "detail",
        "count_only",
        "now",
    }
    | {"embedding", "include", "tags_match"}
)
NARROWING: Final = (*NAMED, *(name for name in Question.model_fields if name not in STEERING.union(NAMED)))
Find = Callable[[Question], Awaitable[list[Hit]]]


async def retold(store: Store, question: Question) -> Question | None:
    """Return a search that found nothing with its names as they are stored; None when that changes nothing."""
    if not (named := _given(question)):
        return None
    changes = await store.read_transaction(lambda tx: _changed_filters(tx, named, question))
    return question.model_copy(update=changes) if changes else None


async def reason(store: Store, question: Question, find: Find) -> str | None:
    """Say why a search found nothing: which names are unknown, and how many hits there are without each filter."""
    if not (given := _given(question, NARROWING)):
        return None
    named = _given(question)
    notes = await store.read_transaction(lambda tx: _unknown_name(tx, named, question)) if named else []
    ways = [[what] for what in given] + ([given] if len(given) > 1 else [])
    for left_out in ways:
        without = {what: Question.model_fields[what].default for what in left_out}
        if found := await find(question.model_copy(update=without)):
            more = " or more" if len(found) == question.limit else ""
            notes.append(f"Without {', '.join(left_out)}: {len(found)}{more} found{_best(found, left_out)}.")
    return " ".join(notes) or None


async def _changed_filters(tx: Transaction, named: list[str], question: Question) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for what in named:
        known = await names(tx, what)
        stored = [next(iter(alike(one, known)), one) for one in _values(question, what)]
        if stored != _values(question, what):
            changes[what] = stored if what == "tags" else stored[0]
    return changes


async def _unknown_name(tx: Transaction, named: list[str], question: Question) -> list[str]:
    known = {what: await names(tx, what) for what in named}
    said = (
        unknown(what, one, known[what])
        for what in named
        for one in _values(question, what)
        if not alike(one, known[what])
    )
    return list(dict.fromkeys(said))


def _best(found: list[Hit], left_out: list[str]) -> str:
    """Say how similar the nearest of some hits is, where a least similarity was left out."""
    nearest = max((hit.match.similarity or 0.0 for hit in found if hit.match), default=0.0)
    return f", the nearest with similarity {nearest:.2f}" if nearest and "min_similarity" in left_out else ""


def _given(question: Question, names_of: tuple[str, ...] = NAMED) -> list[str]:
    return [what for what in names_of if getattr(question, what) not in (*EMPTY, Question.model_fields[what].default)]


def _values(question: Question, what: str) -> list[str]:
    value = getattr(question, what)
    return value if isinstance(value, list) else [value]
