"""`pgengram cluster`: one store on several machines."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table

from pgengram.cli import AsJson, app, command, notes, screen
from pgengram.errors import InvalidInput
from pgengram.settings import Settings

if TYPE_CHECKING:
    from pgengram.store.citus.citus import Status

MOST_SHARDS: Final = 1_024

cluster_app = typer.Typer(help="One store on several machines, by the extension Citus.", no_args_is_help=True)
app.add_typer(cluster_app, name="cluster")


@cluster_app.command("init")
@command
async def init(
    shards: Annotated[
        int | None,
        typer.Option(
            help="Into how many pieces namespaces are dealt, said once; 32 by default.", min=1, max=MOST_SHARDS
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Distribute the store by namespace over the machines that the coordinator knows. May be called again.

    Example: `pgengram cluster init --shards 64`
    """
    from pgengram.store.citus import citus

    with notes.status("Distributing"):
        seen = await citus.init(_url(), shards or citus.SHARDS)
    _show(seen, as_json=as_json)


@cluster_app.command("status")
@command
async def status(as_json: AsJson = False) -> int:
    """Show the machines, what each holds, and whether row-level security stands on all; exit code 1 when it does not.

    Example: `pgengram cluster status --json`
    """
    from pgengram.store.citus import citus

    seen = await citus.status(_url())
    _show(seen, as_json=as_json)
    return 1 if seen.row_level_security is False else 0


@cluster_app.command("add-node")
@command
async def add_node(
    node: Annotated[str, typer.Argument(metavar="HOST[:PORT]", help="The machine, as the coordinator reaches it.")],
    coordinator: Annotated[
        str, typer.Option(metavar="HOST[:PORT]", help="The coordinator, as machines reach it; needed once.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Have the cluster take in a machine.

    Example: `pgengram cluster add-node db2.example.org --coordinator db1.example.org`
    """
    from pgengram.store.citus import citus

    host, port = _place(node)
    with notes.status(f"Adding {host}:{port}"):
        seen = await citus.add_node(_url(), host, port, _place(coordinator) if coordinator else None)
    _show(seen, as_json=as_json)


@cluster_app.command("rebalance")
@command
async def rebalance(as_json: AsJson = False) -> None:
    """Deal the pieces evenly over the machines, while servers go on.

    Example: `pgengram cluster rebalance`
    """
    from pgengram.store.citus import citus

    with notes.status("Moving shards"):
        seen = await citus.rebalance(_url())
    _show(seen, as_json=as_json)


@cluster_app.command("isolate")
@command
async def isolate(
    namespace: Annotated[str, typer.Argument(help="Whose memories; as in PGENGRAM_NAMESPACE.")],
    node: Annotated[str, typer.Option(metavar="HOST[:PORT]", help="Where to; by default the emptiest machine.")] = "",
    as_json: AsJson = False,
) -> None:
    """Give a large namespace a piece of its own on another machine, while servers go on.

    Example: `pgengram cluster isolate acme --node db3.example.org`
    """
    from pgengram.store.citus import citus

    with notes.status(f"Moving {namespace}"):
        seen = await citus.isolate(_url(), namespace, _place(node) if node else None)
    _show(seen, as_json=as_json)


def _url() -> str:
    url = Settings.from_environment().database_url
    if not url:
        raise InvalidInput(
            "The embedded PostgreSQL is for one machine.", "Set PGENGRAM_DATABASE_URL to a coordinator of Citus."
        )
    return url


def _place(text: str) -> tuple[str, int]:
    """Return host and port of HOST, HOST:PORT or [ADDRESS]:PORT."""
    from pgengram.store.citus.citus import DEFAULT_PORT

    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        return text.strip("[]"), DEFAULT_PORT
    if not host or not port.isdigit() or not 1 <= int(port) <= 65_535:
        raise InvalidInput(f"{text!r} is not of the form HOST or HOST:PORT.")
    return host.strip("[]"), int(port)


def _show(seen: Status, *, as_json: bool) -> None:
    if as_json:
        screen.print_json(json.dumps(asdict(seen)))
        return
    row_level_security = {
        None: "no namespace's rows are distributed yet",
        True: "stands on every shard",
        False: "IS OPEN on a shard",
    }
    screen.print(
        f"Citus {seen.citus}, {seen.shards} shards. Row-level security {row_level_security[seen.row_level_security]}.",
        highlight=False,
    )
    table = Table("machine", "part", "shards", "bytes")
    for node in seen.nodes:
        part = "coordinator" if node.coordinator else "worker" if node.active else "worker, inactive"
        table.add_row(f"{node.host}:{node.port}", part, str(node.shards), f"{node.bytes:,}")
    screen.print(table)
    for alone in seen.alone:
        screen.print(f"{alone.namespace} is alone in its shard, on {alone.host}:{alone.port}.", highlight=False)
    if seen.missing:
        screen.print(
            f"Not in place: {', '.join(seen.missing)}. `pgengram cluster init` puts them there.", highlight=False
        )
