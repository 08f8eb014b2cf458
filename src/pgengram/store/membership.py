"""Spaces and their members: who may read, add to, correct, take back and decide over what is shared.

The database asks `space_members` for every statement, so what is changed here holds from the next statement on,
whatever a connection, a token or a cache still says.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from pgengram.errors import Conflict, InvalidInput, NoSuchSpace, NotAllowed, NotFound
from pgengram.runtime.context import FORMER_MEMBER
from pgengram.store.connection.database import SPACE, Role
from pgengram.store.connection.translation import ONLY_READS
from pgengram.store.persons import checked_name, key, told_apart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import psycopg

    from pgengram.store.connection.database import Row, Transaction
    from pgengram.store.persons import Person
    from pgengram.store.store import Store

    Connection = psycopg.AsyncConnection[dict[str, Any]]

# Uses namespaces_name_key; there are as many rows as spaces.
LIST: Final = """
SELECT s.id, substr(n.name, 7) AS name, s.created_at FROM spaces s JOIN namespaces n ON n.id = s.id ORDER BY s.id
"""
# A row for everybody who is or was in a space of somebody. Uses space_members_pkey and persons_pkey.
OF_PERSON: Final = """
SELECT s.id AS space_id, substr(n.name, 7) AS space, s.created_at, m.role AS own_role,
  p.id, p.name, o.role, o.since, o.until, o.anonymous
FROM space_members m JOIN spaces s ON s.id = m.space_id JOIN namespaces n ON n.id = s.id
JOIN space_members o ON o.space_id = s.id JOIN persons p ON p.id = o.person_id
WHERE m.person_id = %(person_id)s AND m.until IS NULL ORDER BY s.id, o.until IS NOT NULL, o.since, p.id
"""
MEMBERS: Final = """
SELECT p.id, p.name, m.role, m.since, m.until, m.anonymous FROM space_members m JOIN persons p ON p.id = m.person_id
WHERE m.space_id = %(space_id)s ORDER BY m.until IS NOT NULL, m.since, p.id
"""
NEXT_ID: Final = "SELECT nextval(pg_get_serial_sequence('spaces', 'id'))::integer AS id"
ADD_NAMESPACE: Final = "INSERT INTO namespaces (id, name) OVERRIDING SYSTEM VALUE VALUES (%(id)s, %(name)s)"
ADD: Final = "INSERT INTO spaces (id) OVERRIDING SYSTEM VALUE VALUES (%(id)s)"
# Uses spaces_pkey; whoever changes the members of a space waits for whoever does so already.
HOLD: Final = "SELECT id FROM spaces WHERE id = %(space_id)s FOR UPDATE"
LOCK: Final = "LOCK TABLE spaces IN SHARE ROW EXCLUSIVE MODE"
PUT: Final = """
INSERT INTO space_members (space_id, person_id, role) VALUES (%(space_id)s, %(person_id)s, %(role)s)
ON CONFLICT (space_id, person_id) DO UPDATE SET role = excluded.role, until = NULL, anonymous = false,
  since = CASE WHEN space_members.until IS NULL THEN space_members.since ELSE excluded.since END
"""
END: Final = """
UPDATE space_members SET until = now(), anonymous = %(anonymous)s
WHERE space_id = %(space_id)s AND person_id = %(person_id)s AND until IS NULL
"""
TELL: Final = "INSERT INTO person_notices (person_id, text) VALUES (%(person_id)s, %(text)s)"
# Uses person_notices_of_person.
TAKE: Final = "DELETE FROM person_notices WHERE person_id = %(person_id)s RETURNING id, text"


@dataclass(frozen=True, slots=True)
class Space:
    """A space, and what whoever asked may do there.

    shown: its name as it is shown beside the others; people: who is in it, then who was.
    """

    id: int
    name: str
    shown: str
    created_at: datetime
    role: Role
    people: Sequence[Member]

    @property
    def members(self) -> int:
        """How many are in it."""
        return sum(one.until is None for one in self.people)

    @property
    def authors(self) -> dict[int, str]:
        """How its people are shown, by their keys."""
        return {one.id: one.shown for one in self.people}


@dataclass(frozen=True, slots=True)
class Member:
    """Somebody who is or was in a space; without a name, a former member."""

    id: int
    name: str | None
    role: Role
    since: datetime
    until: datetime | None

    @property
    def shown(self) -> str:
        """How others see who that is."""
        return self.name or FORMER_MEMBER


def role_named(given: str) -> Role:
    """Return the role of a name.

    Raises:
        InvalidInput: there is none.
    """
    if given.upper() not in Role.__members__:
        raise InvalidInput(
            f"There is no role {given!r}.", f"Use one of {', '.join(role.name.lower() for role in Role)}."
        )
    return Role[given.upper()]


async def create(store: Store, name: str, admin: Person) -> Space:
    """Create a space whose first member is its admin.

    Raises:
        InvalidInput: the name is not allowed.
        Conflict: there is a space of that name.
    """
    name = checked_name(name, "space")
    await store.open()
    async with store.as_login() as connection:
        await connection.execute(LOCK)
        if any(key(row["name"]) == key(name) for row in await _all(connection, LIST)):
            raise Conflict(f"There is a space called {name!r} already.", "Choose another name.")
        [row] = await _all(connection, NEXT_ID)
        await connection.execute(ADD_NAMESPACE, {"id": row["id"], "name": SPACE + name})
        await connection.execute(ADD, {"id": row["id"]})
        await connection.execute(PUT, {"space_id": row["id"], "person_id": admin.id, "role": "admin"})
    return chosen(await of_person(store, admin), name)


async def listed(store: Store) -> list[dict[str, Any]]:
    """Return id, name and time of every space, whoever is in it: for the owner of the server."""
    await store.open()
    async with store.as_login() as connection:
        return await _all(connection, LIST)


async def of_person(store: Store, person: Person) -> list[Space]:
    """Return the spaces that somebody is in."""
    return _as_spaces(await store.login_rows(OF_PERSON, {"person_id": person.id}))


async def spaces_of(connection: Connection, person_id: int) -> list[Space]:
    """Return the spaces that somebody is in, in the login's transaction."""
    return _as_spaces(await _all(connection, OF_PERSON, person_id=person_id))


def _as_spaces(rows: Iterable[dict[str, Any]]) -> list[Space]:
    by_space = {id_: [*its] for id_, its in groupby(rows, key=itemgetter("space_id"))}
    shown = told_apart({id_: its[0]["space"] for id_, its in by_space.items()})
    return [
        Space(id_, its[0]["space"], shown[id_], its[0]["created_at"], role_named(its[0]["own_role"]), _as_shown(its))
        for id_, its in by_space.items()
    ]


def chosen(spaces: Iterable[Space], name: str) -> Space:
    """Return one of some spaces, by its name or as it is shown.

    Raises:
        NoSuchSpace: it is none of them.
    """
    for one in spaces:
        if key(name) in (key(one.name), key(one.shown)):
            return one
    raise NoSuchSpace(name)


async def any_of_name(store: Store, name: str) -> int:
    """Return the key of a space, whoever is in it: for the owner of the server.

    Raises:
        NoSuchSpace: there is none.
    """
    for row in await listed(store):
        if key(row["name"]) == key(name):
            return int(row["id"])
    raise NoSuchSpace(name)


async def members(store: Store, space_id: int) -> list[Member]:
    """Return who is in a space, then who was."""
    async with store.as_login() as connection:
        return await _members(connection, space_id)


async def current_members(store: Store, space_id: int) -> list[Member]:
    """Return who is in a space now."""
    return [one for one in await members(store, space_id) if one.until is None]


async def _members(connection: Connection, space_id: int) -> list[Member]:
    return _as_shown(await _all(connection, MEMBERS, space_id=space_id))


def _as_shown(rows: Sequence[dict[str, Any]]) -> list[Member]:
    """Return the people of a space as they are shown."""
    shown = told_apart({row["id"]: row["name"] for row in rows if row["name"] and not row["anonymous"]})
    return [
        Member(row["id"], shown.get(row["id"]), role_named(row["role"]), row["since"], row["until"]) for row in rows
    ]


async def put(store: Store, space_id: int, person: Person, role: Role, *, by: Person | None) -> None:
    """Let somebody into a space, or give them another role; they are told.

    Args:
        store: the store.
        space_id: the space.
        person: who.
        role: what they may do.
        by: who does it, an admin of the space; None for the owner of the server.

    Raises:
        NotAllowed: whoever does it is not an admin.
        Conflict: the space would be without an admin.
    """
    async with _changing(store, space_id, by) as (connection, name):
        if role < Role.ADMIN:
            await _expect_an_admin(connection, space_id, without=person.id)
        await connection.execute(PUT, {"space_id": space_id, "person_id": person.id, "role": role.name.lower()})
        if by is None or by.id != person.id:
            text = f"You are in the shared space {name!r} now and may {WORDS[role]}."
            await connection.execute(TELL, {"person_id": person.id, "text": text})


WORDS: Final = {
    Role.READ: "read it",
    Role.WRITE: "read it, add to it and correct it",
    Role.ADMIN: "decide about all of it",
}


async def remove(store: Store, space_id: int, person: Person, *, by: Person | None, anonymous: bool = False) -> None:
    """End somebody's membership, from the next statement on; they are told, unless they left by themselves.

    Args:
        store: the store.
        space_id: the space.
        person: who.
        by: who does it, an admin or the person; None for the owner of the server.
        anonymous: whether what they shared is shown as a former member's.

    Raises:
        NotAllowed: whoever does it is not an admin.
        NotFound: the person is not in the space.
        Conflict: the space would be without an admin.
    """
    leaves = by is not None and by.id == person.id
    async with _changing(store, space_id, None if leaves else by) as (connection, name):
        await _expect_an_admin(connection, space_id, without=person.id)
        given = {"space_id": space_id, "person_id": person.id, "anonymous": anonymous}
        if not (await connection.execute(END, given)).rowcount:
            raise NotFound("member", person.name, "`pgengram space members` shows who is in it.")
        if not leaves:
            text = f"You are no longer in the shared space {name!r}. Your own memories are as they were."
            await connection.execute(TELL, {"person_id": person.id, "text": text})


async def notices(store: Store, person_id: int) -> list[str]:
    """Return what somebody is to be told, once."""
    rows = await store.login_rows(TAKE, {"person_id": person_id})
    return [row["text"] for row in sorted(rows, key=lambda row: int(row["id"]))]


async def tell(store: Store, person_ids: list[int], text: str) -> None:
    """Have people told something by the next answer that each gets."""
    async with store.as_login() as connection:
        for person_id in person_ids:
            await connection.execute(TELL, {"person_id": person_id, "text": text})


async def expect_admin(store: Store, space_id: int, person: Person) -> None:
    """Refuse whoever is not an admin of a space.

    Raises:
        NotAllowed: they are not.
    """
    async with store.as_login() as connection:
        await _expect_is_admin(connection, space_id, person)


async def expect_another_admin(store: Store, space_id: int, person: Person) -> None:
    """Refuse to let go of the only admin of a space.

    Raises:
        Conflict: nobody else is one.
    """
    async with store.as_login() as connection:
        await _expect_an_admin(connection, space_id, without=person.id)


@asynccontextmanager
async def _changing(store: Store, space_id: int, by: Person | None) -> AsyncIterator[tuple[Connection, str]]:
    """Hold a space so that nobody else changes its members at the same time; give its name, too."""
    async with store.as_login() as connection:
        if not await _all(connection, HOLD, space_id=space_id):
            raise NoSuchSpace
        if by is not None:
            await _expect_is_admin(connection, space_id, by)
        [name] = [row["name"] for row in await _all(connection, LIST) if row["id"] == space_id]
        yield connection, name


async def _expect_is_admin(connection: Connection, space_id: int, person: Person) -> None:
    found = [one for one in await _members(connection, space_id) if one.id == person.id and one.until is None]
    if not found:
        raise NoSuchSpace
    if found[0].role < Role.ADMIN:
        raise NotAllowed("Only an admin of the space may do that.", "`pgengram space members` shows who is one.")


async def _expect_an_admin(connection: Connection, space_id: int, *, without: int) -> None:
    """Refuse to leave a space without an admin."""
    admins = [
        one
        for one in await _members(connection, space_id)
        if one.until is None and one.role is Role.ADMIN and one.id != without
    ]
    if not admins:
        raise Conflict(
            "The last admin of a space cannot leave it or become less.",
            "Make somebody else admin first, or delete the space.",
        )


async def _all(connection: Connection, statement: str, **values: Any) -> list[dict[str, Any]]:
    return await (await connection.execute(statement, values)).fetchall()


# Uses project_spaces_pkey.
FIND_BOUND: Final = (
    "SELECT project, space_id FROM project_spaces WHERE namespace_id = %(namespace_id)s ORDER BY project"
)
BIND: Final = """
INSERT INTO project_spaces (namespace_id, project, space_id) VALUES (%(namespace_id)s, %(project)s, %(space_id)s)
ON CONFLICT (namespace_id, project) DO UPDATE SET space_id = excluded.space_id, at = excluded.at
"""
UNBIND: Final = "DELETE FROM project_spaces WHERE namespace_id = %(namespace_id)s AND project = %(project)s"


async def bound_projects(tx: Transaction) -> dict[str, int]:
    """Return the key of the space of each project that is bound to one."""
    return {row["project"]: row["space_id"] for row in await tx.rows(FIND_BOUND)}


async def space_of_project(tx: Transaction, project: str) -> int | None:
    """Return the key of the space that a project is bound to."""
    return next((space for name, space in (await bound_projects(tx)).items() if key(name) == key(project)), None)


async def bind_project(tx: Transaction, project: str, space_id: int) -> None:
    """Bind a project to a space, instead of any other."""
    await unbind_project(tx, project)
    await tx.run(BIND, {"project": project, "space_id": space_id})


async def unbind_project(tx: Transaction, project: str) -> bool:
    """Bind a project to no space; whether it was bound to one."""
    names = [name for name in await bound_projects(tx) if key(name) == key(project)]
    for name in names:
        await tx.run(UNBIND, {"project": name})
    return bool(names)


NOT_ONES_OWN: Final = (
    "Memory {} is another member's: you may correct it, but only its author or an admin may remove it."
)
CORRECT_IT: Final = "To correct it: update_memory, or create_memory with replaces."
WHICH_VERSION: Final = "In a space a change names the version that it was made from; memory {} is at version {}."
LOOK_FIRST: Final = "Read it with get_memories, then call again with expected_version={}."


def refuse_reader(role: Role) -> None:
    """Refuse whoever may only read.

    Raises:
        NotAllowed: that is so.
    """
    if role is Role.READ:
        raise NotAllowed(*ONLY_READS)


def refuse_removal(tx: Transaction, rows: Iterable[Row]) -> None:
    """Refuse to forget, archive, merge away or erase what others have stored.

    Raises:
        NotAllowed: whoever asks is neither its author nor an admin.
    """
    if tx.member is None:
        return
    refuse_reader(tx.role)
    foreign = (row for row in rows if tx.role < Role.ADMIN and row["person_id"] != tx.member.person_id)
    for row in foreign:
        raise NotAllowed(NOT_ONES_OWN.format(row["id"]), CORRECT_IT)


def refuse_change(tx: Transaction, row: Row, change: Any) -> None:
    """Refuse a change of a shared memory by whoever may not make it, or has not seen what they change.

    Args:
        tx: the transaction.
        row: the memory.
        change: what is asked for.

    Raises:
        NotAllowed: whoever asks may only read, or would remove another's memory.
        Conflict: the change doesn't say which version it was made from.
    """
    if tx.member is None:
        return
    refuse_reader(tx.role)
    if change.status is not None and change.status != "active":
        refuse_removal(tx, [row])
    if change.expected_version is None:
        raise Conflict(WHICH_VERSION.format(row["id"], row["version"]), LOOK_FIRST.format(row["version"]))
