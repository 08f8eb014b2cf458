"""English words for those of a question in another language, so that it finds English memories by their words, too; and
for those of a memory, which its vector has a share of.

From lexicons that come with pgengram, one for each language; each is read at the first text in that language.
"""

from __future__ import annotations

import logging
import re
import zipfile
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from pgengram.runtime.files import sha256_of
from pgengram.text.languages import language_data
from pgengram.text.lexical.language import asking_words, clear_language, function_words
from pgengram.text.lexical.words import beginning, stem, words

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
    """Return what a word in lower case is looked up by: its stem, or its first letters where its language has no rules
    for that.
    """
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
    """Cut a text into the longest words that a lexicon has, from its start on; what it has not is left out, as are
    empty words.
    """
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
