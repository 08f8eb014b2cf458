"""A server that speaks as another memory server, in a database of the test's own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest_asyncio
from mcp import Client

from helpers import Database, connected, database_of, owned_tables, said

Speaks = Callable[..., Awaitable[Any]]


@pytest_asyncio.fixture(scope="module")
async def foreign(request: Any, postgres: str, template: str) -> AsyncIterator[tuple[Client, Database]]:
    """The client of a server with PGENGRAM_COMPAT set to the module's SYSTEM."""
    with database_of(postgres, template) as db:
        async with connected(database_url=db.url, compat=request.module.SYSTEM) as client:
            yield client, db


@pytest_asyncio.fixture
async def client(foreign: tuple[Client, Database]) -> Client:
    """That client, of a server which remembers nothing yet."""
    foreign[1].empty(owned_tables())
    return foreign[0]


@pytest_asyncio.fixture
async def db(foreign: tuple[Client, Database]) -> Database:
    """The database behind it."""
    return foreign[1]


async def says(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool that must succeed and return what its text says."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, said(answer)
    return json.loads(said(answer))


async def refuses(client: Client, tool: str, **arguments: Any) -> dict[str, str]:
    """Call a tool that must refuse, and return its error."""
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, said(answer)
    return dict(json.loads(said(answer))["error"])
