"""Whom a turn of a conversation is about: the one who says it, or the one who is spoken to."""

from __future__ import annotations

from collections.abc import Callable

from pgengram.text.lexical.language import ENGLISH, clear_language
from pgengram.text.lexical.persons import persons
from pgengram.text.sentences import sentences


def is_about_listener(said: str, shared: Callable[[str], int]) -> bool:
    """Tell whether a turn has more words for who is spoken to than for who says it.

    Of its sentences those count that are nearest to the question, as in "I missed it. How was your race?". Where they
    don't tell, the whole turn does; where that doesn't either, it is about who says it.

    Args:
        said: the turn.
        shared: returns how many words a sentence has in common with the question.
    """
    parts = sentences(said) or [said]
    in_common = [shared(one) for one in parts]
    nearest = " ".join(one for one, count in zip(parts, in_common, strict=True) if count == max(in_common))
    language = clear_language(said) or ENGLISH
    for text in (nearest, said):
        first, second = persons(text, language)
        if first != second:
            return second > first
    return False
