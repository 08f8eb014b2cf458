"""What a person types."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer
from rich.console import Console
from rich.table import Table

from pgengram import __version__
from pgengram.errors import InvalidInput, PgengramError
from pgengram.loop import event_loop
from pgengram.settings import Settings

Parameters = ParamSpec("Parameters")

app = typer.Typer(
    name="pgengram",
    help="Long-term memory for AI assistants, in your own PostgreSQL. Without a command it serves MCP over stdio.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
screen = Console()
notes = Console(stderr=True)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def command(function: Callable[Parameters, Coroutine[Any, Any, int | None]]) -> Callable[Parameters, None]:
    """Run an asynchronous command; our errors become one line on stderr and exit code 1."""

    @wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            with asyncio.Runner(loop_factory=event_loop) as runner:
                code = runner.run(function(*args, **kwargs))
        except PgengramError as error:
            notes.print(f"[red]{error.code}[/red] {error.message}\n{error.hint}", highlight=False)
            raise typer.Exit(2 if isinstance(error, InvalidInput) else 1) from None
        raise typer.Exit(code or 0)

    return run


def _version(wanted: bool) -> None:
    if wanted:
        screen.print(f"pgengram {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Long-term memory for AI assistants."""


@app.command()
@command
async def demo(
    keep: Annotated[Path | None, typer.Option(help="Keep the demo's memories in this folder.", file_okay=False)] = None,
    as_json: AsJson = False,
) -> int:
    """Start a server as a client would, store a small life, and ask about it.

    Example: `pgengram demo --keep ./demo-data`
    """
    from pgengram.cli.demo import run_demo

    return await run_demo(Settings.from_environment(), keep=keep, as_json=as_json)


@app.command()
@command
async def doctor(as_json: AsJson = False) -> int:
    """Check everything from the binaries to a stored and found memory, and say how to repair what is wrong."""
    from pgengram.cli.doctor import examine

    return await examine(Settings.from_environment(), as_json=as_json)


@app.command()
@command
async def migrate() -> None:
    """Bring the database's schema up to this version. A server does the same by itself when it starts."""
    from pgengram.store.store import Store

    store = Store(Settings.from_environment())
    try:
        with notes.status("Migrating"):
            await store.open()
    finally:
        await store.close()
    screen.print("The schema is up to date.")


@app.command()
@command
async def call(
    tool: Annotated[str, typer.Argument(help="A tool's name, such as search_memories.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="name=value…", help="Its arguments; lists and objects as JSON.")
    ] = None,
) -> int:
    """Call one tool as an assistant would, and print its answer as JSON.

    Example: `pgengram call search_memories query="where do we deploy?" limit=3`
    """
    from pgengram.manager import MemoryManager
    from pgengram.server import Offer

    given = dict(_pair(argument) for argument in arguments or [])
    manager = MemoryManager(Settings.from_environment())
    try:
        offers = {offered.name: Offer(offered) for offered in manager.tools}
        if tool not in offers:
            raise InvalidInput(f"There is no tool {tool!r}.", f"Known are {', '.join(offers)}.")
        answer = await offers[tool].tool.method(**offers[tool].arguments(given))
    finally:
        await manager.close()
    screen.print_json(answer.model_dump_json(exclude_none=True))
    return 0 if answer.ok else 1


def _pair(argument: str) -> tuple[str, str]:
    name, equals, value = argument.partition("=")
    if not equals:
        raise InvalidInput(f"{argument!r} is not of the form name=value.")
    return name, value


@app.command()
@command
async def reindex(
    method: Annotated[
        str, typer.Option(help="ivfflat builds fast and suits a store that changes; hnsw answers faster.")
    ] = "ivfflat",
) -> None:
    """Build the index of the vectors anew. The server does it by itself when it is due.

    Example: `pgengram reindex --method hnsw`
    """
    from pgengram.manager import MemoryManager

    manager = MemoryManager(Settings.from_environment())
    try:
        with notes.status("Building the index"):
            state = await manager.reindex(method)
    finally:
        await manager.close()
    screen.print(state)


@app.command()
@command
async def stats(as_json: AsJson = False) -> None:
    """Show how many memories there are, of what kind, how fast they fade, and the state of the index."""
    from pgengram.manager import MemoryManager

    manager = MemoryManager(Settings.from_environment())
    try:
        found = await manager.statistics()
    finally:
        await manager.close()
    if as_json:
        screen.print_json(json.dumps(found))
        return
    for title, rows in found.items():
        table = Table(title=title.replace("_", " "), title_justify="left", show_header=False)
        for name, value in rows.items():
            table.add_row(str(name), "–" if value is None else str(value))
        screen.print(table)
