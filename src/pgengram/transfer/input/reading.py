"""What readers of several formats share: which files they read, and the projects of folders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from pgengram.errors import InvalidInput
from pgengram.runtime.projects import project_of
from pgengram.transfer.input.containers import ARCHIVES, SQLITE, Tables
from pgengram.transfer.input.json_records import NOT_UTF8, Broken, Record
from pgengram.transfer.input.sources import File, Source, is_one_of
from pgengram.transfer.records import Left

NOTHING_IN_IT = "a file of another kind"
BROTLI = ".br"  # it has no mark by which it is known
PACKED = "it is compressed; unpack it with brotli and import that"
MOST_WHOLE = 1 << 30  # bytes of a file that is read whole


def files_of(source: Source, *patterns: str) -> Iterator[File | Left]:
    """Yield the files that match; a file that was given by itself may have any name."""
    alone = not source.path.is_dir() and len(source.files) == 1
    for file in source.files:
        if file.reason:
            yield Left(file.place, file.reason)
        elif file.path.suffix == BROTLI and (
            alone or is_one_of(replace(file, path=file.path.with_suffix("")), patterns)
        ):
            yield Left(file.place, PACKED)
        elif alone or is_one_of(file, patterns):
            yield file
        elif archive := archive_of(file):
            yield Left(file.place, archive)
        else:
            yield Left(file.place, NOTHING_IN_IT, by_design=True)


def archive_of(file: File) -> str:
    """Return what is to be done with an archive of several files in a folder; nothing for any other file."""
    return next((ARCHIVES[end] for end in (PurePosixPath(file.place).suffix, file.path.suffix) if end in ARCHIVES), "")


def only_file(source: Source) -> File:
    """Return the file that was given.

    Raises:
        InvalidInput: several were, or it can't be read.
    """
    files = [file for file in source.files if not file.reason]
    if len(files) != 1 or source.path.is_dir():
        raise InvalidInput(f"{source.path} is not one file.", "Give the path of the other system's file.")
    return files[0]


def file_text(source: Source) -> str:
    """Return the text of the file that was given.

    Raises:
        InvalidInput: it can't be read, or is not text.
    """
    file = only_file(source)
    try:
        return source.content(file, MOST_WHOLE).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{file.place} can't be read: {NOT_UTF8}.", "Nothing was imported.") from None
    except ValueError as error:
        raise InvalidInput(f"{file.place}: {error}.", "Give the file that the other system wrote.") from None


def json_of(source: Source) -> Any:
    """Return what the JSON file that was given holds.

    Raises:
        InvalidInput: it is none.
    """
    try:
        return json.loads(file_text(source))
    except (ValueError, RecursionError):
        reason = f"{only_file(source).place} is not valid JSON."
        raise InvalidInput(reason, "Give the file that the other system exported.") from None


def json_memories(source: Source, hint: str) -> list[Any]:
    """Return the memories of a JSON file that is a list of them, or an object with one.

    Raises:
        InvalidInput: it is neither; `hint` says which file to give.
    """
    found = json_of(source)
    rows = found.get("memories") if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise InvalidInput(f"{only_file(source).place} has no list of memories.", hint)
    return rows


def is_sqlite(source: Source) -> bool:
    """Whether what was given is a SQLite database."""
    files = [file for file in source.files if not file.reason]
    return len(files) == 1 and not source.path.is_dir() and source.begins(files[0]).startswith(SQLITE)


def tables_of(source: Source) -> Tables:
    """Return the tables of the SQLite database that was given.

    Raises:
        InvalidInput: it is none.
    """
    file = only_file(source)
    path = source.on_disk(file)
    if path is None:
        raise InvalidInput(f"{file.place} can't be unpacked.", "Unpack it and import the database.")
    return Tables(path, file.place, source.faults)


def project_folders(source: Source) -> dict[PurePosixPath, str]:
    """Return the folders that the workspaces of an editor were opened for, by where it keeps each."""
    found: dict[PurePosixPath, str] = {}
    for file in source.files:
        if file.path.name == "workspace.json" and not file.reason:
            workspace = source.whole(file)
            uri = workspace.get("folder") if isinstance(workspace, dict) else None
            if isinstance(uri, str):
                path = unquote(urlsplit(uri).path)
                found[file.path.parent] = path[1:].replace("/", "\\") if path[2:3] == ":" else path
    return found


def records_of(source: Source, *patterns: str) -> Iterator[Record | Left]:
    """Yield the records of the files that match."""
    for file in files_of(source, *patterns):
        for record in () if isinstance(file, Left) else source.records(file):
            yield Left(record.place, record.reason) if isinstance(record, Broken) else record
        if isinstance(file, Left):
            yield file


class Projects:
    """The projects of the folders in which assistants worked, each looked up once; the folders need not be there."""

    def __init__(self) -> None:
        self._names: dict[str, str | None] = {}

    def named(self, folder: Any) -> str | None:
        """Return the name of a folder's project, if it is one's."""
        if not isinstance(folder, str) or not folder:
            return None
        if folder not in self._names:
            found = project_of(folder)
            self._names[folder] = found.name if found else (None if re.search(r"[/\\]", folder) else folder)
        return self._names[folder]
