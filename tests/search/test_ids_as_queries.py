"""Whoever searches for an id gets the memory that has it."""

from __future__ import annotations

import pytest
from mcp import Client

from helpers import call, remember

OTHERS = ("The boat lies in the harbour.", "Ines teaches chemistry.", "The kayak leaks at the stern.")


@pytest.mark.parametrize("written", ["{0}", "{1}", "{1}…", "[{1}]", "memory://{0}"])
async def test_an_id_or_its_end_finds_its_memory_first(client: Client, written: str) -> None:
    wanted = await remember(client, "Nothing in this text looks like an id.")
    for text in OTHERS:
        await remember(client, text)

    answer = await call(client, "search_memories", query=written.format(wanted, wanted[-8:]))

    assert (answer["results"][0]["id"], answer["evidence"]) == (wanted, "strong")
    assert "unlikely" not in answer["results"][0]


async def test_the_id_of_a_forgotten_memory_or_of_none_finds_nothing_in_particular(client: Client) -> None:
    gone = await remember(client, "Nothing in this text looks like an id.")
    await remember(client, OTHERS[0])
    await call(client, "forget_memories", ids=[gone])

    for query in (gone, "0123456789abcdef", "20261127"):
        answer = await call(client, "search_memories", query=query)
        assert gone not in [hit["id"] for hit in answer["results"]]
        assert answer["evidence"] != "strong"
