"""When two memories say the same."""

from __future__ import annotations

import hashlib
import unicodedata
from datetime import datetime

from pgengram.fields import as_utc


def folded(text: str) -> str:
    """Return `text` for comparison: Unicode composed, case folded, white space collapsed and trimmed."""
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).split())


def canonical(text: str) -> str:
    """Return `text` without what says nothing: how Unicode composes it, its first letter's case, white space around it
    and at the ends of lines, and more than one space within a line. How far lines are indented stays: code means
    something else otherwise.
    """
    lines = unicodedata.normalize("NFC", text).strip().splitlines()
    kept = "\n".join(line[: len(line) - len(line.lstrip())] + " ".join(line.split()) for line in lines)
    return kept[:1].lower() + kept[1:]


def content_hash(
    content: str,
    *,
    user: str | None,
    project: str | None,
    collection: str | None,
    speaker: str | None,
    occurred_at: datetime | None,
) -> bytes:
    """Return 16 bytes that are equal for memories that say the same about the same.

    The text decides letter by letter: PATH is not path. The same text of another speaker, about another person or
    project, or of another day is another memory.
    """
    about = (user or "", project or "", collection or "", speaker or "")
    identity = "\0".join([canonical(content), *map(folded, about), as_utc(occurred_at) or ""])
    return hashlib.sha256(identity.encode()).digest()[:16]  # 128 bits keep every index on it half as large
