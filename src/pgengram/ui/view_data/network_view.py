"""The graph: memories as nodes with their places, links as lines between them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from pgengram.ids import BEFORE_ALL
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.graph import Graph
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.graph import edges
from pgengram.store.reading import ui_queries
from pgengram.text.fencing import one_line
from pgengram.ui.view_data import drawing
from pgengram.ui.view_data.background_cache import BackgroundCache
from pgengram.views import Shown, cut

NEIGHBOURS_OF: Final = 200  # memories of a graph without links
AROUND: Final = 300  # memories of a graph around one
MAX_NODES: Final = 300  # of a graph of the strongest links: more are a ball in which nothing can be told apart
MAX_EDGES: Final = 900
NODE_CHARS: Final = 160  # of a memory in the graph
Network = tuple[dict[str, Shown], list[Shown], bool]  # nodes by id, lines, and whether some are left out


class NetworkView:
    """Graphs of one namespace, each worked out beside the requests."""

    def __init__(self, manager: MemoryManager, graph: Graph, cache: BackgroundCache) -> None:
        self._manager = manager
        self._graph = graph
        self._cache = cache

    async def drawn(self, id_: UUID | None, depth: int, min_strength: float) -> Shown | None:
        """Return the nodes with their places and the edges around a memory, or of the strongest links; None while it is
        made.
        """
        key = ("network", id_, depth, min_strength)
        return await self._cache.get(key, lambda: self._draw(id_, depth, min_strength))

    async def _draw(self, id_: UUID | None, depth: int, min_strength: float) -> Shown:
        nodes, lines, cut = await self._strongest() if id_ is None else await self._around(id_, depth, min_strength)
        if id_ is None and not lines:
            nodes, lines, cut = await self._alike()
        lines = [line for line in lines if line["from"] in nodes and line["to"] in nodes]
        if nodes:
            await _position_nodes(nodes, lines)
        return {
            "nodes": nodes,
            "edges": lines,
            "cut": cut,
            "start": None if id_ is None else str(id_),
            "linked": id_ is not None or any(line["type"] != "alike" for line in lines),
        }

    async def _strongest(self) -> Network:
        rows, seen = await self._manager.store.read_transaction(_strongest)
        nodes = {str(one): _node_view(row["content"], row["type"]) for one, row in seen.items()}
        return nodes, [_edge_view(row) for row in rows], len(nodes) >= MAX_NODES - 1

    async def _alike(self) -> Network:
        """Return memories with the one nearest to each by meaning, for want of links."""
        read = partial(ui_queries.vectors, after=BEFORE_ALL, limit=NEIGHBOURS_OF)
        rows = await self._manager.store.read_transaction(read)
        pairs = await asyncio.to_thread(drawing.nearest_pairs, [row["embedding"].to_numpy() for row in rows])
        ids = [str(row["id"]) for row in rows]
        lines = [{"from": ids[one], "to": ids[other], "type": "alike", "strength": near} for one, other, near in pairs]
        joined = {line[end] for line in lines for end in ("from", "to")}
        nodes = {str(row["id"]): _node_view(row["excerpt"], row["type"]) for row in rows if str(row["id"]) in joined}
        return nodes, lines, len(rows) == NEIGHBOURS_OF

    async def _around(self, id_: UUID, depth: int, min_strength: float) -> Network:
        found = await self._graph.explore_memories([str(id_)], depth=depth, min_strength=min_strength, limit=AROUND)
        near = [*found.nodes, *found.similar]
        nodes = {one["id"]: _node_view(one["excerpt"], one["type"], one.get("depth")) for one in near}
        alike = [
            {"from": one["similar_to"], "to": one["id"], "type": "alike", "strength": one["similarity"]}
            for one in found.similar
        ]
        return nodes, [*map(_edge_view, found.edges), *alike], found.cut


def _node_view(text: str, type_: str, depth: int | None = None) -> Shown:
    return {"text": cut(one_line(text), NODE_CHARS), "type": type_, "depth": depth}


def _edge_view(edge: Mapping[str, Any]) -> Shown:
    ends = {"from": str(edge["from_id"]), "to": str(edge["to_id"])}
    return {**ends, "type": edge["type"], "strength": edge["strength"]}


async def _position_nodes(nodes: Mapping[str, Shown], lines: Sequence[Shown]) -> None:
    """Give each node a position, `x` and `y`, near those that it is linked to."""
    number = {name: place for place, name in enumerate(nodes)}
    joined = [(number[line["from"]], number[line["to"]], line["strength"]) for line in lines]
    positions = await asyncio.to_thread(drawing.spread_nodes, len(nodes), joined)
    for node, (x, y) in zip(nodes.values(), positions.tolist(), strict=True):
        node |= {"x": round(x, 1), "y": round(y, 1)}


async def _strongest(tx: Transaction) -> tuple[list[Row], dict[UUID, Row]]:
    """Return the strongest edges, and the memories at their ends."""
    rows = await ui_queries.strongest(tx, nodes=MAX_NODES, edges=MAX_EDGES)
    return rows, await edges.look_at(tx, list({row[end]: None for row in rows for end in ("from_id", "to_id")}))
