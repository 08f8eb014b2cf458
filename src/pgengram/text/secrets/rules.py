"""The shapes that are data: rules of pgengram.toml and gitleaks.toml, read when the first text is searched."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

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
    """Return the patterns whose secrets a text may hold, in their order; both its text and its long words in lower
    case.
    """
    places = {*_always()}
    for word, belongs in _keywords(spaced=True):
        if word in lowered:
            places.update(belongs)
    for word, belongs in _keywords(spaced=False) if long_lowered else ():
        if word in long_lowered:
            places.update(belongs)
    return [patterns()[place] for place in sorted(places)]
