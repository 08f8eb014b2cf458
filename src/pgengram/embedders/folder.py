"""The usual folder of a sentence-embedding model: which files it has and what they say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pgengram.errors import EmbeddingFailed
from pgengram.runtime.operating_system import sha256_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


WEIGHTS: Final = "model.safetensors"
TYPES: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


class Dense:
    """y = activation(W x + b), of a folder with config.json and model.safetensors.

    Raises:
        EmbeddingFailed: the weights are of a form, or the activation of a kind, that is not supported.
    """

    def __init__(self, folder: Path) -> None:
        activation = str(json.loads((folder / "config.json").read_bytes()).get("activation_function", "Identity"))
        self.bounded = activation.endswith("Tanh")
        if not activation.endswith(("Identity", "Tanh")):
            raise EmbeddingFailed(f"The model's step {folder.name} uses {activation}, which is not supported.")
        tensors = _tensors(folder / WEIGHTS)
        if "linear.weight" not in tensors:
            raise EmbeddingFailed(f"The model's step {folder.name} has no linear.weight.")
        self.weight, self.bias = tensors["linear.weight"], tensors.get("linear.bias")

    def __call__(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return (out,) of a vector (in,)."""
        import numpy as np

        made = self.weight @ vector if self.bias is None else self.weight @ vector + self.bias
        return np.asarray(np.tanh(made) if self.bounded else made, dtype=np.float32)


def _tensors(file: Path) -> dict[str, Any]:
    """Return the arrays of a file in the format of safetensors: the length of a JSON header, the header, the data."""
    import numpy as np

    raw = file.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    try:
        header: dict[str, Any] = json.loads(raw[8:start])
        return {
            name: np.frombuffer(
                raw[start + one["data_offsets"][0] : start + one["data_offsets"][1]], TYPES[one["dtype"]]
            )
            .reshape(one["shape"])
            .astype(np.float32)
            for name, one in header.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError) as error:
        raise EmbeddingFailed(f"The model's weights cannot be read: {file}.") from error


MODEL_FILES = (
    "model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx", "onnx/model_int8.onnx",
    "onnx/model_qint8*.onnx", "onnx/model_uint8.onnx", "onnx/model_quint8*.onnx", "onnx/model_fp16.onnx",
    "onnx/model_O*.onnx",
)  # fmt: skip
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "last"}
MODULES = {"Transformer", "Pooling", "Dense", "Normalize"}
MANIFEST = (
    "pgengram.json"  # what `pgengram model use` notes beside a model: where it is from, and what its files leave out
)
MAX_WINDOW = 512  # attention costs memory by the square of the window, and a short part says better where to look
FOLDER_HINT = "An onnx: folder holds model.onnx (or onnx/model.onnx), tokenizer.json and config.json."


@dataclass(frozen=True)
class ModelFolder:
    """What the configuration of a model says.

    Args:
        model: the ONNX graph.
        tokenizer: tokenizer.json, or the vocabulary.txt of a unigram tokenizer.
        window: most tokens at once, special tokens included.
        dimensions: length of a vector.
        pooling: how a text's tokens become one vector: "mean", "cls" (the first) or "last".
        lower_case: whether text is lower-cased before it is cut into tokens.
        query_prefix: put before every question.
        passage_prefix: put before every part of a passage.
        family: the architecture's name, such as "bert".
        dense: folders of linear steps after the pooling, in order.
        centre: of a model whose vectors all point the same way, what is taken from each, of length `dimensions`.
    """

    model: Path
    tokenizer: Path
    window: int
    dimensions: int
    pooling: str
    lower_case: bool
    query_prefix: str
    passage_prefix: str
    family: str
    dense: tuple[Path, ...] = ()
    centre: tuple[float, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> ModelFolder:
        """Read a folder in the layout of sentence-transformers.

        Raises:
            EmbeddingFailed: a file is missing or unreadable, or the model needs a step that is not supported.
        """
        config = _json(folder / "config.json", required=True)
        sentences = _json(folder / "sentence_bert_config.json")
        pooling = _json(folder / "1_Pooling" / "config.json")
        prompts = _json(folder / "config_sentence_transformers.json")
        manifest = _json(folder / MANIFEST)
        dense = _dense(folder)
        of_dense = [_positive(step, _json(step / "config.json", required=True), "out_features") for step in dense]
        width = of_dense[-1] if of_dense else _positive(folder, config, "hidden_size", "dim", "d_model")
        return cls(
            model=_existing(folder / manifest["model"]) if "model" in manifest else _model_file(folder),
            tokenizer=_tokenizer(folder),
            window=_window(folder, config, sentences),
            dimensions=min(width, _positive(folder, manifest, "dimensions")) if "dimensions" in manifest else width,
            pooling=_pooling(folder, pooling),
            lower_case=sentences.get("do_lower_case") is True,
            query_prefix=str(manifest.get("query_prefix", _prefix(prompts, "query"))),
            passage_prefix=str(manifest.get("passage_prefix", _prefix(prompts, "passage", "document"))),
            family=str(config.get("model_type", "model")),
            dense=dense,
            centre=tuple(manifest.get("centre", ())),
        )

    def sums(self) -> dict[str, str]:
        """Return the SHA-256, in hex, of each file that decides about vectors, by file name."""
        weights = [self.model.with_name(self.model.name + end) for end in ("_data", ".data")]  # beside the graph
        sums = {file.name: sha256_of(file) for file in (self.model, *weights, self.tokenizer) if file.exists()}
        return sums | {f"{step.name}/{WEIGHTS}": sha256_of(step / WEIGHTS) for step in self.dense}

    def identity(self, sums: Mapping[str, str]) -> str:
        """Return a name that changes when any vector could; the folder's own place and name do not matter."""
        facts: list[object] = [self.window, self.dimensions, self.pooling, self.lower_case]
        facts += [self.query_prefix, self.passage_prefix, *([self.centre] if self.centre else [])]
        digest = hashlib.sha256(json.dumps([sorted(sums.values()), facts]).encode()).hexdigest()
        return f"{self.family}-{self.dimensions}@{digest[:12]}"


def _json(file: Path, *, required: bool = False) -> dict[str, Any]:
    if not required and not file.exists():
        return {}
    try:
        found = json.loads(_existing(file).read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise EmbeddingFailed(f"The model's {file.name} cannot be read: {file}.", FOLDER_HINT) from error
    if not isinstance(found, dict):
        raise EmbeddingFailed(f"The model's {file.name} is not a JSON object: {file}.", FOLDER_HINT)
    return found


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise EmbeddingFailed(f"The embedding model has no {file.name}: {file} does not exist.", FOLDER_HINT)
    return file


def _tokenizer(folder: Path) -> Path:
    vocabulary = folder / "vocabulary.txt"
    return vocabulary if vocabulary.is_file() else _existing(folder / "tokenizer.json")


def _model_file(folder: Path) -> Path:
    for pattern in MODEL_FILES:
        for file in sorted(folder.glob(pattern)):
            return file
    raise EmbeddingFailed(f"The embedding model has no model.onnx: {folder}.", FOLDER_HINT)


def _dense(folder: Path) -> tuple[Path, ...]:
    """Return the folders of the linear steps; refuse any step that is not supported."""
    file = folder / "modules.json"
    if not file.exists():
        return ()
    try:
        modules = [
            (str(one["type"]).rpartition(".")[2], folder / str(one.get("path", "")))
            for one in json.loads(file.read_bytes())
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EmbeddingFailed(f"The model's modules.json cannot be read: {file}.", FOLDER_HINT) from error
    if other := {name for name, _ in modules} - MODULES:
        raise EmbeddingFailed(
            f"The model has a step that is not supported: {', '.join(sorted(other))}.",
            "Choose a model made of Transformer, Pooling, Dense and Normalize only, or serve it over HTTP "
            "(openai+http://…).",
        )
    return tuple(_existing(path / WEIGHTS).parent for name, path in modules if name == "Dense")


def _window(folder: Path, config: Mapping[str, Any], sentences: Mapping[str, Any]) -> int:
    name = "max_seq_length"
    length = _positive(folder, sentences, name) if name in sentences else config.get("max_position_embeddings")
    return min(length, MAX_WINDOW) if isinstance(length, int) and length > 0 else MAX_WINDOW


def _positive(folder: Path, config: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and value > 0:
            return value
    raise EmbeddingFailed(f"The model's configuration in {folder} does not set {names[0]}.", FOLDER_HINT)


def _pooling(folder: Path, config: Mapping[str, Any]) -> str:
    chosen = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
    if not chosen:
        return "mean"
    if len(chosen) > 1 or chosen[0] not in POOLINGS:
        raise EmbeddingFailed(
            f"The model in {folder} uses {' and '.join(chosen)} pooling; only mean, cls or last is supported."
        )
    return POOLINGS[chosen[0]]


def _prefix(config: Mapping[str, Any], *names: str) -> str:
    prompts = config.get("prompts") or {}
    default = prompts.get(config.get("default_prompt_name") or "", "")
    return str(next((prompts[name] for name in names if name in prompts), default))
