"""Two stores that hold the same memories: exports carry changes from one to the other, and the newest state wins."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest_asyncio
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from helpers import Database, examples
from machine import answered, pgengram
from pgengram.errors import PgengramError
from pgengram.inputs import Change, NewMemory, Question
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.graph import Graph
from pgengram.settings import Settings
from pgengram.transfer import export_to, import_from
from pgengram.transfer.report import Imported

WORDS = {"embedder": "none:"}
STATE = (
    "content",
    "type",
    "kind",
    "status",
    "reason",
    "tags",
    "detail",
    "metadata",
    "project",
    "user",
    "pinned",
    "expires_at",
    "updated_at",
)


@dataclass
class Copy:
    """One of two copies of a store: a namespace of its own."""

    database: Database
    folder: Path
    namespace: str = field(default_factory=lambda: f"copy-{uuid4().hex[:8]}")
    files: int = 0

    def __post_init__(self) -> None:
        self.manager = MemoryManager(Settings(database_url=self.database.url, namespace=self.namespace, **WORDS))

    async def exported(self) -> Path:
        self.files += 1
        path = self.folder / f"{self.namespace}-{self.files}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            await export_to(file, self.manager, lambda *_: None)
        return path

    async def takes(self, path: Path, system: str = "", **options: Any) -> Imported:
        given = {"dry_run": False, "report": lambda *_: None, **options}
        return await import_from(self.manager, system, str(path), **given)

    async def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (await self.exported()).read_text(encoding="utf-8").split("\n") if line]

    async def states(self) -> dict[str, dict[str, Any]]:
        """Return what counts of each memory, by its id, and where its links lead."""
        lines = await self.lines()
        found = {
            one["id"]: {name: one[name] for name in STATE}
            | {"importance": one["activation"]["importance"], "links": set()}
            for one in lines
            if one["record"] == "memory"
        }
        for one in lines:
            if one["record"] == "relationship":
                found[one["from_id"]]["links"].add((one["to_id"], one["type"], one["strength"]))
        return found

    async def adds(self, text: str, **more: Any) -> str:
        return str((await self.manager.create_memory(NewMemory(content=text, **more))).memory_id)

    async def edits(self, id_: str, **change: Any) -> None:
        await self.manager.update_memory(Change(id=id_, **change))

    async def links(self, id_: str, other: str, type_: str, **more: Any) -> None:
        await Graph(self.manager).link_memories(id_, [other], type_, **more)

    async def unlinks(self, id_: str, other: str) -> None:
        await Graph(self.manager).link_memories(id_, [other], remove=True)

    async def finds(self, words: str) -> list[str]:
        found = await self.manager.search_memories(Question(query=words, mode="text"))
        return [str(one["content"]) for one in found.results]

    async def history(self, id_: str) -> list[tuple[str, str | None, list[str]]]:
        [memory] = (await self.manager.get_memories([id_], include=["history"])).memories
        return [(one["operation"], one.get("actor"), sorted(one.get("changes") or {})) for one in memory["history"]]


@pytest_asyncio.fixture
async def copies(database: Database, tmp_path: Path) -> AsyncIterator[tuple[Copy, Copy]]:
    both = Copy(database, tmp_path), Copy(database, tmp_path)
    yield both
    for one in both:
        await one.manager.close()


async def test_a_changed_memory_is_brought_and_an_older_file_never_undoes_it(copies: tuple[Copy, Copy]) -> None:
    a, b = copies
    id_ = await a.adds("The bus to the mill leaves at 8:10.", tags=["bus"])
    first = await a.exported()
    await b.takes(first)
    await a.edits(id_, content="The bus to the mill leaves at 8:40.", tags=["bus", "mill"], importance=0.9)
    await a.edits(id_, metadata={"category": ["travel"], "room": "hall"}, project="mill", pinned=True)
    second = await a.exported()

    dry = await b.takes(second, dry_run=True)
    brought = await b.takes(second)
    again = await b.takes(second)
    older = await b.takes(first)

    assert (dry.updated["memory"], brought.updated["memory"], brought.known["memory"]) == (1, 1, 0)
    assert (+again.updated, +older.updated, again.known["memory"], older.known["memory"]) == ({}, {}, 1, 1)
    assert await b.states() == await a.states()
    newest = (await b.history(id_))[0]
    assert newest == (
        "update",
        "import",
        ["content", "detail.category", "importance", "last_confirmed_at", "metadata", "pinned", "project", "tags"],
    )
    assert await b.finds("mill 8:40") == ["The bus to the mill leaves at 8:40."]


async def test_forgetting_travels_and_so_does_its_undoing(copies: tuple[Copy, Copy]) -> None:
    a, b = copies
    ids = [await a.adds(f"Boat {name} is for sale.") for name in ("Heron", "Kestrel", "Wren")]
    await b.takes(await a.exported())
    await a.manager.forget_memories([ids[0]], reason="It was sold.")
    await a.edits(ids[1], status="archived")
    forgotten = await a.exported()

    assert (await b.takes(forgotten)).updated["memory"] == 2
    assert [one["status"] for one in (await b.states()).values()] == ["invalidated", "archived", "active"]
    assert await b.finds("Heron") == []
    await a.edits(ids[0], status="active")
    await b.takes(await a.exported())
    await b.takes(forgotten)

    assert [operation for operation, *_ in await b.history(ids[0])][:2] == ["restore", "forget"]
    assert await b.finds("Heron") == ["Boat Heron is for sale."]
    assert await b.states() == await a.states()


async def test_what_was_erased_stays_erased_and_is_forgotten_in_the_other_store(copies: tuple[Copy, Copy]) -> None:
    a, b = copies
    id_ = await a.adds("The alarm code is on the fridge.")
    other = await a.adds("The fridge is in the cellar.")
    await a.links(id_, other, "about")
    first = await a.exported()
    await b.takes(first)
    await b.edits(id_, importance=0.9)
    newer = await b.exported()
    await a.manager.erase([id_])

    for file in (first, newer):
        brought = await a.takes(file)
        assert brought.left == []
        assert {reason.partition(";")[0] for reason in brought.passed} == {
            "it was erased here", "one of its memories was erased here",
        }  # fmt: skip
    assert list(await a.states()) == [other]

    told = await b.takes(await a.exported())
    assert [one["status"] for one in (await b.states()).values()] == ["invalidated", "active"]
    assert "forget --hard" in next(iter(told.passed))
    assert +(await b.takes(await a.exported())).updated == {}
    await b.edits(id_, status="active")  # by whoever wants to keep it
    assert +(await b.takes(await a.exported())).updated == {}
    assert list(await a.states()) == [other]


async def test_a_removed_link_stays_removed_and_a_new_one_comes_along(copies: tuple[Copy, Copy]) -> None:
    a, b = copies
    ids = [await a.adds(f"Room {name} has a window.") for name in ("one", "two", "three")]
    await a.links(ids[0], ids[1], "next_to", strength=0.5)
    linked = await a.exported()
    await b.takes(linked)
    await b.edits(ids[0], content="Room one has two windows.")
    await a.unlinks(ids[0], ids[1])
    await a.links(ids[0], ids[2], "next_to", strength=0.25)
    removed = await a.exported()

    for file in (removed, linked, removed):
        await b.takes(file)
    await a.takes(await b.exported())
    await a.takes(linked)

    assert (await a.states())[ids[0]]["links"] == {(ids[2], "next_to", 0.25)}
    assert await a.states() == await b.states()


async def test_what_two_memories_say_may_change_places(copies: tuple[Copy, Copy]) -> None:
    a, b = copies
    old, new = await a.adds("The key is under the mat."), await a.adds("The key is with Ada.")
    await a.manager.forget_memories([new])
    await a.takes(await a.exported())
    await b.takes(await a.exported())
    await a.edits(old, content="The key was under the mat.")
    await a.edits(new, status="active", content="The key is under the mat.")
    swapped = await a.exported()

    await b.takes(swapped)
    assert await b.states() == await a.states()
    await a.edits(new, content="Nobody has the key.")
    await a.edits(old, content="The key is under the mat.")
    assert (await b.takes(await a.exported())).left == []
    assert await b.states() == await a.states()
    twin = await b.adds("The key hangs in the hall.")
    await a.edits(new, content="The key hangs in the hall.")
    [left] = (await b.takes(await a.exported())).left
    assert twin in left.reason


async def test_a_file_from_the_future_is_refused(copies: tuple[Copy, Copy], tmp_path: Path) -> None:
    a, b = copies
    await a.adds("Tea at four.")
    lines = await a.lines()
    await b.takes(await a.exported())
    lines[1] |= {"content": "Tea at nine.", "updated_at": "2999-01-01T00:00:00Z"}
    path = tmp_path / "future.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))

    [left] = (await b.takes(path)).left

    assert "future" in left.reason
    assert [one["content"] for one in (await b.states()).values()] == ["Tea at four."]


# -- notes -------------------------------------------------------------------------------------------------------------


def test_an_edited_note_against_a_newer_memory_is_a_conflict_that_shows_both(
    database: Database, tmp_path: Path
) -> None:
    lines, notes = tmp_path / "lines.jsonl", tmp_path / "notes"
    lines.write_text(
        '{"content": "The mill opens at nine."}\n{"content": "The inn is shut."}\n{"content": "Ada bakes."}'
    )
    url = {"database_url": database.url, **WORDS}
    pgengram("import", str(lines), **url)
    pgengram("export", "--format", "markdown", str(notes), **url)
    [mill] = notes.glob("*mill*")
    [inn] = notes.glob("*inn*")
    exported = mill.read_text(encoding="utf-8")
    mill.write_text(exported.replace("at nine", "at ten"), encoding="utf-8")
    inn.write_text(inn.read_text(encoding="utf-8").replace("is shut", "is open"), encoding="utf-8")
    ids = {row["content"]: str(row["id"]) for row in database.rows("SELECT id, content FROM memories")}
    pgengram("edit", ids["The mill opens at nine."], "content=The mill opens at eight.", **url)
    pgengram("edit", ids["Ada bakes."], "importance=0.9", **url)  # whose note nobody edited

    ended = pgengram("import", str(notes), expect=1, **url)
    told = answered("import", str(notes), "--json", expect=1, **url)

    assert "The mill opens at ten." in ended.stdout
    assert "The mill opens at eight." in ended.stdout
    assert [one["place"] for one in told["left"]] == [mill.name]
    contents = {row["content"] for row in database.rows("SELECT content FROM memories")}
    assert contents == {"The mill opens at eight.", "The inn is open.", "Ada bakes."}
    assert database.value("SELECT max(importance) FROM memory_activation") == 0.9

    [at] = database.rows("SELECT updated_at FROM memories WHERE content LIKE 'The mill%'")
    kept = mill.read_text(encoding="utf-8").split("\n")
    kept = [f"updated_at: {at['updated_at'].isoformat()}" if line.startswith("updated_at") else line for line in kept]
    mill.write_text("\n".join(kept), encoding="utf-8")
    assert answered("import", str(notes), "--json", **url)["updated"] == {"memory": 1}
    assert database.value("SELECT count(*) FROM memories WHERE content = 'The mill opens at ten.'") == 1


# -- a law -------------------------------------------------------------------------------------------------------------

EDITS: dict[str, Callable[[Copy, str, str, int], Any]] = {
    "content": lambda copy, id_, _, number: copy.edits(id_, content=f"It says {number} now."),
    "tags": lambda copy, id_, _, number: copy.edits(id_, tags=[f"tag-{number}", "every"]),
    "importance": lambda copy, id_, _, number: copy.edits(id_, importance=number % 97 / 100),
    "detail": lambda copy, id_, _, number: copy.edits(id_, metadata={"category": [str(number)], "room": number}),
    "forget": lambda copy, id_, _, number: copy.manager.forget_memories([id_], reason=f"reason {number}"),
    "restore": lambda copy, id_, _, __: copy.edits(id_, status="active"),
    "archive": lambda copy, id_, _, __: copy.edits(id_, status="archived"),
    "link": lambda copy, id_, other, number: copy.links(id_, other, "after", strength=number % 7 / 7),
    "unlink": lambda copy, id_, other, _: copy.unlinks(id_, other),
}
STEPS = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.sampled_from([*EDITS, "export", "exchange"]), st.integers(0, 2), st.integers(1, 2)),
    min_size=4, max_size=14,
)  # fmt: skip


async def lived(copies: tuple[Copy, Copy], steps: list[tuple[int, str, int, int]]) -> tuple[list[Path], dict[str, Any]]:
    """Take the steps; return all exports that were made, and the newest state of each memory."""
    ids = [await copies[0].adds(f"Memory {number}.") for number in range(3)]
    files = [await copies[0].exported()]
    await copies[1].takes(files[0])
    newest = await copies[0].states()
    for number, (which, step, at, further) in enumerate(steps):
        copy, id_, other = copies[which], ids[at], ids[(at + further) % 3]
        if step == "exchange":
            await copy.takes(await copies[1 - which].exported())
        elif step == "export":
            files.append(await copy.exported())
        else:
            with suppress(PgengramError):  # such as archiving what is forgotten
                await EDITS[step](copy, id_, other, number)
            newest[id_] = max(newest[id_], (await copy.states())[id_], key=lambda state: state["updated_at"])
    return [*files, *[await copy.exported() for copy in copies]], newest


async def exchanged(copies: tuple[Copy, Copy], files: list[Path], order: Any) -> dict[str, Any]:
    """Bring all files to both in any order, then what each has to the other; return what both have then."""
    for copy in copies:
        for file in order.sample(files, len(files)):
            assert (await copy.takes(file)).left == []
    for one, another in (copies, copies[::-1]):
        await one.takes(await another.exported())
    agreed = await copies[0].states()
    assert agreed == await copies[1].states()
    return agreed


@effort(max_examples=examples(2, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, order=st.randoms(use_true_random=False))
def test_after_exchanging_exports_in_any_order_both_agree_and_the_newest_state_wins(
    database: Database, tmp_path: Path, steps: list[tuple[int, str, int, int]], order: Any
) -> None:
    async def law(copies: tuple[Copy, Copy]) -> None:
        files, newest = await lived(copies, steps)
        agreed = await exchanged(copies, files, order)
        for id_, state in newest.items():
            assert {**agreed[id_], "links": None} == {**state, "links": None}
        for file in files:
            again = await copies[0].takes(file)
            assert (+again.added, +again.updated) == ({}, {})
        assert await copies[0].states() == agreed

    async def held() -> None:
        copies = Copy(database, tmp_path), Copy(database, tmp_path)
        try:
            await law(copies)
        finally:
            for copy in copies:
                await copy.manager.close()

    asyncio.run(held())


async def test_turns_of_a_conversation_that_went_on_in_both_copies_are_all_kept(copies: tuple[Copy, Copy]) -> None:
    a, b = copies
    head = {"record": "conversation", "client": "codex", "conversation": "c"}
    alike = {"record": "turn", "client": "codex", "conversation": "c"}
    said = [
        {**alike, "number": 0, "role": "user", "text": "Which wood?", "time": "2026-09-01T10:00:00Z"},
        {**alike, "number": 1, "role": "assistant", "text": "Oak.", "time": "2026-09-01T10:01:00Z"},
        {**alike, "number": 1, "role": "assistant", "text": "Larch.", "time": "2026-09-01T10:02:00Z"},
    ]
    for copy, turns in ((a, said[:2]), (b, [said[0], said[2]])):
        path = copy.folder / f"{copy.namespace}.jsonl"
        path.write_text("\n".join(map(json.dumps, [head, *turns])))
        await copy.takes(path)

    for one, other in ((a, b), (b, a), (a, b)):
        await one.takes(await other.exported())

    for copy in copies:
        texts = [one["text"] for one in await copy.lines() if one["record"] == "turn"]
        assert sorted(texts) == ["Larch.", "Oak.", "Which wood?"]
