"""The built-in embedder: an encoder for English and one for every other language, whose vectors share one space."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pgengram.embedders.onnx import OnnxEmbedder
from pgengram.embedders.protocol import Embedder, Scheme
from pgengram.embedders.vectors import unit
from pgengram.errors import EmbeddingFailed, InvalidInput
from pgengram.text.lexical.language import language_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HERE: Final = Path(__file__).parent
ENGLISH, OTHERS = "all_minilm_l6_v2", "multilingual_e5_small"  # folders
SHA256: Final[Mapping[str, Mapping[str, str]]] = {
    ENGLISH: {
        "model.onnx": "6bb8ead6608c63315ab57d46fc71451d61e4dae984ed379d4afa4026834deb03",
        "model.onnx_data": "1986724b773ef838ca0a4789555f1341f6b1bc05aa71ac3ad94fadeffe32308d",
        "tokenizer.json": "9114256b104cca80e04367526f03f46aa3c443c2ed174904142a73bbf13b9fbb",
    },
    OTHERS: {
        "model.onnx": "0ab8adbedddf891e3614ce172f13c3b6ecee85adbb0f05bf1e8c0b5f404822ed",
        "model.onnx_data": "b779e58c90ebbafc1c9f3f01eff078904b8e29b9872d1d0b4700263c8d9d0019",
        "vocabulary.txt": "49d7fd3fff1b466f8cea2760ccf4049d05b374a9313824be49cf8d30d0fb9029",
    },
}
NAME: Final = "all-MiniLM-L6-v2+multilingual-e5-small@b779e58c90eb"  # another one for any change of a vector
DIMENSIONS: Final = 384
REINSTALL: Final = "Reinstall pgengram: the files of its built-in embedding model are damaged or incomplete."


_ahead: Final[list[BuiltinEmbedder]] = []


class BuiltinEmbedder:
    """Embeds English with all-MiniLM-L6-v2 and other languages with multilingual-e5-small, mapped into the space of the
    first.

    The second encoder is read and loaded at the first text that needs it. Text of which both are told to have a part,
    or whose language is not clear, has the mean of both vectors; a long one the parts of the second encoder, which
    knows English, too.

    Args:
        folder: where the folders of both encoders are.

    Raises:
        EmbeddingFailed: the files of the English encoder are incomplete.
    """

    name = NAME

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

    async def passages(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return one array (parts, dimensions) per text."""
        languages = [language_of(text) for text in texts]
        english = [text for text, one in zip(texts, languages, strict=True) if one.english]
        foreign = [text for text, one in zip(texts, languages, strict=True) if one.foreign]
        by_english = iter(await self.english.passages(english))
        by_others = iter(await self.others.passages(foreign) if foreign else [])
        return [
            _mean([next(source) for source, used in ((by_english, one.english), (by_others, one.foreign)) if used])
            for one in languages
        ]

    async def query(self, text: str) -> NDArray[np.float32]:
        """Return the vector (dimensions,) of a question."""
        language = language_of(text)
        asked: list[Awaitable[NDArray[np.float32]]] = []
        if language.english:
            asked.append(self.english.query(text))
        if language.foreign:
            asked.append(self.others.query(text))
        return _mean([await one for one in asked])

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
            return OnnxEmbedder(self._folder / name, name=name, sums=SHA256[name], hint=REINSTALL)
        except EmbeddingFailed as error:
            raise EmbeddingFailed(error.message, REINSTALL) from error


def _mean(vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the mean of vectors of one shape at unit length, or the last where the encoders cut a text differently."""
    first, last = vectors[0], vectors[-1]
    return unit(first + last) if len(vectors) > 1 and first.shape == last.shape else last


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
