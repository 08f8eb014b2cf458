"""Make the planes by which words become bits, for both encoders of the built-in embedder.

Not used at run time. To rebuild, with pgengram installed and a folder that has a clone of MicrosoftTranslator/NTREX,
facebookresearch/LASER and google-research-datasets/query-wellformedness (see `parallel_texts.py`):

    python packaging/models/word_axes.py FOLDER

Principal axes of the words' vectors, turned so that bits keep most of the angles (iterative quantisation: Gong and
Lazebnik 2011). After a rebuild, put the printed hash into `WORDS_SHA256` (embedders/builtin.py) and into SOURCE.md.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from parallel_texts import Clones, news, phrases, questions

from pgengram.embedders.builtin import HERE, WORDS, BuiltinEmbedder
from pgengram.embedders.onnx import OnnxEmbedder
from pgengram.embedders.word_bits import BITS

TEXTS = 4_000  # of each kind for each encoder
TURNS = 40  # of the iterative quantisation; more change nothing
WORDS_EACH = 80_000  # of each encoder
SAMPLE = 40_000  # words that it is done with

Floats = NDArray[np.float64]


def texts_of(folder: Path, *, english: bool) -> list[str]:
    """Return newspaper sentences, phrases and questions, in English or in other languages."""
    clones, found = Clones(folder), []
    for kind in (news, phrases, questions):
        pairs = list(kind(clones, random.Random(kind.__name__)))
        texts = sorted({one.english if english else one.text for one in pairs if english or one.language != "eng"})
        found += random.Random(0).sample(texts, min(TEXTS, len(texts)))
    return found


async def words_of(encoder: OnnxEmbedder, texts: list[str]) -> Floats:
    """Return the vectors of words of texts, at unit length, shape (`WORDS_EACH`, dimensions)."""
    read = await encoder.read_passages(texts)
    vectors = np.concatenate([words.vectors for one in read for words in one.words])
    some = np.random.default_rng(0).permutation(len(vectors))[:WORDS_EACH]
    return np.asarray(vectors[some] / np.linalg.norm(vectors[some], axis=1, keepdims=True), dtype=np.float64)


def turned(axes: Floats, vectors: Floats) -> Floats:
    """Return the axes turned so that the signs along them are nearest to the vectors."""
    rng = np.random.default_rng(0)
    along = vectors[rng.permutation(len(vectors))[:SAMPLE]] @ axes
    turn = np.linalg.qr(rng.standard_normal((BITS, BITS)))[0]
    for _ in range(TURNS):
        left, _, right = np.linalg.svd(np.sign(along @ turn).T @ along)
        turn = (left @ right).T
    return np.asarray(axes @ turn)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the clones are")
    asyncio.run(make(parser.parse_args().folder))


async def make(folder: Path) -> None:
    """Fit the planes and write them."""
    embedder = BuiltinEmbedder()
    seen = [
        await words_of(embedder.english, texts_of(folder, english=True)),
        await words_of(embedder.others, texts_of(folder, english=False)),
    ]
    means = [vectors.mean(axis=0) for vectors in seen]
    centred = np.concatenate([vectors - mean for vectors, mean in zip(seen, means, strict=True)])
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    _, axes = np.linalg.eigh(centred.T @ centred)
    planes = turned(axes[:, ::-1][:, :BITS], centred)
    file = HERE / WORDS
    np.save(file, np.concatenate([planes, np.array(means) @ planes]).astype(np.float16))
    sys.stdout.write(f"{file.name}: sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}\n")


if __name__ == "__main__":
    main()
