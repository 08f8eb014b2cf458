"""Train the last layers of an encoder, and the map behind them, until texts have the vectors of their English translations.

Knowledge distillation across languages (Reimers and Gurevych 2020): the teacher, an English encoder, makes a vector of
the English text, and the pupil is to make the same of the text in its own language. The pupil's first layers stay as
they are, so that what comes out of them is computed once. Needs jax; on two cores two rounds of 5 million tokens take
one and a half hours.
"""

# mypy: disable-error-code="import-not-found,import-untyped,unused-ignore,no-any-return,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from encoder_graph import EPSILON, Layer, Linear, Norm
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
Weights = tuple[list[Layer], Linear]  # layers, then the map of the means of some of them to the teacher's space

LENGTHS = (16, 24, 32, 48, 64, 96, 128, 160)  # tokens to which the texts of a step are filled up
TOKENS = 3_072  # in a step
RATE, WARM = 2e-4, 100  # learning rate of Adam at its highest, and steps until then; then it falls to nothing
ROUNDS = 2  # over all texts
OTHERS, SHARPNESS = 0.1, 0.05  # weight and temperature of being nearer to the own vector than to the others of a step

for kind, fields in (
    (Linear, ("matrix", "bias")),
    (Norm, ("weight", "bias")),
    (Layer, ("joint", "out", "attended", "grown", "shrunk", "fed")),
):
    jax.tree_util.register_dataclass(kind, data_fields=fields, meta_fields=())


@dataclass(frozen=True, slots=True)
class Lesson:
    """Texts to learn from.

    states: (all tokens, width), what goes into the first trained layer; lengths: (texts,), tokens of each; wanted:
    (texts, width), unit vectors by the teacher; english: (texts,), the same number where the English text is the same.
    """

    states: NDArray[np.float16]
    lengths: NDArray[np.int64]
    wanted: Matrix
    english: NDArray[np.int64]

    def steps(self, texts: NDArray[np.int64], rng: np.random.Generator) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield a length and texts of at most that, each text once in an order by chance."""
        waiting: dict[int, list[int]] = {length: [] for length in LENGTHS}
        for text in rng.permutation(texts):
            length = next(one for one in LENGTHS if self.lengths[text] <= one)
            waiting[length].append(text)
            if len(waiting[length]) == TOKENS // length:
                yield length, np.array(waiting[length])
                waiting[length] = []
        for length, rest in waiting.items():
            if rest:  # filled up, as each shape is compiled
                yield length, np.resize(rest, TOKENS // length)

    def padded(self, length: int, texts: NDArray[np.int64]) -> tuple[Matrix, NDArray[np.bool_]]:
        """Return (texts, length, width) states and (texts, length) which of them are there."""
        ends = np.cumsum(self.lengths)
        given = np.zeros((len(texts), length, self.states.shape[1]), np.float32)
        there = np.arange(length) < self.lengths[texts][:, None]
        for row, text in enumerate(texts):
            given[row, : self.lengths[text]] = self.states[ends[text] - self.lengths[text] : ends[text]]
        return given, there


def features(layers: list[Layer], means: tuple[int, ...], heads: int, given: Any, there: Any) -> Any:
    """Return (texts, width · means): the means over each text of what comes out of some layers, side by side.

    Args:
        layers: one after the other.
        means: the places, in `layers`, of those whose means are taken.
        heads: of each attention.
        given: (texts, length, width) states.
        there: (texts, length) which of them are there.
    """
    share = (there / there.sum(axis=1, keepdims=True))[:, :, None]
    found = []
    for place, layer in enumerate(layers):
        given = _layer(layer, heads, given, there)
        if place in means:
            found.append((given * share).sum(axis=1))
    return jnp.concatenate(found, axis=-1)


def features_of(
    layers: list[Layer], means: tuple[int, ...], heads: int, lesson: Lesson, texts: NDArray[np.int64]
) -> Matrix:
    """Return (texts, width · means) the same for texts of a lesson."""
    made = jax.jit(partial(features, means=means, heads=heads))
    found: dict[int, Matrix] = {}
    for length, some in lesson.steps(texts, np.random.default_rng(0)):
        given, there = lesson.padded(length, some)
        found |= zip(some.tolist(), np.asarray(made(layers, given=given, there=there)), strict=True)
    return np.array([found[text] for text in texts.tolist()])


def trained(weights: Weights, means: tuple[int, ...], heads: int, lesson: Lesson, texts: NDArray[np.int64]) -> Weights:
    """Return weights that make the wanted vectors of `texts`, beginning from those given."""
    change = jax.jit(jax.value_and_grad(partial(_loss, means=means, heads=heads)))
    moved, rng = _Adam.of(weights), np.random.default_rng(0)
    last = ROUNDS * sum(1 for _ in lesson.steps(texts, np.random.default_rng(0)))
    for step in range(1, last + 1):
        if (step - 1) % (last // ROUNDS) == 0:
            steps = lesson.steps(texts, rng)
        length, some = next(steps)
        loss, by = change(weights, *lesson.padded(length, some), lesson.wanted[some], lesson.english[some])
        rate = RATE * min(1, step / WARM) * (1 - step / (last + 1))
        weights, moved = _stepped(weights, moved, by, rate, float(step))
        if step % 100 == 0:
            print(f"step {step} of {last}: {loss:.4f}", flush=True)
    return jax.tree.map(np.asarray, weights)


def between(before: Weights, after: Weights, share: float) -> Weights:
    """Return weights on the way from one to the other."""
    return jax.tree.map(lambda a, b: ((1 - share) * a + share * b).astype(np.float32), before, after)


def _loss(weights: Weights, given: Any, there: Any, wanted: Any, english: Any, *, means: Any, heads: int) -> Any:
    """Return how far vectors are from those wanted, and how hard they are to tell from the others of the step."""
    layers, mapped = weights
    made = _linear(mapped, features(layers, means, heads, given, there))
    made = made / jnp.sqrt((made * made).sum(axis=-1, keepdims=True) + EPSILON)
    alike = (made @ wanted.T) / SHARPNESS
    same = (english[:, None] == english[None, :]) & ~jnp.eye(len(english), dtype=bool)
    told = -jnp.diagonal(jax.nn.log_softmax(jnp.where(same, -jnp.inf, alike), axis=-1))
    return (1 - (made * wanted).sum(axis=-1)).mean() + OTHERS * told.mean()


def _layer(layer: Layer, heads: int, given: Any, there: Any) -> Any:
    texts, length, width = given.shape
    split = jnp.split(_linear(layer.joint, given), 3, axis=-1)
    query, key, value = (one.reshape(texts, length, heads, -1).transpose(0, 2, 1, 3) for one in split)
    fit = query @ key.transpose(0, 1, 3, 2) / np.sqrt(width / heads)
    share = jax.nn.softmax(jnp.where(there[:, None, None, :], fit, -jnp.inf), axis=-1)
    seen = (share @ value).transpose(0, 2, 1, 3).reshape(texts, length, width)
    attended = _norm(layer.attended, given + _linear(layer.out, seen))
    active = jax.nn.gelu(_linear(layer.grown, attended), approximate=False)
    return _norm(layer.fed, attended + _linear(layer.shrunk, active))


def _linear(linear: Linear, given: Any) -> Any:
    return given @ linear.matrix + linear.bias


def _norm(norm: Norm, given: Any) -> Any:
    middle, spread = given.mean(axis=-1, keepdims=True), given.var(axis=-1, keepdims=True)
    return (given - middle) * jax.lax.rsqrt(spread + EPSILON) * norm.weight + norm.bias


@partial(jax.tree_util.register_dataclass, data_fields=("mean", "square"), meta_fields=())
@dataclass(frozen=True)
class _Adam:
    """Running means of the gradients and of their squares (Kingma and Ba 2015)."""

    mean: Weights
    square: Weights

    @classmethod
    def of(cls, weights: Weights) -> _Adam:
        return cls(jax.tree.map(jnp.zeros_like, weights), jax.tree.map(jnp.zeros_like, weights))


@jax.jit
def _stepped(weights: Weights, moved: _Adam, by: Weights, rate: float, step: float) -> tuple[Weights, _Adam]:
    mean = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, moved.mean, by)
    square = jax.tree.map(lambda old, new: 0.999 * old + 0.001 * new * new, moved.square, by)

    def stepped(weight: Any, a: Any, b: Any) -> Any:
        return weight - rate * (a / (1 - 0.9**step)) / (jnp.sqrt(b / (1 - 0.999**step)) + 1e-8)

    return jax.tree.map(stepped, weights, mean, square), _Adam(mean, square)
