"""What the pages show, asked of the manager and its toolsets; nothing is worked out here that they know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from pgengram import fields as f
from pgengram.errors import Conflict, InvalidInput, NotFound
from pgengram.inputs import NewMemory, Question
from pgengram.runtime.context import PAGE as PAGE_ACTOR
from pgengram.search import listing
from pgengram.service.answers import said as conversation_hits
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.clusters import Clusters, NewCluster
from pgengram.service.toolsets.graph import Graph
from pgengram.service.toolsets.maintenance import MAX_GROUPS, Maintenance, Reviewed, Statistics
from pgengram.store.clients import tokens
from pgengram.store.clients.tokens import AccessToken, Scope
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory.accesses import AccessLog
from pgengram.store.reading import history, ui_queries
from pgengram.store.recovery import imports
from pgengram.text.shown import fit_of
from pgengram.ui.view_data import drawing
from pgengram.ui.view_data.changes import Changes, Done
from pgengram.ui.view_data.drawing import NetworkView
from pgengram.ui.view_data.jobs import BackgroundCache, Backups, Export, Import
from pgengram.ui.view_data.map_view import MapView
from pgengram.ui.view_data.programs import Programs
from pgengram.ui.view_data.query_values import PAIRED, filled, moment_of, turn_place, whole_number
from pgengram.views import Found, Shown, Stored, around_view, memory_view

PAGE: Final = 20  # memories on a page
MOST_PAGES: Final = 25  # of a list that is shown at once, when somebody comes back to it
FILTERS: Final = (
    "type", "kind", "tags", "project", "user", "source_provider", "status", "min_importance", "since", "until", "sort", "mode", "cursor",
)  # fmt: skip
NEW: Final = ("content", "kind", "project", "tags", "occurred_at", "importance")  # of the form for a new memory
LINKS: Final = 20  # neighbours of one memory
MEMBERS: Final = 50
MOST_NEWS: Final = 200
NEWS_PATIENCE_S: Final = 5.0  # it comes beside the list, which doesn't wait for it
REVIEW_FRESH_S: Final = 300.0
FACETS_STALE_S: Final = 60.0
COUNT_FRESH_S: Final = 2.0  # others store meanwhile
# That a whole page waits for its hits; longer than for others, as most have them by then.
SEARCH_PATIENCE_S: Final = 0.12
MAX_TOKEN_DAYS: Final = 3_650
PERIODS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}  # days
Facets = dict[str, dict[str, int]]  # of each filter its values, with how many memories each would leave


@dataclass(frozen=True, slots=True)
class Results:
    """What a search found.

    hits: from the first page on, or of the page that was asked for; strong: how many of them fit, before the
    others; sure: whether it is sure that one of these answers; in_words: whether a word that was looked for is in any.
    """

    hits: list[Shown]
    strong: int
    sure: bool
    in_words: bool
    next_cursor: str | None
    note: str | None


class Unnoticed(AccessLog):
    """Counts nothing: to look at what is remembered is not to use it."""

    def note(self, ids: Sequence[UUID]) -> None:
        """Pass over."""


class ViewService:
    """One namespace's memories, as they are looked at.

    Args:
        manager: whose memories.
        folder: of this run, for what is exported and imported.
    """

    def __init__(self, manager: MemoryManager, folder: Path) -> None:
        manager.accesses = Unnoticed(manager.store)
        self.manager = manager
        self.maintenance = Maintenance(manager)
        self.graph = Graph(manager)
        self.clusters = Clusters(manager)
        self.cache = BackgroundCache()
        self.map = MapView(manager, self.cache)
        self.network = NetworkView(manager, self.graph, self.cache)
        self._searches = BackgroundCache()
        self.changes = Changes(manager, self.cache.forget)
        self.export = Export(manager, folder / "pgengram.jsonl")
        self.arriving = Import(manager, folder / "import")
        self.backups = Backups(manager.settings)
        self.programs = Programs(manager)
        self._reviews = BackgroundCache()  # not made anew after each answer
        self._answered: set[frozenset[str]] = set()  # groups of findings

    async def close(self) -> None:
        """Cancel what is being made."""
        await self.cache.close()
        await self._searches.close()
        await self._reviews.close()
        await self.export.job.close()
        await self.arriving.job.close()
        await self.backups.job.close()

    # -- many ------------------------------------------------------------------------------------------------------

    async def search(self, asked: Mapping[str, str], **fixed: Any) -> Found:
        """Return a page of what the fields of the search form ask for."""
        return await self.manager.search_memories(_question(asked, **fixed))

    async def results(self, asked: Mapping[str, str]) -> Results:
        """Return as many pages as `asked` says are shown, with where hits become weak and how many there are."""
        question = _question(asked)
        found = await self.manager.search_memories(question)
        hits, note = list(found.results), found.note
        for _ in range(1, min(MOST_PAGES, whole_number(asked.get("pages"), 1))):
            if not found.next_cursor:
                break
            found = await self.manager.search_memories(question.model_copy(update={"cursor": found.next_cursor}))
            hits += found.results
        fit = fit_of(asked.get("q", ""), hits, found.evidence)
        in_words = any(hit.get("why", {}).get("words") for hit in hits)
        return Results(fit.hits + fit.others, len(fit.hits), fit.sure, in_words, found.next_cursor, note)

    def lists(self, asked: Mapping[str, str]) -> bool:
        """Whether what is asked for is the beginning of a list, which has a length, and no ranking."""
        question = _question(asked)
        return question.lists and not question.cursor

    async def total(self, asked: Mapping[str, str], listed: Results | None, *, patience_s: float) -> int | None:
        """Return how many memories pass the filters; None while they are counted.

        Args:
            asked: the filters; listed: the list from its beginning, which needs no counting where it is complete.
            patience_s: how long to wait.
        """
        counting = _question(asked, count_only=True)
        if listed is not None and listed.next_cursor is None:
            return len(listed.hits)
        if listed is not None and counting.mode == "substring":
            return None  # reads every memory: once the list is on the page
        key = ("total", *((name, asked[name]) for name in sorted(asked) if name not in ("pages", "sort")))
        found = await self.cache.get(
            key, lambda: self.manager.search_memories(counting), fresh_s=COUNT_FRESH_S, patience_s=patience_s
        )
        return None if found is None else found.total

    async def hits(self, asked: Mapping[str, str], *, patience_s: float | None = SEARCH_PATIENCE_S) -> Results | None:
        """Return the same; None while it is looked for, which over many memories can take longer than a page may."""
        key = tuple(sorted(asked.items()))
        return await self._searches.get(key, lambda: self.results(asked), fresh_s=0.0, patience_s=patience_s)

    async def facets(self, asked: Mapping[str, str], *, patience_s: float) -> Facets | None:
        """Return how many memories each value of a filter would leave; None while they are counted."""
        given = {name: value for name, value in asked.items() if name not in ("q", "pages", "sort", "cursor", "mode")}

        async def count() -> Facets:
            others = {name: given.keys() - ({name} & listing.LIFTED) for name in listing.FACETS}
            questions = {
                name: await self.manager.as_stored(_question({one: given[one] for one in kept}))
                for name, kept in others.items()
            }
            return await self.manager.store.read_transaction(lambda tx: listing.counted_by_value(tx, questions))

        return await self.cache.get(
            ("facets", *sorted(given.items())), count, stale_s=FACETS_STALE_S, patience_s=patience_s
        )

    async def turns(self, asked: Mapping[str, str], limit: int) -> tuple[list[Shown], int]:
        """Return the turns of conversations that match best, and how many match in all."""
        question = _question({name: value for name, value in asked.items() if name in ("q", "project")}, limit=limit)
        question = question.model_copy(update={"include": ["turns"], "detail": False})
        found = await conversation_hits.beside(self.manager, question, None)
        turns = [{**turn, **turn_place(turn["cite"])} for turn in found.get("turns", ())]
        return turns, found.get("turns_match") or len(turns)

    async def statistics(self) -> Statistics | None:
        """Return the counts of everything; None while they are worked out."""
        make = partial(self.maintenance.memory_stats, tags=500)
        return await self.cache.get("statistics", make, stale_s=REVIEW_FRESH_S)

    async def news(self, since: datetime) -> list[Row] | None:
        """Return what others did since a moment, the latest first; None while it is looked for."""
        read = partial(ui_queries.news, since=since, own=PAGE_ACTOR, limit=MOST_NEWS)
        return await self.cache.get(
            ("news", since), lambda: self.manager.store.read_transaction(read), fresh_s=0.0, patience_s=NEWS_PATIENCE_S
        )

    async def assistants(self) -> list[Row]:
        """Return the programs that stored memories, each with how many there are and when it stored the last."""
        return await self.manager.store.read_transaction(ui_queries.assistants)

    async def versions(self, id_: UUID | None) -> dict[str, int]:
        """Return the versions of the newest memories and of one that is looked at, to tell what changes meanwhile."""
        return await self.manager.store.read_transaction(lambda tx: ui_queries.newest_versions(tx, id_, limit=PAGE))

    async def days(self) -> dict[Any, int] | None:
        """Return how many memories each day has, newest first; None while it is worked out."""

        return await self.cache.get("days", lambda: self.manager.store.read_transaction(ui_queries.days))

    # -- one -------------------------------------------------------------------------------------------------------

    async def memory(self, id_: UUID) -> Shown:
        """Return one memory with its history, relations, clusters, neighbours and how it fades; reading it so is not a
        use.

        Raises:
            NotFound: there is none.
        """
        view = await self.manager.store.read_transaction(lambda tx: self._memory(tx, id_))
        view["neighbours"] = []
        if view["status"] in ("active", "archived"):
            explored = await self.graph.explore_memories([str(id_)], depth=1, limit=LINKS)
            view["neighbours"] = explored.similar
        return view

    async def _memory(self, tx: Transaction, id_: UUID) -> Shown:
        rows = await history.rows_as_of(tx, [await self.manager.one(tx, str(id_))], None)
        around = (await history.around(tx, [id_], ["history", "relations", "clusters"]))[id_]
        fading = drawing.fading(rows[0], await ui_queries.activation(tx, id_), around["history"], datetime.now(UTC))
        origin = await imports.import_of(tx, id_)
        return memory_view(rows[0]) | around_view(around) | {"fading": fading, "origin": origin}

    async def add(self, fields: Mapping[str, str]) -> Stored:
        """Store what the form for a new memory says."""
        given: dict[str, Any] = {name: fields[name] for name in NEW if fields.get(name, "").strip(" ,")}
        if "occurred_at" in given:
            given["occurred_at"] += "T00:00:00Z"
        if cite := fields.get("cite", ""):
            given["sources"] = [
                {"kind": "conversation", "ref": cite, "label": turn_place(cite)["client"] or "conversation"}
            ]
        stored = await self.manager.create_memory(filled(NewMemory, given))
        self.cache.forget()
        return stored

    # -- pictures --------------------------------------------------------------------------------------------------

    async def map_hits(self, key: str, query: str) -> list[int]:
        """Return the places of what a search finds well, and of what contains the query, to be lit up on a map."""
        found = await self.search({"q": query}, limit=f.MAX_LIMIT)
        exact = await self.search({"q": query, "mode": "substring"}, limit=f.MAX_LIMIT)
        good = [*filter(found.is_likely, found.results), *exact.results]
        return self.map.places(key, [one["id"] for one in good])

    async def about(self, what: str, name: str) -> tuple[list[Shown], bool]:
        """Return the memories of a project, with a tag or a name in them, and whether there are more."""
        asked = {"q": name, "mode": "substring"} if what == "name" else {what: name}
        found = await self.search(asked, limit=f.MAX_LIMIT, sort="importance")
        rows = await self.changes.rows([UUID(one["id"]) for one in found.results])
        return [*rows.values()], found.next_cursor is not None

    async def namesakes(self, name: str) -> list[str]:
        """Return which of "project" and "tags" have this name, in whatever case."""
        given = {"project": name, "tags": name.casefold()}
        return [what for what, value in given.items() if (await self.search({what: value}, limit=1)).results]

    async def questions_about(self, ids: set[str]) -> list[Shown]:
        """Return what a review found about memories and nobody has answered, as far as one was made."""
        reviewed = await self.review(0)
        if reviewed is None:
            return []
        return [one for name in PAIRED for one in self.findings(reviewed, name) if ids.issuperset(one["ids"])]

    async def make_cluster(self, name: str, ids: Sequence[str]) -> str:
        """Make a cluster of memories, and return its id."""
        made = await self.clusters.create_memory_cluster(filled(NewCluster, {"name": name, "memory_ids": list(ids)}))
        self.cache.forget()
        return str(made.cluster_id)

    async def cluster(self, id_: UUID) -> tuple[Shown, list[Shown]]:
        """Return a cluster and its strongest members."""
        found = await self.clusters.get_memory_clusters(ids=[str(id_)], members=MEMBERS, insights=True)
        cluster = found.clusters[0]
        ids = [UUID(one) for one in cluster.get("memory_ids", ())]
        shown = await self.changes.rows(ids)
        return cluster, [shown[str(one)] for one in ids if str(one) in shown]

    # -- maintenance
    # ----------------------------------------------------------------------------------------------------

    async def review(self, offset: int) -> Reviewed | None:
        """Return what a review finds from the memory at `offset` on, the newest first; None while it is made."""
        review = partial(self.maintenance.review_memories, max_groups=MAX_GROUPS, offset=offset)
        return await self._reviews.get(offset, review, fresh_s=REVIEW_FRESH_S)

    def look_again(self) -> None:
        """Review again when that is next asked for."""
        self._reviews.forget()

    def findings(self, reviewed: Reviewed, name: str) -> list[Shown]:
        """Return the findings of a name, without those that somebody has answered."""
        return [
            one for one in reviewed.findings if one["finding"] == name and frozenset(one["ids"]) not in self._answered
        ]

    def still_open(self, reviewed: Reviewed, name: str) -> int:
        """Return how many findings of a name there are, without those that somebody has answered."""
        listed = sum(one["finding"] == name for one in reviewed.findings)
        return int(reviewed.found[name] - listed + len(self.findings(reviewed, name)))

    async def preview(self, step: str) -> str:
        """Return the key of what a step, as JSON, would change; nothing is changed."""
        return await self.changes.preview([_step_view(step)])

    async def answer(self, step: str, ids: Sequence[str], versions: Mapping[str, str]) -> Done:
        """Do what somebody chose to do with memories that were shown, and do not ask about them again.

        Raises:
            Conflict: one of them is not at the version that was shown.
        """
        key = await self.changes.preview([_step_view(step)])
        rows = self.changes.shown(key).rows
        if any(versions.get(id_) != str(row["version"]) for id_, row in rows.items()):
            raise Conflict("One of these memories changed while you read.", "Nothing was changed. Look again.")
        done, _ = await self.changes.apply(key)
        self._answered.add(frozenset(ids))
        return done

    async def undo(self, key: str) -> tuple[str, list[str]]:
        """Take a change back, and ask about its memories again; return that in words, and their ids."""
        said, ids = await self.changes.undo(key)
        self._answered = {group for group in self._answered if not group & {*ids}}
        return said, ids

    # -- tokens ----------------------------------------------------------------------------------------------------

    async def tokens(self) -> list[AccessToken]:
        """Return what is known of the tokens that lead to these memories, the newest first."""
        namespace = self.manager.settings.namespace
        found = [one for one in await tokens.list_all(self.manager.store) if one.namespace == namespace]
        return found[::-1]

    async def make_token(self, name: str, scope: Scope, days: float | None) -> str:
        """Make a token that leads to these memories, and return it: it can be shown this once.

        Raises:
            InvalidInput: the name or the number of days is not allowed.
        """
        if days is not None and not 0 < days <= MAX_TOKEN_DAYS:
            raise InvalidInput(f"A token is valid for 1 to {MAX_TOKEN_DAYS:,} days.", "Leave it empty for no end.")
        lifetime = None if days is None else timedelta(days=days)
        made, _ = await tokens.create(
            self.manager.store, name.strip(), self.manager.settings.namespace, scope, lifetime
        )
        return made

    async def revoke_token(self, id_: str) -> str:
        """Make a token of these memories worthless, and return what was done.

        Raises:
            NotFound: there is none with this id.
        """
        if id_ not in {one.id for one in await self.tokens()}:
            raise NotFound("token", id_, "The list shows them.")
        return f"{(await tokens.revoke(self.manager.store, id_)).name} is revoked."


def _question(asked: Mapping[str, str], **fixed: Any) -> Question:
    given: dict[str, Any] = {name: asked[name] for name in FILTERS if asked.get(name)}
    given |= {"query": asked.get("q", ""), "limit": PAGE, "detail": True}
    given |= {name: given[name].split(",") for name in ("type", "kind") if name in given}
    if since := given.get("since"):
        given["since"] = f"{since}T00:00:00Z"
    elif asked.get("period") in PERIODS:
        given["since"] = moment_of(asked.get("at")) - timedelta(days=PERIODS[asked["period"]])
    if until := given.get("until"):
        given["until"] = f"{until}T23:59:59.999999Z"
    return filled(Question, given | fixed).without_counting_hidden()


def _step_view(given: str) -> Shown:
    try:
        return dict(json.loads(given))
    except (TypeError, ValueError):
        raise InvalidInput("This step is not valid.", "Load the page again.") from None
