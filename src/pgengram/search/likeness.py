"""Memories that mean nearly the same as given ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from pgengram.inputs import Question
from pgengram.search.candidates import by_meaning, set_for_index, sized, with_vector_search
from pgengram.search.filters import scope_of
from pgengram.search.vector_index import VectorIndex
from pgengram.store.connection.database import Transaction
from pgengram.store.schema.visibility import HIDDEN_IDS

# Where a memory lies: the mean of its parts. Uses memory_vectors_pkey.
PLACES: Final = """
SELECT memory_id AS id, avg(embedding) AS vector FROM memory_vectors
WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s) AND model_id = %(model_id)s GROUP BY memory_id
"""
# Uses what by_meaning uses.
NEAREST: Final = """
WITH {hidden}, {sized}, near AS MATERIALIZED ({by_meaning}) SELECT * FROM near WHERE similarity > %(above)s
"""


async def neighbours(
    tx: Transaction, model: VectorIndex, ids: Sequence[UUID], *, above: float, limit: int
) -> dict[UUID, tuple[float, UUID]]:
    """Return the active memories most like the given ones: for each its cosine and which one it is like, best first.

    Args:
        tx: the namespace's transaction.
        model: whose vectors are compared.
        ids: the memories to stand beside; a memory without a vector has no neighbours.
        above: a cosine that all of them exceed.
        limit: how many at most.
    """
    places = await tx.rows(PLACES, {"ids": list(ids), "model_id": model.id})
    scope = with_vector_search(scope_of(Question()), model, tx.namespace_id)
    await set_for_index(tx, scope)
    nearest = NEAREST.format(hidden=HIDDEN_IDS, sized=sized(model, scope), by_meaning=by_meaning(model, scope))
    found: dict[UUID, tuple[float, UUID]] = {}
    for place in places:
        given: dict[str, Any] = {**scope.parameters, "vector": place["vector"], "above": above}
        for row in await tx.rows(nearest, given):
            known = found.get(row["memory_id"])
            if row["memory_id"] not in ids and (known is None or known[0] < row["similarity"]):
                found[row["memory_id"]] = (row["similarity"], place["id"])
    best = sorted(found.items(), key=lambda one: (-one[1][0], one[0]))
    return dict(best[:limit])


# The least that any search by meaning does: the nearest vectors, whatever they are of. Uses the model's index, or none
# where something is added to the distance.
ALONE: Final = """
SELECT memory_id FROM memory_vectors WHERE namespace_id = %(namespace_id)s AND model_id = {model}
ORDER BY (embedding::halfvec({dimensions}) <=> %(vector)b::halfvec({dimensions})) {exactly} LIMIT 10
"""


async def vectors_alone(tx: Transaction, model: VectorIndex, vector: Any, *, exact: bool) -> list[UUID]:
    """Return the memories of the ten nearest vectors; a measure's floor, which is what no search can be faster than.

    Args:
        tx: the namespace's transaction.
        model: whose vectors are compared.
        vector: as `vectors_parameter` gives it.
        exact: look at every vector; else the index answers where there is one.
    """
    statement = ALONE.format(model=int(model.id), dimensions=int(model.dimensions), exactly="+ 0" if exact else "")
    return [row["memory_id"] for row in await tx.rows(statement, {"vector": vector})]
