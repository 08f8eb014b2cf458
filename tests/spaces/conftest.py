"""People who share a space, each with a client of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from mcp import Client

from helpers import Database, connected, database_of
from pgengram.settings import Settings
from pgengram.store.connection.database import Role
from pgengram.store.spaces import membership, persons
from pgengram.store.spaces.membership import Space
from pgengram.store.spaces.persons import Person
from pgengram.store.store import Store

WHO = {"mara": Role.ADMIN, "ben": Role.WRITE, "cleo": Role.READ}  # Dora is in no space


@dataclass
class Team:
    """A space called Kitchen with an admin, somebody who writes and a guest, and somebody who is not in it."""

    database: Database
    store: Store
    people: dict[str, Person]
    kitchen: Space
    clients: dict[str, Client]

    def __getattr__(self, name: str) -> Client:
        return self.clients[name]


@pytest.fixture
async def team(postgres: str, template: str) -> AsyncIterator[Team]:
    async with AsyncExitStack() as stack:
        database = stack.enter_context(database_of(postgres, template))
        yield await made(database, stack)


async def made(database: Database, stack: AsyncExitStack, **settings: Any) -> Team:
    store = Store(Settings(database_url=database.url))
    await store.open()
    stack.push_async_callback(store.close)
    people = {name: await persons.add(store, name.title(), name) for name in (*WHO, "dora")}
    kitchen = await membership.create(store, "Kitchen", people["mara"])
    for name in ("ben", "cleo"):
        await membership.put(store, kitchen.id, people[name], WHO[name], by=people["mara"])
    for name in people:
        await membership.notices(store, people[name].id)
    given = {"database_url": database.url, "spaces": "Kitchen", **settings}
    clients = {
        name: await stack.enter_async_context(connected(**given, namespace=name)) for name in people
    }
    return Team(database, store, people, kitchen, clients)
