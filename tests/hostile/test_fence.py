"""Forty memories that try to get out of the fence in which they are shown, through every door that shows them as text."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp import Client
from mcp.types import TextContent, TextResourceContents
from test_recall_context import PAYLOADS

from helpers import call, connected, database_of, said
from pgengram.compat.ownsona_records import RULE

FENCE = re.compile(r"<memories-([0-9a-f]{8})>\n([^\n]+)\n(.*?)\n</memories-\1>", re.DOTALL)
MARK = "teapot"


async def by_tool(client: Client) -> str:
    return str((await call(client, "recall_context", context=MARK, max_chars=50_000))["context"])


async def by_resource(client: Client) -> str:
    [content] = (await client.read_resource("memory://context")).contents
    assert isinstance(content, TextResourceContents)
    return content.text


def by_prompt(name: str, **arguments: str) -> Callable[[Client], Awaitable[str]]:
    async def show(client: Client) -> str:
        [message] = (await client.get_prompt(name, arguments)).messages
        assert isinstance(message.content, TextContent)
        return message.content.text

    return show


async def by_another_systems_tool(client: Client) -> str:
    answer = await client.call_tool("build_context_prompt", {"user_prompt": MARK, "limit": 50, "max_chars": 50_000})
    return str(json.loads(said(answer))["prompt"])


DOORS: dict[str, Callable[[Client], Awaitable[str]]] = {
    "recall_context": by_tool,
    "memory://context": by_resource,
    "session-start": by_prompt("session-start"),
    "session-start with a topic": by_prompt("session-start", topic=MARK),
    "recall": by_prompt("recall", query=MARK),
}


@pytest.fixture(scope="module")
async def candidate(postgres: str, template: str) -> Any:
    """Clients of two servers on one database in which the payloads are, in the content and as its speaker."""
    with database_of(postgres, template) as db:
        usual = {"database_url": db.url, "embedder": "none:"}
        async with connected(**usual) as client, connected(**usual, compat="ownsona") as other:
            items = [
                {"content": f"{MARK} {n} {payload}", "speaker": payload, "importance": 1}
                for n, payload in enumerate(PAYLOADS)
            ]
            assert (await call(client, "create_memories", items=items))["created"] == len(PAYLOADS) == 40
            yield client, other


@pytest.mark.shows(42)
@pytest.mark.parametrize("door", DOORS)
async def test_forty_payloads_close_no_fence(candidate: Any, door: str) -> None:
    client, _ = candidate
    text = await DOORS[door](client)

    [(tag, _, inside)] = FENCE.findall(text)
    lines = inside.split("\n")
    assert len(lines) >= 8
    assert all(line.startswith("- ") and line.isprintable() for line in lines)
    assert len(inside.splitlines()) == len(lines)
    assert text.count(f"memories-{tag}>") == 2


@pytest.mark.parametrize("door", DOORS)
async def test_the_tag_is_another_each_time(candidate: Any, door: str) -> None:
    client, _ = candidate
    show = DOORS[door]

    tags = {FENCE.findall(await show(client))[0][0] for _ in range(5)}

    assert len(tags) == 5


async def test_forty_payloads_do_not_end_the_facts_of_another_systems_prompt(candidate: Any) -> None:
    _, other = candidate

    text = await by_another_systems_tool(other)

    before, rule, after = text.partition(f"\n\n{RULE}\n\n")
    assert rule
    assert before.count(MARK) >= 8
    assert after == f"The following is the user's prompt:\n\n{MARK}"


async def test_a_payload_changes_no_answers_shape(candidate: Any) -> None:
    """Structured answers hold texts as JSON strings: one memory, one object, whatever it says."""
    client, _ = candidate

    found = await call(client, "search_memories", query=MARK, limit=100, detail=True)

    assert found["count"] == len(PAYLOADS)
    assert {hit["content"].split(" ", 2)[2] for hit in found["results"]} == set(PAYLOADS)
    assert {frozenset(hit) & {"id", "type", "content", "score", "speaker"} for hit in found["results"]} == {
        frozenset({"id", "type", "content", "score", "speaker"})
    }
