"""Words in bits: which words of a text are kept, and how well they meet those of a question."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from helpers import examples
from pgengram.embedders.builtin import HERE, WORDS, BuiltinEmbedder
from pgengram.embedders.word_bits import BYTES, met, words_in
from pgengram.errors import EmbeddingFailed


@pytest_asyncio.fixture(scope="module")
async def builtin() -> AsyncIterator[BuiltinEmbedder]:
    embedder = BuiltinEmbedder()
    yield embedder
    await embedder.close()


async def fit(builtin: BuiltinEmbedder, question: str, *texts: str) -> list[float]:
    """Return how well the words of each text meet those of a question."""
    asked = (await builtin.question(question)).words
    assert asked is not None
    kept = [b"".join(passage.words) for passage in await builtin.passages(texts)]
    return [float(one) for one in met(asked, kept).sum(axis=1)]


async def kept_of(builtin: BuiltinEmbedder, text: str) -> int:
    [passage] = await builtin.passages([text])
    return sum(map(len, passage.words)) // BYTES


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["▁un", "believ", "able", "▁c", "▁+", "▁+", "▁code"], ["unbelievable", "c", "code"]),
        (["▁Don", "▁'", "▁t", "▁STOP"], ["don", "t", "stop"]),
        (["▁版本", "公園", "を", "▁3", ".", "1"], ["版本", "公園", "を", "3", "1"]),
        (["▁!", "▁?"], []),
        ([], []),
    ],
)
def test_tokens_are_put_together_to_words(pieces: list[str], words: list[str]) -> None:
    tokens = np.arange(len(pieces) * 4, dtype=np.float32).reshape(len(pieces), 4)

    found = words_in(pieces, tokens)

    assert found.texts == words
    assert found.vectors.shape == (len(words), 4)


def test_a_word_has_the_mean_of_its_tokens() -> None:
    tokens = np.array([[1, 0], [3, 4], [9, 9]], dtype=np.float32)

    assert words_in(["▁play", "ing", "▁now"], tokens).vectors.tolist() == [[2, 2], [9, 9]]


@pytest.mark.parametrize(
    ("text", "telling"),
    [
        ("The cat is on the mat.", 2),
        ("Die Katze liegt auf dem Ofen und schläft.", 4),
        ("El gato duerme en la cocina.", 3),
        ("Was it you?", 3),  # nothing but common words is better than nothing
        ("!?", 0),
    ],
)
async def test_words_that_say_little_are_left_out_of_what_is_stored(
    builtin: BuiltinEmbedder, text: str, telling: int
) -> None:
    assert await kept_of(builtin, text) == telling


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("Who feeds the parrot?", "Mara gives seeds to the bird.", "Mara drives a red car."),
        ("What instrument does she play?", "She practises the violin.", "She visits her aunt."),
        ("¿Quién da de comer al gato?", "El vecino alimenta al gato.", "El vecino pinta la valla."),
        ("Wer füttert die Katze?", "The neighbour feeds the cat.", "The neighbour paints the fence."),
    ],
)
async def test_words_of_an_answer_meet_those_of_a_question_better(
    builtin: BuiltinEmbedder, question: str, answer: str, other: str
) -> None:
    right, wrong = await fit(builtin, question, answer, other)

    assert right > wrong + 0.05


async def test_more_text_meets_a_question_no_less(builtin: BuiltinEmbedder) -> None:
    asked = (await builtin.question("Who feeds the parrot?")).words
    assert asked is not None
    one, other = [b"".join(p.words) for p in await builtin.passages(["Mara bought seeds.", "The parrot sings."])]

    both = met(asked, [one + other])[0]

    np.testing.assert_allclose(both, met(asked, [one, other]).max(axis=0), atol=1e-6)


@effort(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_each_word_of_a_question_is_met_by_the_nearest_of_a_text(sizes: list[int], asked: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = rng.standard_normal((asked, 8 * BYTES)).astype(np.float32)
    texts = [rng.bytes(BYTES * size) for size in sizes]

    found = met(words, texts)

    for text, row in zip(texts, found, strict=True):
        bits = np.unpackbits(np.frombuffer(text, np.uint8)).reshape(-1, 8 * BYTES) * 2.0 - 1
        np.testing.assert_allclose(row, (bits @ words.T).max(axis=0), rtol=1e-4, atol=1e-4)


async def test_a_long_text_has_words_of_each_part(builtin: BuiltinEmbedder) -> None:
    [passage] = await builtin.passages(["The ferry leaves the harbour before dawn. " * 120])

    assert len(passage.words) == len(passage) > 1
    assert all(passage.words)


async def test_damaged_axes_are_refused_with_the_repair(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(HERE, tmp_path / "embedders"))
    (folder / WORDS).write_bytes(b"\0" + (folder / WORDS).read_bytes()[1:])
    embedder = BuiltinEmbedder(folder)

    with pytest.raises(EmbeddingFailed, match="not the expected") as refused:
        await embedder.passages(["The key is under the mat."])

    assert "Reinstall" in refused.value.hint
    await embedder.close()
