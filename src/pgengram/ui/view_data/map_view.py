"""The map as a browser gets it: regions and names in the page, places in seven bytes for each memory, ids on demand."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pgengram import fields as f
from pgengram.ids import BEFORE_ALL
from pgengram.service.manager import MemoryManager
from pgengram.store.reading import ui_queries
from pgengram.ui.view_data import islands
from pgengram.ui.view_data.jobs import Absent, BackgroundCache

if TYPE_CHECKING:
    from numpy.typing import NDArray

AXES_FROM: Final = 10_000  # memories of which the regions of the map are worked out
AT_ONCE: Final = 2_000  # memories whose vectors are read together; other pages are answered between two such readings
MAX_POINTS: Final = 200_000  # of a map
FRESH_S: Final = 300.0
DRIFT: Final = 0.15  # of the memories, which may come or go before the regions are worked out anew
KEPT: Final = 2  # maps that open pages may ask about


@dataclass(frozen=True, slots=True)
class Drawn:
    """A map: its regions and the names of its colours, the points as `islands.Points.packed` has them, and whose
    they are.
    """

    regions: Sequence[dict[str, Any]] = ()
    names: dict[str, list[str]] = field(default_factory=dict)
    points: bytes = b""
    ids: Sequence[UUID] = ()
    key: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def shown(self) -> dict[str, Any]:
        """What the page has of it: everything but the points."""
        return {"key": self.key, "regions": self.regions, **self.names}


class MapView:
    """Maps of one namespace, each worked out beside the requests and kept for the pages that show it."""

    def __init__(self, manager: MemoryManager, cache: BackgroundCache) -> None:
        self._manager = manager
        self._cache = cache
        self._kept: dict[str, Drawn] = {}
        self._regions: tuple[int, islands.Regions] | None = None  # of so many memories

    async def newest(self) -> Drawn | None:
        """Return where memories lie now, in regions of similar meaning; None while it is worked out."""
        made = await self._cache.get("map", self._draw, fresh_s=FRESH_S)
        if made is not None and made.key not in self._kept:
            self._kept = dict([*self._kept.items(), (made.key, made)][-KEPT:])
        return made

    def kept(self, key: str) -> Drawn:
        """Return the map that an open page shows.

        Raises:
            Absent: newer ones have taken its place.
        """
        if key not in self._kept:
            raise Absent("This map is out of date.", "Load the page again.")
        return self._kept[key]

    def at(self, key: str, places: Sequence[int]) -> list[UUID]:
        """Return the ids of the memories at some places of a map; places that are not on it are passed over."""
        ids = self.kept(key).ids
        return [ids[place] for place in places if 0 <= place < len(ids)]

    def places(self, key: str, ids: Sequence[str]) -> list[int]:
        """Return the places of those memories that are on a map."""
        wanted = {UUID(id_) for id_ in ids}
        return [place for place, id_ in enumerate(self.kept(key).ids) if id_ in wanted]

    async def _regions_of(self, vectors: Sequence[NDArray[Any]]) -> islands.Regions:
        """Return the regions of the last map while there are about as many memories, so that they stay in place."""
        before = self._regions
        if before is None or abs(len(vectors) - before[0]) > DRIFT * before[0] or before[1].dims != len(vectors[0]):
            before = self._regions = (len(vectors), await asyncio.to_thread(islands.Regions.of, vectors))
        return before[1]

    async def _draw(self) -> Drawn:
        """Work the map out; a transaction is open only while rows are read."""
        read = self._manager.store.read_transaction
        some = await read(lambda tx: ui_queries.sample(tx, limit=AXES_FROM))
        if len(some) < 3:
            return Drawn()
        points = islands.Points(await self._regions_of(some))
        after = BEFORE_ALL
        while len(points) < MAX_POINTS and (
            rows := await read(partial(ui_queries.vectors, after=after, limit=AT_ONCE))
        ):
            await asyncio.to_thread(points.add, rows)
            after = rows[-1]["id"]
        if not len(points):
            return Drawn()
        return await asyncio.to_thread(_drawn, points)


def _drawn(points: islands.Points) -> Drawn:
    packed, names = points.packed()
    return Drawn(points.regions, names, packed, points.ids)


def as_places(given: str) -> list[int]:
    """Return places as a browser names them, with commas; at most as many as a list shows."""
    return [int(one) for one in given.split(",") if one.isdecimal()][: f.MAX_LIMIT]
