"""What is known of each language: one file each, read when the first text needs it.

To add a language, add its file: each key is a field of `LanguageData`, and `lacks` names the keys for which nobody has
found the words yet. Words are separated by white space, phrases by commas. In a phrase a slash separates alternatives,
`-` is none, and `_` joins the words of one: "this/that works/is_fine/-".
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Final, Literal

FOLDER: Final = files(__name__)
TELLING: Final = 1.5  # the logarithm of the odds of a letter or asking word; a language that few write needs one more
Lexicon = Literal["", "stems", "beginnings", "characters", "syllables"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageData:
    """The words and rules of one language.

    code: ISO 639-1; prior: the logarithm of how likely a text is in it beside the widely written ones.
    script: the characters, as a class of a regular expression, that tell it from all others but those whose `script_of`
        names it; letters: tell it as a common word does; likely_letters: less sure; marks: the same of punctuation.
    stemmer: the algorithm of Snowball, or "first letters" where it has none or only one for nouns; lexicon: how a word
    is
        looked up: by its stem, by its longest beginning, or as the longest run of characters or syllables.
    common: its commonest words, commonest first; asking: words it asks with beyond them; light: words that say little
    of
        any subject; given_names: those of them that are names where they have a capital; openings: words that begin a
        sentence and aren't names.
    first_person, second_person: pronouns; negations: words that deny; negation_pattern: a regular expression of what
    denies inside a
        word; negating_prefixes; opposites: phrases of words of which each denies another.
    number_words, time_words: beyond those of `times`; changes: announce that something is otherwise than before;
    from_when: do
        so before a time; lasting: announce a decision or preference; small_talk: what may be said without asking or
        telling anything.
    asks_when: what a question after a time begins with; asks_nothing: words of a question beside its time when it asks
    for nothing
        else; list_commands: a question for a list begins with; all_of_them: ask for a list; not_all: phrases in which
        they don't.
    health, family, money: what words about these begin with; limits: words for what a person must not eat or be given.
    times: the words for times by list (`text.time_words`); months, weekdays, seasons and numbers in their
    order, each
        with its spellings.
    """

    code: str
    name: str
    lacks: str = ""
    prior: float = -TELLING
    script: str = ""
    script_of: str = ""
    letters: str = ""
    likely_letters: str = ""
    marks: str = ""
    nouns_have_capitals: bool = False
    unspaced: bool = False
    stemmer: str = ""
    lexicon: Lexicon = ""
    common: str = ""
    asking: str = ""
    light: str = ""
    given_names: str = ""
    openings: str = ""
    first_person: str = ""
    second_person: str = ""
    negations: str = ""
    negation_pattern: str = ""
    negating_prefixes: str = ""
    opposites: str = ""
    number_words: str = ""
    time_words: str = ""
    changes: str = ""
    from_when: str = ""
    lasting: str = ""
    small_talk: str = ""
    asks_when: str = ""
    asks_nothing: str = ""
    list_commands: str = ""
    all_of_them: str = ""
    not_all: str = ""
    limits: str = ""
    health: str = ""
    family: str = ""
    money: str = ""
    times: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_latin(self) -> bool:
        """Whether its script doesn't tell it."""
        return not (self.script or self.script_of)


_NOTHING: Final = LanguageData(code="und", name="undetermined")


@cache
def languages() -> dict[str, LanguageData]:
    """Return each language by its code, in the order of the codes.

    Raises:
        TypeError: a file has a key that is not a field.
    """
    found = {}
    for file in sorted(FOLDER.iterdir(), key=lambda file: file.name):
        code, _, ending = file.name.partition(".")
        if ending == "toml":
            found[code] = LanguageData(code=code, **tomllib.loads(file.read_text(encoding="utf-8")))
    return found


def language_data(code: str | None) -> LanguageData:
    """Return what is known of a language; nothing of one without a file."""
    return languages().get(code or "", _NOTHING)


def entries(text: str) -> list[str]:
    """Return the phrases of a list as they are written."""
    return [entry for part in text.split(",") if (entry := " ".join(part.split()))]


def phrases(text: str) -> Iterator[str]:
    """Yield each phrase of a list, once for each of its alternatives."""
    for entry in entries(text):
        for chosen in product(*(part.split("/") for part in entry.split(" "))):
            yield " ".join(word for word in chosen if word != "-").replace("_", " ")
