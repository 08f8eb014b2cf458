"""The people whose memories are in a store, each with a namespace of their own; and how names of people and spaces are
kept, when two are the same, and when two only look the same.
"""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from pgengram.errors import Conflict, InvalidInput, NotFound
from pgengram.store.connection.begin import FIRST_SPACE
from pgengram.store.connection.database import SPACE

if TYPE_CHECKING:
    import psycopg

    from pgengram.store.store import Store

    Connection = psycopg.AsyncConnection[dict[str, Any]]


Right = Literal["read", "write"]  # what a client may do in a space at most
MAX_NAME: Final = 64
RESERVED: Final = frozenset({"personal", "all"})  # what `space` means without being one
# Letters and digits of the Latin script that many typefaces draw alike.
DRAWN_ALIKE: Final = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "5": "s", "8": "b"})


def checked_name(given: str, what: str) -> str:
    """Return a name as it is kept.

    Raises:
        InvalidInput: it is empty, too long, reserved, or has characters that cannot be seen.
    """
    name = " ".join(unicodedata.normalize("NFKC", given).split())
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable() or any(_is_invisible(letter) for letter in name):
        raise InvalidInput(f"The name of a {what} must have 1 to {MAX_NAME} visible characters.")
    if key(name) in RESERVED or name.startswith(SPACE):
        raise InvalidInput(f"A {what} cannot be called {name!r}.", "Choose another name.")
    return name


def key(name: str) -> str:
    """Return what two spellings of the same name have in common."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _is_invisible(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cf", "Cc", "Co", "Cn")


def told_apart(names: Mapping[int, str]) -> dict[int, str]:
    """Return names as they are shown, by key: one that could be taken for another has its number beside it.

    That is any name with letters of another script than Latin, as most scripts have letters that look Latin, and names
    that differ in nothing but marks, case, or characters that are drawn alike.
    """
    shapes = Counter(map(_outline, names.values()))
    return {
        id_: name if _is_latin(name) and shapes[_outline(name)] == 1 else f"{name} (number {id_ - FIRST_SPACE})"
        for id_, name in names.items()
    }


def _outline(name: str) -> str:
    bare = "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))
    return bare.casefold().translate(DRAWN_ALIKE)


def _is_latin(name: str) -> bool:
    return all(unicodedata.name(letter, "").startswith("LATIN") for letter in name if letter.isalpha())


log = logging.getLogger(__name__)

# Uses namespaces_name_key and persons_personal_id_key.
OF_NAMESPACE: Final = """
SELECT p.id, p.name, n.name AS namespace, p.created_at FROM persons p JOIN namespaces n ON n.id = p.personal_id
WHERE n.name = %(namespace)s
"""
# There are as many rows as people.
LIST: Final = """
SELECT p.id, p.name, n.name AS namespace, p.created_at FROM persons p LEFT JOIN namespaces n ON n.id = p.personal_id
WHERE p.name IS NOT NULL ORDER BY p.id
"""
ADD: Final = "INSERT INTO persons (name, personal_id) VALUES (%(name)s, %(personal_id)s) RETURNING id"
LOCK: Final = "LOCK TABLE persons IN SHARE ROW EXCLUSIVE MODE"
# No name stays in any column. Uses persons_pkey, and no index where somebody may have acted anywhere.
FORGET: Final = (
    "UPDATE persons SET name = NULL, personal_id = NULL WHERE id = %(id)s",
    "UPDATE space_members SET until = now() WHERE person_id = %(id)s AND until IS NULL",
    "UPDATE space_members SET anonymous = true WHERE person_id = %(id)s",
    "DELETE FROM person_notices WHERE person_id = %(id)s",
    "UPDATE access_events SET namespace = NULL WHERE namespace = %(namespace)s",
)
NAMELESS: Final = (
    "UPDATE memories SET speaker = NULL, speaker_key = NULL WHERE namespace_id = %(namespace_id)s"
    " AND person_id = %(id)s AND speaker IS NOT NULL",
    "UPDATE memory_history SET actor = NULL, session_id = NULL WHERE namespace_id = %(namespace_id)s"
    " AND person_id = %(id)s",
)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody, and the namespace of their own memories."""

    id: int
    name: str
    namespace: str
    created_at: datetime


async def add(store: Store, name: str, namespace: str = "") -> Person:
    """Add a person whose memories are in a namespace, which is made if it is new; by default one of the same name.

    Raises:
        InvalidInput: the name is not allowed.
        Conflict: there is such a person, or the namespace is another's.
    """
    name = checked_name(name, "person")
    await store.open()
    personal_id = await store.database.namespace_id(namespace or name)
    async with store.as_login() as connection:
        await put_person(connection, name, namespace or name, personal_id)
    return await named(store, name)


async def put_person(connection: Connection, name: str, namespace: str, personal_id: int) -> int:
    """Add a person to whom a namespace belongs from now on, in the login's transaction, and return their key.

    Raises:
        Conflict: there is such a person, or the namespace is another's.
    """
    await connection.execute(LOCK)
    for known in await _listed(connection):
        if key(known.name) == key(name):
            raise Conflict(f"There is a person called {known.name!r} already.", "Choose another name.")
        if known.namespace == namespace:
            raise Conflict(f"The namespace {known.namespace!r} is that of {known.name!r}.", "Choose another one.")
    row = await (await connection.execute(ADD, {"name": name, "personal_id": personal_id})).fetchone()
    return 0 if row is None else int(row["id"])


async def listed(store: Store) -> list[Person]:
    """Return everybody, in the order in which they were added."""
    await store.open()
    async with store.as_login() as connection:
        return await _listed(connection)


async def _listed(connection: Connection) -> list[Person]:
    return [Person(**row) for row in await (await connection.execute(LIST)).fetchall() if row["namespace"] is not None]


async def named(store: Store, name: str) -> Person:
    """Return the person of a name.

    Raises:
        NotFound: there is none.
    """
    for one in await listed(store):
        if key(one.name) == key(name):
            return one
    raise NotFound("person", name, "`pgengram person list` shows who there is.")


async def of_namespace(store: Store, namespace: str) -> Person | None:
    """Return whose namespace that is; None where nobody was added for it."""
    row = await store.one(OF_NAMESPACE, {"namespace": namespace})
    return None if row is None else Person(**row)


async def shown_name(connection: Connection, namespace: str) -> str:
    """Return what the person of a namespace is called, or its own name, in the login's transaction."""
    row = await (await connection.execute(OF_NAMESPACE, {"namespace": namespace})).fetchone()
    return namespace if row is None else str(row["name"])


async def expect_of_namespace(store: Store, namespace: str) -> Person:
    """Return whose namespace that is.

    Raises:
        InvalidInput: nobody was added for it.
    """
    found = await of_namespace(store, namespace)
    if found is None:
        raise InvalidInput(
            f"Nobody has the namespace {namespace!r}.",
            f"Add them first: pgengram person add NAME --namespace {namespace}",
        )
    return found


MOST_SEEN: Final = 10_000  # namespaces that a process remembers to have asked about


class Newcomers:
    """Makes a person of whoever is seen first, by the name that an issuer has for them.

    Args:
        store: whose persons.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: set[str] = set()

    async def make(self, name: str, namespace: str) -> None:
        """Make a person of whoever has a namespace, unless there is one; a name that is taken makes nobody."""
        if namespace in self._seen:
            return
        if len(self._seen) >= MOST_SEEN:
            self._seen.clear()
        if await of_namespace(self._store, namespace) is None:
            try:
                await add(self._store, name, namespace)
            except (Conflict, InvalidInput):
                log.warning(
                    "somebody of the issuer was not added, as the name is taken or not allowed; `pgengram person add` "
                    "adds them by another one"
                )
        self._seen.add(namespace)
