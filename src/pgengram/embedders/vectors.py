"""Vectors of unit length, and where a long text is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, overload

from pgengram.errors import EmbeddingFailed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Passage(Sequence["NDArray[np.float32]"]):
    """What a text is stored by; a sequence of the vectors of its parts.

    vectors: shape (parts, dimensions), or as many vectors.
    """

    vectors: NDArray[np.float32] | Sequence[NDArray[np.float32]] = ()

    def __len__(self) -> int:
        return len(self.vectors)

    @overload
    def __getitem__(self, part: int) -> NDArray[np.float32]: ...
    @overload
    def __getitem__(self, part: slice) -> Sequence[NDArray[np.float32]]: ...
    def __getitem__(self, part: int | slice) -> NDArray[np.float32] | Sequence[NDArray[np.float32]]:
        return self.vectors[part]

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return sum(vector.nbytes for vector in self.vectors)

    def freeze(self) -> None:
        """Let nobody change its vectors, which several hold."""
        for array in (self.vectors, *self.vectors):
            if flags := getattr(array, "flags", None):
                flags.writeable = False


def unit(vectors: ArrayLike) -> NDArray[np.float32]:
    """Return (dims,) or (rows, dims) scaled to unit length along the last axis.

    Raises:
        EmbeddingFailed: a vector is zero or not finite.
    """
    import numpy as np

    exact = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(exact, axis=-1, keepdims=True)
    if not np.all(np.isfinite(lengths)) or not np.all(lengths > 0):
        raise EmbeddingFailed("The embedding model gave a vector that is zero or not finite.")
    return np.asarray(exact / lengths, dtype=np.float32)


def spans(length: int, window: int, overlap: int) -> list[slice]:
    """Return the fewest slices of at most `window` that cover `length`; neighbours share `overlap`.

    They are about equally long, so that the last one is never a scrap without context. Any unit will do: characters
    or tokens. `overlap` must be less than `window`.
    """
    if length <= window:
        return [slice(0, length)]
    count = ceil((length - overlap) / (window - overlap))
    size = ceil((length + (count - 1) * overlap) / count)
    return [slice(start, min(start + size, length)) for start in range(0, length - overlap, size - overlap)]
