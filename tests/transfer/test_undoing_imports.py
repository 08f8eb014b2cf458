"""An import is undone as it was shown: what nobody has touched since goes, the rest stays and is named, and the same file brings all back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from transcript_lines import chain, said, written

from helpers import Database, examples
from machine import answered, has_terminals, pgengram, typed_in_a_terminal
from pgengram.errors import ConfirmRequired, NotFound
from pgengram.inputs import Change, NewMemory
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.clusters import Clusters, NewCluster
from pgengram.service.toolsets.graph import Graph
from pgengram.settings import Settings
from pgengram.store.recovery import imports
from pgengram.transfer import export_to
from pgengram.transfer.importing import import_from
from pgengram.transfer.report import Imported

WORDS = {"embedder": "none:"}
TEXTS = ["We chose Vitest.", "The bakery opens at nine.", "Ada moved to Graz.", "The ferry leaves from pier 4."]


@pytest.fixture
async def manager(database: Database) -> AsyncIterator[MemoryManager]:
    manager = MemoryManager(Settings(database_url=database.url, **WORDS))
    yield manager
    await manager.close()


def lines(path: Path, *texts: str, **more: Any) -> Path:
    path.write_text("".join(json.dumps({"content": text, **more}) + "\n" for text in texts), encoding="utf-8")
    return path


async def brought(manager: MemoryManager, path: Path, **options: Any) -> Imported:
    return await import_from(manager, "", str(path), **{"dry_run": False, "report": lambda *_: None, **options})


async def planned(manager: MemoryManager, which: str = "") -> imports.Undo:
    async with manager.store.transaction() as tx:
        return await imports.planned_undo(tx, (await imports.find_import(tx, which))["id"])


async def undone(manager: MemoryManager, which: str = "") -> imports.Undo:
    shown = await planned(manager, which)
    async with manager.store.transaction() as tx:
        return await imports.undo_as_shown(tx, shown.row["id"], shown.fingerprint)


def statuses(db: Database) -> dict[str, str]:
    return {row["content"]: row["status"] for row in db.rows("SELECT content, status FROM memories")}


def active(db: Database) -> list[str]:
    return sorted(text for text, status in statuses(db).items() if status == "active")


def ids(db: Database) -> dict[str, str]:
    return {row["content"]: str(row["id"]) for row in db.rows("SELECT id, content FROM memories")}


def state(db: Database) -> list[dict[str, Any]]:
    """What memories are, but for the numbers of their versions and the moments of the undo and of coming back."""
    return db.rows(
        """SELECT m.id, content, status, reason, valid_from, valid_to, replaced_by, metadata, created_at, importance,
             ARRAY(SELECT tag FROM memory_tags t WHERE t.memory_id = m.id ORDER BY position) AS tags,
             (SELECT length FROM memory_words w WHERE w.memory_id = m.id) AS words
           FROM memories m JOIN memory_activation a ON a.memory_id = m.id ORDER BY m.id"""
    )


# -- by the command line -----------------------------------------------------------------------------------------------


def test_the_command_line_lists_imports_undoes_one_and_the_same_file_brings_all_back(
    database: Database, tmp_path: Path
) -> None:
    path = lines(tmp_path / "notes.jsonl", *TEXTS, tags=["trip"])
    pgengram("import", str(path), database_url=database.url, **WORDS)
    before = state(database)

    [listed] = answered("import", "--list", "--json", database_url=database.url, **WORDS)["imports"]
    assert (listed["name"], listed["system"], listed["actor"], listed["memories"]) == (
        "notes.jsonl", "jsonl", "command line", 4,
    )  # fmt: skip
    dry = pgengram("import", "--undo", "--dry-run", database_url=database.url, **WORDS).stdout
    assert "4 memories forgotten" in dry
    assert TEXTS[0] in dry
    assert len(active(database)) == 4, "a dry run changes nothing"

    said = pgengram("import", "--undo", "--yes", database_url=database.url, **WORDS).stdout
    assert "Undone: 4 memories forgotten." in said
    assert active(database) == []
    found = answered("search", "bakery", "--json", database_url=database.url, **WORDS)
    assert found["results"] == []
    [entry] = database.rows(
        "SELECT operation, actor, changes FROM memory_history WHERE memory_id = %s ORDER BY version DESC LIMIT 1",
        [ids(database)[TEXTS[0]]],
    )
    assert (entry["operation"], entry["actor"]) == ("forget", "command line")
    assert entry["changes"]["reason"][1] == "the import of notes.jsonl was undone"

    again = answered("import", str(path), "--json", database_url=database.url, **WORDS)
    assert (again["added"]["memory"], again["known"]["memory"]) == (4, 0)
    assert state(database) == before
    assert [
        hit["content"] for hit in answered("search", "bakery", "--json", database_url=database.url, **WORDS)["results"]
    ]
    second = pgengram("import", "--undo", "notes.jsonl", "--yes", database_url=database.url, **WORDS).stdout
    assert "Undone: 4 memories forgotten." in second, "the second import of the file can be undone like the first"


@has_terminals
def test_in_a_terminal_an_undo_is_asked_and_a_change_since_is_shown_and_asked_again(
    database: Database, tmp_path: Path
) -> None:
    pgengram("import", str(lines(tmp_path / "notes.jsonl", *TEXTS)), database_url=database.url, **WORDS)
    refused = typed_in_a_terminal("\n", "import", "--undo", expect=1, database_url=database.url, **WORDS)
    assert "Undo this import? [y/N]" in refused
    assert len(active(database)) == 4

    def change() -> None:
        id_ = ids(database)[TEXTS[0]]
        pgengram("edit", id_, "content=We chose Jest.", database_url=database.url, **WORDS)

    said = typed_in_a_terminal("y\ny\n", "import", "--undo", meanwhile=change, database_url=database.url, **WORDS)

    assert said.count("Undo this import? [y/N]") == 2
    assert "Something changed after this was shown" in said
    assert "1 memory stays, changed since the import" in said
    assert active(database) == ["We chose Jest."]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--undo", "0badc0de"], 1, "No import has id 0badc0de"),
        (["--undo"], 2, "No import can be undone here"),
        ([], 2, "Nothing to import was named"),
    ],
)
def test_what_cannot_be_undone_is_said_with_the_next_step(
    database: Database, words: list[str], code: int, sentence: str
) -> None:
    said = pgengram("import", *words, "--yes", expect=code, database_url=database.url, **WORDS)

    assert sentence in said.stderr
    assert "pgengram import" in said.stderr


def test_an_undone_import_is_not_undone_twice_and_needs_a_yes_where_nobody_can_be_asked(
    database: Database, tmp_path: Path
) -> None:
    pgengram("import", str(lines(tmp_path / "notes.jsonl", *TEXTS)), database_url=database.url, **WORDS)
    unasked = pgengram("import", "--undo", expect=2, database_url=database.url, **WORDS)
    assert "--yes" in unasked.stderr
    assert len(active(database)) == 4
    pgengram("import", "--undo", "--yes", database_url=database.url, **WORDS)

    twice = pgengram("import", "--undo", "notes.jsonl", "--yes", expect=1, database_url=database.url, **WORDS)

    assert "was undone already" in twice.stderr
    assert "import the file once more" in twice.stderr


def test_another_namespace_neither_sees_nor_undoes_an_import(database: Database, tmp_path: Path) -> None:
    pgengram("import", str(lines(tmp_path / "notes.jsonl", *TEXTS)), database_url=database.url, **WORDS)
    [mine] = answered("import", "--list", "--json", database_url=database.url, **WORDS)["imports"]

    others = answered("import", "--list", "--json", database_url=database.url, namespace="ben", **WORDS)
    refused = pgengram(
        "import", "--undo", mine["id"], "--yes", expect=1, database_url=database.url, namespace="ben", **WORDS
    )

    assert others == {"imports": []}
    assert "No import has id" in refused.stderr
    assert len(active(database)) == 4


# -- what stays --------------------------------------------------------------------------------------------------------


async def test_what_somebody_changed_confirmed_or_linked_since_stays_and_is_named(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    names = [
        "edited",
        "confirmed",
        "told again",
        "linked from",
        "linked to",
        "gathered",
        "replaces",
        "forgotten",
        "erased",
        "left",
    ]
    path = lines(tmp_path / "a.jsonl", *(f"This one is {name}." for name in names), created_at="2020-01-01T00:00:00Z")
    await brought(manager, path)
    by_text = ids(database)
    of = {name: by_text[f"This one is {name}."] for name in names}
    mine = (await manager.create_memory(NewMemory(content="My own."))).memory_id
    old = (await manager.create_memory(NewMemory(content="What held before."))).memory_id
    await manager.update_memory(Change(id=of["edited"], importance=0.9))
    await manager.update_memory(Change(id=of["confirmed"], confirm=True))
    await manager.create_memory(NewMemory(content="This one is told again."))
    await Graph(manager).link_memories(of["linked from"], [mine])
    await Graph(manager).link_memories(mine, [of["linked to"]])
    await Clusters(manager).create_memory_cluster(NewCluster(name="Some", memory_ids=[of["gathered"]]))
    await manager.forget_memories([old], replaced_by_ids=[of["replaces"]])
    await manager.forget_memories([of["forgotten"]])
    token = (await manager.forget_memories([of["erased"]], hard=True)).confirm_token
    await manager.forget_memories([of["erased"]], hard=True, confirm_token=token)

    shown = await undone(manager)

    assert [row["content"] for row in shown.taken] == ["This one is left."]
    kept = {reason: {row["content"] for row in rows} for (_, reason), rows in shown.left.items()}
    assert kept == {
        "changed since the import": {"This one is edited.", "This one is confirmed."},
        "confirmed since the import": {"This one is told again."},
        "linked since the import": {
            f"This one is {name}." for name in ("linked from", "linked to", "gathered", "replaces")
        },
    }
    assert shown.gone == 1, "an erased memory leaves no trace, a forgotten one is counted"
    assert statuses(database)["This one is left."] == "invalidated"
    assert {name for name in names if statuses(database).get(f"This one is {name}.") == "active"} == {
        "edited", "confirmed", "told again", "linked from", "linked to", "gathered", "replaces",
    }  # fmt: skip

    again = await brought(manager, path)
    assert again.added["memory"] == 1, "what was forgotten or erased by hand stays so"
    assert statuses(database)["This one is forgotten."] == "invalidated"


async def test_a_link_that_a_later_import_brings_keeps_its_memory(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    first = {"record": "memory", "id": "0199d0a1-0000-7000-8000-000000000001", "content": "The first."}
    second = {"record": "memory", "id": "0199d0a1-0000-7000-8000-000000000002", "content": "The second."}
    link = {
        "record": "relationship", "from_id": second["id"], "to_id": first["id"], "type": "x",
        "created_at": "2020-01-01T00:00:00Z",
    }  # fmt: skip
    await brought(manager, written(tmp_path / "a.jsonl", first))
    await brought(manager, written(tmp_path / "b.jsonl", second, link))

    assert [row["content"] for row in (await planned(manager, "a.jsonl")).taken] == []
    later = await undone(manager, "b.jsonl")
    assert [row["content"] for row in later.taken] == ["The second."], "its own link keeps no memory"
    assert [row["content"] for row in (await undone(manager, "a.jsonl")).taken] == ["The first."]


async def test_what_another_file_has_too_stays_until_that_is_undone(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    mine = (await manager.create_memory(NewMemory(content=TEXTS[3]))).memory_id
    await brought(manager, lines(tmp_path / "a.jsonl", TEXTS[0], TEXTS[1]))
    await brought(manager, lines(tmp_path / "b.jsonl", TEXTS[1], TEXTS[2], TEXTS[3]))
    await brought(manager, lines(tmp_path / "c.jsonl", TEXTS[2]))

    first = await undone(manager, "a.jsonl")
    assert [row["content"] for row in first.left["memory", "also in another import"]] == [TEXTS[1]]
    assert active(database) == sorted(TEXTS[1:])
    second = await undone(manager, "b.jsonl")
    assert [row["content"] for row in second.taken] == [TEXTS[1]]
    assert [row["content"] for row in (await undone(manager)).taken] == [TEXTS[2]], "what c.jsonl alone has by now"
    assert active(database) == [TEXTS[3]]
    assert ids(database)[TEXTS[3]] == str(mine), "what was there before any import is of none"
    again = await brought(manager, tmp_path / "b.jsonl")
    assert (again.added["memory"], active(database)) == (2, sorted(TEXTS[1:]))


async def test_a_file_that_grows_keeps_of_each_memory_who_stored_it_and_the_last_that_had_it(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    for count in (1, 2, 3, 4, 4):
        await brought(manager, lines(tmp_path / "a.jsonl", *TEXTS[:count]))

    rows = database.rows("SELECT count(*) AS had FROM imported_memories GROUP BY memory_id ORDER BY 1")
    assert [row["had"] for row in rows] == [1, 2, 2, 2]
    await manager.update_memory(Change(id=ids(database)[TEXTS[0]], importance=0.9))
    while database.value("SELECT count(*) FROM memory_imports WHERE undone_at IS NULL"):
        await undone(manager)
    assert active(database) == [TEXTS[0]], "who changed it has changed it for each of them"


async def test_notes_that_lead_to_one_another_are_undone(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "gate.md").write_text("The gate is green, see [[fence]].", encoding="utf-8")
    (folder / "fence.md").write_text("The fence is new.", encoding="utf-8")
    assert (await brought(manager, folder)).added["relationship"] == 1

    shown = await undone(manager, f"{folder}/")

    assert (len(shown.taken), shown.left, shown.row["others"]) == (2, {}, {})


@pytest.mark.parametrize("digits", [slice(-1, None), slice(-7, None), slice(0, 0)])
async def test_less_than_eight_digits_name_no_import(
    database: Database, manager: MemoryManager, tmp_path: Path, digits: slice
) -> None:
    await brought(manager, lines(tmp_path / "a.jsonl", *TEXTS))
    id_ = str((await planned(manager)).row["id"])

    with pytest.raises(NotFound):
        await planned(manager, id_[digits] or "-")
    assert str((await planned(manager, id_[-8:])).row["id"]) == id_


@pytest.mark.parametrize("name", ["caf\udce9.jsonl", "a\0b.jsonl", "x" * 5000])
async def test_a_file_is_imported_and_undone_whatever_it_is_called(
    database: Database, manager: MemoryManager, tmp_path: Path, name: str
) -> None:
    path = lines(tmp_path / "a.jsonl", *TEXTS)

    assert (await brought(manager, path, name=name)).added["memory"] == 4
    assert len((await undone(manager, name)).taken) == 4


async def test_an_undo_agrees_to_what_was_shown_and_to_nothing_else(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    await brought(manager, lines(tmp_path / "a.jsonl", *TEXTS))
    shown = await planned(manager)
    await manager.update_memory(Change(id=ids(database)[TEXTS[0]], confirm=True))

    async with manager.store.transaction() as tx:
        with pytest.raises(ConfirmRequired, match="changed after this was shown"):
            await imports.undo_as_shown(tx, shown.row["id"], shown.fingerprint)

    assert len(active(database)) == 4


async def test_what_an_import_changed_or_added_besides_is_noted_and_stays(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    id_ = (await manager.create_memory(NewMemory(content="The gate is green."))).memory_id
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    newer = {"record": "memory", "id": id_, "content": "The gate is blue.", "updated_at": soon}
    synonym = {"record": "synonym", "alias": "gates", "tag": "gate"}
    fresh = {"record": "memory", "content": "The fence is new."}

    await brought(manager, written(tmp_path / "a.jsonl", newer, fresh, synonym))
    shown = await undone(manager)

    assert shown.row["others"] == {"changed_memory": 1, "synonym": 1}
    assert [row["content"] for row in shown.taken] == ["The fence is new."]
    assert active(database) == ["The gate is blue."]


async def test_an_import_that_stores_nothing_is_not_noted(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    path = lines(tmp_path / "a.jsonl", *TEXTS)
    await brought(manager, path, dry_run=True)
    assert database.value("SELECT count(*) FROM memory_imports") == 0
    await brought(manager, path)
    await brought(manager, path)

    assert database.value("SELECT count(*) FROM memory_imports") == 1


async def test_an_export_is_undone_and_brought_back_with_all_states_and_links(
    database: Database, manager: MemoryManager, wordless_store: MemoryManager, tmp_path: Path
) -> None:
    made = wordless_store
    given = [(await made.create_memory(NewMemory(content=text, tags=["a", "b"]))).memory_id for text in TEXTS]
    await Graph(made).link_memories(given[0], [given[1]], type="causes")
    await made.update_memory(Change(id=given[1], status="archived"))
    await made.forget_memories([given[2]], "it was wrong")
    with (tmp_path / "all.jsonl").open("w", encoding="utf-8") as file:
        await export_to(file, made, lambda *_: None)
    await brought(manager, tmp_path / "all.jsonl")
    before = state(database)

    shown = await undone(manager)
    assert len(shown.taken) == 3
    assert active(database) == []
    again = await brought(manager, tmp_path / "all.jsonl")

    assert (again.added["memory"], again.known["memory"]) == (3, 1)
    assert state(database) == before
    assert statuses(database)[TEXTS[2]] == "invalidated", "what was forgotten in the file is forgotten here"


@pytest.fixture
async def wordless_store(blank: Database) -> AsyncIterator[MemoryManager]:
    manager = MemoryManager(Settings(database_url=blank.url, **WORDS))
    yield manager
    await manager.close()


async def test_a_newer_state_in_the_file_is_what_comes_back(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    row = {"record": "memory", "id": "0199d0a1-0000-7000-8000-000000000001", "content": "The gate is green.",
           "updated_at": "2020-01-01T00:00:00Z"}  # fmt: skip
    await brought(manager, written(tmp_path / "a.jsonl", row))
    await undone(manager)
    newer = {**row, "content": "The gate is blue.", "updated_at": "2021-01-01T00:00:00Z"}

    await brought(manager, written(tmp_path / "a.jsonl", newer))

    assert statuses(database) == {"The gate is blue.": "active"}
    assert (await undone(manager)).taken, "the import that changed it is still its own"


# -- turns -------------------------------------------------------------------------------------------------------------


async def test_turns_are_removed_but_for_those_that_a_memory_cites_and_come_back(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    path = written(tmp_path / "s1.jsonl", *chain("Which port?", "Port 5433.", "And the host?", "Localhost."))
    await brought(manager, path)
    before = said(database)
    [row] = database.rows("SELECT client, conversation, number FROM conversation_turns WHERE text = 'Port 5433.'")
    ref = f"turn:{row['client']}/{row['conversation']}/{row['number']}"
    source: Any = {"kind": "conversation", "ref": ref}
    await manager.create_memory(NewMemory(content="The port is 5433.", sources=[source]))

    shown = await undone(manager)

    assert len(shown.removed) == 3
    assert [row["text"] for row in shown.left["turn", "cited by a memory"]] == ["Port 5433."]
    assert said(database) == {"s1": ["Port 5433."]}
    again = await brought(manager, path)
    assert again.added["turn"] == 3
    assert said(database) == before


async def test_a_turn_that_goes_on_after_an_undo_was_shown_is_shown_again(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    await brought(manager, written(tmp_path / "s1.jsonl", *chain("Which port?", "Port 5433.")))
    shown = await planned(manager)
    database.rows("UPDATE conversation_turns SET text = text || ' Or 5434.' WHERE number = 1 RETURNING 1")

    async with manager.store.transaction() as tx:
        with pytest.raises(ConfirmRequired):
            await imports.undo_as_shown(tx, shown.row["id"], shown.fingerprint)


async def test_turns_that_a_newer_file_has_too_stay_until_that_is_undone(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    turns = chain("Which port?", "Port 5433.", "And the host?", "Localhost.")
    await brought(manager, written(tmp_path / "march" / "s1.jsonl", *turns[:2]))
    march = (await planned(manager)).row
    for month, count in (("april", 3), ("may", 4)):
        await brought(manager, written(tmp_path / month / "s1.jsonl", *turns[:count]))
    kept = database.rows("SELECT cardinality(turn_ids) AS count FROM imported_turns ORDER BY import_id")
    assert [row["count"] for row in kept] == [2, 1, 4], "of many states of a file the last is enough"

    shown = await undone(manager, str(march["id"]))

    assert {reason: len(rows) for (_, reason), rows in shown.left.items()} == {"also in another import": 2}
    assert len(said(database)["s1"]) == 4
    assert len((await undone(manager)).removed) == 3, "what april had brought is april's"
    assert len((await undone(manager)).removed) == 1
    assert said(database) == {}


async def test_what_another_conversation_has_too_stays_and_a_fork_of_the_same_file_goes(
    database: Database, manager: MemoryManager, tmp_path: Path
) -> None:
    first = chain("Which port?", "Port 5433.")
    fork = chain("Which port?", "Port 5433.", "And the host?", session="s2")
    for line, original in zip(fork, first, strict=False):
        line["forkedFrom"] = {"sessionId": "s1", "messageUuid": original["uuid"]}
    one, other = written(tmp_path / "one" / "s1.jsonl", *first), written(tmp_path / "two" / "s2.jsonl", *fork)
    await brought(manager, one)
    await brought(manager, other)
    before = said(database)

    shown = await planned(manager, "s1.jsonl")
    assert [len(rows) for rows in shown.left.values()] == [2]
    assert not shown.removed
    await undone(manager, "s2.jsonl")
    await undone(manager, "s1.jsonl")
    assert said(database) == {}
    await brought(manager, other)
    await brought(manager, one)
    assert said(database) == before

    await undone(manager, "s2.jsonl")
    assert said(database) == {"s1": before["s1"]}, "the fork had brought it, and its own file has it, too"
    await undone(manager)
    assert said(database) == {}
    await brought(manager, tmp_path)
    assert said(database) == before
    assert not (await undone(manager)).left, "both are of one import"
    assert said(database) == {}


# -- laws --------------------------------------------------------------------------------------------------------------


@effort(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.sampled_from([f"Thing {n} is blue." for n in range(12)]), min_size=1, max_size=8, unique=True),
    data=st.data(),
)
async def test_undo_and_import_again_comes_to_what_was_there(
    database: Database, manager: MemoryManager, tmp_path: Path, texts: list[str], data: st.DataObject
) -> None:
    """Law: what nobody touched goes with the undo and is what it was after the next import; all else never changes."""
    await manager.ready()
    database.rows("DELETE FROM memories")
    database.rows("DELETE FROM memory_imports")
    database.rows("DELETE FROM memory_history")
    mine = data.draw(st.lists(st.sampled_from(texts), unique=True))
    for text in mine:
        await manager.create_memory(NewMemory(content=text))
    path = lines(tmp_path / "law.jsonl", *texts)
    await brought(manager, path)
    touched = data.draw(st.lists(st.sampled_from(texts), unique=True))
    for text in touched:
        await manager.update_memory(Change(id=ids(database)[text], importance=0.875))
    before = state(database)
    if len(mine) == len(texts):
        return

    await undone(manager)

    assert set(active(database)) == {*mine, *touched}
    await brought(manager, path)
    assert state(database) == before
    assert {UUID(id_) for id_ in ids(database).values()} == {row["id"] for row in before}
