"""What holds in several modes: a tag that is none is told, and nonsense finds nothing where nothing else is promised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import TextContent

from helpers import Database, call, connected, database_of, nightly, said
from pgengram.demo import load_corpus
from pgengram.settings import COMPAT

MODES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    # how to store with tags, how to ask, and what an answer without a hit says
    "crow": ("crow_store_memory", {"tags": "!,boat"}, "", ""),
    "ownsona": ("remember", {"tags": ["!", "boat"]}, "build_context_prompt", '"facts_used": 0'),
    "session-continuity": (
        "memory_store",
        {"type": "learning", "tags": ["!", "boat"]},
        "memory_search",
        '"memories": []',
    ),
    "skynet": ("memory_store", {"metadata": {"type": "fact", "tags": ["!", "boat"]}}, "", ""),
}
FACTS = ("The ferry to Groix leaves at nine.", "Ada keeps bees behind the bakery.", "The invoice is due on Friday.")
NONSENSE = "photosynthesis quantum entanglement tariff zebra"


@pytest.mark.parametrize("mode", MODES)
async def test_a_tag_that_is_none_is_told_and_nonsense_finds_nothing(postgres: str, template: str, mode: str) -> None:
    store, more, ask, nothing = MODES[mode]
    name, question = ("text", "user_prompt") if mode == "ownsona" else ("content", "query")
    with database_of(postgres, template) as db:
        async with connected(database_url=db.url, compat=mode) as client:
            stored = [await says(client, store, **more, **{name: fact}) for fact in FACTS]
            found = json.dumps(await says(client, ask, **{question: "When does the ferry leave?"})) if ask else ""
            junk = json.dumps(await says(client, ask, **{question: NONSENSE})) if ask else ""

    assert [one["dropped_tags"] for one in stored] == [["!"]] * 3
    assert not ask or FACTS[0] in found
    assert nothing in junk


SEARCHES: dict[str, tuple[str, Any, str, str, str]] = {
    # how to store, how to search, and under which name the question goes
    "agi": ("create_memory", {"type": "semantic"}, "content", "search_memories_text", "query"),
    "session-continuity": ("memory_store", {"type": "learning"}, "content", "memory_search", "query"),
    "ownsona": ("remember", {}, "text", "build_context_prompt", "user_prompt"),
    "crow": ("crow_store_memory", {}, "content", "crow_search_memories", "query"),
}


@pytest.mark.shows(17, 24)
@pytest.mark.parametrize("mode", ["agi", *nightly("ownsona", "session-continuity", "crow")])
async def test_a_search_is_not_filled_with_what_has_nothing_to_do_with_the_question(
    postgres: str, template: str, mode: str
) -> None:
    store, more, name, search, question = SEARCHES[mode]
    facts = [memory.content for memory in load_corpus().memories[:20]]
    with database_of(postgres, template) as db:
        async with connected(database_url=db.url, compat=mode) as client:
            for fact in facts:
                await says(client, store, **more, **{name: fact})
            found = json.dumps(await says(client, search, **{question: "What is Fernway?"}), ensure_ascii=False)
            junk = json.dumps(await says(client, search, **{question: NONSENSE}), ensure_ascii=False)

    assert "Quillwort is Nadia Okafor's company" in found
    assert not [fact for fact in facts if fact[:30] in junk]


def test_every_mode_is_in_the_table_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "use-another-servers-tools.md").read_text(encoding="utf-8")

    assert [name for name in COMPAT if f"| `{name}` |" not in page] == []


async def test_crow_keeps_texts_of_50_000_characters_whole(database: Database) -> None:
    text = ("A chapter about the harbour. " * 1_700).strip()
    async with connected(database_url=database.url, compat="crow") as client:
        stored = await says(client, "crow_store_memory", content=text, context="A book.")
        found = await says(client, "crow_search_memories", query="harbour chapter")
        await says(client, "crow_update_memory", id=stored["id"], content="Short.")
        listed = await says(client, "crow_list_memories")

    assert stored["memory"]["content"] == found["memories"][0]["content"] == text
    assert [(one["content"], one["context"]) for one in listed["memories"]] == [("Short.", "A book.")]


@pytest.mark.parametrize("mode", ["crow", *nightly("agi")])
async def test_an_answer_has_room_for_what_a_model_takes_and_says_what_is_left_out(
    database: Database, mode: str
) -> None:
    """An object and a list: its elements are whole, and the sentence stands beside it, not in its form."""
    _, _, _, search, question = SEARCHES[mode]
    texts = [f"{number}. harbour {'wharf and crane. ' * 850}".strip() for number in range(12)]
    async with connected(database_url=database.url, embedder="none:") as client:
        await call(client, "create_memories", items=[{"content": text} for text in texts])
    async with connected(database_url=database.url, embedder="none:", compat=mode) as client:
        found = await client.call_tool(search, {question: "harbour", "limit": 12})

    form, note = (block.text for block in found.content if isinstance(block, TextContent))
    answer = json.loads(form)
    shown = answer["memories"] if mode == "crow" else answer
    assert len(form.encode()) <= 48_000
    assert 2 <= len(shown) < 12
    assert {one["content"] for one in shown} <= set(texts)
    assert f"the last {12 - len(shown)} of 12" in note


async def says(client: Client, tool: str, **arguments: Any) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, said(answer)
    return json.loads(said(answer))
