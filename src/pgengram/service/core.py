"""What every group of tools stands on: the store, the embedder and the session, storing, finding, and telling ids apart."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

from pydantic import ValidationError

from pgengram.embedders import Embedder
from pgengram.errors import Conflict, InvalidInput, ModelSwitched, NotFound
from pgengram.inputs import NewMemory, Question, checked, refusal
from pgengram.search import conflicts, cursors, ranking
from pgengram.search.question import Asked, Frequencies, understand
from pgengram.service.active_model import Models
from pgengram.service.secret_filter import without_secrets_in
from pgengram.service.session import Session
from pgengram.settings import Settings
from pgengram.store.assistant.working import WorkingMemoryExpirer
from pgengram.store.connection.database import Row, Transaction, vectors_parameter
from pgengram.store.connection.replica import Begin
from pgengram.store.maintenance.indexes import describe_index
from pgengram.store.maintenance.postings_compaction import PostingsCompactor
from pgengram.store.memory import duplicates, memories, upsert
from pgengram.store.memory.accesses import AccessLog
from pgengram.store.reading import history
from pgengram.store.reading.synonyms import SynonymBook
from pgengram.store.recovery.backup_schedule import BackupScheduler
from pgengram.store.store import Report, SharedStore, Store
from pgengram.text.tags import mapped_tags

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

Then = Callable[[Transaction, list[upsert.WriteResult]], Awaitable[None]]
UNIT_TOLERANCE: Final = 1e-12  # a vector shorter than this has no direction


class Core:
    """One namespace's store with an embedder and a session.

    Args:
        settings: which database, whose memories, which embedder.
        host: another namespace's, whose database and embedder are used and outlive this one; those of the settings otherwise.
    """

    def __init__(self, settings: Settings, host: Core | None = None) -> None:
        self.settings = settings
        self.store: Store = Store(settings) if host is None else SharedStore(host.store, settings)
        self.models: Models = Models(self.store, settings) if host is None else host.models
        self._is_guest = host is not None
        self.session = Session()
        self._synonyms = SynonymBook(self.store)
        self._frequencies = Frequencies()
        self.accesses = AccessLog(self.store)
        self._words = PostingsCompactor(self.store)
        self.working = WorkingMemoryExpirer(self.store)
        self._backups = BackupScheduler(self.store, settings)

    async def ready(self, report: Report | None = None) -> None:
        """Bring up the database if it is not up; the first call waits for it.

        Raises:
            NotReady: it did not come up; the next call tries again.
        """
        await self.store.open(report)

    async def open(self) -> None:
        """Get ready ahead of the first call, and begin to look after words and index.

        Raises:
            NotReady: the database did not come up.
        """
        await self.ready()
        self.working.notice()
        self._words.notice(0)
        self._backups.notice()
        await self.current_model()

    async def close(self) -> None:
        """Let go of the database, the model and the background work."""
        if not self._is_guest:
            await self.models.close()
        await self._words.close()
        await self._backups.close()
        await self.working.close()
        await self.accesses.close()
        await self.store.close()

    # -- storing ---------------------------------------------------------------------------------------------------

    async def draft(
        self, new: NewMemory, place: int = 1, *, status: Literal["active", "working"] = "active"
    ) -> memories.Draft:
        """Return `new` checked and ready to be embedded; with its vector when the caller gave one.

        Raises:
            SecretRejected: it holds a secret, and secrets are not to be redacted.
            InvalidInput: a detail or the vector is wrong.
        """
        new, redacted = without_secrets_in(new, redact=self.settings.secrets == "redact")
        if new.tags:
            new = new.model_copy(update={"tags": await self.tags(new.tags)})
        own = None if new.embedding is None else await self.own_vector(new.embedding)
        session_id, sequence = self.session.next()
        try:
            draft = memories.draft(new, session_id=session_id, sequence=sequence, place=place, status=status)
        except ValidationError as error:
            raise refusal(error, "metadata") from None
        draft.parts = [] if own is None else [own]
        draft.redacted = redacted
        return draft

    async def tags(self, given: Sequence[str]) -> list[str]:
        """Return tags as they are stored: in one spelling, synonyms replaced, each once."""
        return mapped_tags(given, await self._synonyms.current())

    async def relate(self, drafts: Sequence[memories.Draft]) -> list[NotFound | Conflict | None]:
        """Find the memories that drafts name in `related_to`; return for each draft what is wrong with its ids, if anything."""
        given = list(dict.fromkeys(key for draft in drafts for key in draft.request.related_to))
        errors: dict[str, NotFound | Conflict] = {}
        found: dict[str, UUID] = {}
        if given:
            async with self.store.transaction() as tx:
                found, missing = await self.resolved(tx, given)
            for one in missing:
                error, key = one["error"], one["id"]
                unknown = error["code"] == NotFound.code
                errors[key] = NotFound("memory", key) if unknown else Conflict(error["message"], error["hint"])
        for draft in drafts:
            draft.related = list(dict.fromkeys(found[key] for key in draft.request.related_to if key in found))
        return [next((errors[key] for key in draft.request.related_to if key in errors), None) for draft in drafts]

    async def store_drafts(
        self, drafts: list[memories.Draft], *, whole: bool = False, then: Then | None = None
    ) -> list[upsert.WriteResult]:
        """Embed what has no vector yet, and store everything in one transaction; with `whole` read back what there is now.

        What is to be done `then` is done in the same transaction: it fails or holds with the rest.
        """
        bare = [draft for draft in drafts if not len(draft.parts)]
        own_are_of = self.model_key if len(bare) < len(drafts) else None
        for draft, parts in zip(bare, await self.embed([draft.row["content"] for draft in bare]), strict=True):
            draft.parts = parts
        if own_are_of is not None and own_are_of != self.model_key:
            raise ModelSwitched
        least = duplicates.NEAR_OTHERWISE if self.embedder is None else duplicates.threshold(self.embedder.name)
        async with self.store.transaction(probes=duplicates.NEAR_PROBES) as tx:
            written = await upsert.write_memories(
                tx, drafts, self.models.made_by(tx), self.model_key, least, whole=whole
            )
            if then is not None:
                await then(tx, written)
        self.notice_growth(len(drafts))
        return written

    # -- finding ---------------------------------------------------------------------------------------------------

    async def search(self, question: Question, place: cursors.Cursor) -> tuple[list[Row], str, dict[str, int]]:
        """Return the hits, how they were found, and how many memories are hidden, by reason."""
        self.session.current()  # whoever asks is not idle
        question = await self.with_synonyms(question)
        return await self.store.read(lambda begin: self._search(begin, question, place))

    async def _search(
        self, begin: Begin, question: Question, place: cursors.Cursor
    ) -> tuple[list[Row], str, dict[str, int]]:
        page = {"limit": question.limit, "offset": place.offset}
        blank = not question.query.strip() and question.embedding is None
        if blank or question.mode == "substring" or question.sort is not None:
            async with begin() as tx:
                rows = await ranking.listed(tx, question, now=place.now, after=place.after, **page)
                await history.complete(tx, rows, question.as_of)
                return rows, "list", await ranking.hidden(tx)
        ready = question.mode == "text" or question.embedding is not None or self.embedder is None
        vector = None
        if question.embedding is not None and question.mode != "text":
            vector = await self.own_vector(question.embedding)
        async with begin() as tx:
            asked = await understand(tx, question, self._frequencies, place.now)
            if not ready and self.models.quick:
                vector, ready = await self.question_vector(asked.meaning, None), True
            if ready:  # nothing slow is to be done in between
                return await self._ranked(tx, question, place, asked, vector)
        vector = await self.question_vector(asked.meaning, None)
        async with begin() as tx:
            return await self._ranked(tx, question, place, asked, vector)

    async def with_synonyms(self, question: Question) -> Question:
        """Return `question` asking for each tag by all the words it may be stored as."""
        return question.with_synonyms(await self._synonyms.current()) if question.tags else question

    async def _ranked(
        self, tx: Transaction, question: Question, place: cursors.Cursor, asked: Asked, vector: NDArray[float32] | None
    ) -> tuple[list[Row], str, dict[str, int]]:
        model = None if vector is None else self.models.made_by(tx)
        found = await ranking.ranked(
            tx, asked, question, model, None if vector is None else vectors_parameter([vector])[0],
            min_similarity=question.min_similarity, limit=question.limit, offset=place.offset,
        )  # fmt: skip
        await history.complete(tx, found.rows, question.as_of)
        await conflicts.note(tx, found.rows)
        return found.rows, "exact" if found.exact else "approximate", found.hidden

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
        row = (await memories.read(tx, list(found.values()), self.model_key)).get(found[given])
        if row is None:  # erased in this very moment
            raise NotFound("memory", given)
        return row

    def refuse_bad_metadata(self, metadata: dict[str, Any] | None) -> None:
        """Refuse metadata that no memory could hold.

        Raises:
            InvalidInput: it is too large, too deep, or no JSON.
        """
        if metadata is not None:
            checked(NewMemory, {"content": "-", "metadata": {k: v for k, v in metadata.items() if v is not None}})

    @property
    def embedder(self) -> Embedder | None:
        """What turns text into vectors: the active model's once the store is known; None for `none:`."""
        return self.models.embedder

    @property
    def degraded(self) -> bool | None:
        """Whether searches go without meaning, as there is no embedder; else None."""
        return True if self.embedder is None else None

    @property
    def model_key(self) -> int | None:
        """The key of the model that made this call's vectors, else of the active one; None while there is none."""
        return self.models.key

    async def find_model(self) -> None:
        """Begin a call that may need no embedder; each transaction says which model is the active one."""
        await self.store.open()
        self.models.begin()

    async def current_model(self) -> ranking.VectorIndex | None:
        """Return the key of the store's active model, and whether its index is built; None without an embedder."""
        in_use = await self.models.current()
        return None if in_use is None else in_use.model

    async def embed(self, texts: Sequence[str]) -> list[NDArray[float32] | list[Any]]:
        """Return the vectors of each text, shape (parts, dims); none without an embedder."""
        in_use = await self.models.embedding()
        if in_use is None or not texts:
            return [[] for _ in texts]
        return [*await in_use.embedder.passages(texts)]

    async def own_vector(self, own: list[float]) -> NDArray[float32]:
        """Return a caller's vector at unit length."""
        in_use = await self.models.embedding()
        if in_use is None:
            raise InvalidInput(
                "No embedder is set, so a vector cannot be compared.", "Leave embedding out, or set PGENGRAM_EMBEDDER."
            )
        return unit_vector(own, in_use.model.dimensions)

    async def question_vector(self, text: str, own: list[float] | None) -> NDArray[float32] | None:
        """Return the vector of a question, shape (dims,): the caller's own, else the embedder's; None without one."""
        if own is not None:
            return await self.own_vector(own)
        in_use = await self.models.embedding()
        return None if in_use is None else await in_use.embedder.query(text)

    async def index_state(self) -> str:
        """Say in words whether searches by meaning are exact or go through an index."""
        model = await self.current_model()
        return "none: there is no embedder" if model is None else await describe_index(self.store.database, model.id)

    def notice_growth(self, rows: int) -> None:
        """Tell the background work that so many memories were stored."""
        self.models.note_growth(rows)
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
