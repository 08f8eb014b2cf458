"""Which words a memory is found by, beyond the stems that PostgreSQL makes of its text."""

from __future__ import annotations

import logging
import re
import unicodedata
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache, lru_cache
from hashlib import md5
from pathlib import Path
from threading import get_ident
from typing import Any, Final, cast

from pgengram.runtime.operating_system import sha256_of
from pgengram.text.language import asking_words, clear_language, function_words
from pgengram.text.languages import language_data

MAX_DETAIL_CHARACTERS: Final = 4_000  # of metadata that is searched; more would drown the content
MAX_EXTRA_TERMS: Final = 4_000

# Python holds no vowel sign or accent that follows its letter to be part of a word; most words of Hindi, Tamil or Thai
# have one.
_MARKS = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8"
    r"\u0711-\u074a\u07a6-\u07b0\u0900-\u0963\u0966-\u0df3\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1"
    r"\u0eb4-\u0ebc\u0ec8-\u0ece\u0f18-\u0f3f\u0f71-\u0fbc"
    r"\u102b-\u103e\u1056-\u1059\u17b4-\u17d3\u1dc0-\u1dff\u20d0-\u20f0"
    r"\u302a-\u302f\ufe20-\ufe2f\u200c\u200d"
)
_WORD = re.compile(rf"(?:[^\W_]+|[{_MARKS}])+(?:['’](?:[^\W_]+|[{_MARKS}])+)*")
_ASCII_WORD = re.compile("[A-Za-z0-9]+(?:'[A-Za-z0-9]+)*")  # the same where a text is ASCII, and quicker
# Identifiers whose punctuation the stemmer would cut: std::vector, PGENGRAM_X, v1.2.3, a-b.c, user@host.
# Each begins where a run of its characters begins: a text of one long word is read once, not once for each character.
_IDENTIFIER = re.compile(
    r"(?<![\w@#$])[\w@#$]+(?:(?:::|->|[._/:@+#-])[\w@#$]+)+[+#]*|(?<!\w)\w+(?:\+\+|#)|(?<!\w)\w*_\w+"
)
# What each of them holds: most texts have none, and to see that is ten times as fast as to look for them.
_JOINT = re.compile(r"[._/:@+#>-][\w@#$+]|#")
# Scripts written without spaces, or whose words carry their endings with them: two characters at a time.
_UNSPACED = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\u0e00-\u0eff\u1000-\u109f\u1780-\u17d3"
    r"\U00020000-\U0003134f]+"
)
_IDEOGRAPH = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")


def words(text: str) -> list[str]:
    """Return the words of `text` in order, as written."""
    return _ASCII_WORD.findall(text) if text.isascii() else _WORD.findall(apart(text))


def apart(text: str) -> str:
    """Return `text` with a space wherever a script without spaces meets another, and characters composed.

    Otherwise "我用Python写" would be one word, that nobody who looks for Python finds.
    """
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", unicodedata.normalize("NFC", text))


def is_unspaced(word: str) -> bool:
    """Whether a word is of a script without spaces or of Korean, whose words carry their endings with them."""
    return _UNSPACED.match(word) is not None


def extra_terms(text: str) -> list[str]:
    """Return the terms of `text` that stemming loses: whole identifiers, of unspaced scripts pairs of characters.

    A Chinese character is often a word by itself, so each is a term, too.
    """
    text = apart(text)
    found = [match.lower() for match in _IDENTIFIER.findall(text)] if _JOINT.search(text) else []
    for run in () if text.isascii() else _UNSPACED.findall(text):
        found += [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
        found += _IDEOGRAPH.findall(run) if len(run) > 1 else []
    return found[:MAX_EXTRA_TERMS]


def speaker_terms(speaker: str | None) -> list[str]:
    """Return terms that say who spoke, so that a question's words can be known as names."""
    return [f"speaker:{word.lower()}" for word in words(speaker or "")]


def term_hash(term: str) -> int:
    """Return a term as `pgengram_terms` does: the first 32 bits of its MD5."""
    return int.from_bytes(md5(term.encode(), usedforsecurity=False).digest()[:4], "big", signed=True)


def searched_text(
    content: str, *, speaker: str | None, tags: list[str], occurred_at: datetime | None, metadata: dict[str, Any]
) -> str:
    """Return the text whose stems a memory is found by: content, who said it, its tags, its day and its detail."""
    detail = " ".join(_texts_within(metadata))[:MAX_DETAIL_CHARACTERS]
    day = f"{occurred_at:%d %B %Y}".lstrip("0") if occurred_at else ""
    return apart("\n".join(part for part in (content, speaker or "", " ".join(tags), day, detail) if part))


def _texts_within(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts_within(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_within(item)


_END: Final = re.compile(r"(?<=[.!?…;])\s+|(?<=[。！？；])|\n+")
_DENSE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
QUESTION_MARKS: Final = ("?", "？", "؟")
LETTERS_EACH: Final = 3  # XQuAD: 785 letters of English are 252 characters of Chinese


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, which end with their marks, or with a line."""
    return [one for one in _END.split(text.strip()) if one]


def letters(text: str) -> int:
    """Return how many letters say as much: a character of Chinese or Japanese counts as three."""
    return len(text) if text.isascii() else len(text) + (LETTERS_EACH - 1) * len(_DENSE.findall(text))


# Languages with many endings for which Snowball (Porter 2001) has no rules, or only those of nouns, as for Turkish: the
# forms of a word have their first letters in common, which finds about as much as rules do (McNamee, Nicholas and
# Mayfield 2009).
POSSESSIVE: Final = re.compile(r"['’]s$")  # of a name or noun in English
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
    neither tells its forms.
    """
    stemmer = language_data(language).stemmer
    if stemmer == "first letters":
        return beginning(word)
    return _stemmer(stemmer, get_ident())(word) if stemmer else word


def beginning(word: str) -> str:
    """Return what the forms of a word have in common where nobody knows its language; a number has none."""
    return word if word.isdigit() else word[:FIRST_LETTERS]


@cache
def _stemmer(algorithm: str, thread: int) -> Callable[[str], str]:  # noqa: ARG001 - each has its own: it holds a word
    import snowballstemmer  # a fifth of a second, which whoever writes English does not pay

    return cast(Callable[[str], str], snowballstemmer.stemmer(algorithm).stemWord)


log = logging.getLogger(__name__)

FILE: Final = Path(__file__).parent / "lexicons" / "lexicons.zip"
SHA256: Final = "f24a54560cba70ece2c2783001db631cb0349dea5ef3de21412f8f7fb1a34ff4"
MAX_SYLLABLES: Final = 4
MAX_CHARACTERS: Final = 12
SHORTEST: Final = 3  # letters of a beginning that is not the whole word
_APOSTROPHE: Final = re.compile("['’]")
MOST_LEXICONS: Final = 3  # in memory: one takes up to 10 MB
MAX_TRANSLATED: Final = 24  # words of a text: each may bring three more to look for

Lexicon = dict[str, str]


def in_english(text: str) -> dict[str, list[str]]:
    """Return the words of `text` that the lexicon of its language has, each with up to three English ones.

    None for English and for a language without a lexicon.
    """
    language = clear_language(text)
    lexicon = _lexicon(FILE, language) if language else {}
    if not language or not lexicon:
        return {}
    found: dict[str, list[str]] = {}
    for word, english in _looked_up(language, lexicon, words(text)):
        found[word] = english.split(" ")
        if len(found) == MAX_TRANSLATED:
            break
    return found


def lookup_key(language: str, word: str) -> str:
    """Return what a word in lower case is looked up by: its stem, or its first letters without rules for that."""
    of = language_data(language)
    if of.lexicon in ("characters", "syllables"):
        return word
    return stem(language, word) if of.stemmer else beginning(word)


def _looked_up(language: str, lexicon: Lexicon, asked: Sequence[str]) -> Iterator[tuple[str, str]]:
    empty = function_words(language) | asking_words(language)
    way = language_data(language).lexicon
    if way == "characters":
        for run in asked:
            yield from _longest(lexicon, empty, list(run.lower()), "", MAX_CHARACTERS)
    elif way == "syllables":
        yield from _longest(lexicon, empty, [word.lower() for word in asked], " ", MAX_SYLLABLES)
    else:
        for word in asked:
            lowered = word.lower()
            if lowered not in empty and (english := _of_word(language, lexicon, lowered)):
                yield word, english


def _of_word(language: str, lexicon: Lexicon, word: str) -> str | None:
    if language_data(language).lexicon != "beginnings":
        return lexicon.get(lookup_key(language, word))
    root, *ending = _APOSTROPHE.split(word)
    if ending:  # Marta'nın: a name, so "mart" (March) is not its root
        return lexicon.get(root)
    beginnings = (word[:end] for end in range(len(word), min(len(word), SHORTEST) - 1, -1))
    return next((lexicon[one] for one in beginnings if one in lexicon), None)


def _longest(
    lexicon: Lexicon, empty: Collection[str], parts: Sequence[str], space: str, most: int
) -> Iterator[tuple[str, str]]:
    """Cut a text into the longest words that a lexicon has; what it lacks is left out."""
    start = 0
    while start < len(parts):
        for end in range(min(len(parts), start + most), start, -1):
            word = space.join(parts[start:end])
            if english := lexicon.get(word):
                if word not in empty:
                    yield word, english
                start = end
                break
        else:
            start += 1


def damaged() -> bool:
    """Whether the lexicons were needed and found to be damaged."""
    return not _sound.get(FILE, True)


_sound: Final[dict[Path, bool]] = {}  # files that were looked at, and whether they are as they were made


@lru_cache(MOST_LEXICONS)
def _lexicon(file: Path, language: str) -> Lexicon:
    """Return the words of a language, each with its English ones; none where there are none, or the file is damaged."""
    if file not in _sound:
        _sound[file] = file.exists() and sha256_of(file) == SHA256
        if not _sound[file]:
            log.warning("Reinstall pgengram: %s is damaged. Questions are not looked up in English.", file)
    if not _sound[file]:
        return {}
    with zipfile.ZipFile(file) as archive:
        if language not in archive.namelist():
            return {}
        lines = archive.read(language).decode().splitlines()
    return {word: english for word, _, english in (line.partition("\t") for line in lines)}
