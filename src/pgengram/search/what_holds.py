"""Which of the memories found tells what holds, and which what held: the first stands before the second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Final
from uuid import UUID

from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory.succession import (
    BEFORE,
    NAMED,
    Succession,
    comparable,
    crowding,
    may_have_changed,
    succeeds,
    surest,
)

TOGETHER: Final = 20  # places that are put in order together; pairs grow with the square
FITS_STILL: Final = 1 / 3  # of the older one's score, that the newer has to have

# By the first parts of two texts. Uses memory_vectors_pkey.
COSINES: Final = """
WITH asked AS MATERIALIZED (
  SELECT h.part_of, v.memory_id, v.embedding FROM unnest(%(ids)s::uuid[], %(parts)s::integer[]) AS h(id, part_of)
  CROSS JOIN LATERAL (SELECT v.memory_id, v.embedding FROM memory_vectors v
    WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = h.id AND v.model_id = %(model_id)s AND v.part = 0 OFFSET 0) AS v
)
SELECT one.memory_id AS one, other.memory_id AS other, 1 - (one.embedding <=> other.embedding) AS cosine
FROM asked AS one JOIN asked AS other USING (part_of) WHERE one.memory_id <> other.memory_id
"""

Cosines = dict[UUID, dict[UUID, float]]
Meant = Callable[[Row, Row], bool]


def whole_parts(offset: int, limit: int) -> tuple[int, int]:
    """Return the places from and to which hits are put in order, so that pages of any size agree."""
    first = offset - offset % TOGETHER
    return first, first - (first - offset - limit) // TOGETHER * TOGETHER


async def current_first(tx: Transaction, rows: Sequence[Row], model_id: int, older_is_meant: Meant) -> list[Row]:
    """Return hits so that what tells what holds now stands no later than what told of it before.

    Such a row gets `put_before`, the ids of those that it was put before, `stands_for`, the best score of these, and
    `older`, those that it surely succeeds. A correction in other words may hardly fit the question: then the row that it
    succeeds stays where it is and gets `newer`.

    Args:
        tx: the namespace's transaction.
        rows: the hits, best first, beginning at a place that `whole_parts` gives.
        model_id: the model whose vectors are compared.
        older_is_meant: whether the question is after the second of two rather than the first, which is newer.
    """
    parts = [rows[start : start + TOGETHER] for start in range(0, len(rows), TOGETHER)]
    worth_it = [part for part in parts if any(_successions(part))]
    if not worth_it:
        return [*rows]
    cosines = await _cosines(tx, worth_it, model_id)
    return [row for part in parts for row in _in_order(part, cosines, older_is_meant)]


async def _cosines(tx: Transaction, parts: Sequence[Sequence[Row]], model_id: int) -> Cosines:
    """Return how near the hits of each part are to each other."""
    given = {
        "ids": [row["id"] for part in parts for row in part],
        "parts": [number for number, part in enumerate(parts) for _ in part],
        "model_id": model_id,
    }
    cosines: Cosines = defaultdict(dict)
    for pair in await tx.rows(COSINES, given):
        cosines[pair["one"]][pair["other"]] = pair["cosine"]
    return cosines


def _successions(rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Yield each newer row with an older one that it may succeed."""
    for newer, older in permutations((row for row in rows if row["status"] == "active"), 2):
        if may_have_changed(newer, older) and comparable(newer, older):
            yield newer, older


def _in_order(rows: Sequence[Row], cosines: Cosines, older_is_meant: Meant) -> list[Row]:
    by_id = {row["id"]: row for row in rows}
    stands_behind: dict[UUID, list[Row]] = defaultdict(list)
    for (newer_id, older_id), evidence in surest(_judged(rows, cosines), BEFORE):
        newer, older = by_id[newer_id], by_id[older_id]
        if older_is_meant(newer, older):  # both may be so at once, and one of them is asked for
            stands_behind[newer_id].append(older)
        elif newer["score"] < FITS_STILL * older["score"]:
            older.setdefault("newer", []).append(str(newer_id))
        else:
            stands_behind[older_id].append(newer)
            newer["stands_for"] = max(newer.get("stands_for", newer["score"]), older["score"])
            newer.setdefault("put_before", set()).add(older_id)
            if evidence >= NAMED:
                newer.setdefault("older", []).append(str(older_id))
    placed: dict[UUID, Row] = {}
    waiting: set[UUID] = set()

    def place(row: Row) -> None:
        """Place a row behind those that stand before it, whatever these wait for."""
        if row["id"] not in waiting:
            waiting.add(row["id"])
            for other in stands_behind[row["id"]]:
                place(other)
            placed[row["id"]] = row

    for row in rows:
        place(row)
    return [*placed.values()]


def _judged(rows: Sequence[Row], cosines: Cosines) -> Iterator[tuple[Succession, float]]:
    """Yield each newer row with an older one that it may succeed, and the evidence."""
    for newer, older in _successions(rows):
        yield (newer["id"], older["id"]), _evidence(newer, older, cosines)


def _evidence(newer: Row, older: Row, cosines: Cosines) -> float:
    cosine = cosines[newer["id"]].get(older["id"], 0.0)
    pair = (newer["id"], older["id"])
    crowded = [crowding(value for id_, value in cosines[one].items() if id_ not in pair) for one in pair]
    return succeeds(newer, older, cosine, sum(crowded) / 2)
