"""Memories for Python programs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import psycopg
import pytest

from helpers import PATIENCE_S, Database, environment, in_database
from pgengram import Memory, Pgengram
from pgengram.details import DETAILS
from pgengram.errors import (
    ConfirmRequired,
    InvalidInput,
    ItemRefused,
    Misused,
    NotFound,
    NotReady,
    SecretRejected,
    TimedOut,
)
from pgengram.inputs import Change, NewMemory, Question
from pgengram.library import given, results
from pgengram.settings import Settings

EXAMPLE = Path(__file__).parents[1] / "examples" / "remember_and_ask.py"
# What a program may get wrong, and the argument that its error names.
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"kind": "nonsense"}, "kind"),
    ({"kind": "Bug"}, "kind"),
    ({"kind": None}, "kind"),
    ({"importance": 7.0}, "importance"),
    ({"importance": "high"}, "importance"),
    ({"importance": "8/10"}, "importance"),
    ({"importance": True}, "importance"),
    ({"emotion": "colour"}, "emotion"),
    ({"tags": "drinks, tea"}, "tags"),
    ({"tags": [b"tea"]}, r"tags\[0\]"),
    ({"pinned": "yes"}, "pinned"),
    ({"project": 7}, "project"),
    ({"occurred_at": 1_700_000_000}, "occurred_at"),
    ({"occurred_at": "yesterdy"}, "occurred_at"),
    ({"importence": 0.5}, "importence.*importance"),
    ({"sources": [{"label": "x", "trust": 7.0}]}, r"sources\[0\].trust"),
    ({"sources": [{"lable": "x"}]}, r"sources\[0\].lable"),
    ({"embedding": ["x"]}, r"embedding\[0\]"),
    ({"steps": ["Boil."]}, "steps.*semantic"),
    ({"type": "procedural", "steps": ["Boil."], "metadata": {"steps": []}}, "steps"),
]


async def test_a_program_goes_the_whole_way(settings: Settings) -> None:
    async with Memory(settings, namespace="notes") as memory:
        stored = await memory.add("The office is in Lyon.", kind="fact", tags=["office"], importance=0, project="ark")
        other = await memory.add("Mara cycles to work.", related_to=[stored.memory_id])
        hits = (await memory.search("office", project="ark", limit=1)).results
        assert [(hit["id"], hit["importance"]) for hit in hits] == [(stored.memory_id, 0)]
        assert "Lyon" in (await memory.recall("where is the office?")).context
        await memory.link(stored.memory_id, other.memory_id, type="causes", strength=0.5)
        assert {node["id"] for node in (await memory.explore(stored.memory_id)).nodes} == {
            stored.memory_id,
            other.memory_id,
        }

        await memory.update(
            stored.memory_id, content="The office is in Nice.", expected_version=stored.memory["version"] + 1
        )
        assert (await memory.get(stored.memory_id, "history"))["content"] == "The office is in Nice."
        await memory.forget(stored.memory_id, reason="closed")
        assert (await memory.search("office")).count == 0
        await memory.restore(stored.memory_id)
        assert (await memory.search("office")).count == 1
        assert (await memory.stats()).totals["active"] == 2
        assert await memory.erase(stored.memory_id, other.memory_id) == 2
        with pytest.raises(NotFound):
            await memory.get(stored.memory_id)

        many = await memory.add_many([{"content": f"Number {n}.", "dedup_policy": "insert"} for n in range(21)])
        with pytest.raises(ConfirmRequired):
            await memory.forget(*(one["memory_id"] for one in many.results))
        assert (await memory.stats()).totals["active"] == 21

    async with Memory(settings, namespace="somebody-else") as memory:
        assert (await memory.search()).count == 0


async def test_what_is_wrong_raises_names_the_argument_and_changes_nothing(settings: Settings) -> None:
    async with Memory(settings) as memory:
        for number, (mistake, where) in enumerate(MISTAKES):
            with pytest.raises(InvalidInput, match=where):
                await memory.add(f"Mistake {number}.", **mistake)
        for call, where in (
            (lambda: memory.add(b"x"), "content"),  # type: ignore[arg-type]
            (lambda: memory.forget("01a21ece", b"x"), "ids"),  # type: ignore[arg-type]
            (lambda: memory.get(5), "id"),  # type: ignore[arg-type]
            (lambda: memory.search("x", limit=1_000), "limit"),
            (lambda: memory.search("x", since="soonish"), "since"),
        ):
            with pytest.raises(InvalidInput, match=where):
                await call()
        with pytest.raises(SecretRejected):
            await memory.add("The password: hunter2-Tr0ub4dor&3")
        assert (await memory.search()).count == 0

        stored = await memory.add("Bees dance.")
        for change in ({"importance": 7.0}, {"kind": "Bug"}, {"kind": None}, {"steps": ["Dance."]}, {"contnet": "x"}):
            with pytest.raises(InvalidInput, match=next(iter(change))):
                await memory.update(stored.memory_id, **change)  # type: ignore[arg-type]
        assert (await memory.get(stored.memory_id))["version"] == 1


async def test_a_wrong_item_spares_the_others_unless_they_are_stored_together(settings: Settings) -> None:
    wrong = [
        {"content": b"x"},
        {"content": "x", "importance": 7.0},
        {"content": "x", "steps": []},
        {"kind": "fact"},
        {"content": ""},
    ]
    items = [{"content": "One.", "tags": ("a",)}, *wrong, {"content": "Two.", "type": "procedural", "steps": ["Go."]}]
    async with Memory(settings) as memory:
        for one in wrong:
            with pytest.raises(ItemRefused, match="Item 1"):
                await memory.add_many([items[0], one], atomic=True)
        stored = await memory.add_many(items)

        assert (stored.created, stored.failed) == (2, 5)
        assert [(one["index"], one["ok"]) for one in stored.results] == [(n, n in (0, 6)) for n in range(7)]
        assert "2 remembered, 0 already known, 5 refused." in stored.message
        assert (await memory.get(stored.results[6]["memory_id"]))["detail"]["steps"] == ["Go."]
        assert (await memory.add_many(wrong)).failed == 5


async def test_each_field_of_a_type_and_each_filter_can_be_said(settings: Settings) -> None:
    async with Memory(settings) as memory:
        stored = await memory.add(
            "The kettle was descaled.", kind="observation", action_taken={"used": "vinegar"}, context="kitchen",
            emotional_valence=0.5, event_time="2026-03-03T10:00:00Z", sources=[{"label": "Mara", "trust": 0.9}],
            source_provider="notes", last_confirmed_at="2026-03-04",
        )  # fmt: skip
        assert stored.memory["type"] == "episodic"
        assert stored.memory["detail"]["action_taken"] == {"used": "vinegar"}
        assert stored.memory["detail"]["event_time"].startswith("2026-03-03T10:00:00")
        assert stored.memory["last_confirmed_at"].startswith("2026-03-04")
        await memory.update(stored.memory_id, result="It boils faster.", add_tags=["kitchen"])

        [hit] = (await memory.search(source_provider="notes", min_length=5, untagged=False, detail=True)).results
        assert hit["tags"] == ["kitchen"]
        assert (await memory.get(stored.memory_id))["detail"]["result"] == "It boils faster."


def test_every_argument_that_is_accepted_is_declared() -> None:
    detail = {name for kind in DETAILS.values() for name in kind.model_fields} - {"confidence"}

    assert given.DetailGiven.__annotations__.keys() == detail
    assert given.New.__annotations__.keys() - detail == NewMemory.model_fields.keys() - {"content"}
    assert given.Changed.__annotations__.keys() - detail == Change.model_fields.keys() - {"id"}
    assert given.Narrowed.__annotations__.keys() == Question.model_fields.keys() - {"query", "further_queries"}


async def test_every_key_of_an_answer_is_declared(manager: Any, settings: Settings) -> None:
    """Whatever else a memory may have is told by `views`; what a program gets here is looked at as it comes."""
    async with Memory(settings) as memory:
        first = await memory.add("The heron nests by the mill, Ada says.", type="semantic", confidence=0.7, kind="fact",
                                 category=["birds"], tags=["birds"], sources=[{"label": "Ada"}], speaker="Ada", project="ark",
                                 user="Ada", collection="c", occurred_at="2026-01-01", expires_at="2090-01-01",
                                 capture_mode="explicit", emotion="neutral", source="x", source_provider="y",
                                 metadata={"more": 1})  # fmt: skip
        second = await memory.add("The heron nests by the mill, Ada said.", kind="fact", pinned=True)
        await memory.link(first.memory_id, second.memory_id, properties={"a": 1})
        await memory.update(second.memory_id, content="The heron nests by the old mill.", importance=0.9)
        explored = await memory.explore(first.memory_id)
        await memory.forget(second.memory_id, reason="doubtful", replaced_by=[first.memory_id])
        found = await memory.search("heron mill", detail=True)
        forgotten = await memory.search(status="invalidated", detail=True)

        for hit in [*found.results, *forgotten.results]:
            assert hit.keys() <= get_type_hints(results.Hit).keys()
        assert found.results[0]["score"] > 0
        for id_ in (first.memory_id, second.memory_id):
            assert (await memory.get(id_, "history", "relations", "clusters")).keys() <= get_type_hints(
                results.WholeMemory
            ).keys()
        assert all(node.keys() <= get_type_hints(results.Node).keys() for node in explored.nodes)
        assert all(edge.keys() <= get_type_hints(results.Edge).keys() for edge in explored.edges)


def typed(hit: results.Hit, memory: results.WholeMemory, found: results.Found) -> None:
    """A type checker refuses what a program misspells: these lines are errors, or the comment beside each is one."""
    hit["contnet"]  # type: ignore[typeddict-item]
    memory["verison"]  # type: ignore[typeddict-item]
    found.result  # type: ignore[attr-defined]  # noqa: B018


async def test_all_memories_are_gone_through_once_whatever_changes_meanwhile(settings: Settings) -> None:
    texts = [f"Memory number {n}." for n in range(230)]
    async with Memory(settings) as memory:
        for start in (0, 200):
            await memory.add_many([{"content": text, "dedup_policy": "insert"} for text in texts[start : start + 200]])
        seen = []
        async for hit in memory.all():
            seen.append(hit["content"])
            if len(seen) == 50:
                await memory.forget(hit["id"])
                await memory.add("A later one.")
        assert sorted(seen) == sorted(texts)
        assert [hit["content"] async for hit in memory.all(status="invalidated")] == [seen[49]]
        with pytest.raises(InvalidInput, match="limit"):
            async for _ in memory.all(limit=3):  # type: ignore[call-arg]
                pass


async def test_fifty_users_share_connections_and_none_sees_another(database: Database) -> None:
    async with Pgengram(database.url, embedder="none:", pool_size=4) as store:
        await asyncio.gather(*(store.namespace(f"user-{n}").add(f"Number {n} likes tea.") for n in range(50)))
        found = await asyncio.gather(*(store.namespace(f"user-{n}").search("tea") for n in range(50)))
        [(open_,)] = database.as_login(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    assert [[hit["content"] for hit in one.results] for one in found] == [[f"Number {n} likes tea."] for n in range(50)]
    assert open_ <= 12
    with pytest.raises(InvalidInput, match="NAMESPACE"):
        store.namespace("")
    with pytest.raises(InvalidInput, match="pool_size"):
        Pgengram(database.url, pool_size=0)


async def test_a_database_without_connections_left_is_called_so(postgres: str, database: Database) -> None:
    login = f"crowded_{database.name[-6:]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {login} LOGIN CONNECTION LIMIT 0 PASSWORD 'crowded'")
        try:
            url = psycopg.conninfo.make_conninfo(in_database(postgres, database.name), user=login, password="crowded")
            with pytest.raises(NotReady, match="no connections left") as caught:
                await Memory(database_url=url, embedder="none:", connect_timeout_s=0.5).search("tea")
        finally:
            connection.execute(f"DROP ROLE {login}")
    assert "max_connections" in caught.value.hint


async def test_what_is_closed_or_of_another_loop_says_so(settings: Settings) -> None:
    store = Pgengram(settings)
    memory = store.namespace("notes")
    await memory.add("Bees dance.")
    await memory.close()  # what a store gave is closed with it
    assert (await memory.search("bees")).count == 1

    def elsewhere() -> None:
        asyncio.run(memory.search("bees"))

    with pytest.raises(Misused, match="another event loop"):
        await asyncio.to_thread(elsewhere)

    under_way = asyncio.create_task(memory.add_many([{"content": f"Bee {n}."} for n in range(50)]))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    assert (await under_way).created == 50
    with pytest.raises(Misused, match="closed"):
        await memory.search("bees")


async def test_a_call_may_be_given_a_time(settings: Settings) -> None:
    async with Memory(settings) as memory:
        with pytest.raises(TimedOut, match="1e-06"):
            await memory.with_timeout(1e-6).search("bees")
        assert (await memory.with_timeout(PATIENCE_S).search("bees")).count == 0
        assert issubclass(TimedOut, TimeoutError)


def test_a_program_without_a_loop_of_its_own_uses_one_runner(database: Database) -> None:
    """What docs/reference/library.md shows; nothing is printed on the way out, and a second loop is refused in words."""
    program = f"""
import asyncio
from pgengram import Memory
from pgengram.runtime.process_setup import event_loop

memory = Memory(database_url={database.url!r}, embedder="none:")
with asyncio.Runner(loop_factory=event_loop) as runner:
    runner.run(memory.add("Bees dance."))
    print(runner.run(memory.search("bees")).count)
try:
    asyncio.run(memory.search("bees"))
except Exception as error:
    print(type(error).__name__)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S,
                           env=environment(), check=False)  # fmt: skip

    assert (ended.stdout.split(), ended.stderr) == (["1", "Misused"], "")


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, pgengram; print(sorted({'pydantic', 'psycopg', 'numpy', 'mcp', 'asyncio'} & {*sys.modules}))"

    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_example_runs_and_leaves_nothing(database: Database) -> None:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLE)], env=environment(database_url=database.url), capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    assert "Stripe" in ended.stdout.splitlines()[1]
    assert "before: The staging server is restarted every Sunday" in ended.stdout
    assert database.as_login("SELECT count(*) FROM memories") == [(0,)]
