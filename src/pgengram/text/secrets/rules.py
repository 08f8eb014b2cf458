"""The shapes that are data: rules of pgengram.toml and gitleaks.toml, read when the first text is searched."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from pgengram.text.secrets.shapes import SHAPES, Pattern, entropy, is_no_password, is_placeholder

OURS, GITLEAKS = "pgengram.toml", "gitleaks.toml"
PASSWORD: Final = "password"  # noqa: S105 - a tag
_FIRST_GROUP: Final = re.compile(r"(?<!\\)\((?!\?)")  # the secret, in the format
# The beginning of a word that has something no word of a language has.
_HEAD: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9][\w.-]{2}(?=[\w.-]{0,16}(?:\d|[_-]\w|[a-z][A-Z]|[A-Z]{4}))")
SHORTEST_PREFIX: Final = 3  # characters that stand before pieces of a key, and hardly anywhere else
SPACES: Final = (" ", r"\s", r"\t", r"\n")


@cache
def patterns() -> tuple[Pattern, ...]:
    """Return all shapes; those that are found by what announces them come after those of a beginning of their own."""
    return (*_read_rules(OURS), *SHAPES, *_read_rules(GITLEAKS))


def _read_rules(name: str) -> list[Pattern]:
    return [
        _rule_pattern(rule, spaced=name == OURS)
        for rule in tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))["rules"]
    ]


def _rule_pattern(rule: dict[str, Any], *, spaced: bool) -> Pattern:
    name, shape = rule.get("tags", [rule["id"]])[0], _FIRST_GROUP.sub("(?P<secret>", rule["regex"], count=1)
    allowed = [one for group in rule.get("allowlists", []) for one in group["regexes"]]
    least = rule.get("entropy", 0)

    def judge(match: re.Match[str]) -> bool:
        value = match["secret"] if "secret" in match.re.groupindex else match[0]
        if name == PASSWORD:
            return not is_no_password(value)
        return (
            not is_placeholder(value)
            and (not least or entropy(value) >= least)
            and not any(re.search(one, value) for one in allowed)
        )

    return Pattern(
        name.replace("-", " "),
        tuple(rule["keywords"]),
        shape,
        judge,
        spaced=spaced and any(one in shape for one in SPACES),
    )


# For each keyword the places of the patterns that it may belong to: one pass over few words says which patterns are
# worth trying. Those that may hold spaces are looked for in the whole text, the others in its long words.
_Keywords = tuple[tuple[str, tuple[int, ...]], ...]


@cache
def _keywords(*, spaced: bool) -> _Keywords:
    found: dict[str, list[int]] = {}
    for place, pattern in enumerate(patterns()):
        for word in pattern.keywords if pattern.spaced == spaced else ():
            found.setdefault(word, []).append(place)
    return tuple((word, tuple(places)) for word, places in found.items())


def prefixes_in(text: str) -> Iterator[tuple[int, str, tuple[Pattern, ...]]]:
    """Give the beginnings of keys in a text: where each stands, and its patterns."""
    heads = _patterns_by_prefix()
    for head in _HEAD.finditer(text):
        for prefix, belongs in heads.get(head[0].lower(), ()):
            if text[head.start() : head.start() + len(prefix)].lower() == prefix:
                yield head.start(), prefix, belongs


@cache
def _patterns_by_prefix() -> dict[str, list[tuple[str, tuple[Pattern, ...]]]]:
    """Return the beginnings by which keys are known, each with its patterns, by their first characters."""
    found: dict[str, list[tuple[str, tuple[Pattern, ...]]]] = {}
    for word, places in _keywords(spaced=False):
        if len(word) >= SHORTEST_PREFIX and word[0].isalnum():
            belongs = tuple(patterns()[place] for place in places)
            found.setdefault(word[:SHORTEST_PREFIX], []).append((word, belongs))
    return found


@cache
def _always() -> tuple[int, ...]:
    return tuple(place for place, pattern in enumerate(patterns()) if not pattern.keywords)


def worth_trying(lowered: str, long_lowered: str) -> list[Pattern]:
    """Return the patterns whose secrets a text may hold; its text and its long words in lower case."""
    places = {*_always()}
    for word, belongs in _keywords(spaced=True):
        if word in lowered:
            places.update(belongs)
    for word, belongs in _keywords(spaced=False) if long_lowered else ():
        if word in long_lowered:
            places.update(belongs)
    return [patterns()[place] for place in sorted(places)]


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
    """Return a text as it is read, without invisible and full-width characters; None if that is the same."""
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
