"""What every embedder can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pgengram.embedders.vectors import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Turns text into vectors of unit length, so that an inner product is a cosine."""

    @property
    def name(self) -> str:
        """The identity of model and build; vectors of different names are never compared."""

    async def dimensions(self) -> int:
        """Return the length of every vector."""

    async def passages(self, texts: Sequence[str]) -> list[Passage]:
        """Return what each text is stored by, in the order of `texts`; a long text has overlapping parts.

        Raises:
            EmbeddingFailed: there is no vector for one of the texts; none is returned.
        """

    async def query(self, text: str) -> NDArray[np.float32]:
        """Return the vector (dimensions,) of a question; of a long one the mean of its parts.

        Raises:
            EmbeddingFailed: there is no vector for the text.
        """

    def load_ahead(self) -> None:
        """Begin to load what the first text needs, while something else is waited for; that text tells a failure."""

    def describe(self) -> dict[str, object]:
        """Return what is worth knowing for a diagnosis, without loading or calling anything."""

    async def close(self) -> None:
        """Give back memory, threads and connections; the embedder cannot be used again."""


class Scheme(NamedTuple):
    """A kind of embedder URL: how it is written, and what makes the embedder of a URL (without its scheme) and an API
    key.
    """

    written: str
    make: Callable[[str, str], Embedder]
