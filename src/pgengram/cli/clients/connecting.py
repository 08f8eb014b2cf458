"""`pgengram connect` and `disconnect`: an assistant's own settings changed for its user, and changed back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from pgengram.cli.clients import client_configs, config_edits, hook_configs
from pgengram.cli.clients import client_configs as c
from pgengram.cli.options import AsJson, Yes
from pgengram.cli.output import plain_table
from pgengram.cli.runtime import (
    FAILED,
    answer_of,
    command,
    completing,
    confirm,
    known_word,
    print_json,
    print_note,
    say,
    screen,
)
from pgengram.errors import InvalidInput
from pgengram.runtime import local_socket
from pgengram.settings import Settings

COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}
LISTED: Final = ", ".join(c.CLIENTS)
ALL: Final = "all"
TRY: Final = (
    "To try it, say “Remember that I take my tea without sugar.” there, and in a new chat “How do I take my tea?”."
)
KEEPING: Final = ("all", "recall")  # what hooks do
ClientName = Annotated[
    str,
    typer.Argument(
        metavar="CLIENT", help="As in `pgengram connect`; or `all`.", autocompletion=completing([*c.CLIENTS, "all"])
    ),
]
ServerName = Annotated[str, typer.Option("--name", help="What the client calls this server.")]
Folder = Annotated[
    Path | None, typer.Option(help="Change the settings of the project in this folder, not your own.", file_okay=False)
]


@command
async def connect(
    client: Annotated[
        str | None,
        typer.Argument(
            metavar="CLIENT",
            help=f"{LISTED}; `all` for all that are installed; or `any`, to print the entry.",
            autocompletion=completing([*c.CLIENTS, ALL, c.ANY.name]),
        ),
    ] = None,
    name: ServerName = c.NAME,
    folder: Folder = None,
    only_print: Annotated[bool, typer.Option("--print", help="Only print the entry and its file.")] = False,
    only_link: Annotated[bool, typer.Option("--link", help="Only print a link for cursor or vscode.")] = False,
    hooks: Annotated[
        str,
        typer.Option(
            help="Also set up hooks that recall memories and keep conversations; --hooks=recall only recalls.",
            metavar="[=recall]",
        ),
    ] = "",
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Shows the change, asks, keeps a backup, and writes. Without CLIENT it offers the assistants that it finds.

    Settings of the environment, such as `PGENGRAM_NAMESPACE`, are written to the entry.

    Examples: `pgengram connect`, `pgengram connect claude-desktop`,
    `PGENGRAM_NAMESPACE=work pgengram connect cursor --name work`, `pgengram connect vscode --folder . --yes`,
    `pgengram connect claude-code --hooks`
    """
    if hooks:
        _refuse_hooks(client, hooks, folder, alone=only_print or only_link)
    if client in (None, ALL):
        return _offer(name, everything=client == ALL, yes=yes, as_json=as_json)
    entry = c.own_entry(Settings.from_environment())
    chosen = _client(str(client))
    if only_link:
        say(c.install_link(chosen, name, entry))
        return 0
    if chosen is c.ANY or only_print:
        _print_entry(chosen, folder, name, entry)
        return 0
    _refuse_unreachable(chosen, folder, entry)
    code = _connect(chosen, chosen.path(folder), name, entry, yes=yes, as_json=as_json)
    return _connect_hooks(chosen, hooks, yes=yes, as_json=as_json) if hooks and not code else code


def _print_entry(client: c.Client, folder: Path | None, name: str, entry: c.Entry) -> None:
    """Print the entry of a client, and which file it belongs in."""
    elsewhere = folder is None and client.runs_on_windows()
    where = "its settings on Windows" if elsewhere else client.path(folder)
    print_note("Most clients take this entry:" if client is c.ANY else f"Into {where}:")
    say(config_edits.snippet(client, name, c.through_wsl(entry) if elsewhere else entry))


def _refuse_unreachable(client: c.Client, folder: Path | None, entry: c.Entry) -> None:
    """Refuse to write a file that the client doesn't read, or that others may read.

    Raises:
        InvalidInput: the client runs on Windows, or the entry has a secret and belongs to a project.
    """
    if folder is None and client.runs_on_windows():
        raise InvalidInput(
            f"{client.title} is not installed in this Linux, and on Windows it doesn't read {client.path()}.",
            f"`pgengram connect {client.name} --print` shows the entry for Windows; or install it there.",
        )
    if folder is not None and c.secrets_of(entry):
        raise InvalidInput(
            "A password or key is set, and everyone with access to the project can read its file.",
            "Leave out --folder, or unset it and let the client's users set their own.",
        )


def _client(word: str) -> c.Client:
    """Return the client that a person names.

    Raises:
        InvalidInput: there is none, or more than one.
    """
    if word == c.ANY.name:
        return c.ANY
    several = c.meant(word)
    if len(several) > 1:
        raise InvalidInput(f"{word!r} can be {' or '.join(several)}.", "Nothing was changed. Name one of them.")
    return c.CLIENTS[several[0] if several else known_word(word, [*c.CLIENTS, ALL, c.ANY.name], "client")]


setattr(connect, "implied_values", {"--hooks": "all"})  # noqa: B010 - see cli.help


def _refuse_hooks(client: str | None, hooks: str, folder: Path | None, *, alone: bool) -> None:
    """Refuse hooks that are impossible, before anything is changed.

    Raises:
        InvalidInput: the client or the system has none, or they would not be its user's own.
    """
    known_word(hooks, KEEPING, "kind of hooks")
    if client not in (None, ALL):
        client = _client(str(client)).name
    if not local_socket.SUPPORTED:
        raise InvalidInput(local_socket.WITHOUT, "Connect without --hooks; the assistant then searches by itself.")
    if folder is not None or alone:
        raise InvalidInput("Hooks go into your own settings only.", "Leave out --folder, --print and --link.")
    hook_configs.refuse_unsupported_hooks(str(client))
    hook_configs.what_hooks_do(str(client), recall=hooks == "recall")
    hook_configs.connecting_hooks(str(client), Settings.from_environment(), recall=False)  # refuses what cannot be done


def _connect_hooks(client: c.Client, hooks: str, *, yes: bool, as_json: bool) -> int:
    settings = Settings.from_environment()
    edits = hook_configs.connecting_hooks(client.name, settings, recall=hooks == "recall")
    done = f"Hooks of {client.title} {hook_configs.what_hooks_do(client.name, recall=hooks == 'recall')}."
    then = hook_configs.then(client.name)
    code = _apply_edits(client, edits, yes=yes, as_json=as_json, done=f"{done} {then}".rstrip())
    if not code:
        if client.name in hook_configs.FOLDERS:
            hook_configs.make_executable(edits)
        hook_configs.write_settings(client.name, settings)
    return code


def _connect(client: c.Client, path: Path, name: str, entry: c.Entry, *, yes: bool, as_json: bool) -> int:
    edit = config_edits.connecting_edit(client, path, name, entry)
    habit = f"Its model decides when to look; `pgengram connect {client.name} --hooks` makes it a habit."
    lines = [
        f"{client.title} is connected. {client.then}",
        TRY,
        *([habit] if client.name in hook_configs.HOOKS else []),
    ]
    code = _apply_edits(client, [edit], yes=yes, as_json=as_json, done="\n".join(lines))
    if not code:
        client_configs.note_connected(Settings.from_environment(), client.name, path, name)
    return code


def _offer(name: str, *, everything: bool, yes: bool, as_json: bool) -> int:
    """List the clients; connect those that a person chooses of the installed ones, or all of these."""
    rows = _client_rows()
    chosen = [row["client"] for row in rows if row["installed"] and not row["connected_as"] and not row["problem"]]
    if not everything:
        _print_rows(rows, as_json=as_json)
        chosen = [] if as_json else _chosen_clients(chosen)
    elif not chosen:
        say("Nothing to connect: `pgengram connect` lists the assistants.")
    entry = c.own_entry(Settings.from_environment())
    codes = [_connect(c.CLIENTS[one], c.CLIENTS[one].path(), name, entry, yes=yes, as_json=as_json) for one in chosen]
    return max(codes, default=0)


def _chosen_clients(free: list[str]) -> list[str]:
    """Ask in a terminal which of the installed clients to connect, by name or number, until the answer can be read."""
    if not free or not sys.stdin.isatty():
        return []
    for number, name in enumerate(free, 1):
        print_note(f"  {number}  {name}")
    while True:
        said = answer_of(
            lambda: typer.prompt("Connect which? (Enter for none)", default="", show_default=False, err=True)
        )
        words = said.replace(",", " ").split()
        if words == [ALL]:
            return free
        numbers = dict(enumerate(free, 1))
        try:
            return [
                numbers.get(int(word) if word.isdigit() else 0) or known_word(word, free, "client") for word in words
            ]
        except InvalidInput as error:
            print_note(f"{error.message} Type a number, a name, or {ALL}.")


@command
async def disconnect(
    client: ClientName, name: ServerName = c.NAME, folder: Folder = None, yes: Yes = False, as_json: AsJson = False
) -> int:
    """The memories stay.

    Examples: `pgengram disconnect claude-desktop`, `pgengram disconnect all`
    """
    if client == ALL:
        names = [row["client"] for row in _client_rows() if name in row["connected_as"]]
        if not names:
            say("Nothing to disconnect.")
        return max((_disconnect(c.CLIENTS[one], name, folder, yes=yes, as_json=as_json) for one in names), default=0)
    return _disconnect(_client(client), name, folder, yes=yes, as_json=as_json)


def _disconnect(chosen: c.Client, name: str, folder: Path | None, *, yes: bool, as_json: bool) -> int:
    """Take our entry and our hooks out of a client's files, after asking; return the exit code."""
    path = chosen.path(folder)
    known_as = Settings.from_environment(), chosen.name, path, name
    if our_entries(chosen, path) == []:  # somebody took it out, and now says so
        client_configs.note_disconnected(*known_as)
    edit = config_edits.disconnecting_edit(chosen, path, name)  # refuses what cannot be done before anything is changed
    hooks = [] if folder is not None else hook_configs.disconnecting_hooks(chosen.name)
    if hooks:
        code = _apply_edits(
            chosen, hooks, yes=yes, as_json=as_json, done=f"{chosen.title} doesn't run pgengram's hooks."
        )
        if code:
            return code
        hook_configs.settings_file(chosen.name, Settings.from_environment()).unlink(missing_ok=True)
        edit = config_edits.disconnecting_edit(chosen, path, name)  # of the same file, with some clients
    code = _apply_edits(chosen, [edit], yes=yes, as_json=as_json, done=f"{chosen.title} is disconnected.")
    if not code:
        client_configs.note_disconnected(*known_as)
    return code


def _apply_edits(client: c.Client, edits: Sequence[config_edits.Edit], *, yes: bool, as_json: bool, done: str) -> int:
    """Show edits, ask once, and write them; return the exit code."""
    changing = [edit for edit in edits if edit.changes]
    _print_diffs(changing, as_json=as_json)
    if changing and not confirm("Apply?", yes=yes):
        return FAILED
    backups = [str(kept) for edit in changing if (kept := config_edits.write_edit(edit))]
    if as_json:
        _print_applied(client, edits, changed=bool(changing), backups=backups)
    elif changing:
        say("\n".join([*(f"Backup of the file: {backup}" for backup in backups), done]))
    else:
        say(f"{client.title} is already connected; nothing was changed.")
    return 0


def _print_diffs(edits: Sequence[config_edits.Edit], *, as_json: bool) -> None:
    for edit in () if as_json else edits:
        for line in edit.diff():
            screen.print(Text(line, style=COLOURS.get(line[:1], "")), soft_wrap=True)


def _print_applied(
    client: c.Client, edits: Sequence[config_edits.Edit], *, changed: bool, backups: Sequence[str]
) -> None:
    path = edits[0].path if len(edits) == 1 else edits[0].path.parent
    first = backups[0] if backups else None
    print_json({"client": client.name, "path": str(path), "changed": changed, "backup": first})


def _client_rows() -> list[dict[str, Any]]:
    """Return of each client its file, whether it is installed, and as what it is connected."""
    rows: list[dict[str, Any]] = []
    for client in c.CLIENTS.values():
        path, problem, names = client.path(), None, dict[str, c.Entry]()
        try:
            names = config_edits.found_in(client, path)
        except InvalidInput as error:
            problem = error.message
        state = {"installed": client.is_installed(), "connected_as": [*names], "problem": problem}
        rows.append({"client": client.name, "path": str(path), **state})
    return rows


def _clients_table(rows: list[dict[str, Any]]) -> Table:
    table = plain_table("", "client", "connected as")
    table.add_column("file", overflow="fold")  # a path that is cut cannot be used
    for row in rows:
        state = row["problem"] or ", ".join(row["connected_as"]) or "–"
        table.add_row(row["client"], Text(state, style="red" if row["problem"] else ""), row["path"])
    return table


def _print_rows(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    installed = [row for row in rows if row["installed"]]
    if installed:
        screen.print(_clients_table(installed))
    else:
        say("No assistant was found on this machine.")
    others = [row["client"] for row in rows if not row["installed"]]
    if others:
        say(f"\nNot found: {', '.join(others)}.")
    say("Connect one with `pgengram connect CLIENT`, all that were found with `pgengram connect all`.")


def our_entries(client: c.Client, path: Path) -> list[str] | None:
    """Return the names of our entries in a file; None if it cannot be read."""
    try:
        return [*config_edits.found_in(client, path)]
    except InvalidInput:
        return None
