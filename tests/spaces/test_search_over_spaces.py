"""One answer out of one's own memories and those of several spaces: its order, its pages, and who each hit is from."""

from __future__ import annotations

import pytest
from sharing_team import Team

from helpers import nightly
from pgengram.store import membership
from pgengram.store.connection.database import Role

THINGS = (
    "lantern",
    "ladder",
    "bucket",
    "violin",
    "anchor",
    "parcel",
    "candle",
    "window",
    "orchard",
    "bicycle",
    "ledger",
)


@pytest.fixture
async def filled(team: Team) -> Team:
    """The team with a second space, and memories of Ben's own and of both spaces in turns, some of them twice."""
    store, people = team.home.store, team.people
    yard = await membership.create(store, "Yard", people["ben"])
    await membership.put(store, yard.id, people["mara"], Role.WRITE, by=people["ben"])
    for number, thing in enumerate(THINGS):
        for caller, space in ((team.ben, ""), (team.mara, "Kitchen"), (team.mara, "Yard")):
            named = {"space": space} if space else {}
            text = f"The {thing} of the shed is painted {'red' if number % 2 else 'green'}"
            text += "." if number < 2 else f" in {space or 'mine'}."
            await caller.remember(text, importance=(number * 7 % 10) / 10, **named)
    return team


@pytest.mark.parametrize(
    "asked",
    [
        {"query": "which things of the shed are painted red"},
        {"query": "painted shed", "mode": "text"},
        {"query": "", "sort": "importance"},
        *nightly(
            {"query": "the red shed"},
            {"query": ""},
            {"query": "", "sort": "relevance"},
            {"query": "", "sort": "accessed"},
        ),
    ],
)
async def test_pages_over_several_spaces_are_one_list_without_gaps_or_repeats(
    filled: Team, asked: dict[str, str]
) -> None:
    whole = await filled.ben.call("search_memories", **asked, limit=60)
    expected = [hit["id"] for hit in whole["results"]]
    assert len(expected) == 3 * len(THINGS) - 2 * 2, "what one has oneself stands for its copies"
    assert (await filled.ben.call("search_memories", **asked, count_only=True))["total"] >= len(expected)

    shown, cursor = list[str](), {}
    while True:
        page = await filled.ben.call("search_memories", **asked, limit=4, **cursor)
        shown += [hit["id"] for hit in page["results"]]
        if not page.get("next_cursor"):
            break
        cursor = {"cursor": page["next_cursor"]}

    assert shown == expected
    authors = {(hit.get("space"), hit.get("author")) for hit in whole["results"]}
    assert authors == {(None, None), ("Kitchen", "Mara"), ("Yard", "Mara")}


async def test_a_cursor_over_several_spaces_that_somebody_has_changed_is_refused(filled: Team) -> None:
    page = await filled.ben.call("search_memories", query="", limit=3)
    cursor = page["next_cursor"]
    for changed, query in ((cursor[:40] + "A" + cursor[41:], ""), ("several.e30=", ""), (cursor, "shed")):
        assert "INVALID_INPUT" in await filled.ben.refused("search_memories", query=query, limit=3, cursor=changed)
    with_space = await filled.ben.call("search_memories", query="", limit=3, cursor=cursor)
    assert len(with_space["results"]) == 3


async def test_a_space_says_what_ones_own_memories_contradict(team: Team) -> None:
    await team.mara.remember("The oven in the kitchen runs ten degrees hot.", space="Kitchen")
    own = await team.ben.remember("The oven in the kitchen runs twelve degrees hot.")

    hits = (await team.ben.call("search_memories", query="How hot does the oven in the kitchen run?"))["results"]

    [other] = [hit for hit in hits if hit["id"] != own]
    assert [one["id"] for one in other["conflicts_with"]] == [own]
    alone = (await team.cleo.call("search_memories", query="How hot does the oven in the kitchen run?"))["results"]
    assert own not in str(alone)


async def test_somebody_who_is_anonymous_is_so_in_the_very_next_answer(team: Team) -> None:
    await team.ben.remember("The oven in the kitchen runs ten degrees hot.", space="Kitchen")
    assert (await team.cleo.call("search_memories", query="oven"))["results"][0]["author"] == "Ben"

    ben = team.people["ben"]
    await membership.remove(team.home.store, team.kitchen.id, ben, by=ben, anonymous=True)

    assert (await team.cleo.call("search_memories", query="oven"))["results"][0]["author"] == "former member"
