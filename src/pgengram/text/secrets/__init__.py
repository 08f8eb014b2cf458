"""Passwords, keys, tokens and card numbers in text: found by their shape, and by what stands before them.

Three ways, from sure to unsure. A *key with a prefix of its own* (`ghp_…`) is known by its shape alone, which is data
in the format of gitleaks' rules, and also where it is wrapped or split. A *value after an announcing word* (`password:
…`, `api_key=…`) is judged: by its characters, by its entropy, and by whether it looks like a placeholder, a path, or
code. A *card number* must have a card's first digits and grouping, and Luhn's check digit (ISO 7812-1).

Ordinary notes cost little: keys with a prefix are looked for only in the text's long words, of which prose has few, and
only if one holds the prefix. Rules are loaded, and each expression compiled, when first needed.

What is not found: passphrases of several plain words, a password that nothing announces, digits alone such as a PIN.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pgengram.text.secrets.shapes import Found, Pattern, Rewritten


SHORTEST_PIECE: Final = 7  # characters of a word that a key may begin in
PUNCTUATION: Final = ".,;:!?()\"'"  # around a word
_ID: Final = re.compile(r"(?:^|[_-])(?i:id)$|Id$")  # the end of a key that names an id


def secrets_in(text: str) -> list[Found]:
    """Return the secrets in `text` by place, in one piece or broken; of overlapping ones the first and longest."""
    from pgengram.text.secrets.shapes import SHORTEST_PASSWORD, without_invisible

    if len(text) < SHORTEST_PASSWORD * 2:
        return []
    seen = without_invisible(text)
    found = _found_in(text if seen is None else seen.text)
    return _without_overlaps(found if seen is None else [_placed(one, seen) for one in found])


def _found_in(text: str) -> list[Found]:
    """Return the secrets that a text holds in one piece, and the keys that it holds in several."""
    from pgengram.text.secrets.shapes import SHORTEST_TOKEN, worth_trying

    lowered, words = _lowered(text), text.split()
    long_words = " ".join([word for word in words if len(word) >= SHORTEST_TOKEN])
    found = [one for pattern in worth_trying(lowered, long_words.lower()) for one in pattern.found(text, lowered)]
    return [*found, *_in_pieces(text, words)]


def _in_pieces(text: str, words: list[str]) -> Iterator[Found]:
    """Give the keys that were wrapped or split; each begins in a word that is not of letters alone."""
    from pgengram.text.secrets.shapes import pieces_from, prefixes_in, put_together

    end = 0
    for word in words:
        if len(word) < SHORTEST_PIECE or word.strip(PUNCTUATION).isalpha():
            continue
        begin = text.index(word, end)
        end = begin + len(word)
        known = [(pieces_from(text, begin + place, prefix), patterns) for place, prefix, patterns in prefixes_in(word)]
        found = [one for forms, patterns in known for one in _first_found(forms, patterns)]
        yield from found or [one for forms in put_together(text, begin, end) for one in _first_found(forms)]


def _first_found(forms: Iterator[Rewritten], patterns: Collection[Pattern] = ()) -> list[Found]:
    """Return the keys that the first form of a text with any begins with; any sort without patterns."""
    from pgengram.text.secrets.shapes import worth_trying

    for form in forms:
        likely = patterns or [one for one in worth_trying("", form.text.lower()) if not one.spaced]
        found = [one for pattern in likely for one in pattern.found_at_start(form.text)]
        if found:
            return [_placed(one, form) for one in found]
    return []


def _placed(found: Found, form: Rewritten) -> Found:
    """Return a secret that was found in another form of a text with its place in the text."""
    return found._replace(start=form.places[found.start], end=form.places[found.end - 1] + 1)


def _lowered(text: str) -> str:
    """Return `text` in small letters, each in its place: a few capitals would become two and are left."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(small if len(small := c.lower()) == 1 else c for c in text)


def _without_overlaps(found: list[Found]) -> list[Found]:
    """Return `found` by place, with those that overlap made one."""
    apart: list[Found] = []
    for one in sorted(found, key=lambda f: (f.start, -f.end)):
        if not apart or one.start >= apart[-1].end:
            apart.append(one)
        elif one.end > apart[-1].end:
            apart[-1] = apart[-1]._replace(end=one.end)
    return apart


def redacted(text: str) -> tuple[str, list[str]]:
    """Return `text` with "[redacted: github token]" and the like in the place of its secrets, and what they were."""
    found = secrets_in(text)
    for one in reversed(found):
        text = f"{text[: one.start]}[redacted: {one.name}]{text[one.end :]}"
    return text, [one.name for one in found]


def without_secrets(value: Any) -> tuple[Any, list[str]]:
    """Return `value` with the secrets in its texts redacted, and what they were; without any, `value` itself.

    Lists and mappings are searched at any depth, keys too. A value is also judged by its key: `{"password": "…"}`.
    Numbers (an embedding is a list of them) are passed over.
    """
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return _without_in_mapping(value)
    if isinstance(value, list | tuple | set | frozenset) and not (value and isinstance(next(iter(value)), float)):
        return _without_in_list(value)
    return value, []


def _without_in_list(value: Collection[Any]) -> tuple[Any, list[str]]:
    made = [without_secrets(one) for one in value]
    names = [name for _, found in made for name in found]
    return ([one for one, _ in made] if names else value), names


def _names_by_key(key: Any, value: Any) -> list[str]:
    """Return which secrets a text or whole number is, judged by its key; one number in hundreds that are some system's
    ids looks like a card's.
    """
    if not isinstance(key, str) or isinstance(value, bool) or not isinstance(value, str | int):
        return []
    if isinstance(value, int) and _ID.search(key):
        return []
    said = f'{key}: "{value}"' if isinstance(value, str) else f"{key}: {value}"
    return [found.name for found in secrets_in(said) if found.end > len(key)]


def _without_in_mapping(value: Mapping[Any, Any]) -> tuple[Any, list[str]]:
    made: dict[Any, Any] = {}
    names: list[str] = []
    for key, one in value.items():
        clean_key, in_key = redacted(key) if isinstance(key, str) else (key, [])
        clean, inside = without_secrets(one)
        if not inside and (inside := _names_by_key(key, one)):
            clean = f"[redacted: {inside[0]}]"
        made[clean_key] = clean
        names += in_key + inside
    return (made if names else value), names
