"""What the page of settings shows of others: programs and browsers that signed in, which it ends, and machines."""

from __future__ import annotations

from typing import Any, Final

from pgengram.errors import Conflict, NotFound
from pgengram.service.core import Core
from pgengram.service.manager import MemoryManager
from pgengram.store.clients import passkeys
from pgengram.store.clients.connections import Connections
from pgengram.store.connection.database import Row
from pgengram.sync import devices

LOGGED: Final = 50


class Programs:
    """What signed in.

    Args:
        manager: to whose namespace.
    """

    def __init__(self, manager: MemoryManager) -> None:
        self._connections = Connections(manager.store)
        self._namespace = manager.settings.namespace

    async def all(self) -> list[Row]:
        """Return the connections, the newest first, each with its `state` and `last_use`."""
        rows = [row for row in await self._connections.listed() if row["namespace"] == self._namespace]
        return [
            {
                **row,
                "state": "connected" if row["is_good"] else "ended" if row["revoked_at"] else "expired",
                "last_use": row["last_used_at"] or row["rotated_at"] or row["created_at"],
            }
            for row in reversed(rows)
        ]

    async def passkeys(self) -> list[Row]:
        """Return the passkeys that confirm sign-ins to the namespace."""
        return await passkeys.all_passkeys(self._connections, self._namespace)

    async def end_passkey(self, id_: str) -> str:
        """Remove a passkey, and return what was done.

        Raises:
            NotFound: this namespace has none with this id.
        """
        return f"The passkey of {await passkeys.revoke_passkey(self._connections, id_, self._namespace)} is removed."

    async def log(self) -> list[Row]:
        """Return what happened to them lately, the latest first."""
        return await self._connections.events(LOGGED, self._namespace)

    async def end(self, id_: str) -> str:
        """End a connection from the next request on, and return what was done.

        Raises:
            NotFound: this namespace has none with this id.
        """
        found = next((row for row in await self.all() if row["id"] == id_), None)
        if found is None:
            raise NotFound("connection", id_[:32], "The list shows them.")
        await self._connections.revoke([id_])
        return f"The connection of {found['client_name']} is ended."


async def machines_of(core: Core) -> dict[str, Any] | None:
    """Return how the exchange with other machines stands, as `pgengram sync status` does; None without one."""
    try:
        return (await devices.status(core)).as_dict()
    except Conflict:  # it is not exchanged
        return None
