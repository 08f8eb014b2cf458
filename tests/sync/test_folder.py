"""The files that machines exchange: read, damaged, lost, erased, and written by a copy of a store."""

from __future__ import annotations

import errno
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from machines import DAY_US, Machine, all_have_all, carry, differences

from helpers import Database, database_of, nightly
from pgengram.errors import Conflict, DatabaseFailed, InvalidInput, NotReady
from pgengram.inputs import NewMemory, Question
from pgengram.service.core import Core
from pgengram.service.spaces import SpaceManagers
from pgengram.store import membership, persons
from pgengram.store.connection.begin import Member
from pgengram.store.connection.database import Transaction
from pgengram.store.maintenance import namespaces
from pgengram.sync import devices, exchange, files, folder, merging
from pgengram.sync.keys import Key
from pgengram.sync.merging import Document
from pgengram.transfer import import_from

Both = tuple[Machine, Machine]
SECRET = "The alarm code is under the stair."


def contents(folder: Path, key: Key) -> str:
    """Return all that the files of a folder say, to whoever has the key."""
    return "".join(json.dumps(record) for path in folder.rglob("*.sync") for record in files.read(path, key))


def of_memory(folder: Path, key: Key, id_: str) -> list[tuple[Path, dict[str, Any]]]:
    """Return the records of a memory in the files of a folder, each with its file."""
    found = [(path, record) for path in sorted(folder.rglob("0*.sync")) for record in files.read(path, key)]
    return [(path, record) for path, record in found if record["key"] == id_]


async def test_what_is_in_the_folder_tells_nothing_without_the_key(both: Both) -> None:
    laptop, _ = both
    await laptop.adds(SECRET)
    await laptop.syncs()
    written = [path for path in laptop.folder.rglob("*") if path.is_file()]
    assert len(written) >= 2
    for path in written:
        assert b"alarm" not in path.read_bytes()
        assert "laptop" not in str(path.relative_to(laptop.folder))
        with pytest.raises(files.Unreadable, match="another key"):
            list(files.read(path, Key.new()))


async def test_a_machine_joins_only_with_the_code_and_once(database: Database, both: Both, tmp_path: Path) -> None:
    laptop, _ = both
    third = Machine(database, laptop.folder, "third")
    with pytest.raises(InvalidInput, match="nothing of that code"):
        await third.begins(Key.new())
    with pytest.raises(InvalidInput, match="not a whole pairing code"):
        Key.from_code("ABCD-EFGH")
    with pytest.raises(Conflict, match="already"):
        await laptop.begins()
    third.folder = tmp_path / "nowhere"
    with pytest.raises(InvalidInput, match="no folder"):
        await third.begins()
    await third.memories.close()


@pytest.mark.parametrize("harm", ["half", "newer", "another memory's", *nightly("byte")])
async def test_a_file_that_cannot_be_read_waits_and_the_others_are_read(both: Both, harm: str) -> None:
    laptop, desktop = both
    await laptop.adds("The first boat is blue.")
    await laptop.syncs()
    await laptop.adds("The second boat is green.")
    await laptop.syncs()
    carry(both)
    damaged = sorted(desktop.folder.rglob("0*.sync"))[0]
    whole = damaged.read_bytes()
    harmed = {"half": whole[: len(whole) // 2], "byte": whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
              "newer": whole.replace(b'"format": 1', b'"format": 2')}.get(harm)  # fmt: skip
    if harmed is None:
        files.write(damaged, Key.new(), [{"kind": "memory", "key": "x", "state": {}}], {"at": 0})
    else:
        damaged.write_bytes(harmed)
    outcome = await desktop.syncs()
    assert list(outcome.unread) == [f"{damaged.parent.name}/{damaged.name}"]
    [why] = outcome.unread.values()
    assert ("of format 2, which pgengram" in why) == (harm == "newer")
    assert ("another key" in why) == (harm in ("byte", "another memory's"))
    assert ("Update pgengram" if harm == "newer" else "copy it again") in why
    assert await desktop.finds("boat") == ["The second boat is green."]
    assert (await desktop.status()).unread == outcome.unread
    assert (await desktop.syncs()).unread == outcome.unread  # which is not read again before it changes
    await desktop.adds("The third boat is red.")
    assert (await desktop.syncs()).written == 1
    damaged.write_bytes(whole)
    await all_have_all(both)
    assert len(await desktop.finds("boat")) == 3


async def test_what_other_programs_put_beside_is_passed_over(both: Both) -> None:
    laptop, desktop = both
    await laptop.adds("The first boat is blue.")
    await laptop.syncs()
    carry(both)
    for path in list(desktop.folder.rglob("*.sync")):
        for name in (
            ".DS_Store",
            f"{path.stem} (1).sync",
            f"{path.stem}.sync-conflict-20261128-101010.sync",
            "Thumbs.db",
        ):
            path.with_name(name).write_bytes(b"no")
    assert (await desktop.syncs()).unread == {}
    assert await desktop.finds("boat") == ["The first boat is blue."]


async def test_erased_text_leaves_all_machines_their_tables_and_their_files(both: Both) -> None:
    laptop, desktop = both
    id_ = await laptop.adds(SECRET)
    other = await laptop.adds("The stair is oak.")
    await laptop.links(other, id_)
    await all_have_all(both)
    await desktop.edits(id_, content=SECRET + " Really.")
    await laptop.edits(id_, content=SECRET + " It is 1234.")
    await all_have_all(both)  # each has what the other wrote at the same time
    old = {path: path.read_bytes() for path in laptop.folder.rglob("0*.sync")}
    key = Key((await laptop.exchange_settings()).secret)
    assert "alarm" in contents(desktop.folder, key)
    await desktop.edits(id_, project="house")
    await laptop.erases(id_)
    assert laptop.where("alarm") == []
    await laptop.syncs()
    assert [one.name for one in (await laptop.status()).devices if one.behind] == ["desktop"]
    await all_have_all(both)
    for one in both:
        assert list(await one.texts()) == [other]
        assert one.where("alarm") == []
        assert "alarm" not in contents(one.folder, key)
        assert not any(device.behind for device in (await one.status()).devices)
    for path, data in old.items():  # an old file turns up again
        path.with_name(f"999999999999-{path.name[13:]}").write_bytes(data)
    await all_have_all(both)
    assert [list(await one.texts()) for one in both] == [[other], [other]]
    assert [one.where("alarm") for one in both] == [[], []]


async def test_exchanging_again_and_again_writes_nothing(both: Both) -> None:
    laptop, _ = both
    id_ = await laptop.adds("The first boat is blue.")
    await laptop.adds("The second boat is green.")
    await all_have_all(both)
    await laptop.erases(id_)
    await all_have_all(both)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in laptop.folder.rglob("*.sync"))
    for _ in range(20):
        for one in both:
            outcome = await one.syncs()
            assert (outcome.taken, outcome.written, outcome.erased) == (0, 0, 0)
        carry(both)
    assert sorted((path.name, path.stat().st_mtime_ns) for path in laptop.folder.rglob("*.sync")) == before


async def test_files_of_ours_that_somebody_deleted_are_written_again(both: Both) -> None:
    laptop, desktop = both
    await laptop.adds("The first boat is blue.")
    await laptop.syncs()
    for path in laptop.folder.rglob("0*.sync"):
        path.unlink()
    await laptop.adds("The second boat is green.")
    await laptop.syncs()
    await all_have_all(both)
    assert len(await desktop.texts()) == 2


@pytest.mark.parametrize("lost", ["killed", "deleted"])
async def test_what_was_erased_is_said_until_every_machine_can_read_it(
    both: Both, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desktop = both
    id_ = await laptop.adds(SECRET)
    await all_have_all(both)
    await laptop.erases(id_)
    if lost == "killed":  # after the change was written down

        async def killed(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("pgengram.sync.exchange._Run._write_erased", killed)
            with pytest.raises(KeyboardInterrupt):
                await laptop.syncs()
        laptop.restarted()
    else:
        await laptop.syncs()
        [told] = laptop.folder.rglob("erased.sync")
        told.unlink()
    await all_have_all(both)
    assert await desktop.texts() == {}
    assert desktop.where("alarm") == []


async def test_many_small_files_become_one(both: Both) -> None:
    laptop, desktop = both
    for number in range(60):
        await laptop.adds(f"Boat {number} is blue.")
        await laptop.syncs()
    assert len(list(laptop.folder.rglob("0*.sync"))) < 20
    await all_have_all(both)
    assert len(await desktop.texts()) == 60


async def test_so_many_files_become_one_that_no_disk_is_too_slow_for_it(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desktop = both
    whole, join = exchange._alone, folder.Folder.join
    patience, joined = set(), []

    @asynccontextmanager
    async def watched(core: Core) -> AsyncIterator[Transaction]:
        async with whole(core) as tx:
            before = len(list(laptop.folder.rglob("0*.sync")))
            yield tx
            if len(list(laptop.folder.rglob("0*.sync"))) != before:
                row = await tx.row("SELECT current_setting('idle_in_transaction_session_timeout') AS said")
                patience.add(row and row["said"])

    def noted(self: folder.Folder, parts: list[folder.File]) -> Any:
        joined.append(sum(part.size for part in parts))
        return join(self, parts)

    for number in range(130):
        await laptop.adds(f"Boat {number} is blue.")
    with monkeypatch.context() as patch:
        patch.setattr(exchange, "_alone", watched)
        patch.setattr(exchange, "WRITTEN_AT_ONCE", 2)
        patch.setattr(folder.Folder, "join", noted)
        patch.setattr(folder, "JOINED_BYTES", 10_000)
        await laptop.syncs()
    assert patience == {"5min"}
    assert len(joined) > 1
    assert max(joined) <= 10_000
    assert len(list(laptop.folder.rglob("0*.sync"))) <= folder.MANY
    await all_have_all(both)
    assert len(await desktop.texts()) == 130


@pytest.mark.parametrize("step", ["write", "note", *nightly("keep")])
async def test_an_exchange_that_is_killed_leaves_no_gap_and_nothing_twice(
    both: Both, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desktop = both
    await laptop.adds("The first boat is blue.")

    async def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "write":
            patch.setattr(
                "pgengram.sync.folder.Folder.write", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
            )
        else:
            name = {"keep": "keep", "note": "written_down"}[step]
            patch.setattr(f"pgengram.store.sync.state.{name}", killed)
        with pytest.raises(KeyboardInterrupt):
            await laptop.syncs()
    laptop.restarted()
    await all_have_all(both)
    assert list((await desktop.texts()).values()) == ["The first boat is blue."]
    await laptop.edits(next(iter(await laptop.texts())), content="The first boat is white.")
    await all_have_all(both)
    assert (await desktop.status()).disputed == 0
    assert differences(await laptop.states(), await desktop.states()) == []


async def test_a_change_that_was_written_down_though_its_transaction_failed_gives_way_to_the_next_one(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desktop = both
    id_ = await laptop.adds("The mill opens at 9.")
    await all_have_all(both)
    await laptop.edits(id_, content="The mill opens at 8.")

    async def failed(*_: Any) -> None:
        raise DatabaseFailed("The connection is gone.")

    with monkeypatch.context() as patch:
        patch.setattr("pgengram.store.sync.state.written_down", failed)
        with pytest.raises(DatabaseFailed):
            await laptop.syncs()
    carry(both)
    await desktop.syncs()
    assert await desktop.texts() == {id_: "The mill opens at 8."}
    await laptop.edits(id_, content="The mill opens at 7.")
    await all_have_all(both)
    assert await desktop.texts() == {id_: "The mill opens at 7."}
    assert differences(await laptop.states(), await desktop.states()) == []


async def test_a_folder_that_is_away_or_full_stops_nothing_and_status_says_so(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desktop = both
    away = laptop.folder.rename(laptop.folder.with_name("away"))
    await laptop.adds("The first boat is blue.")
    assert "is not there" in str((await laptop.syncs()).problem)
    assert (await laptop.status()).changes >= 1
    away.rename(laptop.folder)

    for call, number, said in (
        ("fsync", errno.ENOSPC, "No space left on device"), ("open", errno.EROFS, "Read-only file system"),
    ):  # fmt: skip
        await desktop.adds(f"The {call} boat is green.")
        await desktop.syncs()
        carry(both)

        def refused(*_: Any, number: int = number, said: str = said) -> None:
            raise OSError(number, said, "x")

        with monkeypatch.context() as patch:
            patch.setattr(f"os.{call}", refused)
            outcome = await laptop.syncs()
        assert said in str(outcome.problem)
        assert said in str((await laptop.status()).problem)
        assert outcome.taken > 0  # what the others wrote is read all the same
        assert f"The {call} boat is green." in await laptop.finds("boat")
        assert list(laptop.folder.rglob("*.part")) == []
    await all_have_all(both)
    assert (await laptop.status()).problem is None
    assert len(await desktop.finds("boat")) == 3


async def test_a_store_that_was_restored_from_a_backup_gets_back_what_it_had_written(
    postgres: str, both: Both, database: Database
) -> None:
    laptop, desktop = both
    id_ = await laptop.adds("The first boat is blue.")
    await all_have_all(both)
    for one in both:
        await one.memories.close()
    with database_of(postgres, database.as_template()) as copy:
        await laptop.edits(id_, content="The first boat is white.")
        await laptop.adds("The second boat is green.")
        await laptop.syncs()
        old = Machine(copy, laptop.folder, "laptop", namespace=laptop.namespace)
        await old.edits(id_, project="harbour")
        await old.adds("The third boat is red.")
        await old.syncs()
        assert sorted((await old.texts()).values()) == [
            "The first boat is white.", "The second boat is green.", "The third boat is red.",
        ]  # fmt: skip
        await all_have_all([old, desktop])
        assert differences(await old.states(), await desktop.states()) == []
        await old.memories.close()


async def test_two_copies_of_one_data_folder_become_two_machines(postgres: str, both: Both, database: Database) -> None:
    laptop, desktop = both
    await laptop.adds("The first boat is blue.")
    await all_have_all(both)
    for one in both:
        await one.memories.close()
    with database_of(postgres, database.as_template()) as copy:
        twin = Machine(copy, laptop.folder, "laptop", namespace=laptop.namespace)
        await laptop.adds("The second boat is green.")
        await twin.adds("The third boat is red.")
        for _ in range(3):
            await twin.syncs()
            await laptop.syncs()
        assert len({(await one.exchange_settings()).device for one in (laptop, twin)}) == 2
        await all_have_all([laptop, twin, desktop])
        assert len(await desktop.finds("boat")) == 3
        assert differences(await laptop.states(), await twin.states()) == []
        await twin.memories.close()


async def test_a_clock_that_is_a_year_ahead_wins_over_nobody(both: Both) -> None:
    laptop, desktop = both
    id_ = await laptop.adds("The mill opens at 9.")
    await all_have_all(both)
    laptop.ahead_us = 365 * DAY_US
    await laptop.edits(id_, content="The mill opens at 8.")
    await laptop.syncs()
    carry(both)
    outcome = await desktop.syncs()
    assert "more than a day ahead" in next(iter(outcome.unread.values()))
    assert await desktop.finds("mill") == ["The mill opens at 9."]
    laptop.ahead_us = 0
    await all_have_all(both)
    assert await desktop.finds("mill") == ["The mill opens at 8."]
    await desktop.edits(id_, content="The mill opens at 10.")
    await all_have_all(both)
    assert await laptop.finds("mill") == ["The mill opens at 10."]


@pytest.mark.parametrize("jump", ["a year back", *nightly("asleep", "an hour back")])
async def test_what_was_written_after_something_else_was_seen_holds_whatever_clocks_say(both: Both, jump: str) -> None:
    laptop, desktop = both
    by_us = {"a year back": -365 * DAY_US, "asleep": DAY_US // 3, "an hour back": -DAY_US // 24}[jump]
    id_ = await laptop.adds("The mill opens at 0.")
    await all_have_all(both)
    for hour in range(1, 7):
        one = both[hour % 2]
        await one.edits(id_, content=f"The mill opens at {hour}.")
        one.ahead_us += by_us  # while its process runs on
        await one.syncs()
        one.ahead_us -= by_us if hour % 3 else 0
        if jump == "a year back":
            one.ahead_us = 0
        await all_have_all(both)
        assert [await machine.texts() for machine in both] == [{id_: f"The mill opens at {hour}."}] * 2
    assert [(await one.status()).disputed for one in both] == [0, 0]
    assert differences(await laptop.states(), await desktop.states()) == []


async def test_what_a_newer_version_knows_waits_and_is_lost_on_neither_machine(both: Both) -> None:
    laptop, desktop = both
    id_ = await laptop.adds("The mill opens at 9.")
    other = await laptop.adds("The ladder is in the cellar.")
    await laptop.links(id_, other)
    await all_have_all(both)
    key = Key((await laptop.exchange_settings()).secret)
    [(path, record)] = of_memory(laptop.folder, key, id_)
    [(stamp, writer, number, _, _)] = record["state"]["entries"]["type"]
    record["state"]["entries"]["mood"] = [[stamp, writer, number + 1, None, "cheerful"]]
    record["state"]["seen"][writer] = number + 1
    newer = path.with_name(f"000000009999-{path.name[13:]}")
    files.write(newer, key, [record], {"at": 0, "version": "99.1"})
    carry(both)
    outcome = await desktop.syncs()
    [(name, why)] = outcome.unread.items()
    assert name.endswith(newer.name)
    assert "mood" in why
    assert "pgengram 99.1" in why
    assert (await desktop.status()).unread == outcome.unread
    await desktop.edits(id_, content="The mill opens at 10.")
    assert (await desktop.syncs()).written == 1
    merged = Document()
    for _, told in of_memory(desktop.folder, key, id_):
        merged = merging.merged(merged, Document.from_json(told["state"]))
    assert merged.shown()["mood"] == "cheerful"
    assert merged.shown()["content"] == "The mill opens at 10."


async def test_each_machine_makes_vectors_by_its_own_embedder(database: Database, both: Both, tmp_path: Path) -> None:
    laptop, _ = both
    desktop = Machine(database, tmp_path / "home", "home", embedder="builtin:")
    await desktop.memories.ready()
    ids = [await laptop.adds(text) for text in ("The kettle leaks.", "The ladder is in the cellar.")]
    await laptop.syncs()
    carry([laptop, desktop])
    await desktop.begins(Key((await laptop.exchange_settings()).secret))
    await all_have_all([laptop, desktop])

    async def means(words: str) -> str:
        found = await desktop.memories.search_memories(Question(query=words, mode="semantic"))
        return str(found.results[0]["content"])

    assert await means("Something drips in the kitchen") == "The kettle leaks."
    await laptop.edits(ids[1], content="The dog has to see a vet.")
    await all_have_all([laptop, desktop])
    assert await means("a sick pet") == "The dog has to see a vet."
    vectors = "SELECT count(*) FROM memory_vectors"
    assert [database.value(vectors, namespace=one.namespace) for one in (laptop, desktop)] == [0, 2]
    await desktop.memories.close()


async def test_who_leaves_keeps_all_and_hears_nothing_more(both: Both) -> None:
    laptop, desktop = both
    await laptop.adds("The first boat is blue.")
    await all_have_all(both)
    await devices.end(desktop.memories)
    await laptop.adds("The second boat is green.")
    await laptop.syncs()
    carry(both)
    assert await desktop.exchange.run() is None
    assert await desktop.finds("boat") == ["The first boat is blue."]
    gone = await devices.forget(laptop.memories, "desktop")
    assert gone.name == "desktop"
    assert [one.name for one in (await laptop.status()).devices] == ["laptop"]


async def test_an_erased_namespace_is_erased_on_all_machines(both: Both) -> None:
    laptop, desktop = both
    await laptop.adds(SECRET)
    await laptop.hears("c1", SECRET)
    await all_have_all(both)
    database = laptop.memories.store.database
    key = await namespaces.namespace_key(database, laptop.namespace)
    away = laptop.folder.rename(laptop.folder.with_name("away"))
    with pytest.raises(NotReady, match="would not hear of it"):
        await devices.erase_elsewhere(database, key, laptop.data)
    away.rename(laptop.folder)
    await devices.erase_elsewhere(database, key, laptop.data)
    await namespaces.take_away_namespace(database, laptop.namespace)
    for _ in range(2):
        carry(both)
        await desktop.syncs()
    assert await desktop.texts() == {}
    assert desktop.where("alarm") == []


async def test_what_was_erased_is_not_imported_again_while_machines_exchange(both: Both, tmp_path: Path) -> None:
    laptop, _ = both
    await laptop.adds(SECRET)
    file = tmp_path / "all.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in await laptop.lines()))
    with pytest.raises(InvalidInput, match="erased on the other machines"):
        await import_from(
            laptop.memories, "jsonl", str(file), dry_run=False, report=lambda *_: None, restore_erased=True
        )


async def test_a_damaged_file_of_ours_that_comes_back_stops_no_exchange(both: Both) -> None:
    laptop, desktop = both
    await laptop.adds("The first boat is blue.")
    await laptop.syncs()
    [first] = [path for path in laptop.folder.rglob("0*.sync") if path.parent.name == laptop.device]
    half = first.read_bytes()[: first.stat().st_size // 2]
    first.with_name(f"000000000000-{first.name[13:]}").write_bytes(half)
    for number in range(60):
        await laptop.adds(f"Boat {number} is green.")
        assert (await laptop.syncs()).problem is None
    carry(both)
    await desktop.syncs()
    assert len(await desktop.texts()) == 61


async def test_a_space_that_people_share_is_exchanged_by_its_server_alone(both: Both, tmp_path: Path) -> None:
    laptop, desktop = both
    store = laptop.memories.store
    mara = await persons.add(store, "mara", laptop.namespace)
    space = await membership.create(store, "Kitchen", mara)
    async with SpaceManagers(laptop.memories).of(space, Member(mara.id)) as kitchen:
        with pytest.raises(InvalidInput, match="share"):
            await devices.begin(kitchen, str(tmp_path), None, "laptop")
        await kitchen.create_memory(NewMemory(content="The oven of the kitchen is new."))
    await laptop.adds("The oven at home is old.")
    await all_have_all(both)
    key = Key((await laptop.exchange_settings()).secret)
    told = contents(laptop.folder, key)
    assert "oven at home" in told
    assert "oven of the kitchen" not in told
    assert await desktop.finds("oven") == ["The oven at home is old."]


async def test_two_memories_in_one_folder_know_nothing_of_each_other(database: Database, both: Both) -> None:
    laptop, _ = both
    await laptop.adds("The first boat is blue.")
    await laptop.syncs()
    other = Machine(database, laptop.folder, "other")
    await other.begins()
    await other.adds("The second boat is green.")
    for one in (laptop, other, laptop, other):
        outcome = await one.syncs()
        assert (outcome.taken, outcome.unread, outcome.problem) == (0, {}, None)
    assert await other.finds("boat") == ["The second boat is green."]
    assert [device.name for device in (await other.status()).devices] == ["other"]
    await other.memories.close()


async def test_an_export_that_is_imported_on_the_other_machine_is_the_same_memory(both: Both, tmp_path: Path) -> None:
    laptop, desktop = both
    names = ("edited", "forgotten", "erased", "kept")
    ids = {name: await laptop.adds(f"The {name} boat is blue.") for name in names}
    file = tmp_path / "all.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in await laptop.lines()))

    async def imports() -> None:
        await import_from(desktop.memories, "jsonl", str(file), dry_run=False, report=lambda *_: None)

    await imports()  # before the machines heard of each other
    await all_have_all(both)
    assert (await desktop.texts()).keys() == set(ids.values())
    assert (await laptop.status()).disputed == (await desktop.status()).disputed == 0
    await laptop.edits(ids["edited"], content="The edited boat is white.")
    await laptop.forgets(ids["forgotten"])
    await laptop.erases(ids["erased"])
    for late in (False, True):  # the old file comes before what was done since, and after that
        if late:
            await all_have_all(both)
        await imports()
        await all_have_all(both)
        # An export doesn't name the machine on which something was done.
        assert differences(await laptop.states("laptop"), await desktop.states("laptop")) == []
        for one in both:
            assert sorted(await one.finds("boat")) == ["The edited boat is white.", "The kept boat is blue."]
            assert ids["erased"] not in await one.texts()


async def test_a_machine_that_joins_is_searched_meanwhile(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    laptop, desktop = both
    await laptop.memories.create_memories(
        [{"content": f"Boat {number} is blue.", "dedup_policy": "insert"} for number in range(450)]
    )
    await desktop.adds("The ladder is in the cellar.")
    await laptop.syncs()
    carry(both)
    whole, found = exchange._alone, []

    @asynccontextmanager
    async def searched(core: Core) -> AsyncIterator[Transaction]:
        async with whole(core) as tx:
            yield tx
            found.append(await desktop.finds("ladder"))  # before what it has taken is committed

    monkeypatch.setattr(exchange, "_alone", searched)
    assert (await desktop.syncs()).taken >= 450
    assert len(found) > 5
    assert found == [["The ladder is in the cellar."]] * len(found)
    assert len(await desktop.texts()) == 451
