"""create_memories: many at once, each judged alone."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from mcp import Client

from helpers import PATIENCE_S, Database, Served, call, found, read, refused, said
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.connection import begin

BAD_ITEMS: dict[str, dict[str, Any]] = {
    "blank": {"content": "  "},
    "too long": {"content": "x" * 16_001},
    "no content": {},
    "unknown field": {"content": "x", "colour": "red"},
    "unknown type": {"content": "x", "type": "emotional"},
    "importance": {"content": "x", "importance": 1.5},
    "detail": {"content": "x", "type": "episodic", "metadata": {"emotional_valence": 7}},
    "more successes than attempts": {"content": "x", "type": "procedural", "metadata": {"success_count": 2}},
    "moment": {"content": "x", "occurred_at": "9999-12-31T23:59:59-05:00"},
    "vector": {"content": "x", "embedding": [1.0, 2.0]},
    "NUL": {"content": "a\0"},
    "half a character": {"content": "x", "metadata": {"a": {"b": "\0"}}},
}


@pytest.mark.shows(29)
async def test_bad_items_among_two_hundred_spare_the_others(client: Client, db: Database) -> None:
    items: list[Any] = [{"content": f"Shelf {n} holds box {n}."} for n in range(200)]
    bad = dict(zip(range(7, 200, 16), BAD_ITEMS.values(), strict=False))
    assert len(bad) == len(BAD_ITEMS)
    for place, item in bad.items():
        items[place] = item

    answer = await call(client, "create_memories", items=items)

    good = 200 - len(bad)
    assert (answer["created"], answer["failed"]) == (good, len(bad))
    assert [result["index"] for result in answer["results"]] == list(range(200))
    refused = [result for result in answer["results"] if not result["ok"]]
    assert [result["index"] for result in refused] == list(bad)
    assert {result["error"]["code"] for result in refused} == {"INVALID_INPUT"}
    assert db.value("SELECT count(*) FROM memories") == good


async def test_the_results_stand_in_the_order_of_the_items(client: Client, db: Database) -> None:
    answer = await call(client, "create_memories", items=[{"content": f"Item number {n}."} for n in range(50)])

    stored = {str(row["id"]): row["content"] for row in db.rows("SELECT id, content FROM memories")}
    assert [stored[result["memory_id"]] for result in answer["results"]] == [f"Item number {n}." for n in range(50)]
    assert all(result["ok"] and result["created"] for result in answer["results"])


async def test_memories_of_one_session_keep_the_order_in_which_they_came(client: Client, db: Database) -> None:
    await call(client, "create_memories", items=[{"content": f"First call, {n}."} for n in range(20)])
    await call(client, "create_memory", content="In between.")
    await call(client, "create_memories", items=[{"content": f"Second call, {n}."} for n in range(20)])

    rows = db.rows("SELECT content, session_id, session_sequence FROM memories ORDER BY session_sequence")
    assert [row["content"] for row in rows] == [
        *(f"First call, {n}." for n in range(20)),
        "In between.",
        *(f"Second call, {n}." for n in range(20)),
    ]
    assert len({row["session_id"] for row in rows}) == 1
    assert all(one["session_sequence"] < next_["session_sequence"] for one, next_ in pairwise(rows))


async def test_memories_of_a_named_session_keep_their_order_over_several_calls(client: Client, db: Database) -> None:
    for call_ in range(3):
        items = [{"content": f"Turn {call_}.{n}.", "session_id": "talk-1"} for n in range(5)]
        await call(client, "create_memories", items=items)

    rows = db.rows("SELECT content FROM memories WHERE session_id = 'talk-1' ORDER BY session_sequence")
    assert [row["content"] for row in rows] == [f"Turn {c}.{n}." for c in range(3) for n in range(5)]


async def test_items_of_all_types_are_stored_with_their_detail(client: Client) -> None:
    items = [
        {"content": "The boiler was repaired.", "type": "episodic", "metadata": {"result": {"ok": True}}},
        {"content": "The boiler is a Vaillant.", "type": "semantic", "metadata": {"category": ["house"]}},
        {"content": "To restart the boiler hold the knob.", "type": "procedural", "metadata": {"steps": ["hold"]}},
        {"content": "Repair before replacing.", "type": "strategic", "metadata": {"confidenceScore": 1}},
    ]

    ids = [result["memory_id"] for result in (await call(client, "create_memories", items=items))["results"]]

    details = [(await read(client, id_))["detail"] for id_ in ids]
    assert details[0]["result"] == {"ok": True}
    assert details[1]["category"] == ["house"]
    assert details[2]["steps"] == ["hold"]
    assert details[3]["confidence_score"] == 1


async def test_an_item_that_says_the_same_as_another_gets_its_id(client: Client, db: Database) -> None:
    answer = await call(
        client, "create_memories", items=[{"content": "Twice."}, {"content": "Once."}, {"content": " twice.\n"}]
    )

    first, _, again = answer["results"]
    assert first["memory_id"] == again["memory_id"]
    assert answer["created"] == 2
    assert db.value("SELECT count(*) FROM memories") == 2


async def test_when_all_items_are_bad_each_one_says_why(client: Client) -> None:
    answer = await client.call_tool("create_memories", {"items": [{"content": ""}, {"content": "x", "importance": -9}]})
    told = json.loads(said(answer))

    assert answer.is_error
    assert (told["ok"], told["created"], told["failed"]) == (False, 0, 2)
    assert "content" in told["results"][0]["error"]["message"]
    assert "importance" in told["results"][1]["error"]["message"]


@pytest.mark.parametrize("items", [[], [{"content": "x"}] * 201], ids=["none", "201"])
async def test_what_is_no_list_of_one_to_two_hundred_is_refused(client: Client, items: list[object]) -> None:
    error = await refused(client, "create_memories", items=items)

    assert error["code"] == ("LIMIT_EXCEEDED" if len(items) > 200 else "INVALID_INPUT")
    assert "200" in error["message"]


async def test_an_item_that_is_no_object_spares_the_others(client: Client) -> None:
    answer = await call(client, "create_memories", items=[["a list"], {"content": "A good one."}, 7])

    assert [result["ok"] for result in answer["results"]] == [False, True, False]
    assert "object" in answer["results"][0]["error"]["message"]


async def test_many_long_items_are_found_by_their_own_words(client: Client) -> None:
    items = [{"content": f"Parcel zx{n:03} arrived. " + "It was heavy and had to be carried. " * 10} for n in range(50)]
    results = (await call(client, "create_memories", items=items))["results"]

    for n in (0, 24, 49):
        assert (await found(client, f"zx{n:03}", limit=1)) == [results[n]["memory_id"]]


async def test_no_item_is_stored_when_the_database_cannot_store_one_of_them(served: Served) -> None:
    client, db = served.client, served.db
    db.as_login(
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken'; END $$",
        """CREATE TRIGGER broken BEFORE INSERT ON memories FOR EACH ROW WHEN (NEW.content = 'Item 7.')
           EXECUTE FUNCTION broken()""",
    )
    try:
        error = await refused(client, "create_memories", items=[{"content": f"Item {n}."} for n in range(20)])
    finally:
        db.as_login("DROP FUNCTION broken CASCADE")

    assert error["code"] == "DATABASE_ERROR"
    assert db.rows("SELECT true FROM memories") == []


class Counting:
    """Counts the calls of the real embedder, and passes them on."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self.asked: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    async def passages(self, texts: list[str]) -> Any:
        self.asked.append(len(texts))
        return await self._embedder.passages(texts)


@pytest.mark.shows(2, 29)
async def test_all_items_are_embedded_in_one_call(database: Database) -> None:
    manager = MemoryManager(Settings(database_url=database.url))
    counting = Counting(manager.embedder)
    manager.models.configured = counting  # type: ignore[assignment]
    own = [1.0, *[0.0] * 383]
    items = [{"content": f"Item {n}."} for n in range(20)] + [{"content": ""}, {"content": "own", "embedding": own}]

    answer = await manager.create_memories(items)
    await manager.close()

    assert answer.created == 21
    assert counting.asked == [20]


@pytest.mark.shows(29)
@pytest.mark.parametrize("bad", BAD_ITEMS.values(), ids=BAD_ITEMS.keys())
async def test_a_bad_item_of_an_atomic_batch_leaves_nothing_and_is_named(
    client: Client, db: Database, bad: dict[str, Any]
) -> None:
    items: list[Any] = [{"content": f"Shelf {n} holds box {n}."} for n in range(20)]
    items[13] = bad

    error = await refused(client, "create_memories", items=items, atomic=True)

    assert error["code"] == "INVALID_INPUT"
    assert "Item 13" in error["message"]
    assert db.value("SELECT count(*) FROM memories") == 0


async def test_a_good_atomic_batch_is_stored(client: Client, db: Database) -> None:
    answer = await call(client, "create_memories", items=[{"content": f"Box {n}."} for n in range(5)], atomic=True)

    assert (answer["created"], answer["failed"]) == (5, 0)
    assert db.value("SELECT count(*) FROM memories") == 5


async def test_an_item_that_leads_to_an_unknown_memory_spares_the_others(client: Client, db: Database) -> None:
    [there] = [
        r["memory_id"] for r in (await call(client, "create_memories", items=[{"content": "There."}]))["results"]
    ]
    items = [
        {"content": "A.", "related_to": [there]},
        {"content": "B.", "related_to": ["00000000-0000-7000-8000-000000000000"]},
    ]

    answer = await call(client, "create_memories", items=items)

    assert [result["ok"] for result in answer["results"]] == [True, False]
    assert answer["results"][1]["error"]["code"] == "NOT_FOUND"
    assert db.value("SELECT count(*) FROM memory_relationships") == 1
    error = await refused(client, "create_memories", items=items, atomic=True)
    assert (error["code"], "Item 1" in error["message"]) == ("NOT_FOUND", True)
    assert db.value("SELECT count(*) FROM memories") == 2


SLOW = """
    CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.05); RETURN NEW; END';
    CREATE TRIGGER slowly BEFORE INSERT ON memories FOR EACH ROW EXECUTE FUNCTION slowly()
"""


async def test_a_batch_has_time_by_its_size_on_a_slow_machine(
    database: Database, manager: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.as_login(SLOW)
    monkeypatch.setattr(begin, "STATEMENT_TIMEOUT_MS", 1_000)
    begin.begin_sql.cache_clear()

    stored = await manager.create_memories([{"content": f"Crate {n} holds shelf {n}."} for n in range(40)])

    begin.begin_sql.cache_clear()
    assert stored.created == 40


async def test_a_long_batch_tells_how_far_it_is_and_a_client_that_gives_up_keeps_what_was_stored(
    wordless: Served,
) -> None:
    items = [{"content": f"Log {n}: " + f"the lamp of buoy {n} was lit again. " * 440} for n in range(40)]
    told: list[str] = []
    begun = asyncio.Event()

    async def progress(_: float, __: float | None, message: str | None) -> None:
        told.append(message or "")
        begun.set()

    calling = asyncio.create_task(
        wordless.client.call_tool("create_memories", {"items": items}, progress_callback=progress)
    )
    await asyncio.wait_for(begun.wait(), PATIENCE_S)
    calling.cancel()
    await asyncio.wait([calling])
    kept = wordless.db.value("SELECT count(*) FROM memories")
    answer = await wordless.client.call_tool("create_memories", {"items": items}, progress_callback=progress)
    again = json.loads(said(answer))

    assert told[0] == "2 of 40 memories are stored."
    assert told[-1] == "40 of 40 memories are stored."
    assert kept >= 2
    assert again["failed"] == 0
    assert [one["created"] for one in again["results"][:2]] == [False, False]
    assert wordless.db.value("SELECT count(*) FROM memories") == 40


async def test_a_long_batch_that_is_to_be_stored_whole_is_one_part(wordless: Served) -> None:
    items = [{"content": f"Log {n}: " + "the lamp was lit again. " * 660} for n in range(4)]
    told: list[str] = []

    async def progress(_: float, __: float | None, message: str | None) -> None:
        told.append(message or "")

    arguments = {"items": items, "atomic": True}
    await wordless.client.call_tool("create_memories", arguments, progress_callback=progress)

    assert told == []
    assert wordless.db.value("SELECT count(*) FROM memories") == 4
