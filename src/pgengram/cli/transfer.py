"""`pgengram export` and `pgengram import`: memories out and in."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO

from rich.console import Console
from rich.table import Table

from pgengram.cli.progress import Told
from pgengram.errors import Conflict, InvalidInput
from pgengram.service.core import Core
from pgengram.settings import Settings
from pgengram.transfer import export_to, import_from
from pgengram.transfer.importing import Imported

BROKEN_OFF: Final = (
    "Broken off: what was taken so far is whole and stays. The same command again takes the rest, and nothing twice."
)
SHOWN: Final = 20  # of what was not taken; --json tells all of it


async def run_export(settings: Settings, path: str) -> int:
    """Write everything to a file, or to standard output for `-`; a file is complete or not there."""
    core = Core(replace(settings, embedder="none:"))  # none is needed, and the one that is set may be gone
    notes = Console(stderr=True)
    try:
        await core.ready()
        with _opened(path) as file, Told("Exporting") as report:
            counts = await export_to(file, core, report)
    finally:
        await core.close()
    told = ", ".join(f"{number:,} of {record}" for record, number in counts.items()) or "nothing"
    notes.print(f"Exported {told}.", highlight=False)
    return 0


async def run_import(settings: Settings, system: str, source: str, *, dry_run: bool, as_json: bool) -> int:
    """Bring in what another store holds, and tell what was left and why; 1 when something was."""
    core = Core(settings)
    try:
        await core.ready()
        with _found(source) as path, Told("Looking" if dry_run else "Importing") as report:
            told = await import_from(core, system, path, dry_run=dry_run, report=report)
    except asyncio.CancelledError:
        Console(stderr=True).print(BROKEN_OFF, highlight=False, soft_wrap=True)
        raise
    finally:
        await core.close()
    if as_json:
        print(json.dumps(told.as_dict()))  # noqa: T201 - for programs: not one line broken
    else:
        _show(Console(), told)
    return 1 if told.left else 0


def _show(screen: Console, told: Imported) -> None:
    table = Table("record")
    for heading in ("would be added" if told.dry_run else "added", "there already"):
        table.add_column(heading, justify="right")
    for record in dict.fromkeys([*told.added, *told.known]):
        table.add_row(record, f"{told.added[record]:,}", f"{told.known[record]:,}")
    screen.print(table)
    if told.redacted:
        screen.print(f"Secrets were redacted in {told.redacted:,} records.", highlight=False)
    if told.left:
        screen.print(f"{len(told.left):,} not taken:", highlight=False)
        for one in told.left[:SHOWN]:
            screen.print(f"  {one.place}: {one.reason}", highlight=False, markup=False, soft_wrap=True)
        if len(told.left) > SHOWN:
            screen.print(f"  … and {len(told.left) - SHOWN:,} more; --json tells all.", highlight=False)


@contextmanager
def _found(source: str) -> Iterator[str]:
    """Yield the path of what is to be read; standard input, `-`, is kept in a file meanwhile, as it is read twice."""
    if source != "-":
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="pgengram-") as folder:
        path = Path(folder) / "stdin"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield str(path)


@contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    """Open a file that only its namespace can read, and that takes its name when it is complete."""
    if path == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    target = Path(path)
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise InvalidInput(
            f"{path} cannot be written.", "Give the path of a file in a folder that exists, or - for stdout."
        )
    unfinished = target.with_name(target.name + ".unfinished")
    try:
        with os.fdopen(
            os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8", newline="\n"
        ) as file:
            yield file
        unfinished.replace(target)
    except OSError as error:  # no right to write there, a full disk
        raise Conflict(
            f"{path} cannot be written: {error.strerror or error}.", "Nothing is left of it. Choose another folder."
        ) from None
    finally:
        with suppress(OSError):  # where nothing could be written there is nothing to remove
            unfinished.unlink(missing_ok=True)
