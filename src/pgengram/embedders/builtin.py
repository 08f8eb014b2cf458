"""The built-in embedder: an encoder for English and one for every other language, whose vectors share one space."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pgengram.embedders.onnx import OnnxEmbedder, Read
from pgengram.embedders.protocol import Embedder, Querying, Scheme
from pgengram.embedders.vectors import Passage, QuestionVectors, unit
from pgengram.embedders.word_bits import WordAxes
from pgengram.errors import EmbeddingFailed, InvalidInput
from pgengram.runtime.system.files import sha256_of
from pgengram.text.lexical.language import Language, language_of
from pgengram.text.lexical.translations import MAX_TRANSLATED, in_english
from pgengram.text.lexical.translations import SHA256 as LEXICONS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HERE: Final = Path(__file__).parent
ENGLISH, OTHERS = "all_minilm_l6_v2", "multilingual_e5_small"  # folders
OF_ENGLISH, OF_OTHERS = range(2)  # encoders, as the axes of words number them
WORDS: Final = f"{ENGLISH}/word_axes.npy"  # of both encoders
WORDS_SHA256: Final = "8c68f009cd90dbf8ba5daa2dbf9a15485fcbb12fabfa6d4d97c1cfbfa6d85326"
SHA256: Final[Mapping[str, Mapping[str, str]]] = {
    ENGLISH: {
        "model.onnx": "6bb8ead6608c63315ab57d46fc71451d61e4dae984ed379d4afa4026834deb03",
        "model.onnx_data": "1986724b773ef838ca0a4789555f1341f6b1bc05aa71ac3ad94fadeffe32308d",
        "tokenizer.json": "9114256b104cca80e04367526f03f46aa3c443c2ed174904142a73bbf13b9fbb",
    },
    OTHERS: {
        "model.onnx": "4e24cf6d3bc05a1260e2323a60181c5435748b8941dc739c06bc65ff04392681",
        "model.onnx_data": "9b700b6b9022cf97a677b94da3e93d006dfd15862408ebd97697f2a585f803fd",
        "vocabulary.txt": "49d7fd3fff1b466f8cea2760ccf4049d05b374a9313824be49cf8d30d0fb9029",
    },
}
# Another one for any change of a vector.
NAME: Final = f"all-MiniLM-L6-v2+multilingual-e5-small@9b700b6b9022-{LEXICONS[:4]}"
DIMENSIONS: Final = 384
# A short memory in another language also has something of the vector of its words in English. In Chinese, where they are cut
# out of a text without spaces and many have several meanings, that was no gain.
WEIGHT_IN_ENGLISH: Final = 0.4
NOT_IN_ENGLISH: Final = frozenset(("zh",))
REINSTALL: Final = "Reinstall pgengram: the files of its built-in embedding model are damaged or incomplete."


_ahead: Final[list[BuiltinEmbedder]] = []


class BuiltinEmbedder(Querying):
    """Embeds English with all-MiniLM-L6-v2 and other languages with multilingual-e5-small, mapped into the space of the
    first.

    The second encoder is read and loaded at the first text that needs it. Text of which both are told to have a part,
    or whose language is not clear, has the mean of both vectors; a long one the parts of the second encoder, which
    knows English, too. A short passage in another language alone has something of its words in English.

    Args:
        folder: where the folders of both encoders are.

    Raises:
        EmbeddingFailed: the files of the English encoder are incomplete.
    """

    name = NAME
    has_words = True

    def __init__(self, folder: Path = HERE) -> None:
        self._folder = folder
        self.english = self._encoder(ENGLISH)

    @cached_property
    def others(self) -> OnnxEmbedder:
        """The encoder for every language but English.

        Raises:
            EmbeddingFailed: its files are incomplete.
        """
        return self._encoder(OTHERS)

    async def dimensions(self) -> int:
        """Return the length of every vector."""
        return DIMENSIONS

    async def passages(self, texts: Sequence[str]) -> list[Passage]:
        """Return what each text is stored by."""
        languages = [language_of(text) for text in texts]
        for_english = [
            text if one.english else _words_in_english(text, one) for text, one in zip(texts, languages, strict=True)
        ]
        foreign = [text for text, one in zip(texts, languages, strict=True) if one.foreign]
        by_english = iter(await self.english.read_passages([text for text in for_english if text is not None]))
        by_others = iter(await self.others.read_passages(foreign) if foreign else [])
        found = []
        for one, text in zip(languages, for_english, strict=True):
            english = next(by_english) if text is not None else None
            others = next(by_others) if one.foreign else None
            # Bits of thousands of words take a second, in which others would not be answered.
            passage = await asyncio.to_thread(self._passage, english if one.english else None, others, one.code)
            found.append(passage if one.english or english is None else _with_words(passage, english))
        return found

    async def question(self, text: str) -> QuestionVectors:
        """Return what a question is asked by."""
        import numpy as np

        language = language_of(text)
        asked: list[tuple[int, Read]] = []
        if language.english:
            asked.append((OF_ENGLISH, await self.english.read_question(text)))
        if language.foreign:
            asked.append((OF_OTHERS, await self.others.read_question(text)))
        words = [self._axes.asked(read.words[0], encoder) / len(asked) for encoder, read in asked]
        return QuestionVectors(_mean([read.vectors[0] for _, read in asked]), np.concatenate(words))

    def _passage(self, english: Read | None, others: Read | None, language: str) -> Passage:
        """Return what a text is stored by, from what one encoder or both make of it."""
        read = [(encoder, one) for encoder, one in ((OF_ENGLISH, english), (OF_OTHERS, others)) if one is not None]
        if len({one.vectors.shape for _, one in read}) > 1:  # they cut it differently
            read = read[-1:]
        parts = zip(*(one.words for _, one in read), strict=True)
        kept = [
            b"".join(self._axes.kept(words, language, encoder) for (encoder, _), words in zip(read, part, strict=True))
            for part in parts
        ]
        return Passage(_mean([one.vectors for _, one in read]), kept)

    @cached_property
    def _axes(self) -> WordAxes:
        file = self._folder / WORDS
        if not file.is_file() or sha256_of(file) != WORDS_SHA256:
            raise EmbeddingFailed("The embedding model's files are not the expected ones.", REINSTALL)
        return WordAxes(file)

    def load_ahead(self) -> None:
        """Begin to load the English encoder, which nearly every text needs."""
        self.english.load_ahead()

    def describe(self) -> dict[str, object]:
        """Return the description of the English encoder, and that of the other one once it was needed."""
        others = self.others.describe() if "others" in self.__dict__ else {"loaded": False}
        return {**self.english.describe(), "name": self.name, "other_languages": others}

    async def close(self) -> None:
        """Let both encoders go."""
        await self.english.close()
        if "others" in self.__dict__:
            await self.others.close()

    def _encoder(self, name: str) -> OnnxEmbedder:
        try:
            return OnnxEmbedder(self._folder / name, name=name, sums=SHA256[name], hint=REINSTALL, words=True)
        except EmbeddingFailed as error:
            raise EmbeddingFailed(error.message, REINSTALL) from error


def _mean(vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the mean of one or two arrays of vectors of one shape, at unit length."""
    return unit(vectors[0] + vectors[1]) if len(vectors) > 1 else vectors[0]


def _words_in_english(text: str, language: Language) -> str | None:
    """Return the words of a short text in another language in English; None where there are none or some may be
    missing.
    """
    found = {} if language.code in NOT_IN_ENGLISH else in_english(text)
    return " ".join(chain(*found.values())) if 0 < len(found) < MAX_TRANSLATED else None


def _with_words(passage: Passage, words: Read) -> Passage:
    """Return a passage of one part with something of the vector of its words in English."""
    import numpy as np

    if len(passage) > 1:
        return passage
    return replace(passage, vectors=unit(np.asarray(passage.vectors) + WEIGHT_IN_ENGLISH * words.vectors[:1]))


def _builtin(rest: str, _: str) -> Embedder:
    if rest:
        raise InvalidInput("PGENGRAM_EMBEDDER: builtin: takes no name.")
    return _ahead.pop() if _ahead else BuiltinEmbedder()


def ahead() -> OnnxEmbedder:
    """Return the English encoder of the next embedder that is made, before anybody needs it.

    Raises:
        EmbeddingFailed: its files are incomplete.
    """
    _ahead.append(BuiltinEmbedder())
    return _ahead[-1].english


SCHEMES = {"builtin": Scheme("builtin:", _builtin)}
