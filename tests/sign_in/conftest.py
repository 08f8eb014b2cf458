from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parents[1] / "http"))  # a real server over HTTP
sys.path.append(str(Path(__file__).parents[1] / "ui"))  # a real page of this machine

from http_server import HttpServer, serving_http
from signing_in import Pair

from helpers import Database, database_of
from pgengram.settings import Settings
from pgengram.store.clients.connections import Connections
from pgengram.store.clients.sign_in_requests import open_pairing
from pgengram.store.store import Store


@pytest.fixture(scope="module")
def signing_database(postgres: str, template: str) -> Iterator[Database]:
    """The database behind `web`."""
    with database_of(postgres, template) as made:
        yield made


@pytest.fixture(scope="module")
def web(signing_database: Database) -> Iterator[HttpServer]:
    """A server that programs sign in to."""
    with signing_in("127.0.0.1", signing_database) as server:
        yield server


@pytest.fixture(scope="module")
def named_web(signing_database: Database) -> Iterator[HttpServer]:
    """The same with a name, as browsers make passkeys for names only."""
    with signing_in("localhost", signing_database) as server:
        yield server


@contextmanager
def signing_in(host: str, database: Database) -> Iterator[HttpServer]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = ("--sign-in", "--sign-in-rate", "100000", "--port", port, "--url", f"http://{host}:{port}/mcp")
    with serving_http(*words, database_url=database.url, embedder="none:", log_level="DEBUG") as server:
        yield server


@pytest_asyncio.fixture(scope="module")
async def shared_store(signing_database: Database) -> AsyncIterator[Store]:
    """The store behind `web`, for all tests of a module."""
    made = Store(Settings(database_url=signing_database.url, embedder="none:"))
    await made.open()
    yield made
    await made.close()


@pytest.fixture(scope="module")
def connections(shared_store: Store) -> Connections:
    """What the database knows of programs that signed in."""
    return Connections(shared_store)


@pytest.fixture
def pair(shared_store: Store) -> Pair:
    """Print a pairing code as `pgengram pair` does."""

    async def paired(namespace: str = "default", *, may_write: bool = True, **other: Any) -> str:
        return await open_pairing(shared_store, namespace, may_write=may_write, **other)

    return paired


@pytest_asyncio.fixture
async def store(signing_database: Database) -> AsyncIterator[Store]:
    """The store behind an authorization server of this process."""
    made = Store(Settings(database_url=signing_database.url, embedder="none:"))
    await made.open()
    yield made
    await made.close()
