from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
import pytest_asyncio
from http_server import HttpServer, Issue, serving_http

from helpers import Database, database_of, owned_tables
from pgengram.settings import Settings
from pgengram.store.clients import tokens
from pgengram.store.store import Store


@pytest.fixture(scope="module")
def web_database(postgres: str, template: str) -> Iterator[Database]:
    """The database behind `web`."""
    with database_of(postgres, template) as made:
        yield made


@pytest.fixture(scope="module")
def serving_web(web_database: Database) -> Iterator[HttpServer]:
    """A server that waits two seconds for a request, for all tests of a module."""
    with serving_http("--patience", "2", database_url=web_database.url, embedder="none:", log_level="DEBUG") as server:
        yield server


@pytest.fixture
def web(serving_web: HttpServer, web_database: Database) -> HttpServer:
    """A server that remembers nothing yet."""
    web_database.empty(owned_tables())
    return serving_web


@pytest_asyncio.fixture(scope="module")
async def store(web_database: Database) -> AsyncIterator[Store]:
    """The store behind `web`, for making tokens without a process each."""
    made = Store(Settings(database_url=web_database.url, embedder="none:"))
    await made.open()
    yield made
    await made.close()


@pytest.fixture
def issue(store: Store) -> Issue:
    """Make a token."""

    async def issued(
        name: str = "probe",
        namespace: str = "alpha",
        scope: tokens.Scope = "read-write",
        lifetime: timedelta | None = None,
    ) -> str:
        return (await tokens.create(store, name, namespace, scope, lifetime))[0]

    return issued
