"""`pgengram citus`: one store on several machines."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable
from dataclasses import asdict
from typing import Annotated, Final

import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgengram.cli.help import Commands
from pgengram.cli.options import AsJson
from pgengram.cli.output import plain_table
from pgengram.cli.runtime import FAILED, command, notes, opened_store, print_json, say, screen
from pgengram.errors import InvalidInput, NotReady
from pgengram.postgres import binaries
from pgengram.settings import Settings
from pgengram.store.citus import citus
from pgengram.store.citus.citus import DEFAULT_PORT
from pgengram.store.citus.status import Status, cluster_status
from pgengram.store.connection import pooler
from pgengram.store.store import Store

MOST_SHARDS: Final = 1_024
Node = Annotated[str, typer.Argument(metavar="HOST[:PORT]", help="The machine's address as seen by the coordinator.")]

machines = Commands("Spread one store over several machines with Citus.")


@machines.command("init")
@command
async def distribute(
    shards: Annotated[
        int | None, typer.Option(help="Number of shards, set once; 32 by default.", min=1, max=MOST_SHARDS)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Distribute the store by namespace over the machines. Safe to run again.

    Example: `pgengram citus init --shards 64`
    """
    await _run_and_show(
        "Distributing", citus.distribute_tables(_database_url(), shards or citus.SHARDS), as_json=as_json
    )


@machines.command("status")
@command
async def show_machines(as_json: AsJson = False) -> int:
    """Show the machines, what each holds, and whether row-level security is on.

    The exit code is 1 if it is off on one of them.

    Example: `pgengram citus status --json`
    """
    seen = await _run_and_show("Asking the machines", cluster_status(_database_url()), as_json=as_json)
    return FAILED if seen.row_level_security is False else 0


@machines.command("add-node")
@command
async def add_machine(
    node: Node,
    coordinator: Annotated[
        str, typer.Option(metavar="HOST[:PORT]", help="The coordinator's address for the machines; needed once.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Add a machine.

    Example: `pgengram citus add-node db2.example.org --coordinator db1.example.org`
    """
    host, port = _host_and_port(node)
    adding = citus.add_node(_database_url(), host, port, _host_and_port(coordinator) if coordinator else None)
    await _run_and_show(f"Adding {host}:{port}", adding, as_json=as_json)


@machines.command("rebalance")
@command
async def rebalance_shards(as_json: AsJson = False) -> None:
    """Spread the shards evenly over the machines. Servers keep running.

    Example: `pgengram citus rebalance`
    """
    await _run_and_show("Moving shards", citus.rebalance(_database_url()), as_json=as_json)


@machines.command("isolate")
@command
async def isolate_namespace(
    namespace: Annotated[str, typer.Argument(help="The namespace, as in PGENGRAM_NAMESPACE.")],
    node: Annotated[
        str, typer.Option(metavar="HOST[:PORT]", help="The target machine; by default the emptiest one.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Move a large namespace to its own shard on another machine. Servers keep running.

    Example: `pgengram citus isolate acme --node db3.example.org`
    """
    moving = citus.isolate(_database_url(), namespace, _host_and_port(node) if node else None)
    await _run_and_show(f"Moving {namespace}", moving, as_json=as_json)


def _database_url() -> str:
    url = Settings.from_environment().database_url
    if not url:
        raise InvalidInput(
            "The embedded PostgreSQL runs on one machine only.", "Set PGENGRAM_DATABASE_URL to a Citus coordinator."
        )
    return url


def _host_and_port(text: str) -> tuple[str, int]:
    """Return host and port of HOST, HOST:PORT or [ADDRESS]:PORT."""
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        return text.strip("[]"), DEFAULT_PORT
    if not host or not port.isdigit() or not 1 <= int(port) <= 65_535:
        raise InvalidInput(f"{text!r} is not in the form HOST or HOST:PORT.")
    return host.strip("[]"), int(port)


async def _run_and_show(what: str, work: Awaitable[Status], *, as_json: bool) -> Status:
    """Do something with the machines, and show how they are afterwards."""
    with notes.status(what):
        seen = await work
    if as_json:
        print_json(asdict(seen))
    else:
        _print(seen)
    return seen


def _print(seen: Status) -> None:
    security = {
        None: "waits for the first distributed row",
        True: "is in force on every shard",
        False: "IS OFF on a shard",
    }
    say(f"Citus {seen.citus}, {seen.shards} shards. Row-level security {security[seen.row_level_security]}.")
    table = plain_table("", "machine", "part", "shards", "bytes")
    for node in seen.nodes:
        part = "coordinator" if node.coordinator else "worker" if node.active else "worker, inactive"
        table.add_row(f"{node.host}:{node.port}", part, str(node.shards), f"{node.bytes:,}")
    screen.print(table)
    for alone in seen.alone:
        say(f"{alone.namespace} is alone in its shard, on {alone.host}:{alone.port}.")
    if seen.missing:
        say(f"Not in place: {', '.join(seen.missing)}. Run `pgengram citus init`.")


@command
async def psql(
    statement: Annotated[str | None, typer.Argument(help="SQL to run. Without it: psql waits for yours.")] = None,
) -> int:
    """Sees and changes the memories of PGENGRAM_NAMESPACE only. The exit code is psql's.

    Examples: `pgengram psql`, `pgengram psql "SELECT content, relevance FROM memories_now ORDER BY relevance DESC"`
    """
    async with opened_store() as store:
        where = await _session_parameters(store)
        arguments = ["--set=ON_ERROR_STOP=1", f"--command={statement}"] if statement else []
        before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl+C is psql's while it runs
        try:
            return await asyncio.to_thread(_run_psql, where, arguments)
        finally:
            signal.signal(signal.SIGINT, before)


async def _session_parameters(store: Store) -> dict[str, str]:
    """Return the parameters of a session that sees one namespace, as the application does.

    Raises:
        NotReady: the session would be a pooler's, which gives it to others and leaves the wall out.
    """
    database = store.database
    async with database.as_login() as connection:
        if await pooler.is_behind(connection):
            raise NotReady(
                "PGENGRAM_DATABASE_URL points to a connection pooler, but psql needs a session to itself.",
                "Call again with the server's own address in PGENGRAM_DATABASE_URL.",
            )
    key = await database.namespace_id(Settings.from_environment().namespace)
    where = {name: str(value) for name, value in conninfo_to_dict(database.url).items() if value is not None}
    role = [] if database.role == "none" else [f"-crole={database.role}"]
    options = [where.get("options", ""), f"-cpgengram.namespace_id={key}", *role]
    return where | {"options": " ".join(filter(None, options))}


def _run_psql(where: dict[str, str], arguments: list[str]) -> int:
    password = where.pop("password", None)
    environment = os.environ | ({"PGPASSWORD": password} if password else {})
    program = [binaries.psql_path(), *arguments, make_conninfo("", **where)]
    return subprocess.run(program, env=environment, check=False).returncode  # noqa: S603
