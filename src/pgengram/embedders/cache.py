"""Vectors that are already known are not made again."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from pgengram.embedders.vectors import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pgengram.embedders.vectors import Embedder

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
