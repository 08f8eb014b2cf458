"""Turning text into vectors: the built-in model, a local ONNX folder or an HTTP server, chosen by one URL.

A file of this folder that holds an embedder is named like the scheme of its URLs, up to a plus, and says in its
`SCHEMES` which they are. Only that file is loaded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from math import ceil, sqrt
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, overload

from pgengram.errors import EmbeddingFailed, InvalidInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Passage(Sequence["NDArray[np.float32]"]):
    """What a text is stored by; a sequence of the vectors of its parts.

    vectors: shape (parts, dimensions), or as many vectors.
    """

    vectors: NDArray[np.float32] | Sequence[NDArray[np.float32]] = ()

    def __len__(self) -> int:
        return len(self.vectors)

    @overload
    def __getitem__(self, part: int) -> NDArray[np.float32]: ...
    @overload
    def __getitem__(self, part: slice) -> Sequence[NDArray[np.float32]]: ...
    def __getitem__(self, part: int | slice) -> NDArray[np.float32] | Sequence[NDArray[np.float32]]:
        return self.vectors[part]

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return sum(vector.nbytes for vector in self.vectors)

    def freeze(self) -> None:
        """Let nobody change its vectors, which several hold."""
        for array in (self.vectors, *self.vectors):
            if flags := getattr(array, "flags", None):
                flags.writeable = False


def unit(vectors: ArrayLike) -> NDArray[np.float32]:
    """Return (dims,) or (rows, dims) scaled to unit length along the last axis.

    Raises:
        EmbeddingFailed: a vector is zero or not finite.
    """
    import numpy as np

    exact = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(exact, axis=-1, keepdims=True)
    if not np.all(np.isfinite(lengths)) or not np.all(lengths > 0):
        raise EmbeddingFailed("The embedding model gave a vector that is zero or not finite.")
    return np.asarray(exact / lengths, dtype=np.float32)


def spans(length: int, window: int, overlap: int) -> list[slice]:
    """Return the fewest slices of at most `window` that cover `length`; neighbours share `overlap`.

    They are about equally long, so that the last one is never a scrap without context. Any unit will do: characters
    or tokens. `overlap` must be less than `window`.
    """
    if length <= window:
        return [slice(0, length)]
    count = ceil((length - overlap) / (window - overlap))
    size = ceil((length + (count - 1) * overlap) / count)
    return [slice(start, min(start + size, length)) for start in range(0, length - overlap, size - overlap)]


class Embedder(Protocol):
    """Turns text into vectors of unit length, so that an inner product is a cosine."""

    @property
    def name(self) -> str:
        """The identity of model and build; vectors of different names are never compared."""

    async def dimensions(self) -> int:
        """Return the length of every vector."""

    async def passages(self, texts: Sequence[str]) -> list[Passage]:
        """Return what each text is stored by, in the order of `texts`; a long text has overlapping parts.

        Raises:
            EmbeddingFailed: there is no vector for one of the texts; none is returned.
        """

    async def query(self, text: str) -> NDArray[np.float32]:
        """Return the vector (dimensions,) of a question; of a long one the mean of its parts.

        Raises:
            EmbeddingFailed: there is no vector for the text.
        """

    def load_ahead(self) -> None:
        """Begin to load what the first text needs, while something else is waited for; that text tells a failure."""

    def describe(self) -> dict[str, object]:
        """Return what is worth knowing for a diagnosis, without loading or calling anything."""

    async def close(self) -> None:
        """Give back memory, threads and connections; the embedder cannot be used again."""


class Scheme(NamedTuple):
    """A kind of embedder URL: how it is written, and what makes the embedder of one and an API key."""

    written: str
    make: Callable[[str, str], Embedder]


UNRELATED: Final = 0.12  # mean cosine of unrelated texts by the built-in model, over 320 memories in eight languages
PROBE: Final = (
    "The bakery on the corner closes at six.",
    "Please rename the branch before you merge it.",
    "My sister is allergic to walnuts.",
    "The invoice of March has not been paid yet.",
    "A volcano erupted under the glacier.",
    "We chose PostgreSQL because of its transactions.",
    "He practises the cello every evening.",
    "The train to Lyon leaves from platform nine.",
    "Photosynthesis turns light into sugar.",
    "The keys are in the blue drawer.",
    "Our team meets on Tuesdays at ten.",
    "She broke her wrist while skating.",
    "The court dismissed the appeal.",
    "Add two eggs and a pinch of salt.",
    "The router loses its connection at night.",
    "Elephants remember where water was.",
    "The deadline moved to the end of the month.",
    "Gold fell to its lowest price in a year.",
    "I would like to learn Portuguese.",
    "The museum shows paintings of the sea.",
    "Der Hund schläft unter dem Tisch.",
    "Die Heizung wird im Oktober gewartet.",
    "Nous avons signé le contrat hier.",
    "La pluie a inondé la cave.",
    "El examen de química fue aplazado.",
    "Mi abuela cultiva tomates.",
    "Поезд опоздал на два часа.",
    "Он пишет диссертацию о птицах.",
    "会议改到下周三下午。",
    "他不喝牛奶。",
    "図書館は月曜日に休みです。",
    "新しいノートパソコンを買いました。",
)


async def centre_of(embedder: Embedder) -> list[float]:
    """Return what to take from each vector of a model, of length `dimensions`; nothing where it need not be.

    With the mean m of the probe's vectors, (1 − a) m stays, so that unrelated texts have the cosine `UNRELATED`.
    """
    import numpy as np

    mean = np.array([parts[0] for parts in await embedder.passages(PROBE)], dtype=np.float64).mean(axis=0)
    common = float(mean @ mean)  # about the mean cosine of two texts
    if common <= UNRELATED:
        return []
    stays = sqrt(UNRELATED / (1 - UNRELATED) * (1 - common) / common)
    return [round(float(value), 6) for value in mean * (1 - min(1.0, stays))]


Purpose = Literal["passage", "query"]
Key = tuple[Purpose, bytes]

CACHE_BYTES = 16_000_000  # about 9,000 short texts of 384 dimensions
ENTRY_BYTES = 256  # what an entry costs beside its numbers: key, array header, dictionary slot


class Cached:
    """An embedder that remembers the vectors it gave last, the least recently used are forgotten first.

    The same text asked for twice at the same time is embedded once. Arrays are shared and therefore read-only.
    """

    def __init__(self, embedder: Embedder, max_bytes: int = CACHE_BYTES) -> None:
        self.embedder = embedder
        self.max_bytes = max_bytes
        self._known: OrderedDict[Key, Passage] = OrderedDict()
        self._bytes = 0
        self._under_way: dict[Key, asyncio.Future[None]] = {}

    @property
    def name(self) -> str:
        """The wrapped embedder's name."""
        return self.embedder.name

    async def dimensions(self) -> int:
        """Return the length of every vector."""
        return await self.embedder.dimensions()

    async def passages(self, texts: Sequence[str]) -> list[Passage]:
        """Return what each text is stored by."""
        return await self._made("passage", texts, self.embedder.passages)

    async def query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question."""

        async def only(texts: Sequence[str]) -> list[Passage]:
            return [Passage([await self.embedder.query(text)]) for text in texts]

        [[vector]] = await self._made("query", [text], only)
        return vector

    def load_ahead(self) -> None:
        """Have the wrapped embedder begin to load."""
        self.embedder.load_ahead()

    def describe(self) -> dict[str, object]:
        """Return the wrapped embedder's description and the size of the cache."""
        return {**self.embedder.describe(), "cached_texts": len(self._known), "cached_bytes": self._bytes}

    async def close(self) -> None:
        """Close the wrapped embedder and forget everything."""
        self._known.clear()
        self._bytes = 0
        await self.embedder.close()

    async def _made(
        self, purpose: Purpose, texts: Sequence[str], embed: Callable[[Sequence[str]], Awaitable[list[Passage]]]
    ) -> list[Passage]:
        cleaned = [_cleaned(text) for text in texts]
        keys: list[Key] = [(purpose, sha256(text.encode()).digest()) for text in cleaned]
        wanted = dict(zip(keys, cleaned, strict=True))
        got: dict[Key, Passage] = {}
        while missing := self._missing(wanted, got):
            mine = {key: text for key, text in missing.items() if key not in self._under_way}
            if mine:
                got |= await self._embed(mine, embed)
            else:  # if the others fail or are cancelled, their texts become ours in the next round
                await asyncio.wait({self._under_way[key] for key in missing})
        return [got[key] for key in keys]

    def _missing(self, wanted: dict[Key, str], got: dict[Key, Passage]) -> dict[Key, str]:
        """Add to `got` what is kept, and return the texts that are in neither."""
        got |= self._recall([key for key in wanted if key not in got])
        return {key: text for key, text in wanted.items() if key not in got}

    async def _embed(
        self, texts: dict[Key, str], embed: Callable[[Sequence[str]], Awaitable[list[Passage]]]
    ) -> dict[Key, Passage]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way |= dict.fromkeys(texts, done)
        try:
            made = dict(zip(texts, await embed(list(texts.values())), strict=True))
            for key, one in made.items():
                self._keep(key, one)
        finally:
            for key in texts:
                del self._under_way[key]
            done.set_result(None)
        return made

    def _recall(self, keys: Sequence[Key]) -> dict[Key, Passage]:
        found = {key: self._known[key] for key in keys if key in self._known}
        for key in found:
            self._known.move_to_end(key)
        return found

    def _keep(self, key: Key, made: Passage) -> None:
        made.freeze()
        self._known[key] = made
        self._bytes += made.nbytes + ENTRY_BYTES
        while self._bytes > self.max_bytes:
            _, oldest = self._known.popitem(last=False)
            self._bytes -= oldest.nbytes + ENTRY_BYTES


def _cleaned(text: str) -> str:
    """Return text that every tokenizer and server accepts: no lone surrogates, never blank."""
    encodable = text.encode(errors="replace").decode()
    return encodable if encodable.strip() else "?"


def _kinds(module: str) -> dict[str, Scheme]:
    """Return the kinds of embedder URLs that lead to a file of this folder, by the word before the colon."""
    return getattr(import_module(f"{__name__}.{module}"), "SCHEMES", {})


def _files() -> list[str]:
    return [found.name for found in iter_modules(__path__) if not found.ispkg]


def embedder_from(url: str, api_key: str = "") -> Embedder | None:
    """Return the embedder that `url` names, with a cache before it; None for `none:`.

    Nothing is loaded or called yet; for `onnx:` the files are read once to name the model.

    Raises:
        InvalidInput: the URL names no embedder, or the folder does not exist.
        EmbeddingFailed: the folder holds no model that can be used, or the built-in one is damaged.
    """
    word, colon, rest = url.strip().partition(":")
    if (word, colon, rest) == ("none", ":", ""):
        return None
    file = word.partition("+")[0]
    scheme = _kinds(file).get(word) if colon and file in _files() else None
    if scheme is None:
        raise InvalidInput("PGENGRAM_EMBEDDER is not a known embedder.", _allowed())
    try:
        return Cached(scheme.make(rest, api_key))
    except InvalidInput as error:
        raise InvalidInput(error.message, _allowed()) from None


def _allowed() -> str:
    kinds = [scheme for file in _files() for scheme in _kinds(file).values()]
    written = ", ".join(dict.fromkeys(scheme.written for scheme in kinds))
    return f"Allowed are {written}, and none: for text search only."


def spelled(url: str) -> str:
    """Return a URL of `embedder_from` as it can be kept: the folder of `onnx:` absolute, whoever reads it wherever."""
    kind, colon, folder = url.strip().partition(":")
    return f"onnx:{Path(folder).expanduser().absolute()}" if kind == "onnx" else kind + colon + folder
