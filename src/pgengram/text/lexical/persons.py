"""Whether a text speaks of the one who says it or of the one who is spoken to, told by its pronouns."""

from __future__ import annotations

import re
from functools import cache

from pgengram.text.languages import language_data


def persons(text: str, language: str) -> tuple[int, int]:
    """Return how many words mean who says a text, and how many who is spoken to; 0 of an unknown language."""
    of = language_data(language)
    first, second = (_word_pattern(one, unspaced=of.unspaced) for one in (of.first_person, of.second_person))
    return len(first.findall(text)), len(second.findall(text))


@cache
def _word_pattern(words: str, *, unspaced: bool) -> re.Pattern[str]:
    if not words:
        return re.compile(r"(?!)")
    found = "|".join(map(re.escape, words.split()))
    return re.compile(found if unspaced else rf"\b(?:{found})\b", re.IGNORECASE)
