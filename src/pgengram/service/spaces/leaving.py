"""The end of a space, and of a person: what is erased, what stays, and who is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgengram.store import membership, persons
from pgengram.store.connection.begin import UPKEEP
from pgengram.store.connection.database import SPACE
from pgengram.store.maintenance import namespaces

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pgengram.store.membership import Space
    from pgengram.store.persons import Person
    from pgengram.store.store import Store

GONE: Final = "The shared space {!r} was deleted by one of its admins, with everything in it."


async def delete_space(store: Store, space: Space, by: Person) -> dict[str, int]:
    """Erase a space with everything in it, and tell everybody who was in it; return how many rows there were.

    Raises:
        NotAllowed: whoever does it is not an admin.
    """
    await membership.expect_admin(store, space.id, by)
    people = [one.id for one in await membership.current_members(store, space.id) if one.id != by.id]
    removed = await namespaces.take_away_namespace(store.database, SPACE + space.name)
    await membership.tell(store, people, GONE.format(space.name))
    return removed


async def erase_person(
    store: Store, person: Person, elsewhere: Callable[[], Awaitable[None]] | None = None
) -> dict[str, int]:
    """Erase somebody's own memories and their name everywhere; what they shared stays as a former member's.

    `elsewhere` has their other machines erase the same, once it is sure that it is erased here.

    Raises:
        Conflict: they are the last admin of a space in which others are; nothing was erased.
    """
    spaces = await membership.of_person(store, person)
    for space in spaces:
        if space.members > 1:
            await membership.expect_another_admin(store, space.id, person)
    if elsewhere is not None:
        await elsewhere()
    for space in spaces:
        if space.members == 1:
            await delete_space(store, space, person)
        else:
            await membership.remove(store, space.id, person, by=person, anonymous=True)
    for row in await membership.listed(store):
        async with store.database.transaction(row["id"], member=UPKEEP) as tx:
            for statement in persons.NAMELESS:
                await tx.run(statement, {"id": person.id})
    removed = await namespaces.take_away_namespace(store.database, person.namespace)
    async with store.as_login() as connection:
        for statement in persons.FORGET:
            await connection.execute(statement, {"id": person.id, "namespace": person.namespace})
    return removed
