"""What a question asks, as its text alone says it: its words, its times, its signs, and the text worth embedding."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from pgengram.fields import FIRST_MOMENT, LAST_MOMENT, bare_id, is_id
from pgengram.inputs import Question
from pgengram.search.dates import Period, TimeRead, by_clock, periods_meant, times, without_times
from pgengram.search.filters import Parsed, scope_of
from pgengram.store.connection.database import Transaction
from pgengram.store.schema import VISIBLE
from pgengram.text.language import clear_language, function_words, light_words
from pgengram.text.languages import language_data
from pgengram.text.sounds import asked_sounds
from pgengram.text.vocabulary import asks_for_time, is_empty
from pgengram.text.words import FIRST_LETTERS, POSSESSIVE, extra_terms, foreign_stems, in_english, words

MAX_WORDS: Final = 64
A_DAY: Final = timedelta(days=1)


def parse(question: Question, now: datetime) -> Parsed:
    """Read a question's words, the times it names as seen from `now`, and in mode text its signs."""
    plain: tuple[str, list[str], list[str], list[str]] = (question.query, [], [], [])
    text, phrases, unwanted, unwanted_phrases = websearch(question.query) if question.mode == "text" else plain
    found = times(text, now)
    sought = without_times(text, [one for one in found if one.relative and question.mode != "text"])
    language = clear_language(sought or text)
    asked = list(dict.fromkeys(_content_words(sought, language)))[:MAX_WORDS]
    english = {} if question.mode == "text" else in_english(sought)
    sounds = asked_sounds(sought, asked, _unknown_words(asked, language, english) if question.mode != "text" else ())
    characters = extra_terms(sought)
    may_find_nothing = None if question.mode == "text" else language
    light = _light(asked, may_find_nothing)
    return Parsed(
        question,
        scope_of(question),
        text=sought or text,
        language=language,
        words=asked,
        light=light,
        light_extra=foreign_stems(sought, light) + _light_characters(characters, may_find_nothing),
        names=[_as_speaker(word) for word in asked],
        extra=characters + foreign_stems(sought, asked) + list(dict.fromkeys(chain(*sounds.values()))),
        periods=[period for one in found for period in periods_meant(one, now)],
        utc_offset=_offset(now),
        wants_time=asks_for_time(text),
        ahead=_ahead([one.period for one in found], now),
        phrases=phrases,
        unwanted=unwanted,
        unwanted_phrases=unwanted_phrases,
        english=english,
        ids=_ids_in(question.query),
        sounds=sounds,
    )


def _ahead(periods: Sequence[Period], now: datetime) -> datetime | None:
    today = by_clock(now).replace(hour=0, minute=0, second=0, microsecond=0)
    goes_on = any(one.sure and today + A_DAY < one.end < LAST_MOMENT for one in periods)
    return today - _offset(now) if goes_on else None


def _unknown_words(asked: Sequence[str], language: str | None, english: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the words that the lexicon of their language doesn't have, such as names in small letters."""
    if not language or not language_data(language).lexicon:
        return []
    light = light_words(language)
    return [word for word in asked if word not in english and word.lower() not in light]


# What an id is made of, inside a text; one in 2,600 ends in letters alone, and nearly no word has these letters only.
_DIGITS: Final = re.compile(r"(?<![0-9a-z_-])[0-9a-f-]{8,36}(?![0-9a-z_-])", re.IGNORECASE)


def _ids_in(query: str) -> list[str]:
    """Return the digits of the ids that a query holds."""
    alone = str(bare_id(query))
    found = [alone] if is_id(alone) else [text for text in _DIGITS.findall(query) if is_id(text)]
    return [text.replace("-", "").lower() for text in found]


def _content_words(query: str, language: str | None) -> list[str]:
    """Return a question's words without those that nearly every text of its language has: they'd count as rare.

    The stemmer leaves out those of English.
    """
    empty = function_words(language) if language else frozenset()
    found = words(query)
    return [word for word in found if word.lower() not in empty] or found


def _light(asked: Sequence[str], language: str | None) -> list[str]:
    light = light_words(language) if language else frozenset()  # a longer list of English than PostgreSQL's was no gain
    return [word for word in asked if word.lower() in light]


def _light_characters(terms: Sequence[str], language: str | None) -> list[str]:
    """Return the characters and pairs of Chinese and Japanese that say little: 我, 的, 我的, した."""
    empty = function_words(language) if language_data(language).unspaced else frozenset()
    return [term for term in terms if term in empty or empty.issuperset(term)]


def in_time(question: Question, now: datetime) -> tuple[Question, str | None]:
    """Return a search that asks for nothing but a time as the list of what happened then, latest first; any other as it
    is. And the times that it names, seen from `now`, such as `2026-11-09..2026-11-15`.
    """
    found = [one for query in question.queries for one in times(query, now)]
    if not found:
        return question, None
    period = found[0].period
    past = period.start <= by_clock(now) and len(periods_meant(found[0], now)) == 1
    if past and _asks_for_time_alone(question, found):
        question = question.narrowed_to(max(period.start, FIRST_MOMENT), period.end, _offset(now))
        return question, str(period)
    return question, ", ".join(dict.fromkeys(str(period) for one in found for period in periods_meant(one, now)))


def _offset(now: datetime) -> timedelta:
    return now.utcoffset() or timedelta()


def _asks_for_time_alone(question: Question, found: Sequence[TimeRead]) -> bool:
    """Whether a question consists of one time, and no filter says another."""
    free = not question.lists and question.mode == "auto" and question.since is None and question.until is None
    single = len(found) == 1 and len(question.queries) == 1
    return free and single and is_empty(without_times(question.query, found))


def meaning(parsed: Parsed, names: set[str]) -> str:
    """Return the question without the names of speakers: in the text that is embedded they would pull every memory of
    that person nearer. They stay in the search by words.
    """
    return without(parsed.text, names.intersection(parsed.words)) or parsed.text


def _as_speaker(word: str) -> str:
    """Return a word as speakers' names are stored: PostgreSQL's own lower() would depend on its locale."""
    return POSSESSIVE.sub("", word.lower())


_UNWANTED: Final = re.compile(r'(?:^|(?<=\s))-(?:"([^"]*)"|(\S+))')
_PHRASE: Final = re.compile(r'"([^"]*)"')


_AT_THE_END: Final = ".,;:!?"


def websearch(query: str) -> tuple[str, list[str], list[str], list[str]]:
    """Return the words to look for, the "phrases" that must be there, and what stands after a minus and must not.

    Any text is fine: a quote that is not closed, or a lone minus, is read as nothing. What stemming would cut to pieces
    (-std::vector, -烏龍茶) is unwanted as a whole, like a phrase.
    """
    unwanted = _unwanted_in(query)
    plain = [text for text in unwanted if len(words(text)) == 1 and not extra_terms(text)]
    whole = [text.strip(_AT_THE_END) for text in unwanted if words(text) and text not in plain]
    rest = _UNWANTED.sub(" ", query)
    phrases = [" ".join(phrase.split()) for phrase in _PHRASE.findall(rest) if phrase.strip()]
    return rest.replace('"', " "), phrases, plain, whole


def _unwanted_in(query: str) -> list[str]:
    return [" ".join((first or second).split()) for first, second in _UNWANTED.findall(query)]


def without(query: str, unwanted: set[str]) -> str:
    """Return `query` without the `unwanted` words, and without the possessive that follows one."""
    if not unwanted:
        return query.strip()
    pattern = r"\b(?:" + "|".join(map(re.escape, sorted(unwanted, key=len, reverse=True))) + r")\b(?:['’]s\b)?"
    return " ".join(re.sub(pattern, " ", query).split())


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
    first, size, slips = typed[0], len(typed), _slips(typed)
    near = [
        word for word in known if typed in word or (word[0] == first and -slips <= len(word) - size <= slips)
    ]  # most are told apart here, in a fraction of the time
    found = [(distance, word) for word in near if (distance := _distance(typed, word)) is not None]
    return [word for _, word in sorted(found)[:MOST]]


def _slips(typed: str) -> int:
    return (len(typed) - 1) // LETTERS_EACH_SLIP


def _distance(typed: str, word: str) -> tuple[int, int] | None:
    apart = len(word) - len(typed)
    if apart > 0 and typed in word:
        return (0 if word.startswith(typed) else 1), apart
    slips = _slips(typed)
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
