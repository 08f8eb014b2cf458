"""Passphrases and keys of encrypted exports, and where what is imported is read from."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import typer

from pgengram.cli.runtime import answer_of
from pgengram.errors import InvalidInput
from pgengram.transfer import encryption

Lock = Callable[[bytes], bytes]  # encrypts
WITHOUT_TERMINAL: Final = "A passphrase is needed, but there is no terminal to type it at."


def encryption_of(recipients: Sequence[str], *, encrypt: bool) -> Lock | None:
    """Return how an export is encrypted: for keys, or with a passphrase that is asked for; None if it is not."""
    if recipients:
        return partial(encryption.for_recipients, recipients=encryption.recipients_of(recipients))
    if not encrypt:
        return None
    passphrase = _typed_passphrase("--recipient encrypts for a key instead.", confirms=True)
    return partial(encryption.with_passphrase, passphrase=passphrase)


@contextmanager
def readable_file(source: str, identity: Path | None) -> Iterator[str]:
    """Yield the path of what is to be read.

    Standard input, `-`, is kept in a file meanwhile, as it is read twice; and so is what was encrypted.
    """
    if source != "-" and not _is_encrypted(Path(source)):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="pgengram-") as folder:
        path = Path(folder) / ("stdin" if source == "-" else Path(source).name)
        if source == "-":
            with path.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            source = str(path)
        if _is_encrypted(Path(source)):
            opened = _decrypted(Path(source).read_bytes(), identity)
            path = path.with_suffix("") if path.suffix == encryption.ENDING else path
            path.write_bytes(opened)
        yield str(path)


def _is_encrypted(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return encryption.is_encrypted(file.read(encryption.HEAD))
    except (OSError, ValueError):  # a folder, a link, nothing at all: the import says so
        return False


def _decrypted(content: bytes, identity: Path | None) -> bytes:
    """Return what was encrypted, opened with a key or with a passphrase that is asked for."""
    if identity is not None:
        return encryption.opened_with_key(content, identity)
    if not encryption.takes_passphrase(content):
        raise InvalidInput("The file is encrypted for a key.", "Give the file of the secret one with --identity.")
    return encryption.opened_with_passphrase(content, _typed_passphrase("Run the command in one.", confirms=False))


def _typed_passphrase(otherwise: str, *, confirms: bool) -> str:
    """Return the passphrase that a person types, twice where it is a new one."""
    if not sys.stdin.isatty():
        raise InvalidInput(WITHOUT_TERMINAL, otherwise)
    return answer_of(lambda: str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirms, err=True)))
