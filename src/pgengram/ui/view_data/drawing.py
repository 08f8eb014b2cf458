"""What is drawn: how a memory fades, and where memories lie."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import exp, sqrt
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pgengram import fields as f
from pgengram.ids import BEFORE_ALL
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.graph import Graph
from pgengram.store import edges
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.reading import ui_queries
from pgengram.text.markdown import one_line
from pgengram.text.shown import exact
from pgengram.ui.view_data.jobs import BackgroundCache
from pgengram.views import Shown, cut

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray


POINTS: Final = 120  # of a line, until now and from now on
AHEAD: Final = timedelta(days=365)
BEFORE: Final = timedelta(milliseconds=1)  # a jump, so that it is drawn upright
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAYS: Final = 20_000  # the fixed day, as in the tables
KEPT: Final = 32  # uses, as in the statement that counts them
ROUNDING: Final = 1e-6  # of a sum
TOLERANCE: Final = 1e-4  # of a relevance that is drawn
TURNS: Final = 60  # in which a graph is spread
SPRING: Final = 0.4  # of a line, against a push of 1 / distance; weak, so that what is well connected is no heap
NEAR: Final = 0.5  # cosine from which on two memories are drawn as neighbours
NEIGHBOURS: Final = 3  # of each memory, as with a single one a graph is nothing but pairs
GRAVITY: Final = 0.2


@dataclass(frozen=True, slots=True)
class Stage:
    """From when on a memory had this importance and faded at this rate."""

    since: datetime
    importance: float
    rate_per_day: float


class Line:
    """How relevant one memory was and will be, at any moment.

    As pgengram_relevance says it before it is cut at 1: importance · exp(−rate · days), and for each use its weight,
    faded in the same way since then. Of the uses before those that were kept only the sum is known, which says nothing
    of the time before `known_from`.

    Args:
        stages: oldest first, the first from the memory's beginning on.
        uses: moments and weights, oldest first.
        reinforcement: the logarithm of all uses, faded to the fixed day; None when there were none.
        last_used: the last of them, for what is older than the list.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        uses: Sequence[tuple[datetime, float]],
        reinforcement: float | None,
        last_used: datetime | None,
    ) -> None:
        self._stages = stages
        self._from = stages[0].since
        self._uses = [(at, weight, self._faded(at)) for at, weight in uses]
        self._anchor = max([stages[-1].since, *(at for at, _ in uses[-1:])])  # no change and no use comes after it
        rate = stages[-1].rate_per_day
        passed = _days_between(self._anchor, EPOCH) - EPOCH_DAYS
        in_all = 0.0 if reinforcement is None else _exp(reinforcement - rate * passed)
        rest = in_all - self._listed(self._anchor)
        self._rest = rest if rest > ROUNDING * in_all else 0.0
        oldest = uses[0][0] if uses else last_used or self._from
        self.known_from = oldest if self._rest else self._from
        # What came before those that were kept may have faded out of the sum by now, and then nobody knows what it was.
        if len(uses) >= KEPT:
            self.known_from = self._sure_from(ROUNDING * in_all)

    def _sure_from(self, unsure: float) -> datetime:
        """Return the first use from which on a sum that is `unsure` now was known well enough."""
        faded = self._faded(self._anchor)
        sure = (at for at, _, then in self._uses if unsure * _exp(faded - then) < TOLERANCE)
        return next(sure, self._anchor)

    def unused(self, at: datetime) -> float:
        """Return what the importance would have faded to without any use."""
        stage = next(one for one in reversed(self._stages) if one.since <= max(at, self._from))
        return stage.importance * _exp(-stage.rate_per_day * _days_between(at, self._from))

    def used(self, at: datetime) -> float | None:
        """Return the relevance at a moment, uncut, None where it is not known."""
        if at < self.known_from:
            return None
        rest = self._rest * _exp(self._faded(self._anchor) - self._faded(at)) if self._rest else 0.0
        return self.unused(at) + self._listed(at) + rest

    def _listed(self, at: datetime) -> float:
        faded = self._faded(at)
        return sum(weight * _exp(then - faded) for used, weight, then in self._uses if used <= at)

    def _faded(self, at: datetime) -> float:
        """Return the sum of rate · days since the beginning, over all stages until then."""
        ends = [*(stage.since for stage in self._stages[1:]), max(at, self._from)]
        return sum(
            stage.rate_per_day * max(0.0, _days_between(min(end, at), stage.since))
            for stage, end in zip(self._stages, ends, strict=True)
        )


def _exp(power: float) -> float:
    return exp(max(-700.0, min(700.0, power)))


def _days_between(end: datetime, start: datetime) -> float:
    return (end - start) / timedelta(days=1)


def _stages(row: dict[str, Any], activation: dict[str, Any], history: Sequence[dict[str, Any]]) -> list[Stage]:
    """Return which importance and rate held from when on, as far back as the history (newest first) tells."""
    importance, rate = activation["importance"], activation["rate_per_day"]
    kind, pinned = row["kind"], row["pinned"]
    stages: list[Stage] = []
    for entry in history:
        before = {name: pair[0] for name, pair in (entry["changes"] or {}).items() if len(pair) == 2}
        if not before.keys() & {"importance", "kind", "pinned"} or entry["at"] <= activation["started_at"]:
            continue
        stages.append(Stage(entry["at"], importance, rate))
        importance = before.get("importance", importance)
        kind, pinned = before.get("kind", kind), before.get("pinned", pinned)
        if before.keys() & {"kind", "pinned"}:
            rate = f.rate_per_day(row["type"], kind, pinned=pinned)
    return [Stage(activation["started_at"], importance, rate), *reversed(stages)]


def fading(
    row: dict[str, Any], activation: dict[str, Any], history: Sequence[dict[str, Any]], now: datetime
) -> dict[str, Any]:
    """Return a memory's relevance from its beginning to a year ahead: moments in seconds, as if never used, and with
    its uses.

    `marks` are moments that somebody may want to know of, each with what happened, and the relevance before and after
    it: stored, each use that was kept, each change that the history has, now. A use is a change when the history has
    one at the same moment, else the memory was read.
    """
    stages = _stages(row, activation, history)
    began = stages[0].since
    uses = sorted(zip(activation["used_at"] or (), activation["use_weights"] or (), strict=True))
    line = Line(stages, uses, activation["reinforcement"], activation["last_accessed_at"])
    events = _events(uses, history, began) | {began: "stored", now: "now"}
    moments = _line_moments(began, now, {*events, *(stage.since for stage in stages), line.known_from})
    used = [line.used(at) for at in moments]
    return {
        "at": [at.timestamp() for at in moments],
        "unused": [line.unused(at) for at in moments],
        "used": used,
        "above": max((one for one in used if one is not None), default=0.0) > 1,
        "marks": [_line_mark(line, began, at, what, use=at in dict(uses)) for at, what in sorted(events.items())],
    }


def _events(
    uses: Sequence[tuple[datetime, float]], history: Sequence[dict[str, Any]], began: datetime
) -> dict[datetime, str]:
    changes = {one["at"]: str(one["operation"]) for one in reversed(history) if one["operation"] != "create"}
    return {at: what for at, what in ({at: "read" for at, _ in uses} | changes).items() if at > began}


def _line_moments(began: datetime, now: datetime, jumps: set[datetime]) -> list[datetime]:
    """Return the moments of a line until now and a year ahead: evenly, and at each jump and just before it."""
    elapsed = (began + (now - began) * n / POINTS for n in range(POINTS))
    ahead = (now + AHEAD * n / POINTS for n in range(POINTS + 1))
    return sorted({at for at in (*elapsed, *ahead, *jumps, *(at - BEFORE for at in jumps)) if at >= began})


def _line_mark(line: Line, began: datetime, at: datetime, what: str, *, use: bool) -> dict[str, Any]:
    when = {"at": at.timestamp(), "when": exact(at), "what": what, "use": use}
    return {**when, "before": line.used(max(began, at - BEFORE)), "after": line.used(at)}


def spread_nodes(nodes: int, lines: Sequence[tuple[int, int, float]]) -> NDArray[float32]:
    """Return places for the nodes of a graph, shape (nodes, 2), that lines pull together and everything else pushes
    apart.

    As Fruchterman and Reingold 1991 with a linear pull, from places on a spiral, so that the same graph always looks
    the same; a pull to the middle keeps what is not connected in sight.
    """
    import numpy as np

    turn = np.arange(nodes, dtype=np.float32) * np.float32(2.399963)
    places: NDArray[Any] = np.sqrt(np.arange(nodes, dtype=np.float32) + 0.5)[:, None] * np.stack(
        [np.cos(turn), np.sin(turn)], axis=1
    )
    if not lines or nodes == 1:
        return np.asarray(places * 60, dtype=np.float32)
    ends = np.array([(one, other) for one, other, _ in lines])
    weights = np.array([strength for _, _, strength in lines], dtype=np.float32)[:, None]
    turns = TURNS if nodes <= 1_000 else TURNS // 2  # what is so large is looked at from afar
    for turn_ in range(turns):
        pushed = np.empty_like(places)
        squares = (places**2).sum(axis=1)
        for start in range(0, nodes, 500):
            mine = places[start : start + 500]
            weight = mine @ (-2 * places.T)  # squares of distances, turned into their reciprocals where they stand
            weight += squares[start : start + 500, None]
            weight += squares
            np.maximum(weight, 0.01, out=weight)
            np.reciprocal(weight, out=weight)
            pushed[start : start + 500] = mine * weight.sum(axis=1, keepdims=True) - weight @ places
        apart = places[ends[:, 0]] - places[ends[:, 1]]
        pull = SPRING * apart * weights
        np.subtract.at(pushed, ends[:, 0], pull)
        np.add.at(pushed, ends[:, 1], pull)
        pushed -= GRAVITY * places
        length = np.maximum(np.linalg.norm(pushed, axis=1, keepdims=True), 1e-6)
        heat = max(0.02, (1 - turn_ / turns) * 0.12 * sqrt(nodes))
        places = places + pushed / length * np.minimum(length, heat)
    return np.asarray(places * 60, dtype=np.float32)


def nearest_pairs(vectors: Sequence[NDArray[Any]]) -> list[tuple[int, int, float]]:
    """Return pairs of unit vectors, each with the nearest few of the others if they are near, and their cosine."""
    import numpy as np

    if len(vectors) < 2:
        return []
    given = np.asarray(vectors, dtype=np.float32)
    cosines = given @ given.T
    np.fill_diagonal(cosines, -1.0)
    best = np.argsort(-cosines, axis=1)[:, :NEIGHBOURS]
    pairs = {
        (min(one, int(other)), max(one, int(other)))
        for one, others in enumerate(best)
        for other in others
        if cosines[one, other] >= NEAR
    }
    return [(one, other, round(min(1.0, float(cosines[one, other])), 4)) for one, other in sorted(pairs)]


def by_day(counts: dict[Any, int]) -> dict[str, list[float]]:
    """Return counts by day as seconds and numbers, a zero beside each gap."""
    days = sorted(counts)
    filled: dict[Any, int] = {}
    for day in days:
        for beside in (day - timedelta(days=1), day, day + timedelta(days=1)):
            filled[beside] = counts.get(beside, 0)
    at = sorted(filled)
    return {
        "at": [datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() for day in at],
        "memories": [float(filled[day]) for day in at],
    }


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
        """Return nodes with places and edges around a memory, or of the strongest links; None while made."""
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
        pairs = await asyncio.to_thread(nearest_pairs, [row["embedding"].to_numpy() for row in rows])
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
    positions = await asyncio.to_thread(spread_nodes, len(nodes), joined)
    for node, (x, y) in zip(nodes.values(), positions.tolist(), strict=True):
        node |= {"x": round(x, 1), "y": round(y, 1)}


async def _strongest(tx: Transaction) -> tuple[list[Row], dict[UUID, Row]]:
    """Return the strongest edges, and the memories at their ends."""
    rows = await ui_queries.strongest(tx, nodes=MAX_NODES, edges=MAX_EDGES)
    return rows, await edges.look_at(tx, list({row[end]: None for row in rows for end in ("from_id", "to_id")}))
