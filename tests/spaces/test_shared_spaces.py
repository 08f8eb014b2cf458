"""A shared space: named in every write, read beside one's own memories, and walled off by the database."""

from __future__ import annotations

from conftest import Team

from helpers import call, found, refused, remember


async def test_a_memory_goes_into_a_space_only_when_it_is_named(team: Team) -> None:
    own = await remember(team.mara, "Mara keeps the spare key under the pot.")
    shared = (await call(team.mara, "create_memory", content="The oven runs ten degrees hot.", space="Kitchen"))["memory_id"]

    hit = (await call(team.ben, "search_memories", query="oven"))["results"][0]
    assert (hit["id"], hit["space"], hit["author"]) == (shared[-8:], "Kitchen", "Mara")
    assert await found(team.ben, "spare key") == [], "what is personal stays so"
    assert await found(team.dora, "oven") == []
    assert (await refused(team.dora, "search_memories", query="oven", space="Kitchen"))["code"] == "NOT_FOUND"
    assert own[-8:] not in str(await call(team.ben, "search_memories", query="key", space="Kitchen"))
