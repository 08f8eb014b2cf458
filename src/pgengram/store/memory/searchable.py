"""What memories are found by, their vectors and their words, kept true to their text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from pgengram.embedders.vectors import Passage
from pgengram.errors import ModelSwitched
from pgengram.store.connection.adapters import vectors_of
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory import statements as s
from pgengram.text.derived import TURN, derived


async def set_vectors(tx: Transaction, id_: UUID, parts: Passage, model_id: int | None) -> None:
    """Replace every vector of a memory, of whatever model, by those of its new text.

    Raises:
        ModelSwitched: the vectors are not of the active model.
    """
    await tx.run(s.DROP_VECTORS, {"id": id_})
    await add_vectors(tx, [(id_, parts)], model_id)


async def add_vectors(tx: Transaction, parts_of: Sequence[tuple[UUID, Passage]], model_id: int | None) -> None:
    """Store the vectors of memories that have none.

    Raises:
        ModelSwitched: the vectors are not of the active model.
    """
    given = vectors_of(parts_of)
    if given["vectors"] and not await tx.run(s.ADD_VECTORS, {"model_id": model_id, **given}):
        raise ModelSwitched


async def hold_words(tx: Transaction, ids: Sequence[UUID]) -> dict[str, list[Any]]:
    """Lock the words of locked memories and the lists that hold them; whoever changes several does so before the first.

    Returns the places of the lists, `segments` and `terms`, pair by pair.
    """
    found = await tx.rows(s.LOCK_WORDS, {"ids": list(ids)})
    places = {(row["segment"], term) for row in found if row["segment"] for term in row["terms"]}
    where = {"segments": [segment for segment, _ in places], "terms": [term for _, term in places]}
    if places:
        await tx.rows(s.LOCK_LISTS, where)
    return where


async def _take_out(tx: Transaction, ids: Sequence[UUID]) -> None:
    where = await hold_words(tx, ids)
    if where["terms"]:
        await tx.run(s.DROP_FROM_LISTS, {**where, "ids": list(ids)})
        await tx.run(s.DROP_EMPTY_LISTS, where)


async def unpost(tx: Transaction, ids: Sequence[UUID]) -> None:
    """Let no search by words find locked memories any more; their own lists of words stay."""
    await _take_out(tx, ids)
    await tx.run(s.HIDE_WORDS, {"ids": list(ids)})


async def set_words(tx: Transaction, rows: Sequence[Row]) -> None:
    """Make locked memories found by the words they have now, those that are active."""
    ids = [row["id"] for row in rows]
    await _take_out(tx, ids)
    await tx.run(s.DROP_WORDS, {"ids": ids})
    await tx.run(s.ADD_WORDS, {"rows": Jsonb([_searched(row) for row in rows])})


def _searched(row: Row) -> dict[str, Any]:
    follows = derived(row, tags=row["tags"], detail=row["detail"], in_conversation=bool(row["turn_features"] & TURN))
    words = {"searched": follows.searched, "extra": follows.extra}
    return {"id": str(row["id"]), "active": row["status"] == "active", **words}
