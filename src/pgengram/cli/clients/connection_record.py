"""Which clients were connected to a store, so that one which has lost its entry can be told.

Clients rewrite their settings: after an update, on a login, or from a copy in memory when they end.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Final

from pgengram.data_folder import make_data_folder
from pgengram.settings import Settings

FILE: Final = "connected.json"  # in the data folder

Connection = tuple[str, Path, str]  # the client's name, its file, and what it calls our entry


def connections_made(settings: Settings) -> list[Connection]:
    """Return the clients that were connected, by the order of that; none where nothing can be read."""
    try:
        rows = json.loads((settings.data_path / FILE).read_text("utf-8"))
        return [(str(client), Path(path), str(name)) for client, path, name in rows]
    except (OSError, ValueError, TypeError):
        return []


def note_connected(settings: Settings, client: str, path: Path, name: str) -> None:
    """Note that a client was connected."""
    one = (client, path.absolute(), name)
    _write_record(settings, [*(other for other in connections_made(settings) if other != one), one])


def note_disconnected(settings: Settings, client: str, path: Path, name: str) -> None:
    """Note that a client was disconnected, or is to be forgotten."""
    before, one = connections_made(settings), (client, path.absolute(), name)
    if one in before:
        _write_record(settings, [other for other in before if other != one])


def _write_record(settings: Settings, connections: list[Connection]) -> None:
    """Keep the list for its owner; without a data folder that can be written, doctor says less."""
    path = settings.data_path / FILE
    with contextlib.suppress(OSError):
        make_data_folder(str(settings.data_path))
        rows = [[client, str(file), name] for client, file, name in connections]
        with open(f"{path}.new", "w", encoding="utf-8", opener=_private_opener) as written:
            json.dump(rows, written, indent=1)
        os.replace(f"{path}.new", path)


def _private_opener(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
