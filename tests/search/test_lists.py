"""Questions for all of something: more hits than usual, and how many there are besides."""

from __future__ import annotations

import pytest
from mcp import Client

from helpers import Database, call, hits, remember

MINE = 14


@pytest.fixture
async def allergies(client: Client) -> set[str]:
    """More allergies than a search usually shows, among other memories."""
    items = [{"content": f"Elin is allergic to the pollen of plant number {n}."} for n in range(MINE)]
    others = [{"content": f"The boat number {n} lies in the harbour."} for n in range(30)]
    answer = await call(client, "create_memories", items=[*items, *others])
    return {result["memory_id"] for result in answer["results"][:MINE]}


@pytest.mark.parametrize(
    "question",
    ["What are all the things Elin is allergic to?", "Alle Allergien von Elin", "todas las alergias de Elin", "Toutes les allergies d'Elin"],
)  # fmt: skip
async def test_a_question_for_all_of_something_shows_more_than_ten(
    client: Client, allergies: set[str], question: str
) -> None:
    answer = await call(client, "search_memories", query=question)

    assert allergies <= {hit["id"] for hit in answer["results"]}


@pytest.mark.parametrize("question", ["Is Elin allergic at all?", "Ist Elin vor allem allergisch?"])
async def test_other_questions_show_ten(client: Client, allergies: set[str], question: str) -> None:
    assert len((await call(client, "search_memories", query=question))["results"]) == 10


async def test_a_limit_of_the_caller_holds_and_the_answer_says_how_many_more_match(
    client: Client, allergies: set[str]
) -> None:
    answer = await call(client, "search_memories", query="List all allergies of Elin", limit=4)
    rest = await call(
        client, "search_memories", query="List all allergies of Elin", limit=50, cursor=answer["next_cursor"]
    )

    assert len(answer["results"]) == 4
    assert int(answer["note"].split(" more match")[0]) >= MINE - 4
    assert allergies <= {hit["id"] for page in (answer, rest) for hit in page["results"]}


async def test_what_is_told_again_and_again_does_not_hide_the_rest_of_a_list(client: Client) -> None:
    often = [{"content": f"Elin saw a blackbird bird in the garden, on walk number {n}."} for n in range(40)]
    seldom = [
        {"content": "A bullfinch sat on Elin's garden fence."},
        {"content": "Birds that Elin had never met: three siskins at the feeder."},
    ]
    others = [{"content": f"The boat number {n} lies in the harbour."} for n in range(30)]
    await call(client, "create_memories", items=[*often, *seldom, *others])

    answer = await call(client, "search_memories", query="List all birds that Elin saw in the garden")

    told = "\n".join(hit["content"] for hit in answer["results"])
    assert all(bird in told for bird in ("blackbird", "bullfinch", "siskin"))


async def test_pages_of_a_list_have_each_memory_once(client: Client, allergies: set[str]) -> None:
    question = {"query": "List all allergies of Elin", "limit": 5}
    answer = await call(client, "search_memories", **question)
    told = [hit["id"] for hit in answer["results"]]
    while cursor := answer.get("next_cursor"):
        answer = await call(client, "search_memories", **question, cursor=cursor)
        told += [hit["id"] for hit in answer["results"]]

    assert allergies <= set(told)
    assert len(told) == len(set(told))


async def test_what_holds_stays_before_what_held_in_a_list(client: Client, db: Database) -> None:
    held = await remember(client, "Elin's office plant is a cactus.")
    db.rows(
        "UPDATE memories SET created_at = now() - interval '9 days', last_confirmed_at = NULL WHERE id = %s", [held]
    )
    holds = await remember(client, "Elin's office plant is a fern now.")
    for n in range(30):
        await remember(client, f"Elin has a plant in the office kitchen, a fern of kind {n}.")

    told = [hit["id"] for hit in await hits(client, "List all plants of Elin's office", limit=40)]

    assert told.index(holds) < told.index(held)
