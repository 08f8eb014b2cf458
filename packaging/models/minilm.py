"""Read the weights of all-MiniLM-L6-v2 from its model.safetensors, and compute with them as they are."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import numpy as np
from encoder_graph import EPSILON, Layer, Linear, Norm
from numpy.typing import NDArray

Array = NDArray[np.float32]

LAYERS, HEADS = 6, 12
_erf = np.vectorize(math.erf, otypes=[np.float32])


class MiniLM:
    """The weights, all float32.

    Attributes:
        words: (tokens, 384); positions: (512, 384); kinds: (2, 384), of which the first is every text's; norm: of their sum.
        layers: first to last.
    """

    def __init__(self, file: Path) -> None:
        self._bytes = file.read_bytes()
        (length,) = struct.unpack_from("<Q", self._bytes)
        self._start = 8 + length
        self._tensors = json.loads(self._bytes[8 : self._start])
        self.words = self._tensor("embeddings.word_embeddings.weight")
        self.positions = self._tensor("embeddings.position_embeddings.weight")
        self.kinds = self._tensor("embeddings.token_type_embeddings.weight")
        self.norm = self._norm("embeddings.LayerNorm")
        self.layers = [self._layer(f"encoder.layer.{number}") for number in range(LAYERS)]

    def hidden(self, ids: list[int]) -> Array:
        """Return the vectors (tokens, 384) of a text, in full precision."""
        vectors = _normalised(self.words[ids] + self.positions[: len(ids)] + self.kinds[0], self.norm)
        for layer in self.layers:
            seen = _applied(_attention(_applied(vectors, layer.joint)), layer.out)
            attended = _normalised(vectors + seen, layer.attended)
            grown = _applied(attended, layer.grown)
            active = grown * 0.5 * (1 + _erf(grown / math.sqrt(2)))  # GELU (Hendrycks and Gimpel 2016)
            vectors = _normalised(attended + _applied(active, layer.shrunk), layer.fed)
        return vectors

    def _layer(self, at: str) -> Layer:
        return Layer(
            joint=Linear.beside([self._linear(f"{at}.attention.self.{part}") for part in ("query", "key", "value")]),
            out=self._linear(f"{at}.attention.output.dense"),
            attended=self._norm(f"{at}.attention.output.LayerNorm"),
            grown=self._linear(f"{at}.intermediate.dense"),
            shrunk=self._linear(f"{at}.output.dense"),
            fed=self._norm(f"{at}.output.LayerNorm"),
        )

    def _linear(self, at: str) -> Linear:
        return Linear(self._tensor(f"{at}.weight").T, self._tensor(f"{at}.bias"))

    def _norm(self, at: str) -> Norm:
        return Norm(self._tensor(f"{at}.weight"), self._tensor(f"{at}.bias"))

    def _tensor(self, name: str) -> Array:
        begin, end = self._tensors[name]["data_offsets"]
        flat = np.frombuffer(self._bytes[self._start + begin : self._start + end], "<f4")
        return flat.reshape(self._tensors[name]["shape"])


def _applied(vectors: Array, linear: Linear) -> Array:
    return vectors @ linear.matrix + linear.bias


def _normalised(vectors: Array, norm: Norm) -> Array:
    spread = np.sqrt(vectors.var(axis=1, keepdims=True) + EPSILON)
    return (vectors - vectors.mean(axis=1, keepdims=True)) / spread * norm.weight + norm.bias


def _attention(joint: Array) -> Array:
    """Return what each token sees of the others (Vaswani et al. 2017), from queries, keys and values side by side."""
    query, key, value = np.split(joint.reshape(len(joint), 3 * HEADS, -1).transpose(1, 0, 2), 3)
    fit = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[2])
    shares = np.exp(fit - fit.max(axis=2, keepdims=True))
    seen = shares / shares.sum(axis=2, keepdims=True) @ value
    return np.asarray(seen.transpose(1, 0, 2).reshape(len(joint), -1))
