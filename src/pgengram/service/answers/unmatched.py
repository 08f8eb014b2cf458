"""Why a search with filters found nothing: names that no memory has, the nearest that there are, and hits without
them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from pgengram.inputs import Question
from pgengram.store.connection.database import Transaction
from pgengram.store.reading.names import alike, names, unknown
from pgengram.store.store import Store

NAMED: Final = ("user", "project", "collection", "speaker", "tags")
OTHERS: Final = ("kind", "type", "since", "until", "min_importance", "source", "session_id", "emotion")
Find = Callable[[Question], Awaitable[int]]  # how many hits a question has


async def retold(store: Store, question: Question) -> Question | None:
    """Return a search that found nothing with its names as they are stored; None when that changes nothing."""
    if not (named := _given(question)):
        return None
    changes = await store.read_transaction(lambda tx: _changes(tx, named, question))
    return question.model_copy(update=changes) if changes else None


async def reason(store: Store, question: Question, find: Find) -> str | None:
    """Say why a search found nothing: which names are unknown, and how many hits there are without each filter."""
    if not (given := _given(question, NAMED + OTHERS)):
        return None
    named = _given(question)
    notes = await store.read_transaction(lambda tx: _unknown(tx, named, question)) if named else []
    ways = [[what] for what in given] + ([given] if len(given) > 1 else [])
    for left_out in ways:
        found = await find(question.model_copy(update=dict.fromkeys(left_out)))
        if found:
            more = " or more" if found == question.limit else ""
            notes.append(f"Without {', '.join(left_out)}: {found}{more} found.")
    return " ".join(notes) or None


async def _changes(tx: Transaction, named: list[str], question: Question) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for what in named:
        known = await names(tx, what)
        stored = [next(iter(alike(one, known)), one) for one in _values(question, what)]
        if stored != _values(question, what):
            changes[what] = stored if what == "tags" else stored[0]
    return changes


async def _unknown(tx: Transaction, named: list[str], question: Question) -> list[str]:
    known = {what: await names(tx, what) for what in named}
    said = (
        unknown(what, one, known[what])
        for what in named
        for one in _values(question, what)
        if not alike(one, known[what])
    )
    return list(dict.fromkeys(said))


def _given(question: Question, names_of: tuple[str, ...] = NAMED) -> list[str]:
    return [what for what in names_of if getattr(question, what)]


def _values(question: Question, what: str) -> list[str]:
    value = getattr(question, what)
    return value if isinstance(value, list) else [value]
