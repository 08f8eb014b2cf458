"""`pgengram connect` and `disconnect`: an assistant's own settings changed for its user, and changed back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from pgengram import __version__
from pgengram.cli.clients import client_configs as c
from pgengram.cli.clients import config_edits
from pgengram.cli.clients.handshake_check import Handshake, shake_hands
from pgengram.cli.options import AsJson, Yes
from pgengram.cli.runtime import FAILED, command, completing, confirmed, known, note, print_json, say, screen
from pgengram.errors import InvalidInput
from pgengram.settings import Settings

COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}
LISTED: Final = ", ".join(c.CLIENTS)
ClientName = Annotated[str, typer.Argument(metavar="CLIENT", help=f"{LISTED}.", autocompletion=completing(c.CLIENTS))]
ServerName = Annotated[str, typer.Option("--name", help="What the client calls this server.")]
Folder = Annotated[
    Path | None, typer.Option(help="In the file of the project in this folder, instead of your own.", file_okay=False)
]


@command
async def connect(
    client: Annotated[
        str | None,
        typer.Argument(
            metavar="CLIENT", help=f"{LISTED}; `any` with --print.", autocompletion=completing([*c.CLIENTS, c.ANY.name])
        ),
    ] = None,
    name: ServerName = c.NAME,
    folder: Folder = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Only print what belongs into the file, and where that is.")
    ] = False,
    only_link: Annotated[
        bool, typer.Option("--link", help="Only print a link that has cursor or vscode offer the change.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Shows the change, asks, keeps a backup, and writes. Without CLIENT it lists the assistants.

    Settings of the environment (`PGENGRAM_NAMESPACE`, `PGENGRAM_DATA_DIR`, …) are written to the entry. For a client
    that is not listed, print the entry with `pgengram connect any`.

    Examples: `pgengram connect claude-desktop`, `PGENGRAM_NAMESPACE=work pgengram connect cursor --name work`,
    `pgengram connect vscode --folder . --yes`
    """
    if client is None:
        _list(as_json=as_json)
        return 0
    entry = c.own_entry(Settings.from_environment())
    chosen = c.CLIENTS.get(known(client, [*c.CLIENTS, c.ANY.name], "client"), c.ANY)
    if only_link:
        say(c.link(chosen, name, entry))
        return 0
    if chosen is c.ANY or only_print:
        note("Most clients take this entry:" if chosen is c.ANY else f"Into {chosen.path(folder)}:")
        say(config_edits.snippet(chosen, name, entry))
        return 0
    if folder is not None and c.secrets_of(entry):
        raise InvalidInput(
            "A password or key is set, and everybody who has the project can read its file.",
            "Leave out --folder, or unset it and let the client's users set their own.",
        )
    edit = config_edits.connecting(chosen, chosen.path(folder), name, entry)
    return _apply(chosen, edit, yes=yes, as_json=as_json, done=f"{chosen.title} is connected. {chosen.then}")


@command
async def disconnect(
    client: ClientName,
    name: ServerName = c.NAME,
    folder: Folder = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """The memories stay.

    Example: `pgengram disconnect claude-desktop`
    """
    chosen = c.CLIENTS[known(client, c.CLIENTS, "client")]
    edit = config_edits.disconnecting(chosen, chosen.path(folder), name)
    return _apply(chosen, edit, yes=yes, as_json=as_json, done=f"{chosen.title} is disconnected.")


def _apply(client: c.Client, edit: config_edits.Edit, *, yes: bool, as_json: bool, done: str) -> int:
    """Show an edit, ask, and write it; return the exit code."""
    backup = None
    if edit.changes:
        for line in [] if as_json else edit.diff():
            screen.print(Text(line, style=COLOURS.get(line[:1], "")), soft_wrap=True)
        if not confirmed("Write it?", yes=yes):
            return FAILED
        backup = config_edits.write(edit)
    if as_json:
        kept = None if backup is None else str(backup)
        print_json({"client": client.name, "path": str(edit.path), "changed": edit.changes, "backup": kept})
    elif not edit.changes:
        say(f"{client.title} is connected already; nothing was changed.")
    else:
        if backup is not None:
            say(f"The file as it was: {backup}")
        say(done)
    return 0


def _list(*, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for client in c.CLIENTS.values():
        path, problem, names = client.path(), None, dict[str, c.Entry]()
        try:
            names = config_edits.found_in(client, path)
        except InvalidInput as error:
            problem = error.message
        rows.append({"client": client.name, "path": str(path), "connected_as": [*names], "problem": problem})
    if as_json:
        print_json(rows)
        return
    table = Table("client", "connected as")
    table.add_column("file", overflow="fold")  # a path that is cut cannot be used
    for row in rows:
        state = row["problem"] or ", ".join(row["connected_as"]) or "–"
        table.add_row(row["client"], Text(state, style="red" if row["problem"] else ""), row["path"])
    screen.print(table)
    say("Connect one with `pgengram connect CLIENT`.")


# ---------------------------------------------------------------------------------------------------------- the doctor


async def connected() -> AsyncIterator[tuple[str, bool, str, str]]:
    """Yield of each client that has an entry of ours its title, whether the command there works, what was seen, and the
    repair.
    """
    for client in c.CLIENTS.values():
        path = client.path()
        try:
            entries = config_edits.found_in(client, path)
        except InvalidInput as error:
            if b"pgengram" in (path.read_bytes() if path.is_file() else b""):  # else it has no entry of ours
                yield (
                    client.title,
                    False,
                    error.message,
                    f"Repair the file; until then {client.title} starts no server.",
                )
            continue
        for name, entry in entries.items():
            seen = await asyncio.to_thread(shake_hands, entry)
            yield client.title, seen.ok, f"{_seen(name, entry, seen)}, in {path}", _repair(client, name, seen)


def _seen(name: str, entry: c.Entry, seen: Handshake) -> str:
    command = entry["command"]
    text = f"{name}: {seen.seen}, {command}" if seen.ok else f"{name}: {command} {seen.seen}"
    other = seen.version not in ("", __version__)
    return f"{text} (version {seen.version}, this is {__version__})" if other else text


def _repair(client: c.Client, name: str, seen: Handshake) -> str:
    if seen.ok:
        return ""
    if seen.version:
        return 'Correct the settings of the store in its "env".'
    return f"Run `pgengram connect {client.name}{'' if name == c.NAME else f' --name {name}'}`."
