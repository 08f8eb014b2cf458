"""Which projects a person has bound to a space: hooks keep their conversations there, and recall what it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgengram.store.spaces.names import key

if TYPE_CHECKING:
    from pgengram.store.connection.database import Transaction

# Uses project_spaces_pkey.
FIND: Final = "SELECT project, space_id FROM project_spaces WHERE namespace_id = %(namespace_id)s ORDER BY project"
BIND: Final = """
INSERT INTO project_spaces (namespace_id, project, space_id) VALUES (%(namespace_id)s, %(project)s, %(space_id)s)
ON CONFLICT (namespace_id, project) DO UPDATE SET space_id = excluded.space_id, at = excluded.at
"""
UNBIND: Final = "DELETE FROM project_spaces WHERE namespace_id = %(namespace_id)s AND project = %(project)s"


async def bound(tx: Transaction) -> dict[str, int]:
    """Return the key of the space of each project that is bound to one."""
    return {row["project"]: row["space_id"] for row in await tx.rows(FIND)}


async def space_of(tx: Transaction, project: str) -> int | None:
    """Return the key of the space that a project is bound to."""
    return next((space for name, space in (await bound(tx)).items() if key(name) == key(project)), None)


async def bind(tx: Transaction, project: str, space_id: int) -> None:
    """Bind a project to a space, instead of any other."""
    await unbind(tx, project)
    await tx.run(BIND, {"project": project, "space_id": space_id})


async def unbind(tx: Transaction, project: str) -> bool:
    """Bind a project to no space; whether it was bound to one."""
    names = [name for name in await bound(tx) if key(name) == key(project)]
    for name in names:
        await tx.run(UNBIND, {"project": name})
    return bool(names)
