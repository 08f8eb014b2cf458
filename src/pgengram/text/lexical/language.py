"""Which language a text is written in, told by its script and by its function words."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

ENGLISH: Final = "en"
UNKNOWN: Final = "und"  # ISO 639-2: undetermined
UNCAPITALISED: Final = 3  # words that no capital begins: one of them at least is common, if the text is English
SAMPLE_CHARACTERS: Final = 2_000  # of a long text

# Scripts that one widely written language is told by, and letters that tell its neighbours from it.
SCRIPTS: Final = {
    "ja": r"\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "ko": r"\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "zh": r"\u2e80-\u2fdf\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f",
    "ru": r"\u0400-\u052f",
    "el": r"\u0370-\u03ff\u1f00-\u1fff",
    "ar": r"\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc",
    "he": r"\u0590-\u05ff",
    "hi": r"\u0900-\u097f",
    "bn": r"\u0980-\u09ff",
    "pa": r"\u0a00-\u0a7f",
    "gu": r"\u0a80-\u0aff",
    "or": r"\u0b00-\u0b7f",
    "ta": r"\u0b80-\u0bff",
    "te": r"\u0c00-\u0c7f",
    "kn": r"\u0c80-\u0cff",
    "ml": r"\u0d00-\u0d7f",
    "si": r"\u0d80-\u0dff",
    "th": r"\u0e00-\u0e7f",
    "lo": r"\u0e80-\u0eff",
    "my": r"\u1000-\u109f",
    "ka": r"\u10a0-\u10ff",
    "am": r"\u1200-\u139f",
    "km": r"\u1780-\u17ff",
    "hy": r"\u0530-\u058f",
}
NEIGHBOURS: Final = {
    "ru": (("uk", "іїєґ"), ("be", "ў"), ("sr", "ђјљњћџ"), ("mk", "ѓќѕ"), ("kk", "әғқңөұүһ")),
    "ar": (("ur", "ٹڈڑںےھ"), ("fa", "پچژگک")),
}
# Letters of Latin script that tell a language as a common word does.
LETTERS: Final = {
    "de": "ß", "es": "ñ", "ro": "țșţăâî", "tr": "ğışİç", "hu": "őű", "pl": "łęąśź", "cs": "řůě", "pt": "ãõ", "da": "æøå",
    "no": "æøå",
    "sv": "å", "is": "ðþ", "vi": "ăạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹđư", "lv": "ļņģķ", "lt": "ėųį",
    "az": "ə", "sq": "ë", "fr": "œçèê",
}  # fmt: skip
OPENING_MARKS: Final = re.compile("[¿¡]")  # of Spanish alone
NOUNS_HAVE_CAPITALS: Final = frozenset(("de", "lb"))
UNSPACED: Final = frozenset(("ja", "zh", "th", "lo", "my", "km"))

# Given names that are common words of another language ("Mara" is "once" in Swahili). With a capital they tell none.
# Left out are those that often begin a sentence there, such as "Ella" and "Ben".
_GIVEN_NAMES: Final = (
    "ada alan ali ana ani ari bill bo cara dan dana don eden hal hana hans ina isa jen jo joan kai kay lei lena leo li "
    "mae maja mara mimi nina ola ole oli pat pia sal sami sana sina tam theo uma vera vida zara"
)
GIVEN_NAMES: Final = frozenset(_GIVEN_NAMES.split())

# How much more likely a text is in a language than its words say, as the logarithm of the odds: many write these.
PRIORS: Final = {"es": 0.3, "de": 0.3} | dict.fromkeys(
    ("fr", "it", "pt", "nl", "pl", "tr", "vi", "id", "ro", "sv", "cs", "hu"), 0.0
)
RARE: Final = -1.5  # the same of any other
LIKELY_LETTERS: Final = {"fr": "é", "es": "áíóú"}  # beside LETTERS, and less sure
LETTER: Final = 1.5  # of one of LETTERS, as the logarithm of its odds
LIKELY_LETTER: Final = 0.5
Odds = dict[str, float]  # by language, as logarithms
SPANISH: Final[Odds] = {"es": LETTER}
COMMONEST: Final = 20  # words of a language, which tell it about as well
SELDOM: Final = 300  # place of a word that tells nothing
ASKS: Final = 40  # place of a word that a language asks with

TOLD_BY_SCRIPT: Final = frozenset((*SCRIPTS, *(code for near in NEIGHBOURS.values() for code, _ in near)))

_SCRIPT: Final = re.compile("|".join(f"(?P<{code}>[{letters}]+)" for code, letters in SCRIPTS.items()))
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


@cache
def _lists(file: str) -> dict[str, list[str]]:
    """Return the words of each line of a file by the language that it begins with."""
    text = files("pgengram.text.lexical").joinpath(file).read_text(encoding="utf-8")
    return {code: words for code, *words in (line.split(" ") for line in text.splitlines())}


def _function_words() -> dict[str, list[str]]:
    """Return the commonest words of each language; after a question mark those that it asks with beyond them."""
    return _lists("function_words.txt")


@cache
def _telling_words() -> dict[str, Odds]:
    """Return each word of Latin script that tells a language, common or asking, with the languages that have it and the
    logarithm of its odds in each, which fall with its place (Zipf's law).
    """
    found: dict[str, Odds] = {}
    for key, words in _function_words().items():
        code = key.removeprefix("?")
        for place, word in enumerate(() if code in TOLD_BY_SCRIPT else words):
            odds = math.log(SELDOM / (COMMONEST + (place if key == code else ASKS)))
            found.setdefault(word, {}).setdefault(code, odds)
    return found


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
    latin_words = len(_WORD.findall(_SCRIPT.sub(" ", sample)))
    if latin_words > 4 * sum(scripts.values()):  # a word quoted
        return latin
    return Language(_neighbour(_kana(code, scripts), sample), latin.english and latin_words > weight, foreign=True)


def spoken(text: str) -> str | None:
    """Return the language of `text`; None for English and where it is not clear."""
    return _spoken(text[:SAMPLE_CHARACTERS])


@lru_cache(maxsize=500)  # of memories that are found again and again; at most 4 MB
def _spoken(sample: str) -> str | None:
    code = language_of(sample).code
    return None if code in (ENGLISH, UNKNOWN) else code


@cache
def function_words(code: str, most: int | None = None) -> frozenset[str]:
    """Return the commonest words of a language, `most` of them where so many are given; none where we have no list."""
    return frozenset(_function_words().get(code, [])[:most])


@cache
def asking_words(code: str) -> frozenset[str]:
    """Return the words that a language asks with, beyond its commonest ones.

    They tell a language and are not translated. A question still weighs by them, or a single word that it shares with a
    memory by chance would count as half of it (.3 of R@1 in the probe of benchmarks/retrieval.py).
    """
    return frozenset(_function_words().get(f"?{code}", ()))


@cache
def light_words(code: str) -> frozenset[str]:
    """Return the words of a language that say little about a subject whatever text they are in, although not each is
    among the commonest: pronouns, possessives, verbs such as "must" and "have", and what it asks with.
    """
    return asking_words(code) | frozenset(_lists("light_words.txt").get(code, ()))


def _scripts(sample: str) -> Counter[str]:
    """Return about how many words are in each script but Latin."""
    found: Counter[str] = Counter()
    for match in _SCRIPT.finditer(_ASCII.sub(" ", sample)):
        code = str(match.lastgroup)
        found[code] += max(1, len(match[0]) // 2) if code in UNSPACED else 1
    return found


def _kana(code: str, scripts: Counter[str]) -> str:
    return "ja" if code == "zh" and 4 * scripts["ja"] > scripts["zh"] else code


def _neighbour(code: str, sample: str) -> str:
    return next((near for near, letters in NEIGHBOURS.get(code, ()) if any(one in sample for one in letters)), code)


def _latin(sample: str) -> Language:
    words = (_ASCII_WORD if sample.isascii() else _WORD).findall(sample)
    found = [*map(_languages_of, words)]
    english = sum(odds.keys() == {ENGLISH} for odds in found)
    beyond_ascii = [] if sample.isascii() else [_token(word) for word in words if not word.isascii()]
    signs = [
        *(_by_letters(word, LETTERS, LETTER) for word in beyond_ascii),
        *[SPANISH] * len(OPENING_MARKS.findall(sample)),
    ]
    foreign = sum(bool(odds) and ENGLISH not in odds for odds in (*found, *signs))
    if not foreign:
        return _without_foreign_words(sample, found, len(beyond_ascii), english)
    if english >= 2 * foreign or (foreign == 1 and english and not beyond_ascii):
        return Language(ENGLISH, english=True, foreign=False)
    likely = [_by_letters(word, LIKELY_LETTERS, LIKELY_LETTER) for word in beyond_ascii]
    code = _likeliest([*found, *signs, *likely]) if foreign >= english else ENGLISH
    return Language(code, english=english >= foreign, foreign=True)


def _likeliest(found: Sequence[Odds]) -> str:
    """Return the language other than English with the highest odds (naive Bayes)."""
    odds: defaultdict[str, float] = defaultdict(float)
    for one in found:
        for code, its in one.items():
            odds[code] += its
    odds.pop(ENGLISH, None)
    return max(odds, key=lambda code: odds[code] + PRIORS.get(code, RARE))


def _token(word: str) -> str:
    """Return a word as the common words are written; a name with its capital, as none of them has one."""
    lower = word.lower()
    return word if lower in GIVEN_NAMES and word != lower else lower.replace("’", "'")


@lru_cache(maxsize=8_192)  # about 2 MB
def _languages_of(word: str) -> Odds:
    """Return the languages that have a word, or what stands before its apostrophe, among their commonest."""
    known, token = _telling_words(), _token(word)
    return known.get(token) or known.get(token.partition("'")[0], {})


def _without_foreign_words(sample: str, found: Sequence[Odds], not_ascii: int, english: int) -> Language:
    """Judge a text none of whose words points to a language other than English."""
    in_english = any(ENGLISH in odds for odds in found)
    unclear = not_ascii > 0 and english < 2 * not_ascii
    unclear = unclear or (not in_english and len(re.findall(r"\b[a-z]", sample)) >= UNCAPITALISED)
    return Language(ENGLISH if in_english else UNKNOWN, english=True, foreign=unclear)


def _by_letters(word: str, letters: Mapping[str, str], odds: float) -> Odds:
    """Return the languages that letters of a word belong to."""
    return {code: odds for code, its in letters.items() if any(letter in word for letter in its)}
