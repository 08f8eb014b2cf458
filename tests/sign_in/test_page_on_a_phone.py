"""The owner's phone shows the memories after a sign-in, and nobody else's browser does."""

from __future__ import annotations

import httpx
import pytest
from http_server import HttpServer, outcome
from signing_in import IPHONE, PAGE_HEADERS, PROFILES, Pair, Phone, Program, hidden
from ui_process import marks, run_ui

from helpers import Database


async def stored(web: HttpServer, pair: Pair, content: str, namespace: str = "default") -> str:
    """Store a memory through a program, and return its id."""
    program = Program(web.base)
    await program.register()
    page = await program.page()
    back = await program.answer(page, await pair(namespace))
    code = back.headers["location"].split("code=")[1].split("&")[0]
    token = (await program.exchange(code)).json()["access_token"]
    made = await program.call(token, "create_memory", content=content)
    return str(made.json()["result"]["structuredContent"]["memory_id"])


async def test_the_owners_phone_signs_in_shows_changes_and_is_signed_out_by_its_owner(
    web: HttpServer, pair: Pair
) -> None:
    id_ = await stored(web, pair, "Jonas keeps bees on the roof.")
    phone = Phone(web.base)
    asked = await phone.browser.get(f"{web.base}/m/{id_}")
    assert asked.status_code == 303
    assert "Jonas" not in (await phone.open(f"/m/{id_}")).text

    back = await phone.sign_in(await pair(), f"/m/{id_}")
    assert (back.status_code, back.headers["location"]) == (303, f"/m/{id_}")
    assert "Jonas keeps bees on the roof." in await phone.shows(f"/m/{id_}")
    assert "Jonas keeps bees" in await phone.shows("/?q=bees")
    for path in ("/review", "/timeline", "/more", "/connections", "/static/page.css"):
        assert (await phone.open(path)).status_code == 200, path
    made = await phone.send("/new", content="Mara sold the old boat.")
    assert made.status_code == 303
    assert "Mara sold the old boat." in await phone.shows("/?q=boat")
    change = await phone.send(f"/memory/{id_}/forget", version="1")
    assert change.status_code in (200, 303), change.text

    erased = await phone.send("/selection", action="erase", **{f"id:{id_}": "on"})
    assert (erased.status_code, "can&#39;t be restored" in erased.text) == (403, True)
    planned = await phone.send("/review/preview", step=f'{{"action": "erase", "ids": ["{id_}"]}}')
    assert planned.status_code == 422
    for path in (f"/memory/{id_}", "/trash"):
        assert 'value="erase"' not in await phone.shows(path)

    [mine] = [one for one in outcome("connection", "list", **web.settings) if one["client_name"] == "Safari on iOS"]
    assert mine["scope"] == "read-write"
    assert "Sign out here" in await phone.shows("/connections")
    assert outcome("connection", "revoke", mine["id"], **web.settings) == {"ended": 1}
    assert (await phone.browser.get(f"{web.base}/")).headers["location"] == "/oauth/page?to=%2F"
    part = await phone.browser.get(f"{web.base}/count", headers={"hx-request": "true"})
    assert part.headers["hx-refresh"] == "true"
    sent = await phone.browser.post(f"{web.base}/new", data={"content": "x"}, headers={"origin": web.base})
    assert sent.status_code == 404


async def test_a_change_needs_the_pages_mark_and_its_own_origin(web: HttpServer, pair: Pair) -> None:
    phone = Phone(web.base)
    await phone.sign_in(await pair())
    for how in ({"origin": None}, {"origin": "https://evil.example"}, {"mark": "x"}):
        refused = await phone.send("/new", content="Forged over the web.", **how)  # type: ignore[arg-type]
        assert refused.status_code == 403, how
    crossed = await phone.browser.get(f"{web.base}/?q=boat", headers={"origin": "https://evil.example"})
    assert crossed.status_code == 403
    assert "Forged over the web." not in await phone.shows("/?q=forged&mode=substring")
    page = await phone.open("/")
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"


async def test_a_phone_that_may_only_read_changes_nothing_and_sees_one_namespace(web: HttpServer, pair: Pair) -> None:
    other = await stored(web, pair, "Ines hides the key under a stone.", "garden")
    phone = Phone(web.base)
    await phone.sign_in(await pair(may_write=False))
    assert (await phone.send("/new", content="Not allowed.")).status_code == 403
    assert (await phone.open(f"/m/{other}")).status_code == 404
    assert "Ines" not in await phone.shows("/?q=key")

    gardener = Phone(web.base)
    await gardener.sign_in(await pair("garden"))
    assert "Ines hides the key" in await gardener.shows(f"/memory/{other}")


async def test_erasing_a_namespace_signs_its_phones_out(web: HttpServer, pair: Pair) -> None:
    phone = Phone(web.base)
    await phone.sign_in(await pair("diary"))
    assert (await phone.send("/new", content="Ruth sings in the choir.")).status_code == 303
    outcome("erase-namespace", "diary", "--yes", **web.settings)
    assert (await phone.browser.get(f"{web.base}/?q=choir")).status_code == 303
    assert not [one for one in outcome("connection", "list", **web.settings) if one["namespace"] == "diary"]


@pytest.mark.parametrize(
    "path",
    [
        "/settings", "/tokens", "/export", "/export/pgengram.jsonl", "/import", "/sign-ins", "/namespaces", "/enter",
        "/identity", "/conversations/erase",
    ],
)  # fmt: skip
async def test_what_takes_everything_away_or_lets_somebody_in_stays_on_the_owners_machine(
    web: HttpServer, pair: Pair, path: str
) -> None:
    phone = Phone(web.base)
    await phone.sign_in(await pair())
    assert (await phone.open(path)).status_code == 404
    assert f'href="{path}"' not in await phone.shows("/more")


async def test_a_browsers_sign_in_opens_no_tool_and_a_programs_token_no_page(
    web: HttpServer, pair: Pair, signing_database: Database
) -> None:
    phone, program = Phone(web.base), Program(web.base)
    await phone.sign_in(await pair())
    [cookie] = [value for name, value in phone.browser.cookies.items() if name == "pgengram-page"]
    assert (await program.call(cookie)).status_code == 401
    assert (await program.refresh(f"pgr_{cookie}", client_id="page")).status_code == 401
    assert (await program.refresh(f"pgr_{cookie}")).json()["error"] == "invalid_grant"
    assert (await program.page(client_id="page")).status_code == 400

    tokens = await program.signed_in(pair)
    for value in (tokens["access_token"], tokens["refresh_token"].removeprefix("pgr_"), cookie[:-1] + "!", "x", "ü"):
        sent = {"cookie": f"pgengram-page={value}".encode()}
        assert (await Phone(web.base).browser.get(f"{web.base}/", headers=sent)).status_code == 303
    signing_database.as_login("UPDATE oauth_grants SET expires_at = now() WHERE client_id = 'page'")
    assert (await phone.browser.get(f"{web.base}/")).status_code == 303


async def test_the_page_on_the_owners_machine_shows_and_ends_the_connections_of_its_namespace(
    web: HttpServer, pair: Pair, signing_database: Database
) -> None:
    program, phone = Program(web.base, PROFILES[0]), Phone(web.base)
    token = (await program.signed_in(pair))["access_token"]
    await phone.sign_in(await pair("garden"))
    known = {one["id"]: one["namespace"] for one in outcome("connection", "list", **web.settings)}
    async with run_ui(signing_database.url, embedder="none:") as link, httpx.AsyncClient(timeout=60) as browser:
        base = link.partition("/enter")[0]
        assert (await browser.get(link)).status_code == 200
        page = (await browser.get(f"{base}/connections")).text
        assert {id_ for id_ in known if id_ in page} == {id_ for id_ in known if known[id_] == "default"}
        assert "consent given" in page
        assert '<a href="/connections">show and end</a>' in (await browser.get(f"{base}/settings")).text

        mine = max(
            (one for one in outcome("connection", "list", **web.settings) if one["client_name"] == "Claude"),
            key=lambda one: one["created_at"],
        )
        [mark] = set(marks(page))
        form = {"mark": mark, "id": mine["id"]}
        others = next(id_ for id_ in known if known[id_] == "garden")
        for body, status in ((form | {"mark": "x"}, 403), (form | {"id": others}, 404), (form, 303)):
            ended = await browser.post(f"{base}/connections/end", data=body, headers={"origin": base})
            assert ended.status_code == status
        assert "The connection of Claude is ended." in (await browser.get(f"{base}/connections")).text
    assert (await program.call(token)).status_code == 401


async def test_programs_and_strangers_find_no_page(web: HttpServer) -> None:
    stranger = Program(web.base).browser
    for path in ("/timeline", "/static/page.css", "/memory/0190c0de-0000-7000-8000-000000000000"):
        assert (await stranger.get(web.base + path)).status_code == 404
    phone = Phone(web.base)
    led = await phone.browser.get(f"{web.base}//evil.example/x")
    form = hidden(await phone.browser.get(web.base + led.headers["location"]))
    denied = await phone.browser.post(
        f"{web.base}/oauth/authorize",
        data={"request": form, "decision": "deny"},
        headers={"origin": web.base, **PAGE_HEADERS},
    )
    assert (denied.status_code, denied.headers.get("location")) == (200, None)


@pytest.mark.parametrize("to", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"])
async def test_a_sign_in_leads_to_no_other_server(web: HttpServer, pair: Pair, to: str) -> None:
    phone = Phone(web.base)
    back = await phone.sign_in(await pair(), f"/oauth/page?to={to}")
    assert (back.status_code, back.headers["location"]) == (303, "/")
    assert "Safari on iOS" in (await phone.shows("/connections"))
    assert IPHONE not in await phone.shows("/connections")
