"""Programs sign in as the clients in use do, and nothing lets in a program that its person has not allowed."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from http_server import HttpServer, outcome
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from signing_in import CLAUDE_CODE, PROFILES, Pair, Phone, Program, query

from helpers import remember


class Kept:
    """What a client keeps between two runs."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("document", [CLAUDE_CODE, None], ids=["by its document", "by registering"])
async def test_the_sdks_client_signs_in_remembers_and_refreshes(
    web: HttpServer, pair: Pair, document: str | None, mode: str
) -> None:
    program, kept, back = Program(web.base), Kept(), []

    async def opens(address: str) -> None:
        page = await program.browser.get(address)
        back.append(query(await program.answer(page, await pair())))

    async def called_back() -> AuthorizationCodeResult:
        told = back[-1]
        return AuthorizationCodeResult(code=told["code"], state=told["state"], iss=told["iss"])

    wish = OAuthClientMetadata.model_validate(
        {
            "client_name": "Probe",
            "redirect_uris": ["http://127.0.0.1:61234/callback"],
            "token_endpoint_auth_method": "none",
        }
    )

    async def remembers(text: str) -> None:
        auth = OAuthClientProvider(web.url, wish, kept, opens, called_back, client_metadata_url=document)
        async with (
            httpx2.AsyncClient(auth=auth, timeout=60) as http,
            Client(streamable_http_client(web.url, http_client=http), mode=mode) as client,
        ):
            await remember(client, text)

    await remembers("Jonas is allergic to peanuts.")
    first = kept.tokens
    assert first is not None
    assert first.scope == "memory:read memory:write"
    assert kept.client is not None
    assert (kept.client.client_id == document) is (document is not None)

    kept.tokens = first.model_copy(update={"access_token": "pga_000000000000_" + "x" * 43, "expires_in": -1})
    await remembers("Mara moved billing to Stripe.")
    assert kept.tokens.access_token != first.access_token


async def test_metadata_is_the_same_at_every_address_that_clients_try(web: HttpServer) -> None:
    program = Program(web.base)
    told = [
        await program.browser.get(f"{web.base}/.well-known/{name}{path}")
        for name in ("oauth-authorization-server", "openid-configuration")
        for path in ("", "/mcp")
    ]
    assert {one.text for one in told} == {told[0].text}
    metadata = told[0].json()
    assert metadata["issuer"] == web.base
    assert metadata["token_endpoint_auth_methods_supported"] == ["none"]
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["client_id_metadata_document_supported"] is True
    assert metadata["authorization_response_iss_parameter_supported"] is True
    assert "offline_access" in metadata["scopes_supported"]
    assert told[0].headers["access-control-allow-origin"] == "*"
    before = await program.browser.options(f"{web.base}/.well-known/oauth-authorization-server")
    assert before.status_code == 204


async def test_a_person_sees_who_asks_and_where_the_answer_goes_and_may_refuse_or_allow_less(
    web: HttpServer, pair: Pair
) -> None:
    program = Program(web.base, PROFILES[0])
    page = await program.page()
    for told in ("“Claude”", "claude.ai", urlsplit(web.base).netloc, "read and write"):
        assert told in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]

    refused = query(await program.answer(page, "", "deny"))
    assert refused["error"] == "access_denied"
    assert refused["iss"] == web.base
    over = await program.answer(page, await pair())
    assert over.status_code == 400
    assert "location" not in over.headers

    back = await program.answer(await program.page(), await pair(), may_write="")
    tokens = (await program.exchange(query(back)["code"])).json()
    assert tokens["scope"] == "memory:read"
    writes = await program.call(tokens["access_token"], "create_memory", content="Mara likes tea.")
    assert writes.status_code == 403
    assert 'scope="memory:read memory:write"' in writes.headers["www-authenticate"]


HOSTILE_ADDRESSES = [
    "https://evil.example/api/mcp/auth_callback",
    "https://claude.ai/api/mcp/auth_callback/more",
    "https://claude.ai@evil.example/api/mcp/auth_callback",
    "https://claude.ai/api/mcp/auth_callback#x",
    "https://claude.ai/api/mcp%2Fauth_callback",
    "https://claude.ai:444/api/mcp/auth_callback",
    "http://claude.ai/api/mcp/auth_callback",
    "javascript:alert(1)",
    "data:text/html,x",
    "http://127.0.0.2/callback",
    "",
]


@pytest.mark.parametrize("address", HOSTILE_ADDRESSES)
async def test_nobody_is_sent_to_an_address_that_is_not_the_clients(web: HttpServer, address: str) -> None:
    answer = await Program(web.base, PROFILES[0]).page(redirect_uri=address)
    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert "<h1>" in answer.text
    assert address == "" or address not in answer.text


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"resource": None}, "invalid_target"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
    ],
)
async def test_a_wrong_request_of_a_known_client_goes_back_to_it_with_the_error(
    web: HttpServer, other: dict[str, Any], error: str
) -> None:
    answer = await Program(web.base, PROFILES[0]).page(**other)
    told = query(answer)
    assert answer.status_code == 302
    assert (told["error"], told["state"], told["iss"]) == (error, "s&t=1", web.base)
    assert not answer.cookies


async def test_an_authorization_code_is_good_once_for_the_client_that_asked(
    web: HttpServer, pair: Pair, signing_database: Any
) -> None:
    program = Program(web.base)
    code = await program.code(pair)
    wrongs: list[dict[str, Any]] = [
        {"code_verifier": "x" * 43},
        {"code_verifier": None},
        {"client_id": PROFILES[0].client_id},
        {"redirect_uri": "http://127.0.0.1:1/callback"},
        {"code": code + "x"},
    ]
    for wrong in wrongs:
        answer = await program.exchange(**{"code": code, **wrong})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant"), wrong
    other = await program.exchange(code, resource="https://other.example/mcp")
    assert (other.status_code, other.json()["error"]) == (400, "invalid_target")
    stranger = await program.exchange(code, client_id="dcr_forged")
    assert (stranger.status_code, stranger.json()["error"]) == (401, "invalid_client")

    tokens = (await program.exchange(code)).json()
    assert (await program.call(tokens["access_token"])).status_code == 200
    assert (await program.exchange(code)).json()["error"] == "invalid_grant"
    assert (await program.call(tokens["access_token"])).status_code == 401
    assert (await program.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"

    late = await program.code(pair)
    signing_database.as_login("UPDATE oauth_requests SET code_expires_at = now() - interval '1 second'")
    assert (await program.exchange(late)).json()["error"] == "invalid_grant"


async def test_twenty_refreshes_at_once_get_the_same_tokens_and_a_late_one_ends_the_connection(
    web: HttpServer, pair: Pair, signing_database: Any
) -> None:
    program = Program(web.base)
    first = await program.signed_in(pair)
    answers = await asyncio.gather(*(program.refresh(first["refresh_token"]) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["refresh_token"] for answer in answers}) == 1
    assert len({answer.json()["access_token"] for answer in answers}) == 1
    second = answers[0].json()

    signing_database.as_login(
        "UPDATE oauth_grants SET rotated_at = now() - interval '119 seconds' WHERE revoked_at IS NULL"
    )
    assert (await program.refresh(first["refresh_token"])).json()["refresh_token"] == second["refresh_token"]
    signing_database.as_login(
        "UPDATE oauth_grants SET rotated_at = now() - interval '121 seconds' WHERE revoked_at IS NULL"
    )
    assert (await program.refresh(first["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await program.refresh(second["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await program.call(second["access_token"])).status_code == 401


async def test_a_refresh_token_of_any_earlier_generation_ends_the_connection(web: HttpServer, pair: Pair) -> None:
    program = Program(web.base)
    tokens = [await program.signed_in(pair)]
    for _ in range(3):
        tokens.append((await program.refresh(tokens[-1]["refresh_token"])).json())
    assert (await program.refresh(tokens[0]["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await program.call(tokens[-1]["access_token"])).status_code == 401

    other = await program.signed_in(pair)
    guessed = other["refresh_token"][:-8] + "00000000"
    assert (await program.refresh(guessed)).json()["error"] == "invalid_grant"
    assert (await program.call(other["access_token"])).status_code == 200


async def test_a_program_may_not_refresh_to_more_another_address_or_as_another(web: HttpServer, pair: Pair) -> None:
    program = Program(web.base)
    tokens = await program.signed_in(pair, scope="memory:read")
    assert tokens["scope"] == "memory:read"
    more = await program.refresh(tokens["refresh_token"], scope="memory:read memory:write")
    assert more.json()["error"] == "invalid_scope"
    elsewhere = await program.refresh(tokens["refresh_token"], resource="https://other.example/mcp")
    assert elsewhere.json()["error"] == "invalid_target"
    as_other = await program.refresh(tokens["refresh_token"], client_id=PROFILES[0].client_id)
    assert as_other.json()["error"] == "invalid_grant"
    assert (await program.refresh(tokens["refresh_token"], scope=" offline_access")).status_code == 200


async def test_disconnecting_with_either_token_ends_the_connection_with_the_next_request(
    web: HttpServer, pair: Pair
) -> None:
    program = Program(web.base)
    for which in ("access_token", "refresh_token"):
        tokens = await program.signed_in(pair)
        form = {"token": tokens[which], "client_id": PROFILES[0].client_id}
        await program.browser.post(f"{web.base}/oauth/revoke", data=form)
        assert (await program.call(tokens["access_token"])).status_code == 200, "another client ended it"
        gone = await program.browser.post(f"{web.base}/oauth/revoke", data=form | {"client_id": program.client_id})
        assert (gone.status_code, gone.content) == (200, b"")
        assert (await program.call(tokens["access_token"])).status_code == 401
        assert (await program.refresh(tokens["refresh_token"])).status_code == 400
    unknown = await program.browser.post(
        f"{web.base}/oauth/revoke", data={"token": "x", "client_id": program.client_id}
    )
    assert unknown.status_code == 200


async def test_five_wrong_codes_end_a_request_and_fifteen_the_pairing_code(
    web: HttpServer, pair: Pair, signing_database: Any
) -> None:
    program, code = Program(web.base), await pair()
    for number in range(3):
        page = await program.page()
        wrong = [await program.answer(page, "ZZZZ-ZZZZ") for _ in range(5)]
        assert [one.status_code for one in wrong] == [200, 200, 200, 200, 400]
        assert f"{4} tries left" in wrong[0].text
        assert (await program.answer(page, code)).status_code == 400, number
    last = await program.answer(await program.page(), code)
    assert last.status_code == 200
    assert "not right" in last.text


async def test_a_pairing_code_is_good_once_and_for_ten_minutes(
    web: HttpServer, pair: Pair, signing_database: Any
) -> None:
    program = Program(web.base)
    code = await pair()
    typed = f" {code.lower().replace('-', ' ')} "
    assert (await program.answer(await program.page(), typed)).status_code == 303
    assert "not right" in (await program.answer(await program.page(), code)).text, "used"
    older, newer = await pair(), await pair()
    assert "not right" in (await program.answer(await program.page(), older)).text, "one waits at a time"
    signing_database.as_login("UPDATE pairing_codes SET expires_at = now()")
    assert "not right" in (await program.answer(await program.page(), newer)).text, "over"


async def test_what_was_given_out_for_another_address_is_worth_nothing_here(
    web: HttpServer, pair: Pair, signing_database: Any
) -> None:
    program, phone = Program(web.base), Phone(web.base)
    tokens = await program.signed_in(pair)
    await phone.sign_in(await pair())
    assert (await program.call(tokens["access_token"])).status_code == 200
    assert (await phone.browser.get(f"{web.base}/")).status_code == 200
    for other in ("https://other.example/mcp", f"{web.url}/", web.url.upper(), web.base):
        signing_database.as_login(f"UPDATE oauth_grants SET resource = '{other}'")
        refused = await program.call(tokens["access_token"])
        assert refused.status_code == 401, other
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]
        assert (await phone.browser.get(f"{web.base}/")).status_code == 303, other
        assert (await program.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant", other


async def test_the_page_can_be_answered_only_by_the_browser_and_page_that_opened_it(
    web: HttpServer, pair: Pair
) -> None:
    program, other = Program(web.base), Program(web.base)
    page, code = await program.page(), await pair()
    assert (await other.answer(page, code)).status_code == 400  # without the cookie
    await other.page()
    assert (await other.answer(page, code)).status_code == 400  # with another one's
    form = {"request": page.text.split('name="request" value="')[1].split('"')[0], "code": code, "decision": "allow"}
    for headers in ({"origin": "https://evil.example"}, {"origin": web.base, "sec-fetch-site": "cross-site"}):
        crossed = await program.browser.post(f"{web.base}/oauth/authorize", data=form, headers=headers)
        assert crossed.status_code == 400
        assert "location" not in crossed.headers
    assert (await program.answer(page, code)).status_code == 303  # nothing of that used it up


async def test_a_person_lists_ends_and_looks_back_at_connections_without_a_secret_shown(
    web: HttpServer, pair: Pair
) -> None:
    program = Program(web.base, PROFILES[0])
    tokens = await program.signed_in(pair)
    [mine] = [
        one
        for one in outcome("connection", "list", **web.settings)
        if one["client_name"] == "Claude" and one["is_good"]
    ][-1:]
    assert (mine["client_host"], mine["redirect_host"]) == ("claude.ai", "claude.ai")
    assert outcome("connection", "revoke", mine["id"], **web.settings) == {"ended": 1}
    assert (await program.call(tokens["access_token"])).status_code == 401

    log = outcome("connection", "log", **web.settings)
    assert {"consent_shown", "consent_given", "token_issued", "revoked"} <= {one["event"] for one in log}
    told = str(log) + "".join(web.log)
    for secret in (tokens["access_token"], tokens["refresh_token"], "s&t=1"):
        assert secret.split("_", 2)[-1] not in told


async def test_a_program_that_registers_is_bound_to_addresses_that_a_browser_may_be_sent_to(web: HttpServer) -> None:
    program = Program(web.base)
    wishes: list[Any] = [
        {},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": "https://a.example"},
        [],
        "x",
    ]
    for wish in wishes:
        refused = await program.browser.post(f"{web.base}/oauth/register", json=wish)
        assert refused.status_code == 400
        assert refused.json()["error"] == "invalid_redirect_uri"
    id_ = await Program(web.base, PROFILES[5]).register()
    for place in (10, 60, len(id_) - 2):
        forged = id_[:place] + ("A" if id_[place] != "A" else "B") + id_[place + 1 :]
        answer = await program.page(client_id=forged, redirect_uri=PROFILES[5].redirect_uri)
        assert answer.status_code == 400
        assert "location" not in answer.headers
