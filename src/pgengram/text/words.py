"""Which words a memory is found by, beyond the stems that PostgreSQL makes of its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

MAX_DETAIL_CHARACTERS: Final = 4_000  # of metadata that is searched; more would drown the content
MAX_EXTRA_TERMS: Final = 4_000

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# Identifiers whose punctuation the stemmer would cut: std::vector, PGENGRAM_X, v1.2.3, a-b.c, user@host.
_IDENTIFIER = re.compile(r"[\w@#$]+(?:(?:::|->|[._/:@+#-])[\w@#$]+)+[+#]*|\w+(?:\+\+|#)|\w*_\w+")
# Scripts written without spaces, or whose words carry their endings with them: two characters at a time.
_UNSPACED = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\u0e00-\u0eff\U00020000-\U0003134f]+"
)


def words(text: str) -> list[str]:
    """Return the words of `text` in order, as written."""
    return _WORD.findall(text)


def extra_terms(text: str) -> list[str]:
    """Return the terms of `text` that stemming loses: whole identifiers, and character pairs of unspaced scripts."""
    found = [match.lower() for match in _IDENTIFIER.findall(text)]
    for run in _UNSPACED.findall(text):
        found += [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
    return found[:MAX_EXTRA_TERMS]


def speaker_terms(speaker: str | None) -> list[str]:
    """Return terms that say who spoke, so that a question's words can be known as names."""
    return [f"speaker:{word.lower()}" for word in words(speaker or "")]


def searched_text(
    content: str, *, speaker: str | None, tags: list[str], occurred_at: datetime | None, metadata: dict[str, Any]
) -> str:
    """Return the text whose stems a memory is found by: content, who said it, its tags, its day and its detail."""
    detail = " ".join(_texts(metadata))[:MAX_DETAIL_CHARACTERS]
    day = f"{occurred_at:%d %B %Y}".lstrip("0") if occurred_at else ""
    return "\n".join(part for part in (content, speaker or "", " ".join(tags), day, detail) if part)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
