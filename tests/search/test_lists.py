"""Questions for all of something: more hits than usual, and how many there are besides."""

from __future__ import annotations

import pytest
from mcp import Client

from helpers import call

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
