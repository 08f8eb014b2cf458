"""Unpacks an archive of files into an empty folder.

usage: python -I -S unpack.py ARCHIVE FOLDER

A process of its own: a thread would wait at each of a thousand files for its turn with the program's imports.
"""

from __future__ import annotations

import io
import lzma
import os
import sys
import tarfile


def unpack(packed: str, folder: str) -> None:
    """Write the files of a .tar.xz, which nobody else may read."""
    with lzma.open(packed) as file:
        data = memoryview(file.read())
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for entry in archive:
            path = f"{folder}/{entry.name}"
            if entry.isdir():
                os.mkdir(path, 0o700)
                continue
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as target:
                target.write(data[entry.offset_data : entry.offset_data + entry.size])


if __name__ == "__main__":
    unpack(*sys.argv[1:])
