"""The secrets of tokens, each computed from the one before with the server's key.

So a lost answer can be given once more, though only hashes of secrets are kept.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

SEAL_BYTES: Final = 8


def hashed(text: str) -> bytes:
    """Return what is kept of a secret that cannot be guessed: a fast hash is enough for it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def with_seal(key: bytes, grant_id: str, secret: str) -> str:
    """Return a refresh secret with a seal by which it is known when its hash is kept no longer."""
    text = f"seal {grant_id} {secret}".encode("utf-8", "surrogatepass")
    return secret + hmac.digest(key, text, "sha256")[:SEAL_BYTES].hex()


def was_given(key: bytes, grant_id: str, secret: str) -> bool:
    """Whether a refresh secret is one that this grant had once; a guess ends nobody's connection."""
    made = with_seal(key, grant_id, secret[: -2 * SEAL_BYTES])
    return hmac.compare_digest(made.encode("utf-8", "surrogatepass"), secret.encode("utf-8", "surrogatepass"))


def following(key: bytes, grant_id: str, number: int, secret: str) -> str:
    """Return the refresh secret after another, of a generation's number."""
    text = f"refresh {grant_id} {number} {secret}".encode()
    return with_seal(key, grant_id, _in_base64(hmac.digest(key, text, "sha256")))


def access_token(key: bytes, grant_id: str, number: int, secret: str) -> tuple[str, str]:
    """Return the id and the secret of the access token that goes with a refresh secret."""
    derived = hmac.digest(key, f"access {grant_id} {number} {secret}".encode(), "sha384")
    return derived[:6].hex(), _in_base64(derived[6:38])


def _in_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
