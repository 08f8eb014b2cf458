"""What every group of tools stands on: the store, the embedder and the session, storing, finding, and telling ids apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pydantic import ValidationError

from pgengram.embedders import Embedder, embedder_from
from pgengram.errors import Conflict, InvalidInput, NotFound
from pgengram.inputs import NewMemory, Question, checked, refusal
from pgengram.search import cursors, ranking
from pgengram.search.question import Frequencies, understand
from pgengram.session import Session
from pgengram.settings import Settings
from pgengram.store import memories
from pgengram.store.accesses import AccessLog
from pgengram.store.database import Row, Transaction, model_id, stored_model_id, vectors_parameter
from pgengram.store.folding import WordKeeper
from pgengram.store.indexes import IndexKeeper
from pgengram.store.store import Report, Store

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

UNIT_TOLERANCE: Final = 1e-12  # a vector shorter than this has no direction


class Core:
    """One owner's store with an embedder and a session.

    Args:
        settings: which database, whose memories, which embedder.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = Store(settings)
        self.embedder: Embedder | None = embedder_from(settings.embedder, settings.embedder_api_key)
        self.session = Session()
        self._frequencies = Frequencies()
        self.accesses = AccessLog(self.store)
        self._words = WordKeeper(self.store)
        self._model: ranking.Model | None = None
        self._stored_model_id: int | None = None
        self._indexes: IndexKeeper | None = None

    async def ready(self, report: Report | None = None) -> None:
        """Bring up the database if it is not up; the first call waits for it.

        Raises:
            NotReady: it did not come up; the next call tries again.
        """
        await self.store.open(report)

    async def open(self) -> None:
        """Get ready ahead of the first call, and begin to look after the index.

        Raises:
            NotReady: the database did not come up.
        """
        await self.ready()
        await self.current_model()

    async def close(self) -> None:
        """Let go of the database, the model and the background work."""
        if self._indexes is not None:
            await self._indexes.close()
        await self._words.close()
        await self.accesses.close()
        await self.store.close()
        if self.embedder is not None:
            await self.embedder.close()

    # -- storing ---------------------------------------------------------------------------------------------------

    async def draft(self, new: NewMemory, place: int = 1) -> memories.Draft:
        """Return `new` checked and ready to be embedded; with its vector when the caller gave one."""
        own = None if new.embedding is None else await self.own_vector(new.embedding)
        session_id, sequence = self.session.next()
        try:
            draft = memories.draft(new, session_id=session_id, sequence=sequence, place=place)
        except ValidationError as error:
            raise refusal(error, "metadata") from None
        draft.parts = [] if own is None else [own]
        return draft

    async def store_drafts(self, drafts: list[memories.Draft]) -> list[memories.Outcome]:
        """Embed what has no vector yet, and store everything in one transaction."""
        bare = [draft for draft in drafts if not len(draft.parts)]
        for draft, parts in zip(bare, await self.embed([draft.row["content"] for draft in bare]), strict=True):
            draft.parts = parts
        async with self.store.transaction() as tx:
            outcomes = await memories.insert(tx, drafts, self.model_key)
        self.notice_growth(len(drafts))
        return outcomes

    # -- finding ---------------------------------------------------------------------------------------------------

    async def search(self, question: Question, place: cursors.Place) -> tuple[list[Row], str, dict[str, int]]:
        """Return the hits, how they were found, and how many memories are hidden, by reason."""
        self.session.current()  # whoever asks is not idle
        page = {"limit": question.limit, "offset": place.offset}
        blank = not question.query.strip() and question.embedding is None
        if blank or question.mode == "substring" or question.sort is not None:
            async with self.store.transaction() as tx:
                rows = await ranking.listed(tx, question, now=place.now, after=place.after, **page)
                return rows, "list", await ranking.hidden(tx)
        async with self.store.transaction() as tx:
            asked = await understand(tx, question, self._frequencies, place.now)
        if question.mode == "semantic":
            asked = replace(asked, terms=[], weights=[], counts=[])
        vector = None if question.mode == "text" else await self.question_vector(asked.meaning, question.embedding)
        model = await self.current_model() if vector is not None else None
        async with self.store.transaction() as tx:
            rows, exact = await ranking.ranked(
                tx, asked, question, model, None if vector is None else vectors_parameter([vector])[0],
                min_similarity=question.min_similarity, **page,
            )  # fmt: skip
            return rows, "exact" if exact else "approximate", await ranking.hidden(tx)

    # -- ids and vectors -------------------------------------------------------------------------------------------

    async def resolved(self, tx: Transaction, given: Sequence[str]) -> tuple[dict[str, UUID], list[dict[str, Any]]]:
        """Return the memories that exist, by the id asked for, and an error for each other id."""
        meant = await memories.resolve(tx, list(dict.fromkeys(given)))
        there = await memories.read(tx, [id_ for ids in meant.values() for id_ in ids], self.model_key)
        found: dict[str, UUID] = {}
        missing: list[dict[str, Any]] = []
        for key, ids in meant.items():
            ids = [id_ for id_ in ids if id_ in there]
            if len(ids) == 1:
                found[key] = ids[0]
            else:
                error = (
                    Conflict(f"{len(ids)} memories end in {key}.", "Give more digits.")
                    if ids
                    else NotFound("memory", key)
                )
                missing.append({"id": key, "error": error.as_dict()})
        return found, missing

    async def one(self, tx: Transaction, given: str) -> Row:
        """Return the one memory that an id or its end means, whole.

        Raises:
            NotFound: there is none.
            Conflict: there are several.
        """
        found, missing = await self.resolved(tx, [given])
        if missing:
            error = missing[0]["error"]
            raise (
                NotFound("memory", given)
                if error["code"] == NotFound.code
                else Conflict(error["message"], error["hint"])
            )
        return (await memories.read(tx, list(found.values()), self.model_key))[found[given]]

    def refuse_bad_metadata(self, metadata: dict[str, Any] | None) -> None:
        """Refuse metadata that no memory could hold.

        Raises:
            InvalidInput: it is too large, too deep, or no JSON.
        """
        if metadata is not None:
            checked(NewMemory, {"content": "-", "metadata": {k: v for k, v in metadata.items() if v is not None}})

    @property
    def degraded(self) -> bool | None:
        """Whether searches go without meaning, as there is no embedder; else None."""
        return True if self.embedder is None else None

    @property
    def model_key(self) -> int | None:
        """The key of the embedder's model in this store, None while it is not known to have any vector."""
        return self._model.id if self._model else self._stored_model_id

    async def find_model(self) -> None:
        """Look up the key of the embedder's model, so that reading needs no embedder; none while it has no vectors."""
        if self.model_key is None and self.embedder is not None:
            await self.store.open()
            self._stored_model_id = await stored_model_id(self.store.database, self.embedder.name)

    async def current_model(self) -> ranking.Model | None:
        """Return the key of the embedder's model in this store, and whether its index is built."""
        if self.embedder is None:
            return None
        if self._model is None:
            dimensions = await self.embedder.dimensions()
            await self.store.open()
            id_ = await model_id(self.store.database, self.embedder.name, dimensions)
            if self._model is None:  # another call may have been faster
                self._model = ranking.Model(id_, dimensions)
                self._indexes = IndexKeeper(self.store, self._model)
        return self._model

    async def embed(self, texts: Sequence[str]) -> list[NDArray[float32] | list[Any]]:
        """Return the vectors of each text, shape (parts, dims); none without an embedder."""
        await self.current_model()
        if self.embedder is None or not texts:
            return [[] for _ in texts]
        return [*await self.embedder.passages(texts)]

    async def own_vector(self, own: list[float]) -> NDArray[float32]:
        """Return a caller's vector at unit length."""
        model = await self.current_model()
        if model is None:
            raise InvalidInput(
                "No embedder is set, so a vector cannot be compared.", "Leave embedding out, or set PGENGRAM_EMBEDDER."
            )
        return unit_vector(own, model.dimensions)

    async def question_vector(self, text: str, own: list[float] | None) -> NDArray[float32] | None:
        """Return the vector of a question, shape (dims,): the caller's own, else the embedder's; None without one."""
        if own is not None:
            return await self.own_vector(own)
        await self.current_model()
        return None if self.embedder is None else await self.embedder.query(text)

    def notice_growth(self, rows: int) -> None:
        """Tell the background work that so many memories were stored."""
        if self._indexes is not None:
            self._indexes.notice(rows)
        self._words.notice(rows)


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
