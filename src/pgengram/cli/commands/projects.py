"""`pgengram projects`: which projects there are, and what they are called."""

from __future__ import annotations

import os
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from pgengram.cli.help import Commands
from pgengram.cli.options import AsJson
from pgengram.cli.output import plain_table
from pgengram.cli.runtime import command, opened_manager, print_answer, print_json, say, screen
from pgengram.errors import Conflict, InvalidInput
from pgengram.inputs import Change, validated
from pgengram.service.manager import MemoryManager
from pgengram.service.projects import Names
from pgengram.store.reading import names as store
from pgengram.store.reading.names import alike, folded_name
from pgengram.text.shown import counted

MAX_NAME: Final = 256
projects = Commands("Show projects; rename them, and edit their aliases.")
OldName = Annotated[str, typer.Argument(metavar="NAME", help="As `pgengram projects list` shows it.")]


@projects.command(name="list")
@command
async def list_projects(as_json: AsJson = False) -> None:
    """List the projects with their aliases and folders.

    Example: `pgengram projects list`
    """
    async with opened_manager() as manager:
        await manager.ready()
        stored = await manager.store.read_transaction(store.stored_projects)
        here = manager.projects.of(os.getcwd())
        found = _projects_with_aliases(stored, manager.projects.names())
    if as_json:
        own = {"name": here.name, "collection": here.collection} if here else None
        print_json({"here": own, "projects": found})
        return
    table = plain_table("", "project")
    for heading in ("memories", "conversations"):
        table.add_column(heading, justify="right")
    for heading in ("aliases", "seen at"):
        table.add_column(heading)
    for one in found:
        cells = (one["name"], f"{one['memories']:,}", f"{one['conversations']:,}", ", ".join(one["aliases"]))
        table.add_row(*map(Text, (*cells, "\n".join(one["seen"]))))
    screen.print(table) if found else say("No projects yet. `pgengram add TEXT --project NAME` makes one.")
    part = f", the part {here.collection}" if here and here.collection else ""
    say(f"This folder belongs to {here.name}{part}." if here else "This folder belongs to no project.")


@projects.command()
@command
async def alias(
    name: Annotated[str, typer.Argument(metavar="ALIAS", help="The name.")],
    project: Annotated[str, typer.Argument(help="The project, as `pgengram projects list` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Make a name an alias of a project: its folders and memories count as the project's.

    Example: `pgengram projects alias ark-website ark`
    """
    async with opened_manager() as manager:
        names = manager.projects
        names.alias(_valid_name(name), _valid_name(project))
        meant = names.names().meant(project)
    print_answer(f"{name} is now an alias of {meant}.", {"alias": name, "project": meant}, as_json=as_json)


@projects.command()
@command
async def unalias(
    name: Annotated[str, typer.Argument(metavar="ALIAS", help="The alias.")], as_json: AsJson = False
) -> None:
    """Make an alias a project of its own again.

    Example: `pgengram projects unalias ark-website`
    """
    async with opened_manager() as manager:
        project = manager.projects.unalias(name)
    print_answer(f"{name} is no longer an alias of {project}.", {"alias": name, "stood_for": project}, as_json=as_json)


@projects.command()
@command
async def rename(
    name: OldName, new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")], as_json: AsJson = False
) -> None:
    """Rename a project; the old name stays an alias.

    Example: `pgengram projects rename ark "Ark 2"`
    """
    async with opened_manager() as manager:
        await manager.ready()
        done = await _renamed(manager, name, _valid_name(new))
    text = f"{name} is now called {new}, with {counted(done['memories'])} and {done['conversations']:,} conversations."
    if done["left"]:
        text += f" {counted(len(done['left']))} kept the old name, because {new} already has the same."
    print_answer(text, {"project": new, "alias": name, **done}, as_json=as_json)


async def _renamed(manager: MemoryManager, old: str, new: str) -> dict[str, Any]:
    """Rename a project; return how many memories and conversations have the new name, and what was left."""
    stored = [row["name"] for row in await manager.store.read_transaction(store.stored_projects)]
    names = manager.projects.names()
    spelled = [one for name in names.all_of(old) for one in alike(name, stored)]
    if not spelled and not names.holders(names.meant(old)):
        raise InvalidInput(f"There is no project {old}.", "`pgengram projects list` shows the projects.")
    if alike(new, stored) and not alike(new, spelled):
        hint = f"Make one an alias of the other instead: pgengram projects alias {old} {new}"
        raise InvalidInput(f"A project named {new} already exists.", hint)
    manager.projects.rename(old, new)
    ids = await manager.store.read_transaction(lambda tx: store.memories_of(tx, spelled, new))
    left = []
    for id_ in ids:
        try:
            await manager.update_memory(validated(Change, {"id": str(id_), "project": new}))
        except Conflict:
            left.append(str(id_))
    async with manager.store.transaction() as tx:
        moved = await store.move_conversations(tx, spelled, new)
    return {"memories": len(ids) - len(left), "conversations": moved, "left": left}


def _projects_with_aliases(stored: list[dict[str, Any]], names: Names) -> list[dict[str, Any]]:
    """Return the projects, what is stored under an alias with the project that it stands for."""
    found: dict[str, dict[str, Any]] = {}
    for name, memories, conversations in [
        *((row["name"], row["memories"], row["conversations"]) for row in stored),
        *((name, 0, 0) for name in (*names.aliases.values(), *names.seen.values())),
    ]:
        project = names.meant(name)
        one = found.setdefault(folded_name(project), {"name": project, "memories": 0, "conversations": 0})
        one["memories"] += memories
        one["conversations"] += conversations
    for one in found.values():
        aliases = names.all_of(one["name"])
        one["aliases"] = aliases[1:]
        one["seen"] = [_legible_key(key) for name in aliases for key in names.holders(name)]
    return [*found.values()]


def _legible_key(key: str) -> str:
    """Return a remote or a folder as people know it."""
    place, at, moment = key.rpartition("@")
    return place if at and moment.isdecimal() else key


def _valid_name(name: str) -> str:
    """Return a name that a project may have.

    Raises:
        InvalidInput: it is empty or too long.
    """
    name = " ".join(name.split())
    if not 1 <= len(name) <= MAX_NAME:
        raise InvalidInput(f"A project's name must have 1 to {MAX_NAME} characters.", "Use another name.")
    return name
