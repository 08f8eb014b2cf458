"""What a caller gave, as an answer repeats it: clipped, and a content that is too long in parts."""

from __future__ import annotations

import json
from typing import Final

from pgengram.errors import InvalidInput
from pgengram.text.secrets.redaction import redacted

MAX_ECHO: Final = 64  # characters of a caller's own word in an answer
PART: Final = 4_000  # characters of a content that is offered in parts


def clipped(value: object) -> str:
    """Return a caller's own word, fit for an answer: short, and without secrets."""
    return redacted(str(value))[0][:MAX_ECHO].encode("utf-8", "replace").decode()


def content_too_long(content: str, most: int) -> InvalidInput:
    """Return the refusal of a content that is too long, with the call that stores it in parts."""
    parts = [f"{clipped(part[:30]).strip()} … {clipped(part[-30:]).strip()}" for part in split(content, PART)]
    items = json.dumps([{"content": part} for part in parts], ensure_ascii=False)
    return InvalidInput(
        f"content has {len(content):,} characters; one memory holds {most:,}.",
        f"Nothing was stored. Better store each fact alone; to store all of it call create_memories(items={items}), "
        "each part in full with the other fields of this call.",
    )


def split(text: str, most: int) -> list[str]:
    """Return a text in parts of at most `most` characters, which end with a paragraph, a sentence or a word."""
    parts = []
    while len(text) > most:
        head = text[:most]
        end = max(head.rfind("\n\n"), head.rfind(". ") + 1, 0) or max(head.rfind(" "), 0) or most
        parts.append(text[:end])
        text = text[end:].lstrip()
    return [*parts, text]
