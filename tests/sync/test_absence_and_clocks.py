"""Machines that don't hear of each other for a month, read the same file again and again, and set their clocks back by an hour."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from machines import DAY_US, Machine, all_have_all, carry, differences

from helpers import Database

Both = tuple[Machine, Machine]
SECRET = "The alarm code is under the stair."
COUNTED = ("memories", "memory_history", "sync_documents", "sync_changes", "conversation_turns")


async def test_a_machine_that_was_away_for_a_month_erases_what_was_erased_and_brings_what_it_has_itself(
    both: Both,
) -> None:
    laptop, desktop = both
    secret, mill, ladder = [
        await laptop.adds(text) for text in (SECRET, "The mill opens at 9.", "The ladder is in the cellar.")
    ]
    await all_have_all(both)
    await desktop.edits(secret, content=f"{SECRET} It is 1234.")
    await desktop.edits(mill, project="mill")
    kettle = await desktop.adds("The kettle leaks.")
    await desktop.syncs()
    for day in range(1, 31):
        laptop.ahead_us = day * DAY_US
        await laptop.edits(mill, content=f"The mill opens at {day}.")
        await laptop.syncs()
        await laptop.adds(f"Boat {day} is blue.")
        if day == 5:
            await laptop.erases(secret)
            await laptop.forgets(ladder)
        await laptop.syncs()
    desktop.ahead_us = laptop.ahead_us
    await desktop.edits(secret, add_tags=["alarm"])  # its last word of it
    await all_have_all(both)
    for one in both:
        texts = await one.texts()
        assert (texts[mill], texts[kettle], len(texts)) == ("The mill opens at 30.", "The kettle leaks.", 33)
        assert one.where("alarm") == []
        assert await one.finds("ladder") == []
        assert not any(device.behind for device in (await one.status()).devices)
    assert [(await one.status()).disputed for one in both] == [0, 0]
    assert differences(await laptop.states(), await desktop.states()) == []


async def test_the_same_file_read_a_hundred_times_changes_nothing_and_nothing_grows(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgengram.store.sync.state.USES_EVERY_S", 0)
    laptop, desktop = both
    mill, gone = [await laptop.adds(text) for text in ("The mill opens at 9.", "The ladder is in the cellar.")]
    await laptop.hears("c1", "When does the mill open?")
    await laptop.finds("mill")
    await all_have_all(both)
    old = {path: path.read_bytes() for path in desktop.folder.rglob("0*.sync") if path.parent.name == laptop.device}
    await desktop.edits(mill, content="The mill opens at 10.")
    await laptop.erases(gone)
    await all_have_all(both)

    def sizes() -> list[int]:
        statement = "SELECT count(*) FROM {}"
        return [desktop.database.value(statement.format(name), namespace=desktop.namespace) for name in COUNTED]

    before, states = sizes(), await desktop.states()
    for number in range(100):
        for path, data in old.items():
            copy = path.with_name(f"{900_000_000_000 + number % 3:012d}-{path.name[13:]}")
            copy.write_bytes(data)
            os.utime(copy, ns=(number, number))
        outcome = await desktop.syncs()
        assert (outcome.written, outcome.erased, outcome.unread) == (0, 0, {})
    assert sizes() == before
    assert await desktop.states() == states
    await all_have_all(both)
    assert differences(await laptop.states(), await desktop.states()) == []


class Zone:
    """Where this computer and its database are: a place where summer time ends in a moment, or has just ended."""

    def __init__(self, database: Database, patch: pytest.MonkeyPatch) -> None:
        self._database, self._patch = database, patch

    def is_set(self, *, ended: bool) -> None:
        """Let summer time end in half an hour, or let it have ended half an hour ago: clocks show the same twice."""
        end = datetime.now(UTC) + timedelta(minutes=-30 if ended else 30) + timedelta(hours=1)  # as clocks have it then
        rule = f"STD0DST-1,J1/0,J{_day(end)}/{end:%H:%M:%S}"
        self._patch.setenv("TZ", rule)
        time.tzset()
        self._database.as_login(f"ALTER DATABASE {self._database.name} SET timezone = '{rule}'")


@pytest.fixture
def zone(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Zone]:
    yield Zone(database, monkeypatch)
    monkeypatch.undo()
    time.tzset()


def _day(moment: datetime) -> int:
    """Return the day of the year as a rule of time zones has it, which never counts 29 February."""
    return int(f"{moment.replace(year=2027):%j}")


async def test_the_hour_that_clocks_show_twice_when_summer_time_ends_changes_no_order(
    database: Database, zone: Zone, tmp_path: Path
) -> None:
    made: list[Machine] = []
    for name, ended in (("laptop", False), ("desktop", True)):
        zone.is_set(ended=ended)
        made.append(Machine(database, tmp_path / name, name))
        await made[-1].memories.ready()  # each with connections of its time
    laptop, desktop = made
    key = await laptop.begins()
    id_ = await laptop.adds("The mill opens at 0.")
    await laptop.syncs()
    carry(made)
    await desktop.begins(key)
    await all_have_all(made)
    for hour in range(1, 5):
        zone.is_set(ended=hour % 2 == 0)
        await made[hour % 2].edits(id_, content=f"The mill opens at {hour}.")
        await made[hour % 2].hears("c1", f"It opens at {hour}, doesn't it?", datetime.now(UTC))
        await all_have_all(made)
        assert [await one.texts() for one in made] == [{id_: f"The mill opens at {hour}."}] * 2
    assert [await one.said("c1") for one in made] == [[f"It opens at {hour}, doesn't it?" for hour in range(1, 5)]] * 2
    assert [(await one.status()).disputed for one in made] == [0, 0]
    assert differences(await laptop.states(), await desktop.states()) == []
    for one in made:
        await one.memories.close()
