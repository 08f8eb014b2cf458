"""An import that is undone on one machine is gone from all, and is there again on all when its file is imported once more."""

from __future__ import annotations

from pathlib import Path

from machines import Machine, all_have_all, differences
from test_conversations_travel import written

from helpers import Database
from pgengram.inputs import Change, NewMemory
from pgengram.store.recovery import imports
from pgengram.transfer import import_from


async def brought(one: Machine, file: Path) -> None:
    await import_from(one.memories, "jsonl", str(file), dry_run=False, report=lambda *_: None)


async def undone(one: Machine) -> imports.Undo:
    async with one.memories.store.transaction() as tx:
        shown = await imports.planned_undo(tx, (await imports.find_import(tx))["id"])
        return await imports.undo_as_shown(tx, shown.row["id"], shown.fingerprint)


async def active(one: Machine) -> list[str]:
    async with one.memories.store.transaction() as tx:
        return sorted(row["content"] for row in await tx.rows("SELECT content FROM memories WHERE status = 'active'"))


async def test_an_undo_and_a_second_import_travel(
    both: tuple[Machine, Machine], database: Database, tmp_path: Path
) -> None:
    laptop, desktop = both
    old = Machine(database, tmp_path / "old", "old")
    await old.hears("c1", "Where is the lamp?")
    for text in ("The lamp is in the shed.", "The ladder is oak.", "The stair creaks."):
        await old.memories.create_memory(NewMemory(content=text))
    file = written(tmp_path, await old.lines())
    await old.memories.close()
    await brought(laptop, file)
    await all_have_all(both)
    async with desktop.memories.store.transaction() as tx:
        row = await tx.row("SELECT id FROM memories WHERE content = 'The ladder is oak.'")
    await desktop.memories.update_memory(Change(id=str(row["id"]), importance=0.9))
    await all_have_all(both)

    shown = await undone(laptop)
    await all_have_all(both)

    assert sorted(row["content"] for row in shown.taken) == ["The lamp is in the shed.", "The stair creaks."]
    assert [await active(one) for one in both] == [["The ladder is oak."]] * 2
    assert [await one.said("c1") for one in both] == [[], []]
    await brought(laptop, file)
    await all_have_all(both)
    assert [await active(one) for one in both] == [
        ["The ladder is oak.", "The lamp is in the shed.", "The stair creaks."]
    ] * 2
    assert [await one.said("c1") for one in both] == [["Where is the lamp?"]] * 2
    assert differences(await laptop.states(), await desktop.states()) == []
