"""Memories over HTTP: real clients of both eras, tokens, namespaces, several servers on one database."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import random
import signal
import socket
import ssl
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from http_server import ACCEPT, HttpServer, Issue, client_of, modern, outcome, serving_http
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.types import ElicitResult

from helpers import PATIENCE_S, REPLICA, Database, call, diagonal, environment, read, refused, remember, until
from pgengram.inputs import NewMemory
from pgengram.mcp.http import namespaces
from pgengram.mcp.http.middleware import MAX_BODY
from pgengram.mcp.http.requests import Rates
from pgengram.mcp.http.server import bound
from pgengram.mcp.http.transport import CUT_OFF, FORM_KEY, ID_KEY, Form, Transport
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.clients import tokens
from pgengram.store.store import Store

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


def posted(server: HttpServer, token: str | None, method: str, **params: Any) -> httpx.Response:
    """Send one request of the newest revision, and nothing before it."""
    headers, body = modern(method, **params)
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    return httpx.post(server.url, headers=headers, json=body, timeout=PATIENCE_S)


# -- both eras ------------------------------------------------------------------------------------------------------


@ERAS
async def test_a_client_of_either_era_remembers_and_finds_over_http(web: HttpServer, issue: Issue, mode: str) -> None:
    async with client_of(web, await issue(), mode) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        id_ = await remember(client, "The spare key hangs behind the clock.")

        found = await call(client, "search_memories", query="spare key")

    assert [hit["id"] for hit in found["results"]] == [id_]


@ERAS
async def test_a_client_of_either_era_reads_resources_prompts_and_completions(
    web: HttpServer, issue: Issue, mode: str
) -> None:
    async with client_of(web, await issue(), mode) as client:
        await remember(client, "The spare key hangs behind the clock.", tags=["keys"])
        [shown] = (await client.read_resource("memory://stats")).contents
        prompt = await client.get_prompt("recall", {"query": "spare key"})

        assert len((await client.list_prompts()).prompts) == 4
        assert len((await client.list_resource_templates()).resource_templates) == 1

    assert json.loads(shown.text)["totals"]["memories"] == 1  # type: ignore[union-attr]
    assert "behind the clock" in prompt.model_dump_json()


@ERAS
async def test_errors_come_as_answers_over_http_too(web: HttpServer, issue: Issue, mode: str) -> None:
    async with client_of(web, await issue(), mode) as client:
        error = await refused(client, "search_memories", query="x", mode="fuzzy")
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("nothing", {})

    assert error["code"] == "INVALID_INPUT"
    assert unknown.value.code == -32602


async def test_lists_are_not_for_shared_caches_as_they_depend_on_the_token(web: HttpServer, issue: Issue) -> None:
    listed = posted(web, await issue(), "tools/list").json()["result"]

    assert listed["cacheScope"] == "private"


async def test_a_call_needs_nothing_before_it_in_either_era(web: HttpServer, issue: Issue) -> None:
    token = await issue()
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": {"name": "create_memory", "arguments": {"content": "A fact."}}}  # fmt: skip
    headers = {"authorization": f"Bearer {token}", "accept": ACCEPT, "mcp-session-id": "guessed"}

    async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
        old = await http.post(web.url, headers=headers, json=body)
    new = posted(web, token, "tools/call", name="create_memory", arguments={"content": "A fact."})

    assert old.status_code == new.status_code == 200
    assert '"created":true' in old.text.replace("\\", "")
    assert new.json()["result"]["structuredContent"]["created"] is False


# -- whose memories -------------------------------------------------------------------------------------------------


@ERAS
async def test_two_tokens_lead_to_two_namespaces_that_see_nothing_of_each_other(
    web: HttpServer, issue: Issue, mode: str
) -> None:
    alpha, beta = await issue(namespace="alpha"), await issue(namespace="beta")
    async with client_of(web, alpha, mode) as one, client_of(web, beta, mode) as other:
        mine = await remember(one, "Mara's blood group is zero.")
        await remember(other, "Jonas lives in Graz.")

        assert [hit["content"] for hit in (await call(one, "search_memories"))["results"]] == [
            "Mara's blood group is zero."
        ]
        assert [hit["content"] for hit in (await call(other, "search_memories"))["results"]] == ["Jonas lives in Graz."]
        assert (await other.call_tool("get_memories", {"ids": [mine]})).is_error


async def test_several_tokens_of_one_namespace_share_its_memories_and_have_sessions_of_their_own(
    web: HttpServer, issue: Issue
) -> None:
    async with client_of(web, await issue("laptop")) as one, client_of(web, await issue("phone")) as other:
        first = await remember(one, "Told on the laptop.")
        second = await remember(other, "Told on the phone.")
        third = await remember(one, "Told on the laptop again.")
        sessions = [(await read(one, id_))["session_id"] for id_ in (first, second, third)]

    assert sessions[0] == sessions[2] != sessions[1]


async def test_the_history_names_the_token_whatever_the_client_says_of_itself(
    web: HttpServer, web_database: Database, issue: Issue
) -> None:
    async with client_of(web, await issue("Mara's laptop")) as client:
        id_ = await remember(client, "A fact.")

    rows = web_database.rows("SELECT actor FROM memory_history WHERE memory_id = %s", [id_], namespace="alpha")
    assert rows == [{"actor": "Mara's laptop"}]


@ERAS
async def test_a_token_that_may_only_read_sees_only_tools_that_change_nothing(
    web: HttpServer, issue: Issue, mode: str
) -> None:
    async with client_of(web, await issue(), mode) as writer:
        id_ = await remember(writer, "The spare key hangs behind the clock.")
        every = {tool.name for tool in (await writer.list_tools()).tools}

    async with client_of(web, await issue(scope="read-only"), mode) as reader:
        listed = (await reader.list_tools()).tools
        found = await call(reader, "search_memories", query="spare key")
        whole = await read(reader, id_)
        with pytest.raises(MCPError, match="may only read"):
            await reader.call_tool("update_memory", {"id": id_, "importance": 0.9})

    assert {tool.name for tool in listed} < every
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in listed)
    assert [hit["id"] for hit in found["results"]] == [id_]
    assert whole["importance"] == 0.5


async def test_another_systems_tools_are_served_over_http_and_a_reader_gets_those_that_read(web: HttpServer) -> None:
    with serving_http(**web.settings, compat="crow") as server:
        async with client_of(server, server.token("writer")) as client:
            writing = {tool.name for tool in (await client.list_tools()).tools}
        async with client_of(server, server.token("reader", "--read-only"), "legacy") as client:
            reading = {tool.name for tool in (await client.list_tools()).tools}
            assert "crow" in str(client.instructions).lower()

    assert "crow_store_memory" in writing - reading
    assert reading == {"crow_search_memories", "crow_recall_by_context", "crow_list_memories", "crow_memory_stats"}


async def test_many_namespaces_are_served_with_few_kept_in_memory(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgengram.service.spaces.MAX_KEPT", 3)
    everybody = namespaces.NamespaceServers(Settings(database_url=database.url, embedder="none:"))
    for number in range(8):
        async with everybody.namespaces.of(f"namespace-{number}") as served:
            await served.manager.ready()
            async with served.manager.store.transaction() as tx:
                assert (await tx.row("SELECT count(*) AS n FROM memories")) == {"n": 0}
        assert len(everybody.namespaces) <= 3
    async with everybody.namespaces.of("owner-0") as first:  # it was let go, and comes again
        await first.manager.ready()
    await everybody.close()

    assert {row[0] for row in database.as_login("SELECT name FROM namespaces")} >= {f"namespace-{n}" for n in range(8)}


# -- tokens ---------------------------------------------------------------------------------------------------------


async def test_a_token_is_made_listed_and_revoked_by_typing(web: HttpServer) -> None:
    made = web.issued("Mara's laptop", "--namespace", "mara", "--days", "90")
    id_ = made["id"]
    assert posted(web, made["token"], "tools/list").status_code == 200
    listed = {one["id"]: one for one in outcome("token", "list", **web.settings)["tokens"]}

    assert (listed[id_]["name"], listed[id_]["namespace"], listed[id_]["scope"]) == (
        "Mara's laptop",
        "mara",
        "read-write",
    )
    assert listed[id_]["last_used_at"] is not None
    assert listed[id_]["expires_at"] is not None
    assert made["token"] not in json.dumps(listed)
    assert outcome("token", "revoke", id_, **web.settings)["state"] == "revoked"
    assert posted(web, made["token"], "tools/list").status_code == 401


async def test_of_a_token_only_a_hash_is_stored(web_database: Database, issue: Issue) -> None:
    token = await issue()
    secret = token.rpartition("_")[2] if token.count("_") == 2 else token.split("_", 2)[2]
    [row] = [
        row for row in web_database.as_login("SELECT to_json(t)::text FROM access_tokens t") if token[4:16] in row[0]
    ]

    assert secret not in row[0]
    assert secret.encode().hex() not in row[0]


async def test_a_token_is_a_secret_that_no_memory_may_hold(web: HttpServer, issue: Issue) -> None:
    token = await issue()
    async with client_of(web, token) as client:
        error = await refused(client, "create_memory", content=f"On the laptop stands {token}")

    assert error["code"] == "SECRET_REJECTED"


def test_answers_are_sent_without_waiting_for_more_to_send() -> None:
    with bound("127.0.0.1", 0) as listener:  # of another protocol, asyncio leaves the delay on: 40 ms for each answer
        assert listener.proto == socket.IPPROTO_TCP


async def test_the_role_of_a_call_has_no_right_on_tokens(web_database: Database, issue: Issue) -> None:
    await issue()

    with pytest.raises(Exception, match="permission denied"):
        web_database.rows("SELECT id FROM access_tokens", namespace="alpha")


@pytest.mark.parametrize(
    ("name", "namespace", "days"),
    [("", "a", 1), ("x" * 65, "a", 1), ("x\n", "a", 1), ("x", "n" * 129, 1), ("x", "a", 0)],
)
async def test_a_token_that_makes_no_sense_is_not_made(store: Store, name: str, namespace: str, days: int) -> None:
    before = len(await tokens.list_all(store))

    with pytest.raises(tokens.InvalidInput):
        await tokens.create(store, name, namespace, "read-only", timedelta(days=days))

    assert len(await tokens.list_all(store)) == before


# -- what needs a yes -----------------------------------------------------------------------------------------------


async def test_a_token_of_a_preview_is_good_on_another_server(web: HttpServer, issue: Issue) -> None:
    token = await issue()
    with serving_http(**web.settings) as replica:
        async with client_of(web, token, "legacy") as client:
            id_ = await remember(client, "This goes.")
            shown = await call(client, "forget_memories", ids=[id_], hard=True)
        async with client_of(replica, token) as client:
            await call(client, "forget_memories", ids=[id_], hard=True, confirm_token=shown["confirm_token"])
            assert (await client.call_tool("get_memories", {"ids": [id_]})).is_error


async def test_a_client_of_the_newest_revision_is_asked_without_a_session(web: HttpServer, issue: Issue) -> None:
    questions: list[str] = []

    async def agree(_: object, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"confirm": True})

    async with client_of(web, await issue(), elicitation_callback=agree) as client:
        id_ = await remember(client, "This goes.")
        await call(client, "forget_memories", ids=[id_], hard=True)
        assert (await client.call_tool("get_memories", {"ids": [id_]})).is_error

    assert len(questions) == 1


# -- running it -----------------------------------------------------------------------------------------------------


def test_it_tells_whether_it_lives_and_whether_the_database_answers(web: HttpServer) -> None:
    assert httpx.get(web.base + "/health").json() == {"status": "alive"}
    outcome = httpx.get(web.base + "/ready").json()
    if REPLICA:
        assert outcome.pop("replica") in ("in use", "not reached yet")
    assert outcome == {"status": "ready"}


async def test_it_says_that_it_lives_while_clients_keep_it_busy(web: HttpServer, issue: Issue) -> None:
    long = [
        ("create_memory", {"content": made_up(15_900)}),
        ("search_memories", {"query": made_up(100_000)}),
        ("search_memories", {f"{word}{number}": 1 for number, word in enumerate(made_up(100_000).split())}),
        ("create_memories", {"items": [{"content": made_up(3_000)} for _ in range(10)]}),
    ]
    for name, arguments in long:
        token = await issue()  # another client each time: what it brings counts against its rate
        at_work = asyncio.create_task(
            asyncio.to_thread(posted, web, token, "tools/call", name=name, arguments=arguments)
        )
        lives = [await asyncio.to_thread(httpx.get, f"{web.base}/health", timeout=PATIENCE_S)]
        if name.startswith("create"):
            assert not at_work.done(), "it answered before what takes seconds was done"
        assert (await at_work).status_code == 200
        assert lives[0].json() == {"status": "alive"}


async def test_a_long_text_is_prepared_beside_the_event_loop(manager: MemoryManager) -> None:
    drafting, others = asyncio.create_task(manager.draft(NewMemory(content=made_up(15_900)))), 0
    while not drafting.done():
        await asyncio.sleep(0)
        others += 1

    assert others > 20
    assert (await drafting).row["extra"], "it has stems of another language"


def made_up(characters: int) -> str:
    """Return a text in Portuguese by its function words, whose other words no list knows."""
    chance, letters = random.Random(characters), "abcdefghijklmnopqrstuvwxyz"
    words = (f"{''.join(chance.choices(letters, k=chance.randint(3, 9)))} uma não" for _ in range(characters // 10))
    return " ".join(words)[:characters]


def test_without_a_database_it_lives_is_not_ready_and_lets_nobody_in() -> None:
    token = f"pgt_{'0' * 12}_{'x' * 43}"
    with serving_http(database_url="postgresql://u:canarypassword@127.0.0.1:1/d", embedder="none:") as server:
        alive, ready = httpx.get(server.base + "/health"), httpx.get(server.base + "/ready", timeout=PATIENCE_S)
        asked = posted(server, token, "tools/list")

    assert (alive.status_code, ready.status_code, asked.status_code) == (200, 503, 503)
    assert "retry-after" in ready.headers
    assert "canary" not in ready.text + asked.text + "".join(server.log)


async def test_what_was_told_is_there_after_a_restart(web: HttpServer, issue: Issue) -> None:
    token = await issue()
    with serving_http(**web.settings) as before:
        async with client_of(before, token) as client:
            id_ = await remember(client, "The spare key hangs behind the clock.")
        assert before.stop() == 0
    with serving_http(**web.settings) as after:
        async with client_of(after, token) as client:
            assert (await read(client, id_))["content"] == "The spare key hangs behind the clock."


async def test_a_server_goes_on_when_its_database_was_restarted(database: Database) -> None:
    with serving_http(database_url=database.url, embedder="none:") as server:
        token = server.token()
        async with client_of(server, token) as client:
            await remember(client, "Before.")
            name = database.url.rpartition("/")[2].partition("?")[0]
            database.as_login(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
            )

            assert posted(server, token, "tools/list").status_code == 200
            assert await remember(client, "After.")


def test_calls_above_the_rate_are_told_when_to_come_again(web: HttpServer) -> None:
    with serving_http("--rate", "1", **web.settings) as slow:
        token, other = slow.token("one"), slow.token("two")
        first, second = posted(slow, token, "tools/list"), posted(slow, token, "tools/list")

        assert (first.status_code, second.status_code) == (200, 429)
        assert 1 <= int(second.headers["retry-after"]) <= 60
        assert posted(slow, other, "tools/list").status_code == 200


def test_a_rate_lets_a_silent_client_call_several_times_and_then_steadily() -> None:
    now = [0.0]
    rates = Rates(60, lambda: now[0])

    assert [rates.wait_s("a") for _ in range(10)] == [0] * 10
    assert rates.wait_s("a") == pytest.approx(1)
    assert rates.wait_s("b") == 0
    now[0] = 1.0
    assert [rates.wait_s("a") > 0 for _ in range(2)] == [False, True]


def test_what_a_call_brings_counts_against_the_rate_and_the_call_is_served(web: HttpServer) -> None:
    long = {"content": "The archive holds maps. " * 600}
    with serving_http("--rate", "12", **web.settings) as slow:
        token, other = slow.token("one"), slow.token("two")
        stored = posted(slow, token, "tools/call", name="create_memory", arguments=long)
        after = posted(slow, token, "tools/list")

        assert (stored.status_code, after.status_code) == (200, 429)
        assert int(after.headers["retry-after"]) > 5
        assert [posted(slow, other, "tools/list").status_code for _ in range(2)] == [200, 200]  # two calls at once


@pytest.mark.parametrize("work", [1, 9, 50])
def test_a_client_that_brought_much_waits_until_it_is_paid_for(work: int) -> None:
    now = [0.0]
    rates = Rates(60, lambda: now[0])
    assert rates.wait_s("a") == 0
    rates.charge("a", work)

    wait_s = rates.wait_s("a")
    assert wait_s == pytest.approx(max(0, work + 1 - 9))
    now[0] = wait_s
    assert rates.wait_s("a") == 0
    assert rates.wait_s("b") == 0


def test_without_tokens_programs_of_this_machine_are_served_and_nothing_that_comes_through_a_proxy(
    web: HttpServer,
) -> None:
    with serving_http("--no-auth", **web.settings) as local:
        headers, body = modern("tools/list")

        assert httpx.post(local.url, headers=headers, json=body).status_code == 200
        assert (
            httpx.post(local.url, headers={**headers, "x-forwarded-for": "203.0.113.9"}, json=body).status_code == 403
        )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--no-auth", "--host", "0.0.0.0"], "Clients from other machines need a token"),
        (["--no-auth", "--host", "::"], "Clients from other machines need a token"),
        (["--host", "0.0.0.0"], "--allowed-host"),
        (["--certfile", "README.md"], "given together"),
        (["--host", "no.such.host.invalid"], "has no address"),
        (["--host", "192.0.2.1", "--allowed-host", "m.example.org"], "Give --host an address of this machine"),
        (["--issuer", "http://issuer.example.org", "--url", "https://m.example.org/mcp"], "https"),
        (["--issuer", "https://issuer.example.org"], "--url"),
    ],
)
def test_it_refuses_to_start_where_that_would_be_unsafe(words: list[str], why: str) -> None:
    command = [sys.executable, "-m", "pgengram", "serve", "--http", "--port", "0", *words]
    done = subprocess.run(
        command, env=environment(embedder="none:", database_url="postgresql://nobody@127.0.0.1:1/none"),
        capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip

    assert done.returncode == 2
    assert why in done.stderr.replace("\n", " ")


def certified(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that is its own authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "cert.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return chain, secret


async def test_it_speaks_tls_with_a_certificate_from_a_file(web: HttpServer, issue: Issue, tmp_path: Path) -> None:
    chain, key = certified(tmp_path)
    token = await issue()
    with serving_http("--certfile", str(chain), "--keyfile", str(key), **web.settings) as server:
        assert server.url.startswith("https://")
        async with client_of(server, token, verify=ssl.create_default_context(cafile=chain)) as client:
            assert await remember(client, "Told in private.")


async def test_a_signal_lets_calls_in_flight_end_for_seconds(
    web: HttpServer, web_database: Database, issue: Issue
) -> None:
    token = await issue()
    with serving_http(**web.settings) as server, psycopg.connect(web_database.url) as other:
        async with client_of(server, token) as modern_, client_of(server, token, "legacy") as legacy:
            for client in (modern_, legacy):  # which list the tools now, not after the call
                await call(client, "memory_stats")
            other.execute("LOCK TABLE memories IN EXCLUSIVE MODE")
            batches = [
                asyncio.create_task(
                    call(client, "create_memories", memories=[{"content": f"Fact {n} of {place}."} for n in range(20)])
                )
                for place, client in enumerate((modern_, legacy, legacy))
            ]
            waits = "SELECT count(*) = 3 FROM pg_locks WHERE relation = 'memories'::regclass AND NOT granted HAVING count(*) = 3"
            await until(lambda: asyncio.to_thread(web_database.as_login, waits))
            server.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(1.2)  # libraries that look whether the server is to end do so every half second
            other.rollback()

            assert [len(stored["results"]) for stored in await asyncio.gather(*batches)] == [20, 20, 20]
        assert await asyncio.to_thread(server.process.wait, 20) == 0

    assert web_database.value("SELECT count(*) FROM memories", namespace="alpha") == 60


@pytest.mark.parametrize("form", Form)
@ERAS
async def test_a_call_that_is_cut_off_at_the_end_is_told_so(form: Form, mode: str) -> None:
    began = asyncio.Event()

    async def never(*_: object) -> Any:
        began.set()
        await asyncio.Event().wait()

    transport = Transport(Server("probe", on_call_tool=never), MAX_BODY)
    headers, body = modern("tools/call", name="slow", arguments={})
    if mode == "legacy":
        headers, body = {"content-type": "application/json"}, {**body, "params": {"name": "slow", "arguments": {}}}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await transport({**scope, FORM_KEY: form, ID_KEY: 1}, receive, send)

    async with transport.running(), httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
        asked = asyncio.create_task(client.post("http://127.0.0.1/mcp", headers=headers, json=body))
        await began.wait()
        transport.cut_off()
        answer = await asked

    event = answer.headers["content-type"].startswith("text/event-stream")
    told = json.loads(answer.text.partition("data: ")[2] if event else answer.text)
    assert told["id"] == 1
    assert told["error"]["message"] == CUT_OFF
    assert event or answer.status_code == 503


@pytest.mark.parametrize(
    ("accepted", "mode", "method"),
    diagonal(
        [
            ("application/json", "json"),
            ("text/event-stream", "event-stream"),
            ("text/*", "event-stream"),
            ("*/*", "json"),
            (None, "json"),
            ("", "json"),
            ("application/*;q=0.5", "json"),
            ("text/event-stream;q=0, */*", "json"),
            ("application/json;q=0, text/event-stream", "event-stream"),
            ("TEXT/EVENT-STREAM , Application/JSON; charset=utf-8", "either"),
            ("text/html", "406"),
            ("application/json;q=0", "406"),
            ("application/json;q=0.0, text/event-stream;q=0.00, */*", "406"),
        ],
        ["legacy", "auto"],
        ["tools/call", "tools/list"],
    ),
)
async def test_an_answer_comes_in_the_form_that_the_client_takes(
    web: HttpServer, issue: Issue, accepted: tuple[str | None, str], mode: str, method: str
) -> None:
    accept, form = accepted
    headers, body = modern(method, **({"name": "memory_stats", "arguments": {}} if method == "tools/call" else {}))
    if mode == "legacy":
        headers = {"content-type": "application/json"}
        body["params"] = {name: value for name, value in body["params"].items() if name != "_meta"}
    del (headers := {"accept": "", **headers})["accept"]
    headers["authorization"] = f"Bearer {await issue()}"
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        del client.headers["accept"]
        answer = await client.post(
            web.url, headers=headers if accept is None else {**headers, "accept": accept}, json=body
        )

    if form == "406":
        assert answer.status_code == 406
        assert "application/json or text/event-stream" in answer.json()["error"]["message"]
        return
    assert answer.status_code == 200
    kind = answer.headers["content-type"].partition(";")[0].rpartition("/")[2]
    assert kind == form or form == "either"
    told = answer.text if kind == "json" else answer.text.rpartition("data: ")[2]
    assert json.loads(told)["result"]


@pytest.mark.parametrize(
    ("written", "mode"),
    diagonal(
        [
            ({"content-type": "Application/JSON;Charset=UTF-8"}, {}),
            ({"content-type": 'application/json; charset="utf-8"', "content-encoding": "Identity"}, {}),
            ({}, []),
            ({}, ""),
            ({}, '{"query": "tea"}'),
        ],
        ["legacy", "auto"],
    ),
)
def test_a_request_may_be_written_as_its_clients_language_writes_it(
    web: HttpServer, written: tuple[dict[str, str], Any], mode: str
) -> None:
    headers, arguments = written
    usual, body = modern("tools/call", name="search_memories", arguments=arguments)
    if mode == "legacy":
        usual = {"content-type": "application/json"}
        del body["params"]["_meta"]
    headers = {**usual, **headers, "authorization": f"Bearer {web.token()}"}

    answer = httpx.post(web.url, headers=headers, content=json.dumps(body).encode(), timeout=PATIENCE_S)

    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["structuredContent"]["ok"]


def test_arguments_that_are_no_object_are_refused_with_the_calls_id(web: HttpServer) -> None:
    headers, body = modern("tools/call", name="search_memories", arguments=["tea"])

    answer = httpx.post(
        web.url, headers={**headers, "authorization": f"Bearer {web.token()}"}, json=body, timeout=PATIENCE_S
    )

    assert (answer.status_code, answer.json()["id"], answer.json()["error"]["code"]) == (400, body["id"], -32602)


def test_a_page_that_may_call_is_told_so_by_its_browser(web: HttpServer) -> None:
    page = "https://app.example.org"
    with serving_http("--allowed-origin", page, **web.settings) as server:
        preflight = httpx.options(server.url, headers={"origin": page, "access-control-request-method": "POST"})
        headers, body = modern("tools/list")
        answer = httpx.post(server.url, headers={**headers, "origin": page}, json=body)

    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == page
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == page


def test_other_ways_to_start_load_nothing_of_it() -> None:
    code = (
        "import sys, pgengram.__main__, pgengram.mcp.sdk_server, pgengram.service.manager, pgengram.cli.app;"
        "print([name for name in ('jwt', 'pgengram.mcp.http', 'pgengram.mcp.http.namespaces', 'pgengram.mcp.http.oauth') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)

    assert done.stdout.strip() == "[]"
