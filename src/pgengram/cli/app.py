"""The command `pgengram`: the table of its commands, each imported when it is called."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from pgengram import __version__

# What the help lists, in this order: for each command the module that has it, and a line about it.
PANELS: Final = {
    "Get started": {
        "demo": ("commands.demo", "See pgengram in action, with fictional memories."),
        "connect": ("clients.connecting", "Add pgengram to an assistant's settings."),
        "disconnect": ("clients.connecting", "Remove pgengram from an assistant's settings."),
        "doctor": ("commands.doctor", "Check the setup and say how to fix what is wrong."),
        "ui": ("commands.serving", "Open the web app to search and edit memories."),
    },
    "Memories": {
        "add": ("commands.writing", "Remember something."),
        "search": ("commands.finding", "Find memories by meaning and words, best first."),
        "show": ("commands.finding", "Show memories in full, with links and clusters."),
        "edit": ("commands.writing", "Edit a memory in your editor, or set single fields."),
        "forget": ("commands.writing", "Forget memories (undo with `restore`)."),
        "restore": ("commands.writing", "Restore forgotten memories, or a backup."),
        "list": ("commands.finding:list_memories", "List memories, the newest first."),
        "timeline": ("commands.finding", "Show what happened, day by day, latest first."),
        "graph": ("commands.finding", "Draw linked and similar memories as a tree."),
        "recall": ("commands.finding", "Print what is known about a task, ready for a prompt."),
        "conversations": ("commands.conversations", "Show or erase the conversations that hooks keep."),
        "receipts": ("commands.conversations", "Show which memories hooks gave to a model."),
        "projects": ("commands.projects", "Show projects; rename them, and edit their aliases."),
    },
    "Maintenance": {
        "stats": ("commands.stats", "Count memories; show the index and the embedder."),
        "review": ("commands.maintenance", "Find duplicates, contradictions and stale memories."),
        "tidy": ("commands.maintenance", "Archive, prune or merge memories after a preview."),
        "tags": ("commands.maintenance", "Show tags and their synonyms; edit the synonyms."),
        "bench": ("commands.bench", "Measure how fast your store searches and stores."),
    },
    "Store": {
        "export": ("store.transfer:export_", "Write all memories as JSON lines or Markdown."),
        "import": ("store.transfer:import_", "Import memories from an export or another system."),
        "backup": ("store.backups", "Back up the whole store to one file."),
        "sync": ("store.sync", "Keep one memory on several machines."),
        "psql": ("store.administration", "Look at the memories with SQL."),
        "migrate": ("store.backups", "Update the database schema to this version."),
        "upgrade": ("store.backups", "Move the embedded store to the newest PostgreSQL."),
        "reindex": ("store.models", "Rebuild the index of the vectors."),
        "model": ("store.models", "Download an embedding model, or list those you have."),
        "reembed": ("store.models", "Move all memories to another embedding model."),
        "erase-namespace": ("store.erasure", "Permanently erase everything in a namespace."),
        "erase-source": ("store.erasure", "Permanently erase everything from one source."),
        "scrub": ("store.erasure", "Remove erased data from the database's files."),
    },
    "Servers": {
        "call": ("commands.serving", "Call one tool as an assistant would; print JSON."),
        "serve": ("commands.serving", "Serve MCP over HTTP."),
        "hook": ("commands.serving", "Handle an assistant's hook event."),
        "person": ("commands.spaces", "Manage the people who share memories."),
        "space": ("commands.spaces", "Share memories with others in spaces."),
        "citus": ("store.administration:machines", "Spread one store over several machines with Citus."),
        "pair": ("commands.access", "Print a code that lets a program sign in."),
        "connection": ("commands.access", "Show and end the connections of programs that signed in."),
        "passkey": ("commands.access", "Show and remove the passkeys that confirm sign-ins."),
        "token": ("commands.access", "Manage tokens of clients that connect over HTTP."),
    },
}
COMMANDS: Final = {name: entry for panel in PANELS.values() for name, entry in panel.items()}


class LazyCommands(Mapping[str, Any]):
    """The commands by name, each built when somebody asks for it."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _built(name, *COMMANDS[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _built(name: str, place: str, summary: str) -> Any:
    from pgengram.cli.help import Command

    module, _, attribute = place.partition(":")
    found = getattr(import_module(f"pgengram.cli.{module}"), attribute or name.replace("-", "_"))
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(help=f"{summary}\n\n{inspect.getdoc(found)}", cls=Command)(found)
        found = alone
    made = typer.main.get_command(found)
    made.name, made.help = name, made.help or summary
    return made


class Root(TyperGroup):
    """The group of all commands; its help imports none of them."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "commands": LazyCommands()})

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete the name of a command, importing none."""
        names: dict[str, Any] = {name: TyperCommand(name, help=summary) for name, (_, summary) in COMMANDS.items()}
        ctx.command = TyperGroup(name=self.name, commands=names, params=self.params)
        return ctx.command.shell_complete(ctx, incomplete)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line for each command, below the name of its panel."""
        del ctx
        for panel, commands in PANELS.items():
            with formatter.section(panel):
                formatter.write_dl([(f"{name:<12}", summary) for name, (_, summary) in commands.items()])


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pgengram {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Root, name="pgengram", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


@app.callback()
def root(
    version: Annotated[  # noqa: ARG001 - it ends the program by itself
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    space: Annotated[str, typer.Option(help="Use a shared space instead of your own memories.")] = "",
) -> None:
    """Long-term memory for AI assistants, in your own PostgreSQL. Without a command it serves MCP over stdio."""
    if space:
        from pgengram.cli import runtime

        runtime.in_space.set(space)
