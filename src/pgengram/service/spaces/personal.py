"""Whether a text looks personal, as a warning beside what somebody is about to share; it decides nothing."""

from __future__ import annotations

from typing import Final

from pgengram.text.languages import languages
from pgengram.text.lexical.words import words

TOPICS: Final = ("health", "family", "money")


def topics(text: str) -> list[str]:
    """Return what of health, family and money a text seems to be about, in any language whose words are known."""
    said = {word.casefold() for word in words(text)}
    return [
        topic for topic in TOPICS if any(_is_about(said, getattr(one, topic).split()) for one in languages().values())
    ]


def _is_about(said: set[str], beginnings: list[str]) -> bool:
    begins = tuple(beginnings)
    return bool(begins) and any(word.startswith(begins) for word in said)
