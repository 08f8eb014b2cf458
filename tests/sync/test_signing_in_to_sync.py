"""Machines that sign in to a server in the browser, instead of carrying a token there."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from http_server import HttpServer, serving_http
from machines import Machine, differences

from helpers import PATIENCE_S, Database, database_of
from listener import listening

sys.path.append(str(Path(__file__).parents[1] / "sign_in"))  # the page that a person answers
from signing_in import PAGE_HEADERS, hidden

from pgengram.errors import InvalidInput, NotReady
from pgengram.service.core import Core
from pgengram.settings import Settings
from pgengram.store.clients.connections import Connections
from pgengram.store.clients.sign_in_requests import open_pairing
from pgengram.store.store import Store
from pgengram.sync import devices
from pgengram.sync.keys import Key
from pgengram.sync.remotes.server import ServerRemote
from pgengram.sync.remotes.sign_in import SignIn, sign_in

Show = Callable[[str], None]


@pytest.fixture(scope="module")
def home(postgres: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server that programs sign in to."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = ("--sign-in", "--sign-in-rate", "100000", "--port", port, "--url", f"http://127.0.0.1:{port}/mcp")
    with (
        database_of(postgres, template) as made,
        serving_http(
            *words, database_url=made.url, embedder="none:", data_dir=str(tmp_path_factory.mktemp("home"))
        ) as server,
    ):
        yield server


@pytest_asyncio.fixture
async def store(home: HttpServer) -> AsyncIterator[Store]:
    """The store of that server."""
    made = Store(Settings(database_url=home.settings["database_url"], embedder="none:"))
    await made.open()
    yield made
    await made.close()


def browser(home: HttpServer, code: str, **answers: str) -> Show:
    """Return what opens a page, answers it as a person does, and goes where it leads."""

    def show(page: str) -> None:
        with httpx.Client(timeout=PATIENCE_S) as client:
            form = {
                "request": hidden(client.get(page)),
                "code": code,
                "decision": "allow",
                "may_write": "yes",
                **answers,
            }
            headers = {"origin": home.base, **PAGE_HEADERS}
            back = client.post(f"{home.base}/oauth/authorize", data=form, headers=headers)
            place = httpx.URL(back.headers["location"])
            for wrong in ({"state": "x", "code": "x"}, {"code": "x"}):  # of some other program on this machine
                asyncio.run(_sent(place.copy_with(params=wrong)))
            asyncio.run(_sent(place))

    return show


async def _sent(url: httpx.URL) -> None:
    """Send a request, and let its answer come when it comes."""
    _, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"GET {url.raw_path.decode()} HTTP/1.0\r\n\r\n".encode())
    await writer.drain()
    writer.close()


async def signed_in(home: HttpServer, store: Store, name: str, **answers: str) -> str | None:
    code = await open_pairing(store, "default", may_write=True)
    return await asyncio.to_thread(sign_in, home.base, name, browser(home, code, **answers), 20.0)


async def is_exchanged(*machines: Machine) -> None:
    for _ in range(3):
        for one in machines:
            assert (await one.syncs()).problem is None
    assert differences(await machines[0].states(), await machines[1].states()) == []


async def test_machines_that_signed_in_exchange_until_their_connection_is_ended_and_then_say_what_to_do(
    database: Database, home: HttpServer, store: Store, tmp_path: Path
) -> None:
    tokens = {name: await signed_in(home, store, name) for name in ("laptop", "desktop")}
    laptop, desktop = (
        Machine(database, tmp_path / name, name, address=home.base, token=token) for name, token in tokens.items()
    )
    key = await laptop.begins()
    await laptop.syncs()
    await desktop.begins(key)
    await laptop.adds("The lamp is in the attic.")
    await is_exchanged(laptop, desktop)
    listed = await Connections(store).listed()
    assert {row["client_name"] for row in listed} == {"pgengram sync on laptop", "pgengram sync on desktop"}

    first = await token_of(laptop)
    await let_it_end(laptop, first)
    await laptop.adds("The ladder is in the cellar.")
    await is_exchanged(laptop, desktop)
    second = await token_of(laptop)
    assert second.access != first.access
    await let_it_end(laptop, first)  # it was killed before what it had got was kept
    await is_exchanged(laptop, desktop)
    assert (await token_of(laptop)).refresh == second.refresh

    [grant] = [row for row in listed if row["client_name"].endswith("laptop")]
    await Connections(store).revoke([grant["id"]])
    await laptop.adds("The kettle leaks.")
    told = [str((await laptop.syncs()).problem)]
    await let_it_end(laptop, await token_of(laptop))
    told.append(str((await laptop.syncs()).problem))
    for problem in told:
        assert "ended this machine's connection; run `pgengram sync sign-in`" in problem
    with pytest.raises(NotReady, match="would not hear of it"):
        await devices.erase_elsewhere(laptop.memories.store.database, await key_of(laptop.memories), laptop.data)
    assert (await laptop.status()).changes >= 1
    await devices.set_token(laptop.memories, await signed_in(home, store, "laptop"))
    await is_exchanged(laptop, desktop)
    assert await desktop.finds("kettle") == ["The kettle leaks."]

    said = [json.dumps((await laptop.status()).as_dict()), repr(await laptop.exchange_settings()), *told, *home.log]
    for secret in (first.access, first.refresh, second.access, second.refresh):
        assert [text for text in said if secret in text] == []
    for one in (laptop, desktop):
        await one.memories.close()


async def token_of(one: Machine) -> SignIn:
    found = SignIn.of((await one.exchange_settings()).token)
    assert found is not None
    return found


async def let_it_end(one: Machine, token: SignIn) -> None:
    """Let a machine have this token, whose time is over."""
    ended = json.dumps(json.loads(token.as_token()) | {"until": time.time() + 60})
    one.database.rows("UPDATE sync_settings SET token = %s RETURNING 1", [ended], namespace=one.namespace)


async def key_of(core: Core) -> int:
    async with core.store.transaction() as tx:
        return tx.namespace_id


async def test_nobody_is_signed_in_who_was_not_allowed_to_write(home: HttpServer, store: Store) -> None:
    with pytest.raises(InvalidInput, match="not allowed"):
        await signed_in(home, store, "laptop", decision="deny")
    with pytest.raises(InvalidInput, match="only read"):
        await signed_in(home, store, "laptop", may_write="")
    with pytest.raises(InvalidInput, match="in time"):
        await asyncio.to_thread(sign_in, home.base, "laptop", lambda _: None, 0.2)
    with pytest.raises(InvalidInput, match="cannot be reached"):
        await asyncio.to_thread(sign_in, "http://127.0.0.1:9", "laptop", lambda _: None)


async def test_a_server_without_sign_in_asks_for_a_token(database: Database, tmp_path: Path) -> None:
    with serving_http(database_url=database.url, embedder="none:", data_dir=str(tmp_path)) as door:
        assert await asyncio.to_thread(sign_in, door.base, "laptop", lambda _: None) is None


ENDED = [
    (status, error) for status in (400, 401) for error in ("invalid_grant", "invalid_client", "unauthorized_client")
]
PASSING = [
    *((400, error) for error in ("invalid_request", "unsupported_grant_type", "temporarily_unavailable", None)),
    *((status, "invalid_grant") for status in (404, 408, 429, 500, 503)),
    (401, None),
]


@pytest.mark.parametrize(
    ("status", "error", "is_ended"), [*((*one, True) for one in ENDED), *((*one, False) for one in PASSING)]
)
def test_only_a_server_that_says_so_has_ended_a_connection(status: int, error: str | None, is_ended: bool) -> None:
    """The same status also comes from a proxy, a server that is being updated, or one that was asked too often."""
    body = b"<h1>Sorry</h1>" if error is None else {"error": error}
    with listening(lambda *_: (status, {}, body)) as url:
        kept = SignIn(f"{url}/token", "client", f"{url}/mcp", "access", "refresh", 0.0)
        with pytest.raises(ConnectionError) as told:
            kept.renewed()

    assert ("sync sign-in" in str(told.value)) == is_ended
    assert ("try again later" in str(told.value)) != is_ended


@pytest.mark.parametrize("challenge", ["", 'Basic realm="proxy"'])
def test_only_a_challenge_of_a_token_that_ended_ends_the_connection_for_files(challenge: str, tmp_path: Path) -> None:
    challenges = iter([challenge, 'Bearer realm="pgengram", error="invalid_token"'])
    with listening(lambda *_: (401, {"WWW-Authenticate": next(challenges)}, b"")) as url:
        signed_in = SignIn(f"{url}/token", "client", f"{url}/mcp", "access", "refresh", time.time() + 600)
        remote = ServerRemote(url, Key.new(), signed_in.as_token(), tmp_path)
        told = []
        for _ in range(2):
            with pytest.raises(ConnectionError) as error:
                remote.list_files()
            told.append("sync sign-in" in str(error.value))

    assert told == [False, True]
