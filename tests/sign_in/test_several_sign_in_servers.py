"""Several servers behind one address, one of which dies at the worst moment: what one began another goes on with."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import socket
from collections.abc import Iterator
from urllib.parse import urlencode

import httpx
import pytest
from http_server import HttpServer, serving_http
from signing_in import Pair, Phone, Program

from helpers import Database, until


class InTurn(httpx.AsyncBaseTransport):
    """Hands each request to the next of several servers, as a balancer in front of them does."""

    def __init__(self, *servers: HttpServer) -> None:
        self._ports = itertools.cycle([server.address[1] for server in servers])
        self._way = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(port=next(self._ports))
        return await self._way.handle_async_request(request)


@pytest.fixture
def both(signing_database: Database) -> Iterator[tuple[HttpServer, HttpServer]]:
    """Two servers of one address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = ("--sign-in", "--sign-in-rate", "100000", "--url", f"http://127.0.0.1:{port}/mcp")
    settings = {"database_url": signing_database.url, "embedder": "none:"}
    with serving_http(*words, "--port", port, **settings) as one, serving_http(*words, **settings) as other:
        yield one, other


async def test_programs_and_phones_go_from_server_to_server(both: tuple[HttpServer, HttpServer], pair: Pair) -> None:
    base = both[0].base
    program = Program(base, browser=httpx.AsyncClient(transport=InTurn(*both), timeout=60))
    program.client_id = program.profile.client_id
    tokens = await program.signed_in(pair)
    for _ in range(2):
        assert (await program.call(tokens["access_token"])).status_code == 200
    answers = await asyncio.gather(*(program.refresh(tokens["refresh_token"]) for _ in range(8)))
    assert len({one.json()["refresh_token"] for one in answers}) == 1

    phone = Phone(base)
    phone.browser = httpx.AsyncClient(transport=InTurn(*both), timeout=60, headers=phone.browser.headers)
    await phone.sign_in(await pair())
    for number in range(2):
        made = await phone.send("/new", content=f"Boat number {number} is blue.")
        assert made.status_code == 303
    for _ in range(2):
        assert "Boat number 1 is blue." in await phone.shows("/?q=boat&mode=substring")

    ended = await program.browser.post(
        f"{base}/oauth/revoke", data={"token": tokens["access_token"], "client_id": program.client_id}
    )
    assert ended.status_code == 200
    for _ in range(2):
        assert (await program.call(answers[0].json()["access_token"])).status_code == 401


async def test_a_refresh_whose_server_dies_between_commit_and_answer_is_given_again(
    both: tuple[HttpServer, HttpServer], pair: Pair, signing_database: Database
) -> None:
    one, other = both
    program = Program(one.base)
    tokens = await program.signed_in(pair)
    grant = tokens["refresh_token"].split("_")[1]

    async def replaced() -> bool:
        return signing_database.as_login(f"SELECT generation FROM oauth_grants WHERE id = '{grant}'") == [(2,)]

    form = urlencode(
        {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": program.client_id}
    )
    head = (
        f"POST /oauth/token HTTP/1.1\r\nhost: 127.0.0.1:{one.address[1]}\r\n"
        f"content-type: application/x-www-form-urlencoded\r\ncontent-length: {len(form)}\r\n\r\n"
    )
    with socket.create_connection(one.address) as connection:
        connection.sendall((head + form).encode())  # and the answer is never read
        await until(replaced)
        one.process.send_signal(signal.SIGKILL)
    one.process.wait()

    program.browser = httpx.AsyncClient(transport=InTurn(other), timeout=60)
    again = await program.refresh(tokens["refresh_token"])
    assert again.status_code == 200, json.dumps(again.json())
    assert await replaced()
    assert (await program.call(again.json()["access_token"])).status_code == 200
    assert (await program.refresh(again.json()["refresh_token"])).status_code == 200
