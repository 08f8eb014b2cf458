"""Spaces that several people share: each is asked as one of them sees it, and never without being named in a write.

A client may use those that its grant names and its person is in, each with a manager of its own. Also the end of a
space, and of a person: what is erased, what stays, and who is told.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from pgengram.errors import DatabaseFailed, WritesRefused
from pgengram.runtime.context import AUTHORS
from pgengram.service.core import Beside
from pgengram.settings import spaces_named
from pgengram.store import membership, persons
from pgengram.store.connection.begin import UPKEEP, Member
from pgengram.store.connection.database import SPACE, Role
from pgengram.store.maintenance import namespaces
from pgengram.store.persons import Right, key, told_apart
from pgengram.store.store import SpaceStore

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pgengram.service.manager import MemoryManager
    from pgengram.store.membership import Space
    from pgengram.store.persons import Person
    from pgengram.store.store import Store


MAX_KEPT: Final = 64  # that wait for their next call; a manager costs about half a megabyte
IDLE_S: Final = 900.0  # without a call, after which one is let go


class Closable(Protocol):
    """What serves one namespace."""

    async def close(self) -> None:
        """Write what waits to be written, and end the background work."""


Served = TypeVar("Served", bound=Closable)
Name = TypeVar("Name", bound=Hashable)


@dataclass(slots=True)
class _Entry(Generic[Served]):
    """What serves a namespace, how many calls are under way, and when the last one ended."""

    served: Served
    calls: int
    last_use: float


class Namespaces(Generic[Name, Served]):
    """What serves each namespace, made when it is first called; the longest idle ones are closed.

    Args:
        make: makes it from the namespace's name, or what else tells it from others, at no cost.
    """

    def __init__(self, make: Callable[[Name], Served]) -> None:
        self._make = make
        self._kept: OrderedDict[Name, _Entry[Served]] = OrderedDict()
        self._leaving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def of(self, namespace: Name) -> AsyncIterator[Served]:
        """Keep what serves a namespace for as long as a block lasts."""
        entry = self._kept.get(namespace)
        if entry is None:
            entry = self._kept[namespace] = _Entry(self._make(namespace), 0, time.monotonic())
        self._kept.move_to_end(namespace)
        entry.calls += 1
        try:
            yield entry.served
        finally:
            entry.calls -= 1
            entry.last_use = time.monotonic()
            self._let_go()

    def __len__(self) -> int:
        return len(self._kept)

    async def close(self) -> None:
        """Close all of them."""
        await asyncio.gather(*(entry.served.close() for entry in self._kept.values()), *self._leaving)
        self._kept.clear()

    def _let_go(self) -> None:
        """Close those that have been idle for long, or are the longest idle of too many."""
        now = time.monotonic()
        too_many = len(self._kept) - MAX_KEPT
        idle = [
            name
            for place, (name, entry) in enumerate(self._kept.items())
            if not entry.calls and (place < too_many or now - entry.last_use > IDLE_S)
        ]
        for name in idle:
            task = asyncio.create_task(self._kept.pop(name).served.close(), name="letting go of a namespace")
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)


PERSONAL: Final = "personal"  # what `space` may name besides: one's own memories alone
MOST: Final[dict[Right, Role]] = {"read": Role.READ, "write": Role.ADMIN}  # of the person's own role


class SpaceManagers:
    """What serves each space to each person; kept while it is in use.

    Args:
        home: the personal memories of whoever asks, whose database and model are used.
    """

    def __init__(self, home: MemoryManager) -> None:
        self.home = home
        self._person: Person | None = None
        self._kept: Namespaces[tuple[int, Member], MemoryManager] = Namespaces(self.made)

    def made(self, which: tuple[int, Member]) -> MemoryManager:
        """Return a new manager of a space, by its key, as a member sees it; whoever asked closes it."""
        space_id, member = which
        store = SpaceStore(self.home.store, self.home.settings, space_id, member)
        manager = type(self.home)(self.home.settings, self.home, store=store)
        manager.working.notice()
        return manager

    @asynccontextmanager
    async def of(self, space: Space, member: Member) -> AsyncIterator[MemoryManager]:
        """Keep what serves a space to a person for as long as a block lasts, in which its authors have their names."""
        async with self._kept.of((space.id, member)) as manager:
            before = AUTHORS.set(space.authors)
            try:
                yield manager
            finally:
                AUTHORS.reset(before)

    async def person(self) -> Person | None:
        """Return whose memories these are; None where nobody was added for the namespace yet."""
        if self._person is None:
            self._person = await persons.of_namespace(self.home.store, self.home.settings.namespace)
        return self._person

    def begin(self) -> None:
        """Begin nothing: each is made when it is first asked."""

    async def close(self) -> None:
        """Close all of them."""
        await self._kept.close()


def managers_of(home: MemoryManager) -> SpaceManagers:
    """Return what serves spaces to the person of a manager, and ends with it."""
    found = next((one for one in home.companions if isinstance(one, SpaceManagers)), None)
    if found is None:
        found = SpaceManagers(home)
        home.accompany(found)
    return found


def own_spaces(home: MemoryManager) -> Spaces:
    """Return all spaces that the person of a manager is in, with all that the person may do there."""
    return Spaces(managers_of(home), None)


def spaces_of(home: MemoryManager) -> Spaces | None:
    """Return the spaces that the settings of a manager name; None where they name none."""
    allowed = spaces_named(home.settings.spaces.split(","))
    return Spaces(managers_of(home), allowed) if allowed and not home.settings.compat else None


@asynccontextmanager
async def space_of_project(
    home: MemoryManager, project: str | None
) -> AsyncIterator[tuple[Space, MemoryManager] | None]:
    """Yield the space that a person has bound a project to, and what serves it; None for none, or one they left."""
    space_id = None
    if project is not None:
        space_id = await home.store.read_transaction(lambda tx: membership.space_of_project(tx, project))
    spaces = own_spaces(home)
    space = next((one for one in await spaces.listed() if one.id == space_id), None) if space_id is not None else None
    if space is None:
        yield None
        return
    async with spaces.manager(space) as manager:
        yield space, manager


class Spaces:
    """The spaces of one client.

    Args:
        managers: of the person.
        allowed: the spaces that the client's grant names, by key or name, each with what it may do there; None for all
            that the person is in, where a person acts.
        writes: whether the client may write at all.
    """

    def __init__(self, managers: SpaceManagers, allowed: Mapping[Any, Right] | None, *, writes: bool = True) -> None:
        self._managers = managers
        self._allowed = allowed and {key(one) if isinstance(one, str) else one: right for one, right in allowed.items()}
        self._writes = writes

    @property
    def home(self) -> MemoryManager:
        """The person's own memories."""
        return self._managers.home

    async def person(self) -> Person:
        """Return whose memories these are.

        Raises:
            InvalidInput: nobody was added for this namespace.
        """
        found = await self._managers.person()
        return found or await persons.expect_of_namespace(self.home.store, self.home.settings.namespace)

    async def listed(self) -> list[Space]:
        """Return the spaces that may be used now, with what may be done there."""
        person = await self._managers.person()
        found = [] if person is None else await membership.of_person(self.home.store, person)
        mine = [(one, right) for one in found if (right := self._right(one)) is not None]
        shown = told_apart({one.id: one.name for one, _ in mine})
        return [replace(one, shown=shown[one.id], role=min(one.role, MOST[right])) for one, right in mine]

    async def to_read(self) -> list[Space]:
        """Return the spaces that can be read now: none from a replica, which doesn't know at once who has left one."""
        try:
            return await self.listed()
        except DatabaseFailed as error:
            if self.home.store.replica is None or not error.connection_lost:
                raise
            return []

    def _right(self, space: Space) -> Right | None:
        """Return what the client may do in a space at most; None where it may not use it."""
        if self._allowed is None:
            return "write" if self._writes else "read"
        right = self._allowed.get(space.id) or self._allowed.get(key(space.name))
        return right if self._writes or right is None else "read"

    async def named(self, name: str) -> Space:
        """Return a space that may be used.

        Raises:
            NoSuchSpace: there is none of that name.
        """
        return membership.chosen(await self.listed(), name)

    @asynccontextmanager
    async def manager(self, space: Space) -> AsyncIterator[MemoryManager]:
        """Keep what serves a space for as long as a block lasts."""
        person = await self.person()
        async with self._managers.of(space, Member(person.id, space.role > Role.READ)) as manager:
            yield manager

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[list[Beside]]:
        """Keep what serves each space that may be used for as long as a block lasts."""
        async with AsyncExitStack() as stack:
            yield [
                Beside(await stack.enter_async_context(self.manager(space)), space.shown, space.authors)
                for space in await self.to_read()
            ]

    async def notices(self) -> list[str]:
        """Return what the person is to be told, once."""
        try:
            person = await self._managers.person()
            return [] if person is None else await membership.notices(self.home.store, person.id)
        except DatabaseFailed as error:
            if self.home.store.replica is None or not (error.connection_lost or isinstance(error, WritesRefused)):
                raise
            return []  # told once the primary is back


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
