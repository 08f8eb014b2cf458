"""What the pages show, asked of the manager and its toolsets; nothing is worked out here that they know."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from pgengram.errors import InvalidInput, NotFound
from pgengram.inputs import Change, Question, checked
from pgengram.manager import MemoryManager
from pgengram.store import browsing, edges, memories, past
from pgengram.store.accesses import AccessLog
from pgengram.toolsets.clusters import Clusters
from pgengram.toolsets.graph import Graph
from pgengram.toolsets.upkeep import Reviewed, Statistics, Tidied, Upkeep
from pgengram.transfer.exporting import export_to
from pgengram.ui import drawing
from pgengram.ui.later import Later
from pgengram.views import Found, Shown, around_view, memory_view

PAGE: Final = 20  # memories on a page
FILTERS: Final = (
    "type", "kind", "tags", "project", "user", "status", "min_importance", "since", "until", "sort", "mode", "cursor",
)  # fmt: skip
LINKS: Final = 20  # neighbours of one memory
AROUND: Final = 300  # memories of a graph around one
MAX_NODES: Final = 2_000
MAX_EDGES: Final = 6_000
MAX_POINTS: Final = 5_000
EXCERPT: Final = 90
SIDE_BY_SIDE: Final = 20  # pairs on a page
MEMBERS: Final = 50
REVIEW_FRESH_S: Final = 300.0
PAIRED: Final = ("duplicates", "contradictions")


class Unnoticed(AccessLog):
    """Counts nothing: to look at what is remembered is not to use it."""

    def note(self, ids: Sequence[UUID]) -> None:
        """Pass over."""


@dataclass(slots=True)
class Export:
    """A file that is being written, and how far that is."""

    path: Path
    done: int = 0
    total: int = 0
    task: asyncio.Task[dict[str, int]] | None = None


class Look:
    """One owner's memories, as they are looked at.

    Args:
        manager: whose memories.
        folder: of this run, for what is exported.
    """

    def __init__(self, manager: MemoryManager, folder: Path) -> None:
        manager.accesses = Unnoticed(manager.store)
        self.manager = manager
        self.upkeep = Upkeep(manager)
        self.graph = Graph(manager)
        self.clusters = Clusters(manager)
        self.later = Later()
        self.export = Export(folder / "pgengram.jsonl")

    async def close(self) -> None:
        """Break off what is being made."""
        await self.later.close()
        if self.export.task is not None:
            self.export.task.cancel()
            await asyncio.gather(self.export.task, return_exceptions=True)

    # -- many ------------------------------------------------------------------------------------------------------

    async def search(self, asked: Mapping[str, str], **fixed: Any) -> Found:
        """Return a page of what the fields of the search form ask for."""
        given: dict[str, Any] = {name: asked[name] for name in FILTERS if asked.get(name)}
        given |= {"query": asked.get("q", ""), "limit": PAGE}
        if since := given.get("since"):
            given["since"] = f"{since}T00:00:00Z"
        if until := given.get("until"):
            given["until"] = f"{until}T23:59:59.999999Z"
        return await self.manager.search_memories(checked(Question, given | fixed))

    async def statistics(self) -> Statistics | None:
        """Return the counts of everything; None while they are worked out."""
        found: Statistics | None = await self.later.get("statistics", lambda: self.upkeep.memory_stats(tags=500))
        return found

    async def days(self) -> dict[Any, int] | None:
        """Return how many memories each day has, newest first; None while it is worked out."""

        async def make() -> dict[Any, int]:
            async with self.manager.store.transaction() as tx:
                return await browsing.days(tx)

        found: dict[Any, int] | None = await self.later.get("days", make)
        return found

    async def excerpts(self, ids: Sequence[UUID]) -> dict[str, Shown]:
        """Return the beginning of memories and their status, by id."""
        async with self.manager.store.transaction() as tx:
            rows = await memories.read(tx, list(ids), self.manager.model_key)
        return {str(id_): memory_view(row) for id_, row in rows.items()}

    # -- one -------------------------------------------------------------------------------------------------------

    async def memory(self, id_: UUID) -> Shown:
        """Return one memory with its history, relations, clusters, neighbours and how it fades; reading it so is no use.

        Raises:
            NotFound: there is none.
        """
        await self.manager.find_model()
        async with self.manager.store.transaction() as tx:
            rows = await past.complete(tx, [await self.manager.one(tx, str(id_))], None)
            around = await past.around(tx, [id_], ["history", "relations", "clusters"])
        view = memory_view(rows[0]) | around_view(around[id_])
        view["fading"] = drawing.fading(rows[0], datetime.now(UTC))
        view["neighbours"] = []
        if view["status"] in ("active", "archived"):
            explored = await self.graph.explore_memories([str(id_)], depth=1, limit=LINKS)
            view["neighbours"] = explored.similar
        return view

    async def change(self, fields: Mapping[str, Any]) -> str:
        """Change one memory, and return what was done."""
        updated = await self.manager.update_memory(checked(Change, dict(fields)))
        self.later.forget()
        return updated.message

    async def forget(self, id_: UUID, reason: str) -> str:
        """Forget one memory, and return what was done."""
        if len(reason) > 1_024:
            raise InvalidInput("The reason must have at most 1,024 characters.")
        forgotten = await self.manager.forget_memories([str(id_)], reason)
        if not forgotten.ok:
            raise NotFound("memory", id_)
        self.later.forget()
        return forgotten.message

    # -- pictures --------------------------------------------------------------------------------------------------

    async def network(self, id_: UUID | None, depth: int, min_strength: float) -> Shown | None:
        """Return the nodes with their places and the edges around a memory, or of the strongest links; None while it is made."""
        found: Shown | None = await self.later.get(
            ("network", id_, depth, min_strength), lambda: self._network(id_, depth, min_strength)
        )
        return found

    async def _network(self, id_: UUID | None, depth: int, min_strength: float) -> Shown:
        cut = False
        if id_ is None:
            async with self.manager.store.transaction() as tx:
                rows = await browsing.strongest(tx, nodes=MAX_NODES, edges=MAX_EDGES)
                ids = dict.fromkeys(id_ for row in rows for id_ in (row["from_id"], row["to_id"]))
                seen = await edges.look_at(tx, list(ids))
            nodes = {
                str(one): {"text": row["content"][:EXCERPT], "type": row["type"], "depth": None}
                for one, row in seen.items()
            }
            lines = [
                {"from": str(row["from_id"]), "to": str(row["to_id"]), "type": row["type"], "strength": row["strength"]}
                for row in rows
            ]
            cut = len(nodes) >= MAX_NODES - 1
        else:
            explored = await self.graph.explore_memories(
                [str(id_)], depth=depth, min_strength=min_strength, limit=AROUND
            )
            nodes = {
                one["id"]: {"text": one["excerpt"][:EXCERPT], "type": one["type"], "depth": one.get("depth")}
                for one in [*explored.nodes, *explored.similar]
            }
            lines = [
                {"from": one["from_id"], "to": one["to_id"], "type": one["type"], "strength": one["strength"]}
                for one in explored.edges
            ]
            lines += [
                {"from": one["similar_to"], "to": one["id"], "type": "alike", "strength": one["similarity"]}
                for one in explored.similar
            ]
            cut = explored.cut
        number = {name: place for place, name in enumerate(nodes)}
        lines = [line for line in lines if line["from"] in number and line["to"] in number]
        joined = [(number[line["from"]], number[line["to"]], line["strength"]) for line in lines]
        places = (await asyncio.to_thread(drawing.spread, len(nodes), joined)).tolist() if nodes else []
        for node, (x, y) in zip(nodes.values(), places, strict=True):
            node |= {"x": round(x, 1), "y": round(y, 1)}
        return {"nodes": nodes, "edges": lines, "cut": cut, "start": None if id_ is None else str(id_)}

    async def map(self) -> Shown | None:
        """Return where memories lie by the two principal components of their vectors; None while it is made."""
        found: Shown | None = await self.later.get("map", self._map, fresh_s=REVIEW_FRESH_S)
        return found

    async def _map(self) -> Shown:
        await self.manager.find_model()
        async with self.manager.store.transaction() as tx:
            rows, vectors = await browsing.sample(tx, limit=MAX_POINTS)
        if len(rows) < 3:
            return {"points": [], "explained": [0.0, 0.0]}
        places, explained = await asyncio.to_thread(drawing.principal, vectors)
        points = [
            [str(row["id"]), round(x, 4), round(y, 4), row["type"], row["cluster"] or "", row["excerpt"]]
            for row, (x, y) in zip(rows, places.tolist(), strict=True)
        ]
        return {"points": points, "explained": explained}

    async def cluster(self, id_: UUID) -> tuple[Shown, list[Shown]]:
        """Return a cluster and its strongest members."""
        found = await self.clusters.get_memory_clusters(ids=[str(id_)], members=MEMBERS, insights=True)
        cluster = found.clusters[0]
        ids = [UUID(one) for one in cluster.get("memory_ids", ())]
        shown = await self.excerpts(ids)
        return cluster, [shown[str(one)] for one in ids if str(one) in shown]

    # -- upkeep ----------------------------------------------------------------------------------------------------

    async def review(self) -> tuple[Reviewed, dict[str, Shown]] | None:
        """Return what a review finds, with the memories it speaks of; None while it is made."""

        async def make() -> tuple[Reviewed, dict[str, Shown]]:
            found = await self.upkeep.review_memories(max_groups=SIDE_BY_SIDE)
            ids = {id_ for one in found.findings if one["finding"] in PAIRED for id_ in one["ids"]}
            return found, await self.excerpts([UUID(id_) for id_ in ids])

        found: tuple[Reviewed, dict[str, Shown]] | None = await self.later.get("review", make, fresh_s=REVIEW_FRESH_S)
        return found

    async def preview(self, steps: Sequence[str]) -> tuple[Tidied, dict[str, Shown]]:
        """Return what steps, each as JSON, would change, and the memories they speak of; nothing is changed.

        Raises:
            InvalidInput: there is none, or one is no JSON.
        """
        try:
            plan = [json.loads(step) for step in steps]
        except ValueError:
            raise InvalidInput("A step of the plan cannot be read.") from None
        if not plan:
            raise InvalidInput("No step is chosen.", "Tick at least one.")
        tidied = await self.upkeep.tidy_memories("apply", plan=plan)
        return tidied, await self.excerpts([UUID(one["id"]) for one in tidied.changes])

    async def tidy(self, token: str) -> str:
        """Do what was previewed, and return what was done."""
        tidied = await self.upkeep.tidy_memories("apply", confirm_token=token)
        self.later.forget()
        return tidied.message

    # -- export ----------------------------------------------------------------------------------------------------

    def start_export(self) -> None:
        """Begin to write everything into a file, unless that is under way."""
        if self.export.task is None or self.export.task.done():
            self.export.done = 0
            self.export.task = asyncio.create_task(self._write(), name="exporting")

    async def _write(self) -> dict[str, int]:
        def report(done: int, total: int) -> None:
            self.export.done, self.export.total = done, total

        with self.export.path.open("w", encoding="utf-8", newline="\n") as file:
            return await export_to(file, self.manager, report)
