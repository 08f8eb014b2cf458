"""The words of a text in 128 bits each, by which a question's words are compared with those of a memory one by one.

That is late interaction (ColBERT: Khattab and Zaharia 2020): one vector of a whole text blurs what its words say. A bit
tells on which side of a plane the vector of a word lies; the planes are turned so that bits keep most of the angles
(iterative quantisation: Gong and Lazebnik 2011; `packaging/models/word_axes.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pgengram.embedders.unigram import WORD
from pgengram.text.lexical.language import ENGLISH, SCRIPTS, UNSPACED, function_words, light_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BITS: Final = 128
BYTES: Final = BITS // 8
COMMON: Final = 60  # words of a language that say little, the commonest first
_UNSPACED: Final = re.compile(f"[{''.join(SCRIPTS[code] for code in sorted(UNSPACED))}]")


class Words(NamedTuple):
    """The words of a text as an encoder sees them there.

    texts: each in lower case; vectors: the mean of its tokens', shape (words, dimensions), not of unit length.
    """

    texts: list[str]
    vectors: NDArray[np.float32]


def words_in(pieces: Sequence[str], tokens: NDArray[np.float32]) -> Words:
    """Put tokens together that are pieces of one word, and leave out what has neither letter nor digit.

    Args:
        pieces: what each token stands for; `▁` stands before the first of a word.
        tokens: their vectors, shape (tokens, dimensions).
    """
    import numpy as np

    texts: list[str] = []
    members: list[int] = []  # tokens of words
    begins: list[int] = []  # where among these each word begins
    goes_on = False
    for place, piece in enumerate(pieces):
        text = piece.removeprefix(WORD)
        if not any(map(str.isalnum, text)):
            goes_on = False
            continue
        if goes_on and text is piece and not _UNSPACED.match(text):
            texts[-1] += text.lower()
        else:
            texts.append(text.lower())
            begins.append(len(members))
        members.append(place)
        goes_on = True
    if not texts:
        return Words([], np.zeros((0, tokens.shape[-1]), np.float32))
    lengths = np.diff([*begins, len(members)])[:, None]
    return Words(texts, np.asarray(np.add.reduceat(tokens[members], begins, axis=0) / lengths, dtype=np.float32))


class WordAxes:
    """The planes by which words become bits.

    Args:
        file: an array (dimensions + encoders, `BITS`): the normals of the planes, then how far they are from the origin
            for each encoder, whose words' vectors do not have the same mean.
    """

    def __init__(self, file: Path) -> None:
        import numpy as np

        self._all = np.load(file).astype(np.float32)

    def kept(self, words: Words, language: str, encoder: int) -> bytes:
        """Return `BYTES` bytes for each word that says something; of a text without one, for each word.

        Args:
            words: of a passage.
            language: the code of its language.
            encoder: the number of the one that saw them.
        """
        import numpy as np

        common = light_words(language) if language == ENGLISH else function_words(language, COMMON)
        others = [place for place, text in enumerate(words.texts) if text not in common]
        vectors = words.vectors[others] if others else words.vectors
        return np.packbits(self._sides(vectors, encoder) > 0, axis=1).tobytes()

    def asked(self, words: Words, encoder: int) -> NDArray[np.float32]:
        """Return what is multiplied with bits of -1 and 1 to tell how near they are to each word of a question, shape
        (words, `BITS`).

        A word counts by the length of its vector, all together as one.
        """
        import numpy as np

        sides = self._sides(words.vectors, encoder)
        lengths = np.linalg.norm(words.vectors, axis=1)
        scale = lengths / (lengths.sum() or 1) / np.linalg.norm(sides, axis=1) / np.sqrt(BITS)
        return np.asarray(sides * scale[:, None], dtype=np.float32)

    def _sides(self, vectors: NDArray[np.float32], encoder: int) -> NDArray[np.float32]:
        import numpy as np

        dimensions = vectors.shape[1]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(
            vectors / np.maximum(lengths, 1e-9) @ self._all[:dimensions] - self._all[dimensions + encoder]
        )


def met(asked: NDArray[np.float32], kept: Sequence[bytes]) -> NDArray[np.float32]:
    """Return how near the nearest of some words is to each word of a question, shape (texts, words).

    Args:
        asked: of the question, as `WordAxes.asked` gives it.
        kept: of each text, as `WordAxes.kept` gives it; none of them is empty.
    """
    import numpy as np

    packed = np.frombuffer(b"".join(kept), dtype=np.uint8).reshape(-1, BYTES)
    bits = np.unpackbits(packed, axis=1).astype(np.float32) * 2 - 1
    starts = np.cumsum([0, *(len(words) // BYTES for words in kept[:-1])])
    return np.asarray(np.maximum.reduceat(bits @ asked.T, starts, axis=0))
