"""Conversations that are kept word for word travel as memories do."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from machines import Machine, all_have_all, carry, differences
from test_folder import SECRET, contents

from helpers import Database
from pgengram.service.conversations import Conversations
from pgengram.store.connection.database import Transaction
from pgengram.store.sync import state
from pgengram.sync import files
from pgengram.sync.documents import Line, RowDocuments
from pgengram.sync.exchange import now_us
from pgengram.sync.keys import Key
from pgengram.transfer import import_from

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
        documents = RowDocuments(tx, state.TURN, "0" * 12, (), now_us())
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


@pytest.mark.parametrize("before", [[], ["And the ladder?"]], ids=["new there", "known there"])
async def test_turns_of_an_export_that_is_imported_on_the_other_machine_are_there_once(
    both: Both, tmp_path: Path, before: list[str]
) -> None:
    laptop, desktop = both
    await laptop.hears("c1", "Where is the lamp?", datetime.now(UTC) - timedelta(minutes=1))
    for text in before:
        await desktop.hears("c1", text)
    file = written(tmp_path, await laptop.lines())
    for _ in range(2):  # before the machines heard of each other, and after that
        await import_from(desktop.memories, "jsonl", str(file), dry_run=False, report=lambda *_: None)
        await all_have_all(both)
        assert [await one.said("c1") for one in both] == [["Where is the lamp?", *before]] * 2
        assert differences(await laptop.states(), await desktop.states()) == []


async def test_an_export_of_an_earlier_version_that_both_machines_import_is_there_once(
    both: Both, database: Database, tmp_path: Path
) -> None:
    old = Machine(database, tmp_path / "old", "old")
    await old.hears("c1", "Where is the lamp?")
    await both[1].hears("c1", "And the ladder?")
    lines = [{name: value for name, value in line.items() if name != "id"} for line in await old.lines()]
    file = written(tmp_path, lines)
    for one in both:
        await import_from(one.memories, "jsonl", str(file), dry_run=False, report=lambda *_: None)
    await all_have_all(both)
    assert [await one.said("c1") for one in both] == [["Where is the lamp?", "And the ladder?"]] * 2
    await old.memories.close()


def written(folder: Path, lines: list[dict[str, Any]]) -> Path:
    """Write an export, and return its path."""
    file = folder / "all.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


async def test_turns_that_were_erased_do_not_come_back_with_an_export(both: Both, tmp_path: Path) -> None:
    laptop, desktop = both
    await laptop.hears("c1", SECRET)
    await all_have_all(both)
    file = written(tmp_path, await laptop.lines())
    await Conversations(laptop.memories).erase({"conversation": "c1"})
    await all_have_all(both)
    report = await import_from(desktop.memories, "jsonl", str(file), dry_run=False, report=lambda *_: None)
    assert "erased" in str(report)
    await all_have_all(both)
    assert [await one.said("c1") for one in both] == [[], []]
    assert [one.where("alarm") for one in both] == [[], []]


async def test_a_turn_whose_id_can_be_none_is_left_out_of_an_import_and_the_others_come(
    both: Both, database: Database, tmp_path: Path
) -> None:
    old = Machine(database, tmp_path / "old", "old")
    for text in ("Where is the lamp?", "And the ladder?", "And the kettle?", "Never mind."):
        await old.hears("c1", text)
    lines = await old.lines()
    turns = [line for line in lines if line["record"] == "turn"]
    for turn, id_ in zip(turns, (-1, 1 << 70, "x"), strict=False):
        turn["id"] = id_
    report = await import_from(
        both[0].memories, "jsonl", str(written(tmp_path, lines)), dry_run=False, report=lambda *_: None
    )
    assert (report.added["turn"], len(report.left)) == (1, 3)
    assert len(await both[0].said("c1")) == 1
    await old.memories.close()


async def test_the_moment_up_to_which_a_conversation_was_erased_never_goes_back(both: Both) -> None:
    laptop, desktop = both
    early = datetime.now(UTC) - timedelta(hours=2)
    await laptop.hears("c1", "Where is the lamp?", early)
    await all_have_all(both)
    await desktop.hears("c1", "And the ladder?", early + timedelta(hours=1))
    await Conversations(desktop.memories).erase({"conversation": "c1"})
    await Conversations(laptop.memories).erase({"conversation": "c1"})  # later, and it knows of the earlier turn alone
    await all_have_all(both)
    for one in both:
        [kept] = [line for line in await one.lines() if line["record"] == "conversation"]
        assert datetime.fromisoformat(kept["kept_from"]) == early + timedelta(hours=1)
        assert datetime.fromisoformat(kept["at"]) == early + timedelta(hours=1)


@pytest.mark.parametrize("what", ["a turn", "a link"])
async def test_what_was_removed_after_an_exchange_was_killed_with_its_file_written_stays_removed(
    both: Both, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desktop = both
    ids = [await laptop.adds(text) for text in ("The lamp is new.", "The kettle leaks.")]
    await all_have_all(both)
    if what == "a turn":
        await laptop.hears("c1", "Never mind.")
        await all_have_all(both)
        await laptop.hears("c1", SECRET)
    else:
        await laptop.links(*ids)

    written_down = state.written_down

    async def killed_at_last(tx: Transaction, rows: list[dict[str, Any]]) -> None:
        if any(row["kind"] in ("turn", "relationship") for row in rows):
            raise KeyboardInterrupt
        await written_down(tx, rows)

    with monkeypatch.context() as patch:
        patch.setattr("pgengram.store.sync.state.written_down", killed_at_last)
        with pytest.raises(KeyboardInterrupt):
            await laptop.syncs()
    laptop.restarted()
    carry(both)
    await desktop.syncs()
    if what == "a turn":
        assert await desktop.said("c1") == ["Never mind.", SECRET]
        await Conversations(laptop.memories).erase({"conversation": "c1"})
    else:
        assert "relationship" in {line["record"] for line in await desktop.lines()}
        await laptop.unlinks(*ids)
    await all_have_all(both)
    await all_have_all(both)
    for one in both:
        assert await one.said("c1") == []
        assert one.where("alarm") == []
        assert [line for line in await one.lines() if line["record"] == "relationship"] == []


async def test_turns_that_one_machine_keeps_no_longer_are_erased_on_no_other(both: Both) -> None:
    laptop, _ = both
    await laptop.hears("c1", "Where is the lamp?", datetime.now(UTC) - timedelta(days=5))
    await all_have_all(both)
    async with laptop.memories.store.transaction() as tx:
        await state.note_everything(tx)  # as after a backup was restored
    await Conversations(laptop.memories).set_keeping(keep_days=1)
    await all_have_all(both)
    assert [await one.said("c1") for one in both] == [[], ["Where is the lamp?"]]
