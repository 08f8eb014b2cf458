"""What a person types."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.models import CommandInfo

from pgengram import __version__
from pgengram.errors import InvalidInput, PgengramError
from pgengram.runtime.loop import event_loop
from pgengram.settings import Settings

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")
INTERRUPTED = 130  # the exit code of a command that a person has ended, as shells have it
UNREAD = 141  # … and of one whose reader has gone

app = typer.Typer(
    name="pgengram",
    help="Long-term memory for AI assistants, in your own PostgreSQL. Without a command it serves MCP over stdio.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
screen = Console()
notes = Console(stderr=True)
SYSTEMS = ("jsonl", "agi", "session-continuity", "skynet", "ownsona", "crow", "mcp-memory", "mcp-memory-service")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
OfProject = Annotated[str | None, typer.Option(help="Of this project only.")]


def command(function: Callable[Parameters, Coroutine[Any, Any, int | None]]) -> Callable[Parameters, None]:
    """Run an asynchronous command; our errors become one line on stderr and exit code 1."""

    @wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            with asyncio.Runner(loop_factory=event_loop) as runner:
                code = runner.run(function(*args, **kwargs))
        except PgengramError as error:
            notes.print(Text(error.code, style="red"), highlight=False, end=" ")
            notes.print(f"{error.message}\n{error.hint}", highlight=False, markup=False, soft_wrap=True)
            raise typer.Exit(2 if isinstance(error, InvalidInput) else 1) from None
        except KeyboardInterrupt:
            notes.print("Ended by Ctrl+C.", highlight=False)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # whoever reads has seen enough, as `head` has
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is for nobody
            raise typer.Exit(UNREAD) from None
        raise typer.Exit(code or 0)

    return run


def completing(words: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what a shell is told that the beginning of a word may become."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def agreed(question: str, *, yes: bool = False) -> bool:
    """Whether a person says yes to a question, or has said so before.

    Raises:
        InvalidInput: nobody can be asked.
    """
    return yes or answer_of(lambda: typer.confirm(question, err=True))


def answer_of(ask: Callable[[], Answer]) -> Answer:
    """Return what a person answers; Ctrl+C ends the command at once, where the loop would wait for the answer first.

    Raises:
        InvalidInput: standard input is no terminal, so nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise InvalidInput("Nobody is here to be asked.", "Nothing was changed. Say --yes to have it done unasked.")
    loops = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return ask()
    except typer.Abort:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, loops)


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
    """Show the whole at work, with invented memories.

    Starts a server as a client would, stores a small life, and asks about it.

    Example: `pgengram demo --keep ./demo-data`
    """
    from pgengram.cli.demo import run_demo

    return await run_demo(Settings.from_environment(), keep=keep, as_json=as_json)


@app.command()
@command
async def doctor(as_json: AsJson = False) -> int:
    """Check everything, and say how to repair what is wrong.

    From the binaries to a stored and found memory; then starts each assistant's entry as the assistant would, and greets it.

    Example: `pgengram doctor --json`
    """
    from pgengram.cli.doctor import examine

    return await examine(Settings.from_environment(), as_json=as_json)


@app.command()
@command
async def migrate() -> None:
    """Bring the database's schema up to this version.

    A server does the same by itself when it starts.

    Example: `PGENGRAM_DATABASE_URL=postgresql://memo@db.example.org/memo pgengram migrate`
    """
    from pgengram.cli.progress import Told
    from pgengram.store.store import Store

    store = Store(Settings.from_environment())
    try:
        with Told("Migrating"):
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
    """Call one tool as an assistant would; print its answer as JSON.

    Example: `pgengram call search_memories query="where do we deploy?" limit=3`
    """
    from pgengram.mcp.binding import ToolBinding
    from pgengram.service.manager import MemoryManager

    given = dict(_pair(argument) for argument in arguments or [])
    manager = MemoryManager(Settings.from_environment())
    try:
        offers = {offered.name: ToolBinding(offered) for offered in manager.tools}
        if tool not in offers:
            raise InvalidInput(f"There is no tool {tool!r}.", f"Known are {', '.join(offers)}.")
        answer = await offers[tool].tool.run(offers[tool].arguments(given))
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
        str,
        typer.Option(
            help="ivfflat builds fast and suits a store that changes; hnsw answers faster.",
            autocompletion=completing(("ivfflat", "hnsw")),
        ),
    ] = "ivfflat",
) -> None:
    """Build the index of the vectors anew.

    The server does it by itself when it is due.

    Example: `pgengram reindex --method hnsw`
    """
    from pgengram.cli.progress import Told
    from pgengram.service.manager import MemoryManager

    manager = MemoryManager(Settings.from_environment())
    try:
        with Told("Building the index"):
            state = await manager.reindex(method)
    finally:
        await manager.close()
    screen.print(state)


@app.command()
@command
async def reembed(
    embedder: Annotated[
        str | None, typer.Argument(help="As in PGENGRAM_EMBEDDER. Left out: goes on with a move that was broken off.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Give up a move that has not ended.")] = False,
    as_json: AsJson = False,
) -> int:
    """Move all memories to another embedding model.

    Servers go on meanwhile; it may be broken off and called again.

    Example: `pgengram reembed onnx:/models/multilingual-e5-small`
    """
    from pgengram.cli.reembed import run_reembed

    return await run_reembed(Settings.from_environment(), embedder, cancel=cancel, as_json=as_json)


@app.command(name="export")
@command
async def export_(
    path: Annotated[str, typer.Argument(help="A file for the lines of JSON, or - for standard output.")],
) -> int:
    """Write everything that is remembered as lines of JSON.

    A backup, or a way to another store.

    Example: `pgengram export memories.jsonl`
    """
    from pgengram.cli.transfer import run_export

    return await run_export(Settings.from_environment(), path)


@app.command(name="import")
@command
async def import_(
    source: Annotated[
        str, typer.Argument(metavar="PATH", help="A file, or - for standard input; for agi also a postgresql:// URL.")
    ],
    system: Annotated[
        str,
        typer.Option(
            "--from",
            help=f"jsonl (an export), {', '.join(SYSTEMS[1:-1])} or {SYSTEMS[-1]}.",
            autocompletion=completing(SYSTEMS),
        ),
    ] = "jsonl",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be taken.")] = False,
    as_json: AsJson = False,
) -> int:
    """Bring in memories from an export or another system.

    What is there already stays as it is.

    Examples: `pgengram import --from mcp-memory memory.jsonl --dry-run`, `pgengram export - | ssh ada@box pgengram import -`
    """
    from pgengram.cli.transfer import run_import

    return await run_import(Settings.from_environment(), system, source, dry_run=dry_run, as_json=as_json)


@app.command()
@command
async def backup(
    path: Annotated[
        Path | None,
        typer.Argument(help="A file. Left out: one in the folder `backups` of the data folder.", dir_okay=False),
    ] = None,
    if_due: Annotated[
        bool,
        typer.Option(
            "--if-due", help="Only when the newest daily backup is older than a day; PGENGRAM_BACKUP_DAYS are kept."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Write the whole store into one file.

    All namespaces and their history, while servers go on.

    Example: `pgengram backup /media/usb/memories.backup`
    """
    from pgengram.cli.backup import run_backup

    return await run_backup(Settings.from_environment(), path, if_due=if_due, as_json=as_json)


@app.command()
@command
async def restore(
    what: Annotated[
        list[str],
        typer.Argument(metavar="FILE|ID…", help="A file that `pgengram backup` has written, or ids of memories."),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Put a backup back without asking.")] = False,
    as_json: AsJson = False,
) -> int:
    """Bring forgotten memories back, or put a backup back.

    A backup takes the place of the whole store; every row is compared before anything goes.

    Examples: `pgengram restore e8d03e19`, `pgengram restore /media/usb/memories.backup`
    """
    from pgengram.cli.backup import run_restore
    from pgengram.cli.writing import are_ids, restore_memories

    if are_ids(what):
        return await restore_memories(what, as_json=as_json)
    if len(what) > 1:
        raise InvalidInput("Give the file of one backup, or ids of memories.")
    return await run_restore(Settings.from_environment(), Path(what[0]), yes=yes, as_json=as_json)


@app.command()
@command
async def upgrade(as_json: AsJson = False) -> int:
    """Move the embedded store to the newest installed PostgreSQL.

    Broken off, it leaves what there was.

    Example: `pgengram upgrade --json`
    """
    from pgengram.cli.backup import run_upgrade

    return await run_upgrade(Settings.from_environment(), as_json=as_json)


@app.command()
@command
async def stats(
    project: OfProject = None,
    tags: Annotated[int, typer.Option(help="How many tags to name, the most used first.", min=0, max=500)] = 20,
    as_json: AsJson = False,
) -> None:
    """Count memories, and show the state of index and embedder.

    How many there are, of what kind, how old, how important, and how fast they fade.

    Examples: `pgengram stats`, `pgengram stats --project ark --tags 50 --json`
    """
    from pgengram.cli.upkeep import show_statistics

    await show_statistics(Settings.from_environment(), project=project, tags=tags, as_json=as_json)


@app.command()
@command
async def review(
    find: Annotated[
        list[str] | None, typer.Option(help="duplicates, contradictions, expired, stale, … Repeatable; all by default.")
    ] = None,
    project: OfProject = None,
    as_json: AsJson = False,
) -> None:
    """Show memories that need care; nothing is changed.

    Duplicates, contradictions, stale and incomplete ones, and what to do about each.

    Examples: `pgengram review`, `pgengram review --find duplicates --find stale`
    """
    from pgengram.cli.upkeep import show_review

    await show_review(Settings.from_environment(), find=find or [], project=project, as_json=as_json)


@app.command()
@command
async def bench(
    calls: Annotated[int, typer.Option(help="How often each thing is done.", min=10, max=10_000)] = 100,
    as_json: AsJson = False,
) -> int:
    """Measure how fast your store searches, stores and embeds.

    Beside floors of the same run; nothing in the store is changed.

    Examples: `pgengram bench`, `pgengram bench --calls 500 --json`
    """
    from pgengram.cli.bench import run_bench

    return await run_bench(Settings.from_environment(), calls=calls, as_json=as_json)


@app.command()
@command
async def tidy(
    action: Annotated[
        str,
        typer.Argument(
            help="apply (what a review proposes), archive, prune or merge.",
            autocompletion=completing(("apply", "archive", "prune", "merge")),
        ),
    ],
    project: OfProject = None,
    older_than_days: Annotated[
        int | None, typer.Option(help="To archive or prune: stored longer ago.", min=0, max=36_500)
    ] = None,
    below_importance: Annotated[
        float | None, typer.Option(help="To archive or prune: less important.", min=0, max=1)
    ] = None,
    max_accesses: Annotated[int | None, typer.Option(help="To archive or prune: read no more often.", min=0)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show what would be changed, ask, and do all of it or nothing.

    Example: `pgengram tidy archive --older-than-days 500`
    """
    from pgengram.cli.upkeep import tidy_up

    bounds = {
        "older_than_days": older_than_days,
        "below_importance": below_importance,
        "max_accesses": max_accesses,
    }
    return await tidy_up(Settings.from_environment(), action, project=project, bounds=bounds, yes=yes, as_json=as_json)


@app.command()
@command
async def tags(
    synonym: Annotated[
        list[str] | None,
        typer.Option(metavar="ALIAS=TAG", help="Let a word mean a tag; ALIAS= lets it mean itself again. Repeatable."),
    ] = None,
    broader: Annotated[
        bool | None,
        typer.Option("--broader/--no-broader", help="Take over the broader tags that come along, or drop them."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show tags and the words that mean the same; edit the latter.

    Example: `pgengram tags --synonym k8s=kubernetes --synonym prefs=`
    """
    from pgengram.service.manager import MemoryManager
    from pgengram.store.maintenance import findings
    from pgengram.store.reading import synonyms
    from pgengram.text.tags import BROADER

    wanted: dict[str, str | None] = {} if broader is None else dict(BROADER) if broader else dict.fromkeys(BROADER)
    wanted |= {alias: tag or None for alias, tag in (_pair(one) for one in synonym or [])}
    manager = MemoryManager(Settings.from_environment())
    try:
        await manager.ready()
        async with manager.store.transaction() as tx:
            meant = await synonyms.set_synonyms(tx, wanted) if wanted else await synonyms.synonyms(tx)
            used = await findings.tag_counts(tx, limit=1_000)
    finally:
        await manager.close()
    if as_json:
        screen.print_json(json.dumps({"tags": used, "synonyms": meant}))
        return
    for title, rows in (("tags", [*used.items()]), ("synonyms", [*meant.items()])):
        table = Table(title=title, title_justify="left", show_header=False)
        for name, value in rows:
            table.add_row(name, str(value))
        screen.print(table)


@app.command(name="erase-namespace")
@command
async def erase_namespace(
    namespace: Annotated[str, typer.Argument(help="Whose memories; as in PGENGRAM_NAMESPACE.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> int:
    """Erase all that a namespace has, for good.

    Shows it, asks, erases it, and clears the files as `scrub` does.

    Example: `pgengram erase-namespace ada`
    """
    from pgengram.cli.erasing import run_erase_namespace

    return await run_erase_namespace(Settings.from_environment(), namespace, yes=yes, as_json=as_json)


@app.command(name="erase-source")
@command
async def erase_source(
    source: Annotated[str, typer.Argument(help="A document, an address, or a system imported from, as it was stored.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    confirm_token: Annotated[str, typer.Option(help="From the preview that is shown where nobody can be asked.")] = "",
    as_json: AsJson = False,
) -> int:
    """Erase all that comes from one source, for good.

    Shows it and asks before.

    Example: `pgengram erase-source https://example.org/rumours.html`
    """
    from pgengram.cli.erasing import run_erase_source

    settings = Settings.from_environment()
    return await run_erase_source(settings, source, yes=yes, confirm_token=confirm_token, as_json=as_json)


@app.command()
@command
async def scrub(as_json: AsJson = False) -> int:
    """Clear the database's files of the remains of what was erased.

    Writes tables and indexes anew, and recycles the write-ahead log.

    Example: `pgengram scrub`
    """
    from pgengram.cli.erasing import run_scrub

    return await run_scrub(Settings.from_environment(), as_json=as_json)


# What the help shows, in this order; each of these has one line there.
PANELS: Final = {
    "Begin": ("demo", "connect", "disconnect", "doctor", "ui"),
    "Memories": ("add", "search", "show", "edit", "forget", "restore", "list", "timeline", "graph", "recall"),
    "Order and numbers": ("stats", "review", "tidy", "tags", "bench"),
    "The whole store": (
        "export", "import", "backup", "migrate", "upgrade", "reindex", "reembed", "erase-namespace", "erase-source", "scrub",
    ),
    "Servers and programs": ("call", "serve", "cluster", "token"),
}  # fmt: skip


def _arrange() -> None:
    """Put every command into its panel of the help, and in the order in which people need them."""
    places = {name: (rank, panel) for rank, (name, panel) in enumerate((n, p) for p, ns in PANELS.items() for n in ns)}
    app.registered_commands.sort(key=lambda one: places[_name(one)][0])
    for one in app.registered_commands:
        one.rich_help_panel = places[_name(one)][1]
    for group in app.registered_groups:
        group.rich_help_panel = places[str(group.name)][1]


def _name(one: CommandInfo) -> str:
    return str(one.name or getattr(one.callback, "__name__", ""))


from pgengram.cli import cluster as cluster  # noqa: E402  # their commands are registered by importing them
from pgengram.cli import connecting as connecting  # noqa: E402
from pgengram.cli import finding as finding  # noqa: E402
from pgengram.cli import recalling as recalling  # noqa: E402
from pgengram.cli import serving as serving  # noqa: E402
from pgengram.cli import ui as ui  # noqa: E402
from pgengram.cli import writing as writing  # noqa: E402

_arrange()
