"""The files of a zip: what they are called, when they were changed, and which are not read."""

from __future__ import annotations

import stat
import zipfile
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from pgengram.transfer.input.compression import refuse_bomb

LEADS_OUT: Final = "it leads out of the folder"


def changed_at(entry: zipfile.ZipInfo) -> datetime | None:
    """Return when a file of a zip was changed; a zip knows no time zone, and 1980 is none."""
    try:
        return datetime(*entry.date_time, tzinfo=UTC) if entry.date_time[0] > 1980 else None
    except ValueError:
        return None


def entry_path(entry: zipfile.ZipInfo) -> str:
    """Return the path of a file in a zip: Windows may write it with backslashes, and macOS as UTF-8 without saying so."""
    name = entry.filename
    if not entry.flag_bits & 0x800:
        with suppress(UnicodeError):
            name = name.encode("cp437").decode()
    return name.replace("\\", "/")


def leads_out(parts: tuple[str, ...]) -> bool:
    """Whether a path of these parts is absolute, begins with a drive, or climbs."""
    return ".." in parts or parts[:1] == ("/",) or any(":" in part for part in parts[:1])


def unreadable(entry: zipfile.ZipInfo) -> str:
    """Return why a file of a zip is not read; empty where it is."""
    if stat.S_ISLNK(entry.external_attr >> 16):
        return LEADS_OUT
    try:
        refuse_bomb(entry.file_size, entry.compress_size)
    except ValueError as error:
        return str(error)
    return "it is encrypted" if entry.flag_bits & 1 else ""
