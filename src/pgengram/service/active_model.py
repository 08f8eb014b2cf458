"""The embedding model that a process uses: always the store's active one, also when that changes while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pgengram.embedders import Embedder, Passage, embedder_from, spelled
from pgengram.errors import EmbeddingFailed, InvalidInput, NotReady
from pgengram.search.vector_index import Embedded, VectorIndex
from pgengram.settings import Settings
from pgengram.store.maintenance.indexes import IndexMaintainer
from pgengram.store.maintenance.reembedding import progress
from pgengram.store.schema.embedding_models import StoredModel, first_model, model_of_state, note_embedder
from pgengram.store.store import Store

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

REMOTE: Final = "openai:"  # begins the names of models whose vectors come as their server makes them
UNIT_TOLERANCE: Final = 1e-12  # a vector shorter than this has no direction
MOVE: Final = (
    "Put it back, or move the store to another model with `pgengram reembed EMBEDDER`. "
    "Until then PGENGRAM_EMBEDDER=none: finds memories by their words."
)


@dataclass(frozen=True, slots=True)
class InUse:
    """The active model: its place in the store, what makes its vectors, and who looks after their index."""

    model: VectorIndex
    embedder: Embedder
    indexes: IndexMaintainer


class Models:
    """The way to the store's active embedding model.

    PGENGRAM_EMBEDDER decides for a store without one only; another store's model is loaded as the store says. `none:`
    always means none.

    Args:
        store: whose model.
        settings: which embedder, and its key.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self.configured = embedder_from(settings.embedder, settings.embedder_api_key)
        self._store = store
        self._settings = settings
        self._in_use: InUse | None = None
        self._others: dict[str, Embedder] = {}
        self._taking = asyncio.Lock()
        self._builds_indexes = False

    @property
    def embedder(self) -> Embedder | None:
        """What embeds; before the store is known, what would in a new one."""
        return self.configured if self._in_use is None else self._in_use.embedder

    @property
    def key(self) -> int | None:
        """The active model, as the last transaction saw it; None without an embedder."""
        return None if self.configured is None else self._store.active_model_id

    def note_growth(self, rows: int) -> None:
        """Say that `rows` vectors were added."""
        if self._in_use is not None:
            self._in_use.indexes.notice(rows)

    def build_indexes(self) -> None:
        """Build in the background what indexes are due, as soon as a model is used: the process stays."""
        self._builds_indexes = True
        if self._in_use is not None:
            self._in_use.indexes.build()

    async def current(self) -> InUse | None:
        """Return the active model; None for `none:`.

        Raises:
            NotReady: its embedder is not to be had.
        """
        if self.configured is None:
            return None
        in_use = self._in_use
        if in_use is None or in_use.model.id != self._store.active_model_id:
            in_use = await self._take(self.configured)
        return in_use

    async def passages(self, texts: Sequence[str]) -> Embedded:
        """Return the vectors of texts to be stored; never call it inside a transaction."""
        in_use = await self.current()
        if in_use is None:
            return Embedded(vectors=[Passage() for _ in texts])
        return Embedded(in_use.model, await in_use.embedder.passages(texts) if texts else [])

    async def question(self, text: str) -> Embedded:
        """Return the vector of a question; a transaction may wait for it for a moment only."""
        in_use = await self.current()
        if in_use is None:
            return Embedded()
        return Embedded(in_use.model, [await in_use.embedder.query(text)], text)

    async def given(self, vector: list[float]) -> Embedded:
        """Return a caller's own vector at unit length.

        Raises:
            InvalidInput: there is no embedder, or the vector does not fit its model.
        """
        in_use = await self.current()
        if in_use is None:
            raise InvalidInput(
                "No embedder is set, so a vector cannot be compared.", "Leave embedding out, or set PGENGRAM_EMBEDDER."
            )
        return Embedded(in_use.model, [unit_vector(vector, in_use.model.dimensions)])

    async def state(self) -> dict[str, str]:
        """Return which model is used, how it differs from the setting, and how far a move to another one is."""
        stored = await model_of_state(self._store.readable, "active")
        found = {"embedder": "none", "setting": "", "move": await self.move()}
        if self.configured is not None:
            found["embedder"] = self.configured.name if stored is None else stored.name
        if self.configured is not None and found["embedder"] != self.configured.name:
            found["setting"] = (
                f"PGENGRAM_EMBEDDER names {self.configured.name}, but this store's vectors are of {found['embedder']}, "
                "which is used; the setting decides for a new store only."
            )
        return {name: text for name, text in found.items() if text}

    async def move(self) -> str:
        """Say in words how far a move to another model is; empty when there is none."""
        at = await progress(self._store.readable)
        if at is None:
            return ""
        return (
            f"to {at.model}: {at.done:,} of {at.total:,} memories have its vectors; "
            "`pgengram reembed` goes on with it when nothing else does, `pgengram reembed --cancel` gives it up"
        )

    async def close(self) -> None:
        """Let go of every model and end the background work."""
        if self._in_use is not None:
            await self._in_use.indexes.close()
        for embedder in (self.configured, *self._others.values()):
            if embedder is not None:
                await embedder.close()

    async def _take(self, configured: Embedder) -> InUse:
        """Find out which model is the active one, and use it."""
        async with self._taking:
            await self._store.reach()
            stored = await model_of_state(self._store.readable, "active") or await first_model(
                self._store.database, configured.name, await configured.dimensions(), spelled(self._settings.embedder)
            )
            old = self._in_use
            if old is None or old.model.id != stored.id:
                embedder = await self._embedder_of(stored, configured)
                model = VectorIndex(stored.id, stored.dimensions, is_centred=not stored.name.startswith(REMOTE))
                self._in_use = InUse(model, embedder, IndexMaintainer(self._store, model, builds=self._builds_indexes))
                if old is not None:
                    await old.indexes.close()
            self._store.active_model_id = stored.id
            assert self._in_use is not None  # noqa: S101 - it is the old one, or has just been made
            return self._in_use

    async def _embedder_of(self, stored: StoredModel, configured: Embedder) -> Embedder:
        if configured.name == stored.name:
            embedder = configured
            if self._store.is_open and stored.embedder != spelled(self._settings.embedder):  # its folder was moved
                await note_embedder(self._store.database, stored.name, spelled(self._settings.embedder))
        else:
            embedder = self._others.get(stored.name) or self._loaded(stored)
            self._others[stored.name] = embedder
        if await embedder.dimensions() != stored.dimensions:
            raise NotReady(
                f"Vectors of the model {stored.name} have {stored.dimensions} dimensions in this store; "
                f"its embedder gives {await embedder.dimensions()}.",
                MOVE,
            )
        return embedder

    def _loaded(self, stored: StoredModel) -> Embedder:
        """Return the embedder that the store names for its model."""
        whose = f"This store's vectors are of the model {stored.name}"
        if stored.embedder is None:
            raise NotReady(f"{whose}, and it is not known which embedder makes them.", MOVE)
        try:
            embedder = embedder_from(stored.embedder, self._settings.embedder_api_key)
        except (InvalidInput, EmbeddingFailed) as error:
            raise NotReady(f"{whose}, but {stored.embedder} cannot be used: {error.message}", MOVE) from error
        if embedder is None or embedder.name != stored.name:
            raise NotReady(f"{whose}, but {stored.embedder} is another model now.", MOVE)
        return embedder


def unit_vector(values: list[float], dimensions: int) -> NDArray[float32]:
    """Return a caller's vector at unit length, shape (dimensions,).

    Raises:
        InvalidInput: it has another length, holds something else than finite numbers, or has no direction.
    """
    import numpy as np

    if len(values) != dimensions:
        raise InvalidInput(f"embedding has {len(values)} numbers; this store's model has {dimensions}.")
    vector = np.asarray(values, dtype=np.float64)
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or length < UNIT_TOLERANCE:
        raise InvalidInput("embedding must hold finite numbers that are not all zero.")
    return (vector / length).astype(np.float32)
