"""What strangers and careless clients send: each is turned away, and nothing of it is kept."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
import uvicorn
from http_server import ACCEPT, ENVELOPE, VERSION, HttpServer, client_of, received, status

from helpers import PATIENCE_S, Database, call, read, remember, said, until
from pgengram.mcp.http.middleware import MAX_BODY
from pgengram.mcp.http.server import PatientConnection, bound
from pgengram.store.clients import tokens
from pgengram.store.store import Store

CANARY = "canary-8d1f"
INSIDE = (
    "Traceback",
    'File "',
    "site-packages",
    "psycopg",
    "pydantic",
    "uvicorn",
    "starlette",
    "h11",
    "SELECT",
    "access_tokens",
)


@dataclass(frozen=True)
class Keys:
    """Tokens of every sort."""

    good: str
    reader: str
    expired: str
    revoked: str
    foreign: str


@pytest_asyncio.fixture(scope="module")
async def keys(store: Store) -> Keys:
    made = {}
    for name in ("good", "reader", "expired", "revoked", "foreign"):
        namespace = "beta" if name == "foreign" else "alpha"
        lifetime = timedelta(milliseconds=1) if name == "expired" else None
        scope: tokens.Scope = "read-only" if name == "reader" else "read-write"
        made[name], outcome = await tokens.create(store, name, namespace, scope, lifetime)
        if name == "revoked":
            await tokens.revoke(store, outcome.id)
    return Keys(**made)


def creating(**more: Any) -> bytes:
    """Return the body of a request that would store the canary."""
    params = {"name": "create_memory", "arguments": {"content": CANARY}, "_meta": ENVELOPE}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params} | more).encode()


@dataclass(frozen=True)
class Probe:
    """A request that would store the canary, were it not for what is wrong with it."""

    token: str | None = "good"  # a field of Keys, or a token
    scheme: str = "Bearer"
    method: str = "POST"
    path: str = "/mcp"
    headers: dict[str, str | None] = field(default_factory=dict)  # None takes one away
    more: bytes = b""  # further lines of the head
    body: bytes | None = None
    chunked: bool = False

    def as_bytes(self, server: HttpServer, keys: Keys) -> bytes:
        token = getattr(keys, self.token, self.token) if self.token else None
        body = creating() if self.body is None else self.body
        head: dict[str, str | None] = {
            "Host": "{}:{}".format(*server.address),
            "Content-Type": "application/json",
            "Accept": ACCEPT,
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "create_memory",
            "Connection": "close",
            "Authorization": f"{self.scheme} {token}" if token else None,
            **({"Transfer-Encoding": "chunked"} if self.chunked else {"Content-Length": str(len(body))}),
        }
        head |= self.headers
        lines = b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in head.items() if value is not None)
        sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if self.chunked else body
        return (
            f"{self.method} {self.path.format(token=token)} HTTP/1.1\r\n".encode() + lines + self.more + b"\r\n" + sent
        )


def mismatched(**headers: str | None) -> Probe:
    return Probe(headers=dict(headers))


BIG = creating()[:-3].replace(CANARY.encode(), CANARY.encode() + b"x" * (MAX_BODY + 1))
PROBES: dict[str, tuple[Probe, int]] = {
    "a foreign host": (Probe(headers={"Host": "evil.example"}), 421),
    "a foreign host that begins like ours": (Probe(headers={"Host": "127.0.0.1.evil.example"}), 421),
    "a host with a user before it": (Probe(headers={"Host": "127.0.0.1@evil.example"}), 421),
    "no host": (Probe(headers={"Host": None}), 400),
    "two hosts": (Probe(more=b"Host: 127.0.0.1\r\n"), 400),
    "a foreign origin": (Probe(headers={"Origin": "https://evil.example"}), 403),
    "an origin on another port": (Probe(headers={"Origin": "http://127.0.0.1:1"}), 403),
    "an origin that begins like ours": (Probe(headers={"Origin": "http://127.0.0.1.evil.example"}), 403),
    "an origin that is none": (Probe(headers={"Origin": "null"}), 403),
    "an origin that is no address": (Probe(headers={"Origin": "http://[::1"}), 403),
    "no token": (Probe(token=None), 401),
    "a wrong token": (Probe(token="nonsense"), 401),
    "a token of the right form": (Probe(token=f"pgt_{'0' * 12}_{'x' * 43}"), 401),
    "an expired token": (Probe(token="expired"), 401),
    "a revoked token": (Probe(token="revoked"), 401),
    "a token of a million characters": (Probe(token="pgt_" + "x" * 20_000), 401),
    "a token that may only read": (Probe(token="reader"), 403),
    "a token in the address": (Probe(token="good", path="/mcp?access_token={token}", headers={"Authorization": None}), 400),
    "a token in the address as well": (Probe(path="/mcp?access_token={token}"), 400),
    "a wrong scheme": (Probe(scheme="Basic"), 401),
    "no scheme": (Probe(scheme=""), 401),
    "a scheme without a token": (Probe(headers={"Authorization": "Bearer"}), 401),
    "two tokens": (Probe(more=b"Authorization: Bearer other\r\n"), 400),
    "a body that is too large": (Probe(body=BIG), 413),
    "a body that says it is too large": (Probe(headers={"Content-Length": "9" * 18}), 413),
    "a body in chunks that is too large": (Probe(body=BIG, chunked=True), 413),
    "a type that forms may send": (Probe(headers={"Content-Type": "text/plain"}), 415),
    "a type that only begins like ours": (Probe(headers={"Content-Type": "application/jsonp"}), 415),
    "no type": (Probe(headers={"Content-Type": None}), 415),
    "a compressed body": (Probe(headers={"Content-Encoding": "gzip"}), 415),
    "broken JSON": (Probe(body=b'{"jsonrpc":"2.0","id":1,'), 400),
    "no body": (Probe(body=b""), 400),
    "deep JSON": (Probe(body=b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}}"), 400),
    "a million lists": (Probe(body=b"[" + b"[]," * 999_999 + b"[]]"), 400),
    "a lone surrogate": (Probe(body=b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}'), 400),
    "bytes that are no UTF-8": (Probe(body=creating().replace(b"canary", b"\xff\xfe")), 400),
    "a number that is none": (Probe(body=creating(id=1).replace(b'"id": 1', b'"id": 1, "x": NaN')), 400),
    "a batch": (Probe(body=b"[" + creating() + b"]"), 400),
    "an id that is none": (Probe(body=creating(id={"a": 1})), 400),
    "an unknown method": (Probe(body=creating(method="tools/destroy"), headers={"Mcp-Method": "tools/destroy"}), 404),
    "an unknown path": (Probe(path="/admin"), 404),
    "a path with a slash too many": (Probe(path="/mcp/"), 404),
    "a path that climbs": (Probe(path="/mcp/../../etc/passwd"), 404),
    "a path that climbs in code": (Probe(path="/%2e%2e/%2e%2e/etc/passwd"), 404),
    "our path in code": (Probe(path="/%6dcp"), 404),
    "a path with NUL": (Probe(path="/mcp%00"), 404),
    "another server's address": (Probe(path="http://evil.example/mcp"), 404),
    "a stream": (Probe(method="GET"), 405),
    "a DELETE": (Probe(method="DELETE"), 405),
    "a PUT": (Probe(method="PUT"), 405),
    "a TRACE": (Probe(method="TRACE"), 405),
    "a POST to the health": (Probe(path="/health"), 405),
    "a version that never was": (mismatched(**{"MCP-Protocol-Version": "1999-01-01"}), 400),
    "a version that is no date": (mismatched(**{"MCP-Protocol-Version": "../../etc"}), 400),
    "an older version than the body's": (mismatched(**{"MCP-Protocol-Version": "2025-11-25"}), 400),
    "no version but the body's": (mismatched(**{"MCP-Protocol-Version": None}), 400),
    "another method than the body's": (mismatched(**{"Mcp-Method": "tools/list"}), 400),
    "no method but the body's": (mismatched(**{"Mcp-Method": None}), 400),
    "another name than the body's": (mismatched(**{"Mcp-Name": "search_memories"}), 400),
    "two versions": (Probe(more=b"MCP-Protocol-Version: 2025-11-25\r\n"), 400),
    "a length and chunks": (Probe(chunked=True, headers={"Content-Length": "4"}), 400),
    "two lengths": (Probe(more=b"Content-Length: 0\r\n"), 400),
    "a negative length": (Probe(headers={"Content-Length": "-1"}), 400),
    "an unknown coding": (Probe(headers={"Content-Length": None, "Transfer-Encoding": "xchunked"}), 400),
    "two codings": (Probe(headers={"Content-Length": None, "Transfer-Encoding": "identity, chunked"}), 400),
    "a space before a colon": (Probe(more=b"Transfer-Encoding : chunked\r\n"), 400),
    "a folded header": (Probe(more=b"X-A: b\r\n\tTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n"), 400),
    "a header with NUL": (Probe(more=b"X-A: \x00\r\n"), 400),
    "headers that are too large": (Probe(more=b"X-A: " + b"a" * 70_000 + b"\r\n"), 431),
    "many small headers that are too large together": (
        Probe(more=b"".join(b"a%d: 1\r\n" % n for n in range(3_700))), 431,
    ),
    "a socket for the web": (Probe(method="GET", headers={"Connection": "Upgrade, close", "Upgrade": "websocket"}), 405),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_is_kept(web: HttpServer, web_database: Database) -> Iterator[None]:
    """Whatever a test sends: the server lives, nothing was stored by it, and its log holds no token."""
    yield
    assert web.process.poll() is None
    for namespace in ("alpha", "beta"):
        assert not web_database.rows(
            "SELECT 1 FROM memories WHERE content LIKE %s", [f"%{CANARY}%"], namespace=namespace
        )


def assert_nothing_leaks(answer: bytes, keys: Keys) -> None:
    text = answer.decode("latin-1")
    for word in (*INSIDE, CANARY, *vars(keys).values()):
        assert word not in text, word


async def test_the_probe_would_store_something_were_nothing_wrong_with_it(
    web: HttpServer, web_database: Database, keys: Keys
) -> None:
    answer = web.raw(Probe().as_bytes(web, keys))

    assert status(answer) == 200
    assert web_database.value("SELECT count(*) FROM memories", namespace="alpha") == 1
    web_database.as_login("TRUNCATE memories CASCADE")


@pytest.mark.parametrize("name", PROBES)
async def test_it_is_turned_away(web: HttpServer, keys: Keys, name: str) -> None:
    probe, expected = PROBES[name]
    answer = web.raw(probe.as_bytes(web, keys))

    assert status(answer) == expected
    assert_nothing_leaks(answer, keys)


async def test_headers_that_are_too_large_are_named_as_that_in_pieces_too(web: HttpServer, keys: Keys) -> None:
    sent = Probe(more=b"X-A: " + b"a" * 70_000 + b"\r\n").as_bytes(web, keys)
    with socket.create_connection(web.address, timeout=PATIENCE_S) as connection:
        connection.sendall(sent[:50_000])  # as long as it is, no more need come
        answer = b"".join(iter(lambda: connection.recv(4_096), b""))

    assert status(answer) == 431


@pytest.mark.parametrize(
    ("probe", "challenge"),
    [
        (Probe(token=None), 'Bearer realm="pgengram"'),
        (Probe(token="revoked"), 'Bearer realm="pgengram", error="invalid_token"'),
        (Probe(token="reader"), 'Bearer realm="pgengram", error="insufficient_scope", scope="read-write"'),
    ],
)
async def test_a_client_is_told_what_its_token_lacks(web: HttpServer, keys: Keys, probe: Probe, challenge: str) -> None:
    head = web.raw(probe.as_bytes(web, keys)).decode().partition("\r\n\r\n")[0]

    assert f"www-authenticate: {challenge}\r\n" in head + "\r\n"


async def test_a_writing_tool_is_refused_to_a_reader_in_the_older_era_too(web: HttpServer, keys: Keys) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                       "params": {"name": "create_memory", "arguments": {"content": CANARY}}}).encode()  # fmt: skip
    old = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Method": None, "Mcp-Name": None}

    assert status(web.raw(Probe(token="reader", headers=old, body=body).as_bytes(web, keys))) == 403


async def test_a_reader_gets_no_writing_tool_by_naming_two(web: HttpServer, keys: Keys) -> None:
    body = creating().replace(b'"name": "create_memory"', b'"name": "create_memory", "name": "search_memories"', 1)
    twice = body.replace(b'"name": "search_memories"', b'"name": "create_memory", "name": "create_memory"')

    for sent in (body, twice):
        answer = web.raw(Probe(token="reader", body=sent).as_bytes(web, keys))
        assert status(answer) in (200, 400, 403)
        assert b'"created"' not in answer


async def test_an_unknown_method_of_the_older_era_is_an_error(web: HttpServer, keys: Keys) -> None:
    old = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Method": None, "Mcp-Name": None}
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/destroy"}'
    answer = web.raw(Probe(headers=old, body=body).as_bytes(web, keys))

    assert b"-32601" in answer
    assert_nothing_leaks(answer, keys)


@pytest.mark.parametrize("name", ["a length and chunks", "two lengths", "a space before a colon", "an unknown coding"])
async def test_a_request_hidden_in_the_body_of_another_is_never_answered(
    web: HttpServer, keys: Keys, name: str
) -> None:
    hidden = Probe().as_bytes(web, keys)
    outer = replace(PROBES[name][0], body=b"0\r\n\r\n" + hidden, chunked=False)
    if name == "a length and chunks":
        outer = replace(outer, headers={"Transfer-Encoding": "chunked"})
    answer = web.raw(outer.as_bytes(web, keys))

    assert answer.count(b"HTTP/1.1 ") == 1
    assert status(answer) >= 400


async def test_a_body_that_trickles_in_is_given_up(web: HttpServer, keys: Keys) -> None:
    head, _, body = Probe().as_bytes(web, keys).partition(b"\r\n\r\n")

    def trickle() -> bytes:
        with socket.create_connection(web.address, timeout=PATIENCE_S) as connection:
            connection.sendall(head + b"\r\n\r\n")
            for byte in body[:-1]:
                try:
                    connection.sendall(bytes([byte]))
                    time.sleep(0.05)
                except OSError:
                    break
            return received(connection)

    answer = await asyncio.to_thread(trickle)
    assert answer == b"" or status(answer) == 408  # it may be reset before it is read


@pytest.mark.parametrize("begun", [b"", b"POST /mcp HTT", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A:"])
async def test_a_head_that_does_not_come_is_not_waited_for(web: HttpServer, begun: bytes) -> None:
    assert await asyncio.to_thread(web.raw, begun, timeout_s=PATIENCE_S) == b""


async def test_a_second_request_that_does_not_come_whole_is_not_waited_for(web: HttpServer) -> None:
    def second() -> bytes:
        with socket.create_connection(web.address, timeout=PATIENCE_S) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            first = connection.recv(65_536)
            while b"alive" not in first:
                first += connection.recv(65_536)
            connection.sendall(b"GET /hea")
            return received(connection)

    assert await asyncio.to_thread(second) == b""


async def test_two_hundred_idle_connections_keep_nobody_out_and_are_closed(web: HttpServer, keys: Keys) -> None:
    idle = [socket.create_connection(web.address, timeout=PATIENCE_S) for _ in range(200)]
    try:
        async with client_of(web, keys.good) as client:
            await call(client, "memory_stats")
        assert {await asyncio.to_thread(one.recv, 1) for one in idle} == {b""}
    finally:
        for one in idle:
            one.close()


async def test_a_client_that_does_not_take_its_answer_is_not_waited_for() -> None:
    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})

    made = functools.partial(PatientConnection, patience_s=0.5)
    config = uvicorn.Config(endless, http=made, lifespan="off", log_config=None)  # type: ignore[arg-type]
    listener = bound("127.0.0.1", 0)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve([listener]))
    await until(lambda: asyncio.sleep(0, server.started))
    _, writer = await asyncio.open_connection(*listener.getsockname(), limit=1_000)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await until(lambda: asyncio.sleep(0, server.server_state.connections))
    await until(lambda: asyncio.sleep(0, not server.server_state.connections))
    writer.transport.abort()
    server.should_exit = True
    await serving


@pytest.mark.parametrize(
    "asking",
    [
        lambda id_: ("get_memories", {"ids": [id_]}),
        lambda id_: ("get_memories", {"ids": [id_[-8:]], "include": ["history", "relations", "clusters"]}),
        lambda id_: ("update_memory", {"id": id_, "content": "Taken over."}),
        lambda id_: ("forget_memories", {"ids": [id_], "reason": "Not mine."}),
        lambda id_: ("link_memories", {"from_id": id_, "to_ids": [id_], "type": "same"}),
        lambda id_: ("explore_memories", {"ids": [id_]}),
    ],
)
async def test_an_id_of_another_namespace_is_the_id_of_nothing(
    web: HttpServer, keys: Keys, asking: Callable[[str], tuple[str, dict[str, Any]]]
) -> None:
    async with client_of(web, keys.good) as mine, client_of(web, keys.foreign) as theirs:
        id_ = await remember(mine, "The spare key hangs behind the clock.")
        before = await read(mine, id_)
        answer = await theirs.call_tool(*asking(id_))

        assert answer.is_error
        assert "spare key" not in said(answer)
        with pytest.raises(Exception, match="No such resource"):
            await theirs.read_resource(f"memory://{id_}")
        assert (await read(mine, id_))["version"] == before["version"]


async def test_a_preview_of_another_namespace_confirms_nothing(web: HttpServer, keys: Keys) -> None:
    async with client_of(web, keys.good) as mine, client_of(web, keys.foreign) as theirs:
        id_ = await remember(mine, "This stays.")
        token = (await call(mine, "forget_memories", ids=[id_], hard=True))["confirm_token"]

        assert (
            await theirs.call_tool("forget_memories", {"ids": [id_], "hard": True, "confirm_token": token})
        ).is_error
        assert (await read(mine, id_))["content"] == "This stays."


async def test_every_token_of_the_right_form_costs_one_comparison_in_constant_time(
    store: Store, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []
    real = tokens.hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr(tokens.hmac, "compare_digest", compare)
    wrong = keys.good[:-1] + ("A" if keys.good[-1] != "A" else "B")
    found = [await tokens.verify(store, one) for one in (keys.good, wrong, f"pgt_{'0' * 12}_{'x' * 43}")]

    assert [one is not None for one in found] == [True, False, False]
    assert compared == [(32, 32)] * 3


async def test_the_log_holds_neither_tokens_nor_contents_at_its_finest_level(web: HttpServer, keys: Keys) -> None:
    async with client_of(web, keys.good) as client:
        await remember(client, "The word is xylocanary.")
        await client.call_tool("create_memory", {"content": "xylocanary", "nonsense": "xylocanary"})
    log = "".join(web.log)

    assert "turned away" in log
    assert not [word for word in (CANARY, "xylocanary", *vars(keys).values()) if word in log]


async def test_an_unforeseen_fault_is_told_without_its_words(
    web: HttpServer, web_database: Database, keys: Keys
) -> None:
    web_database.as_login("ALTER TABLE access_tokens RENAME COLUMN scope TO scape")
    try:
        answer = web.raw(Probe().as_bytes(web, keys))
    finally:
        web_database.as_login("ALTER TABLE access_tokens RENAME COLUMN scape TO scope")

    assert status(answer) == 503
    assert_nothing_leaks(answer, keys)
