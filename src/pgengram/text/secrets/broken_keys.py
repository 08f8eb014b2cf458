"""Keys that a text does not hold in one piece: wrapped by a terminal, split by a space, or full of invisible
characters.

What is searched is another form of the text, each character with the place that it has there: without invisible
characters, full-width letters as plain ones; and from each prefix of a key on, the pieces that may belong to it, put
together. A piece looks like no word of a language: it holds a digit beside a letter, or a capital after a small one, or
begins with a long number.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

# Zero-width and direction characters, soft hyphens, variation selectors and tags: nothing of them is seen.
INVISIBLE: Final = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\U000e0000-\U000e0fff"
)
FOLDED: Final = r"\uff01-\uff5e\U0001d400-\U0001d7ff"  # full-width characters and mathematical letters
_RARE: Final = re.compile(f"[{INVISIBLE}{FOLDED}]")
_UNSEEN: Final = re.compile(f"[{INVISIBLE}]")
_PIECE: Final = re.compile(r"[A-Za-z0-9_+/=.~:-]{1,250}(?![A-Za-z0-9_+/=.~:-])")  # no line of a terminal is longer
_ODD: Final = re.compile(r"[A-Za-z_-][:.]?\d|\d[:.]?[A-Za-z_-]|[a-z][A-Z]|^\d{8}")
_START: Final = re.compile(r"(?<![A-Za-z0-9_+/.~-])[A-Za-z0-9]")  # of a piece, also behind = or :
_SHORT: Final = 4  # characters that show something of a key
_FULL_LINE: Final = 12  # characters of the narrowest line that wraps a key
_MOST_PIECES: Final = 40  # lines of the longest key
# What stands between two pieces of one key: spaces and line ends, quotes and boxes around lines, a backslash before
# one.
_GAP: Final = re.compile(r"[\s\\>|│┃║\"'`+,]{1,80}")


class Rewritten(NamedTuple):
    """A form of a text, and for each of its characters the place in the text, with the text's end after them."""

    text: str
    places: list[int]


def without_invisible(text: str) -> Rewritten | None:
    """Return a text as it is read, without what nobody sees and with plain letters for full-width ones; None if it is
    the same.
    """
    if text.isascii() or not (rare := set(_RARE.findall(text))):
        return None
    plain = {letter: "" if _UNSEEN.match(letter) else unicodedata.normalize("NFKC", letter) for letter in rare}
    kept = [(plain.get(letter, letter), place) for place, letter in enumerate(text)]
    places = [place for letter, place in kept for _ in letter]
    return Rewritten("".join([letter for letter, _ in kept]), [*places, len(text)])


def pieces_from(text: str, place: int, prefix: str) -> Iterator[Rewritten]:
    """Give the pieces of what may be a key that begins at a place, put together, the most likely form first.

    Args:
        text: what may hold the key.
        place: where its prefix stands.
        prefix: how it begins; a first piece that is hardly longer is a word about keys.
    """
    piece = _PIECE.match(text, place)
    if piece is None or len(piece[0]) < len(prefix) + _SHORT:
        return
    of_capitals = piece[0] == piece[0].upper()
    pieces: list[re.Match[str]] = []
    following: re.Match[str] | None = piece
    while following and len(pieces) < _MOST_PIECES and _is_odd(following[0], of_capitals=of_capitals):
        pieces.append(following)
        gap = _GAP.match(text, following.end())
        following = _PIECE.match(text, gap.end()) if gap else None
    if pieces:
        yield _rejoined(text, pieces)
    if following and pieces and _is_rest(following, pieces):
        yield _rejoined(text, [*pieces, following])


def put_together(text: str, begin: int, end: int) -> Iterator[Iterator[Rewritten]]:
    """Give what may be keys of several pieces that begin in a word, also behind what announces one: of a key that is
    known by something in its midst, no piece alone tells that it is one.

    Args:
        text: what may hold the key.
        begin: where the word begins.
        end: where it ends.
    """
    for start in _START.finditer(text, begin, end):
        forms = pieces_from(text, start.start(), "")
        yield (one for one in forms if one.places[-2] - one.places[0] >= len(one.text))  # of more than one piece


def _is_rest(piece: re.Match[str], lines: list[re.Match[str]]) -> bool:
    """Whether a piece that looks like a word may be what was left for the last line of a key, whose others are full."""
    return len(piece[0]) < len(lines[0][0]) >= _FULL_LINE and all(len(one[0]) >= _FULL_LINE for one in lines)


def _rejoined(text: str, pieces: list[re.Match[str]]) -> Rewritten:
    places = [at for one in pieces for at in range(one.start(), one.end())]
    return Rewritten("".join(one[0] for one in pieces), [*places, len(text)])


def _is_odd(piece: str, *, of_capitals: bool) -> bool:
    """Whether a piece looks like no word; with `of_capitals` it may be capitals and digits."""
    return _ODD.search(piece) is not None or (of_capitals and len(piece) >= _SHORT and piece == piece.upper())
