"""Hooks of assistants that run a script for each event, which is called like the event: how ours get there and out again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from pgengram.cli.clients import config_edits
from pgengram.cli.clients.config_edits import Edit
from pgengram.errors import Conflict
from pgengram.local.events import FORMS

FOLDERS: Final = {"cline": "Documents/Cline/Hooks"}  # below the home folder
EXECUTABLE: Final = 0o755
# Cline wants an answer whatever happens.
SCRIPT: Final = """\
#!/bin/sh
# Made by `pgengram connect {client} --hooks`; `pgengram disconnect {client}` takes it away.
answer=$({command})
[ -n "$answer" ] || answer='{{"cancel": false}}'
printf '%s\\n' "$answer"
"""


def connecting(client: str, words: list[str], *, recall: bool) -> list[Edit]:
    """Return the edits that write our scripts, and take away those that are not wanted any more.

    Args:
        client: one of `FOLDERS`.
        words: the command of our hook.
        recall: whether only the events at which memories are brought are asked for.

    Raises:
        Conflict: somebody else has a script for one of the events.
    """
    form = FORMS[client]
    wanted = SCRIPT.format(client=client, command=shlex.join(words)).encode()
    edits = []
    for event, kind in form.kinds.items():
        path = folder_of(client) / event
        before, text = config_edits.read_file(path)
        if before is not None and not _is_ours(text, client):
            raise Conflict(
                f"{path} is a script of somebody else, and there can be only one for each event.",
                f"Nothing was changed. Let it run `{shlex.join(words)}` with its standard input, too.",
            )
        edits.append(Edit(path, before, wanted if kind in form.listens or not recall else None, wholly_ours=True))
    return edits


def disconnecting(client: str) -> list[Edit]:
    """Return the edits that take our scripts away; none where there are none."""
    there = [
        (path, *config_edits.read_file(path)) for path in (folder_of(client) / event for event in FORMS[client].kinds)
    ]
    return [Edit(path, before, None) for path, before, text in there if before is not None and _is_ours(text, client)]


def make_executable(edits: list[Edit]) -> None:
    """Let the scripts that were written be run."""
    for edit in edits:
        if edit.after is not None:
            edit.path.chmod(EXECUTABLE)


def folder_of(client: str) -> Path:
    """Return where the scripts of a client's user are."""
    return Path.home() / FOLDERS[client]


def _is_ours(text: str, client: str) -> bool:
    return "pgengram" in text and f" hook {client}" in text
