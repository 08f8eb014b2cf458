"""The one way from a client's id to what is known of it, for each endpoint alike."""

from __future__ import annotations

from pgengram.sign_in import clients
from pgengram.sign_in.clients import InvalidClient, OAuthClient
from pgengram.sign_in.documents import ClientDocuments
from pgengram.store.clients.connections import Connections


class ClientResolver:
    """Finds clients by their ids.

    Args:
        connections: whose key seals registered ids, and who knows which clients were let in.
        documents: fetches what is known of clients that do not come along; None allows only those, and registration.
        registers: whether clients may register themselves.
    """

    def __init__(self, connections: Connections, documents: ClientDocuments | None, *, registers: bool) -> None:
        self._connections = connections
        self._documents = documents
        self.registers = registers

    async def find(self, id_: str, *, may_fetch: bool = True) -> OAuthClient:
        """Return the client with this id.

        Raises:
            InvalidClient: there is none.
        """
        if (known := clients.known().get(id_)) is not None:
            return known
        if id_.startswith(clients.REGISTERED):
            found = clients.unsealed(await self._connections.key("clients"), id_) if self.registers else None
            if found is None:
                raise InvalidClient("it is not registered here")
            return found
        if self._documents is None or not may_fetch or not id_.startswith("https://"):
            raise InvalidClient("it is not known here")
        return await self._documents.client(id_)

    async def named(self, id_: str) -> str:
        """Return the id of a client that asks for tokens.

        Nothing is fetched, as strangers may ask this as often as they like, and a program whose document can't be had
        today may refresh: who was let in by its document is known by its grant.

        Raises:
            InvalidClient: there is none, so that it has to register again.
        """
        if id_.startswith("https://") and self._documents is not None and await self._connections.knows(id_):
            return id_
        return (await self.find(id_, may_fetch=False)).id
