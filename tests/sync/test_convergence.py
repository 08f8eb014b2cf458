"""A law: whatever several machines do, and however their files travel, they end with the same memories, and lose none."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from machines import DAY_US, Machine, all_have_all, carry, differences
from replays import draw_ids_from, wait_on_the_spot

from helpers import Database
from pgengram.errors import PgengramError
from pgengram.runtime.context import ACTOR
from pgengram.service.conversations import Conversations
from pgengram.store.sync import rows, state
from pgengram.sync.merging import TAG

TEXTS = [f"The {thing} is in the {room}." for thing in ("lamp", "kettle", "ladder") for room in ("cellar", "attic")]
OFF = (0, 365 * DAY_US, -365 * DAY_US)  # one clock a year ahead, one a year back, until somebody sets them
ASSISTANTS = ("claude-code", "codex", "")  # the last says no name
KINDS = {"add": 5, "edit": 5, "tag": 3, "forget": 2, "restore": 1, "erase": 1, "link": 4, "talk": 5, "find": 1}


@dataclass
class Ledger:
    """What a person was told that is done: memories that were stored and erased, how often each was edited, and what was
    said in conversations and erased there. refused: messages of what was not done.
    """

    stored: set[str] = field(default_factory=set)
    erased: set[str] = field(default_factory=set)
    edits: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    said: set[str] = field(default_factory=set)
    unsaid: set[str] = field(default_factory=set)
    number: count[int] = field(default_factory=count)
    done: count[int] = field(default_factory=count)


async def act(one: Machine, chance: random.Random, ledger: Ledger) -> None:
    """Do one random thing on a machine, as one of a person's assistants."""
    ACTOR.set(ASSISTANTS[next(ledger.done) % 3])
    [kind] = chance.choices(list(KINDS), list(KINDS.values()))
    if kind == "talk":
        await talk(one, chance, ledger)
        return
    ids = await one.ids()
    if kind == "add" or not ids:
        tags = chance.sample(["a", "b", "c"], chance.randrange(3))
        ledger.stored.add(await one.adds(chance.choice(TEXTS), tags=tags))
        return
    id_, other = chance.choice(ids), chance.choice(ids)
    match kind:
        case "edit":
            ledger.edits[id_] += await edit(one, chance, id_)
        case "tag":
            await one.edits(id_, add_tags=[chance.choice("abc")], remove_tags=[chance.choice("def")])
        case "forget":
            await one.forgets(id_, reason="gone")
        case "restore":
            await one.edits(id_, status="active")
        case "erase":
            await one.erases(id_)
            ledger.erased.add(id_)
        case "link" if id_ != other:
            await (
                one.unlinks(id_, other)
                if chance.random() < 0.25
                else one.links(id_, other, chance.choice(("about", "near")))
            )
        case "find":
            await one.finds("lamp")
            await one.memories.accesses.flush()  # rather than two seconds later, wherever it is by then


async def edit(one: Machine, chance: random.Random, id_: str) -> bool:
    """Change a random field of a memory, and return whether it was not so before."""
    field = chance.choice(("content", "project", "importance", "metadata"))
    value = {"content": f"{chance.choice(TEXTS)[:-1]} now, {chance.randrange(4)}.", "project": chance.choice(("ark", "mill")),
             "importance": chance.random(), "metadata": {"room": chance.randrange(9)}}[field]  # fmt: skip
    return await one.edits(id_, **{field: value})


async def talk(one: Machine, chance: random.Random, ledger: Ledger) -> None:
    """Say something new in one of three conversations, or erase it."""
    conversation = chance.choice("xyz")
    if chance.random() < 0.1:
        heard = await one.said(conversation)
        await Conversations(one.memories).erase({"conversation": conversation})
        ledger.unsaid.update(heard)
    else:
        text = f"{chance.choice(TEXTS)} {next(ledger.number)}"
        await one.hears(conversation, text)
        ledger.said.add(text)


async def check(machines: list[Machine], ledger: Ledger) -> None:
    """Make sure that the machines have the same, have all that was stored and said, and nothing that was erased."""
    states = [await one.states() for one in machines]
    assert differences(states[0], states[1]) == []
    assert differences(states[0], states[2]) == []
    for one in machines:
        lines = await one.lines()
        memories = {line["id"]: line for line in lines if line["record"] == "memory"}
        assert memories.keys() == ledger.stored - ledger.erased
        updates = {id_: sum(row["operation"] == "update" for row in line["history"]) for id_, line in memories.items()}
        assert [id_ for id_, number in updates.items() if number < ledger.edits[id_]] == []
        texts = {line["text"] for line in lines if line["record"] == "turn"}
        assert texts & ledger.unsaid == set()
        assert ledger.said - ledger.unsaid - texts == set()


@pytest.mark.parametrize(
    ("seed", "operations"),
    [
        (0, 25),
        *(pytest.param(seed, 2_000, marks=pytest.mark.nightly) for seed in range(1, 202)),
    ],
)
async def test_machines_that_did_anything_in_any_order_end_with_the_same_memories(
    database: Database, tmp_path: Path, seed: int, operations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One seed: three machines, each a store and a folder of its own, do this many things in random order.

    They store (often the same text on two of them), edit, tag, forget, restore, erase, link, unlink, search, and say things
    in the same conversations. The clock of one is a year ahead, that of another a year back. After one thing in twenty, each
    file is carried to each other machine with a chance of a half; of those one in five is only half there, and two in five
    have a second copy beside them. After one in twenty the machine exchanges, and of these exchanges three in ten are killed
    at one of its first thirty steps: before a transaction or before that is committed. At the end the clocks are set, and all exchange until
    nothing is new. Then all have the same rows, done by the same assistants on the same machines; each memory that was stored and not erased, with as many edits in its
    history as were made; each turn that was said and not erased; and nothing that was erased.
    """
    monkeypatch.setattr(state, "USES_EVERY_S", 0)
    monkeypatch.setattr("os.fsync", lambda _: None)  # who is killed here still has a disk that works
    draw_ids_from(seed, database, monkeypatch)
    wait_on_the_spot(database, monkeypatch)
    chance = random.Random(seed)
    exchanges = max(0.05, 20 / operations)  # as often as they do something; at least twenty times
    machines = [Machine(database, tmp_path / name, name, off) for name, off in zip("abc", OFF, strict=True)]
    key = await machines[0].begins()
    await machines[0].syncs()
    carry(machines)
    for one in machines[1:]:
        await one.begins(key)
    ledger = Ledger()
    for _ in range(operations):
        one = chance.choice(machines)
        try:
            await act(one, chance, ledger)
        except PgengramError as error:  # nothing was changed, as the machine said
            ledger.refused[error.message] += 1
        if chance.random() < exchanges:
            carry(machines, chance)
        if chance.random() < exchanges:
            await (one.is_killed(chance.randrange(30)) if chance.random() < 0.3 else one.syncs())
    for one in machines:
        one.ahead_us = 0
    await all_have_all(machines)
    await check(machines, ledger)
    assert ledger.refused.total() < operations / 3  # mostly what is not active any more
    for one in machines:
        await one.memories.close()


async def two_machines(database: Database, folder: Path) -> list[Machine]:
    """Return two machines of a person, each with a folder of its own, that know each other."""
    here, there = (Machine(database, folder / name, name) for name in "ab")
    key = await here.begins()
    await here.syncs()
    carry([here, there])
    await there.begins(key)
    return [here, there]


async def tags_on(one: Machine) -> list[str]:
    """Return the tags of a machine's only memory, in order."""
    [tags] = [line["tags"] for line in await one.lines() if line["record"] == "memory"]
    return list(tags)


@pytest.mark.parametrize("given", [["x", "y"], ["y", "x"]])
async def test_tags_that_were_put_in_order_on_one_machine_stand_so_on_the_other(
    database: Database, tmp_path: Path, given: list[str]
) -> None:
    """Two machines give one place to two tags, and the alphabet says which is first, until a person does."""
    here, there = machines = await two_machines(database, tmp_path)
    lamp = await here.adds("The lamp is in the cellar.")
    await all_have_all(machines)
    await here.edits(lamp, add_tags=["x"])
    await there.edits(lamp, add_tags=["y"])
    await all_have_all(machines)
    assert [await tags_on(one) for one in machines] == [["x", "y"]] * 2

    await there.edits(lamp, tags=given[::-1])
    await there.edits(lamp, tags=given)
    await all_have_all(machines)

    assert [await tags_on(one) for one in machines] == [given] * 2
    assert await here.states() == await there.states()
    for one in machines:
        await one.memories.close()


async def test_tags_that_were_put_in_order_by_nobody_are_no_change(database: Database, tmp_path: Path) -> None:
    here, there = machines = await two_machines(database, tmp_path)
    lamp = await here.adds("The lamp is in the cellar.")
    await all_have_all(machines)
    await here.edits(lamp, add_tags=["x"])
    await there.edits(lamp, add_tags=["y"])
    await all_have_all(machines)
    before = [await written_of_tags(one, lamp) for one in machines]

    await there.edits(lamp, project="ark")
    await all_have_all(machines)
    await here.edits(lamp, project="mill")
    await all_have_all(machines)

    assert [await written_of_tags(one, lamp) for one in machines] == before
    for one in machines:
        await one.memories.close()


async def written_of_tags(one: Machine, id_: str) -> dict[str, list[object]]:
    """Return the entries of a memory's tags, as a machine keeps them."""
    async with one.memories.store.transaction() as tx:
        found, _ = await state.documents(tx, state.MEMORY, [id_])
    return {name: entries for name, entries in found[id_]["entries"].items() if name.startswith(TAG)}


async def test_what_a_row_came_to_say_by_itself_is_told(database: Database, tmp_path: Path) -> None:
    """No trigger saw the change of the one, when the other's arrives."""
    here, there = machines = await two_machines(database, tmp_path)
    lamp = await here.adds("The lamp is in the cellar.")
    link = [await here.adds("The ladder is in the attic."), lamp]
    await here.links(*link, strength=0.5)
    await all_have_all(machines)
    async with here.memories.store.transaction() as tx:
        await rows.silently(tx, on=True)
        await tx.run("UPDATE memories SET project = 'ark' WHERE id = %(id)s", {"id": lamp})
        await tx.run('UPDATE memory_relationships SET properties = \'{"why": "itself"}\'')
    await there.edits(lamp, importance=0.9)
    await there.links(*link, strength=0.7)

    await all_have_all(machines)

    assert await here.states() == await there.states()
    assert "ark" in str(await there.lines())
    for one in machines:
        await one.memories.close()


async def test_a_memory_that_two_machines_gave_more_tags_than_one_call_gives_is_exchanged_and_changed(
    database: Database, tmp_path: Path
) -> None:
    here, there = machines = await two_machines(database, tmp_path)
    lamp = await here.adds("The lamp is in the cellar.")
    await all_have_all(machines)
    ours, theirs = ([f"{name}{n}" for n in range(12)] for name in "ab")
    await here.edits(lamp, add_tags=ours)
    await there.edits(lamp, add_tags=theirs)
    for one in machines:  # the same was stored on both, too
        await one.adds("The ladder is in the attic.", tags=ours if one is here else theirs)
    await all_have_all(machines)

    await here.edits(lamp, project="ark")
    await there.edits(lamp, remove_tags=["a0"], add_tags=["mine"])
    await all_have_all(machines)

    assert await here.states() == await there.states()
    kept = {line["content"]: set(line["tags"]) for line in await here.lines() if line.get("status") == "active"}
    assert kept == {
        "The lamp is in the cellar.": {*ours[1:], *theirs, "mine"},
        "The ladder is in the attic.": {*ours, *theirs},
    }
    for one in machines:
        await one.memories.close()
