"""Which language a text is written in, told by its script and by its function words."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from pgengram.text.languages import TELLING, language_data, languages

ENGLISH: Final = "en"
UNKNOWN: Final = "und"  # ISO 639-2: undetermined
UNCAPITALISED: Final = 3  # words that no capital begins: one of them at least is common, if the text is English
SAMPLE_CHARACTERS: Final = 2_000  # of a long text
COMMONEST: Final = 20  # words of a language, which tell it about as well
SELDOM: Final = 300  # place of a word that tells nothing
QUOTED: Final = 4  # times as many words as those of another language, which are a quotation then
Odds = dict[str, float]  # by language, as logarithms

_ASCII: Final = re.compile(r"[\x00-\x7f]+")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ASCII_WORD: Final = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*")  # the same where a text is ASCII, and quicker
_CODE: Final = frozenset("/\\@_=`<>{}")  # in an address, a path or an identifier


@dataclass(frozen=True, slots=True)
class Language:
    """What language a text is in.

    code: ISO 639-1, or "und"; english, foreign: whether words of English, and of any other language, are in it. A text
    without words of either counts as English when it is plain ASCII, and as both otherwise.
    """

    code: str
    english: bool
    foreign: bool


@dataclass(frozen=True, slots=True)
class _Signs:
    """What tells languages: words and letters, each with the logarithm of its odds by language, runs of a script, and
    which words are names where they have a capital.
    """

    words: dict[str, Odds]
    letters: dict[str, Odds]
    likely_letters: dict[str, Odds]
    marks: dict[str, Odds]
    scripts: re.Pattern[str]
    given_names: frozenset[str]


@cache
def _language_signs() -> _Signs:
    """Return the signs of all languages; the odds of a word fall with its place (Zipf's law)."""
    signs = _Signs({}, {}, {}, {}, _script_pattern(), _given_names())
    for code, its in languages().items():
        if not its.is_latin:
            continue
        for place, word in enumerate(its.common.split()):
            signs.words.setdefault(word, {})[code] = math.log(SELDOM / (COMMONEST + place))
        for found, tell in (
            (signs.words, its.asking.split()),
            (signs.letters, its.letters),
            (signs.likely_letters, its.likely_letters),
            (signs.marks, its.marks),
        ):
            for one in tell:
                found.setdefault(one, {}).setdefault(code, TELLING)
    return signs


def _script_pattern() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{code}>[{its.script}]+)" for code, its in languages().items() if its.script))


def _given_names() -> frozenset[str]:
    return frozenset(name for its in languages().values() for name in its.given_names.split())


def language_of(text: str) -> Language:
    """Return the language of `text`; only its first 2,000 characters are looked at."""
    sample = text[:SAMPLE_CHARACTERS]
    if not _CODE.isdisjoint(sample):
        sample = " ".join(word for word in sample.split() if not word.isascii() or _CODE.isdisjoint(word))
    scripts = Counter[str]() if sample.isascii() else _scripts(sample)
    latin = _latin(sample)
    if not scripts:
        return latin
    code, weight = scripts.most_common(1)[0]
    latin_words = len(_WORD.findall(_language_signs().scripts.sub(" ", sample)))
    if latin_words > QUOTED * sum(scripts.values()):
        return latin
    return Language(_neighbour(_kana(code, scripts), sample), latin.english and latin_words > weight, foreign=True)


def clear_language(text: str) -> str | None:
    """Return the language of `text`; None for English and where it is not clear."""
    return _spoken(text[:SAMPLE_CHARACTERS])


@lru_cache(maxsize=500)  # of memories that are found again and again; at most 4 MB
def _spoken(sample: str) -> str | None:
    code = language_of(sample).code
    return None if code in (ENGLISH, UNKNOWN) else code


@cache
def function_words(code: str | None) -> frozenset[str]:
    """Return the commonest words of a language; none where we have no list."""
    return frozenset(language_data(code).common.split())


@cache
def asking_words(code: str) -> frozenset[str]:
    """Return the words that a language asks with, beyond its commonest ones.

    They tell a language and are not translated. A question still weighs by them, or a single word that it shares with a
    memory by chance would count as half of it (.3 of R@1 in the probe of benchmarks/retrieval.py).
    """
    return frozenset(language_data(code).asking.split())


@cache
def light_words(code: str) -> frozenset[str]:
    """Return the words of a language that say little about a subject whatever text they are in, although not each is
    among the commonest: pronouns, possessives, verbs such as "must" and "have", and what it asks with.
    """
    return asking_words(code) | frozenset(language_data(code).light.split())


def _scripts(sample: str) -> Counter[str]:
    """Return about how many words are in each script but Latin."""
    found: Counter[str] = Counter()
    for match in _language_signs().scripts.finditer(_ASCII.sub(" ", sample)):
        code = str(match.lastgroup)
        found[code] += max(1, len(match[0]) // 2) if language_data(code).unspaced else 1
    return found


def _kana(code: str, scripts: Counter[str]) -> str:
    return "ja" if code == "zh" and QUOTED * scripts["ja"] > scripts["zh"] else code


def _neighbour(code: str, sample: str) -> str:
    """Return which language of a script has most of its own letters in a text, else the script's own."""
    near = {one: {*its.letters} & {*sample.lower()} for one, its in languages().items() if its.script_of == code}
    best = max(near, key=lambda one: (len(near[one]), language_data(one).prior), default=code)
    return best if near.get(best) else code


def _latin(sample: str) -> Language:
    words = (_ASCII_WORD if sample.isascii() else _WORD).findall(sample)
    found = [*map(_languages_of, words)]
    english = sum(odds.keys() == {ENGLISH} for odds in found)
    beyond_ascii = [] if sample.isascii() else [_token(word) for word in words if not word.isascii()]
    found_by_signs = [*found, *_odds_by_signs(sample, beyond_ascii)]
    foreign = sum(bool(odds) and ENGLISH not in odds for odds in found_by_signs)
    if not foreign:
        return _without_foreign_words(sample, found, len(beyond_ascii), english)
    return _with_foreign_words(found_by_signs, beyond_ascii, english, foreign)


def _odds_by_signs(sample: str, beyond_ascii: Sequence[str]) -> list[Odds]:
    """Return what the letters of the words beyond ASCII tell, and the signs of single languages."""
    signs = _language_signs()
    by_letters = [_by_letters(word, signs.letters) for word in beyond_ascii]
    return by_letters + [signs.marks[letter] for letter in sample if letter in signs.marks]


def _with_foreign_words(found: Sequence[Odds], beyond_ascii: Sequence[str], english: int, foreign: int) -> Language:
    """Return the language of a text with words that are not English."""
    if english >= 2 * foreign or (foreign == 1 and english and not beyond_ascii):
        return Language(ENGLISH, english=True, foreign=False)
    if foreign < english:
        return Language(ENGLISH, english=True, foreign=True)
    likely = [_by_letters(word, _language_signs().likely_letters) for word in beyond_ascii]
    return Language(_likeliest([*found, *likely]), english=english == foreign, foreign=True)


def _likeliest(found: Sequence[Odds]) -> str:
    """Return the language other than English with the highest odds (naive Bayes)."""
    odds: defaultdict[str, float] = defaultdict(float)
    for one in found:
        for code, its in one.items():
            odds[code] += its
    odds.pop(ENGLISH, None)
    return max(odds, key=lambda code: odds[code] + language_data(code).prior)


def _token(word: str) -> str:
    """Return a word as the common words are written; a name with its capital, as none of them has one."""
    lower = word.lower()
    return word if lower in _language_signs().given_names and word != lower else lower.replace("’", "'")


@lru_cache(maxsize=8_192)  # about 2 MB
def _languages_of(word: str) -> Odds:
    """Return the languages that have a word, or what stands before its apostrophe, among their commonest."""
    known, token = _language_signs().words, _token(word)
    return known.get(token) or known.get(token.partition("'")[0], {})


def _without_foreign_words(sample: str, found: Sequence[Odds], not_ascii: int, english: int) -> Language:
    """Judge a text none of whose words points to a language other than English."""
    in_english = any(ENGLISH in odds for odds in found)
    unclear = not_ascii > 0 and english < 2 * not_ascii
    unclear = unclear or (not in_english and len(re.findall(r"\b[a-z]", sample)) >= UNCAPITALISED)
    return Language(ENGLISH if in_english else UNKNOWN, english=True, foreign=unclear)


def _by_letters(word: str, letters: dict[str, Odds]) -> Odds:
    """Return the languages that letters of a word belong to, each once."""
    return {code: odds for letter in word if letter in letters for code, odds in letters[letter].items()}


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
