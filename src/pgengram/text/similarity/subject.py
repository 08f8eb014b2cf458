"""Whether two texts speak of the same thing, and not only of the same person or project: by the words that they share;
and whether they count it otherwise: 38 tide gauges, 52 gauges.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from pgengram.text.lexical.language import ENGLISH, function_words, language_of
from pgengram.text.lexical.vocabulary import announces_change, date_words, time_words
from pgengram.text.lexical.words import beginning, words
from pgengram.text.similarity.differences import tokens, without_dates

LEAST: Final = 0.4  # of the words of the text that has fewer
LEAST_CHANGED: Final = 0.25  # the same where the newer one says that something changed
SEVERAL: Final = 2  # words; a single one is said by chance, unless something changed
_SAYS_NOTHING: Final = re.compile(r"\d{1,2}")


def same_subject(newer: str, older: str, scope: str = "") -> bool:
    """Whether a text has enough words of an earlier one to be about the same thing.

    Args:
        newer: the text that may change the other.
        older: the other.
        scope: the names of whom and what both are about, which tell nothing.
    """
    about = {beginning(word) for word in tokens(scope)}
    first, second = (_subject_words(text) - about for text in (newer, older))
    shared, fewer = len(first & second), min(len(first), len(second))
    changed = announces_change(newer)
    if not fewer or not shared or (shared < min(SEVERAL, fewer) and not changed):
        return False
    if shared < SEVERAL and all(_has_capital(text, *(first & second)) for text in (newer, older)):
        return shared >= LEAST * fewer
    return shared >= (LEAST_CHANGED if changed else LEAST) * fewer


def _has_capital(text: str, stem: str) -> bool:
    """Whether a word of a text is a name, or written like one."""
    return any(word[:1].isupper() for word in words(text) if word.casefold().startswith(stem))


def _subject_words(text: str) -> set[str]:
    common = function_words(ENGLISH) | function_words(language_of(text).code)
    return {
        beginning(word)
        for word in tokens(without_dates(text)) - time_words()
        if word not in common and not _SAYS_NOTHING.fullmatch(word)
    }


# A whole number and the one or two words after it; no part of a date, a time, a version or a sum of money.
_COUNTED: Final = re.compile(r"(?<![\w.,:/$€£-])(\d{1,7})\s+([^\W\d_]{4,})(?:\s+([^\W\d_]{4,}))?")


def counts_otherwise(one: str, other: str) -> bool:
    """Whether both texts count the same thing, and none of their numbers of it agree."""
    first, second = _counts(one), _counts(other)
    return any(first[thing].isdisjoint(second[thing]) for thing in first.keys() & second.keys())


@lru_cache(maxsize=256)
def _counts(text: str) -> Mapping[str, set[int]]:
    """Return the numbers of each thing: of "38 tide gauges" of tide and of gauges, as the next text may leave one
    out.
    """
    found: dict[str, set[int]] = defaultdict(set)
    for number, *things in _COUNTED.findall(unicodedata.normalize("NFKC", without_dates(text)).casefold()):
        for thing in things:
            if thing and thing not in date_words():
                found[beginning(thing)].add(int(number))
    return found
