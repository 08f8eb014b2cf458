"""A question as it is read, and as the ranking needs it after a look at the memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from uuid import UUID

from pgengram.inputs import Question
from pgengram.search.filters import Scope
from pgengram.search.times.dates import Period


@dataclass(frozen=True, slots=True)
class Parsed:
    """A question as its words alone say it.

    question: with its filters; scope: the memories that these let through; text: what is looked for; language: its own,
        None for English; words: its first words, each once; light, light_extra: those words and other terms that
        weigh, but find nothing; english: words of another language in English, where a lexicon has them; sounds: of
        those that may be names in another script; ids: the digits of what may be ids of memories; names: the words as
        the speakers of memories are stored; extra: its
        terms that aren't words; periods: the times it names, by a clock that is `utc_offset` ahead of UTC; wants_time:
        whether it asks when; ahead: the beginning of today, where a time that it surely names goes on after today.
    phrases: exact words that a hit must hold; unwanted and unwanted_phrases: words and exact words that it must not;
        only
    for searches of mode text.
    """

    question: Question
    scope: Scope
    text: str
    language: str | None
    words: list[str]
    light: list[str]
    light_extra: list[str]
    names: list[str]
    extra: list[str]
    periods: list[Period]
    utc_offset: timedelta
    wants_time: bool
    ahead: datetime | None
    phrases: list[str]
    unwanted: list[str]
    unwanted_phrases: list[str]
    english: Mapping[str, Sequence[str]]
    sounds: Mapping[str, Sequence[str]]
    ids: list[str]

    @property
    def looked_up(self) -> list[str]:
        """The words to look up in the memories: its own, then what they are in English."""
        return list(dict.fromkeys(chain(self.words, *self.english.values())))


@dataclass(frozen=True, slots=True)
class AskedWord:
    """A word of the question that is not left out as a common one of its language.

    weight: the inverse document frequency of its stems; known: whether a memory has one of them, or a name of its
        sound; is_speaker: whether a speaker is called so; sounds: of a word that may be a name, in other scripts;
        english: what it may be in English; is_name: whether it is written as a name is.
    """

    text: str
    weight: float
    known: bool
    is_speaker: bool
    sounds: Sequence[str] = ()
    english: Sequence[str] = ()
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the ranking needs it, after a look at the memories.

    terms: hashed stems; weights: their inverse document frequency, one for each term; counts: in how many memories each
        is.
    meaning: the question without the names of speakers.
    unwanted: the terms of the unwanted words; speakers: those it names, in lower case.
    mean_length: mean number of terms of a memory, for BM25; full: the weight of the terms it would share with a memory
        in its own words.
    words: its words, each with what the memories know of it; name_terms: the terms of each name that a memory has;
    ids: the memories whose ids it holds.
    """

    parsed: Parsed
    terms: list[int]
    weights: list[float]
    counts: list[int]
    meaning: str
    speakers: list[str]
    mean_length: float
    full: float
    unwanted: list[int]
    words: list[AskedWord]
    name_terms: list[set[int]]
    ids: list[UUID]

    @property
    def speaker_key(self) -> str | None:
        """The one speaker it names, in lower case; None where it names several or none."""
        return self.speakers[0] if len(self.speakers) == 1 else None
