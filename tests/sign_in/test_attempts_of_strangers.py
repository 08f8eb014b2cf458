"""What somebody tries who has read all of this program's source, and what is never let through."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from http_server import HttpServer, modern, received, status
from signing_in import PROFILES, Pair, Phone, Profile, Program, hidden, query

from helpers import Database
from pgengram.sign_in import seals
from pgengram.store.clients.connections import Connections


def raw(web: HttpServer, *lines: str, body: str = "") -> bytes:
    """Send a request as it is written, and return the whole answer."""
    head = "\r\n".join([*lines, "connection: close", f"content-length: {len(body)}"])
    return web.raw((head + "\r\n\r\n" + body).encode("latin-1"))


PATHS = [
    "//oauth/authorize", "/oauth//authorize", "/oauth/authorize/", "/oauth/./authorize", "/oauth/x/../authorize", "/OAUTH/authorize",
    "/oauth%2fauthorize", "/oauth/%61uthorize", "/oauth/authorize;x", "/oauth/authorize%00", "/oauth\\authorize", "/oauth/token/",
    "/mcp/../oauth/token", "/oauth/page/", "/oauth/passkey", "/.well-known/../oauth/token", "http://evil.example/oauth/authorize",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_other_spelling_of_an_address_is_an_endpoint(web: HttpServer, path: str) -> None:
    wish = urlencode(Program(web.base).asks())
    answer = raw(web, f"GET {path}?{wish} HTTP/1.1", f"host: 127.0.0.1:{web.address[1]}")
    assert status(answer) in (400, 404), answer[:200]
    assert b"set-cookie" not in answer.lower()


@pytest.mark.parametrize(
    "lines",
    [
        ["host: evil.example"], ["host: {host}", "host: evil.example"], ["host: evil.example@{host}"], ["host: {host}/x"], [],
        ["host: {host}", "cookie: a=b", "cookie: c=d"], ["host: {host}", "origin: {base}", "origin: https://evil.example"],
        ["host: {host}", "sec-fetch-site: same-origin", "sec-fetch-site: cross-site"], ["host: evil.example", "x-forwarded-host: {host}"],
    ],
)  # fmt: skip
def test_no_header_that_comes_twice_or_names_another_host_passes(web: HttpServer, lines: list[str]) -> None:
    host = f"127.0.0.1:{web.address[1]}"
    shown = [line.format(host=host, base=web.base) for line in lines]
    answer = raw(web, f"GET /oauth/authorize?{urlencode(Program(web.base).asks())} HTTP/1.1", *shown)
    assert status(answer) in (400, 421), answer[:200]
    assert b"<form" not in answer


async def test_forwarded_headers_change_neither_the_issuer_nor_where_a_browser_is_sent(web: HttpServer) -> None:
    program = Program(web.base)
    evil = {
        "x-forwarded-host": "evil.example", "x-forwarded-proto": "https", "forwarded": "host=evil.example;proto=https",
        "x-original-url": "/oauth/token", "x-rewrite-url": "/oauth/token", "x-http-method-override": "POST", "x-real-ip": "127.0.0.1",
    }  # fmt: skip
    for path in ("/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource", "/", "/m/x"):
        answer = await program.browser.get(web.base + path, headers=evil | {"accept": "text/html"})
        assert "evil.example" not in answer.text + str(answer.headers), path
    refused = await program.browser.post(web.url, headers=evil)
    assert f'resource_metadata="{web.base}/' in refused.headers["www-authenticate"]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND", "OPTIONS"])
async def test_no_other_method_opens_or_answers_the_page(web: HttpServer, method: str) -> None:
    wish = urlencode(Program(web.base).asks())
    answer = raw(web, f"{method} /oauth/authorize?{wish} HTTP/1.1", f"host: 127.0.0.1:{web.address[1]}")
    assert status(answer) in (400, 405), answer[:200]
    assert b"set-cookie" not in answer.lower()


async def test_nothing_is_taken_from_a_place_where_it_does_not_belong(
    web: HttpServer, pair: Pair, signing_database: Database
) -> None:
    program = Program(web.base)
    code = await program.code(pair)
    form = program.asks() | {"grant_type": "authorization_code", "code": code, "code_verifier": program.verifier}
    tries: list[dict[str, Any]] = [
        {"params": form}, {"json": form}, {"content": urlencode(form), "headers": {"content-type": "text/plain"}},
        {"content": urlencode([*form.items(), ("code", code)]), "headers": {"content-type": "application/x-www-form-urlencoded"}},
        {"content": urlencode(form).replace("&", ";"), "headers": {"content-type": "application/x-www-form-urlencoded"}},
        {"data": form, "headers": {"content-encoding": "gzip"}}, {"files": {name: (None, one) for name, one in form.items()}},
    ]  # fmt: skip
    for how in tries:
        answer = await program.browser.post(f"{web.base}/oauth/token", **how)
        given = answer.json() if answer.status_code == 200 else {}
        assert "access_token" not in given or "content-encoding" in str(how), how
    tokens = await program.signed_in(pair)
    token = tokens["access_token"]
    headers, body = modern("tools/call", name="search_memories", arguments={"query": "tea"})
    for where, how in (
        (f"{web.url}?access_token={token}", {}), (web.url, {"cookie": f"access_token={token}; pgengram-page={token}"}),
        (web.url, {"authorization": f"Basic {token}"}), (web.url, {"authorization": f"Bearer {token} {token}"}),
        (web.url, {"x-authorization": f"Bearer {token}"}), (web.url, {"authorization": f"Bearer {tokens['refresh_token']}"}),
        (web.url, {"authorization": f"Bearer {token}\t,Bearer x"}), (web.url, {"authorization": f"Bearer {token.upper()}"}),
    ):  # fmt: skip
        assert (await program.browser.post(where, json=body, headers=headers | how)).status_code in (400, 401), how


async def test_a_seal_of_one_purpose_is_worth_nothing_for_another(
    web: HttpServer, pair: Pair, connections: Connections
) -> None:
    program = Program(web.base, PROFILES[5])
    registered = (await program.register()).removeprefix("dcr_")
    page = await program.page()
    request = hidden(page)
    for id_ in (
        request,
        f"dcr_{request}",
        registered,
        f"dcr_dcr_{registered}",
        f"dcr_{registered}=",
        f"dcr_{registered}\n",
    ):
        assert (await program.page(client_id=id_)).status_code == 400, id_
    for text in (registered, f"dcr_{registered}", request + "A", request[:-2], "", "A" * 60_000):
        form = {"request": text, "code": await pair(), "decision": "allow"}
        answer = await program.browser.post(f"{web.base}/oauth/authorize", data=form, headers={"origin": web.base})
        assert (answer.status_code, answer.headers.get("location")) == (400, None)
    for key in ("clients", "tokens", "page", "passkeys"):
        secret = await connections.key(key)
        other = seals.sealed(secret, "request", seals.value_of(await connections.key("requests"), "request", request))
        form = {"request": other, "code": await pair(), "decision": "allow"}
        answer = await program.browser.post(f"{web.base}/oauth/authorize", data=form, headers={"origin": web.base})
        assert answer.status_code == 400, key


async def test_a_name_cannot_pretend_to_end_and_to_be_somebody_elses(web: HttpServer) -> None:
    for name in (
        "Claude” of claude.ai, “x",
        'Claude" of "',
        "Claude\u202eedualC",
        "<b>Claude</b>",
        "Cl\u0000aude",
        "a" * 500,
    ):
        wish = {"client_name": name, "redirect_uris": ["https://evil.example/cb"]}
        made = (await Program(web.base).browser.post(f"{web.base}/oauth/register", json=wish)).json()
        program = Program(web.base, Profile("", made["client_id"], "https://evil.example/cb"))
        page = (await program.page()).text
        [asks] = re.findall(r"<strong>(.*?)</strong>", page)[:1]
        assert asks.startswith("“"), asks
        assert not {*'“”"‘’«»\u202e\u0000<>'} & {*asks[1:-1]}, asks
        assert len(asks) < 120
        assert "a program that named itself" in page
        assert "evil.example" in page


async def test_a_redirect_uri_cannot_write_the_policy_of_the_page(web: HttpServer) -> None:
    for host in (
        "evil.example;sandbox",
        "evil.example,default-src",
        "evil.example;script-src-elem",
        "*",
        "e'vil",
        "ev%69l",
    ):
        wish = {"redirect_uris": [f"https://{host}/cb"]}
        refused = await Program(web.base).browser.post(f"{web.base}/oauth/register", json=wish)
        assert refused.json()["error"] == "invalid_redirect_uri", host


async def test_an_ended_connection_is_not_revived_by_a_refresh_that_raced_its_end(
    web: HttpServer, pair: Pair, connections: Connections
) -> None:
    program = Program(web.base)
    for _ in range(8):
        tokens = await program.signed_in(pair)
        grant = tokens["refresh_token"].split("_")[1]
        answers = await asyncio.gather(
            *(program.refresh(tokens["refresh_token"]) for _ in range(3)), connections.revoke([grant])
        )
        for one in answers[:3]:
            if one.status_code == 200:
                assert (await program.call(one.json()["access_token"])).status_code == 401
                assert (await program.refresh(one.json()["refresh_token"])).status_code == 400


async def test_a_request_that_was_allowed_is_not_answered_again_by_many_at_once(web: HttpServer, pair: Pair) -> None:
    program = Program(web.base)
    page, code = await program.page(), await pair()
    answers = await asyncio.gather(*(program.answer(page, code) for _ in range(6)))
    allowed = [query(one)["code"] for one in answers if one.status_code == 303]
    assert len(allowed) == 1
    pages = [await program.page() for _ in range(4)]
    code = await pair()
    answers = await asyncio.gather(*(program.answer(one, code) for one in pages))
    assert [one.status_code for one in answers].count(303) == 1, "one code, one program"


async def test_a_page_of_another_namespace_or_address_is_not_reached_from_a_phone(web: HttpServer, pair: Pair) -> None:
    phone = Phone(web.base)
    await phone.sign_in(await pair("attic"))
    await phone.send("/new", content="Attic: the trunk is locked.")
    intruder = Phone(web.base)
    await intruder.sign_in(await pair("cellar"))
    for headers in ({"pgengram-namespace": "attic"}, {"cookie": "pgengram_namespace_0=YXR0aWM="}):
        cookie = "; ".join(f"{name}={value}" for name, value in intruder.browser.cookies.items())
        cookies = "; ".join(filter(None, (cookie, headers.get("cookie"))))
        sent = {**headers, "cookie": cookies}
        answer = await intruder.browser.get(f"{web.base}/?q=trunk&mode=substring", headers=sent)
        assert "Attic" not in answer.text
    for path in (
        "/namespaces",
        "/tokens",
        "/tokens/",
        "/Tokens",
        "/%74okens",
        "/x/../tokens",
        "/settings%00",
        "//tokens",
        "/export/x",
    ):
        for method in ("GET", "POST"):
            answer = await intruder.browser.request(
                method, httpx.URL(web.base).copy_with(raw_path=path.encode()), headers={"origin": web.base}
            )
            assert answer.status_code in (400, 403, 404), (method, path)
    mark = re.findall(r'name="mark" value="([^"]+)"', await phone.shows("/new"))[0]
    forged = await intruder.send("/new", content="With the mark of another.", mark=mark)
    assert forged.status_code == 403


async def test_reading_changes_nothing_so_no_link_of_a_stranger_does(
    web: HttpServer, pair: Pair, signing_database: Database
) -> None:
    phone = Phone(web.base)
    await phone.sign_in(await pair("reading"))
    await phone.send("/new", content="The gate is green.")

    def state() -> Any:
        return signing_database.as_login(
            "SELECT (SELECT count(*) FROM oauth_grants WHERE revoked_at IS NULL), (SELECT count(*) FROM passkeys), "
            "(SELECT count(*) FROM access_tokens), (SELECT max(at) FROM deletion_log)"
        )

    before = state()
    page = await phone.shows("/")
    links = {*re.findall(r'href="(/[^"#]*)"', page)} | {
        "/connections",
        "/undo",
        "/apply",
        "/news/undo",
        "/connections/end",
        "/passkeys/remove",
    }
    for path in links:
        answer = await phone.browser.get(f"{web.base}{path}")
        assert answer.status_code < 500, path
    assert state() == before
    assert "The gate is green." in await phone.shows("/?q=gate&mode=substring")


async def test_what_somebody_leaves_unfinished_takes_no_place(web: HttpServer) -> None:
    host = f"host: 127.0.0.1:{web.address[1]}"
    half = f"POST /oauth/token HTTP/1.1\r\n{host}\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 50\r\n\r\nx="
    open_ = [socket.create_connection(web.address) for _ in range(40)]
    try:
        for one in open_:
            one.sendall(half.encode())
        assert (await Program(web.base).page()).status_code == 200
        large = f"POST /oauth/register HTTP/1.1\r\n{host}\r\ncontent-type: application/json\r\ncontent-length: 70000\r\n\r\n"
        with socket.create_connection(web.address) as connection:
            connection.sendall(large.encode() + b"x" * 70_000)
            assert status(received(connection)) == 413
    finally:
        for one in open_:
            one.close()


async def test_deep_and_odd_json_registers_nothing(web: HttpServer) -> None:
    program = Program(web.base)
    for body in (b"[" * 60_000, b'{"redirect_uris": ' + b"9" * 6_000 + b"}", b'{"redirect_uris": [NaN]}', b'{"redirect_uris": [[]]}',
                 b'{"redirect_uris": {"0": "https://a.example/"}}', b"\xff\xfe", b'{"redirect_uris": ["https://a.example/\\u0000"]}',
                 b'{"redirect_uris": ["https://\\ud800.example/"]}'):  # fmt: skip
        answer = await program.browser.post(
            f"{web.base}/oauth/register", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 400, body[:60]
        assert answer.json()["error"] in ("invalid_redirect_uri", "invalid_client_metadata")


async def test_every_way_to_hide_a_parameter_is_refused(web: HttpServer) -> None:
    program = Program(web.base)
    wish = program.asks()
    spelled = [
        urlencode([*wish.items(), ("redirect_uri", "https://evil.example/")]), urlencode(wish) + "&client_id=x",
        urlencode(wish) + "&" + "&".join(f"a{number}=1" for number in range(80)), urlencode(wish) + "&state=%ff",
        urlencode(wish).replace("redirect_uri=", "redirect_uri%00="), urlencode({**wish, "redirect_uri": wish["redirect_uri"] + "\r\nx: y"}),
        urlencode({**wish, "redirect_uri": wish["redirect_uri"] + "\u3002evil.example"}),
    ]  # fmt: skip
    for one in spelled:
        answer = await program.browser.get(f"{web.base}/oauth/authorize?{one}")
        assert (answer.status_code, "location" in answer.headers) == (400, False), one
        assert not answer.cookies
