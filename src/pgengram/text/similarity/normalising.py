"""When two memories say the same."""

from __future__ import annotations

import hashlib
import unicodedata
from datetime import datetime

from pgengram.fields import as_utc


def folded(text: str) -> str:
    """Return `text` for comparison: Unicode composed, case folded, white space collapsed and trimmed."""
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).split())


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

    The words alone do not decide: the same words of another speaker, about another person or project, or of another
    day are another memory.
    """
    parts = (content, user or "", project or "", collection or "", speaker or "")
    identity = "\0".join([*(folded(part) for part in parts), as_utc(occurred_at) or ""])
    return hashlib.sha256(identity.encode()).digest()[:16]  # 128 bits keep every index on it half as large
