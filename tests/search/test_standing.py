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


async def test_who_asks_about_somebody_else_is_told_of_their_limits_and_of_nobody_elses(wordless: Served) -> None:
    await remember(wordless.client, "Ada cooks for Bo on Fridays.", user="Ada")
    await remember(wordless.client, "Bo does not eat shellfish because of an allergy.", user="Bo")
    await remember(wordless.client, "Cy is allergic to walnuts.", user="Cy")

    text = (await call(wordless.client, "recall_context", context="What shall Ada cook for Bo?", user="Ada"))["context"]

    assert "shellfish" in text
    assert "walnuts" not in text


async def test_a_name_in_another_spelling_is_found_at_once_and_stands_under_one_heading(wordless: Served) -> None:
    await remember(wordless.client, "The budget of the kitchen is 90,000 kroner.", project="kitchen")
    before = await call(
        wordless.client, "search_memories", query="budget", project="kitchen"
    )  # the names are known now
    id_ = await remember(wordless.client, "The budget of the kitchen is 110,000 kroner.", project="Kitchen")
    after = await call(wordless.client, "search_memories", query="budget", project="kitchen")
    other = await remember(wordless.client, "The sink of the kitchen is of steel.")
    await call(wordless.client, "update_memory", id=other, project="KITCHEN")
    moved = await call(wordless.client, "search_memories", query="sink", project="kitchen")
    text = (await call(wordless.client, "recall_context"))["context"]

    assert [len(found["results"]) for found in (before, after)] == [1, 2]
    assert id_ in [hit["id"] for hit in after["results"]]
    assert other in [hit["id"] for hit in moved["results"]]
    assert text.lower().count("kitchen:\n") == 1
