"""Compressed files, read piece by piece and within bounds: gzip, Zstandard, xz and bzip2."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final, cast

BOMB: Final = (64 << 20, 200)  # bytes unpacked, and how many times as many as packed, that together are a bomb
TOO_MUCH: Final = f"it unpacks to more than {BOMB[1]} times its size"
ENCRYPTED: Final = "age"
# How each begins, and what unpacks it where this can't.
BEGINS: Final = {
    b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\0": "xz", b"BZh": "bzip2",
    b"age-encryption.org/": ENCRYPTED, b"-----BEGIN AGE ENCRY": ENCRYPTED, b"\x04\x22\x4d\x18": "lz4", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!\x1a\x07": "unrar", b"\x1f\x9d": "uncompress",
}  # fmt: skip
CHUNK: Final = 1 << 20  # bytes read at once
READ: Final = frozenset({"gzip", "zstd", "xz", "bzip2"})
ENDINGS: Final = frozenset({".gz", ".zst", ".zstd", ".xz", ".bz2", ".lz4", ".7z", ".rar", ".Z"})
# Of several files, which are not read inside a folder, and what to do with each.
ARCHIVES: Final = {".zip": "an archive, which can be imported by itself"} | dict.fromkeys(
    (".tar", ".tgz", ".7z", ".rar"), "an archive: unpack it and import the folder"
)
MOST_OF_A_MARK: Final = max(map(len, BEGINS))


def plain_name(path: PurePosixPath) -> PurePosixPath:
    """Return what a file is called once it is unpacked."""
    return path.with_suffix("") if path.suffix in ENDINGS and path.stem else path


def compression_of(begins: bytes) -> str:
    """Return how a file that begins so is compressed; empty where it is not."""
    if begins[1:4] == b"\x2a\x4d\x18" and begins[0] >> 4 == 5:  # a frame of Zstandard that is skipped, before others
        return "zstd"
    return next((name for mark, name in BEGINS.items() if begins.startswith(mark)), "")


def _unpacked_stream(packed: BinaryIO, how: str) -> BinaryIO:
    """Return a compressed stream as the stream that it was.

    Raises:
        ValueError: it is compressed in a way that is not read.
    """
    if how == ENCRYPTED:
        raise ValueError("it is encrypted; `pgengram import` asks for its passphrase where it is given alone")
    if how not in READ:
        raise ValueError(f"it is compressed; unpack it with {how} and import that")
    match how:
        case "gzip":
            opened: Any = gzip.GzipFile(fileobj=packed)
        case "zstd":
            opened = _zstd().ZstdFile(packed)
        case "xz":
            opened = lzma.LZMAFile(packed)  # noqa: SIM115 - it ends with what it reads
        case _:
            opened = bz2.BZ2File(packed)
    return cast("BinaryIO", opened)


def read_unpacked(opened: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield what a stream of `size` bytes holds: unpacked if it is compressed, and otherwise no more than its size."""
    begins = opened.read(min(MOST_OF_A_MARK, size))
    how = compression_of(begins)
    if how:
        opened.seek(0)
        stream = _unpacked_stream(opened, how)
        while chunk := stream.read(CHUNK):
            yield chunk
        return
    chunk = begins + opened.read(min(CHUNK, size - len(begins)))
    while chunk:
        size -= len(chunk)
        yield chunk
        chunk = opened.read(min(CHUNK, size))


def _zstd() -> Any:
    """Return the module of the standard library, which older versions of Python have as a package; loading it takes a
    moment that only an import with such a file pays.
    """
    return importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def refuse_bomb(read: int, packed: int) -> None:
    """Refuse what unpacks to far more than any text does.

    Raises:
        ValueError: it does.
    """
    if read > BOMB[0] and read > BOMB[1] * packed:
        raise ValueError(TOO_MUCH)
