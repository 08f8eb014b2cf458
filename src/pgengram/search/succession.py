"""Whether one memory tells what holds now of what another told before: one rule for storing, searching and reviewing.

It is judged by vectors, kinds and words, so it is never certain: nothing is changed or hidden by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from heapq import nlargest
from typing import Final
from uuid import UUID

from pgengram.fields import SCOPE
from pgengram.search.features import weights
from pgengram.search.vector_index import UNRELATED, centred
from pgengram.store.connection.database import Row
from pgengram.text.derived import TURN
from pgengram.text.differences import other_numbers, tokens, without_dates
from pgengram.text.language import language_of, persons
from pgengram.text.vocabulary import announces_change, time_words
from pgengram.text.words import FIRST_LETTERS, beginning

OTHERS: Final = 2  # the nearest ones beside the two that are compared
ALONE: Final = 0.3  # cosine of memories about one person or project, where there are no others to compare
# Probabilities of `succeeds`, measured by benchmarks/retrieval.py: the rarer a false one has to be, the higher.
HINTED: Final = 0.3  # asking whoever stores the newer one: of five such questions four are about what no longer holds
BEFORE: Final = 0.15  # standing before the older one
EVEN: Final = 0.5  # more likely than not
HALF: Final = EVEN  # of the words of what was wanted, that an event says again
NAMED: Final = EVEN  # calling the older one so
MAX_REPLACED: Final = 3  # memories that a new one may change
LATER: Final = timedelta(hours=1)  # what was told in one sitting holds together

Succession = tuple[UUID, UUID]  # newer, older


@dataclass(frozen=True, slots=True)
class Statement:
    """What is compared of a memory: its text, sort, owner, subject, when it was told to hold, and stored."""

    content: str
    type: str
    kind: str | None
    speaker: str | None
    scope: tuple[str | None, ...]
    is_turn: bool
    told_at: datetime | None
    stored_at: datetime | None = None

    @classmethod
    def of(cls, row: Row) -> Statement:
        """Return the statement of a row of `memories`, or of a draft, which is told only now."""
        return cls(
            row["content"],
            row["type"],
            row["kind"],
            row["speaker"],
            tuple(row[name] for name in SCOPE),
            bool(row["turn_features"] & TURN),
            told_at(row) if row.get("created_at") else None,
            row.get("created_at"),
        )


def comparable(newer: Statement, older: Statement) -> bool:
    """Whether one memory may succeed another, as neither was said in a conversation, and their scopes don't differ.

    A user, project or collection that one of them does not name may be the other's. Who said it matters only where it
    was said of oneself. An event has happened, whatever is told later.
    """
    pairs = zip(newer.scope, older.scope, strict=True)
    same = _whoever_said_it(newer, older) and all(None in pair or pair[0] == pair[1] for pair in pairs)
    return same and older.type != "episodic" and not (newer.is_turn or older.is_turn)


def _whoever_said_it(newer: Statement, older: Statement) -> bool:
    if newer.speaker == older.speaker:
        return True
    return not (_speaks_of_oneself(newer.content) or _speaks_of_oneself(older.content))


@lru_cache(maxsize=512)
def _speaks_of_oneself(text: str) -> bool:
    return persons(text, language_of(text).code)[0] > 0


def crowding(cosines: Iterable[float]) -> float:
    """Return how near the nearest others are to a memory, by their cosines: of a subject that much is told of,
    memories are near to each other without being about the same.
    """
    nearest = nlargest(OTHERS, cosines)
    return (sum(nearest) + ALONE * (OTHERS - len(nearest))) / OTHERS


def succeeds(newer: Statement, older: Statement, cosine: float, crowded: float) -> float:
    """Return the probability that `newer` tells what holds now of what `older` tells; 0 where they are not comparable.

    Two memories of the same fact are nearer to each other than to any other (the correction of nearest neighbours for
    crowded places by Conneau et al. 2018). What was wanted may have happened: the bicycle that was for sale is sold.

    Args:
        newer: the statement told later.
        older: the one told before.
        cosine: of the two.
        crowded: the `crowding` of either, or the mean of both.
    """
    told = signals_of(newer, older, cosine, crowded)
    return _probability(told) if told else 0.0


def signals_of(newer: Statement, older: Statement, cosine: float, crowded: float) -> dict[str, float]:
    """Return what tells whether one statement succeeds another, by weight; nothing where it can't."""
    repeated = _repeated(newer.content, older.content)
    if not comparable(newer, older) or (newer.type == "episodic" and repeated < HALF):
        return {}
    return {
        "cosine": cosine,
        "crowding": crowded,
        "same_kind": newer.kind == older.kind,
        "change": announces_change(newer.content),
        "number": other_numbers(newer.content, older.content),
        "repeated": repeated,
    }


def at_most(cosine: float, crowded: float) -> float:
    """Return the most that `succeeds` may be, whatever two memories say."""
    told = dict.fromkeys(("same_kind", "change", "number", "repeated"), 1.0)
    return _probability({"cosine": cosine, "crowding": crowded, **told})


def _probability(told: Mapping[str, float]) -> float:
    its = weights("succession")
    return 1 / (1 + math.exp(-its["constant"] - sum(its[name] * value for name, value in told.items())))


def _repeated(newer: str, older: str) -> float:
    """Return which share of the words that say something in an older text a newer one has, too."""
    said, again = map(_telling_words, (older, newer))
    return len(said & again) / len(said) if len(said & again) > 2 else 0.0  # two are a name and what it is


def _telling_words(text: str) -> set[str]:
    said = tokens(without_dates(text)) - time_words()
    return {beginning(word) for word in said if len(word) > FIRST_LETTERS or word.isdigit()}


def surest(judged: Iterable[tuple[Succession, float]], least: float) -> list[tuple[Succession, float]]:
    """Return the pairs, newer first, with at least `least` evidence; of each newer one the surest, as one change
    changes one fact.
    """
    best: dict[UUID, tuple[Succession, float]] = {}
    for pair, evidence in judged:
        if evidence >= max(least, best.get(pair[0], (pair, 0.0))[1]):
            best[pair[0]] = pair, evidence
    return [*best.values()]


def may_have_changed(newer: Statement, older: Statement) -> bool:
    """Whether one was told to hold so much later than the other that it may have changed, or later and as a change."""
    if newer.told_at is None or older.told_at is None or newer.told_at <= older.told_at:
        return False
    confirmed_since = newer.stored_at is None or newer.stored_at <= older.told_at
    return newer.told_at - older.told_at >= LATER or (not confirmed_since and announces_change(newer.content))


def told_at(row: Row) -> datetime:
    """Return when a memory was last told to hold: its last confirmation; if there was none, when it was so, or told."""
    created: datetime = row["created_at"]
    confirmed: datetime = row["last_confirmed_at"] or created
    happened: datetime | None = row["occurred_at"]
    return confirmed if happened is None or confirmed - created > LATER else min(happened, created)


def may_replace(draft: Row, near: Sequence[Row], mean_cosine: float = UNRELATED) -> list[Row]:
    """Return the memories that a draft may change, surest first: of the nearest of its scope, those that it may succeed
    and that speak of the same thing.

    Args:
        draft: the new memory.
        near: the rows nearest to it, nearest first, each with its cosine as `similarity`; more than may be changed, as
            the others tell how crowded it is there.
        mean_cosine: of two memories.
    """
    new, judged = Statement.of(draft), []
    for row in near[:MAX_REPLACED]:
        crowded = crowding(centred(other["similarity"], mean_cosine) for other in near if other is not row)
        judged.append((succeeds(new, Statement.of(row), centred(row["similarity"], mean_cosine), crowded), row))
    judged.sort(key=lambda one: -one[0])
    return [row for evidence, row in judged if evidence >= HINTED]
