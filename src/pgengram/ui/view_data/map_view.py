"""The map as a browser gets it: regions and names in the page, places in seven bytes for each memory, ids on demand."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import exp, log
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pgengram import fields as f
from pgengram.ids import BEFORE_ALL
from pgengram.service.manager import MemoryManager
from pgengram.store.reading import ui_queries
from pgengram.text.language import function_words, light_words
from pgengram.text.words import words
from pgengram.ui.view_data.jobs import Absent, BackgroundCache

if TYPE_CHECKING:
    from uuid import UUID

    from numpy import float32, int64
    from numpy.random import Generator
    from numpy.typing import NDArray


DIMENSIONS: Final = 32  # of hundreds; they hold most of what vectors differ in
MOST_REGIONS: Final = 14  # more names than that are not read at a glance
RUNS: Final = 3  # of k-means, the best of which counts
ROUNDS: Final = 12  # of each; by then hardly a memory changes its region
RELAXING: Final = 300  # rounds in which regions that overlap are moved apart
GAP: Final = 1.08  # between two regions that touch
REACH: Final = 10_000  # of a place, in whole numbers
NAMED_BY: Final = 2  # words of a region's name
TAGGED: Final = 3  # how often a tag counts beside a word: somebody chose it to say what a memory is about
NAMES: Final = 255  # that a byte tells apart
LANGUAGES: Final = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "sv")
INFLECTED: Final = re.compile("^[a-z]+(?:ed|ing|ly)$")
SHORTEST, LONGEST = 3, 24  # letters of a word that can name a region


@dataclass(frozen=True, slots=True)
class Regions:
    """Regions of vectors, in the `DIMENSIONS` in which these differ most.

    basis: leads to these from the vectors' own, shape (dims, DIMENSIONS); means: of the regions, shape (k, DIMENSIONS);
    axes: along which the vectors of each differ most, shape (k, DIMENSIONS, 2); widths: how far they lie along them,
    shape (k,); middles and radii: where each is drawn, shape (k, 2) and (k,).
    """

    basis: NDArray[float32]
    means: NDArray[float32]
    axes: NDArray[float32]
    widths: NDArray[float32]
    middles: NDArray[float32]
    radii: NDArray[float32]

    @classmethod
    def of(cls, vectors: Sequence[NDArray[Any]]) -> Regions:
        """Return the regions of some vectors: k-means, always with the same outcome.

        Inside a region and among the regions' means the two principal components (Pearson 1901) say where things lie.
        """
        import numpy as np

        own = np.asarray(vectors, dtype=np.float32)
        basis = _axes(own - own.mean(axis=0), DIMENSIONS)
        given = own @ basis
        means = _means(given, _region_count(len(given)))
        near = _nearest(given, means)
        parts = [given[near == number] - means[number] for number in range(len(means))]
        axes = np.stack([_axes(part) for part in parts])
        spreads = [np.linalg.norm(part @ axis, axis=1) for part, axis in zip(parts, axes, strict=True)]
        widths = np.array([np.percentile(one, 75) if len(one) else 1.0 for one in spreads], dtype=np.float32)
        radii = np.sqrt(np.array([max(1, len(part)) for part in parts], dtype=np.float32) / len(given))
        centred = means - given.mean(axis=0)
        middles = centred @ _axes(centred)
        middles = middles / (float(np.abs(middles).max()) or 1.0)
        return cls(basis, means, axes, np.maximum(widths, 1e-6), _pushed_apart(middles, radii), radii)

    @property
    def dims(self) -> int:
        """Of the vectors."""
        return len(self.basis)

    def place(self, vectors: Sequence[NDArray[Any]]) -> tuple[NDArray[int64], NDArray[float32]]:
        """Return the region of each vector, and where it lies, shape (n, 2)."""
        import numpy as np

        given = np.asarray(vectors, dtype=np.float32) @ self.basis
        near = _nearest(given, self.means)
        places = np.empty((len(given), 2), dtype=np.float32)
        for number in range(len(self.means)):
            mine = near == number
            along = (given[mine] - self.means[number]) @ self.axes[number] / self.widths[number]
            length = np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-6)
            places[mine] = self.middles[number] + along / length * np.tanh(length) * self.radii[number]
        return near, places


def _region_count(memories: int) -> int:
    """Return how many regions so many memories have; the same until there are half as many again."""
    steps = round(log(max(1, memories) / 8, 1.5)) if memories > 8 else 0
    return min(MOST_REGIONS, max(1, round(exp(steps * log(1.5) / 2))))


def _means(given: NDArray[float32], count: int) -> NDArray[float32]:
    """Return the best of some runs of k-means++ (Arthur and Vassilvitskii 2007), always of the same chance."""
    import numpy as np

    chance = np.random.default_rng(0)
    runs = [_lloyd(given, _beginnings(given, count, chance)) for _ in range(RUNS)]
    return min(runs, key=lambda means: float(((given - means[_nearest(given, means)]) ** 2).sum()))


def _beginnings(given: NDArray[float32], count: int, chance: Generator) -> NDArray[float32]:
    import numpy as np

    chosen = [given[0]]
    away = np.full(len(given), np.inf, dtype=np.float32)
    for _ in range(1, count):
        away = np.minimum(away, ((given - chosen[-1]) ** 2).sum(axis=1))
        total = float(away.sum())
        chosen.append(
            given[chance.choice(len(given), p=away.astype(np.float64) / away.sum(dtype=np.float64) if total else None)]
        )
    return np.stack(chosen)


def _lloyd(given: NDArray[float32], means: NDArray[float32]) -> NDArray[float32]:
    import numpy as np

    for _ in range(ROUNDS):
        belongs = (_nearest(given, means)[:, None] == np.arange(len(means))).astype(np.float32)
        numbers = belongs.sum(axis=0)[:, None]
        means = np.where(numbers > 0, belongs.T @ given / np.maximum(numbers, 1), means)
    return np.asarray(means, dtype=np.float32)


def _nearest(given: NDArray[float32], means: NDArray[float32]) -> NDArray[int64]:
    import numpy as np

    return np.asarray((given @ means.T - (means**2).sum(axis=1) / 2).argmax(axis=1))


def _axes(centred: NDArray[float32], count: int = 2) -> NDArray[float32]:
    """Return the first principal components, shape (dims, count), each turned so that its largest part is positive."""
    import numpy as np

    _, axes = np.linalg.eigh(centred.T @ centred)
    best = axes[:, ::-1][:, :count]
    largest = np.take_along_axis(best, np.abs(best).argmax(axis=0)[None, :], axis=0)
    return np.asarray(best * np.sign(largest), dtype=np.float32)


def _pushed_apart(middles: NDArray[float32], radii: NDArray[float32]) -> NDArray[float32]:
    """Return the middles of discs moved until none overlaps another much."""
    import numpy as np

    middles = middles.astype(np.float32)
    wanted = (radii[:, None] + radii[None, :]) * GAP
    for _ in range(RELAXING):
        between = middles[:, None, :] - middles[None, :, :]
        distance = np.linalg.norm(between, axis=2) + np.eye(len(middles)) * 1e6
        push = np.maximum(0, wanted - distance)[:, :, None] * between / np.maximum(distance, 1e-6)[:, :, None]
        middles = (middles + 0.4 * push.sum(axis=1)) * 0.995  # and all towards the middle
    return np.asarray(middles, dtype=np.float32)


class Points:
    """The memories of a map: their ids, and in few bytes each where they lie and how they are coloured."""

    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        self.ids: list[UUID] = []
        self._places: list[NDArray[float32]] = []
        self._named: dict[str, list[str]] = {"type": [], "cluster": []}
        self._region: list[int] = []
        self._words: list[Counter[str]] = [Counter() for _ in regions.means]
        self._spellings: dict[str, Counter[str]] = {}  # of each word, in small letters, how it is written

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add memories with their vectors."""
        near, places = self._regions.place([row["embedding"].to_numpy() for row in rows])
        self.ids += [row["id"] for row in rows]
        self._named["type"] += [row["type"] for row in rows]
        self._named["cluster"] += [row["cluster"] or "" for row in rows]
        self._region += near.tolist()
        self._places.append(places)
        for row, number in zip(rows, near.tolist(), strict=True):
            for written, weight in (
                *((word, 1) for word in _telling(row["excerpt"])),
                *((tag, TAGGED) for tag in row["tags"]),
            ):
                self._words[number][written.casefold()] += weight
                self._spellings.setdefault(written.casefold(), Counter())[written] += 1

    @property
    def regions(self) -> list[dict[str, Any]]:
        """The regions, the largest first: number, name, memories, and where they lie in the numbers of the points."""
        numbers, scale = Counter(self._region), self._scale()
        names = region_names(self._words, [numbers[number] for number in range(len(self._words))])
        return [
            {
                "number": number,
                "name": ", ".join(self._spelled(word) for word in names[number].split(", ")),
                "memories": count,
                "x": round(float(self._regions.middles[number][0]) * scale),
                "y": round(float(self._regions.middles[number][1]) * scale),
                "radius": round(float(self._regions.radii[number]) * scale),
            }
            for number, count in numbers.most_common()
        ]

    def _spelled(self, word: str) -> str:
        """Return a word as it is usually written."""
        spellings = self._spellings.get(word)
        return spellings.most_common(1)[0][0] if spellings else word

    def _scale(self) -> float:
        return REACH / (max(float(abs(one).max()) for one in self._places) or 1.0)

    def packed(self) -> tuple[bytes, dict[str, list[str]]]:
        """Return the points, and the names of types and clusters.

        The points are five columns: x and y as signed 16-bit numbers, the low byte first, then a byte each for the
        number of the region, the type's name and the cluster's name; names past the 255th are one.
        """
        import numpy as np

        places = np.rint(np.concatenate(self._places) * self._scale()).astype("<i2")
        columns = [places[:, 0].tobytes(), places[:, 1].tobytes(), bytes(self._region)]
        names_of: dict[str, list[str]] = {}
        for name, values in self._named.items():
            names = [one for one, _ in Counter(values).most_common()]
            number = {one: min(place, NAMES) for place, one in enumerate(names)}
            columns.append(bytes(number[one] for one in values))
            names_of[f"{name}_names"] = [*names[:NAMES], *(["other"] if names[NAMES:] else [])]
        return b"".join(columns), names_of


@cache
def _little_words() -> frozenset[str]:
    """Return the words that say little in any language; one that says much in another is not a great loss to a name."""
    return frozenset().union(*(said(code) for code in LANGUAGES for said in (function_words, light_words)))


def _telling(text: str) -> set[str]:
    """Return the words of a text that can say what it is about, as they are written: no verbs in small letters that
    English inflects, no words that say little.
    """
    empty = _little_words()
    found = {word.removesuffix("'s").removesuffix("’s") for word in words(text)}
    return {
        word
        for word in found
        if word.casefold() not in empty
        and SHORTEST <= len(word) <= LONGEST
        and not word.isdecimal()
        and not INFLECTED.search(word)
    }


def region_names(counted: Sequence[Counter[str]], memories: Sequence[int]) -> list[str]:
    """Return a name for each region: the words that most of its memories have and few of the others.

    Args:
        counted: for each region in how many of its memories each word stands.
        memories: how many each has.
    """
    everywhere = sum(counted, Counter[str]())
    in_all = sum(memories) or 1
    names = []
    for mine, number in zip(counted, memories, strict=True):
        share = {word: count / number for word, count in mine.items() if count > 1}
        scores = {word: one * log(one / (everywhere[word] / in_all)) for word, one in share.items()}
        best = (
            sorted(scores, key=lambda word: (-scores[word], word))
            if len(counted) > 1
            else sorted(share, key=share.__getitem__)[::-1]
        )
        names.append(", ".join(_different(best)) or "other")
    return names


def _different(best: Iterable[str]) -> list[str]:
    """Return the first words of which none begins with another."""
    chosen: list[str] = []
    for word in best:
        if not any(word.startswith(one[:5]) or one.startswith(word) for one in chosen):
            chosen.append(word)
        if len(chosen) == NAMED_BY:
            break
    return chosen


AXES_FROM: Final = 10_000  # memories of which the regions of the map are worked out
AT_ONCE: Final = 2_000  # memories whose vectors are read together; other pages are answered between two such readings
MAX_POINTS: Final = 200_000  # of a map
FRESH_S: Final = 300.0
DRIFT: Final = 0.15  # of the memories, which may come or go before the regions are worked out anew
KEPT: Final = 2  # maps that open pages may ask about


@dataclass(frozen=True, slots=True)
class Drawn:
    """A map: its regions, its colours' names, the points as `Points.packed` has them, and whose they are."""

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
        self._regions: tuple[int, Regions] | None = None  # of so many memories

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

    async def _regions_of(self, vectors: Sequence[NDArray[Any]]) -> Regions:
        """Return the regions of the last map while there are about as many memories, so that they stay in place."""
        before = self._regions
        if before is None or abs(len(vectors) - before[0]) > DRIFT * before[0] or before[1].dims != len(vectors[0]):
            before = self._regions = (len(vectors), await asyncio.to_thread(Regions.of, vectors))
        return before[1]

    async def _draw(self) -> Drawn:
        """Work the map out; a transaction is open only while rows are read."""
        read = self._manager.store.read_transaction
        some = await read(lambda tx: ui_queries.sample(tx, limit=AXES_FROM))
        if len(some) < 3:
            return Drawn()
        points = Points(await self._regions_of(some))
        after = BEFORE_ALL
        while len(points) < MAX_POINTS and (
            rows := await read(partial(ui_queries.vectors, after=after, limit=AT_ONCE))
        ):
            await asyncio.to_thread(points.add, rows)
            after = rows[-1]["id"]
        if not len(points):
            return Drawn()
        return await asyncio.to_thread(_drawn, points)


def _drawn(points: Points) -> Drawn:
    packed, names = points.packed()
    return Drawn(points.regions, names, packed, points.ids)


def as_places(given: str) -> list[int]:
    """Return places as a browser names them, with commas; at most as many as a list shows."""
    return [int(one) for one in given.split(",") if one.isdecimal()][: f.MAX_LIMIT]
