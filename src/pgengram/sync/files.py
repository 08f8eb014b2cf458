"""Files of records that only those who have the key can read, written whole or not at all.

A file is `MAGIC` and a line of JSON that says what is needed to read the rest, then frames. A frame is 4 bytes of
length, big-endian, 12 random bytes (the nonce) and what ChaCha20-Poly1305 made of it; what was encrypted is compressed
by zstd and is lines of JSON. The first line and the frame's number, negative for the last one, are authenticated with
each frame, so that no frame can be left out, moved, or taken from another memory.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, Final

from pgengram.errors import PgengramError
from pgengram.sync.keys import Key

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC: Final = b"pgengram-sync\n"
FORMAT: Final = 1
HEAD_BYTES: Final = 10_000  # at most, of the line about a file
FRAME_BYTES: Final = 1_000_000  # of lines in one frame, before they are compressed
LARGEST_FRAME: Final = 64_000_000  # bytes, encrypted, that are read into memory
LARGEST_TEXT: Final = 256_000_000  # bytes that one frame may grow to
NONCE_BYTES: Final = 12
LENGTH_BYTES: Final = 4
MODE: Final = 0o600
WAIT: Final = "Wait until the folder is up to date; if it stays so, copy it again from the machine that wrote it."

Record = dict[str, Any]


class Unreadable(PgengramError):
    """A file that cannot be read, now or ever, and why."""

    code = "CONFLICT"


def write(path: Path, key: Key, records: Iterable[Mapping[str, Any]], head: Mapping[str, Any]) -> int:
    """Write records under a name that is there only once all of it is on the disk; return how many bytes that are.

    Raises:
        OSError: the folder is away, full, or not to be written to.
    """
    with appearing(path) as file:
        first = MAGIC + json.dumps({"format": FORMAT, **head}, sort_keys=True).encode() + b"\n"
        file.write(first)
        cipher = _cipher(key)
        for number, lines, is_last in _numbered(_frames(records)):
            nonce = os.urandom(NONCE_BYTES)
            sealed = nonce + cipher.encrypt(nonce, zstd.compress(lines), _bound(first, number, is_last=is_last))
            file.write(len(sealed).to_bytes(LENGTH_BYTES, "big") + sealed)
        return file.tell()


def put_bytes(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file as it was made elsewhere, under a name that is there only once all of it is on the disk.

    Raises:
        OSError: see `write`.
    """
    with appearing(path) as file:
        for piece in pieces:
            file.write(piece)


def written_at(data: bytes) -> int:
    """Return when a file was written, in microseconds as the clock of its device had it; given its first bytes.

    Raises:
        Unreadable: it is none of ours, or of a newer version.
    """
    return int(_head(io.BytesIO(data))[1].get("at", 0))


def written_by(data: bytes) -> str:
    """Return which program wrote a file that has what this one doesn't know, in words; given its first bytes.

    Raises:
        Unreadable: see `written_at`.
    """
    return _program_of(_head(io.BytesIO(data))[1])


def _program_of(head: Record) -> str:
    return f"pgengram {head['version']}" if head.get("version") else "a newer pgengram"


def read(path: Path, key: Key) -> Iterator[Record]:
    """Yield the records of a file, a frame in memory at a time.

    Raises:
        Unreadable: it is none of ours, of a newer version or another key, damaged, or not all there yet.
        OSError: it cannot be read.
    """
    cipher = _cipher(key)
    with path.open("rb") as file:
        first, _ = _head(file)
        for number in count():
            sealed, is_last = _frame(file)
            yield from _opened(cipher, sealed, _bound(first, number, is_last=is_last))
            if is_last:
                return


def _head(file: IO[bytes]) -> tuple[bytes, Record]:
    if file.read(len(MAGIC)) != MAGIC:
        raise Unreadable("It is not a file of `pgengram sync`.", "Leave it, or take it out of the folder.")
    line = file.readline(HEAD_BYTES)
    try:
        found = dict(json.loads(line))
        version = int(found["format"])
    except (ValueError, TypeError, KeyError):
        raise Unreadable("It is not all there yet.", WAIT) from None
    if version > FORMAT:
        raise Unreadable(
            f"It is of format {version}, which {_program_of(found)} wrote.",
            "Update pgengram on this machine; what it writes can be read there meanwhile.",
        )
    return MAGIC + line, found


def _frame(file: IO[bytes]) -> tuple[bytes, bool]:
    size = int.from_bytes(file.read(LENGTH_BYTES), "big")
    sealed = file.read(size) if NONCE_BYTES < size <= LARGEST_FRAME else b""
    if not sealed or len(sealed) < size:
        raise Unreadable("It is not all there yet, or damaged.", WAIT)
    following = file.peek(1)[:1]  # type: ignore[attr-defined]
    return sealed, not following


def _opened(cipher: Any, sealed: bytes, bound: bytes) -> Iterator[Record]:
    from cryptography.exceptions import InvalidTag

    try:
        packed = cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
    except InvalidTag:
        raise Unreadable("It was changed, is not all there, or was written with another key.", WAIT) from None
    for line in _unpacked(packed).splitlines():
        yield json.loads(line)


def _unpacked(packed: bytes) -> bytes:
    unpacking = zstd.ZstdDecompressor()
    text = unpacking.decompress(packed, max_length=LARGEST_TEXT)
    if not unpacking.eof:
        raise Unreadable("It holds more at once than can be read.", "Update pgengram on this machine.")
    return text


def _cipher(key: Key) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key.cipher_key)


def _bound(first: bytes, number: int, *, is_last: bool) -> bytes:
    return first + str(-1 - number if is_last else number).encode()


def _frames(records: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    lines: list[bytes] = []
    size = 0
    for record in records:
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
        if lines and size + len(line) > FRAME_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    yield b"".join(lines)


def _numbered(frames: Iterator[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Yield frames with their numbers, and whether it is the last one."""
    waiting = next(frames)
    for number in count():
        following = next(frames, None)
        yield number, waiting, following is None
        if following is None:
            return
        waiting = following


@contextmanager
def appearing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` at once when it is whole; nothing is left of one that was interrupted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with os.fdopen(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), MODE), "wb"
        ) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
