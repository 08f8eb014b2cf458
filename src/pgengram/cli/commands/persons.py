"""`pgengram person`: the people who share memories."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pgengram.cli.help import Commands
from pgengram.cli.options import AsJson
from pgengram.cli.output import plain_table
from pgengram.cli.runtime import FAILED, command, opened_store, print_answer, print_json, say, screen, typed_out
from pgengram.service.spaces import leaving
from pgengram.settings import Settings
from pgengram.store.maintenance import namespaces
from pgengram.store.spaces import membership, persons
from pgengram.sync import devices
from pgengram.text.moments import ago

person = Commands("Manage the people who share memories.")


@person.command()
@command
async def add(
    name: Annotated[str, typer.Argument(help="How others see them.")],
    namespace: Annotated[str, typer.Option(help="Where their memories are; by default a namespace of that name.")] = "",
    as_json: AsJson = False,
) -> None:
    """Add a person with a namespace of their own.

    Example: `pgengram person add Mara --namespace mara`
    """
    async with opened_store() as store:
        made = await persons.add(store, name, namespace)
    told = f"{made.name} has the namespace {made.namespace}."
    print_answer(told, {"id": made.id, "name": made.name, "namespace": made.namespace}, as_json=as_json)


@person.command(name="list")
@command
async def list_(as_json: AsJson = False) -> None:
    """List everybody and the spaces that they are in.

    Example: `pgengram person list`
    """
    async with opened_store() as store:
        found = [(one, await membership.of_person(store, one)) for one in await persons.listed(store)]
    rows: list[dict[str, Any]] = [
        {
            "name": one.name,
            "namespace": one.namespace,
            "spaces": {space.shown: space.role.name.lower() for space in spaces},
            "since": one.created_at.isoformat(timespec="seconds"),
        }
        for one, spaces in found
    ]
    if as_json:
        print_json({"people": rows})
        return
    if not rows:
        say("Nobody was added yet. Add somebody with `pgengram person add NAME`.")
        return
    table = plain_table("", "name", "namespace", "spaces", "since")
    for (one, _), row in zip(found, rows, strict=True):
        spaces = ", ".join(f"{name} ({role})" for name, role in row["spaces"].items())
        table.add_row(one.name, one.namespace, spaces, ago(one.created_at))
    screen.print(table)


@person.command()
@command
async def erase(
    name: Annotated[str, typer.Argument(help="From `pgengram person list`.")],
    yes: Annotated[bool, typer.Option("--yes", help="Skip the prompt.")] = False,
    as_json: AsJson = False,
) -> int:
    """Permanently erase a person: their own memories, and their name wherever it is.

    What they shared stays in its space, as a former member's.

    Example: `pgengram person erase Mara`
    """
    async with opened_store() as store:
        known = await persons.named(store, name)
        question = f"This erases all memories of {known.name}. Type the name to confirm"
        if not yes and not typed_out(question, known.name):
            return FAILED
        key = await namespaces.namespace_key(store.database, known.namespace)
        data = Settings.from_environment().data_path
        removed = await leaving.erase_person(store, known, lambda: devices.erase_elsewhere(store.database, key, data))
    print_answer(f"{known.name} is erased.", {"erased": known.name, "removed": removed}, as_json=as_json)
    return 0
