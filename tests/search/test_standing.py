"""What a conversation begins with: today's date, what always matters to this user, then what matters for the topic."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from mcp import Client

from helpers import Served, call, remember

ALWAYS = {
    "Ada prefers answers in short sentences.": {"kind": "preference", "user": "Ada"},
    "Ada ist allergisch gegen Erdnüsse.": {"user": "Ada"},
    "The staging password is kept in the vault.": {"pinned": True},
}
OTHERS = {
    "Bo prefers long answers.": {"kind": "preference", "user": "Bo"},
    "Tabs are preferred in the kernel.": {"kind": "preference", "project": "kernel"},
}


@pytest.fixture
async def client(wordless: Served) -> Client:
    for content, more in {**ALWAYS, **OTHERS}.items():
        await remember(wordless.client, content, **more)
    for n in range(40):
        await remember(wordless.client, f"The lamp number {n} was bought.", importance=1, user="Ada")
    return wordless.client


def lines(text: str) -> list[str]:
    """Return the contents in a recalled text, in their order."""
    return [line[2:].rpartition(" (")[0] for line in text.splitlines() if line.startswith("- ")]


async def test_without_a_topic_it_begins_with_the_date_and_what_always_matters(client: Client) -> None:
    text = (await call(client, "recall_context", user="ada", project="garden"))["context"]

    assert text.startswith(f"Today is {datetime.now(UTC):%A, %Y-%m-%d}.")
    assert {*lines(text)[:3]} == {*ALWAYS}
    assert not {*OTHERS} & {*lines(text)}
    assert "The lamp number 39 was bought." in lines(text)
    assert len(text) <= 4_000


async def test_each_memory_stands_there_once_and_within_the_budget(client: Client) -> None:
    text = (await call(client, "recall_context", user="Ada", max_chars=600))["context"]

    assert len(lines(text)) == len({*lines(text)}) > 3
    assert len(text) <= 600


async def test_a_session_begins_with_it_before_what_is_known_about_the_topic(client: Client) -> None:
    given = await client.get_prompt("session-start", {"topic": "lamp number 7"})
    text = given.messages[0].content.text  # type: ignore[union-attr]

    said = lines(text)
    assert {*ALWAYS} <= {*said[:5]}
    assert "The lamp number 7 was bought." in said[4:]


async def test_the_resource_begins_with_it(client: Client) -> None:
    [resource] = (await client.read_resource("memory://context")).contents

    assert resource.text.startswith("Today is ")  # type: ignore[union-attr]
    assert {*ALWAYS} <= {*lines(resource.text)[:5]}  # type: ignore[union-attr]


async def test_an_empty_store_begins_with_nothing(client: Client, wordless: Served) -> None:
    for hit in (await call(client, "search_memories", limit=100))["results"]:
        await call(client, "forget_memories", ids=[hit["id"]])

    assert (await call(client, "recall_context"))["context"] == ""
