"""Conversations that are kept word for word travel as memories do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from machines import Machine, all_have_all, carry, differences
from test_folder import SECRET, contents

from helpers import Database
from pgengram.service.conversations import Conversations
from pgengram.store.sync import state
from pgengram.sync import files
from pgengram.sync.documents import Line, RowDocuments
from pgengram.sync.exchange import now_us
from pgengram.sync.keys import Key

Both = tuple[Machine, Machine]


async def test_what_was_said_on_one_machine_is_found_on_the_other_and_goes_on_there(both: Both) -> None:
    laptop, desktop = both
    await laptop.hears("c1", "Where is the lamp?")
    await laptop.hears("c1", "Never mind, I have found it.")
    await all_have_all(both)
    assert await desktop.said("c1") == ["Where is the lamp?", "Never mind, I have found it."]
    await desktop.hears("c1", "And the ladder?")
    await all_have_all(both)
    assert (await laptop.said("c1"))[-1] == "And the ladder?"
    assert differences(await laptop.states(), await desktop.states()) == []
    assert (await laptop.status()).disputed == 0


@pytest.mark.parametrize("third", [0, 1], ids=["nothing else there", "a third that the one that makes room may meet"])
async def test_turns_that_two_machines_kept_in_the_same_place_are_both_there(both: Both, third: int) -> None:
    laptop, desktop = both
    await laptop.hears("c1", "Where is the lamp?")
    await desktop.hears("c1", "Where is the kettle?")
    await both[third].hears("c1", "And the ladder?")
    await all_have_all(both)
    for one in both:
        assert sorted(await one.said("c1")) == ["And the ladder?", "Where is the kettle?", "Where is the lamp?"]
    assert differences(await laptop.states(), await desktop.states()) == []


async def test_an_erased_conversation_leaves_all_machines_and_their_files(both: Both) -> None:
    laptop, desktop = both
    await laptop.hears("c1", SECRET)
    await laptop.hears("c2", "The stair is oak.")
    await all_have_all(both)
    key = Key((await laptop.exchange_settings()).secret)
    assert "alarm" in contents(laptop.folder, key)
    await Conversations(desktop.memories).erase({"conversation": "c1"})
    await all_have_all(both)
    await all_have_all(both)
    for one in both:
        assert await one.said("c1") == []
        assert await one.said("c2") == ["The stair is oak."]
        assert one.where("alarm") == []
        assert "alarm" not in contents(one.folder, key)


async def test_each_machine_keeps_conversations_for_as_long_as_its_own_settings_say(both: Both) -> None:
    laptop, desktop = both
    await laptop.hears("c1", "Where is the lamp?", datetime.now(UTC) - timedelta(days=5))
    await laptop.hears("c2", "Where is the kettle?")
    await all_have_all(both)
    await Conversations(laptop.memories).set_keeping(keep_days=1)
    await Conversations(laptop.memories).set_keeping(keeps=False)
    await desktop.hears("c3", "Where is the ladder?")
    await all_have_all(both)
    assert [await laptop.said(name) for name in ("c1", "c2", "c3")] == [[], ["Where is the kettle?"], []]
    assert await desktop.said("c1") == ["Where is the lamp?"]
    assert "ladder" not in str(laptop.where("ladder"))


async def test_what_was_erased_stays_erased_though_the_other_machine_finds_out_more_about_it(both: Both) -> None:
    laptop, desktop = both
    await laptop.hears("c1", SECRET)
    await all_have_all(both)
    await Conversations(laptop.memories).erase({"conversation": "c1"})
    async with desktop.memories.store.transaction() as tx:  # as when the client's own file names the turn
        await tx.run("UPDATE conversation_turns SET source_key = 7 WHERE namespace_id = %(namespace_id)s")
    await all_have_all(both)
    assert [await one.said("c1") for one in both] == [[], []]
    await desktop.hears("c1", "Where is the lamp?")
    await all_have_all(both)
    assert [await one.said("c1") for one in both] == [["Where is the lamp?"]] * 2


async def test_a_turn_that_waits_for_its_conversation_takes_no_place_of_one_that_is_kept_meanwhile(both: Both) -> None:
    laptop, desktop = both
    await desktop.hears("c1", "Where is the kettle?")
    await desktop.syncs()
    carry(both)
    async with laptop.memories.store.transaction() as tx:  # as if the conversation itself were in a file that is late
        documents = RowDocuments(tx, state.TURN, "0" * 12, now_us())
        [line] = [
            Line.of(record)
            for path in laptop.folder.rglob("0*.sync")
            for record in files.read(path, Key((await laptop.exchange_settings()).secret))
            if record["kind"] == state.TURN
        ]
        assert await documents.take([line], None) == 0
    await laptop.hears("c1", "Where is the lamp?")
    await all_have_all(both)
    for one in both:
        assert sorted(await one.said("c1")) == ["Where is the kettle?", "Where is the lamp?"]
    assert differences(await laptop.states(), await desktop.states()) == []


@pytest.mark.parametrize("since", [[], ["And the ladder?"]])
async def test_what_was_erased_on_one_machine_stays_erased_beside_what_another_said_in_the_same_place(
    both: Both, database: Database, tmp_path: Path, since: list[str]
) -> None:
    laptop, desktop = both
    phone = Machine(database, tmp_path / "phone", "phone")
    carry([laptop, phone])
    await phone.begins(Key((await laptop.exchange_settings()).secret))
    await laptop.hears("c1", SECRET)
    await laptop.syncs()
    await desktop.hears("c1", "Where is the kettle?")
    await desktop.syncs()
    carry([laptop, phone])
    await phone.syncs()
    await Conversations(phone.memories).erase({"conversation": "c1"})
    for text in since:
        await phone.hears("c1", text)
    carry(both)
    await laptop.syncs()
    assert sorted(await laptop.said("c1")) == sorted([SECRET, "Where is the kettle?"])
    machines = [laptop, desktop, phone]
    await all_have_all(machines)
    await all_have_all(machines)
    for one in machines:
        assert sorted(await one.said("c1")) == [*since, "Where is the kettle?"]
        assert one.where("alarm") == []
    await phone.memories.close()
