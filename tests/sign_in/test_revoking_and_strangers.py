"""What ends a connection ends it at each moment, and strangers make the server neither fetch, fail nor fill up."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlencode

import psycopg
import pytest
from http_server import HttpServer
from signing_in import CLAUDE_CODE, PROFILES, Pair, Program, hidden, query
from web_of_one_document import APP, BASE, Web, program_of

from helpers import Database
from pgengram.store.clients.connections import CLEAN_EVERY, MOST_ANSWERED, STRANGERS_KEPT, Connections
from pgengram.store.connection.pool import POOL_MAX
from pgengram.store.store import Store


async def test_a_connection_that_is_ended_before_its_code_is_exchanged_gets_no_token(
    web: HttpServer, pair: Pair, connections: Connections
) -> None:
    program = Program(web.base)
    code = await program.code(pair)
    await connections.revoke([(await connections.listed())[-1]["id"]])

    answer = await program.exchange(code)

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


@pytest.mark.parametrize("place", ["state", "client_id", "redirect_uri"])
async def test_a_character_that_no_text_holds_is_refused_on_the_page(web: HttpServer, place: str) -> None:
    program = Program(web.base)
    answer = await program.page(**{place: program.asks()[place] + "\0"})
    assert answer.status_code == 400
    assert "<h1>" in answer.text
    assert "location" not in answer.headers


@pytest.mark.parametrize("text", ["pgr_\0_x", "pga_\0_x", "\0"])
async def test_a_character_that_no_text_holds_is_refused_in_a_form(web: HttpServer, text: str) -> None:
    program = Program(web.base)
    refreshed = await program.refresh(text)
    assert (refreshed.status_code, refreshed.json()["error"]) == (400, "invalid_request")
    ended = await program.browser.post(f"{web.base}/oauth/revoke", data={"token": text, "client_id": program.client_id})
    assert (ended.status_code, ended.json()["error"]) == (400, "invalid_request")


async def test_nothing_of_what_is_sent_reaches_the_log_or_the_events(
    web: HttpServer, signing_database: Database
) -> None:
    canary = "canaryquince"
    program = Program(web.base)
    for name in program.asks():
        await program.page(**{name: canary})
    page = await program.page(state=canary)
    for name in ("request", "code", "decision", "step", "passkey", "may_write", "space-1"):
        form = {"request": hidden(page), "code": "ZZZZ-ZZZZ", "decision": "allow", name: canary}
        await program.browser.post(f"{web.base}/oauth/authorize", data=form, headers={"origin": web.base})
    fields = (
        "grant_type",
        "code",
        "code_verifier",
        "redirect_uri",
        "client_id",
        "resource",
        "refresh_token",
        "scope",
        "token",
    )
    for name in fields:
        for kind in ("authorization_code", "refresh_token", canary):
            await program.token(**{"grant_type": kind, name: canary})
        form = {"client_id": program.profile.client_id, "token": "x", name: canary}
        await program.browser.post(f"{web.base}/oauth/revoke", data=form)
    for wish in ({"client_name": canary, "redirect_uris": [f"https://{canary}"]}, {"redirect_uris": [canary]}, canary):
        await program.browser.post(f"{web.base}/oauth/register", json=wish)
    for name in ("user-agent", "cookie", "origin", "x-forwarded-for", "referer", "authorization", "accept"):
        for path in (
            "/oauth/authorize",
            "/oauth/page",
            "/",
            "/mcp",
            f"/m/{canary}",
            f"/oauth/page?to=/{canary}",
            f"/{canary}",
            f"/mcp?token={canary}",
        ):
            await program.browser.get(web.base + path, headers={name: f"pgengram-page={canary}"})
    for line in (f"{canary.upper()} /mcp", f"GET /{canary}", f"{canary.upper()} /oauth/token"):
        for host in (f"127.0.0.1:{web.address[1]}", canary):
            web.raw(f"{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
    told = "".join(web.log) + str(signing_database.as_login("SELECT to_jsonb(e) FROM access_events e"))
    assert canary not in told.lower()
    assert "consent_shown" in told


def have_the_next_event_clean_up(database: Database) -> None:
    """Give the next event a number at which what is too old or too much is forgotten."""
    last = f"SELECT max(id) / {CLEAN_EVERY} * {CLEAN_EVERY} + {CLEAN_EVERY - 1} FROM access_events"
    database.as_login(f"SELECT setval(pg_get_serial_sequence('access_events', 'id'), ({last}))")


async def test_strangers_do_not_fill_the_log(web: HttpServer, pair: Pair, signing_database: Database) -> None:
    await pair()
    for event in ("wrong_code", "consent_denied", "client_refused"):
        signing_database.as_login(
            f"INSERT INTO access_events (event) SELECT '{event}' FROM generate_series(1, {STRANGERS_KEPT})"
        )
    have_the_next_event_clean_up(signing_database)
    await Program(web.base).page()
    [kept] = signing_database.as_login(
        "SELECT count(*) FROM access_events WHERE grant_id IS NULL AND event <> 'pairing_opened'"
    )
    [opened] = signing_database.as_login("SELECT count(*) FROM access_events WHERE event = 'pairing_opened'")
    assert kept[0] <= STRANGERS_KEPT + CLEAN_EVERY
    assert opened[0] >= 1


async def test_a_thousand_requests_that_nobody_answers_keep_no_program_out(
    web: HttpServer, pair: Pair, signing_database: Database
) -> None:
    stranger, program = Program(web.base), Program(web.base)
    pages = [await stranger.page() for _ in range(8)]
    assert signing_database.as_login("SELECT count(*) FROM oauth_requests WHERE code_hash IS NULL AND tries = 0") == [
        (0,)
    ]
    signing_database.as_login(
        "INSERT INTO oauth_requests (id_hash, asked, tries, expires_at) SELECT convert_to(n::text, 'UTF8'), '{}', 4, "
        "now() + interval '0.2 seconds' * n FROM generate_series(1, 2000) AS n"
    )
    assert (await stranger.answer(pages[0], "ZZZZ-ZZZZ")).status_code == 200

    assert (await program.exchange(await program.code(pair))).status_code == 200

    have_the_next_event_clean_up(signing_database)
    await stranger.page()
    [waiting] = signing_database.as_login("SELECT count(*) FROM oauth_requests WHERE code_hash IS NULL")
    assert waiting[0] <= MOST_ANSWERED + CLEAN_EVERY


async def test_two_pages_in_one_browser_are_answered_each_for_its_own_program(web: HttpServer, pair: Pair) -> None:
    first, second = Program(web.base, PROFILES[0]), Program(web.base)
    second.browser = first.browser
    one, other = await first.page(), await second.page()

    refused = query(await first.answer(one, "", "deny"))
    allowed = await second.answer(other, await pair())

    assert refused["error"] == "access_denied"
    assert allowed.headers["location"].startswith(second.profile.redirect_uri)
    assert (await second.exchange(query(allowed)["code"])).status_code == 200
    assert (await first.answer(one, await pair())).status_code == 400
    mixed = {"request": hidden(other)[:-4] + hidden(one)[-4:], "code": await pair(), "decision": "allow"}
    sent = await first.browser.post(f"{web.base}/oauth/authorize", data=mixed, headers={"origin": web.base})
    assert (sent.status_code, sent.headers.get("location")) == (400, None)


async def test_a_page_that_waited_for_more_than_ten_minutes_is_over(
    store: Store, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = program_of(store, Web())
    page, now = await program.page(), time.time()
    monkeypatch.setattr("pgengram.sign_in.consents.time.time", lambda: now + 601)
    late = await program.answer(page, await pair())
    assert (late.status_code, late.headers.get("location")) == (400, None)


async def test_cookies_go_to_this_server_alone_over_tls_alone_and_to_no_script(store: Store, pair: Pair) -> None:
    browser = program_of(store, Web()).browser
    asked = await browser.get(f"{BASE}/oauth/page?to=/m/x")
    form = {"request": hidden(asked), "code": await pair(), "decision": "allow"}
    let_in = await browser.post(f"{BASE}/oauth/authorize", data=form)
    for answer, name, same_site in ((asked, "sign-in-", "strict"), (let_in, "page=", "lax")):
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"__Host-pgengram-{name}")
        assert {"httponly", "path=/", "secure", f"samesite={same_site}"} <= {*cookie.lower().split("; ")}
        assert "domain" not in cookie.lower()


async def test_a_refresh_token_in_no_alphabet_of_tokens_is_refused(web: HttpServer, pair: Pair) -> None:
    program = Program(web.base)
    tokens = await program.signed_in(pair)
    grant = tokens["refresh_token"].rpartition("_")[0]
    for text in (f"{grant}_{'ü' * 59}", f"{grant}_", f"{grant}_😀"):
        answer = await program.refresh(text)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert (await program.call(tokens["access_token"])).status_code == 200


async def test_a_program_refreshes_and_disconnects_while_its_document_cannot_be_had(store: Store, pair: Pair) -> None:
    there = Web()
    tokens = await program_of(store, there).signed_in(pair)
    there.is_away = True
    later = program_of(store, there)

    refreshed = await later.refresh(tokens["refresh_token"])

    assert refreshed.status_code == 200, refreshed.text
    form = {"token": refreshed.json()["refresh_token"], "client_id": APP.client_id}
    assert (await later.browser.post(f"{BASE}/oauth/revoke", data=form)).status_code == 200
    assert (await later.refresh(refreshed.json()["refresh_token"])).json()["error"] == "invalid_grant"


async def test_strangers_who_ask_for_tokens_leave_connections_to_those_who_have_some(
    store: Store, signing_database: Database
) -> None:
    program = program_of(store, Web())
    program.client_id = CLAUDE_CODE
    assert (await program.refresh("pgr_0123456789abcdef_x")).status_code == 400
    with psycopg.connect(signing_database.url) as slow:
        slow.execute("LOCK TABLE oauth_grants IN ACCESS EXCLUSIVE MODE")
        asking = [asyncio.create_task(program.refresh(f"pgr_{number:016x}_x")) for number in range(3 * POOL_MAX)]
        await asyncio.sleep(0.2)
        async with asyncio.timeout(2):
            assert await store.one("SELECT 1 AS one") == {"one": 1}
        assert not any(one.done() for one in asking)
    assert {one.status_code for one in await asyncio.gather(*asking)} == {400}


async def test_asking_for_tokens_makes_the_server_fetch_nothing(store: Store) -> None:
    there = Web()
    program = program_of(store, there)
    stranger = f"https://app.example.org/{urlencode({'a': 1})}"
    for form in (
        {"grant_type": "refresh_token", "refresh_token": "pgr_x_y"},
        {"grant_type": "authorization_code", "code": "x"},
    ):
        answer = await program.token(**form, client_id=stranger)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    ended = await program.browser.post(f"{BASE}/oauth/revoke", data={"token": "pgr_x_y", "client_id": stranger})
    assert (ended.status_code, ended.json()["error"]) == (401, "invalid_client")
    assert there.asked == 0
