"""The embedding model of a question, and vectors that it made."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import Any, Final, Literal

from pgengram.errors import ModelSwitched
from pgengram.store.connection.adapters import vectors_parameter
from pgengram.store.connection.begin import PROBES
from pgengram.store.connection.database import Transaction

# Fewer are compared each: half a microsecond a vector, complete, and the same whatever others store.
EXACT_ROWS: Final = 5_000
GOOD_FOR_S: Final = 60.0  # that a count of vectors is remembered
Way = Literal["each", "index", "either"]


@dataclass(slots=True)
class VectorIndex:
    """The embedding model of a question: its key, its length and whether its index is there.

    rows: vectors of all namespaces when they were last counted; sizes: for each namespace until when it is held to have
        few or many.
    """

    id: int
    dimensions: int
    indexed: bool = False
    rows: int = 0
    sizes: dict[int, tuple[float, Way]] = field(default_factory=dict)

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


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of some texts and the model that made them; without an embedder there is none, and no text has a
    vector.

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
