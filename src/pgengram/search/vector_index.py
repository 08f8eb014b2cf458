"""The embedding model of a question, and vectors that it made."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import Any, Final, Literal

from pgengram.errors import ModelSwitched
from pgengram.store.connection.begin import PROBES
from pgengram.store.connection.database import Transaction
from pgengram.store.connection.pool import vectors_parameter

# Fewer are compared each: half a microsecond a vector, complete, and the same whatever others store.
EXACT_ROWS: Final = 5_000
UNRELATED: Final = 0.08  # mean cosine of two memories of one store by the built-in model, whose vectors are centred
GOOD_FOR_S: Final = 60.0  # that a count of vectors is remembered
MEMORIES_TO_TELL: Final = 20  # below this a mean or a share of a store's memories says little
DEAR: Final = 100  # memories from which on their mean is worth remembering, and hardly moved by a few more
Way = Literal["each", "index", "either"]
# The mean cosine of two memories, of each with all others: of n unit vectors with the mean m it is (n m² - 1) / (n -
# 1). Uses memory_vectors_pkey.
MEAN_COSINE: Final = """
SELECT count(*) AS memories, -(avg(embedding) <#> avg(embedding)) AS common FROM (
  SELECT embedding FROM memory_vectors WHERE namespace_id = %(namespace_id)s AND model_id = %(model_id)s AND part = 0 LIMIT 1000) AS v
"""


@dataclass(slots=True)
class VectorIndex:
    """The embedding model of a question: its key, its length and whether its index is there.

    rows: vectors of all namespaces when they were last counted; sizes: for each namespace until when it is held to have
        few or many; is_centred: whether its embedder
        takes from each vector what all have in common; mean_cosines: for each namespace until when its mean cosine is
        held to be which.
    """

    id: int
    dimensions: int
    indexed: bool = False
    rows: int = 0
    sizes: dict[int, tuple[float, Way]] = field(default_factory=dict)
    is_centred: bool = True
    mean_cosines: dict[int, tuple[float, float]] = field(default_factory=dict)

    @property
    def few(self) -> int:
        """How many vectors are compared one by one.

        The index holds the vectors of all namespaces: for one with fewer than the lists visited hold together, to
        compare each is cheaper and complete, and takes no longer when others grow.
        """
        return max(EXACT_ROWS, PROBES * isqrt(self.rows))

    def way(self, namespace_id: int) -> Way:
        """Return how the memories of a namespace are searched when nothing narrows the question."""
        if not self.indexed:
            return "each"
        until, way = self.sizes.get(namespace_id, (0.0, "either"))
        return way if time.monotonic() < until else "either"

    def note(self, namespace_id: int, vectors: int) -> None:
        """Remember for a while how many vectors were counted, unless they are about as many as the border."""
        if vectors < self.few // 2 or vectors > self.few:
            way: Way = "each" if vectors < self.few else "index"
            self.sizes[namespace_id] = (time.monotonic() + GOOD_FOR_S, way)

    async def mean_cosine(self, tx: Transaction) -> float:
        """Return the mean cosine of two memories, as what the vectors of a model have in common; `UNRELATED` where
        its embedder takes that already, and where there are no two memories.
        """
        if self.is_centred:
            return UNRELATED
        until, known = self.mean_cosines.get(tx.namespace_id, (0.0, UNRELATED))
        if until < time.monotonic():
            row = await tx.row(MEAN_COSINE, {"model_id": self.id})
            n = row["memories"] if row else 0
            known = (n * row["common"] - 1) / (n - 1) if row and n > 1 else UNRELATED
            if n > DEAR:
                self.mean_cosines[tx.namespace_id] = (time.monotonic() + GOOD_FOR_S, known)
        return known


def centred(cosine: float, mean_cosine: float) -> float:
    """Return a cosine as the built-in model would give it, by which two memories have `UNRELATED` on average: of
    vectors that all point much the same way, what they have in common is taken (Mu and Viswanath 2018). Also of an
    array.
    """
    if mean_cosine <= UNRELATED:
        return cosine
    return UNRELATED + (cosine - mean_cosine) * (1 - UNRELATED) / (1 - mean_cosine)


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of some texts, and the model that made them; without an embedder there are neither.

    vectors: of passages, a `Passage` each; of a question its one vector, shape (dims,). question: the text of that
        question, where a vector was to be made of one; failed: the embedder could make none, so words alone are
        searched.
    """

    model: VectorIndex | None = None
    vectors: Sequence[Any] = ()
    question: str | None = None
    failed: bool = False

    @property
    def model_id(self) -> int | None:
        """The key of the model; None without an embedder."""
        return None if self.model is None else self.model.id

    @property
    def parameter(self) -> Any:
        """The vector of a question as a parameter of a statement; None without an embedder."""
        return vectors_parameter(self.vectors)[0] if self.vectors else None

    def model_in(self, tx: Transaction) -> VectorIndex | None:
        """Return the model, whose vectors may be stored and compared in `tx`.

        Raises:
            ModelSwitched: the store has taken another one since.
        """
        if self.model is not None and self.model.id != tx.model_id:
            raise ModelSwitched
        return self.model
