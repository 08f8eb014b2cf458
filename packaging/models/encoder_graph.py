"""Write the layers of an encoder like BERT as an ONNX graph: matrices in int8 with a scale for each output.

Each step is the quickest that onnxruntime has on a processor: queries, keys and values by one matrix, attention by one
operator, and sum and normalisation by two, as its operator for both takes three times as long as these (1.31.1, with
VNNI; as long without).
"""

# mypy: disable-error-code="import-not-found,import-untyped,unused-ignore"

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Arrays = Mapping[str, NDArray[np.generic]]  # of a graph, by name

MICROSOFT = "com.microsoft"  # operators of onnxruntime beyond the standard's
EPSILON = 1e-12
PAIR = 127.5  # inputs are 0 to 255, and 255 times 128 is below 2 to the power of 15; half a step less for rounding


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix (inputs, outputs) and a bias (outputs,)."""

    matrix: NDArray[np.float32]
    bias: NDArray[np.float32]

    @classmethod
    def beside(cls, parts: list[Linear]) -> Linear:
        """Return several with the same input as one, their outputs side by side."""
        return cls(np.hstack([one.matrix for one in parts]), np.concatenate([one.bias for one in parts]))

    @classmethod
    def of(cls, weights: Arrays, name: str) -> Linear:
        """Return one that `Graph.linear` wrote, as coarse as int8 made it."""
        matrix = weights[f"{name}.w"].astype(np.float32) * weights[f"{name}.scales"]
        if (shares := weights.get(f"{name}.shares")) is not None:
            matrix *= shares[:, None]
        return cls(matrix, weights[f"{name}.b"])


@dataclass(frozen=True, slots=True)
class Norm:
    """What a normalised vector is multiplied by, and what is added then."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    @classmethod
    def of(cls, weights: Arrays, name: str) -> Norm:
        """Return one that `Graph.added` wrote."""
        return cls(weights[f"{name}.w"], weights[f"{name}.b"])


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: joint gives queries, keys and values; out and attended end the attention; grown, shrunk and fed follow."""

    joint: Linear
    out: Linear
    attended: Norm
    grown: Linear
    shrunk: Linear
    fed: Norm

    @classmethod
    def of(cls, weights: Arrays, at: str) -> Layer:
        """Return one that `Graph.layer` wrote."""
        joint, out, grown, shrunk = (Linear.of(weights, f"{at}.{part}") for part in ("joint", "out", "grown", "shrunk"))
        return cls(joint, out, Norm.of(weights, f"{at}.attended"), grown, shrunk, Norm.of(weights, f"{at}.fed"))


def scales_of(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what each output's weights are divided by to fit into 8 bits, (outputs,).

    Without VNNI a processor adds the products of two neighbouring inputs in 16 bits, and cuts off what does not fit.
    Where two weights of one sign have a sum of at most `PAIR`, everything fits, so that all processors compute the same.
    """
    pairs = [np.maximum(sign * matrix, 0).reshape(len(matrix) // 2, 2, -1).sum(axis=1).max(axis=0) for sign in (1, -1)]
    return np.maximum(np.abs(matrix).max(axis=0) / 127, np.maximum(*pairs) / PAIR).astype(np.float32)


class Graph:
    """Collects nodes and weights; each method returns the name of what it made.

    Args:
        heads: of each attention.
        divided: by matrix, what its inputs are divided by, and its weights multiplied by instead.
        in_full: whether matrices stay as they are, instead of in int8.

    Attributes:
        inputs: the name of what goes into each matrix.
    """

    def __init__(self, heads: int, divided: Mapping[str, NDArray[np.float32]], *, in_full: bool = False) -> None:
        self.inputs: dict[str, str] = {}
        self._heads = heads
        self._divided = divided
        self._in_full = in_full
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def weight(self, name: str, values: NDArray[np.generic]) -> str:
        """Add a constant."""
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def packed(self, name: str, nibbles: NDArray[np.uint8]) -> str:
        """Add a constant of unsigned 4-bit values."""
        flat = nibbles.reshape(-1)
        tensor = onnx.TensorProto(
            name=name, data_type=TensorProto.UINT4, raw_data=(flat[::2] | flat[1::2] << 4).tobytes()
        )
        tensor.dims.extend(nibbles.shape)
        self._weights.append(tensor)
        return name

    def node(self, kind: str, inputs: list[str], name: str, *, domain: str = "", **attributes: object) -> str:
        """Add an operator with one output, called `name`."""
        self._nodes.append(helper.make_node(kind, inputs, [name], domain=domain, **attributes))
        return name

    def embedded(self, tokens: str, positions: NDArray[np.float32], norm: Norm) -> str:
        """Add the sum of token and position vectors, normalised."""
        self.weight("zero", np.array([0], np.int64))
        self.node("Shape", ["input_ids"], "length", start=1, end=2)
        self.node("Slice", [self.weight("positions", positions), "zero", "length", "zero"], "positions.cut")
        return self.added(tokens, "positions.cut", norm, "embedded")

    def linear(self, given: str, linear: Linear, name: str) -> str:
        """Add a matrix."""
        self.inputs[name] = given
        if name in self._divided:
            by = self._divided[name]
            given = self.node("Mul", [given, self.weight(f"{name}.shares", 1 / by)], f"{name}.given")
            linear = Linear(linear.matrix * by[:, None], linear.bias)
        if self._in_full:
            self.node("MatMul", [given, self.weight(f"{name}.w", linear.matrix)], f"{name}.product")
            return self.node("Add", [f"{name}.product", self.weight(f"{name}.b", linear.bias)], name)
        scales = scales_of(linear.matrix)
        inputs = [
            given,
            self.weight(f"{name}.w", np.clip(np.rint(linear.matrix / scales), -127, 127).astype(np.int8)),
            self.weight(f"{name}.scales", scales),
            self.weight(f"{name}.zeros", np.zeros(len(scales), np.int8)),
            self.weight(f"{name}.b", linear.bias),
        ]
        return self.node("DynamicQuantizeMatMul", inputs, name, domain=MICROSOFT)

    def layer(self, given: str, layer: Layer, at: str, mask: str = "") -> str:
        """Add one layer: attention, then two matrices, each added to what came in and normalised.

        Args:
            given: vectors of tokens.
            layer: its weights.
            at: what the names begin with.
            mask: which tokens are seen, int32 (batch, tokens); all without it.
        """
        split = [f"{at}.query", f"{at}.key", f"{at}.value"]
        joint = self.linear(given, layer.joint, f"{at}.joint")
        self._nodes.append(helper.make_node("Split", [joint], split, axis=-1, num_outputs=3))
        inputs = [*split, "", mask] if mask else split
        seen = self.node("MultiHeadAttention", inputs, f"{at}.seen", domain=MICROSOFT, num_heads=self._heads)
        attended = self.added(given, self.linear(seen, layer.out, f"{at}.out"), layer.attended, f"{at}.attended")
        active = self.node("Gelu", [self.linear(attended, layer.grown, f"{at}.grown")], f"{at}.active")
        return self.added(attended, self.linear(active, layer.shrunk, f"{at}.shrunk"), layer.fed, f"{at}.fed")

    def added(self, given: str, change: str, norm: Norm, name: str) -> str:
        """Add a sum, normalised."""
        weights = [self.weight(f"{name}.w", norm.weight), self.weight(f"{name}.b", norm.bias)]
        self.node("Add", [given, change], f"{name}.sum")
        return self.node("LayerNormalization", [f"{name}.sum", *weights], name, axis=-1, epsilon=EPSILON)

    def save(
        self, name: str, inputs: dict[str, list[int | str]], output: str, shape: list[int | str], file: Path
    ) -> None:
        """Write the graph from its int64 inputs, with their shapes, to a float32 output."""
        given = [helper.make_tensor_value_info(one, TensorProto.INT64, axes) for one, axes in inputs.items()]
        made = helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self._nodes, name, given, [made], self._weights)
        versions = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        onnx.save(helper.make_model(graph, opset_imports=versions, ir_version=10), file)
