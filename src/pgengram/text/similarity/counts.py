"""How many of something two texts tell of: 38 tide gauges, 52 gauges."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from pgengram.text.lexical.stems import beginning
from pgengram.text.lexical.vocabulary import date_words

# A whole number and the one or two words after it; no part of a date, a time, a version or a sum of money.
_COUNTED: Final = re.compile(r"(?<![\w.,:/$€£-])(\d{1,7})\s+([^\W\d_]{4,})(?:\s+([^\W\d_]{4,}))?")


def counts_otherwise(one: str, other: str) -> bool:
    """Whether both texts count the same thing, and none of their numbers of it agree."""
    first, second = _counts(one), _counts(other)
    return any(first[thing].isdisjoint(second[thing]) for thing in first.keys() & second.keys())


@lru_cache(maxsize=256)
def _counts(text: str) -> Mapping[str, set[int]]:
    """Return the numbers of each thing: of "38 tide gauges" of tide and of gauges, as the next text may leave one out."""
    found: dict[str, set[int]] = defaultdict(set)
    for number, *things in _COUNTED.findall(unicodedata.normalize("NFKC", text).casefold()):
        for thing in things:
            if thing and thing not in date_words():
                found[beginning(thing)].add(int(number))
    return found
