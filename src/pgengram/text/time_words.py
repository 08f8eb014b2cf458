"""The words for time of each language, and a text as a row of signs that stand for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pgengram.text.language import UNKNOWN, language_of
from pgengram.text.languages import entries, languages
from pgengram.text.vocabulary import unaccented

LONGEST_PHRASE: Final = 4  # words
ENOUGH_WORDS: Final = 4  # to know a language by; "1 mei 2000" is read in all of them
MONTHS: Final = 12
ALIKE: Final = (("es", "pt", "it", "fr"), ("de", "nl"))  # a few words of one may be told to be of another
# One sign for each word, so that one regular expression reads a sentence word by word in every language. A word that
# stands in two lists has the sign that comes first here.
SIGNS: Final = {
    "months": "M", "weekdays": "W", "seasons": "Z", "day": "U", "week": "U", "weekend": "U", "month": "U", "quarter": "U", "year": "U",
    "calendar_week": "K", "last": "L", "before_last": "L", "this": "T", "next": "N", "ago": "A", "today": "D", "yesterday": "D",
    "day_before_yesterday": "D", "tomorrow": "D", "day_after_tomorrow": "D", "early": "E", "middle": "E", "late": "E", "since": "S", "after": "F", "before": "B", "until": "V", "numbers": "w", "lately": "R", "ahead": "H", "from_now": "J", "between": "b", "and": "&", "in": "p",
    "filler": "f",
}  # fmt: skip
IN_ORDER: Final = (
    "months",
    "weekdays",
    "seasons",
    "numbers",
)  # lists whose entries count from one, each with its spellings
_TOKEN: Final = re.compile(
    r"\b(?P<date>(?P<y>(?:19|20)[0-9]{2})-(?P<m>[0-9]{2})(?:-(?P<d>[0-9]{2})(?:T[0-9:.]+(?:Z"
    r"|[+-][0-9]{2}:?[0-9]{2})?)?)?"
    r"|(?P<ye>(?:19|20)[0-9]{2})/(?P<mo>[0-9]{1,2})/(?P<da>[0-9]{1,2})"
    r"|(?P<dd>[0-9]{1,2})\.(?P<mm>[0-9]{1,2})\.(?P<yyyy>(?:19|20)[0-9]{2})"
    r"|(?P<one>[0-9]{1,2})/(?P<two>[0-9]{1,2})/(?P<slashed>(?:19|20)[0-9]{2}))\b"
    r"|\bQ(?P<quarter>[1-4])\b|\b(?P<decade>(?:19|20)[0-9]0)(?:s|ern?)\b|\b(?P<year>(?:19|20)[0-9]{2})\b"
    r"|\b(?P<number>[0-9]{1,3})(?:(?:st|nd|rd|th|er|[ºª])\b|\.(?=\s*\w)|\b)"
    r"|(?P<word>[^\W\d_]+)(?:\.(?!\.))?|(?P<sign>\.\.+|[-–—/,])|(?P<other>[^\s'’])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, number or date of a text: its sign, what it stands for, and where it is.

    value: of a date (year, month, day or None), of a month, weekday, season, quarter or number its number from 1, of a
    decade its first year, else the list's name.
    """

    sign: str
    value: Any
    start: int
    end: int


Phrases = dict[tuple[str, ...], tuple[str, Any]]  # of time: of each its sign and value


@cache
def times_of() -> dict[str, Phrases]:
    """Return the phrases of each language that has words for times, by its code."""
    return {code: _phrases(one.times) for code, one in languages().items() if one.times}


def _phrases(lists: Mapping[str, str]) -> Phrases:
    phrases: Phrases = {}
    for name, sign in SIGNS.items():
        for place, entry in enumerate(entries(lists.get(name, "")), 1):
            for phrase in entry.split() if name in IN_ORDER else [entry]:
                words = tuple(map(unaccented, phrase.replace("_", " ").split()))
                phrases.setdefault(words, (sign, place if name in IN_ORDER else name))
    return phrases


def readings(text: str) -> Iterator[list[Token]]:
    """Yield `text` in the words of each language that it may be in: its own, or any where that is not clear.

    Few words don't tell a language from English or from a neighbour, so all are tried that its own doesn't exclude.
    """
    known = times_of()
    found = list(_TOKEN.finditer(text))
    words = [unaccented(match["word"]) if match["word"] else "" for match in found]
    if not _may_name_a_time(found, words):
        return
    code = language_of(text).code if sum(map(bool, words)) >= ENOUGH_WORDS else UNKNOWN
    told = code in known and code != "en"
    for one in [code, *(near for group in ALIKE if code in group for near in group), "en"] if told else known:
        yield list(_tokens(found, words, known[one], day_first=told))


def _may_name_a_time(found: Sequence[re.Match[str]], words: Sequence[str]) -> bool:
    return not _words_of_times().isdisjoint(words) or any(
        match["date"] or match["year"] or match["quarter"] or match["decade"] for match in found
    )


@cache
def _words_of_times() -> frozenset[str]:
    """Return the words of all languages without one of which a text names no time."""
    phrases = [phrase for one in times_of().values() for phrase in one.items()]
    return frozenset(max(words, key=len) for words, (sign, _) in phrases if sign in "MWZUKDR")


def _tokens(
    found: Sequence[re.Match[str]], words: Sequence[str], phrases: Phrases, *, day_first: bool
) -> Iterator[Token]:
    place = 0
    while place < len(found):
        match, end = found[place], place + 1
        sign, value = _number_token(match, day_first=day_first)
        if match["word"]:
            sign, value, end = _phrase(found, words, place, phrases)
        yield Token(sign, value, match.start(), found[end - 1].end())
        place = end


def _phrase(found: Sequence[re.Match[str]], words: Sequence[str], place: int, phrases: Phrases) -> tuple[str, Any, int]:
    """Return sign and value of the longest phrase that begins at `place`, and where it ends; hyphens don't count."""
    best: tuple[str, Any, int] = ("x", None, place + 1)
    said: tuple[str, ...] = ()
    end = place
    while end < len(found) and len(said) < LONGEST_PHRASE and (words[end] or found[end]["sign"] == "-"):
        said += (words[end],) if words[end] else ()
        end += 1
        if words[end - 1] and said in phrases:
            best = (*phrases[said], end)
    return best


def _number_token(match: re.Match[str], *, day_first: bool) -> tuple[str, Any]:
    """Return sign and value of what is not a word."""
    if match["slashed"]:
        return _slashed(int(match["one"]), int(match["two"]), int(match["slashed"]), day_first=day_first)
    if match["date"]:
        year, month, day = (
            match[one] or match[two] or match[three]
            for one, two, three in (("y", "yyyy", "ye"), ("m", "mm", "mo"), ("d", "dd", "da"))
        )
        return "I", (int(year), int(month), int(day) if day else None)
    for group, sign in (("quarter", "Q"), ("decade", "C"), ("year", "Y"), ("number", "#")):
        if match[group]:
            return sign, int(match[group])
    return {",": ","}.get(match[0], "-" if match["sign"] else "."), None


def _slashed(one: int, two: int, year: int, *, day_first: bool) -> tuple[str, Any]:
    """Return sign and value of a date like 3/11/2026: of its year alone where it may be the third or the eleventh."""
    if two > MONTHS:
        return "I", (year, one, two)
    return ("I", (year, two, one)) if day_first or one > MONTHS or one == two else ("Y", year)
