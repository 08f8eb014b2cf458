"""ChatGPT finds and cites memories through the two tools that it asks for, and no other client is shown them."""

from __future__ import annotations

import json
from typing import Any

from http_server import HttpServer, client_of, modern
from signing_in import PROFILES, Pair, Phone, Program

from helpers import Database, remember

CHATGPT, CLAUDE = PROFILES[2], PROFILES[0]


async def listed(program: Program, token: str) -> dict[str, Any]:
    """Return the tools that a program is shown, by name."""
    headers, body = modern("tools/list")
    answer = await program.browser.post(
        program.resource, json=body, headers=headers | {"authorization": f"Bearer {token}"}
    )
    return {tool["name"]: tool for tool in answer.json()["result"]["tools"]}


def told(answer: Any) -> dict[str, Any]:
    """Return what a tool answered, which its only text says, too."""
    result = answer.json()["result"]
    [item] = result["content"]
    assert not result["isError"], item
    assert json.loads(item["text"]) == result["structuredContent"]
    return dict(result["structuredContent"])


async def test_chatgpt_searches_fetches_and_cites_in_the_shapes_it_asks_for(
    web: HttpServer, pair: Pair, signing_database: Database
) -> None:
    program = Program(web.base, CHATGPT)
    token = (await program.signed_in(pair))["access_token"]
    async with client_of(web, token) as client:
        long = "Mara drinks oolong tea\n" + "and writes about it at length " * 6
        id_ = await remember(client, long, tags=["tea", "oolong"], project="ark")
        from_web = await remember(client, "The tea house opens at nine.", source="https://tea.example.org/hours")

    tools = await listed(program, token)
    for name, argument in (("search", "query"), ("fetch", "id")):
        schema = tools[name]["inputSchema"]
        assert schema["required"] == [argument]
        assert [*schema["properties"]] == [argument]
        assert schema["properties"][argument]["type"] == "string"
        assert tools[name]["annotations"]["readOnlyHint"] is True
        assert tools[name]["outputSchema"]["type"] == "object"
    reading, writing = ["memory:read"], ["memory:read", "memory:write"]
    for name, tool in tools.items():
        needed = reading if tool["annotations"]["readOnlyHint"] else writing
        assert tool["_meta"]["securitySchemes"] == [{"type": "oauth2", "scopes": needed}], name
    assert "ui" in tools["create_memory"]["_meta"]

    found = told(await program.call(token, "search", query="oolong tea"))
    assert [*found] == ["results"]
    assert {frozenset(one) for one in found["results"]} == {frozenset({"id", "title", "url"})}
    by_id = {one["id"]: one for one in found["results"]}
    mine = next(one for one in by_id.values() if one["title"].startswith("Mara"))
    assert mine["id"].startswith(str(id_)) or mine["id"].endswith(str(id_))
    assert "\n" not in mine["title"]
    assert len(mine["title"]) <= 81
    assert mine["url"] == f"{web.base}/m/{mine['id']}"

    whole = told(await program.call(token, "fetch", id=mine["id"]))
    assert whole["text"].startswith(long.strip())
    assert (whole["id"], whole["title"], whole["url"]) == (mine["id"], mine["title"], mine["url"])
    assert whole["metadata"]["tags"] == "oolong, tea" or whole["metadata"]["tags"] == "tea, oolong"
    assert all(isinstance(value, str) for value in whole["metadata"].values())
    assert told(await program.call(token, "fetch", id=str(from_web)))["url"] == "https://tea.example.org/hours"

    for unknown in ("0190c0de-0000-7000-8000-000000000000", "x", "../m"):
        answer = (await program.call(token, "fetch", id=unknown)).json()["result"]
        assert answer["isError"] is True
        assert "structuredContent" not in answer

    nobody = "0190c0de-0000-7000-8000-000000000000"
    stranger = Program(web.base).browser
    led, elsewhere = [await stranger.get(f"{web.base}/m/{one}") for one in (mine["id"], nobody)]
    assert led.headers["location"].replace(mine["id"], nobody) == elsewhere.headers["location"]
    phone = Phone(web.base)
    await phone.sign_in(await pair(), f"/m/{mine['id']}")
    assert "oolong" in await phone.shows(f"/m/{mine['id']}")

    other = Program(web.base, CHATGPT)

    async def pairs_elsewhere() -> str:
        return await pair("elsewhere")

    theirs = (await other.signed_in(pairs_elsewhere))["access_token"]
    assert (await other.call(theirs, "fetch", id=mine["id"])).json()["result"]["isError"] is True
    assert told(await other.call(theirs, "search", query="oolong tea")) == {"results": []}


async def test_other_programs_are_not_shown_search_and_fetch(web: HttpServer, pair: Pair) -> None:
    program = Program(web.base, CLAUDE)
    token = (await program.signed_in(pair))["access_token"]
    assert not {"search", "fetch"} & (await listed(program, token)).keys()
    assert "search_memories" in await listed(program, token)
    assert not any("securitySchemes" in tool.get("_meta", {}) for tool in (await listed(program, token)).values())
