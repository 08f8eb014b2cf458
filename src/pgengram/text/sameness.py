"""Whether a text says all that another one says, so that the other need not be kept.

Nothing here knows what words mean. What is not known to say nothing says something: another word, another form of a
word,
one word more. To keep a memory twice is cheap, to lose one is not. So no list of numbers, negations or opposites is
needed, in no language; the few words listed here make it find more that is the same, never less.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final

from pgengram.fields import as_utc
from pgengram.text.differences import ALIKE, differences, overlap
from pgengram.text.language import ENGLISH, language_of
from pgengram.text.words import is_unspaced, sentences


def folded(text: str) -> str:
    """Return `text` for comparison: Unicode composed, case folded, white space collapsed and trimmed."""
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).split())


def canonical(text: str) -> str:
    """Return `text` without what says nothing: how Unicode composes it, its first letter's case, white space around it
    and at the ends of lines, and more than one space within a line. How far lines are indented stays: code means
    something else otherwise.
    """
    lines = unicodedata.normalize("NFC", text).strip().splitlines()
    kept = "\n".join(line[: len(line) - len(line.lstrip())] + " ".join(line.split()) for line in lines)
    return kept[:1].lower() + kept[1:]


def content_hash(
    content: str,
    *,
    user: str | None,
    project: str | None,
    collection: str | None,
    speaker: str | None,
    occurred_at: datetime | None,
) -> bytes:
    """Return 16 bytes that are equal for memories that say the same about the same.

    The text decides letter by letter: PATH is not path. The same text of another speaker, about another person or
    project, or of another day is another memory.
    """
    about = (user or "", project or "", collection or "", speaker or "")
    identity = "\0".join([canonical(content), *map(folded, about), as_utc(occurred_at) or ""])
    return hashlib.sha256(identity.encode()).digest()[:16]  # 128 bits keep every index on it half as large


Words = tuple[str, ...]

OTHERWISE: Final = ("words", "wording")
SIGNS: Final = frozenset("#%&@?؟")  # besides the symbols of mathematics, currencies and pictures
JOINTS: Final = frozenset("._/\\:=")  # between two letters or digits: 1.5, foo_bar, 10:30
INDENTED: Final = re.compile(r"\n[ \t]+\S")
HYPHENS: Final = frozenset("-‐‑‒–—")
APOSTROPHES: Final = frozenset("'’ʼ")
ARTICLE: Final = "the"
# English tells by these what a phrase is to the rest, wherever it stands; languages with cases don't.
OPENERS: Final = frozenset((
    "about", "after", "around", "as", "at", "before", "by", "during", "each", "every", "for", "from", "in", "inside", "into", "near",
    "on", "onto", "outside", "over", "since", "through", "to", "under", "until", "with", "within",
))  # fmt: skip


def said_otherwise(one: str, other: str, differing: Sequence[str] = ()) -> list[str]:
    """Return by which of OTHERWISE two texts differ where neither includes the other: `words`, where most are the same
    and each has some of its own, else `wording`; nothing where `differing` tells already.
    """
    if differing or includes(one, other) or includes(other, one):
        return []
    first, second = (Counter(_compared_words(text)) for text in (one, other))
    replaced = first - second and second - first and overlap(one, other) >= ALIKE
    return ["words" if replaced else "wording"]


def includes(text: str, other: str) -> bool:
    """Whether `text` says all that `other` says, in the same words.

    Each sentence of `other` is in `text`, in the same order, and what `text` says besides is neither a number, a
    date, a name nor a negation. Punctuation, spaces and the first letter of a sentence may differ; in English "the" may
    be missing, and a phrase stand elsewhere in its sentence. Of lines that are indented, as code is, all must be the
    same.
    """
    if differences(text, other) or not _same_letters(text, other):
        return False
    if INDENTED.search(text) or INDENTED.search(other):
        return canonical(text) == canonical(other)
    whole, part = _compared_words(text), _compared_words(other)
    if whole and _say_the_same(whole, part):
        return True
    there = iter([_compared_words(one) for one in sentences(text)])
    wanted = [_compared_words(one) for one in sentences(other)]
    return bool(part) and all(any(_say_the_same(one, sentence) for one in there) for sentence in wanted)


def _same_letters(text: str, other: str) -> bool:
    """Whether each word of `other` is in `text` with the same capitals, but for the first letter of a sentence."""
    inner, begin = _written(text)
    wanted, begins = _written(other)
    return all(word in inner or _first_letters(word) in begin for word in wanted) and begins <= begin | {
        *map(_first_letters, inner)
    }


def _written(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words within a text's sentences as written, and those that begin one by their first letters."""
    each = ["".join(_spaced(unicodedata.normalize("NFKC", one))).split() for one in sentences(text)]
    return frozenset(word for one in each for word in one[1:]), frozenset(_first_letters(one[0]) for one in each if one)


def _first_letters(word: str) -> str:
    return word[:1].lower() + word[1:]


def _say_the_same(one: Words, other: Words) -> bool:
    """Whether two sentences are the same, but in English for "the", or for the place of a phrase."""
    if one == other:
        return True
    bare, others = (tuple(word for word in words if word != ARTICLE) for words in (one, other))
    if Counter(bare) != Counter(others) or language_of(" ".join(one)).code != ENGLISH:
        return False
    return bare == others or _phrase_moved(one, other) or _phrase_moved(bare, others)


def _phrase_moved(one: Words, other: Words) -> bool:
    """Whether a phrase of a sentence changed places with what stood beside it: "in May", "every night"."""
    if len(one) != len(other):
        return False
    start = next(i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    end = next(i for i, (a, b) in enumerate(zip(one[::-1], other[::-1], strict=True)) if a != b)
    before, after = one[start : len(one) - end], other[start : len(other) - end]
    turns = (i for i in range(2, len(before) - 1) if before[i:] + before[:i] == after)
    return any(before[i] in OPENERS or before[0] in OPENERS for i in turns)


@lru_cache(maxsize=512)
def _compared_words(text: str) -> Words:
    """Return the words and telling signs of a text in their order, in lower case; without spaces each character."""
    return tuple("".join(_spaced(unicodedata.normalize("NFKC", text).lower())).split())


def _spaced(text: str) -> Iterator[str]:
    """Yield the characters of a text with a space for what says nothing, and signs on their own."""
    for place, character in enumerate(text):
        category = unicodedata.category(character)
        if is_unspaced(character) and not category.startswith("M"):
            yield f" {character} "
        elif category[0] in "LNM":
            yield character
        elif _is_sign(character, category, text[max(0, place - 1) : place], text[place + 1 : place + 2]):
            yield f" {'-' if character in HYPHENS or character == '−' else character} "
        elif character in APOSTROPHES:
            yield "'" if text[place + 1 : place + 2].isalpha() else " "
        elif category != "Cf":
            yield " "


def _is_sign(character: str, category: str, before: str, after: str) -> bool:
    """Whether a character that is not a letter says something: +, € and 👍 anywhere, a hyphen before a digit."""
    if character in SIGNS or (category[0] == "S" and category != "Sk"):
        return True
    if character in JOINTS:
        return before.isalnum() and after.isalnum()
    return character in HYPHENS and after.isdigit()
