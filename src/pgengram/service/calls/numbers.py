"""Numbers as people and models write them: of ten, of a hundred, in words, out of bounds."""

from __future__ import annotations

import re
from typing import Any, Final

from pgengram.json_schema import Schema
from pgengram.service.calls.vocabulary import EVERYTHING, LEVELS

OF_TEN: Final = 3  # from here on a number is one of ten; below it may as well be one of three or a slip
_SHARE: Final = re.compile(r"(\d+(?:[.,]\d+)?)\s*(%|(?:/|of|out of)\s*(\d+))?")


def read_share(value: Any) -> float | None:
    """Return what is meant by a number between 0 and 1: of ten, of a hundred, or in a word; None when that is not
    sure.
    """
    if isinstance(value, str):
        return _share_in_words(value.strip())
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return _share_of(value)


def _share_in_words(value: str) -> float | None:
    word = re.sub(r"[\s-]+", "_", value.lower())
    if word in LEVELS:
        return LEVELS[word]
    if not (match := _SHARE.fullmatch(value)):
        return None
    number = float(match[1].replace(",", "."))
    if not match[2]:
        return _share_of(number)
    whole = 100 if match[2] == "%" else int(match[3])
    return round(number / whole, 6) if whole and whole >= number else None


def _share_of(number: float) -> float | None:
    if 0 <= number <= 1:
        return number
    if OF_TEN <= number <= 10:
        return round(number / 10, 6)
    return round(number / 100, 6) if 10 < number <= 100 else None


def clamped(name: str, value: Any, node: Schema) -> int | None:
    """Return a whole number within its bounds; what is below the least only where the least says nearly the same."""
    if isinstance(value, str):
        if "maximum" in node and value.strip().lower() in EVERYTHING | {"max"}:
            return int(node["maximum"])
        if not re.fullmatch(r"-?\d{1,12}", value.strip()):
            return None
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or name == "expected_version":
        return None
    if value < node.get("minimum", value):
        return int(node["minimum"]) if name in ("offset", "max_chars") else None
    return min(value, int(node.get("maximum", value)))
