"""Find the few inputs of a model's matrices that are far larger than the others.

A matrix in int8 takes all of its inputs in 256 steps between the least and the greatest. In these models one input of
hundreds may be twenty times as large as the next one, so that all others share a few steps. What divides it, and
multiplies its weights instead, leaves the product as it is (Xiao et al. 2023, SmoothQuant).
"""

# mypy: disable-error-code="import-not-found,import-untyped,unused-ignore"

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper

LOUD = 3  # times what is usual, to which an input is brought down

Arrays = Mapping[str, NDArray[np.int64]]


def divisors(file: Path, inputs: Mapping[str, str], texts: Iterable[Arrays]) -> dict[str, NDArray[np.float32]]:
    """Return what each input of a matrix is to be divided by, powers of two, for the matrices where one is too large.

    Args:
        file: the graph in full precision.
        inputs: the name of what goes into each matrix.
        texts: what goes into the graph, for some texts.
    """
    model, names = onnx.load(file), sorted(set(inputs.values()))
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = [[np.abs(one[0]).max(axis=0) for one in session.run(names, dict(text))] for text in texts]
    greatest = {name: np.max(one, axis=0) for name, one in zip(names, zip(*found, strict=True), strict=True)}
    by_matrix = {matrix: _divided(greatest[name]) for matrix, name in inputs.items()}
    return {matrix: by for matrix, by in by_matrix.items() if by.max() > 1}


def _divided(greatest: NDArray[np.float32]) -> NDArray[np.float32]:
    usual = LOUD * np.median(greatest)
    return np.exp2(np.rint(np.log2(np.maximum(greatest / usual, 1)))).astype(np.float32)
