"""Crow's clients go on as they were: its seven tools, with categories, tags as text and importance from 1 to 10."""

from __future__ import annotations

import json

import pytest
from mcp import Client

from compat.conftest import refuses, says
from helpers import Database, call, connected

SYSTEM = "crow"
TOOLS = [
    "crow_store_memory", "crow_search_memories", "crow_recall_by_context", "crow_list_memories", "crow_update_memory",
    "crow_delete_memory", "crow_memory_stats",
]  # fmt: skip


async def stored(client: Client, content: str, **more: object) -> int:
    return int((await says(client, "crow_store_memory", content=content, **more))["id"])


async def test_it_has_these_seven_tools(client: Client) -> None:
    assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS


@pytest.mark.shows(12)
async def test_everything_stored_comes_back_under_its_own_names(client: Client) -> None:
    id_ = await stored(
        client, "The deploy needs a VPN.", category="process", context="asked by the new colleague",
        tags="Deploy, home office", source="chat", importance=8,
    )  # fmt: skip

    [found] = (await says(client, "crow_search_memories", query="VPN"))["memories"]

    assert found["id"] == id_
    assert (found["category"], found["importance"], found["source"]) == ("process", 8, "chat")
    assert found["tags"] == "deploy,home-office"
    assert found["context"] == "asked by the new colleague"


async def test_what_is_left_out_has_the_documented_default(client: Client) -> None:
    await stored(client, "Tea is better than coffee.")

    [listed] = (await says(client, "crow_list_memories"))["memories"]

    assert (listed["category"], listed["importance"]) == ("general", 5)


@pytest.mark.parametrize(
    "query", ["why not use redis or postgres", "std::vector", 'NEAR("a b" c)', "50%_off*", "^x {y} [z]"]
)
@pytest.mark.shows(18)
async def test_any_query_is_allowed_and_loses_nothing(client: Client, query: str) -> None:
    id_ = await stored(client, f"Somebody asked: {query}?")
    await stored(client, "The cat sleeps.")

    assert (await says(client, "crow_search_memories", query=query))["memories"][0]["id"] == id_


@pytest.mark.shows(19)
async def test_one_search_finds_a_rare_word_and_what_is_meant(client: Client) -> None:
    ticket = await stored(client, "QX-7731 waits for an answer of the supplier.")
    dog = await stored(client, "My dog is called Mochi.")
    await stored(client, "Invoices are sent on Fridays.")

    for query, wanted in (("qx-7731", ticket), ("the name of a pet", dog)):
        assert (await says(client, "crow_search_memories", query=query))["memories"][0]["id"] == wanted


@pytest.mark.shows(11, 20)
async def test_filters_hold_for_searches_and_lists(client: Client) -> None:
    goal = await stored(client, "Run a marathon.", category="goal", tags="sport")
    await stored(client, "Ran ten kilometres.", category="learning", tags="sport,art")
    await stored(client, "Smart watches count steps.", category="goal", tags="smart")

    goals = await says(client, "crow_search_memories", query="run", category="goal", tags="sport")
    art = await says(client, "crow_list_memories", tags="art")

    assert [one["id"] for one in goals["memories"]] == [goal]
    assert [one["content"] for one in art["memories"]] == ["Ran ten kilometres."]


@pytest.mark.shows(24)
async def test_a_context_in_a_sentence_recalls_what_belongs_to_it(client: Client) -> None:
    id_ = await stored(client, "The dog Mochi is afraid of thunder.")
    await stored(client, "Invoices are sent on Fridays.")

    answer = await says(
        client, "crow_recall_by_context", context="There will be a storm tonight, what about Mochi?", limit=1
    )

    assert [one["id"] for one in answer["memories"]] == [id_]


@pytest.mark.parametrize(("sort", "expected"), [("importance", ["high", "low"]), ("created_at", ["low", "high"])])
@pytest.mark.shows(23)
async def test_lists_are_sorted_and_paged(client: Client, sort: str, expected: list[str]) -> None:
    await stored(client, "high", importance=9)
    await stored(client, "low", importance=1)

    listed = await says(client, "crow_list_memories", sort=sort)
    second = await says(client, "crow_list_memories", sort=sort, limit=1, offset=1)

    assert [one["content"] for one in listed["memories"]] == expected
    assert [one["content"] for one in second["memories"]] == expected[1:]


@pytest.mark.shows(25)
async def test_an_update_changes_what_is_given_and_nothing_else(client: Client) -> None:
    id_ = await stored(client, "The shop opens at nine.", importance=7, tags="shop")

    changed = await says(client, "crow_update_memory", id=id_, content="The shop opens at ten.", category="decision")

    assert changed["memory"]["content"] == "The shop opens at ten."
    assert (changed["memory"]["category"], changed["memory"]["importance"]) == ("decision", 7)
    assert (await says(client, "crow_search_memories", query="opens at ten"))["memories"][0]["id"] == id_


@pytest.mark.shows(28)
async def test_deleting_asks_first_with_a_token_for_one_use(client: Client) -> None:
    id_, other = await stored(client, "Obsolete."), await stored(client, "Also obsolete.")

    asked = await says(client, "crow_delete_memory", id=id_)
    assert (asked["id"], asked["content"]) == (id_, "Obsolete.")
    assert len((await says(client, "crow_list_memories"))["memories"]) == 2
    wrong = await refuses(client, "crow_delete_memory", id=other, confirm_token=asked["confirm_token"])
    assert wrong["code"] == "CONFIRM_REQUIRED"
    asked = await says(client, "crow_delete_memory", id=id_)
    done = await says(client, "crow_delete_memory", id=id_, confirm_token=asked["confirm_token"])

    assert done["removed"]
    assert [one["id"] for one in (await says(client, "crow_list_memories"))["memories"]] == [other]


async def test_calls_may_be_spelled_as_the_code_of_crow_does(client: Client) -> None:
    id_ = await stored(client, "User prefers TypeScript.", category="preference", importance=8, project_id=1,
                       instance_id="laptop", tags="coding, language")  # fmt: skip
    await stored(client, "User prefers tea.", category="preference", importance=3, project_id=2)

    found = await says(client, "crow_search_memories", query="what does the user prefer", category="preference",
                       min_importance=5, semantic=False, project_id=1, instance_id="laptop")  # fmt: skip
    assert [(one["id"], one["project_id"], one["instance_id"]) for one in found["memories"]] == [(id_, 1, "laptop")]
    for filters in ({"tag": "coding"}, {"min_importance": 5}, {"project_id": 1}, {"sort_by": "importance", "limit": 1}):
        assert [one["id"] for one in (await says(client, "crow_list_memories", **filters))["memories"]] == [id_]
    changed = await says(client, "crow_update_memory", id=id_, context="told twice")
    assert changed["memory"]["context"] == "told twice"
    recalled = await says(client, "crow_recall_by_context", context="TypeScript", project_id=2)
    assert id_ not in [one["id"] for one in recalled["memories"]]


async def test_any_word_is_a_category_and_a_memory_without_one_shows_its_type(client: Client, db: Database) -> None:
    free = await stored(client, "Fry the onions first.", category="recipe")
    async with connected(database_url=db.url) as usual:
        await call(usual, "create_memory", content="The fryer was new.", type="episodic")

    shown = (await says(client, "crow_list_memories"))["memories"]
    assert [one["category"] for one in shown] == ["episodic", "recipe"]
    assert [one["id"] for one in (await says(client, "crow_list_memories", category="recipe"))["memories"]] == [free]
    assert (await says(client, "crow_list_memories", category="episodic"))["count"] == 1
    assert (await says(client, "crow_list_memories", category="general"))["count"] == 0
    assert (await says(client, "crow_memory_stats"))["categories"] == {"recipe": 1}
    moved = await says(client, "crow_update_memory", id=free, category="process")
    assert moved["memory"]["category"] == "process"
    assert (await says(client, "crow_list_memories", category="recipe"))["count"] == 0


@pytest.mark.shows(24)
async def test_of_what_nothing_is_known_nothing_is_recalled(client: Client) -> None:
    for text in ("The dog Mochi is afraid of thunder.", "Invoices are sent on Fridays.", "The shop opens at nine."):
        await stored(client, text)
    lab = await stored(client, "The robot kit has nine motors.", source="maker-lab")

    answer = await says(client, "crow_recall_by_context", context="zanzibar quokka flugelhorn")
    assert (answer["count"], answer["memories"]) == (0, [])
    assert answer["message"] == "No relevant memories found for this context."
    asked = {"context": "How many motors has the robot kit?", "limit": 1}
    assert (await says(client, "crow_recall_by_context", **asked))["memories"] == []
    with_lab = await says(client, "crow_recall_by_context", **asked, include_maker_lab=True)
    assert [one["id"] for one in with_lab["memories"]] == [lab]


@pytest.mark.shows(37)
async def test_the_statistics_count_categories_and_tags(client: Client) -> None:
    await stored(client, "Run a marathon.", category="goal", tags="sport")
    await stored(client, "Swim a mile.", category="goal", tags="sport,water")

    answer = await says(client, "crow_memory_stats")

    assert answer["total"] == 2
    assert answer["categories"] == {"goal": 2}
    assert answer["tags"] == {"sport": 2, "water": 1}


@pytest.mark.shows(40)
async def test_the_valid_categories_are_a_resource(client: Client) -> None:
    await stored(client, "Run a marathon.", category="goal")

    [content] = (await client.read_resource("memory://categories")).contents

    assert json.loads(content.text)["categories"] == {  # type: ignore[union-attr]
        "general": 0, "project": 0, "preference": 0, "person": 0, "process": 0, "decision": 0, "learning": 0, "goal": 1,
    }  # fmt: skip


async def test_an_error_speaks_of_its_tools_and_numbers(client: Client) -> None:
    error = await refuses(client, "crow_update_memory", id=4711, importance=4)

    assert error["message"] == "No memory has id 4711."
    assert error["hint"] == "Use crow_search_memories to find the right id."


@pytest.mark.parametrize("prompt", ["session-start", "session-summary", "remember", "recall"])
@pytest.mark.shows(41)
async def test_no_prompt_names_a_tool_that_is_not_there(client: Client, prompt: str) -> None:
    needed = {"remember": {"what": "Tea."}, "recall": {"query": "Tea?"}}

    said = (await client.get_prompt(prompt, needed.get(prompt))).messages[0].content.text  # type: ignore[union-attr]

    assert "_memor" not in said
