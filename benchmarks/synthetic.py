"""Invented memories for load: words with the frequencies of real text, vectors with the neighbourhoods of real ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 384
VOCABULARY = 20_000
TOPICS, SUBTOPICS = 60, 40
# Of English alone, and not indexed. Between invented words they make a sentence count as English, as most memories
# are; without them it would take both encoders.
GLUE = ("the", "and", "which", "with", "was", "from")
GLUED = 3  # words to each of them


class Synthetic:
    """A reproducible source of memories and questions.

    Vectors: 60 topics of 40 sub-topics with Zipf sizes, low-rank and isotropic noise; the nearest of 100,000 has a
    cosine of about .6 and the tenth of about .5, as with sentence embeddings of one person's notes.
    """

    def __init__(self, seed: int = 7) -> None:
        self.random = np.random.default_rng(seed)
        self.topics = self._unit(self.random.normal(size=(TOPICS, DIMENSIONS)))
        self.subtopics = self._unit(
            self.topics[:, None] + 0.9 * self._unit(self.random.normal(size=(TOPICS, SUBTOPICS, DIMENSIONS)))
        )
        self.basis = self._unit(self.random.normal(size=(48, DIMENSIONS)))
        ranks = np.arange(1, VOCABULARY + 1)
        self.word_share = (1 / ranks) / (1 / ranks).sum()
        self.words = [self._word(rank) for rank in range(VOCABULARY)]

    def vectors(self, count: int) -> NDArray[np.float32]:
        """Return unit vectors, shape (count, 384)."""
        topic = self._zipf(TOPICS, count)
        subtopic = self._zipf(SUBTOPICS, count)
        low_rank = self.random.normal(size=(count, 48)) @ self.basis / np.sqrt(48)
        noise = self._unit(self.random.normal(size=(count, DIMENSIONS)))
        return self._unit(self.subtopics[topic, subtopic] + 0.5 * low_rank + 0.75 * noise).astype(np.float32)

    def text(self, low: int = 15, high: int = 35) -> str:
        """Return a sentence of `low` to `high` invented words, its last word unique to it."""
        picked = self.random.choice(VOCABULARY, size=int(self.random.integers(low, high)), p=self.word_share)
        return self._sentence([self.words[i] for i in picked])

    def texts(self, count: int, low: int = 15, high: int = 35) -> list[str]:
        """Return `count` sentences like those of `text`, made together: a tenth of the time each."""
        lengths = self.random.integers(low, high, size=count)
        picked = np.searchsorted(self.word_share.cumsum(), self.random.random(int(lengths.sum()))).clip(
            max=VOCABULARY - 1
        )
        ends = lengths.cumsum()
        sentences = [
            [self.words[i] for i in picked[end - length : end]] for length, end in zip(lengths, ends, strict=True)
        ]
        return [self._sentence(words) for words in sentences]

    def memories(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield arguments for create_memories, vectors included."""
        kinds = ("fact", "preference", "observation", "decision", "process")
        for vector in self.vectors(count):
            kind = kinds[int(self.random.integers(len(kinds)))]
            yield {
                "content": self.text(),
                "kind": kind,
                "importance": round(float(self.random.random()), 3),
                "collection": f"c{int(self.random.integers(100))}",
                "embedding": vector.tolist(),
            }

    def question(self, ranks: range, words: int = 4) -> str:
        """Return `words` words of the given frequency ranks (0 is the commonest), among words of English."""
        return glued([self.words[int(i)] for i in self.random.choice(np.asarray(ranks), size=words)])

    def _sentence(self, words: Sequence[str]) -> str:
        return glued(words).capitalize() + f" x{self.random.integers(1 << 60):x}."

    def _word(self, rank: int) -> str:
        syllables = ["ba", "do", "ki", "lu", "me", "no", "pa", "ri", "so", "tu", "va", "ze", "gra", "fli", "stu", "bro"]
        word, rest = "", rank + 16
        while rest:
            word, rest = word + syllables[rest % 16], rest // 16
        return word + "k"

    def _zipf(self, kinds: int, count: int) -> NDArray[np.int64]:
        share = 1 / np.arange(1, kinds + 1)
        return self.random.choice(kinds, size=count, p=share / share.sum())

    @staticmethod
    def _unit(vectors: NDArray[Any]) -> NDArray[Any]:
        return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def glued(words: Sequence[str]) -> str:
    """Return `words` with one of English before each three of them."""
    groups = [words[at : at + GLUED] for at in range(0, len(words), GLUED)]
    return " ".join(" ".join((glue, *group)) for glue, group in zip(cycle(GLUE), groups))
