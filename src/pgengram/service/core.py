"""What every group of tools stands on: store, embedder and session; storing, searching and resolving ids."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, Protocol
from uuid import UUID

from pydantic import ValidationError

from pgengram.embedders import Embedder, Passage
from pgengram.errors import Conflict, InvalidInput, ModelSwitched, NotFound
from pgengram.ids import uuid7
from pgengram.inputs import NewMemory, Question, as_invalid_input, validated
from pgengram.runtime.context import FORMER_MEMBER, beside_the_loop
from pgengram.runtime.projects import Project
from pgengram.search.results import Cursor, Hit, Hits
from pgengram.search.retrieval import Retrieval
from pgengram.search.succession import may_replace
from pgengram.search.vector_index import Embedded, VectorIndex
from pgengram.service.active_model import Models
from pgengram.service.projects import Projects
from pgengram.settings import Settings
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.maintenance.index_state import IndexState, describe_index
from pgengram.store.maintenance.indexes import METHODS, rebuild_index
from pgengram.store.maintenance.postings_compaction import PostingsCompactor
from pgengram.store.memory import duplicates, memories, upsert
from pgengram.store.memory.accesses import AccessLog
from pgengram.store.reading import history
from pgengram.store.reading.names import COLUMNS, NameBook, SynonymBook
from pgengram.store.recovery.backup_schedule import BackupScheduler
from pgengram.store.store import Report, SharedStore, SpaceStore, Store
from pgengram.store.working import WorkingMemoryExpirer
from pgengram.text.tags import mapped_tags

PAUSE_S: Final = 1_800.0  # a longer silence begins a new session
SILENCE_S: Final = 60.0  # for which nobody looks for turns again where there were none; another process may keep some


def new_id() -> str:
    """Return a short id that sorts by time: milliseconds and 32 random bits."""
    digits = uuid7().hex
    return f"s-{digits[:12]}-{digits[-8:]}"


class Session:
    """One connection's session: a new id after thirty idle minutes, and the order in which memories arrive.

    Args:
        clock: seconds that only grow; monotonic time by default.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_use = clock()
        self._last_sequence = 0
        self._id = new_id()

    def current(self) -> str:
        """Return the id of the session that is on, and note that it is in use."""
        now = self._clock()
        if now - self._last_use > PAUSE_S:
            self._id, self._last_sequence = new_id(), 0
        self._last_use = now
        return self._id

    def next(self) -> tuple[str, int]:
        """Return the session that is on and the place of its next memory: 1, 2, 3 in the order of arrival."""
        session_id = self.current()
        self._last_sequence += 1
        return session_id, self._last_sequence


class Silence:
    """Whether a namespace was found to have no turns of conversations, so that not every search looks for some."""

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def lasts(self) -> bool:
        """Whether nobody has to look."""
        return time.monotonic() < self._until

    def note(self, *, spoken: bool) -> None:
        """Say whether there are turns."""
        self._until = 0.0 if spoken else time.monotonic() + SILENCE_S


log = logging.getLogger(__name__)


class Companion(Protocol):
    """Work in the background for as long as a server runs."""

    def begin(self) -> None:
        """Begin, without waiting for anything, unless it has begun."""

    async def close(self) -> None:
        """Stop."""


Then = Callable[[Transaction, list[upsert.WriteResult]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Beside:
    """A space that is searched beside one's own memories: how it is shown, and the people in it, by their keys."""

    core: Core
    name: str
    people: Mapping[int, str]

    def sign(self, hits: Sequence[Hit]) -> None:
        """Say where hits are from, and who stored them there."""
        for hit in hits:
            hit.space = self.name
            hit.author = None if hit.person_id is None else self.people.get(hit.person_id, FORMER_MEMBER)


def _with_origin(hits: Sequence[Hit], number: int) -> list[Hit]:
    return [hit for hit in hits if hit.origin == number]


class Core:
    """One namespace's store with an embedder and a session.

    Args:
        settings: which database, whose memories, which embedder.
        host: another namespace's, whose database and embedder are used and outlive this one; those of the settings
            otherwise.
        store: the one to use, where it was made already.
    """

    def __init__(self, settings: Settings, host: Core | None = None, *, store: Store | None = None) -> None:
        self.settings = settings
        self.store: Store = store or (Store(settings) if host is None else SharedStore(host.store, settings))
        of_server = self.store.for_upkeep() if isinstance(self.store, SpaceStore) else self.store
        self.models: Models = Models(self.store, settings) if host is None else host.models
        self._retrieval = Retrieval(self.models)
        self._is_guest = host is not None
        self.session = Session()
        self._synonyms = SynonymBook(self.store)
        self.names = NameBook(self.store)
        self.projects = Projects(settings)
        self.here: Project | None = None  # that of the folder where the client works, if that is known
        self.silence = Silence()
        self.told: dict[tuple[str, str], str] = {}  # of each conversation of a hook, the turn that it told of last
        self.accesses = AccessLog(self.store)
        self._words = PostingsCompactor(of_server)
        self.working = WorkingMemoryExpirer(of_server)
        self._backups = BackupScheduler(self.store, settings)
        self.companions: list[Companion] = []

    async def ready(self, report: Report | None = None, embeds: bool = True) -> None:
        """Bring up the database if it is not up, and the model beside it where there will be a text to embed; the first
        call waits for the database.

        Raises:
            NotReady: it did not come up; the next call tries again.
        """
        if embeds and not self.store.is_open and self.models.configured is not None:
            self.models.configured.load_ahead()
        await self.store.reach(report)
        for one in self.companions:
            one.begin()

    async def open(self) -> None:
        """Get ready ahead of the first call, and begin to look after words and index.

        Raises:
            NotReady: the database did not come up.
        """
        self.models.build_indexes()  # also when the database comes up later
        try:
            await self.store.reach()
        finally:
            self._backups.notice()
        self.working.notice()
        self._words.notice(0)
        for one in self.companions:
            one.begin()
        await self.current_model()

    def accompany(self, companion: Companion) -> None:
        """Have something work in the background from `open` to `close`."""
        self.companions.append(companion)

    async def close(self) -> None:
        """Let go of the database, the model and the background work."""
        models = () if self._is_guest else (self.models,)
        users = (*models, *self.companions, self._words, self._backups, self.working, self.accesses)
        try:
            await asyncio.gather(*(one.close() for one in users))
        finally:
            await self.store.close()

    # -- storing ---------------------------------------------------------------------------------------------------

    async def draft(
        self, new: NewMemory, place: int = 1, *, status: Literal["active", "working"] = "active"
    ) -> memories.Draft:
        """Return `new`, which was screened for secrets, ready to be embedded; with its vector when the caller gave one.

        Raises:
            InvalidInput: a detail or the vector is wrong.
        """
        if new.tags:
            new = new.model_copy(update={"tags": await self.tags(new.tags)})
        self.names.note(new)
        own = Embedded() if new.embedding is None else await self.models.given(new.embedding)
        session_id, sequence = self.session.next()
        try:
            draft = await beside_the_loop(
                len(new.content),
                partial(memories.draft, new, session_id=session_id, sequence=sequence, place=place, status=status),
            )
        except ValidationError as error:
            raise as_invalid_input(error, "metadata") from None
        draft.parts, draft.model_id = Passage(own.vectors), own.model_id
        return draft

    async def tags(self, given: Sequence[str]) -> list[str]:
        """Return tags as they are stored: in one spelling, synonyms replaced, each once."""
        return mapped_tags(given, await self._synonyms.current())

    async def relate(self, drafts: Sequence[memories.Draft]) -> list[NotFound | Conflict | None]:
        """Find the memories that drafts name; return for each draft what is wrong with its ids, if anything."""
        named = [[*draft.request.related_to, *draft.request.replaces] for draft in drafts]
        given = list(dict.fromkeys(key for keys in named for key in keys))
        there = memories.Resolved({}, {})
        if given:
            async with self.store.transaction() as tx:
                there = await memories.resolve_ids(tx, given)
        for draft in drafts:
            draft.related = _distinct_ids(there.found, draft.request.related_to)
            draft.replaced = _distinct_ids(there.found, draft.request.replaces)
        return [next((there.problems[key] for key in keys if key in there.problems), None) for keys in named]

    async def store_drafts(
        self, drafts: list[memories.Draft], *, whole: bool = False, then: Then | None = None
    ) -> list[upsert.WriteResult]:
        """Embed what has no vector yet, and store all in one transaction; with `whole` read back what there is now.

        What is to be done `then` is done in the same transaction: it fails or holds with the rest.
        """
        embedded = await self.embed_drafts(drafts)
        least = duplicates.NEAR_OTHERWISE if self.embedder is None else duplicates.threshold(self.embedder.name)
        async with self.store.transaction(probes=duplicates.NEAR_PROBES) as tx:
            await tx.allow_for(len(drafts))
            model = embedded.model_in(tx)
            hint = may_replace if model is None else partial(may_replace, mean_cosine=await model.mean_cosine(tx))
            written = await upsert.write_memories(tx, drafts, model, embedded.model_id, least, hint, whole=whole)
            if then is not None:
                await then(tx, written)
        self.notice_growth(len(drafts))
        return written

    async def embed_drafts(self, drafts: Sequence[memories.Draft]) -> Embedded:
        """Embed what has no vector yet, and store all in one transaction; with `whole` read back what there is now.
        Raises:
            ModelSwitched: the vector that a caller gave is of another model.
        """
        bare = [draft for draft in drafts if not len(draft.parts)]
        embedded = await self.models.passages([draft.row["content"] for draft in bare])
        for draft, parts in zip(bare, embedded.vectors, strict=True):
            draft.parts, draft.model_id = parts, embedded.model_id
        if any(draft.model_id != embedded.model_id for draft in drafts):
            raise ModelSwitched
        return embedded

    # -- finding ---------------------------------------------------------------------------------------------------

    async def search(self, question: Question, place: Cursor, spaces: Sequence[Beside] = ()) -> Hits:
        """Return the hits, how they were found, and which memories are hidden from them; those of `spaces`, too."""
        self.session.current()  # whoever asks is not idle
        asked = [self, *(space.core for space in spaces)]
        asking = [(core.store.read, await core.as_stored(question)) for core in asked]
        hits = await self._retrieval.hits(asking, place)
        for number, core in enumerate(asked):
            its = _with_origin(hits.found, number)
            if its and (question.as_of is not None or any(hit.replaced_by for hit in its)):
                await core.store.read_transaction(partial(_complete_hits, hits=its, as_of=question.as_of))
            if number:
                spaces[number - 1].sign(its)
        return hits

    def note_shown(self, hits: Sequence[Hit], spaces: Sequence[Beside] = ()) -> None:
        """Have it counted that hits were shown, each where it is from."""
        for number, core in enumerate([self, *(space.core for space in spaces)]):
            core.accesses.note([hit.id for hit in _with_origin(hits, number)])

    async def as_stored(self, question: Question) -> Question:
        """Return `question` with tags by all their words and names in all stored spellings."""
        spellings = {what: await self._spellings(what, name) for what in COLUMNS if (name := getattr(question, what))}
        if not question.tags and not spellings:
            return question
        return question.as_stored(await self._synonyms.current() if question.tags else {}, spellings)

    async def projects_meant(self, given: str | None) -> list[str] | None:
        """Return all names of a project as they are stored; None where none is given."""
        return (await self._spellings("project", given) or [given]) if given else None

    async def _spellings(self, what: str, name: str) -> list[str]:
        """Return the stored names that a name means: in any spelling, and a project's by its aliases, too."""
        meant = self.projects.names().all_of(name) if what == "project" else [name]
        found = [stored for one in meant for stored in await self.names.spellings(what, one)]
        return [*dict.fromkeys(found)]

    # -- ids and vectors -------------------------------------------------------------------------------------------

    async def one(self, tx: Transaction, given: str) -> Row:
        """Return the one memory that an id or its end means, whole.

        Raises:
            NotFound: there is none.
            Conflict: there are several.
        """
        there = await memories.resolve_ids(tx, [given])
        there.refuse_problems()
        row = (await memories.read_memories(tx, there.ids, self.model_key)).get(there.ids[0])
        if row is None:  # erased in this very moment
            raise NotFound("memory", given)
        return row

    def refuse_bad_metadata(self, metadata: dict[str, Any] | None) -> None:
        """Refuse metadata that no memory could hold.

        Raises:
            InvalidInput: it is too large, too deep, or no JSON.
        """
        if metadata is not None:
            validated(NewMemory, {"content": "-", "metadata": {k: v for k, v in metadata.items() if v is not None}})

    @property
    def embedder(self) -> Embedder | None:
        """What turns text into vectors: the active model's once the store is known; None for `none:`."""
        return self.models.embedder

    @property
    def degraded(self) -> bool | None:
        """Whether searches go without meaning, because there is no embedder; else None."""
        return True if self.embedder is None else None

    @property
    def model_key(self) -> int | None:
        """The key of the active model, as the last transaction saw it; None while there is none."""
        return self.models.key

    async def current_model(self) -> VectorIndex | None:
        """Return the key of the store's active model, and whether its index is built; None without an embedder."""
        in_use = await self.models.current()
        return None if in_use is None else in_use.model

    async def index(self) -> IndexState | None:
        """Return what there is of the vector index; None without an embedder."""
        model = await self.current_model()
        return None if model is None else await describe_index(self.store.readable, model.id)

    async def index_state(self) -> str:
        """Say in words whether searches by meaning are exact or go through an index."""
        return str(await self.index() or "none: there is no embedder")

    async def reindex(self, method: str) -> IndexState:
        """Build the vector index again by `method`, ivfflat or hnsw, and return what there is now.

        Raises:
            InvalidInput: there is no such method, or no embedder.
            Conflict: another process builds one, and has not ended for long.
        """
        if method not in METHODS:
            raise InvalidInput(f"There is no index method {method!r}.", f"Use one of {', '.join(METHODS)}.")
        model = await self.current_model()
        if model is None:
            raise InvalidInput("No embedder is set, so there are no vectors to index.")
        await rebuild_index(self.store.database.url, model.id, model.dimensions, method)
        state = await describe_index(self.store.database, model.id)
        model.indexed = state.build.usable
        return state

    def notice_growth(self, rows: int) -> None:
        """Tell the background work that so many memories were stored."""
        self.models.note_growth(rows)
        self._words.notice(rows)


async def _complete_hits(tx: Transaction, hits: Sequence[Hit], as_of: datetime | None) -> None:
    """Give hits what they said at `as_of`, and what holds now instead of each that was replaced."""
    for row, hit in zip(await history.rows_as_of(tx, [vars(hit).copy() for hit in hits], as_of), hits, strict=True):
        vars(hit).update(row)


def _distinct_ids(found: Mapping[str, UUID], keys: Sequence[str]) -> list[UUID]:
    return list(dict.fromkeys(found[key] for key in keys if key in found))
