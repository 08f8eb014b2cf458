"""What is drawn: how a memory fades, what a change changed, where memories lie."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import exp, sqrt
from typing import TYPE_CHECKING, Any, Final

from jinja2.utils import htmlsafe_json_dumps

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

Piece = tuple[str, str]  # "same", "gone" or "new", and a text
POINTS: Final = 160
AHEAD: Final = timedelta(days=365)
DAY_S: Final = 86_400
WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")
MAX_COMPARED: Final = 4_000  # pieces of a text; longer ones are shown one after the other
TURNS: Final = 60  # in which a graph is spread
SPRING: Final = 0.4  # of a line, against a push of 1 / distance; weak, so that what is well connected is no heap
GRAVITY: Final = 0.2
REACH: Final = 10_000  # of a place on the map, in whole numbers


def fading(row: dict[str, Any], history: Sequence[dict[str, Any]], now: datetime) -> dict[str, Any]:
    """Return importance as it fades from creation to a year ahead: seconds, as if never used, and with its uses.

    Both are importance · exp(−rate · days). Only the sum of all uses is kept, so the second line begins at the last of them.
    `marks` are moments with what was then: stored, each change or confirmation that the history has, last read, now.
    """
    created, rate = row["created_at"], row["rate_per_day"]
    used = row["last_accessed_at"] or created
    step = (now + AHEAD - created) / POINTS
    moments = sorted({*(created + step * n for n in range(POINTS + 1)), used, now})

    def days(later: datetime, earlier: datetime) -> float:
        return (later - earlier) / timedelta(days=1)

    return {
        "at": [moment.timestamp() for moment in moments],
        "unused": [row["importance"] * exp(-rate * days(moment, created)) for moment in moments],
        "used": [
            min(1.0, row["relevance"] * exp(max(-700, min(700, -rate * days(moment, now))))) if moment >= used else None
            for moment in moments
        ],
        "marks": _marks(row, history, now),
    }


def _marks(row: dict[str, Any], history: Sequence[dict[str, Any]], now: datetime) -> list[tuple[float, str]]:
    told = [(datetime.fromisoformat(one["at"]), str(one["operation"])) for one in history]
    told += [(row["created_at"], "stored"), (now, "now")]
    if row["last_accessed_at"]:
        told.append((row["last_accessed_at"], "last used"))
    return sorted({(at.timestamp(), what) for at, what in told if at >= row["created_at"] and what != "create"})


def changed(old: Any, new: Any) -> list[Piece]:
    """Return the words of two values, each with whether it stayed, went or came."""
    before, after = _text(old), _text(new)
    one, other = WORDS.findall(before), WORDS.findall(after)
    if max(len(one), len(other)) > MAX_COMPARED or not one or not other:
        return [piece for piece in (("gone", before), ("new", after)) if piece[1]]
    pieces: list[Piece] = []
    for verb, i, j, k, m in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if verb == "equal":
            pieces.append(("same", "".join(one[i:j])))
            continue
        pieces += [piece for piece in (("gone", "".join(one[i:j])), ("new", "".join(other[k:m]))) if piece[1]]
    return pieces


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict) and {"to_id", "type", "strength"} <= value.keys():
        return f"{value['type']} {value['strength']} → {value['to_id'][-8:]}"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Plane:
    """The two principal components of vectors: their mean, shape (dims,), the axes, shape (dims, 2), and the share of all
    differences that they hold.
    """

    mean: NDArray[float32]
    axes: NDArray[float32]
    explained: float

    @classmethod
    def of(cls, vectors: Sequence[NDArray[Any]]) -> Plane:
        """Return the plane in which vectors differ most: eigenvectors of their covariance (Pearson 1901).

        Each is turned so that its largest part is positive, and the map stays as it is.
        """
        import numpy as np

        given = np.asarray(vectors, dtype=np.float32)
        mean = given.mean(axis=0)
        centred = given - mean
        values, axes = np.linalg.eigh(centred.T @ centred)
        best = axes[:, ::-1][:, :2]
        best = best * np.sign(best[np.abs(best).argmax(axis=0), [0, 1]])
        return cls(mean, best, float(values[-2:].sum()) / (float(values.sum()) or 1.0))

    def places(self, vectors: Sequence[NDArray[Any]]) -> NDArray[float32]:
        """Return where vectors lie on the plane, shape (n, 2)."""
        import numpy as np

        return np.asarray((np.asarray(vectors, dtype=np.float32) - self.mean) @ self.axes, dtype=np.float32)


class Points:
    """The memories of a map in few bytes each: ids as hexadecimal digits, places as whole numbers, names by their number."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._places: list[NDArray[float32]] = []
        self._types: list[str] = []
        self._clusters: list[str] = []

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, rows: Sequence[dict[str, Any]], plane: Plane) -> None:
        """Add memories with their vectors."""
        self._ids += [row["id"].hex for row in rows]
        self._types += [row["type"] for row in rows]
        self._clusters += [row["cluster"] or "" for row in rows]
        self._places.append(plane.places([row["embedding"].to_numpy() for row in rows]))

    def as_json(self) -> str:
        """Return them as JSON that may stand in a page."""
        import numpy as np

        places = np.concatenate(self._places)
        reach = float(np.abs(places).max()) or 1.0
        numbers = np.rint(places / reach * REACH).astype(int)
        told: dict[str, Any] = {"ids": "".join(self._ids), "x": numbers[:, 0].tolist(), "y": numbers[:, 1].tolist()}
        for name, values in (("type", self._types), ("cluster", self._clusters)):
            names = [one for one, _ in Counter(values).most_common()]
            number = {one: place for place, one in enumerate(names)}
            told |= {f"{name}_names": names, name: [number[one] for one in values]}
        return htmlsafe_json_dumps(told, separators=(",", ":"))


def spread(nodes: int, lines: Sequence[tuple[int, int, float]]) -> NDArray[float32]:
    """Return places for the nodes of a graph, shape (nodes, 2), that lines pull together and everything else pushes apart.

    As Fruchterman and Reingold 1991 with a linear pull, from places on a spiral, so that the same graph always looks the same; a
    pull to the middle keeps what is not connected in sight.
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
