"""Words of the memories that somebody may mean who typed another: one that it begins, is part of, or misspells."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pgengram.store.connection.database import Transaction
from pgengram.store.schema.visibility import VISIBLE
from pgengram.text.lexical.stems import FIRST_LETTERS
from pgengram.text.lexical.words import words

READ: Final = 10_000  # latest memories whose words are known
GOOD_FOR_S: Final = 60.0
MAX_NAMESPACES: Final = 8
LETTERS_EACH_SLIP: Final = 5  # a slip from six letters on, two from eleven; shorter words have others beside them
MOST: Final = 5  # words meant by one that was typed

# The texts of the latest memories; uses memories_pkey from its end.
TEXTS: Final = f"SELECT m.content FROM memories m WHERE {VISIBLE} AND m.namespace_id = %(namespace_id)s ORDER BY m.id DESC LIMIT {READ}"


@dataclass(slots=True)
class Vocabularies:
    """The words of namespaces that were asked for a word which none of their memories has, remembered for a while."""

    _known: OrderedDict[int, tuple[float, int, frozenset[str]]] = field(default_factory=OrderedDict)

    async def near(self, tx: Transaction, typed: Sequence[str], memories: int) -> dict[str, list[str]]:
        """Return for each word that was typed those of the memories that may be meant, the nearest first.

        Args:
            tx: the namespace's transaction.
            typed: words that no memory has.
            memories: how many there are; if the number has changed, the words are read again.
        """
        asked = [word.casefold() for word in typed if len(word) >= FIRST_LETTERS and word.isalpha()]
        if not asked:
            return {}
        known = await self._words(tx, memories)
        return {word: found for word in asked if (found := nearest_words(word, known))}

    async def _words(self, tx: Transaction, memories: int) -> frozenset[str]:
        until, count, known = self._known.get(tx.namespace_id, (0.0, -1, frozenset[str]()))
        if count != memories or until < time.monotonic():
            texts = await tx.rows(TEXTS)
            known = frozenset(word.casefold() for row in texts for word in words(row["content"]))
            self._known[tx.namespace_id] = (time.monotonic() + GOOD_FOR_S, memories, known)
            if len(self._known) > MAX_NAMESPACES:
                self._known.popitem(last=False)
        return known


def nearest_words(typed: str, known: Iterable[str]) -> list[str]:
    """Return the words that one in small letters may stand for, best first: those that it begins, then those that it
    is part of, then those that it misspells.
    """
    found = [(distance, word) for word in known if (distance := _distance(typed, word)) is not None]
    return [word for _, word in sorted(found)[:MOST]]


def _distance(typed: str, word: str) -> tuple[int, int] | None:
    apart = len(word) - len(typed)
    if apart > 0 and typed in word:
        return (0 if word.startswith(typed) else 1), apart
    slips = (len(typed) - 1) // LETTERS_EACH_SLIP
    if abs(apart) > slips or typed[0] != word[0]:
        return None
    needed = slips_between(typed, word, slips)
    return None if needed is None else (1 + needed, abs(apart))


def slips_between(one: str, other: str, most: int) -> int | None:
    """Return how many letters are wrong, missing, too many or swapped with the next; None for more than `most`
    (optimal string alignment: Damerau 1964).
    """
    before: list[int] = []
    row = [*range(len(other) + 1)]
    for i, letter in enumerate(one, start=1):
        last, before, row = before, row, [i]
        for j, its in enumerate(other, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != its))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == its:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return None
    return row[-1] if row[-1] <= most else None
