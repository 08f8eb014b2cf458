"""What two values have in common, word by word."""

from __future__ import annotations

import difflib
import json
import re
from typing import Any, Final

from pgengram.ids import short

Piece = tuple[str, str]  # "same", "gone" or "new", and a text
WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")
MAX_COMPARED: Final = 4_000  # pieces of a text; longer ones are shown one after the other


def word_changes(old: Any, new: Any) -> list[Piece]:
    """Return the words of two values, each with whether it stayed, went or came."""
    before, after = _diff_text(old), _diff_text(new)
    one, other = WORDS.findall(before), WORDS.findall(after)
    if max(len(one), len(other)) > MAX_COMPARED or not one or not other:
        return [piece for piece in (("gone", before), ("new", after)) if piece[1]]
    pieces: list[Piece] = []
    for verb, i, j, k, m in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if verb == "equal":
            pieces.append(("same", "".join(one[i:j])))
            continue
        pieces += [piece for piece in (("gone", "".join(one[i:j])), ("new", "".join(other[k:m]))) if piece[1]]
    return pieces


def _diff_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict) and {"to_id", "type", "strength"} <= value.keys():
        return f"{value['type']} {value['strength']} → {short(value['to_id'])}"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
