"""The columns and words that follow from what a memory says, worked out in one place however it is stored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from pgengram.text.sameness import content_hash
from pgengram.text.sounds import sounds_of_names
from pgengram.text.vocabulary import names_a_time
from pgengram.text.words import QUESTION_MARKS, extra_terms, foreign_stems, searched_text, speaker_terms

TIME: Final = 1  # names a time
DIGIT: Final = 2
CAPITAL: Final = 4  # a name inside a sentence
ASKS: Final = 8  # holds a question
ENDS_ASKING: Final = 16
TURN: Final = 32  # belongs to a conversation that its caller named

_LABEL = re.compile(r"([^\W\d_][\w'’-]{0,30}(?: [^\W\d_][\w'’.-]{0,30}){0,2}):\s")
_OPENING = {"]": "[", ")": "("}


def speaker_key_of(content: str, speaker: str | None, *, in_conversation: bool) -> str | None:
    """Return who speaks, in lower case: the speaker, or in a conversation that its caller named the name that a line
    begins with. Elsewhere such a line is a note ("Wifi: …").
    """
    if speaker:
        return speaker.lower()
    return label_of(content) if in_conversation else None


def label_of(content: str) -> str | None:
    """Return in lower case the capitalised words before a line's colon, as in "Ann: …"."""
    found = _LABEL.match(content)
    return found[1].lower() if found and all(word[0].isupper() for word in found[1].split()) else None


def turn_features_of(content: str, *, is_said: bool, in_conversation: bool) -> int:
    """Return the bits of a turn; 0 for a memory that nobody says and that belongs to no conversation."""
    if not is_said and not in_conversation:
        return 0
    said = content
    if found := _LABEL.match(said):
        said = said[found.end() :]
    said = _without_captions(said)
    bits = {
        TIME: names_a_time(said),
        DIGIT: re.search(r"\d", said),
        CAPITAL: _has_name(said),
        ASKS: any(mark in said for mark in QUESTION_MARKS),
        ENDS_ASKING: said.rstrip().endswith(QUESTION_MARKS),
        TURN: in_conversation,
    }
    return sum(bit for bit, there in bits.items() if there)


def _has_name(said: str) -> bool:
    """Whether a word inside a sentence has a capital."""
    return any(
        word[:1].isupper() and word[1:2].islower() and (before[-1].islower() or before[-1] in ",;")
        for before, word in pairwise(said.split())
    )


def _without_captions(said: str) -> str:
    """Return what was said without the [captions] and (dates) that were added at its end."""
    while (end := said.rstrip()) and end[-1] in _OPENING:
        start = end.find(_OPENING[end[-1]], end.rfind(end[-1], 0, -1) + 1)
        if start < 0 or not (shorter := end[:start].rstrip()):
            break
        said = shorter
    return said


IDENTITY: Final = frozenset({"content", "user", "project", "collection", "speaker", "occurred_at"})  # what is hashed
MOMENTS: Final = frozenset(
    {"event_time", "last_validated", "average_duration"}
)  # detail that nobody searches by its text


@dataclass(frozen=True, slots=True)
class Derived:
    """What follows from a memory's fields.

    content_hash: equal for memories that say the same about the same; speaker_key: who speaks, in lower case, or may
    speak as
        the text begins like a line of dialogue; turn_features: bits of a turn; searched, extra: the text and the
        further terms that a memory is found by.
    """

    content_hash: bytes
    speaker_key: str | None
    turn_features: int
    searched: str
    extra: list[str]


def derived(
    memory: Mapping[str, Any], *, tags: Sequence[str], detail: Mapping[str, Any] | None, in_conversation: bool
) -> Derived:
    """Return what follows from the fields of a memory.

    Args:
        memory: its row, of which the fields of `IDENTITY` and `metadata` are read; `occurred_at` as a datetime.
        tags: as they are stored.
        detail: the row of its type's own table.
        in_conversation: whether it is a turn of a conversation that its caller named.
    """
    content, speaker = memory["content"], memory["speaker"]
    speaker_key = speaker_key_of(content, speaker, in_conversation=in_conversation)
    searched_detail = {name: value for name, value in (detail or {}).items() if name not in MOMENTS}
    return Derived(
        content_hash(**{name: memory[name] for name in IDENTITY}),
        speaker_key or label_of(content),
        turn_features_of(content, is_said=speaker_key is not None, in_conversation=in_conversation),
        searched_text(
            content,
            speaker=speaker,
            tags=[*tags],
            occurred_at=memory["occurred_at"],
            metadata={**memory["metadata"], **searched_detail},
        ),
        extra_terms(content) + foreign_stems(content) + sounds_of_names(content) + speaker_terms(speaker_key),
    )
