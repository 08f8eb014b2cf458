"""The tools for edges between memories: link them, and walk along the links."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import Field, WithJsonSchema

from pgengram import fields as f
from pgengram.errors import Conflict, InvalidInput, NotFound, PgengramError
from pgengram.search import listing
from pgengram.search.vector_index import VectorIndex
from pgengram.service.tools import READS, REMOVES, tool
from pgengram.service.toolsets import Toolset
from pgengram.store import edges
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory import memories
from pgengram.text.markdown import one_line
from pgengram.text.shown import counted
from pgengram.views import Answer, Done, Shown, Unlisted, cut

MAX_LINKS: Final = 50
MAX_STARTS: Final = 10
NODE_EXCERPT_CHARS: Final = 160  # characters of a memory shown at a node
ALIKE: Final = 0.5  # cosine above which a memory is a neighbour without an edge
MAX_ALIKE: Final = 10
USUAL: Final = "related_to"
TOLD: Final = "causes, solves, depends_on, contradicts, extends, supports"


class Linked(Done):
    """Answer of link_memories; not ok when nothing could be linked."""


class Explored(Answer):
    """Answer of explore_memories."""

    nodes: Annotated[list[Shown], Unlisted]
    edges: Annotated[list[Shown], Unlisted]
    similar: Annotated[list[Shown], Unlisted]
    cut: Annotated[bool, Unlisted]


class Graph(Toolset):
    """Edges between the memories of one namespace."""

    @tool(REMOVES, title="Link")
    async def link_memories(
        self,
        from_id: Annotated[f.BareId, Field(description="Cause, …")],
        to_ids: Annotated[list[f.BareId], f.AnyOf, Field(max_length=MAX_LINKS, description="Effects, …")],
        type: Annotated[f.Name | None, Field(description=f"{TOLD} or any word. Default {USUAL}.")] = None,
        strength: Annotated[f.Bound, Field(description="How strongly, to 1.")] = 1.0,
        properties: Annotated[
            f.Metadata | None, WithJsonSchema({"type": "object"}), Field(description="Kept with the link.")
        ] = None,
        remove: Annotated[bool, Field(description="Unlink instead.")] = False,
    ) -> Linked:
        """Link a memory to others, or with remove unlink them (every type if none is given).

        Use when one causes, solves or contradicts another; for what replaces a memory: forget_memories; to follow
        links: explore_memories. Linking again replaces strength and properties; unknown ids spare the
        others. Error: NOT_FOUND.
        """
        session_id = self.core.session.current()
        _refuse_none(to_ids)
        kind = None if type is None else edges.normalised_type(type)
        results: list[Shown] = []
        problems: list[PgengramError] = []
        async with self.core.store.transaction() as tx:
            start = await self.core.one(tx, from_id)
            if not remove:
                memories.refuse_forgotten(start)
            for given in dict.fromkeys(to_ids):
                try:
                    end = await self.core.one(tx, given)
                    result: Shown = {"to_id": str(end["id"]), "ok": True}
                    if remove:
                        result["removed"] = await edges.unlink(tx, start["id"], end["id"], kind, session_id=session_id)
                    else:
                        memories.refuse_forgotten(end)
                        result["created"] = await edges.store_link(
                            tx, start["id"], end["id"], kind or USUAL, strength, properties or {}, session_id=session_id
                        )
                except (NotFound, Conflict, InvalidInput) as error:  # found before anything was sent to be written
                    problems.append(error)
                    result = {"to_id": given, "ok": False, "error": error.as_dict()}
                results.append(result)
            if len(problems) == len(results) == 1:
                raise problems[0]
        return Linked(
            ok=len(problems) < len(results), results=results, message=_summary_of_links(results, remove=remove)
        )

    @tool(READS, title="Explore")
    async def explore_memories(
        self,
        ids: Annotated[list[f.BareId], f.AnyOf, Field(max_length=MAX_STARTS, description="Where to start.")],
        depth: Annotated[int, Field(ge=1, le=4, description="Most links on a path.")] = 2,
        direction: Annotated[edges.Direction, Field(description="out: effects.")] = "both",
        types: Annotated[list[f.Name] | None, f.AnyOf, Field(description="Only these links.")] = None,
        min_strength: Annotated[f.Bound, Field(description="Least strength of a path.")] = 0.3,
        include_similar: Annotated[bool, Field(description="What means nearly the same, too.")] = True,
        limit: Annotated[int, Field(ge=1, le=f.MAX_NODES, description="Most memories.")] = 50,
    ) -> Explored:
        """Follow the links of memories to others, each by its shortest path, and show what means nearly the same.

        Use for causes, effects and context of a memory that search_memories found; for its own text or history:
        get_memories. A path is as strong as the product of its links. Error: NOT_FOUND.
        """
        self.core.session.current()
        _refuse_none(ids)
        kinds = None if types is None else [edges.normalised_type(word) for word in types]
        walk = edges.Walk(depth, direction, kinds, min_strength, limit)
        model = await self.core.current_model() if include_similar else None
        return await self.core.store.read_transaction(lambda tx: self._explored(tx, ids, walk, model))

    async def _explored(self, tx: Transaction, ids: list[str], walk: edges.Walk, model: VectorIndex | None) -> Explored:
        starts = await self._starts(tx, ids)
        paths, cut = await edges.explore(tx, starts, walk)
        lines, lines_cut = await edges.between(tx, paths, walk)
        alike = await _similar_memories(tx, model, starts, paths)
        seen = await edges.look_at(tx, [*paths, *alike])
        self.core.accesses.note([id_ for id_ in seen if id_ not in starts])
        return Explored(
            nodes=[_node_on_path(seen[id_], path) for id_, path in paths.items() if id_ in seen],
            edges=[_edge_row(row) for row in lines],
            similar=[
                {**_excerpt_view(seen[id_]), "similarity": round(cosine, 4), "similar_to": str(to)}
                for id_, (cosine, to) in alike.items()
                if id_ in seen
            ],
            cut=cut or lines_cut,
        )

    async def _starts(self, tx: Transaction, ids: list[str]) -> list[UUID]:
        starts = [await self.core.one(tx, given) for given in dict.fromkeys(ids)]
        for start in starts:
            memories.refuse_forgotten(start)
        return list(dict.fromkeys(start["id"] for start in starts))


async def _similar_memories(
    tx: Transaction, model: VectorIndex | None, starts: list[UUID], paths: dict[UUID, edges.Path]
) -> dict[UUID, tuple[float, UUID]]:
    """Return the memories that are like the first ones and not reached anyway."""
    if model is None:
        return {}
    found = await listing.neighbours(tx, model, starts, above=ALIKE, limit=MAX_ALIKE + len(paths))
    return dict([one for one in found.items() if one[0] not in paths][:MAX_ALIKE])


def _summary_of_links(results: list[Shown], *, remove: bool) -> str:
    """Say how many links were made or removed, and what was not."""
    good = [result for result in results if result["ok"]]
    changed = sum(len(result["removed"]) if remove else result["created"] for result in good)
    said = [f"{counted(changed, 'link', 'links')} {'removed' if remove else 'made'}"]
    if not remove and changed < len(good):
        said.append(f"{len(good) - changed} there already")
    if len(good) < len(results):
        said.append(f"{len(results) - len(good)} not found")
    return ", ".join(said) + "."


def _refuse_none(ids: list[str]) -> None:
    if not ids:
        raise InvalidInput("No memory is named.")


def _excerpt_view(row: Row) -> Shown:
    return {
        "id": str(row["id"]),
        "excerpt": cut(one_line(row["content"]), NODE_EXCERPT_CHARS),
        "type": row["type"],
        **({"kind": row["kind"]} if row["kind"] else {}),
    }


def _node_on_path(row: Row, path: edges.Path) -> Shown:
    return {
        **_excerpt_view(row),
        "depth": path.depth,
        "strength": round(path.strength, 6),
        "path": [str(id_) for id_ in path.ids],
    }


def _edge_row(row: Row) -> dict[str, Any]:
    edge = {
        "from_id": str(row["from_id"]),
        "to_id": str(row["to_id"]),
        "type": row["type"],
        "strength": row["strength"],
    }
    return {**edge, "properties": row["properties"]} if row["properties"] else edge
