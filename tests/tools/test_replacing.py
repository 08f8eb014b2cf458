"""One call stores what holds now and retires what held before: bound to ids, restorable, all of it or nothing."""

from __future__ import annotations

import pytest
from mcp import Client

from helpers import Database, call, found, read, refused, remember

OLD = "The choir of Esther rehearses on Wednesdays in the parish hall."
NEW = "The choir of Esther meets on Mondays in the library."


@pytest.mark.shows(14)
async def test_a_new_memory_replaces_what_no_longer_holds_and_keeps_its_history(client: Client) -> None:
    old, other = await remember(client, OLD), await remember(client, "Esther's choir sang in Bruges.")

    answer = await call(client, "create_memory", content=NEW, replaces=[old[-8:]])

    new = answer["memory_id"]
    assert answer["replaced"] == [old]
    assert "replaces 1 memory" in answer["message"]
    assert not {"may_replace", "near_duplicates"} & answer.keys()  # nothing is left to be done
    retired = await read(client, old)
    assert (retired["status"], retired["replaced_by"], retired["content"]) == ("invalidated", [new], OLD)
    assert {*await found(client, "choir of Esther")} == {new, other}
    await call(client, "update_memory", id=old, status="active")
    assert old in await found(client, "choir of Esther")


async def test_items_of_a_batch_replace_each_their_own_and_a_wrong_id_spares_the_rest(client: Client) -> None:
    old, stays = await remember(client, OLD), await remember(client, "Otto mends clocks.")

    answer = await call(
        client,
        "create_memories",
        items=[{"content": NEW, "replaces": old}, {"content": "Otto mends boats.", "replaces": ["00000000"]}],
    )

    good, bad = answer["results"]
    assert (good["replaced"], bad["ok"], bad["error"]["code"]) == ([old], False, "NOT_FOUND")
    assert (await read(client, stays))["status"] == "active"


async def test_nothing_is_stored_where_what_it_replaces_is_not_there(client: Client, db: Database) -> None:
    await remember(client, OLD)

    error = await refused(client, "create_memory", content=NEW, replaces=["00000000"])

    assert error["code"] == "NOT_FOUND"
    assert "search_memories" in error["hint"] + error["message"]
    assert db.value("SELECT count(*) FROM memories") == 1


async def test_a_text_that_is_remembered_already_retires_what_it_replaces_but_never_itself(client: Client) -> None:
    old, new = await remember(client, OLD), await remember(client, NEW)

    answer = await call(client, "create_memory", content=NEW, replaces=[old, new])

    assert (answer["created"], answer["memory_id"], answer["replaced"]) == (False, new, [old])
    assert (await read(client, new))["status"] == "active"


async def test_what_says_nearly_the_same_is_stored_when_it_replaces_that(client: Client) -> None:
    old = await remember(client, "Esther sings in the choir.")

    answer = await call(
        client, "create_memory", content="Esther sings in the choir!", replaces=[old], dedup_policy="skip_if_near"
    )

    assert (answer["created"], answer["replaced"]) == (True, [old])


async def test_two_items_may_stand_for_one_that_said_both(client: Client) -> None:
    old = await remember(client, "Esther sings, and Otto mends clocks.")

    answer = await call(
        client,
        "create_memories",
        items=[{"content": "Esther sings.", "replaces": [old]}, {"content": "Otto mends clocks.", "replaces": [old]}],
    )

    assert (await read(client, old))["replaced_by"] == [one["memory_id"] for one in answer["results"]]
