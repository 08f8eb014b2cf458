"""The linear step that some sentence-embedding models take after pooling, from the files of sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pgengram.errors import EmbeddingFailed

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
