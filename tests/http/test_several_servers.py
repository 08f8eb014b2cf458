"""Several servers behind one address: whatever one of them began another goes on with, and what one counts all have counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle
from typing import Any

import httpx
import pytest
from http_server import HttpServer, Issue, client_of, modern, outcome, serving_http
from mcp import Client

from helpers import PATIENCE_S, Answer, Database, call, owned_tables, until


@pytest.fixture(scope="module")
def both(web_database: Database) -> Iterator[list[HttpServer]]:
    """Two servers over one database."""
    settings = {"database_url": web_database.url, "embedder": "none:"}
    with serving_http(**settings) as one, serving_http(**settings) as other:
        yield [one, other]


@pytest.fixture
def pair(both: list[HttpServer], web_database: Database) -> list[HttpServer]:
    """Two servers that remember nothing yet."""
    web_database.empty(owned_tables())
    return both


class InTurn:
    """A client whose calls go to one server after the other."""

    def __init__(self, clients: list[Client]) -> None:
        self._next = cycle(clients)

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool on the server whose turn it is."""
        return await call(next(self._next), tool, **arguments)


@asynccontextmanager
async def in_turn(servers: list[HttpServer], token: str) -> AsyncIterator[InTurn]:
    async with AsyncExitStack() as stack:
        yield InTurn([await stack.enter_async_context(client_of(server, token)) for server in servers])


def post(server: HttpServer, token: str) -> httpx.Response:
    headers, body = modern("tools/list")
    return httpx.post(
        server.url, headers={**headers, "authorization": f"Bearer {token}"}, json=body, timeout=PATIENCE_S
    )


async def test_a_client_goes_from_server_to_server_and_finds_all_it_stored(
    pair: list[HttpServer], issue: Issue
) -> None:
    async with in_turn(pair, await issue()) as client:
        ids = []
        for number in range(6):
            stored = await client.call("create_memory", content=f"Crate {number} holds the lanterns of the harbour.")
            found = await client.call("search_memories", query=f"crate {number} lanterns", limit=20)
            ids.append(stored["memory_id"])
            assert stored["memory_id"] in [hit["id"] for hit in found["results"]]

        read = await client.call("get_memories", ids=ids)

    assert [memory["id"] for memory in read["memories"]] == ids


async def test_what_one_server_asked_is_confirmed_on_the_other_and_once_only(
    pair: list[HttpServer], issue: Issue
) -> None:
    token = await issue()
    async with in_turn(pair, token) as client:
        id_ = (await client.call("create_memory", content="The spare key lies under the third pot."))["memory_id"]
        shown = await client.call("forget_memories", ids=[id_], hard=True)
        await client.call("forget_memories", ids=[id_], hard=True, confirm_token=shown["confirm_token"])
        left = await client.call("search_memories", query="spare key pot")
    async with client_of(pair[0], token) as again:
        answer = await again.call_tool(
            "forget_memories", {"ids": [id_], "hard": True, "confirm_token": shown["confirm_token"]}
        )

    assert left["results"] == []
    assert answer.is_error


async def test_a_token_revoked_by_one_is_refused_by_the_next_request_to_any(pair: list[HttpServer]) -> None:
    made = pair[0].issued("short-lived")
    assert [post(server, made["token"]).status_code for server in pair] == [200, 200]

    outcome("token", "revoke", made["id"], **pair[0].settings)

    assert [post(server, made["token"]).status_code for server in pair] == [401, 401]


async def test_the_limit_of_a_token_is_the_same_however_many_servers_it_calls(
    web_database: Database, issue: Issue
) -> None:
    token, other = await issue("eager"), await issue("calm")
    settings = {"database_url": web_database.url, "embedder": "none:"}
    with serving_http("--rate", "1", **settings) as one, serving_http("--rate", "1", **settings) as two:
        answers = await asyncio.gather(*(asyncio.to_thread(post, server, token) for server in [one, two] * 2))
        calm = [post(server, other).status_code for server in (one, two)]

    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(answers) - len(refused) == 1
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert calm == [200, 429]


async def test_a_server_counts_by_itself_while_the_database_cannot(web_database: Database, issue: Issue) -> None:
    token = await issue("eager")
    with serving_http("--rate", "1", database_url=web_database.url, embedder="none:") as server:
        web_database.as_login("ALTER TABLE client_rates RENAME TO client_rates_away")
        try:
            codes = [post(server, token).status_code for _ in range(3)]
        finally:
            web_database.as_login("ALTER TABLE client_rates_away RENAME TO client_rates")

    assert codes == [200, 429, 429]


async def test_of_a_client_the_count_keeps_a_hash_that_goes_once_it_has_paid(
    web_database: Database, issue: Issue
) -> None:
    token = await issue("quiet")
    settings = {"database_url": web_database.url, "embedder": "none:"}
    with serving_http(**settings) as server:
        assert post(server, token).status_code == 200
        [(kept,)] = web_database.as_login("SELECT string_agg(client::text, ' ') FROM client_rates")
    web_database.as_login("UPDATE client_rates SET paid_at = now() - interval '1 second'")

    with serving_http(**settings):

        async def empty() -> bool:
            return web_database.as_login("SELECT count(*) FROM client_rates") == [(0,)]

        await until(empty)
    assert token[4:16] not in kept
