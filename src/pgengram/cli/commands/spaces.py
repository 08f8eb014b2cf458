"""`pgengram space` and `pgengram person`: what several people share, and who they are."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from pgengram.cli.help import Commands
from pgengram.cli.options import AsJson, Ids, TerminalAsker, Yes, project_named
from pgengram.cli.output import plain_table
from pgengram.cli.runtime import (
    FAILED,
    command,
    confirm,
    opened_spaces,
    opened_store,
    print_answer,
    print_json,
    say,
    screen,
    typed_out,
)
from pgengram.runtime.context import ASKER
from pgengram.service import spaces as of_spaces
from pgengram.service.sharing import Sharing
from pgengram.service.spaces import Spaces
from pgengram.settings import Settings
from pgengram.store import membership, persons
from pgengram.store.maintenance import namespaces
from pgengram.sync import devices
from pgengram.text.shown import ago

Name = Annotated[str, typer.Argument(metavar="SPACE", help="From `pgengram space list`.")]
Who = Annotated[str, typer.Argument(metavar="PERSON", help="From `pgengram person list`.")]
ByOwner = Annotated[
    bool, typer.Option("--as-owner", help="As the owner of the server, without being an admin of the space.")
]
InSpace = Annotated[str, typer.Option("--space", help="The space.")]
AGREED: Final = "Share them?"

space = Commands("Share memories with others in spaces.")


@space.command()
@command
async def create(name: Annotated[str, typer.Argument(help="Of the space.")], as_json: AsJson = False) -> None:
    """Create a space. You are its admin, and alone in it until you add others.

    Example: `pgengram space create Kitchen`
    """
    async with opened_spaces() as spaces:
        made = await membership.create(spaces.home.store, name, await spaces.person())
    print_answer(f"The space {made.name} is there.", {"name": made.name, "id": made.id}, as_json=as_json)


@space.command(name="list")
@command
async def list_(as_json: AsJson = False) -> None:
    """List the spaces that you are in.

    Example: `pgengram space list`
    """
    async with opened_spaces() as spaces:
        found = await spaces.listed()
    if as_json:
        rows = [{"name": one.shown, "role": one.role.name.lower(), "members": one.members} for one in found]
        print_json({"spaces": rows})
        return
    if not found:
        say("You are in no space. Create one with `pgengram space create NAME`.")
        return
    table = plain_table("", "name", "you may", "members", "since")
    for one in found:
        table.add_row(one.shown, one.role.name.lower(), str(one.members), ago(one.created_at))
    screen.print(table)


@space.command()
@command
async def members(name: Name, as_json: AsJson = False) -> None:
    """List who is in a space, and who was.

    Example: `pgengram space members Kitchen`
    """
    async with opened_spaces() as spaces:
        people = await membership.members(spaces.home.store, (await spaces.named(name)).id)
    if as_json:
        print_json(
            {"members": [{"name": m.shown, "role": m.role.name.lower(), "left": m.until is not None} for m in people]}
        )
        return
    table = plain_table("", "name", "may", "since", "left")
    for one in people:
        table.add_row(one.shown, one.role.name.lower(), ago(one.since), ago(one.until) if one.until else "")
    screen.print(table)


@space.command()
@command
async def add(
    name: Name,
    who: Who,
    role: Annotated[str, typer.Option(help="read, write or admin.")] = "write",
    as_owner: ByOwner = False,
    as_json: AsJson = False,
) -> None:
    """Let somebody into a space, or give them another role.

    Example: `pgengram space add Kitchen Ben --role read`
    """
    async with opened_spaces() as spaces:
        wanted, person = membership.role_named(role), await persons.named(spaces.home.store, who)
        space_id, by = await _acting(spaces, name, as_owner=as_owner)
        await membership.put(spaces.home.store, space_id, person, wanted, by=by)
    message = f"{person.name} may {membership.WORDS[wanted].replace('it', name, 1)}."
    print_answer(message, {"space": name, "person": person.name, "role": role}, as_json=as_json)


@space.command()
@command
async def remove(name: Name, who: Who, as_owner: ByOwner = False, as_json: AsJson = False) -> None:
    """Remove somebody from a space at once; what they shared stays.

    Example: `pgengram space remove Kitchen Ben`
    """
    async with opened_spaces() as spaces:
        person = await persons.named(spaces.home.store, who)
        space_id, by = await _acting(spaces, name, as_owner=as_owner)
        await membership.remove(spaces.home.store, space_id, person, by=by)
    print_answer(f"{person.name} is no longer in {name}.", {"space": name, "person": person.name}, as_json=as_json)


@space.command()
@command
async def leave(
    name: Name,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Show what you shared as a former member's from now on.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Leave a space. What you shared stays; `pgengram --space SPACE export --mine FILE` keeps a copy of it.

    Example: `pgengram space leave Kitchen`
    """
    async with opened_spaces() as spaces:
        chosen, person = await spaces.named(name), await spaces.person()
        await membership.remove(spaces.home.store, chosen.id, person, by=person, anonymous=anonymous)
    print_answer(f"You are no longer in {chosen.name}.", {"space": chosen.name}, as_json=as_json)


@space.command()
@command
async def delete(
    name: Name, yes: Annotated[bool, typer.Option("--yes", help="Skip the prompt.")] = False, as_json: AsJson = False
) -> int:
    """Permanently erase a space with everything in it; every member is told. `pgengram --space SPACE export FILE` first
    keeps a copy.

    Example: `pgengram space delete Kitchen`
    """
    async with opened_spaces() as spaces:
        chosen = await spaces.named(name)
        await membership.expect_admin(spaces.home.store, chosen.id, await spaces.person())
        question = f"{chosen.members} people lose all that is in it. Type the name of the space to permanently erase it"
        if not yes and not typed_out(question, chosen.name):
            return FAILED
        removed = await of_spaces.delete_space(spaces.home.store, chosen, await spaces.person())
    print_answer(f"The space {chosen.name} is erased.", {"space": chosen.name, "removed": removed}, as_json=as_json)
    return 0


@space.command()
@command
async def share(ids: Ids, name: InSpace, yes: Yes = False, as_json: AsJson = False) -> None:
    """Copy memories of yours into a space, after you have seen the exact texts.

    Example: `pgengram space share 4f0c2a9b --space Kitchen`
    """
    async with opened_spaces() as spaces:
        ASKER.set(TerminalAsker(yes=yes, prompt=AGREED))
        answer = await Sharing(spaces).share_memories(ids, name)
    print_answer(answer.message, answer, as_json=as_json)


@space.command()
@command
async def withdraw(ids: Ids, name: InSpace, as_json: AsJson = False) -> None:
    """Take back copies that nobody else has changed.

    Example: `pgengram space withdraw 4f0c2a9b --space Kitchen`
    """
    async with opened_spaces() as spaces:
        answer = await Sharing(spaces).share_memories(ids, name, withdraw=True)
    print_answer(answer.message, answer, as_json=as_json)


@space.command()
@command
async def bind(
    project: Annotated[str, typer.Argument(help="From `pgengram projects list`; . for the one of this folder.")],
    name: InSpace,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Keep a project's conversations in a space: everybody in it can read what you and your assistants say there.

    Hooks also tell your assistant what the space knows.

    Example: `pgengram space bind . --space Kitchen`
    """
    chosen_project = project_named(project) or project
    async with opened_spaces() as spaces:
        chosen = await spaces.named(name)
        question = (
            f"{chosen.members} people can read what is said in the project {chosen_project} from now on. Bind it?"
        )
        if not confirm(question, yes=yes):
            return FAILED
        async with spaces.home.store.transaction() as tx:
            await membership.bind_project(tx, chosen_project, chosen.id)
    print_answer(
        f"{chosen_project} is bound to {chosen.name}.",
        {"project": chosen_project, "space": chosen.name},
        as_json=as_json,
    )
    return 0


@space.command()
@command
async def unbind(
    project: Annotated[str, typer.Argument(help="The project; . for the one of this folder.")], as_json: AsJson = False
) -> None:
    """Keep a project's conversations among your own memories again.

    Example: `pgengram space unbind .`
    """
    chosen_project = project_named(project) or project
    async with opened_spaces() as spaces, spaces.home.store.transaction() as tx:
        was = await membership.unbind_project(tx, chosen_project)
    message = f"{chosen_project} is bound to no space{' any more' if was else ''}."
    print_answer(message, {"project": chosen_project, "was_bound": was}, as_json=as_json)


async def _acting(spaces: Spaces, name: str, *, as_owner: bool) -> tuple[int, persons.Person | None]:
    """Return the key of a space, and who acts in it; None for the owner of the server."""
    if as_owner:
        return await membership.any_of_name(spaces.home.store, name), None
    return (await spaces.named(name)).id, await spaces.person()


# -- people ----------------------------------------------------------------------------------------------------------

person = Commands("Manage the people who share memories.")


@person.command("add")
@command
async def add_person(
    name: Annotated[str, typer.Argument(help="How others see them.")],
    namespace: Annotated[str, typer.Option(help="Where their memories are; by default a namespace of that name.")] = "",
    as_json: AsJson = False,
) -> None:
    """Add a person with a namespace of their own.

    Example: `pgengram person add Mara --namespace mara`
    """
    async with opened_store() as store:
        made = await persons.add(store, name, namespace)
    message = f"{made.name} has the namespace {made.namespace}."
    print_answer(message, {"id": made.id, "name": made.name, "namespace": made.namespace}, as_json=as_json)


@person.command(name="list")
@command
async def list_persons(as_json: AsJson = False) -> None:
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


@person.command("erase")
@command
async def erase_person(
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
        removed = await of_spaces.erase_person(store, known, lambda: devices.erase_elsewhere(store.database, key, data))
    print_answer(f"{known.name} is erased.", {"erased": known.name, "removed": removed}, as_json=as_json)
    return 0
