"""A law: whatever several machines do, and however their files travel, they end with the same memories."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest
from machines import DAY_US, Machine, all_have_all, carry, differences

from helpers import Database
from pgengram.errors import PgengramError
from pgengram.service.conversations import Conversations
from pgengram.store.sync import state

TEXTS = [f"The {thing} is in the {room}." for thing in ("lamp", "kettle", "ladder") for room in ("cellar", "attic")]
OFF = (0, 365 * DAY_US, -365 * DAY_US)  # one clock a year ahead, one a year back, until somebody sets them


async def act(one: Machine, chance: random.Random, erased: set[str]) -> None:
    """Do one random thing on a machine."""
    ids = one.ids()
    kind = chance.choices(
        ("add", "edit", "tag", "forget", "restore", "erase", "link", "talk", "find"), (5, 5, 3, 2, 1, 1, 4, 5, 1)
    )[0]
    if kind == "talk":
        await talk(one, chance)
        return
    if kind == "add" or not ids:
        await one.adds(chance.choice(TEXTS), tags=chance.sample(["a", "b", "c"], chance.randrange(3)))
        return
    id_, other = chance.choice(ids), chance.choice(ids)
    match kind:
        case "edit":
            await edit(one, chance, id_)
        case "tag":
            await one.edits(id_, add_tags=[chance.choice("abc")], remove_tags=[chance.choice("def")])
        case "forget":
            await one.forgets(id_, reason="gone")
        case "restore":
            await one.edits(id_, status="active")
        case "erase":
            await one.erases(id_)
            erased.add(id_)
        case "link" if id_ != other:
            await (
                one.unlinks(id_, other)
                if chance.random() < 0.25
                else one.links(id_, other, chance.choice(("about", "near")))
            )
        case "find":
            await one.finds("lamp")


async def edit(one: Machine, chance: random.Random, id_: str) -> None:
    """Change a random field of a memory."""
    field = chance.choice(("content", "project", "importance", "metadata"))
    value = {"content": f"{chance.choice(TEXTS)[:-1]} now, {chance.randrange(4)}.", "project": chance.choice(("ark", "mill")),
             "importance": chance.random(), "metadata": {"room": chance.randrange(9)}}[field]  # fmt: skip
    await one.edits(id_, **{field: value})


async def talk(one: Machine, chance: random.Random) -> None:
    """Say something in one of three conversations, or erase it."""
    if chance.random() < 0.15:
        await Conversations(one.memories).erase({"conversation": chance.choice("xyz")})
    else:
        await one.hears(chance.choice("xyz"), f"{chance.choice(TEXTS)} {chance.randrange(9)}")


@pytest.mark.parametrize(
    ("seed", "operations"),
    [
        *((seed, 25) for seed in range(2)),
        *(pytest.param(seed, 2_000, marks=pytest.mark.nightly) for seed in range(2, 202)),
    ],
)
async def test_machines_that_did_anything_in_any_order_end_with_the_same_memories(
    database: Database, tmp_path: Path, seed: int, operations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "USES_EVERY_S", 0)
    chance = random.Random(seed)
    exchanges = max(0.1, 20 / operations)  # as often as they do something; at least twenty times
    machines = [Machine(database, tmp_path / name, name, off) for name, off in zip("abc", OFF, strict=True)]
    key = await machines[0].begins()
    await machines[0].syncs()
    carry(machines)
    for one in machines[1:]:
        await one.begins(key)
    erased: set[str] = set()
    for _ in range(operations):
        one = chance.choice(machines)
        with suppress(PgengramError):  # nothing was changed, as the machine said
            await act(one, chance, erased)
        if chance.random() < exchanges:
            carry(machines, chance)
        if chance.random() < exchanges:
            await (one.is_killed(chance.randrange(30)) if chance.random() < 0.3 else one.syncs())
    for one in machines:
        one.ahead_us = 0
    await all_have_all(machines)
    states = [await one.states() for one in machines]
    assert differences(states[0], states[1]) == []
    assert differences(states[0], states[2]) == []
    for one in machines:
        assert not erased & (await one.texts()).keys()
        await one.memories.close()
