"""What a turn of a conversation looks like: few bits, found when it is stored, that help to rank it."""

from __future__ import annotations

import re
from typing import Final

from pgengram.fields import KINDS

TIME: Final = 1  # names a time
DIGIT: Final = 2
CAPITAL: Final = 4  # a name inside a sentence
ASKS: Final = 8  # holds a question
ENDS_ASKING: Final = 16
TURN: Final = 32  # belongs to a conversation that its caller named

_TIME = re.compile(
    r"\b(?:(?:yester|to|mon|tues|wednes|thurs|fri|satur|sun)days?|tonight|tomorrow|last|next|ago|weeks?|weekends?|"
    r"months?|years?|january|february|march|april|may|june|july|august|september|october|november|december|recently|"
    r"since|soon|mornings?|evenings?|spring|summer|autumn|fall|winter|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_CAPITAL = re.compile(r"[a-z,;] [A-Z][a-z]+")
_VOICE = re.compile(r"([A-Z][\w'’-]{0,30}(?: [A-Z][\w'’.-]{0,30}){0,2}):\s")
# Lines of notes begin like lines of dialogue.
_LABELS: Final = (
    "answer bug fact fix hint idea issue note plan problem question reason reminder result rule solution step summary "
    "task tip todo update warning"
)
LABELS: Final = frozenset(KINDS) | frozenset(_LABELS.split())
_OPENING = {"]": "[", ")": "("}


def speaker_key_of(content: str, speaker: str | None) -> str | None:
    """Return who speaks, in lower case: the speaker, else the name that a line of dialogue begins with; a label is
    no name.
    """
    if speaker:
        return speaker.lower()
    found = _VOICE.match(content)
    name = found[1].lower() if found else None
    return None if name in LABELS else name


def turn_features_of(content: str, *, speaker_key: str | None, in_conversation: bool) -> int:
    """Return the bits of a turn; 0 for a memory that nobody says and that belongs to no conversation."""
    if speaker_key is None and not in_conversation:
        return 0
    said = content
    if found := _VOICE.match(said):
        said = said[found.end() :]
    said = _without_captions(said)
    bits = {
        TIME: _TIME.search(said),
        DIGIT: re.search(r"\d", said),
        CAPITAL: _CAPITAL.search(said),
        ASKS: "?" in said,
        ENDS_ASKING: said.rstrip().endswith("?"),
        TURN: in_conversation,
    }
    return sum(bit for bit, there in bits.items() if there)


def _without_captions(said: str) -> str:
    """Return what was said without the [captions] and (dates) that were added at its end."""
    while (end := said.rstrip()) and end[-1] in _OPENING:
        start = end.find(_OPENING[end[-1]], end.rfind(end[-1], 0, -1) + 1)
        if start < 0 or not (shorter := end[:start].rstrip()):
            break
        said = shorter
    return said
