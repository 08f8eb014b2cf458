"""The built-in embedder: an encoder for English and one for every other language, whose vectors share one space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pgengram.embedders import Embedder, Passage, Scheme, unit
from pgengram.embedders.onnx import OnnxEmbedder
from pgengram.errors import EmbeddingFailed, InvalidInput
from pgengram.runtime.context import beside_the_loop
from pgengram.text.language import Language, language_of
from pgengram.text.words import MAX_TRANSLATED, in_english
from pgengram.text.words import SHA256 as LEXICONS

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
        "model.onnx": "4e24cf6d3bc05a1260e2323a60181c5435748b8941dc739c06bc65ff04392681",
        "model.onnx_data": "9b700b6b9022cf97a677b94da3e93d006dfd15862408ebd97697f2a585f803fd",
        "vocabulary.txt": "49d7fd3fff1b466f8cea2760ccf4049d05b374a9313824be49cf8d30d0fb9029",
    },
}
# Another one for any change of a vector.
NAME: Final = f"all-MiniLM-L6-v2+multilingual-e5-small@9b700b6b9022-{LEXICONS[:4]}"
DIMENSIONS: Final = 384
# A short memory in another language also has something of the vector of its words in English. In Chinese, where they
# are cut out of a text without spaces and many have several meanings, that was no gain.
WEIGHT_IN_ENGLISH: Final = 0.4
NOT_IN_ENGLISH: Final = frozenset(("zh",))
REINSTALL: Final = "Reinstall pgengram: the files of its built-in embedding model are damaged or incomplete."


_ahead: Final[list[BuiltinEmbedder]] = []


class BuiltinEmbedder:
    """Embeds English with all-MiniLM-L6-v2, and others with multilingual-e5-small, mapped into the space of the first.

    The second encoder is read and loaded at the first text that needs it. Text of which both are told to have a part,
    or whose language is not clear, has the mean of both vectors; a long one the parts of the second encoder, which
    knows English, too. A short passage in another language alone has something of its words in English.

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

    async def passages(self, texts: Sequence[str]) -> list[Passage]:
        """Return what each text is stored by."""
        languages, for_english = await beside_the_loop(sum(map(len, texts)), lambda: _for_encoders(texts))
        foreign = [text for text, one in zip(texts, languages, strict=True) if one.foreign]
        by_english = iter(await self.english.passages([text for text in for_english if text is not None]))
        by_others = iter(await self.others.passages(foreign) if foreign else [])
        found = []
        for one, text in zip(languages, for_english, strict=True):
            made = [next(by_english)] if text is not None else []
            made += [next(by_others)] if one.foreign else []
            found.append(_joined_passages(made, in_english=one.english))
        return found

    async def query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question."""
        language = language_of(text)
        vectors = [await self.english.query(text)] if language.english else []
        vectors += [await self.others.query(text)] if language.foreign else []
        return vectors[0] if len(vectors) == 1 else unit(vectors[0] + vectors[1])

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


def _for_encoders(texts: Sequence[str]) -> tuple[list[Language], list[str | None]]:
    """Return the languages of texts, and what of each the English encoder reads."""
    languages = [language_of(text) for text in texts]
    for_english = [
        text if one.english else _words_in_english(text, one) for text, one in zip(texts, languages, strict=True)
    ]
    return languages, for_english


def _words_in_english(text: str, language: Language) -> str | None:
    """Return a short text's words in English; None where there are none or some may be missing."""
    found = {} if language.code in NOT_IN_ENGLISH else in_english(text)
    return " ".join(chain(*found.values())) if 0 < len(found) < MAX_TRANSLATED else None


def _joined_passages(made: Sequence[Passage], *, in_english: bool) -> Passage:
    """Return what one encoder or both make of a text, as one passage.

    Args:
        made: the first encoder's passage, of the text or of its words in English, the second one's, or both.
        in_english: whether the text has words of English.
    """
    import numpy as np

    if len(made) == 1:
        return made[0]
    english, others = (np.asarray(one.vectors) for one in made)
    if not in_english:
        return Passage(unit(others + WEIGHT_IN_ENGLISH * english[:1])) if len(others) == 1 else made[1]
    return Passage(unit(english + others)) if english.shape == others.shape else made[1]  # else they cut it differently


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
