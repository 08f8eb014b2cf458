"""Vectors of unit length, and where a long text is cut."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from pgengram.errors import EmbeddingFailed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


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
