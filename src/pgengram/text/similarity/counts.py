"""How many of something two texts tell of: 38 tide gauges, 52 gauges."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from pgengram.text.lexical.vocabulary import date_words

LONGEST_ENDING: Final = 2  # letters in which two forms of a word may differ: gauge, gauges
SHORTEST_STEM: Final = 4  # letters

# A whole number and the one or two words after it; no part of a date, a time, a version or a sum of money.
_COUNTED: Final = re.compile(r"(?<![\w.,:/$€£-])(\d{1,7})\s+([^\W\d_]{4,})(?:\s+([^\W\d_]{4,}))?")


def counts_otherwise(one: str, other: str) -> bool:
    """Whether both texts count the same thing, and none of their numbers of it agree."""
    first, second = _counts(one), _counts(other)
    return any(
        numbers.isdisjoint(others)
        for stem in first.keys() & second.keys()
        for thing, numbers in first[stem].items()
        for another, others in second[stem].items()
        if _same(thing, another)
    )


@lru_cache(maxsize=256)
def _counts(text: str) -> Mapping[str, Mapping[str, set[int]]]:
    """Return the numbers of each thing, by its first letters: of "38 tide gauges" of tide and of gauges, as the next text
    may leave one out.
    """
    found: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for number, *things in _COUNTED.findall(unicodedata.normalize("NFKC", text).casefold()):
        for thing in things:
            if thing and thing not in date_words():
                found[thing[:SHORTEST_STEM]][thing].add(int(number))
    return found


def _same(one: str, other: str) -> bool:
    """Whether two words are the same but for their endings."""
    stem = max(SHORTEST_STEM, max(len(one), len(other)) - LONGEST_ENDING)
    return one[:stem] == other[:stem] and abs(len(one) - len(other)) <= LONGEST_ENDING
