"""The embedding model that a process uses: always the store's active one, also when that changes while it runs."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from pgengram.embedders import Embedder, embedder_from, spelled
from pgengram.errors import EmbeddingFailed, InvalidInput, ModelSwitched, NotReady
from pgengram.search.ranking import VectorIndex
from pgengram.settings import Settings
from pgengram.store.connection.database import Transaction
from pgengram.store.maintenance.indexes import IndexMaintainer
from pgengram.store.maintenance.reembedding import progress
from pgengram.store.schema.embedding_models import StoredModel, first_model, model_of_state, note_embedder
from pgengram.store.store import Store

MOVE: Final = (
    "Put it back, or move the store to another model with `pgengram reembed EMBEDDER`. "
    "With PGENGRAM_EMBEDDER=none: memories are found by their words meanwhile."
)


@dataclass(frozen=True, slots=True)
class InUse:
    """The active model: its place in the store, what makes its vectors, and who looks after their index."""

    model: VectorIndex
    embedder: Embedder
    indexes: IndexMaintainer


# A call may be embedding while another one notices that the store has moved: what belongs to a call's vectors is the model
# that made them, not the newest one.
_MADE_BY: ContextVar[VectorIndex | None] = ContextVar("made_by", default=None)


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

    @property
    def embedder(self) -> Embedder | None:
        """What embeds; before the store is known, what would in a new one."""
        return self.configured if self._in_use is None else self._in_use.embedder

    @property
    def key(self) -> int | None:
        """The model that made the vectors of this call, else the active one; None without an embedder."""
        if self.configured is None:
            return None
        made_by = _MADE_BY.get()
        return self._store.active_model_id if made_by is None else made_by.id

    @property
    def quick(self) -> bool:
        """Whether a question's vector is there within milliseconds now, without another look at the database."""
        in_use = self._in_use
        return in_use is not None and in_use.model.id == self._store.active_model_id and in_use.embedder.quick

    def note_growth(self, rows: int) -> None:
        """Say that `rows` vectors were added."""
        if self._in_use is not None:
            self._in_use.indexes.notice(rows)

    def begin(self) -> None:
        """Begin a call that has no vectors yet, and may not need any."""
        _MADE_BY.set(None)

    def made_by(self, tx: Transaction) -> VectorIndex | None:
        """Return the model that made the vectors of this call.

        Raises:
            ModelSwitched: the store has moved to another one since.
        """
        model = _MADE_BY.get()
        if model is not None and model.id != tx.model_id:
            raise ModelSwitched
        return model

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

    async def embedding(self) -> InUse | None:
        """Return the active model, and note that it makes the vectors of this call; None for `none:`."""
        in_use = await self.current()
        _MADE_BY.set(None if in_use is None else in_use.model)
        return in_use

    async def state(self) -> dict[str, str]:
        """Return which model is used, how it differs from the setting, and how far a move to another one is."""
        stored = await model_of_state(self._store.database, "active")
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
        at = await progress(self._store.database)
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
            await self._store.open()
            database = self._store.database
            stored = await model_of_state(database, "active") or await first_model(
                database, configured.name, await configured.dimensions(), spelled(self._settings.embedder)
            )
            old = self._in_use
            if old is None or old.model.id != stored.id:
                embedder = await self._embedder_of(stored, configured)
                model = VectorIndex(stored.id, stored.dimensions)
                self._in_use = InUse(model, embedder, IndexMaintainer(self._store, model))
                if old is not None:
                    await old.indexes.close()
            self._store.active_model_id = stored.id
            assert self._in_use is not None  # noqa: S101 - it is the old one, or has just been made
            return self._in_use

    async def _embedder_of(self, stored: StoredModel, configured: Embedder) -> Embedder:
        if configured.name == stored.name:
            embedder = configured
            if stored.embedder != spelled(self._settings.embedder):  # its folder was moved
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
