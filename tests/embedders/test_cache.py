from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from pgengram.embedders import ENTRY_BYTES, Cached, Passage
from pgengram.embedders.builtin import ENGLISH, HERE
from pgengram.embedders.onnx import OnnxEmbedder
from pgengram.errors import EmbeddingFailed


class Counting(OnnxEmbedder):
    """The built-in model, noting what it was asked."""

    def __init__(self) -> None:
        super().__init__(HERE / ENGLISH)
        self.asked: list[str] = []
        self.fail = False

    async def passages(self, texts: Sequence[str]) -> list[Passage]:
        self.asked += texts
        found = await super().passages(texts)
        if self.fail:
            self.fail = False
            raise EmbeddingFailed("once")
        return found

    async def query(self, text: str) -> NDArray[np.float32]:
        self.asked.append(text)
        return await super().query(text)


@pytest.fixture
async def counting() -> AsyncIterator[Counting]:
    embedder = Counting()
    yield embedder
    await embedder.close()


@pytest.mark.shows(2)
async def test_a_known_text_is_not_embedded_again(counting: Counting) -> None:
    cached = Cached(counting)

    [first, other, repeated] = await cached.passages(["tea", "coffee", "tea"])
    [again] = await cached.passages(["tea"])

    assert counting.asked == ["tea", "coffee"]
    np.testing.assert_array_equal(first, repeated)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


async def test_a_question_and_a_passage_of_the_same_words_are_kept_apart(counting: Counting) -> None:
    cached = Cached(counting)

    [passage] = await cached.passages(["tea"])
    question = await cached.query("tea")

    assert counting.asked == ["tea", "tea"]
    assert (np.shape(passage), question.shape) == ((1, 384), (384,))


async def test_the_same_text_at_the_same_time_is_embedded_once(counting: Counting) -> None:
    cached = Cached(counting)

    found = await asyncio.gather(cached.passages(["tea", "milk"]), *(cached.passages(["tea"]) for _ in range(5)))

    assert counting.asked == ["tea", "milk"]
    assert all(np.array_equal(found[0][0], each[0]) for each in found)


async def test_who_waits_for_a_failure_tries_itself(counting: Counting) -> None:
    cached = Cached(counting)
    counting.fail = True

    failed, found = await asyncio.gather(cached.passages(["tea"]), cached.passages(["tea"]), return_exceptions=True)

    assert isinstance(failed, EmbeddingFailed)
    assert isinstance(found, list)
    assert counting.asked == ["tea", "tea"]


async def test_who_waits_for_a_cancelled_call_tries_itself(counting: Counting) -> None:
    cached = Cached(counting)
    first = asyncio.create_task(cached.passages(["tea"]))
    second = asyncio.create_task(cached.passages(["tea"]))
    await asyncio.sleep(0)

    first.cancel()

    [found] = await second
    assert np.shape(found) == (1, 384)
    assert first.cancelled()


async def test_the_cache_stays_within_its_bytes_and_forgets_the_oldest_first(counting: Counting) -> None:
    cached = Cached(counting, max_bytes=2 * (384 * 4 + ENTRY_BYTES))
    for text in ("tea", "milk", "tea", "juice", "tea", "milk"):
        await cached.passages([text])

    assert counting.asked == ["tea", "milk", "juice", "milk"]
    assert cached.describe()["cached_texts"] == 2
    assert cached.describe()["cached_bytes"] == cached.max_bytes


async def test_a_cache_too_small_for_anything_still_answers(counting: Counting) -> None:
    cached = Cached(counting, max_bytes=0)

    assert len(await cached.passages(["tea", "tea", "milk"])) == 3
    assert cached.describe()["cached_bytes"] == 0


async def test_a_shared_array_cannot_be_written(counting: Counting) -> None:
    vector = await Cached(counting).query("tea")

    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 1
