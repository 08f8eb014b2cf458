"""`pgengram connect` and `disconnect`: an assistant's own settings changed for its user, and changed back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from pgengram import __version__
from pgengram.cli import AsJson, agreed, app, command, completing, notes, screen
from pgengram.cli import clients as c
from pgengram.cli.greeting import greeted
from pgengram.errors import InvalidInput
from pgengram.settings import Settings

COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}
LISTED: Final = ", ".join(c.CLIENTS)


TheClient = Annotated[
    str | None, typer.Argument(metavar="CLIENT", help=f"{LISTED}, or any other.", autocompletion=completing(c.CLIENTS))
]
TheName = Annotated[str, typer.Option(help="What the client calls this server.")]
TheFolder = Annotated[
    Path | None, typer.Option(help="In the file of the project in this folder, instead of your own.", file_okay=False)
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command()
@command
async def connect(
    client: TheClient = None,
    name: TheName = c.NAME,
    folder: TheFolder = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Only print what belongs into the file, and where that is.")
    ] = False,
    only_link: Annotated[
        bool, typer.Option("--link", help="Only print a link that has cursor or vscode offer the change.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Put this memory into an assistant's settings.

    Shows the change, asks, keeps a backup, and writes. Without CLIENT it lists the assistants. What is set in the environment (`PGENGRAM_NAMESPACE`, `PGENGRAM_DATA_DIR`, …) goes along. For a client that is not
    known the entry is printed.

    Examples: `pgengram connect claude-desktop`, `PGENGRAM_NAMESPACE=work pgengram connect cursor --name work`,
    `pgengram connect vscode --folder . --yes`
    """
    if client is None:
        await _list(as_json=as_json)
        return 0
    entry = c.own_entry(Settings.from_environment())
    chosen = c.CLIENTS.get(client)
    if only_link:
        screen.print(c.link(chosen or c.ANY, name, entry), markup=False, highlight=False, soft_wrap=True)
        return 0
    if chosen is None or only_print:
        _print_snippet(client, chosen, chosen.path(folder) if chosen else None, c.snippet(chosen or c.ANY, name, entry))
        return 0
    if folder is not None and c.secrets_of(entry):
        raise InvalidInput(
            "A password or key is set, and a project's file is for everybody who has the project.",
            "Leave out --folder, or unset it and let the client's users set their own.",
        )
    edit = c.connecting(chosen, chosen.path(folder), name, entry)
    return _carry_out(chosen, edit, yes=yes, as_json=as_json, done=f"{chosen.title} is connected. {chosen.then}")


@app.command()
@command
async def disconnect(
    client: Annotated[str, typer.Argument(metavar="CLIENT", help=f"{LISTED}.", autocompletion=completing(c.CLIENTS))],
    name: TheName = c.NAME,
    folder: TheFolder = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Take this memory out of an assistant's settings again.

    The memories stay.

    Example: `pgengram disconnect claude-desktop`
    """
    chosen = c.CLIENTS.get(client)
    if chosen is None:
        raise InvalidInput(f"{client!r} is not known here.{_meant(client)}", f"Known are {LISTED}.")
    edit = c.disconnecting(chosen, chosen.path(folder), name)
    return _carry_out(chosen, edit, yes=yes, as_json=as_json, done=f"{chosen.title} is not connected any more.")


def _carry_out(client: c.Client, edit: c.Edit, *, yes: bool, as_json: bool, done: str) -> int:
    """Show an edit, ask, and write it; return the exit code, 1 when the answer was no."""
    backup = None
    if edit.changes:
        if not as_json:
            _print_diff(edit.diff())
        if not agreed("Write it?", yes=yes):
            screen.print("Nothing was changed.")
            return 1
        backup = c.write(edit)
    if as_json:
        told = {
            "client": client.name, "path": str(edit.path), "changed": edit.changes,
            "backup": None if backup is None else str(backup),
        }  # fmt: skip
        print(json.dumps(told))  # noqa: T201 - for programs: not one line broken
        return 0
    if not edit.changes:
        screen.print(f"{client.title} is connected already; nothing was changed.")
        return 0
    if backup is not None:
        screen.print(f"The file as it was: {backup}", highlight=False, markup=False, soft_wrap=True)
    screen.print(done, highlight=False, markup=False, soft_wrap=True)
    return 0


def _print_diff(lines: list[str]) -> None:
    for line in lines:
        screen.print(Text(line, style=COLOURS.get(line[:1], "")), soft_wrap=True)


def _print_snippet(asked: str, client: c.Client | None, path: Path | None, text: str) -> None:
    if client is None:
        notes.print(
            f"Where {asked} keeps its servers is not known here.{_meant(asked)} Most clients take this:",
            highlight=False, markup=False,
        )  # fmt: skip
    else:
        notes.print(f"Into {path}:", highlight=False, markup=False, soft_wrap=True)
    screen.print(text, highlight=False, markup=False, soft_wrap=True)


def _meant(asked: str) -> str:
    close = get_close_matches(asked.lower(), c.CLIENTS, 1)
    return f" Did you mean {close[0]}?" if close else ""


async def _list(*, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for client in c.CLIENTS.values():
        path, problem, names = client.path(), None, dict[str, c.Entry]()
        try:
            names = c.found_in(client, path)
        except InvalidInput as error:
            problem = error.message
        rows.append({"client": client.name, "path": str(path), "connected_as": [*names], "problem": problem})
    if as_json:
        screen.print_json(json.dumps(rows))
        return
    table = Table("client", "connected as")
    table.add_column("file", overflow="fold")  # a path that is cut is none
    for row in rows:
        told = row["problem"] or ", ".join(row["connected_as"]) or "–"
        table.add_row(row["client"], Text(told, style="red" if row["problem"] else ""), row["path"])
    screen.print(table)
    screen.print("Connect one with `pgengram connect CLIENT`.", markup=False, highlight=False)


# ---------------------------------------------------------------------------------------------------------- the doctor


async def connected() -> AsyncIterator[tuple[str, bool, str, str]]:
    """Yield of each client that has an entry of ours its title, whether the command there works, what was seen, and the cure."""
    for client in c.CLIENTS.values():
        path = client.path()
        try:
            entries = c.found_in(client, path)
        except InvalidInput as error:
            if b"pgengram" in (path.read_bytes() if path.is_file() else b""):  # else it is none of ours
                yield (
                    client.title,
                    False,
                    error.message,
                    f"Repair the file; until then {client.title} starts no server.",
                )
            continue
        for name, entry in entries.items():
            told = await asyncio.to_thread(greeted, entry)
            seen = (
                f"{name}: {told.seen}, {entry['command']}" if told.well else f"{name}: {entry['command']} {told.seen}"
            )
            if told.version not in ("", __version__):
                seen += f" (version {told.version}, this is {__version__})"
            again = f"Run `pgengram connect {client.name}{'' if name == c.NAME else f' --name {name}'}`."
            cure = "" if told.well else again if not told.version else 'Put right what its "env" says of the store.'
            yield client.title, told.well, f"{seen}, in {path}", cure
