"""What a name sounds like, in a few consonants, so that a question in another script finds it.

"Лютер", "Λούθηρος" and "لوثر" share no letter with "Luther", but all are L, T, R. The letters are put together
more coarsely than Soundex does, as scripts differ in the consonants they have: Arabic writes no P, and Greek neither B
nor SH.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby
from typing import Final

from pgengram.text.lexical.language import function_words, spoken

SHORTEST: Final = 3  # consonants: with two, every word sounds like some name
MARK: Final = "sound:"  # of a term that is no word
REMEMBERED: Final = 20_000  # names

# Letters by what they count as; vowels, H, W and Y count as nothing.
_LETTERS: Final = {
    "P": "bpfv" "бвпф" "βπφ" "بفپ" "पफबभव",
    "T": "td" "дт" "δθτ" "تثدذضطظ" "टठडढतथदध",
    "K": "kgqc" "гкхґ" "γκχ" "خغقكگک" "कखगघ",
    "S": "szj" "жзсцчшщџћ" "ζσς" "جزسشصچژ" "चछजझशषस",
    "L": "l" "лљ" "λ" "ل" "ल",
    "R": "r" "р" "ρ" "ر" "रृ",
    "M": "m" "м" "μ" "م" "म",
    "N": "n" "нњ" "ν" "ن" "ङञणनंँ",
    "KS": "x" "ξ",
    "PS": "ψ",
    "TS": "ђ",
}  # fmt: skip
_SOUNDS: Final = {letter: sound for sound, letters in _LETTERS.items() for letter in letters}
# Pairs that stand for one sound, before the letters.
_PAIRS: Final = (
    *((pair, "s") for pair in ("sch", "tch", "sh", "ch", "дж", "τζ", "τσ")),
    *(("th", "t"), ("ph", "f"), ("ck", "k"), ("gh", "g"), ("кс", "x"), ("μπ", "π"), ("ντ", "δ"), ("γκ", "κ")),
)
_SOFT: Final = re.compile("[cg](?=[eiy])")
_NAME: Final = re.compile(r"(?<![^\W\d_])[A-ZÀ-ÖØ-Þ][^\W\d_]{2,}")
_HAVE_CAPITALS: Final = re.compile(r"[\u0370-\u052f\u1f00-\u1fff]")
_OTHER_SCRIPT: Final = re.compile(r"[\u0370-\u052f\u0600-\u06ff\u0750-\u077f\u0900-\u097f\u1f00-\u1fff]")
_ARTICLES: Final = re.compile("^(?:[وفبك]?ال|لل|[وبلك])(?=...)")  # of Arabic, written as one with what follows


def sounds_of_names(text: str) -> list[str]:
    """Return a term for each sound of a name in Latin script: a word with a capital that isn't a common English one."""
    names = (name for name in _NAME.findall(text) if name.lower() not in function_words("en"))
    return list(dict.fromkeys(MARK + sound for name in names if len(sound := _sound(name)) >= SHORTEST))


def asked_sounds(text: str, words: Iterable[str]) -> dict[str, list[str]]:
    """Return what those of `words` sound like that may be a name written in another script than Latin.

    In Greek and Cyrillic these are words with a capital; other scripts have none, so each word may be one.
    """
    if not _OTHER_SCRIPT.search(text):
        return {}
    empty = function_words(spoken(text) or "")
    asked = [word for word in words if _OTHER_SCRIPT.match(word) and word.lower() not in empty]
    names = [word for word in asked if word[0].isupper() or not _HAVE_CAPITALS.match(word)]
    return {name: sounds for name in names if (sounds := _sounds_of(name))}


def _sounds_of(name: str) -> list[str]:
    forms = map(_sound, (name, _ARTICLES.sub("", name), _without_ending(name)))
    return list(dict.fromkeys(MARK + sound for sound in forms if len(sound) >= SHORTEST))


def _without_ending(name: str) -> str:
    """Return a Greek or Russian name without the consonant of its ending."""
    return re.sub("(?:[οαηώόά]?ς|[оеиыа]?[мйв])$", "", name)


@lru_cache(REMEMBERED)
def _sound(name: str) -> str:
    lowered = name.lower()
    for pair, one in _PAIRS:
        lowered = lowered.replace(pair, one)
    lowered = _SOFT.sub("s", lowered)
    plain = lowered if _OTHER_SCRIPT.search(lowered) and not _HAVE_CAPITALS.search(lowered) else _bare(lowered)
    sounds = "".join(_SOUNDS.get(letter, "") for letter in plain)
    return "".join(sound for sound, _ in groupby(sounds))


def _bare(text: str) -> str:
    """Return `text` without accents."""
    return "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))
