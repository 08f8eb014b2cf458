"""Whether one memory tells what holds now of what another told before: one rule for storing, searching and reviewing.

It is judged by vectors, kinds and words, so it is never certain: nothing is changed or hidden by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from heapq import nlargest
from typing import Any, Final
from uuid import UUID

from pgengram.text.lexical.change_words import announces_change
from pgengram.text.similarity.counts import counts_otherwise
from pgengram.text.similarity.differences import tokens
from pgengram.text.turn_features import TURN

LEAST_COSINE: Final = 0.35  # below, two memories are about different things
OTHERS: Final = 2  # the nearest ones beside the two that are compared
USUAL: Final = 0.4  # cosine of memories about one person or project, where there are no others to compare
SAME_KIND: Final = 0.2
SAME_THING: Final = 0.55  # cosine of two memories about one thing, of whose words half are the same
HALF: Final = 0.5
WORDS_REPEATED: Final = 3  # fewer are a name and what it is
STEM: Final = 5  # letters that the forms of a word have in common
CHANGE: Final = 0.2  # the newer one announces a change
COUNT: Final = 0.1  # they tell of another number of the same thing

# What the evidence of `succeeds` is enough for, measured by benchmarks/retrieval.py: the rarer a false one has to be,
# the more.
HINTED: Final = 0.3  # asking whoever stores the newer one
BEFORE: Final = 0.33  # standing before the older one
NAMED: Final = 0.45  # calling the older one so
AS_GOOD: Final = 0.1  # less evidence than for the one that it surest succeeds: one change changes one fact

LATER: Final = timedelta(hours=1)  # what was told in one sitting holds together
SCOPE: Final = ("user", "project", "collection")  # differ, and it is about something else

Succession = tuple[UUID, UUID]


def comparable(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether one memory surely is about the same as another and may succeed it: they are of the same scope, and both
    tell what is so.
    """
    return all(one[name] == other[name] for name in SCOPE) and _may_be_comparable(one, other)


def _may_be_comparable(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether no part of two scopes differs, and both tell what is so.

    A user, project or collection that one of them does not name may be the other's. An event has happened and a turn
    of a conversation was said, whatever is told later.
    """
    same = one["speaker"] == other["speaker"]
    same = same and all(None in (one[name], other[name]) or one[name] == other[name] for name in SCOPE)
    return same and _tells_what_is_so(one) and _tells_what_is_so(other)


def _tells_what_is_so(row: Mapping[str, Any]) -> bool:
    return row["type"] != "episodic" and not row["traits"] & TURN


def crowding(cosines: Iterable[float]) -> float:
    """Return how near the nearest others are to a memory, by their cosines: of a subject that much is told of,
    memories are near to each other without being about the same.
    """
    nearest = nlargest(OTHERS, cosines)
    return (sum(nearest) + USUAL * (OTHERS - len(nearest))) / OTHERS


def succeeds(newer: Mapping[str, Any], older: Mapping[str, Any], cosine: float, crowded: float) -> float:
    """Return the evidence that `newer` tells what holds now of what `older` tells; 0 where they are not comparable.

    cosine − crowded + 0.2 for the same kind + 0.2 for words of change + 0.1 for another number of the same thing, and at
    least what a hint takes where they are near and half of the older one's words are said again: two memories of the same fact are nearer to each other than to any other (the correction of nearest neighbours for
    crowded places by Conneau et al. 2018).

    Args:
        newer: the row or draft told later; with content, type, kind and scope.
        older: the one told before, likewise.
        cosine: of the two.
        crowded: the `crowding` of either, or the mean of both.
    """
    same = cosine >= SAME_THING and _repeated(newer["content"], older["content"]) >= HALF
    if newer["type"] == "episodic" and same and _may_be_comparable({**newer, "type": older["type"]}, older):
        return HINTED  # what was wanted has happened: the bicycle that was for sale is sold
    if cosine < LEAST_COSINE or not _may_be_comparable(newer, older):
        return 0.0
    evidence = (
        cosine
        - crowded
        + (SAME_KIND if newer["kind"] == older["kind"] else 0.0)
        + CHANGE * announces_change(newer["content"])
        + COUNT * counts_otherwise(newer["content"], older["content"])
    )
    return max(evidence, HINTED) if same else evidence


def _repeated(newer: str, older: str) -> float:
    """Return which share of the words that say something in an older text a newer one has, too."""
    said, again = (
        {word[:STEM] for word in tokens(text) if len(word) >= STEM or word.isdigit()} for text in (older, newer)
    )
    return len(said & again) / len(said) if len(said & again) >= WORDS_REPEATED else 0.0


def surest(judged: Iterable[tuple[Succession, float]], least: float) -> list[tuple[Succession, float]]:
    """Return the pairs, newer first, with the `least` evidence; of each newer one only those that it surest
    succeeds.
    """
    found = [(pair, evidence) for pair, evidence in judged if evidence >= least]
    best: dict[UUID, float] = {}
    for (newer, _), evidence in found:
        best[newer] = max(best.get(newer, 0.0), evidence)
    return [(pair, evidence) for pair, evidence in found if evidence >= best[pair[0]] - AS_GOOD]


def may_have_changed(newer: Mapping[str, Any], older: Mapping[str, Any]) -> bool:
    """Whether one was told to hold so much later than the other that it may have changed."""
    return told_at(newer) - told_at(older) >= LATER


def told_at(row: Mapping[str, Any]) -> datetime:
    """Return when a memory was last told to hold: its last confirmation; if there was none, when it was so, or told."""
    created: datetime = row["created_at"]
    confirmed: datetime = row["last_confirmed_at"] or created
    happened: datetime | None = row["occurred_at"]
    return confirmed if happened is None or confirmed - created > LATER else min(happened, created)
