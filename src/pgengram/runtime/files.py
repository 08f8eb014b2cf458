"""Files: those that another program holds open, paths that a program without Unicode can read, and hashes."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

# Windows refuses to rename or remove what anybody has open. A virus scanner, an indexer or OneDrive lets go in seconds.
PATIENCE_S = 10.0 if sys.platform == "win32" else 0.0
PAUSE_S: Final = 0.1
HELD: Final = (errno.EACCES, errno.EPERM, errno.ENOTEMPTY)  # the last while a removed file is still open

UNREADABLE: Final = (
    "PostgreSQL cannot read the path {path}: it has characters that are not in the code page of this Windows."
)
CODE_PAGE = "mbcs" if sys.platform == "win32" else None  # what paths are converted to for C programs; None for no loss


def rename(source: Path, target: Path) -> None:
    """Rename a file or folder; a file that has the name already is replaced."""
    _patiently(lambda: os.replace(source, target))


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, whoever else removes some of it meanwhile."""

    def remove() -> None:
        while folder.exists():
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)

    _patiently(remove)


def _patiently(change: Callable[[], None]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return change()
        except OSError as error:
            if error.errno not in HELD or time.monotonic() >= deadline:
                raise
        time.sleep(PAUSE_S)


def for_c_programs(path: Path) -> Path | None:
    """Return a spelling of an existing path that survives the code page of Windows, or None when there is none.

    That is the path itself or its short form, such as `C:\\Users\\8F3A~1`, which a drive may have or not.
    """
    return next((one for one in (path, short_form(path)) if _fits_code_page(one)), None)


def short_form(path: Path) -> Path:
    """Return an existing path in its 8.3 form; on other systems than Windows, and where the drive keeps none, as it
    is.
    """
    if sys.platform != "win32":
        return path
    import ctypes

    buffer = ctypes.create_unicode_buffer(32_768)
    length = ctypes.windll.kernel32.GetShortPathNameW(str(path), buffer, len(buffer))
    return Path(buffer.value) if length else path


def _fits_code_page(path: Path) -> bool:
    if CODE_PAGE is None:
        return True
    try:
        str(path).encode(CODE_PAGE)
    except UnicodeEncodeError:
        return False
    return True


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
