"""How alike two texts are in their words, and whether they differ in what must not be mixed up."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from pgengram.ids import short
from pgengram.text.language import ENGLISH, function_words, language_of
from pgengram.text.languages import language_data, languages
from pgengram.text.vocabulary import announces_change, date_words, negations, number_words, opposites, time_words
from pgengram.text.words import beginning, is_unspaced, words

# With its sign, currency and what is joined to it: 5 is neither -5 nor 5k, and 8 am not 8 pm.
_NUMBER: Final = re.compile(
    r"(?:(?<!\w)[-−+±])?[€$£¥₹]?\d+(?:[.,:/-]\d+)*(?:[^\W\d_]{1,3}\b|\s?[ap]\.?m\b|\s?[€$£¥₹%‰])?"
    r"|[零〇一二三四五六七八九十百千万萬億亿兩两]"
)
_IN_FIGURES: Final = re.compile(r"\b(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4})\b")
_BESIDE_MONTH: Final = re.compile(
    r"(?:\b(\d{1,2})(?:st|nd|rd|th|er|\.|º)? (?:of |de )?)?\b([^\W\d]{3,})\b\.?(?: (\d{1,2})(?:st|nd|rd"
    r"|th)?\b(?![:.]\d))?"
)
_CLOCK: Final = re.compile(r"\b\d{1,2}[:h]\d\d\b")
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b(?![-.,:/]\d)")
ALIKE: Final = 0.6  # share of words in common, from which on two texts may be about the same
_SENTENCE_END: Final = re.compile(r"(?:^|[.!?:;\n\r\"“”«»(\[•|-])\s*$")
_POSSESSIVE: Final = re.compile(r"['’]s?$")


@cache
def _negation_parts() -> re.Pattern[str]:
    """Return what denies inside a word or without spaces: n't, n', Chinese, Japanese, Korean, Thai."""
    return re.compile("|".join(one.negation_pattern for one in languages().values() if one.negation_pattern))


@cache
def _number_prefixes() -> frozenset[str]:
    return frozenset(prefix.casefold() for one in languages().values() for prefix in one.negating_prefixes.split())


@cache
def _openings() -> frozenset[str]:
    """Return words that a sentence may begin with instead of a name."""
    return frozenset(word.casefold() for one in languages().values() for word in one.openings.split())


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text holds that is compared with another: its words, and those that must not be mixed up, in their order.

    names: words with a capital inside a sentence; openings: those that begin one; caseless: words of scripts without
    capitals, of those without spaces each character; denials: how many words deny.
    """

    lowered: list[str]
    numbers: list[str]
    dates: list[str]
    names: frozenset[str]
    openings: frozenset[str]
    caseless: Counter[str]
    denials: int


@lru_cache(maxsize=256)
def tokens(text: str) -> frozenset[str]:
    """Return what `text` consists of: words in lower case, character pairs where there are no spaces."""
    found: set[str] = set()
    for word in words(unicodedata.normalize("NFKC", text).casefold()):
        if is_unspaced(word) and len(word) > 1:
            found |= {word[i : i + 2] for i in range(len(word) - 1)}
        else:
            found.add(_bare_word(word))
    return frozenset(found)


def overlap(one: str, other: str) -> float:
    """Return the share of tokens that two texts have in common, 0 to 1 (the index of Jaccard 1901)."""
    first, second = tokens(one), tokens(other)
    common = len(first & second)
    return common / (len(first) + len(second) - common) if first or second else 1.0


def differences(one: str, other: str) -> list[str]:
    """Return in what two texts that look alike differ: `numbers`, `dates`, `names`, `negation`, `order`; or nothing.

    Order counts when the words are the same: tabs over spaces is not spaces over tabs, but one phrase may stand
    elsewhere. Careful rather than clever: lists of words, and capitals, no grammar. In a script without capitals any
    word in place of another counts as a name.
    """
    first, second = _reading(one), _reading(other)
    found = {
        "numbers": first.numbers != second.numbers,
        "dates": first.dates != second.dates,
        "names": _other_names(first, second),
        "negation": first.denials != second.denials or _opposed(first, second),
        "order": _changed_places(first.lowered, second.lowered),
    }
    return [name for name, differs in found.items() if differs]


def without_dates(text: str) -> str:
    """Return a text without its calendar days, times of day and years: of two memories, they say when, not what of."""
    for dates in (_IN_FIGURES, _CLOCK, _YEAR):
        text = dates.sub(", ", text)
    return _BESIDE_MONTH.sub(lambda at: ", " if _is_day(at) else at[0], text)


def _is_day(at: re.Match[str]) -> bool:
    """Whether what `_BESIDE_MONTH` found has a number beside the name of a month; "may" alone is too often no month."""
    before, word, after = at.groups()
    return (word.casefold() in date_words() or word.casefold() == "may") and bool(before or after)


@lru_cache(maxsize=256)
def _reading(text: str) -> Reading:
    text = unicodedata.normalize("NFKC", text)
    written = [_bare_word(word) for word in words(text)]
    lowered = [word.casefold() for word in written]
    capitals = [*_capitalised_words(text)]
    return Reading(
        lowered=lowered,
        numbers=_numbers(text, lowered),
        dates=[word for word in lowered if word in time_words()],
        names=frozenset(word.casefold() for word, opens in capitals if not opens),
        openings=frozenset(word.casefold() for word, opens in capitals if opens) - _openings(),
        caseless=Counter(_caseless(written)),
        denials=sum(word in negations() for word in lowered) + len(_negation_parts().findall(text.casefold())),
    )


def _other_names(one: Reading, other: Reading) -> bool:
    """Whether other names are in them, or in another order.

    What only begins a sentence is a name when the other text has another word there.
    """
    if (one.caseless - other.caseless) and (other.caseless - one.caseless):
        return True
    names = one.names | other.names
    openings = [one.openings.difference(other.lowered), other.openings.difference(one.lowered)]
    if all(openings):
        names = names.union(*openings)
    names -= time_words()  # these are compared by themselves
    first, second = ([*dict.fromkeys(word for word in text.lowered if word in names)] for text in (one, other))
    return first != second


def other_subjects(one: str, other: str) -> bool:
    """Whether two texts begin with different names and say different things of them, so that both may hold."""
    first, second = _reading(one), _reading(other)
    begun = [text.lowered[:1] for text in (first, second)]
    if not (begun[0] and begun[1]) or begun[0] == begun[1] or not all(map(_begins_with_a_name, (first, second))):
        return False
    words = [{word for word in text.lowered if word.isalpha()} for text in (first, second)]
    return len(words[0] - words[1]) > 1 and len(words[1] - words[0]) > 1


def new_names(newer: str, older: str) -> frozenset[str]:
    """Return the names in a text that another doesn't have, case-folded; days and months are none."""
    one, other = _reading(newer), _reading(older)
    return (one.names | one.openings).difference(other.lowered) - time_words()


def names_in(text: str) -> list[str]:
    """Return the words with a capital inside a sentence, as they are written, each once: names, in German any noun."""
    return [*dict.fromkeys(word for word, opens in _capitalised_words(text) if not opens)]


def _begins_with_a_name(text: Reading) -> bool:
    return text.lowered[0] in text.openings | text.names


def _opposed(one: Reading, other: Reading) -> bool:
    """Whether one says what the other denies by a word of its own: enabled and disabled, able and unable."""
    first, second = {*one.lowered} - {*other.lowered}, {*other.lowered} - {*one.lowered}
    if any(opposites().get(word, frozenset()) & second for word in first):
        return True
    return any(
        prefix + word in denied
        for plain, denied in ((first, second), (second, first))
        for word in plain
        for prefix in _number_prefixes()
    )


def _changed_places(one: list[str], other: list[str]) -> bool:
    """Whether two texts of the same words differ by more than one phrase that stands before or after its neighbour."""
    if one == other or Counter(one) != Counter(other):
        return False
    start = next(i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    end = next(i for i, (a, b) in enumerate(zip(one[::-1], other[::-1], strict=True)) if a != b)
    one, other = one[start : len(one) - end], other[start : len(other) - end]
    return not any(one[i] == other[0] and one[i:] + one[:i] == other for i in range(1, len(one)))


def _bare_word(word: str) -> str:
    return _POSSESSIVE.sub("", word)


def _numbers(text: str, lowered: list[str]) -> list[str]:
    digits = ["".join(str(unicodedata.digit(c, c)) for c in number) for number in _NUMBER.findall(text)]
    return digits + [word for word in lowered if word in number_words()]


def _capitalised_words(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each word that begins with or holds a capital, and whether it begins a sentence."""
    end = 0
    for word in words(text):
        start = text.find(word, end)
        before, end = text[max(0, start - 8) : max(0, start)], max(start, 0) + len(word)
        if any(c.isupper() for c in word) and word not in ("I", "I'm", "I’m", "I've", "I'll", "I'd"):
            opens = start <= 0 or _SENTENCE_END.search(before) is not None
            yield _bare_word(word), opens and not any(c.isupper() for c in word[1:])


def _caseless(line: list[str]) -> Iterator[str]:
    for word in line:
        if word[:1].isalpha() and word.lower() == word.upper():
            yield from word if is_unspaced(word) else [word]


LEAST: Final = 0.4  # of the words of the text that has fewer
LEAST_CHANGED: Final = 0.25  # the same where the newer one says that something changed
SEVERAL: Final = 2  # words; a single one is said by chance, unless something changed
NAME_NOTHING: Final = 100  # of the commonest words of a language; of those after them some name things
_SAYS_NOTHING: Final = re.compile(r"\d{1,2}")


def same_subject(newer: str, older: str, scope: str = "") -> bool:
    """Whether a text has enough words of an earlier one to be about the same thing.

    Measured on the weeks of notes of benchmarks/assistant.py: of pairs that are near by meaning, 13 of 32 tell of the
    same thing,
    of those that share words, 13 of 15.

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


@cache
def _articles_and_such(code: str) -> frozenset[str]:
    """Return the very commonest words of a language: articles, pronouns and the like."""
    return frozenset(language_data(code).common.split()[:NAME_NOTHING])


def tell_apart(one: str, other: str) -> bool:
    """Whether each of two texts has a word of its own, but for times, numbers and the commonest words."""
    common = _articles_and_such(ENGLISH) | _articles_and_such(language_of(f"{one} {other}").code)
    first, second = (
        {beginning(word) for word in tokens(without_dates(text)) - time_words() - common if word.isalpha()}
        for text in (one, other)
    )
    return bool(first - second) and bool(second - first)


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
# A word and the number that it has; no part of a date, a time or a code. Behind short words ("is", "est de") no number
# of something else: "gauges in 7 towns".
_NUMBER_ALONE: Final = r"[€$£]?(\d+(?:[.,]\d+)?)(?![\w:/-])"
_VALUED: Final = re.compile(
    rf"([^\W\d_]{{4,}})(?:[\s:=]+{_NUMBER_ALONE}|(?:\s+[^\W\d_]{{1,3}}){{1,2}}\s+{_NUMBER_ALONE}(?!\s+[^\W\d_]{{4}}))"
)


def other_numbers(one: str, other: str) -> bool:
    """Whether two texts have other numbers of the same thing: of what they count, or what "confidence 0.55" says."""
    first, second = _values(one), _values(other)
    valued = any(first[thing].isdisjoint(second[thing]) for thing in first.keys() & second.keys())
    return valued or _counts_otherwise(one, other)


@lru_cache(maxsize=256)
def _values(text: str) -> dict[str, set[str]]:
    """Return the numbers that stand after each word: of "the port is 5433" those of port."""
    found: dict[str, set[str]] = defaultdict(set)
    empty = date_words() | function_words(ENGLISH) | function_words(language_of(text).code)
    for thing, *number in _VALUED.findall(unicodedata.normalize("NFKC", without_dates(text)).casefold()):
        if thing not in empty:
            found[beginning(thing)].add("".join(number))
    return dict(found)


def _counts_otherwise(one: str, other: str) -> bool:
    """Whether both texts count the same things, and none of their numbers of one agree.

    Where half of what either counts is something else, as in two recipes that both take minutes, it tells nothing.
    """
    first, second = sorted((_counts(one), _counts(other)), key=len)
    things = frozenset().union(*(its for _, its in second))
    both = [its & things for _, its in first if its & things]
    if 2 * len(both) <= len(first):
        return False
    return any(_numbers_of(thing, first).isdisjoint(_numbers_of(thing, second)) for its in both for thing in its)


Counts = list[tuple[int, frozenset[str]]]  # each number with the words for what it counts


def _numbers_of(thing: str, counts: Counts) -> set[int]:
    return {number for number, things in counts if thing in things}


@lru_cache(maxsize=256)
def _counts(text: str) -> Counts:
    """Return the numbers with their things: of "38 tide gauges" tide and gauges."""
    found = _COUNTED.findall(unicodedata.normalize("NFKC", without_dates(text)).casefold())
    said = (
        (int(number), (thing for thing in things if thing and thing not in date_words())) for number, *things in found
    )
    return [(number, its) for number, words in said if (its := frozenset(map(beginning, words)))]


Piece = tuple[str, str]  # "same", "gone" or "new", and a text
WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")
MAX_COMPARED: Final = 4_000  # pieces of a text; longer ones are shown one after the other
# Of the words of two texts these are in both at least; marked words of others are harder to read than the two texts.
LEAST_KEPT_PERCENT: Final = 50


def _not_empty(*pieces: Piece) -> list[Piece]:
    return [piece for piece in pieces if piece[1]]


def word_changes(old: Any, new: Any) -> list[Piece]:
    """Return the words of two values, each with whether it stayed, went or came; of values that have little in common,
    the one and the other.
    """
    before, after = _diff_text(old), _diff_text(new)
    one, other = WORDS.findall(before), WORDS.findall(after)
    whole = _not_empty(("gone", before), ("new", after))
    if max(len(one), len(other)) > MAX_COMPARED or not one or not other:
        return whole
    pieces: list[Piece] = []
    steps = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    kept = sum(_is_word(piece) for verb, i, j, _, _ in steps if verb == "equal" for piece in one[i:j])
    if 200 * kept < LEAST_KEPT_PERCENT * sum(map(_is_word, one + other)):
        return whole
    for verb, i, j, k, m in steps:
        if verb == "equal":
            pieces.append(("same", "".join(one[i:j])))
        else:
            pieces += _not_empty(("gone", "".join(one[i:j])), ("new", "".join(other[k:m])))
    return pieces


def _is_word(piece: str) -> bool:
    return piece[0].isalnum()


def _diff_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict) and {"to_id", "type", "strength"} <= value.keys():
        return f"{value['type']} {value['strength']} → {short(value['to_id'])}"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
