"""What kept programs out of other servers, a test for each: the other rows are in the tests of this folder that say so."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from http_server import HttpServer
from signing_in import PROFILES, Pair, Profile, Program, query

from helpers import diagonal

RESOURCE = "/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(("asked", "agent"), diagonal(
    [
        ("POST", {}), ("POST", {"content": b""}), ("POST", {"json": {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}}),
        ("POST", {"content": b"<html>", "headers": {"content-type": "text/html"}}), ("GET", {}), ("GET", {"headers": {"accept": "text/event-stream"}}),
        ("POST", {"headers": {"authorization": "Bearer pga_000000000000_x"}}), ("POST", {"headers": {"authorization": "Basic eDp4"}}),
    ],
    ["Claude-User", "python-httpx/0.28.1", "openai-mcp/1.0.0", ""],
))  # fmt: skip
async def test_every_first_request_is_challenged_with_an_absolute_address_and_both_scopes(
    web: HttpServer, asked: tuple[str, dict[str, dict[str, str]]], agent: str
) -> None:
    method, how = asked
    headers = {**how.get("headers", {}), "user-agent": agent}
    answer = await Program(web.base).browser.request(method, web.url, **{**how, "headers": headers})  # type: ignore[arg-type]
    challenge = answer.headers["www-authenticate"]
    assert answer.status_code == 401
    assert f'resource_metadata="{web.base}{RESOURCE}/mcp"' in challenge
    assert 'scope="memory:read memory:write"' in challenge


async def test_metadata_offers_no_secret_and_both_ways_to_be_known(web: HttpServer) -> None:
    metadata = (await Program(web.base).browser.get(f"{web.base}/.well-known/oauth-authorization-server")).json()
    assert metadata["token_endpoint_auth_methods_supported"] == ["none"]
    assert metadata["revocation_endpoint_auth_methods_supported"] == ["none"]
    assert metadata["client_id_metadata_document_supported"] is True
    assert metadata["registration_endpoint"] == f"{web.base}/oauth/register"
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert {"offline_access", "memory:read", "memory:write"} == {*metadata["scopes_supported"]}
    assert {"authorization_code", "refresh_token"} == {*metadata["grant_types_supported"]}


async def test_a_client_with_a_document_may_register_all_the_same_and_sign_in_so(web: HttpServer, pair: Pair) -> None:
    claude = PROFILES[0]
    registering = Profile("Claude", "", claude.redirect_uri, claude.scope, (claude.redirect_uri,))
    tokens = await Program(web.base, registering).signed_in(pair)
    assert (await Program(web.base).call(tokens["access_token"])).status_code == 200


async def test_the_resource_is_the_address_that_is_typed_and_no_other_path_is_taken_for_it(
    web: HttpServer, pair: Pair
) -> None:
    program = Program(web.base)
    tokens = await program.signed_in(pair)
    for end in ("", "/mcp"):
        metadata = (await program.browser.get(f"{web.base}{RESOURCE}{end}")).json()
        assert (metadata["resource"], metadata["authorization_servers"]) == (web.url, [web.base])
    for path in ("/mcp/", "/mcp/x", "/MCP", "//mcp", "/"):
        answer = await program.browser.post(
            web.base + path, json={}, headers={"authorization": f"Bearer {tokens['access_token']}"}
        )
        assert (answer.status_code, answer.headers.get("location")) == (404, None), path
    assert (await program.page(resource=f"{web.url}/")).headers["location"].count("invalid_target") == 1


async def test_no_address_that_programs_ask_leads_elsewhere(web: HttpServer) -> None:
    program = Program(web.base)
    for path in ("/mcp", f"{RESOURCE}/mcp", "/.well-known/openid-configuration", "/oauth/token", "/oauth/register"):
        for method in ("GET", "POST", "HEAD", "OPTIONS"):
            answer = await program.browser.request(method, web.base + path)
            assert not answer.is_redirect, (method, path)


async def test_every_address_names_one_issuer_without_a_slash_and_each_answer_to_the_browser_too(
    web: HttpServer, pair: Pair
) -> None:
    program = Program(web.base)
    resource = (await program.browser.get(f"{web.base}{RESOURCE}")).json()
    [issuer] = resource["authorization_servers"]
    parts = urlsplit(issuer)
    assert (parts.path, issuer) == ("", f"{parts.scheme}://{parts.netloc}")
    for place in ("oauth-authorization-server", "openid-configuration"):
        assert (await program.browser.get(f"{issuer}/.well-known/{place}")).json()["issuer"] == issuer
    allowed = await program.answer(await program.page(), await pair())
    denied = await program.answer(await program.page(), "", "deny")
    wrong = await program.page(response_type="token")
    assert [query(one)["iss"] for one in (allowed, denied, wrong)] == [issuer] * 3


@pytest.mark.parametrize("scope", [None, "", " offline_access", "openid profile", "memory:read  memory:write", "mcp"])
async def test_whatever_scope_is_asked_for_a_connection_lasts_and_is_not_refused(
    web: HttpServer, pair: Pair, scope: str | None
) -> None:
    registered = Profile(
        "Probe", "", "http://localhost:7777/oauth/callback", scope, ("http://localhost:7777/oauth/callback",)
    )
    tokens = await Program(web.base, registered).signed_in(pair)
    assert tokens["scope"] == "memory:read memory:write"
    assert tokens["expires_in"] == 86_400, "hosts that don't refresh in time ask their person to sign in again"
    assert tokens["refresh_token"].startswith("pgr_")


@pytest.mark.parametrize("port", [1, 33418, 49152, 65535])
@pytest.mark.parametrize("profile", [PROFILES[1], PROFILES[3], PROFILES[4], PROFILES[6]], ids=lambda one: one.name)
async def test_a_program_on_the_persons_device_listens_on_any_port(
    web: HttpServer, profile: Profile, port: int
) -> None:
    program = Program(web.base, profile)
    await program.register()
    parts = urlsplit(profile.redirect_uri)
    page = await program.page(redirect_uri=f"http://{parts.hostname}:{port}{parts.path}")
    assert page.status_code == 200, page.text


async def test_a_host_name_that_a_tunnel_changed_is_named_with_what_to_do(web: HttpServer) -> None:
    answer = await Program(web.base).browser.post(web.url, headers={"host": "tunnel-7.example.net"})
    assert answer.status_code == 421
    for said in ("tunnel-7.example.net", "--url", "--allowed-host"):
        assert said in answer.text
    bent = await Program(web.base).browser.get(f"{web.base}/oauth/authorize", headers={"host": "a<b>.example"})
    assert bent.status_code == 421
    assert "<b>" not in bent.text
