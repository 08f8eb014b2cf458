"""What two machines say of the same thing before they hear of each other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from machines import Machine, all_have_all, carry, differences

from helpers import Database
from pgengram.runtime.context import ACTOR
from pgengram.service.toolsets.graph import Graph
from pgengram.service.toolsets.maintenance import Maintenance
from pgengram.sync.keys import Key
from pgengram.sync.memories import ON

Both = tuple[Machine, Machine]


async def disputes(one: Machine) -> list[str]:
    """Return what review says of memories that two machines changed at once."""
    reviewed = await Maintenance(one.memories).review_memories(find=["disputed"])
    return [str(finding["why"]) for finding in reviewed.findings]


async def read(one: Machine, id_: str) -> Any:
    return next(line for line in await one.lines() if line.get("id") == id_)


async def test_different_fields_of_one_memory_are_both_taken(both: Both) -> None:
    laptop, desktop = both
    id_ = await laptop.adds("The mill opens at 9.", tags=["mill"])
    await all_have_all(both)
    await laptop.edits(id_, project="mill", add_tags=["opening"])
    await desktop.edits(id_, importance=0.9, add_tags=["hours"], remove_tags=["mill"])
    await all_have_all(both)
    memory = await read(desktop, id_)
    assert (memory["project"], memory["activation"]["importance"], set(memory["tags"])) == (
        "mill",
        0.9,
        {"opening", "hours"},
    )
    assert differences(await laptop.states(), await desktop.states()) == []
    assert await disputes(laptop) == []


async def edited_by_both(both: Both) -> str:
    """Return the id of a memory of which each machine has a text of its own, the desktop's the later one."""
    laptop, desktop = both
    id_ = await laptop.adds("The mill opens at 9.")
    await all_have_all(both)
    await laptop.edits(id_, content="The mill opens at 8.")
    await desktop.edits(id_, content="The mill opens at 10.")
    return id_


@pytest.mark.parametrize("first", [0, 1])
async def test_of_two_texts_written_at_once_the_later_is_shown_and_the_other_is_in_review(
    both: Both, first: int
) -> None:
    laptop, desktop = both
    id_ = await edited_by_both(both)
    await both[first].syncs()
    await both[1 - first].syncs()
    await all_have_all(both)
    for one in both:
        assert (await read(one, id_))["content"] == "The mill opens at 10."
        assert await one.finds("mill") == ["The mill opens at 10."]
        [why] = await disputes(one)
        assert "content: The mill opens at 8." in why
    await laptop.edits(id_, content="The mill opens at 8.")
    await all_have_all(both)
    assert [await disputes(one) for one in both] == [[], []]
    assert await desktop.finds("mill") == ["The mill opens at 8."]


async def test_the_text_that_is_not_shown_stays_in_review_whoever_read_first_and_whatever_else_is_changed(
    both: Both,
) -> None:
    laptop, desktop = both
    id_ = await edited_by_both(both)
    await laptop.syncs()
    carry(both)
    await desktop.syncs()  # reads the other's text before it writes its own
    await all_have_all(both)
    assert ["content: The mill opens at 8." in why for one in both for why in await disputes(one)] == [True, True]
    await desktop.edits(id_, add_tags=["mill"], project="mill")
    await all_have_all(both)
    assert ["content: The mill opens at 8." in why for one in both for why in await disputes(one)] == [True, True]
    assert differences(await laptop.states(), await desktop.states()) == []


async def test_a_confirmation_chooses_what_is_shown_on_all_machines(both: Both) -> None:
    laptop, desktop = both
    id_ = await edited_by_both(both)
    await all_have_all(both)
    await laptop.edits(id_, confirm=True)
    await all_have_all(both)
    assert [await disputes(one) for one in both] == [[], []]
    assert await laptop.finds("mill") == ["The mill opens at 10."]
    assert differences(await laptop.states(), await desktop.states()) == []


async def test_what_one_machine_forgot_and_the_other_edited_stays_forgotten_with_the_edit(both: Both) -> None:
    laptop, desktop = both
    id_ = await laptop.adds("The mill opens at 9.")
    await all_have_all(both)
    await laptop.forgets(id_, reason="closed")
    await desktop.edits(id_, content="The mill opens at 10.")
    await all_have_all(both)
    memory = await read(laptop, id_)
    assert (memory["status"], memory["content"]) == ("invalidated", "The mill opens at 10.")
    await desktop.edits(id_, status="active")
    await all_have_all(both)
    assert await laptop.finds("mill") == ["The mill opens at 10."]


async def test_the_same_text_of_two_machines_becomes_one_memory_with_the_tags_and_links_of_both(both: Both) -> None:
    laptop, desktop = both
    older = await laptop.adds("Jonas is allergic to peanuts.", tags=["food"])
    newer = await desktop.adds("Jonas is allergic to peanuts.", tags=["health"])
    other = await desktop.adds("Jonas comes on Friday.")
    await desktop.links(other, newer)
    await all_have_all(both)
    assert differences(await laptop.states(), await desktop.states()) == []
    for one in both:
        assert await one.finds("peanuts") == ["Jonas is allergic to peanuts."]
        memory = await read(one, older)
        assert (memory["status"], set(memory["tags"])) == ("active", {"food", "health"})
        assert (await read(one, newer))["replaced_by"] == [older]
        links = [(line["from_id"], line["to_id"]) for line in await one.lines() if line["record"] == "relationship"]
        assert (other, older) in links


async def test_uses_of_two_machines_are_added(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgengram.store.sync.state.USES_EVERY_S", 0)
    laptop, desktop = both
    id_ = await laptop.adds("The mill opens at 9.")
    await all_have_all(both)
    for one, times in ((laptop, 2), (desktop, 3)):
        for _ in range(times):
            await one.finds("mill")
    await all_have_all(both)
    await all_have_all(both)
    assert [(await read(one, id_))["activation"]["access_count"] for one in both] == [5, 5]


async def test_history_tells_on_which_machine_something_was_done(both: Both) -> None:
    laptop, desktop = both
    id_ = await laptop.adds("The mill opens at 9.")
    await laptop.edits(id_, project="mill")
    await all_have_all(both)
    await desktop.edits(id_, project="ark")
    await all_have_all(both)
    here, there = [[(row["operation"], row["actor"]) for row in (await read(one, id_))["history"]] for one in both]
    assert (
        [operation for operation, _ in here] == [operation for operation, _ in there] == ["create", "update", "update"]
    )
    assert [str(actor).endswith(f"{ON}laptop") for _, actor in there] == [True, True, False]
    assert [str(actor).endswith(f"{ON}desktop") for _, actor in here] == [False, False, True]


async def test_who_did_something_stays_named_though_another_machine_erases_what_it_led_to(
    database: Database, both: Both, tmp_path: Path
) -> None:
    laptop, desktop = both
    ACTOR.set("Claude on Mac")
    id_, other = [await laptop.adds(f"Room {name} has a window.") for name in ("one", "two")]
    await laptop.links(id_, other)
    await all_have_all(both)
    await desktop.erases(other)  # which takes its text out of the history of the first
    third = Machine(database, tmp_path / "third", "third")
    await desktop.syncs()
    carry([desktop, third])
    await third.begins(Key((await laptop.exchange_settings()).secret))
    await third.syncs()
    for one, end in ((laptop, ""), (desktop, f"{ON}laptop"), (third, f"{ON}laptop")):
        assert {row["actor"] for row in (await read(one, id_))["history"]} == {f"Claude on Mac{end}"}
    await third.memories.close()


async def test_a_link_whose_other_end_comes_later_waits_for_it(both: Both) -> None:
    laptop, desktop = both
    ids = [await laptop.adds(f"Room {name} has a window.") for name in ("one", "two")]
    await laptop.syncs()
    await laptop.links(ids[0], ids[1])
    await laptop.syncs()
    [_, second] = sorted(laptop.folder.rglob("0*.sync"))
    copy = desktop.folder / second.relative_to(laptop.folder)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(second, copy)
    await desktop.syncs()
    assert [line for line in await desktop.lines() if line["record"] == "relationship"] == []
    await all_have_all(both)
    assert differences(await laptop.states(), await desktop.states()) == []
    assert len([line for line in await desktop.lines() if line["record"] == "relationship"]) == 1


async def test_a_link_that_one_machine_changed_while_the_other_removed_it_is_there_whole(both: Both) -> None:
    laptop, desktop = both
    ids = [await laptop.adds(f"Room {name} has a window.") for name in ("one", "two")]
    await laptop.links(ids[0], ids[1], strength=0.4)
    await all_have_all(both)
    await laptop.unlinks(ids[0], ids[1])
    await desktop.links(ids[0], ids[1], strength=0.9)
    await all_have_all(both)
    for one in both:
        [link] = [line for line in await one.lines() if line["record"] == "relationship"]
        assert link["strength"] == pytest.approx(0.9)
    assert differences(await laptop.states(), await desktop.states()) == []


async def test_two_things_done_at_once_stay_two_though_all_that_told_them_apart_is_erased(both: Both) -> None:
    laptop, desktop = both
    id_, *others = [await laptop.adds(f"Room {name} has a window.") for name in ("one", "two", "three")]
    await all_have_all(both)
    await Graph(laptop.memories).link_memories(id_, others, "near")
    for other in others:
        await laptop.erases(other)
    await all_have_all(both)
    assert [row["changes"] for row in (await read(desktop, id_))["history"]][1:] == [{"relationship": []}] * 2
    assert differences(await laptop.states(), await desktop.states()) == []
