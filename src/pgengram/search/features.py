"""What may tell that a candidate answers: one column of numbers for each reason, made of what `candidates` has read.

Of a conversation the turns beside a turn say what it leaves out. In a chat of short turns that is so for several turns
and their words; a long turn, and whoever answers as an assistant, says it all. So the gate: in a session those further
signs
count only where the median of its turns is short and no assistant speaks. What has no such surroundings is its own
surroundings, so that it is worth as much among turns as alone.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pgengram.search.vector_index import centred
from pgengram.text.derived import ASKS, CAPITAL, DIGIT, ENDS_ASKING, TIME, TURN

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]


NEAR_BY: Final = 5  # turns before and after
RECENT_TURNS: Final = 2  # before a turn, whose words it leaves out
SHORT_BYTES: Final = 240  # of a turn of about 30 words that say something, as people chat
ASSISTANT: Final = "assistant"
BASE_MEANING: Final = 0.6  # of what a text is worth alone, to itself and its neighbours; the rest is its words
FULL_SHARE: Final = 0.5  # a best match with less than half of what was asked counts as less than a full one


@dataclass(slots=True)
class Candidates:
    """The candidates of a question as columns, one entry for each.

    similarity: cosine of the best part, NaN without a vector; meaning: the same as the rules read it; words: BM25;
    matched: a bit for each asked term; session:
    a number for each session, -1 for none; voice: who speaks or may speak; size: bytes of its text.
    """

    ids: Sequence[UUID]
    found_by: Sequence[str]
    similarity: Numbers
    meaning: Numbers
    parts: Numbers
    words: Numbers
    matched: NDArray[np.int64]
    session: NDArray[np.int64]
    sequence: NDArray[np.int64]
    voices: Sequence[str | None]
    turn_features: NDArray[np.int64]
    size: NDArray[np.int64]
    period: Numbers
    relevance: Numbers

    @classmethod
    def of(cls, read: Mapping[str, Sequence[Any]], mean_cosine: float) -> Candidates:
        """Return what the statement of `candidates` read.

        Args:
            read: its columns.
            mean_cosine: of two memories.
        """
        import numpy as np

        def column(name: str, kind: type = float) -> Any:
            return np.array(read[name], dtype=kind)

        sessions: dict[str | None, int] = {None: -1}
        return cls(
            read["id"],
            read["found_by"],
            column("similarity"),
            np.asarray(centred(column("similarity"), mean_cosine)),
            column("parts"),
            column("words"),
            column("matched", int),
            np.array([sessions.setdefault(one, len(sessions)) for one in read["session_id"]], dtype=int),
            np.array([one or 0 for one in read["session_sequence"]], dtype=int),
            read["speaker_key"],
            column("turn_features", int),
            column("size", int),
            column("period"),
            column("relevance"),
        )

    def turns(self) -> NDArray[np.intp]:
        """Return the places of turns of conversations, in the order of their sessions and there in their own.

        Those of a conversation that its caller named, and lines of a session that begin with two names at least, each
        more than once: whoever stores a chat without naming it still stores a chat.
        """
        import numpy as np

        is_turn = (self.turn_features & TURN) != 0
        lines: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for place, voice in enumerate(self.voices):
            if voice and not is_turn[place] and self.session[place] >= 0:
                lines[int(self.session[place])][voice].append(place)
        for by_voice in lines.values():
            again = [places for places in by_voice.values() if len(places) > 1]
            if len(again) > 1:
                is_turn[[place for places in again for place in places]] = True
        found = np.flatnonzero(is_turn)
        return found[np.lexsort((self.sequence[found], self.session[found]))]


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a question: their weights, those that have a bit, and which of them belong to each of its names."""

    weights: list[float]
    bits: list[int]
    names: list[int]
    full: float

    def share(self, matched: NDArray[np.int64]) -> Numbers:
        """Return which share of the terms, by weight, each of some candidates has."""
        import numpy as np

        known = [(bit.bit_length() - 1, weight) for bit, weight in zip(self.bits, self.weights, strict=True) if bit]
        if not known:
            return np.zeros(len(matched))
        places, weights = np.array([place for place, _ in known]), np.array([weight for _, weight in known])
        return np.asarray(((matched[:, None] >> places) & 1) @ weights / max(float(weights.sum()), 1e-9))


def best_words(among: Sequence[Candidates], terms: Terms) -> float:
    """Return what the words of the best candidate weigh, or half of what the question weighs if that is more."""
    most = max((float(found.words.max(initial=0.0)) for found in among), default=0.0)
    return max(most, FULL_SHARE * terms.full, 1e-9)


def features(
    found: Candidates, terms: Terms, speakers: set[str], most: float, *, asks_when: bool
) -> dict[str, Numbers]:
    """Return every reason to rank, shape (candidates,) each; what is not weighted is shown, or others are made of it.

    A long turn has many parts, of which the best counts: the more there are, the better one of them fits by chance. A
    long note is about one thing.

    Args:
        found: the candidates.
        terms: of the question.
        speakers: whom it names, in lower case.
        most: what `best_words` returns.
        asks_when: whether it asks for a time.
    """
    import numpy as np

    meaning = np.nan_to_num(found.meaning)
    words = np.minimum(found.words / most, 1.0)
    base = BASE_MEANING * meaning + (1 - BASE_MEANING) * words
    turns = found.turns()
    named = np.array(
        [bool(speakers) and voice is not None and bool(speakers & {*voice.split()}) for voice in found.voices]
    )
    in_talk = np.zeros(len(base), dtype=bool)
    in_talk[turns] = True
    names = np.zeros(len(base))
    if terms.names:
        names = np.mean([(found.matched & name) != 0 for name in terms.names], axis=0) * ~in_talk
    return {
        "meaning": meaning,
        "words": words,
        "parts": (1 - 1 / np.maximum(found.parts, 1)) * in_talk,
        "names": names,
        "speaker": named.astype(float) if len(speakers) == 1 else np.zeros(len(base)),
        **_surroundings(found, terms, base, turns, asks_when=asks_when),
        "base": base,
        "in_talk": in_talk.astype(float),
    }


def _surroundings(
    found: Candidates, terms: Terms, base: Numbers, turns: NDArray[np.intp], *, asks_when: bool
) -> dict[str, Numbers]:
    """Return what stands around a turn; outside a conversation, or behind the gate, its own worth instead."""
    import numpy as np

    columns = {name: base.copy() for name in ("beside", "near_by", "heard")}
    columns |= {
        name: np.zeros(len(base)) for name in ("reply", "asking", "when", "shown_near_by", "shown_heard", "is_long")
    }
    columns["facts"] = np.ones(len(base))
    if not len(turns):
        return columns
    beside, near_by, recent = _neighbours(found, base, turns)
    its = found.turn_features[turns]
    open_ = _gate(found, turns)
    heard = terms.share(recent)
    columns["beside"][turns] = beside
    columns["is_long"][turns] = ~open_
    columns["shown_near_by"][turns] = near_by
    columns["shown_heard"][turns] = np.where(open_, heard, 0)
    behind_gate = {
        "near_by": near_by,
        "heard": heard,
        "reply": _replies(found, base, turns),
        "asking": (its & ENDS_ASKING) != 0,
        "facts": sum((its & bit) != 0 for bit in (TIME, DIGIT, CAPITAL)),
        "when": ((its & TIME) != 0) * asks_when,
    }
    for name, column in behind_gate.items():
        columns[name][turns[open_]] = np.asarray(column, dtype=float)[open_]
    return columns


def _neighbours(
    found: Candidates, base: Numbers, turns: NDArray[np.intp]
) -> tuple[Numbers, Numbers, NDArray[np.int64]]:
    """Return for each turn the best base of the turn before and after, that of those near by, and the bits of the terms
    that it and those just before it have.
    """
    import numpy as np

    session, sequence, its, matched = found.session[turns], found.sequence[turns], base[turns], found.matched[turns]
    beside, near_by, recent = np.zeros(len(turns)), np.zeros(len(turns)), matched.copy()
    for step in range(1, min(NEAR_BY, len(turns) - 1) + 1):
        apart = np.where(session[step:] == session[:-step], sequence[step:] - sequence[:-step], NEAR_BY + 1)
        for reach, best in ((1, beside), (NEAR_BY, near_by)):
            counts = apart <= reach
            best[:-step] = np.maximum(best[:-step], its[step:] * counts)
            best[step:] = np.maximum(best[step:], its[:-step] * counts)
        recent[step:] |= np.where(apart <= RECENT_TURNS, matched[:-step], 0)
    return beside, near_by, recent


def _replies(found: Candidates, base: Numbers, turns: NDArray[np.intp]) -> Numbers:
    """Return for each turn how well the one before it fits, where somebody else asked something in it."""
    import numpy as np

    session, sequence = found.session[turns], found.sequence[turns]
    follows = (session[1:] == session[:-1]) & (sequence[1:] - sequence[:-1] == 1)
    asked = (found.turn_features[turns[:-1]] & ASKS) != 0
    others = np.array([found.voices[one] != found.voices[other] for one, other in pairwise(turns)], dtype=bool)
    return np.concatenate([[0.0], base[turns[:-1]] * (follows & asked & others)])


def _gate(found: Candidates, turns: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which turns are of a session of short turns in which no assistant speaks."""
    import numpy as np

    session = found.session[turns]
    size = found.size[turns][np.lexsort((found.size[turns], session))]
    starts = np.flatnonzero(np.diff(session, prepend=-2))
    counts = np.diff([*starts, len(turns)])
    assistant = np.array([found.voices[place] == ASSISTANT for place in turns])
    short = (size[starts + counts // 2] <= SHORT_BYTES) & ~np.logical_or.reduceat(assistant, starts)
    return np.repeat(short, counts)


WEIGHTS: Final = Path(__file__).parent / "weights.json"


@cache
def _all_weights() -> dict[str, dict[str, Any]]:
    return dict(json.loads(WEIGHTS.read_text(encoding="utf-8")))


def weights(part: str) -> dict[str, Any]:
    """Return the weights of a part of the search, by the names of what they weigh."""
    return _all_weights()[part]
