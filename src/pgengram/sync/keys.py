"""The key of a synchronised memory, and the code by which a person carries it to another machine."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from dataclasses import dataclass
from typing import Final, Self

from pgengram.errors import InvalidInput

KEY_BYTES: Final = 32
CHECK_BYTES: Final = 3  # of a code, by which a mistyped one is noticed
GROUP: Final = 4  # characters between two hyphens


@dataclass(frozen=True, slots=True)
class Key:
    """32 random bytes. Whoever has them can read and write the memory; the folder's name is made of them."""

    secret: bytes

    @classmethod
    def new(cls) -> Self:
        """Return a key that nobody else has."""
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def from_code(cls, code: str) -> Self:
        """Read what `code` returned, however it was spaced.

        Raises:
            InvalidInput: it is not such a code, or was mistyped.
        """
        letters = "".join(code.upper().replace("-", " ").split()).replace("0", "O").replace("1", "I").replace("8", "B")
        try:
            data = base64.b32decode(letters + "=" * (-len(letters) % 8))
        except ValueError:
            data = b""
        secret, check = data[:KEY_BYTES], data[KEY_BYTES:]
        if len(secret) != KEY_BYTES or not hmac.compare_digest(check, _check(secret)):
            raise InvalidInput(
                "That is not a whole pairing code.",
                "`pgengram sync code` on the other machine prints it; paste all of it.",
            )
        return cls(secret)

    @property
    def code(self) -> str:
        """The code that joins another machine: letters and digits in groups."""
        letters = base64.b32encode(self.secret + _check(self.secret)).decode().rstrip("=")
        return "-".join(letters[place : place + GROUP] for place in range(0, len(letters), GROUP))

    @property
    def folder_name(self) -> str:
        """What the folder of this memory is called: nothing that tells whose it is."""
        return self._derived(b"folder")[:10].hex()

    @property
    def cipher_key(self) -> bytes:
        """32 bytes to encrypt with."""
        return self._derived(b"files")

    def _derived(self, purpose: bytes) -> bytes:
        return hmac.digest(self.secret, b"pgengram sync " + purpose, "sha256")


def _check(secret: bytes) -> bytes:
    return hashlib.sha256(b"pgengram sync code" + secret).digest()[:CHECK_BYTES]
