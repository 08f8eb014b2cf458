"""Stems of words in languages other than English, whose stems PostgreSQL makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from threading import get_ident
from typing import Final, cast

from pgengram.text.languages import language_data
from pgengram.text.lexical.language import clear_language, function_words
from pgengram.text.lexical.words import words

# Languages with many endings for which Snowball (Porter 2001) has no rules, or only those of nouns, as for Turkish: the
# forms of a word have their first letters in common, which finds about as much as rules do (McNamee, Nicholas and
# Mayfield 2009).
FIRST_LETTERS: Final = 4  # the lexicons are made with them
REMEMBERED: Final = 20_000  # words; one costs about 50 µs


def foreign_stems(text: str, some: Iterable[str] | None = None) -> list[str]:
    """Return the stems of the words of `text`, or of `some` of them, as its language has them.

    None for English, for a language without stems here, and for words whose English stem is the same: PostgreSQL finds
    those already.
    """
    language = clear_language(text)
    if language is None or not language_data(language).stemmer:
        return []
    empty = function_words(language)
    lowered = (word.lower() for word in (words(text) if some is None else some))
    return [found for word in lowered if word not in empty and (found := _stem_of(language, word))]


@lru_cache(REMEMBERED)
def _stem_of(language: str, word: str) -> str | None:
    found = stem(language, word)
    return None if found == _stemmer("english", get_ident())(word) else found


def stem(language: str, word: str) -> str:
    """Return the stem of a word in lower case by the rules of its language, or its first letters; the word where
    neither
    tells its forms.
    """
    stemmer = language_data(language).stemmer
    if stemmer == "first letters":
        return beginning(word)
    return _stemmer(stemmer, get_ident())(word) if stemmer else word


def beginning(word: str) -> str:
    """Return what the forms of a word have in common where nobody asks for the rules of its language; a number has
    none.
    """
    return word if word.isdigit() else word[:FIRST_LETTERS]


@cache
def _stemmer(algorithm: str, thread: int) -> Callable[[str], str]:  # noqa: ARG001 - each has its own: it holds a word
    import snowballstemmer  # a fifth of a second, which whoever writes English does not pay

    return cast(Callable[[str], str], snowballstemmer.stemmer(algorithm).stemWord)
