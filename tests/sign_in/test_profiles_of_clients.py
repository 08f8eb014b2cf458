"""Each client that is in use signs in, calls, refreshes and leaves the way it does, in both eras of the protocol."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from http_server import ACCEPT, HttpServer, modern
from signing_in import PROFILES, Pair, Profile, Program

from helpers import Database, diagonal

OLD, NEW = "2025-11-25", "2026-07-28"
EARLIER = ("2025-06-18", "2025-03-26", "2024-11-05")
BOTH = {"memory:read", "memory:write"}


def message_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the message of an answer, in whichever form it came."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"].startswith("application/json"):
        return dict(answer.json())
    [data] = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    return dict(json.loads(data))


class Speaker:
    """A client that speaks one revision of the protocol, with or without a token."""

    def __init__(self, program: Program, version: str) -> None:
        self._program, self._version = program, version
        self._is_open = False
        self.token = ""

    async def send(self, method: str, **params: Any) -> httpx.Response:
        """Send a request; before 2026-07-28 what is negotiated comes first, once."""
        if self._version == NEW:
            headers, body = modern(method, **params)
            return await self._post(body, headers)
        if not self._is_open:
            about = {
                "protocolVersion": self._version,
                "capabilities": {},
                "clientInfo": {"name": "probe", "version": "1"},
            }
            answer = await self._post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about}, {})
            if answer.status_code != 200:
                return answer
            assert message_of(answer)["result"]["protocolVersion"] == self._version
            assert "mcp-session-id" not in answer.headers
            ready = await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, self._header())
            assert ready.status_code == 202
            self._is_open = True
        return await self._post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, self._header())

    async def call(self, name: str, **arguments: Any) -> httpx.Response:
        """Call a tool."""
        return await self.send("tools/call", name=name, arguments=arguments)

    def _header(self) -> dict[str, str]:
        return {"mcp-protocol-version": self._version} if self._version >= "2025-06-18" else {}

    async def _post(self, body: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
        sent = {"content-type": "application/json", "accept": ACCEPT, **headers}
        if self.token:
            sent["authorization"] = f"Bearer {self.token}"
        return await self._program.browser.post(self._program.resource, json=body, headers=sent)


async def discovered(program: Program, profile: Profile, speaker: Speaker) -> str:
    """Find out where to sign in, as the client does, and return the scopes that the challenge names."""
    if profile.begins == "nothing":
        refused = await program.browser.post(program.resource)
        assert refused.status_code == 401
    refused = await speaker.send("server/discover" if speaker._version == NEW else "tools/list")
    assert refused.status_code == 401
    told = dict(re.findall(r'(\w+)="([^"]*)"', refused.headers["www-authenticate"]))
    assert "error" not in told, "no token came"
    resource = (await program.browser.get(told["resource_metadata"])).json()
    assert resource["resource"] == program.resource, "compared with what was typed"
    assert "offline_access" not in resource["scopes_supported"]
    [issuer] = resource["authorization_servers"]
    for place in profile.looks:
        metadata = (await program.browser.get(f"{issuer}/.well-known/{place}")).json()
        assert metadata["issuer"] == issuer
        assert "S256" in metadata["code_challenge_methods_supported"]
        assert metadata["token_endpoint_auth_methods_supported"] == ["none"]
        assert all(metadata.get(need) for need in profile.needs)
    assert "offline_access" in metadata["scopes_supported"], "what makes clients ask for a refresh token"
    return told["scope"]


@pytest.mark.parametrize(("profile", "version"), diagonal(PROFILES, [OLD, NEW]))
async def test_each_client_signs_in_calls_refreshes_and_leaves(
    web: HttpServer, pair: Pair, signing_database: Database, profile: Profile, version: str
) -> None:
    program = Program(web.base, profile)
    speaker = Speaker(program, version)
    challenged = await discovered(program, profile, speaker)
    assert {*challenged.split()} == BOTH
    if profile.registers:
        first = await program.register()
        assert await program.register() != "", "some register twice"
        kept = (
            await program.browser.post(f"{web.base}/oauth/register", json={"redirect_uris": profile.registers})
        ).json()
        assert kept["redirect_uris"] == [one for one in profile.registers if not one.startswith("cursor:")]
        assert kept["token_endpoint_auth_method"] == "none"
        program.client_id = first

    tokens = await program.signed_in(pair)  # which compares iss and state
    assert {*tokens["scope"].split()} == BOTH
    speaker.token = tokens["access_token"]
    tools = {one["name"] for one in message_of(await speaker.send("tools/list"))["result"]["tools"]}
    assert {"search", "fetch"} <= tools if profile.name in ("ChatGPT", "Codex") else not {"search", "fetch"} & tools
    made = message_of(await speaker.call("create_memory", content=f"{profile.name} spoke {version}."))["result"]
    assert made["isError"] is False
    found = message_of(await speaker.call("search_memories", query=f"{profile.name} spoke {version}"))["result"]
    assert f"{profile.name} spoke {version}." in found["content"][0]["text"]
    assert found.get("resultType") == ("complete" if version == NEW else None)
    for method in ("GET", "DELETE"):  # a stream and a session, which there are none of
        sent = {"authorization": f"Bearer {speaker.token}", "accept": "text/event-stream"}
        assert (await program.browser.request(method, program.resource, headers=sent)).status_code == 405

    signing_database.as_login("UPDATE access_tokens SET expires_at = now() WHERE grant_id IS NOT NULL")
    late = await speaker.call("search_memories", query="tea")
    assert late.status_code == 401
    assert 'error="invalid_token"' in late.headers["www-authenticate"]
    again = await program.refresh(tokens["refresh_token"])
    assert again.status_code == 200, again.text
    speaker.token = again.json()["access_token"]
    assert message_of(await speaker.call("search_memories", query="tea"))["result"]["isError"] is False

    if profile.ends:
        form = {
            "token": again.json()["refresh_token"],
            "client_id": program.client_id,
            "token_type_hint": "refresh_token",
        }
        assert (await program.browser.post(f"{web.base}/oauth/revoke", data=form)).status_code == 200
        assert (await speaker.call("search_memories", query="tea")).status_code == 401


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_client_that_may_only_read_asks_for_all_scopes_when_it_is_told_that_one_is_missing(
    web: HttpServer, pair: Pair, version: str
) -> None:
    program = Program(web.base, PROFILES[4])
    speaker = Speaker(program, version)
    speaker.token = (await program.signed_in(pair, scope="memory:read"))["access_token"]
    refused = await speaker.call("create_memory", content="Mara likes tea.")
    told = dict(re.findall(r'(\w+)="([^"]*)"', refused.headers["www-authenticate"]))
    assert (refused.status_code, told["error"], {*told["scope"].split()}) == (403, "insufficient_scope", BOTH)
    assert (await program.browser.get(told["resource_metadata"])).json()["resource"] == web.url
    speaker.token = (await program.signed_in(pair, scope=told["scope"]))["access_token"]
    assert message_of(await speaker.call("create_memory", content="Mara likes tea."))["result"]["isError"] is False


@pytest.mark.parametrize("version", EARLIER)
async def test_clients_of_earlier_revisions_are_answered_in_theirs(web: HttpServer, pair: Pair, version: str) -> None:
    program = Program(web.base, PROFILES[6])
    speaker = Speaker(program, version)
    assert (await speaker.send("tools/list")).status_code == 401
    speaker.token = (await program.signed_in(pair))["access_token"]
    assert message_of(await speaker.call("search_memories", query="tea"))["result"]["isError"] is False
