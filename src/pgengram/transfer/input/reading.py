"""What readers of several formats share: which files they read, and the projects of folders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from pgengram.runtime.projects import project_of
from pgengram.transfer.input.json_records import Broken, Record
from pgengram.transfer.input.sources import File, Source, is_one_of
from pgengram.transfer.records import Left

NOTHING_IN_IT = "a file of another kind"


def files_of(source: Source, *patterns: str) -> Iterator[File | Left]:
    """Yield the files that match; a file that was given by itself may have any name."""
    alone = not source.path.is_dir() and len(source.files) == 1
    for file in source.files:
        if file.reason:
            yield Left(file.place, file.reason)
        elif alone or is_one_of(file, patterns):
            yield file
        else:
            yield Left(file.place, NOTHING_IN_IT, by_design=True)


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
