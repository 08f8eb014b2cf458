"""`pgengram sync`: one memory on several machines, through a folder, a server or a repository."""

from __future__ import annotations

import asyncio
import webbrowser
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pgengram.cli.help import Commands
from pgengram.cli.options import AsJson
from pgengram.cli.progress import ProgressBar
from pgengram.cli.runtime import FAILED, command, confirm, opened_manager, print_answer, print_note
from pgengram.errors import Conflict

if TYPE_CHECKING:
    from pgengram.service.core import Core
    from pgengram.sync.intake import Outcome

sync = Commands("Keep one memory on several machines, through a folder, a server or a repository.")
ON_THE_OTHER = "On the other machine: pgengram sync join {} {}"
Name = Annotated[str, typer.Option("--name", help="What the others call this machine; by default its host name.")]
Shared = Annotated[
    str,
    typer.Argument(
        metavar="FOLDER|URL",
        help="A folder that all machines see, `https://HOST` of your pgengram server, `git+ssh://HOST/REPOSITORY`, or "
        "`ssh://HOST/FOLDER`.",
    ),
]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        help="For a pgengram server: what `pgengram token create` printed there. Default: sign in with the browser.",
    ),
]


@sync.command("init")
@command
async def init(folder: Shared, name: Name = "", token: Token = "", as_json: AsJson = False) -> int:
    """Begin to exchange this memory, encrypted, and print the code that joins another machine.

    Whoever has the code and the files can read everything.

    Example: `pgengram sync init ~/Dropbox`
    """
    from pgengram.sync import devices

    async with opened_manager(personal=True) as core:
        let_in = token or await _token_by_sign_in(folder, name)
        key = await devices.begin(core, folder, None, name, let_in)
        outcome = await _exchanged(core, quiet=as_json)
    return _print_outcome(
        outcome, ON_THE_OTHER.format("URL" if "://" in folder else "FOLDER", key.code), as_json=as_json, code=key.code
    )


@sync.command("join")
@command
async def join(
    folder: Shared,
    code: Annotated[str, typer.Argument(help="What `pgengram sync init` or `pgengram sync code` printed.")],
    name: Name = "",
    token: Token = "",
    as_json: AsJson = False,
) -> int:
    """Exchange this memory with a machine that does so already. Each gets what the other has.

    Example: `pgengram sync join ~/Dropbox ABCD-EFGH-…`
    """
    from pgengram.sync import devices
    from pgengram.sync.keys import Key

    async with opened_manager(personal=True) as core:
        key = Key.from_code(code)
        let_in = token or await _token_by_sign_in(folder, name)
        await devices.begin(core, folder, key, name, let_in)
        outcome = await _exchanged(core, quiet=as_json)
    return _print_outcome(outcome, as_json=as_json)


@sync.command("sign-in")
@command
async def sign_in(token: Token = "", as_json: AsJson = False) -> int:
    """Let this machine into the server again, in the browser or by another token, and exchange what waited.

    Example: `pgengram sync sign-in`
    """
    from pgengram.sync import devices

    async with opened_manager(personal=True) as core:
        address, name = await devices.server_address(core)
        await devices.set_token(core, token or await _token_by_sign_in(address, name))
        outcome = await _exchanged(core, quiet=as_json)
    return _print_outcome(outcome, as_json=as_json)


@sync.command("now")
@command
async def now(as_json: AsJson = False) -> int:
    """Exchange at once. A running server does so by itself.

    Example: `pgengram sync now`
    """
    async with opened_manager(personal=True) as core:
        outcome = await _exchanged(core, quiet=as_json)
    return _print_outcome(outcome, as_json=as_json)


@sync.command("status")
@command
async def status(as_json: AsJson = False) -> None:
    """Show the machines, what is not exchanged yet, and what could not be read.

    Example: `pgengram sync status`
    """
    from pgengram.sync import devices

    async with opened_manager(personal=True) as core:
        found = await devices.status(core)
    lines = [f"Exchanged through: {found.folder}", f"Changes that are not written yet: {found.changes:,}"]
    if found.exchanged:
        lines.append(f"Last exchange: {found.exchanged}")
    if found.problem:
        lines.append(f"The last exchange failed: {found.problem}")
    if found.disputed:
        lines.append(f"{found.disputed} memories were changed on two machines at once: `pgengram review` shows them.")
    for one in found.devices:
        about = "this machine" if one.is_this else f"last seen {one.seen[:10]}"
        behind = "; may still have what was erased elsewhere" if one.behind else ""
        lines.append(f"{one.id}  {one.name} ({about}, pgengram {one.version}{behind})")
    names = {one.id: one.name for one in found.devices}
    lines += [
        f"Not read, of {names.get(name.partition('/')[0], 'a machine')}: {name}: {why}"
        for name, why in found.unread.items()
    ]
    print_answer("\n".join(lines), found.as_dict(), as_json=as_json)


@sync.command("code")
@command
async def code(as_json: AsJson = False) -> None:
    """Print the code that joins another machine; keep it like a password.

    Example: `pgengram sync code`
    """
    from pgengram.sync import devices

    async with opened_manager(personal=True) as core:
        key = await devices.key_of(core)
    print_answer(key.code, {"code": key.code}, as_json=as_json)


@sync.command("leave")
@command
async def leave(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False, as_json: AsJson = False
) -> int:
    """Exchange nothing any more. All memories stay, here and on the other machines.

    Example: `pgengram sync leave`
    """
    from pgengram.sync import devices

    if not confirm("Exchange nothing with the other machines any more?", yes=yes):
        return FAILED
    async with opened_manager(personal=True) as core:
        await devices.end(core)
    print_answer("This memory is no longer synchronised.", {"left": True}, as_json=as_json)
    return 0


@sync.command("forget-device")
@command
async def forget_device(
    device: Annotated[str, typer.Argument(help="Its id or name, as `pgengram sync status` shows them.")],
    as_json: AsJson = False,
) -> None:
    """Wait no longer for a machine that will not come back. It keeps its copy.

    Example: `pgengram sync forget-device "old laptop"`
    """
    from pgengram.sync import devices

    async with opened_manager(personal=True) as core:
        gone = await devices.forget(core, device)
    print_answer(f"{gone.name} is no longer waited for.", {"forgotten": gone.id}, as_json=as_json)


async def _token_by_sign_in(address: str, name: str) -> str | None:
    """Let a person sign in to a server in the browser, and return what is kept as its token; None for other places."""
    from pgengram.sync.addresses import is_server

    if not is_server(address):
        return None
    from pgengram.sync.devices import machine_name
    from pgengram.sync.remotes.server import check_address
    from pgengram.sync.remotes.sign_in import sign_in as asked

    check_address(address)
    return await asyncio.to_thread(asked, address, machine_name(name), _show)


def _show(page: str) -> None:
    print_note(f"Open this page, and allow this machine to read and write your memories:\n{page}")
    webbrowser.open(page)


async def _exchanged(core: Core, *, quiet: bool) -> Outcome:
    from pgengram.sync import devices
    from pgengram.sync.exchange import Exchange

    with ProgressBar("Exchanging changes", quiet=quiet):
        await devices.install(core)
        outcome = await Exchange(core).run()
    if outcome is None:
        raise Conflict(devices.NOT_ON, devices.BEGIN)
    return outcome


def _print_outcome(outcome: Outcome, *lines: str, as_json: bool, **facts: str) -> int:
    """Print what an exchange did, and more; return the exit code."""
    did = (
        f"Taken from other machines: {outcome.taken:,}. Written for them: {outcome.written:,}. "
        f"Erased as elsewhere: {outcome.erased:,}."
    )
    unread = [f"Not read: {name}: {why}" for name, why in outcome.unread.items()]
    problem = [outcome.problem] if outcome.problem else []
    print_answer("\n".join([did, *unread, *problem, *lines]), asdict(outcome) | facts, as_json=as_json)
    return FAILED if outcome.problem else 0
