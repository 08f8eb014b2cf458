"""Texts that others keep for us: whoever changes one breaks its seal."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any, Final

SEAL_BYTES: Final = 32


def sealed(key: bytes, purpose: str, value: Any) -> str:
    """Return a value, as JSON, with a seal of the key; in letters that URLs and forms keep as they are."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return _in_letters(_seal(key, purpose, text) + text)


def value_of(key: bytes, purpose: str, given: str) -> Any:
    """Return the value of a text that was sealed with the key for this purpose; None for any other text, and for any
    other spelling of it.
    """
    try:
        data = base64.b64decode(given + "=" * (-len(given) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    seal, text = data[:SEAL_BYTES], data[SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal(key, purpose, text)) or given != _in_letters(data):
        return None
    return json.loads(text.decode("utf-8", "surrogatepass"))


def _in_letters(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _seal(key: bytes, purpose: str, text: bytes) -> bytes:
    return hmac.digest(key, purpose.encode() + b" " + text, "sha256")
