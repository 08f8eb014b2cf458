"""What two memories that are near to each other are to each other: one replaces, repeats or contradicts the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from pgengram.search.dates import by_clock, times, without_times
from pgengram.search.succession import (
    HINTED,
    NAMED,
    Statement,
    Succession,
    crowding,
    may_have_changed,
    succeeds,
    told_at,
)
from pgengram.store.connection.database import Row
from pgengram.store.maintenance.findings import Pair
from pgengram.text.derived import TURN
from pgengram.text.differences import differences, overlap, same_subject, tell_apart
from pgengram.text.sameness import includes, said_otherwise
from pgengram.text.vocabulary import announces_change

LONG: Final = 1_000  # characters; the vectors compared are those of the beginning
LONG_OVERLAP: Final = 0.8  # of the words of long texts
# Where one of these differs it is about something else.
SCOPE: Final = ("type", "user", "project", "collection", "speaker", "occurred_at")
# Differences of which alone one text says when, and the other denies it.
OF_TIME: Final = frozenset({"dates", "numbers"})
CLAUSE_END: Final = re.compile(r"(?<=[^\d\s]\.)\s+|\s*[:;!?](?=\s)\s*|\s+[–—-]\s+|\n")
WEEK: Final = timedelta(days=7)


def crowding_of_pairs(pairs: Sequence[Pair]) -> dict[Pair, float]:
    """Return how near the nearest others are to the memories of each pair."""
    beside: dict[UUID, dict[UUID, float]] = {}
    for pair in pairs:
        beside.setdefault(pair.one, {})[pair.other] = pair.similarity
        beside.setdefault(pair.other, {})[pair.one] = pair.similarity

    def around(id_: UUID, other: UUID) -> float:
        return crowding(cosine for near, cosine in beside[id_].items() if near != other)

    return {pair: (around(pair.one, pair.other) + around(pair.other, pair.one)) / 2 for pair in pairs}


def succeeding(
    pairs: Iterable[Pair], crowded: Mapping[Pair, float], rows: Mapping[UUID, Row]
) -> Iterator[tuple[Succession, float]]:
    """Yield of each pair the ids, newer first, and the evidence that the newer one tells what holds now."""
    for pair in pairs:
        if pair.one not in rows or pair.other not in rows:
            continue
        older, newer = sorted((rows[pair.one], rows[pair.other]), key=told_at)
        then, now = Statement.of(older), Statement.of(newer)
        if may_have_changed(now, then):
            evidence = succeeds(now, then, pair.similarity, crowded[pair])
            about = " ".join(filter(None, now.scope))
            if evidence >= NAMED or (evidence >= HINTED and same_subject(now.content, then.content, about)):
                yield (newer["id"], older["id"]), evidence


def sorted_out(
    pairs: Iterable[Pair], rows: dict[UUID, Row]
) -> tuple[list[Pair], list[Pair], list[tuple[Pair, list[str]]]]:
    """Return the pairs of which one says all that the other says, those that may say the same in other words, and those
    that may contradict each other with what they differ in.
    """
    alike: list[Pair] = []
    otherwise: list[Pair] = []
    differing: list[tuple[Pair, list[str]]] = []
    for pair in pairs:
        one, other = rows.get(pair.one), rows.get(pair.other)
        if one is None or other is None or not _same_matter(one, other):
            continue
        names = differences(one["content"], other["content"])
        names += said_otherwise(one["content"], other["content"], names)
        if not names:
            alike.append(pair)
        elif names == ["wording"]:
            otherwise.append(pair)
        elif _tell_of_other_days(one, other):
            continue
        else:
            differing.append((pair, names))
    return alike, otherwise, differing


def _tell_of_other_days(one: Row, other: Row) -> bool:
    """Whether each of two memories tells what happened on a day of its own, as the notes of a weekly meeting do.

    What only has another day is an appointment that was moved, and so is what says so where it names the day.
    """
    texts, now = (one["content"], other["content"]), by_clock(max(one["created_at"], other["created_at"]))
    first, second = (_first_day(text, now) for text in texts)
    if not first or not second or first[0] == second[0]:
        return False
    rests = [without_times(text, times(text, now)) for text in texts]
    if {*differences(*rests)} - OF_TIME:
        return True
    return tell_apart(*rests) and not any(announces_change(clause) for _, clause in (first, second))


@lru_cache(maxsize=1_024)
def _first_day(text: str, now: datetime) -> tuple[str, str] | None:
    """Return the first day or week that a text names, and the clause that names it; None where it names none.

    The first one says when it was; others are what was said of then.
    """
    for clause in CLAUSE_END.split(text):
        for one in times(clause, now):
            if not one.weekday and one.period.end - one.period.start <= WEEK:
                return str(one.period), clause
    return None


def _same_matter(one: Row, other: Row) -> bool:
    """Whether two memories are about the same; a turn of a conversation is what was said then, and nothing else is."""
    if any(one[name] != other[name] for name in SCOPE) or (one["turn_features"] | other["turn_features"]) & TURN:
        return False
    long = max(len(one["content"]), len(other["content"])) > LONG
    return not long or overlap(one["content"], other["content"]) >= LONG_OVERLAP


def includes_all(stays: Row, goes: Row) -> bool:
    """Whether a memory of a group, in which others may connect the two, says all that another says."""
    return _same_matter(stays, goes) and includes(stays["content"], goes["content"])


def worth(row: Row) -> tuple[Any, ...]:
    """Which of several stays: what is pinned, says most, matters most, was told last."""
    return (row["pinned"], len(row["content"]), row["importance"], told_last(row), row["id"])


def told_last(row: Row) -> Any:
    """Return when a memory was last stored, changed or confirmed."""
    return max(moment_ for moment_ in (row["created_at"], row["updated_at"], row["last_confirmed_at"]) if moment_)
