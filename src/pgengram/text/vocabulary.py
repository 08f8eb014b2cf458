"""What words of any language announce, ask for or deny, from the files of `text.languages`.

Lists of words, no grammar: they say nothing for certain. All languages are looked at, as few words don't tell theirs.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Final

from pgengram.text.language import ENGLISH, function_words
from pgengram.text.languages import LanguageData, entries, languages, phrases
from pgengram.text.words import QUESTION_MARKS, is_unspaced, words

SPELLINGS: Final = ("months", "weekdays", "seasons")  # an entry of these is a number, in each of its spellings
DATES: Final = (*SPELLINGS, "today", "yesterday", "tomorrow")
UNITS: Final = ("hour", "day", "week", "weekend", "month", "quarter", "year")


class Phrases:
    """Phrases that are looked for in a text: whole words, except in scripts without spaces."""

    def __init__(self, lists: Iterable[str], spelled: Callable[[str], list[str]]) -> None:
        known = {tuple(spelled(phrase)) for text in lists for phrase in phrases(text)} - {()}
        self._by_first: dict[str, list[tuple[str, ...]]] = defaultdict(list)  # the longest first
        for phrase in sorted(known, key=len, reverse=True):
            self._by_first[phrase[0]].append(phrase)
        self._by_first.default_factory = None
        self._within = [phrase for phrase in known if is_unspaced(phrase[0])]

    def end(self, said: Sequence[str], place: int) -> int:
        """Return where the longest phrase that begins at `place` ends; `place` where none does."""
        if place >= len(said):
            return place
        for phrase in self._by_first.get(said[place], ()):
            if tuple(said[place : place + len(phrase)]) == phrase:
                return place + len(phrase)
        return place

    def found(self, said: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Yield the phrases in a text's words, of those that overlap the first and longest."""
        place = 0 if self.may_begin_in(said) else len(said)
        while place < len(said):
            if (end := self.end(said, place)) > place:
                yield tuple(said[place:end])
            place = max(end, place + 1)
        if self._within and not all(map(str.isascii, said)):
            unspaced = " ".join(word for word in said if is_unspaced(word))
            yield from (phrase for phrase in self._within if " ".join(phrase) in unspaced)

    def may_begin_in(self, said: Sequence[str]) -> bool:
        """Whether one of a text's words begins a phrase, which is quickly seen."""
        return not self._by_first.keys().isdisjoint(said)

    def are_all(self, said: Sequence[str]) -> bool:
        """Whether a text's words are nothing but these phrases."""
        place = 0
        while place < len(said):
            if (end := self.end(said, place)) == place:
                return False
            place = end
        return bool(said)


def unaccented(word: str) -> str:
    """Return a word without capitals, and without accents where it is written in letters."""
    lower = word.lower()
    if lower.isascii() or is_unspaced(lower):
        return lower
    bare = (letter for letter in unicodedata.normalize("NFD", lower) if not unicodedata.combining(letter))
    return unicodedata.normalize("NFC", "".join(bare))


def plain_words(text: str) -> list[str]:
    """Return the words of a text without capitals and accents, as questions are typed, cut at apostrophes."""
    return [*map(unaccented, _lower_words(text))]


def _lower_words(text: str) -> list[str]:
    """Return the words of a text in lower case, with their accents: in Greek, "never" is "when" with another one."""
    lower = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return [part for word in words(lower) for part in word.split("'")]


@cache
def _phrases(key: str) -> Phrases:
    return Phrases((getattr(one, key) for one in languages().values()), plain_words)


@cache
def _exact_phrases(key: str) -> Phrases:
    return Phrases((getattr(one, key) for one in languages().values()), _lower_words)


@cache
def _vocabulary_words(key: str) -> frozenset[str]:
    each = {code: frozenset(map(unaccented, getattr(one, key).split())) for code, one in languages().items()}
    return _all_languages(each)


def _all_languages(each: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the words of all languages but those that English has for something else: "on" is ten in Turkish."""
    others = frozenset(chain(*each.values()))
    return others - (function_words(ENGLISH) - each[ENGLISH])


def _folded(found: Iterable[str]) -> frozenset[str]:
    """Return words as texts are compared: without capitals, with one S for the two of Greek."""
    return frozenset(word.casefold() for word in found)


@lru_cache(maxsize=512)
def announces_change(text: str) -> bool:
    """Whether a word of `text` says that something is otherwise than before: "now", "no longer", "since March"."""
    said, since = _lower_words(text), _exact_phrases("from_when")
    places = range(len(said)) if since.may_begin_in(said) else ()
    ends = (end for place in places if (end := since.end(said, place)) > place)
    from_when = any(_names_a_time(said[end : end + 2]) for end in ends)
    return from_when or next(_exact_phrases("changes").found(said), None) is not None


def _names_a_time(said: Sequence[str]) -> bool:
    """Whether the first of two words is of a time, or the second after an article ("since the storm")."""
    after = said[1:] if said and said[0] in _fillers() else said
    return bool(after) and (after[0][0].isdigit() or after[0] in _from_when())


def lasting(text: str) -> int:
    """Return how likely a text says something lasting, such as a decision, a correction or a preference: twice the
    number of signs in it, less where it asks; 0 for none.

    It puts texts in an order, and makes nothing of them.
    """
    signs = len({*_exact_phrases("lasting").found(_lower_words(text))}) + announces_change(text)
    return max(0, 2 * signs - text.rstrip().endswith(QUESTION_MARKS))


def is_small_talk(text: str) -> bool:
    """Whether a text is nothing but greetings, thanks, agreement or the question how somebody is."""
    return _phrases("small_talk").are_all(plain_words(text))


def asks_for_time(question: str) -> bool:
    """Whether `question` wants to know when: it begins so, perhaps behind a preposition such as "since"."""
    said, asking = plain_words(question), _phrases("asks_when")
    start = _prepositions().end(said, 0)
    return any(asking.end(said, place) > place for place in {0, start})


def asks_for_all(question: str) -> bool:
    """Whether a question asks for all that there is of something."""
    said = plain_words(question)
    place, others = 0, _phrases("not_all")
    while place < len(said):
        if (end := others.end(said, place)) == place and said[place] in _vocabulary_words("all_of_them"):
            return True
        place = max(end, place + 1)
    return False


def is_command(word: str) -> bool:
    """Whether a question for a list begins so: it asks for nothing by this word."""
    return unaccented(word) in _vocabulary_words("list_commands")


def is_empty(text: str) -> bool:
    """Whether all words of a text ask for nothing, in any one language."""
    said = {*plain_words(text)}
    return any(said <= one for one in _asking_nothing())


@cache
def _asking_nothing() -> list[frozenset[str]]:
    return [frozenset(plain_words(one.asks_nothing)) for one in languages().values() if one.asks_nothing]


@cache
def negations() -> frozenset[str]:
    """Return the words that deny, case-folded."""
    return _folded(word for one in languages().values() for word in one.negations.split())


@cache
def opposites() -> dict[str, frozenset[str]]:
    """Return for each word, case-folded, those that deny it, and itself."""
    groups = [_folded(pair.split()) for one in languages().values() for pair in entries(one.opposites)]
    return {word: frozenset(chain(*(group for group in groups if word in group))) for word in chain(*groups)}


@cache
def number_words() -> frozenset[str]:
    """Return the words for numbers from two on, case-folded."""
    counted = {code: entries(one.times.get("numbers", ""))[1:] for code, one in languages().items()}
    return _all_languages(
        {
            code: _folded([*" ".join(counted[code]).split(), *one.number_words.split()]) - _meaning_otherwise(one)
            for code, one in languages().items()
        }
    )


@cache
def date_words() -> frozenset[str]:
    """Return the words for days, months and seasons, but for those that mostly mean something else: may."""
    return _all_languages(
        {
            code: _folded([*_single_words(one, DATES), *one.time_words.split()]) - _meaning_otherwise(one)
            for code, one in languages().items()
        }
    )


@cache
def time_words() -> frozenset[str]:
    """Return the words for dates, hours, days, weeks and years, of which another one is another time."""
    return date_words() | _of_all_languages(*UNITS)


def names_a_time(text: str) -> bool:
    """Whether a text says in words of any language, or by a year, when something was or will be."""
    return any(
        word in _when_words() or (len(word) == 4 and word.isdecimal() and word[:2] in ("19", "20"))
        for word in _lower_words(text)
    )


@cache
def _when_words() -> frozenset[str]:
    """Return the words for dates and for spans of time, and those that set one apart: last, next, ago."""
    lists = (*DATES, *UNITS, "last", "next", "ago")
    return date_words() | _all_languages(
        {code: _folded(_single_words(one, lists)) for code, one in languages().items()}
    )


@cache
def _from_when() -> frozenset[str]:
    """Return what may follow "since" where it tells a time: a date, also "May", or "last"."""
    return date_words() | _of_all_languages(*DATES, "last", "this", "next")


@cache
def _fillers() -> frozenset[str]:
    return _of_all_languages("filler")


def _of_all_languages(*lists: str) -> frozenset[str]:
    return _folded(word for one in languages().values() for word in _single_words(one, lists))


@cache
def _prepositions() -> Phrases:
    lists = ("in", "since", "after", "before", "until")
    return Phrases((one.times.get(name, "") for one in languages().values() for name in lists), plain_words)


def _single_words(one: LanguageData, lists: Iterable[str]) -> Iterator[str]:
    """Yield the spellings of some lists for times that are one word."""
    for name in lists:
        for entry in entries(one.times.get(name, "")):
            spelled = entry.split() if name in SPELLINGS else [entry]
            yield from (word for word in spelled if " " not in word and "_" not in word)


def _meaning_otherwise(one: LanguageData) -> frozenset[str]:
    return _folded([*one.openings.split(), *one.light.split()])
