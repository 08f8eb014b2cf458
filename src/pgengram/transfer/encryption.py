"""Exports that only the owner of a passphrase or of a key can read, as the program age writes and reads them
(age-encryption.org/v1).

The library is an extra, as most stores never need it.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pgengram.errors import InvalidInput

BEGINS: Final = b"age-encryption.org/v1"
BEGINS_AS_TEXT: Final = b"-----BEGIN AGE ENCRYPTED FILE-----"
ENDING: Final = ".age"
PASSPHRASE: Final = b"-> scrypt "  # in the second line of what a passphrase opens
HEAD: Final = 200  # bytes that hold that line
SECRET: Final = "AGE-SECRET-KEY-1"  # noqa: S105 - how a key begins
MISSING: Final = InvalidInput(
    "Encryption needs the package pyrage, which is not installed.", "Install it beside pgengram: pip install pyrage."
)


def is_encrypted(begins: bytes) -> bool:
    """Whether a file that begins so is encrypted."""
    return begins.startswith((BEGINS, BEGINS_AS_TEXT))


def takes_passphrase(content: bytes) -> bool:
    """Whether a passphrase opens an encrypted file, rather than a key."""
    first, _, rest = content[:HEAD].partition(b"\n")
    if first.startswith(BEGINS_AS_TEXT):
        rest = base64.b64decode(rest.partition(b"\n")[0]).partition(b"\n")[2]
    return rest.startswith(PASSPHRASE)


def with_passphrase(content: bytes, passphrase: str) -> bytes:
    """Return what only a passphrase opens."""
    return bytes(_library().passphrase.encrypt(content, passphrase))


def recipients_of(named: Sequence[str]) -> list[Any]:
    """Return public keys, `age1…` or of SSH, from texts or files with one on each line.

    Raises:
        InvalidInput: one isn't such a key.
    """
    pyrage = _library()
    kinds = (pyrage.x25519.Recipient, pyrage.ssh.Recipient)
    return [_recipient(line, kinds, pyrage.RecipientError) for one in named for line in _recipient_lines(one)]


def for_recipients(content: bytes, recipients: Sequence[Any]) -> bytes:
    """Return what only the owners of some keys can open."""
    return bytes(_library().encrypt(content, recipients))


def opened_with_passphrase(content: bytes, passphrase: str) -> bytes:
    """Return what was encrypted.

    Raises:
        InvalidInput: the passphrase is another one, or the file is damaged.
    """
    pyrage = _library()
    try:
        return bytes(pyrage.passphrase.decrypt(content, passphrase))
    except pyrage.DecryptError:
        raise InvalidInput(
            "This passphrase doesn't open the file, or the file is damaged.", "Nothing was imported. Try again."
        ) from None


def opened_with_key(content: bytes, identity: Path) -> bytes:
    """Return what was encrypted for a key.

    Args:
        content: the encrypted file.
        identity: the file of the secret key, as age-keygen or ssh-keygen writes it.

    Raises:
        InvalidInput: there is no key in it, it is that of somebody else, or the file is damaged.
    """
    pyrage = _library()
    try:
        text = identity.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{identity} can't be read: {error}.", "Give the file of your secret key.") from None
    try:
        keys = [pyrage.x25519.Identity.from_str(line) for line in text.split() if line.startswith(SECRET)]
        keys = keys or [pyrage.ssh.Identity.from_buffer(text.encode())]
        return bytes(pyrage.decrypt(content, keys))
    except pyrage.IdentityError:
        raise InvalidInput(f"{identity} holds no secret key.", "Give a file of age-keygen or ssh-keygen.") from None
    except pyrage.DecryptError:
        raise InvalidInput(
            f"The key in {identity} doesn't open the file, or the file is damaged.", "Nothing was imported."
        ) from None


def _recipient_lines(recipient: str) -> list[str]:
    """Return a public key, or those in a file of this name."""
    try:
        lines = Path(recipient).read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return [recipient]
    return [line for line in lines if line.strip() and not line.startswith("#")]


def _recipient(line: str, kinds: Sequence[Any], error: type[Exception]) -> Any:
    for kind in kinds:
        try:
            return kind.from_str(line.strip())
        except error:
            continue
    raise InvalidInput(
        f"{line.strip()[:80]!r} is not a public key.", "Give age1… of age-keygen, ssh-ed25519 …, or a file of them."
    )


def _library() -> Any:
    """Return the library, which only those import who encrypt.

    Raises:
        InvalidInput: it is not installed.
    """
    try:
        return importlib.import_module("pyrage")
    except ImportError:
        raise MISSING from None
