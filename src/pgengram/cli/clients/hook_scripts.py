"""Hooks of assistants that run a script for each event, which is called like the event: how ours get there and out
again.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Final

import platformdirs

from pgengram.cli.clients import config_edits
from pgengram.cli.clients.config_edits import Edit
from pgengram.errors import Conflict
from pgengram.local.events import FORMS

WINDOWS: Final = sys.platform == "win32"
FOLDERS: Final = {"cline": "Cline/Hooks"}  # below the folder of documents
EXECUTABLE: Final = 0o755
MADE_BY: Final = "# Made by `pgengram connect {client} --hooks`; `pgengram disconnect {client}` takes it away."
# Cline wants an answer whatever happens; the hook itself gives one as soon as it runs.
ANSWER: Final = '{"cancel": false}'
PLAIN: Final = re.compile(r"[\w.:/\\~+-]+")  # a word that no shell of Windows reads in another way, but for backslashes
BOM: Final = "\ufeff"  # without which Windows PowerShell reads a script in the code page


def connecting_scripts(client: str, words: list[str], *, recall: bool) -> list[Edit]:
    """Return the edits that write our scripts, and take away those that are not wanted any more.

    Args:
        client: one of `FOLDERS`.
        words: the command of our hook.
        recall: whether only the events at which memories are brought are asked for.

    Raises:
        Conflict: somebody else has a script for one of the events.
    """
    form = FORMS[client]
    wanted = _hook_script(client, words).encode()
    edits = []
    for event, kind in form.kinds.items():
        path = _path(client, event)
        before, text = config_edits.read_file(path)
        if before is not None and not _is_our_script(text, client):
            raise Conflict(
                f"{path} is another program's script, and each event can have only one.",
                f"Nothing was changed. Let it run `{shlex.join(words)}` with its standard input, too.",
            )
        edits.append(Edit(path, before, wanted if kind in form.listens or not recall else None, wholly_ours=True))
    return edits


def disconnecting_scripts(client: str) -> list[Edit]:
    """Return the edits that take our scripts away; none where there are none."""
    there = [(path, *config_edits.read_file(path)) for path in (_path(client, event) for event in FORMS[client].kinds)]
    return [
        Edit(path, before, None) for path, before, text in there if before is not None and _is_our_script(text, client)
    ]


def make_executable(edits: list[Edit]) -> None:
    """Let the scripts that were written be run."""
    for edit in edits:
        if edit.after is not None:
            edit.path.chmod(EXECUTABLE)


def folder_of(client: str) -> Path:
    """Return where the scripts of a client's user are; on Windows their documents may lie in OneDrive."""
    documents = platformdirs.user_documents_path() if WINDOWS else Path.home() / "Documents"
    return documents / FOLDERS[client]


def _path(client: str, event: str) -> Path:
    return folder_of(client) / (f"{event}.ps1" if WINDOWS else event)


def _hook_script(client: str, words: list[str]) -> str:
    """Return a script that runs our hook with its own standard input and output."""
    made_by = MADE_BY.format(client=client)
    if WINDOWS:
        command = " ".join(map(_powershell_text, words))
        return f"{BOM}{made_by}\n& {command}\nif (-not $?) {{ '{ANSWER}' }}\n"
    return f"#!/bin/sh\n{made_by}\n{shlex.join(words)} || echo '{ANSWER}'\n"


def _powershell_text(word: str) -> str:
    quoted = "'" + re.sub("(['‘’‚‛])", r"\1\1", word) + "'"  # PowerShell takes all of these for quotes
    return word if PLAIN.fullmatch(word) else quoted


def _is_our_script(text: str, client: str) -> bool:
    return "pgengram" in text and f" hook {client}" in text
