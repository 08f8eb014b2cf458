"""`pgengram pair`, `connection`, `passkey` and `token`: who comes in over HTTP, let in and ended."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from rich.text import Text

from pgengram.cli.help import Commands
from pgengram.cli.options import AsJson
from pgengram.cli.output import plain_table
from pgengram.cli.runtime import (
    FAILED,
    command,
    confirm,
    opened_store,
    print_answer,
    print_json,
    print_note,
    say,
    screen,
)
from pgengram.errors import Conflict, InvalidInput
from pgengram.settings import Settings, spaces_named
from pgengram.sign_in.passkeys import EXTRA, is_installed
from pgengram.store import membership, persons
from pgengram.store.clients import passkeys, tokens
from pgengram.store.clients.connections import Connections
from pgengram.store.clients.sign_in_requests import open_pairing
from pgengram.store.clients.tokens import AccessToken
from pgengram.store.persons import Person, Right, checked_name, key
from pgengram.store.store import Store
from pgengram.text.shown import ago

SpacesAllowed = Annotated[
    list[str] | None,
    typer.Option("--space", help="A shared space that it may use; NAME:read only to read. Repeatable."),
]
connection = Commands("Show and end the connections of programs that signed in.")


@command
async def pair(
    person: Annotated[str, typer.Option(help="For whom; somebody new becomes a person then.", show_default=False)] = "",
    namespace: Annotated[str, typer.Option(help="Whose memories; by default the person's.")] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow searching and reading only.")] = False,
    spaces: SpacesAllowed = None,
    as_json: AsJson = False,
) -> None:
    """Type it on the page that the program opened. It is valid for ten minutes, once.

    Example: `pgengram pair`
    """
    settings = Settings.from_environment()
    async with opened_store(settings) as store:
        known, name = await _person(store, person, namespace)
        becomes = None if known else name or None
        whose = known.namespace if known else namespace or name or settings.namespace
        allowed = await _allowed(store, whose, spaces) if spaces else None
        code = await open_pairing(store, whose, may_write=not read_only, spaces=allowed, person=becomes)
    if as_json:
        print_json(
            {"code": code, "namespace": whose, "read_only": read_only, "person": becomes or (known and known.name)}
        )
        return
    say(code)
    if becomes:
        print_note(f"{becomes} is nobody here yet: whoever types it becomes a person of that name.")
    print_note("Type it on the page that the program opened. It is valid for ten minutes, once.")


async def _person(store: Store, name: str, namespace: str) -> tuple[Person | None, str]:
    """Return the person of a name if there is one, and the name as it is kept.

    Raises:
        InvalidInput: the name is not allowed, or the person has another namespace than the one given.
        Conflict: the namespace is another's.
    """
    if not name:
        return None, ""
    name = checked_name(name, "person")
    known = next((one for one in await persons.listed(store) if key(one.name) == key(name)), None)
    if known is not None and namespace not in ("", known.namespace):
        raise InvalidInput(f"{known.name} has the namespace {known.namespace!r}.", "Leave --namespace out.")
    if known is None and (other := await persons.of_namespace(store, namespace or name)):
        raise Conflict(f"The namespace {other.namespace!r} is that of {other.name!r}.", "Choose another --namespace.")
    return known, name


@connection.command(name="list")
@command
async def list_connections(as_json: AsJson = False) -> None:
    """List the programs that signed in, and what they may do.

    Example: `pgengram connection list`
    """
    async with opened_store() as store:
        rows = await Connections(store).listed()
    if as_json:
        print_json([_connection_dict(row) for row in rows])
        return
    if not rows:
        say("No program has signed in.")
        return
    table = plain_table("id", "program", "answers go to", "namespace", "may", "last used", "state")
    for row in rows:
        used = row["last_used_at"] or row["rotated_at"] or row["created_at"]
        state = "connected" if row["is_good"] else "ended" if row["revoked_at"] else "expired"
        may = "read and write" if row["scope"] == "read-write" else "read"
        table.add_row(row["id"], row["client_name"], row["redirect_host"], row["namespace"], may, ago(used), state)
    screen.print(table)


@connection.command("revoke")
@command
async def revoke_connections(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID…", help="As `pgengram connection list` shows them.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="End all connections, and remove all passkeys.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the prompt of --all.")] = False,
    as_json: AsJson = False,
) -> int:
    """End connections; the next request of such a program is refused.

    Example: `pgengram connection revoke 4f90712c36b507b2`
    """
    if bool(ids) == every:
        raise InvalidInput("Name the connections to end, or use --all.", "`pgengram connection list` shows the ids.")
    async with opened_store() as store:
        connections = Connections(store)
        if ids:
            ended = await connections.revoke(ids)
            print_answer(f"{ended} ended.", {"ended": ended}, as_json=as_json)
            return 0
        wanted = [row["id"] for row in await connections.listed() if row["revoked_at"] is None]
        keys = [row["id"] for row in await passkeys.all_passkeys(connections)]
        if not confirm(f"End {len(wanted)} connections and remove {len(keys)} passkeys?", yes=yes):
            return FAILED
        ended = await connections.revoke(wanted)
        for id_ in keys:
            await passkeys.revoke_passkey(connections, id_)
    message = f"{ended} ended, {len(keys)} passkeys removed." if keys else f"{ended} ended."
    print_answer(message, {"ended": ended, "passkeys_removed": len(keys)}, as_json=as_json)
    return 0


@connection.command()
@command
async def log(
    limit: Annotated[int, typer.Option(help="How many entries.", min=1, max=10_000)] = 50, as_json: AsJson = False
) -> None:
    """Show who was let in and who was not.

    It holds no tokens, codes or addresses; a year of it is kept.

    Example: `pgengram connection log --limit 20`
    """
    async with opened_store() as store:
        rows = await Connections(store).events(limit)
    if as_json:
        print_json([_connection_dict(row) for row in rows])
        return
    table = plain_table("when", "what", "program", "answers go to", "namespace", "connection")
    for row in rows:
        words = row["event"].replace("_", " ")
        hosts = (row["client_host"] or "", row["redirect_host"] or "")
        table.add_row(ago(row["at"]), words, *hosts, row["namespace"] or "", row["grant_id"] or "")
    screen.print(table)


def _connection_dict(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


passkey = Commands("Show and remove the passkeys with which people confirm sign-ins.")


@passkey.command(name="list")
@command
async def list_passkeys(as_json: AsJson = False) -> None:
    """List the passkeys, and whose memories each opens.

    A person adds one on the sign-in page.

    Example: `pgengram passkey list`
    """
    async with opened_store() as store:
        rows = await passkeys.all_passkeys(Connections(store))
    if as_json:
        print_json([_connection_dict(row) for row in rows])
        return
    if not rows:
        say("Nobody has added a passkey.")
        if not is_installed():
            print_note(f"Passkeys need an extra: pip install '{EXTRA}'")
        return
    table = plain_table("id", "added in", "server", "namespace", "may", "last used")
    for row in rows:
        may = "read and write" if row["may_write"] else "read"
        used = ago(row["last_used_at"]) if row["last_used_at"] else "–"
        table.add_row(row["id"], row["name"], row["rp_id"], row["namespace"], may, used)
    screen.print(table)


@passkey.command("remove")
@command
async def remove_passkey(
    id: Annotated[str, typer.Argument(help="Its id from `pgengram passkey list`.")], as_json: AsJson = False
) -> None:
    """Remove a passkey permanently. Programs that it let in stay connected.

    Example: `pgengram passkey remove 4f90712c36b507b2`
    """
    async with opened_store() as store:
        name = await passkeys.revoke_passkey(Connections(store), id)
    print_answer(f"The passkey of {name} is removed.", {"removed": id}, as_json=as_json)


NAMED = ("id", "name", "namespace", "scope", "state")
token = Commands("Manage tokens of clients that connect over HTTP.")


@token.command()
@command
async def create(
    name: Annotated[str, typer.Argument(help="Who it is for; the history shows this name.")],
    namespace: Annotated[str, typer.Option(help="Whose memories; by default PGENGRAM_NAMESPACE.")] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow searching and reading only.")] = False,
    spaces: SpacesAllowed = None,
    days: Annotated[float | None, typer.Option(help="Days until it expires; by default never.", min=0)] = None,
    as_json: AsJson = False,
) -> None:
    """Create a token and show it once; only a hash of it is kept.

    Example: `pgengram token create "Mara's laptop" --namespace mara --days 90`
    """
    settings = Settings.from_environment()
    lifetime = None if days is None else timedelta(days=days)
    scope: tokens.Scope = "read-only" if read_only else "read-write"
    async with opened_store(settings) as store:
        allowed = await _allowed(store, namespace or settings.namespace, spaces or [])
        made, token = await tokens.create(store, name, namespace or settings.namespace, scope, lifetime, allowed)
    if as_json:
        print_json({"token": made, **_token_dict(token)})
        return
    say(made)
    until = "until it is revoked" if token.expires_at is None else f"until {token.expires_at:%Y-%m-%d %H:%M} UTC"
    print_note(f"This is shown once. Valid {until}, {token.scope}, for the namespace {token.namespace}.")


@token.command(name="list")
@command
async def list_tokens(as_json: AsJson = False) -> None:
    """List all tokens, including revoked ones, without their secrets.

    Example: `pgengram token list --json`
    """
    async with opened_store() as store:
        found = [_token_dict(one) for one in await tokens.list_all(store)]
    if as_json:
        print_json({"tokens": found})
        return
    if not found:
        say("There are no tokens yet. Create one with `pgengram token create NAME`.")
        return
    table = plain_table("", "id", "name", "namespace", "scope", "state", "created", "expires", "last used")
    for one in found:
        moments = (
            ago(datetime.fromisoformat(one[key])) if one[key] else "–"
            for key in ("created_at", "expires_at", "last_used_at")
        )
        table.add_row(*map(Text, (*(one[key] for key in NAMED), *moments)))
    screen.print(table)


@token.command("revoke")
@command
async def revoke_token(
    id: Annotated[str, typer.Argument(help="Its id from `pgengram token list`.")], as_json: AsJson = False
) -> None:
    """Revoke a token permanently. It stops working at once.

    Example: `pgengram token revoke 4f0c2a9be1d3`
    """
    async with opened_store() as store:
        revoked = await tokens.revoke(store, id)
    print_answer(f"{revoked.name} is revoked.", _token_dict(revoked), as_json=as_json)


async def _allowed(store: Store, namespace: str, given: list[str]) -> dict[int, Right]:
    """Return the spaces that were named, by key; all of them the person's whose namespace it is.

    Raises:
        InvalidInput: nobody has that namespace.
        NoSuchSpace: the person is not in one of them.
    """
    if not given:
        return {}
    person = await persons.expect_of_namespace(store, namespace)
    mine = await membership.of_person(store, person)
    return {membership.chosen(mine, name).id: right for name, right in spaces_named(given).items()}


def _token_dict(token: AccessToken) -> dict[str, Any]:
    moments = {name: getattr(token, name) for name in ("created_at", "expires_at", "last_used_at", "revoked_at")}
    return {name: getattr(token, name) for name in NAMED} | {
        name: at and at.isoformat(timespec="seconds") for name, at in moments.items()
    }
