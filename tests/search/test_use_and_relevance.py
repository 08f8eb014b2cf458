"""Use: being shown is counted and weighs nothing, being read or confirmed strengthens; relevance is what the formula says."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from mcp import Client

from helpers import Database, Served, call, found, hits, nightly, owned_tables, read, remember, until
from pgengram.inputs import NewMemory, Question
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

QUESTIONS = ["green tea", "Who drinks coffee?", "the harbour at night", "cake", "What did Mira say?", "tea or coffee"]
CONTENTS = [
    "Mira drinks green tea.", "Tom drinks coffee.", "The harbour is quiet at night.", "Cake goes with tea.", "Cake goes with coffee.",
    "Tea was late at the harbour.", "Mira said that coffee is bitter.", "Green is a quiet colour.",
]  # fmt: skip


async def answers(client: Client, questions: list[str]) -> dict[str, list[tuple[str, float]]]:
    return {q: [(hit["id"], hit["score"]) for hit in await hits(client, q, limit=50)] for q in questions}


async def test_the_order_of_questions_never_changes_an_answer(client: Client) -> None:
    await call(client, "create_memories", items=[{"content": content} for content in CONTENTS])

    forth = await answers(client, QUESTIONS)
    for _ in range(3):
        await answers(client, QUESTIONS[:1])
    back = await answers(client, QUESTIONS[::-1])

    for question in QUESTIONS:
        assert [id_ for id_, _ in back[question]] == [id_ for id_, _ in forth[question]]
        scores = [score for _, score in forth[question]]
        assert [score for _, score in back[question]] == pytest.approx(scores, abs=2e-4)


STATE = "SELECT access_count, relevance_anchor, reinforcement, importance FROM memory_activation"


@pytest.mark.shows(16)
async def test_what_searches_show_is_counted_and_becomes_no_more_relevant(client: Client, db: Database) -> None:
    await remember(client, "Mira drinks green tea.")
    [before] = db.rows(STATE)

    for question in ({"query": "tea"}, {}, {"query": "tea", "mode": "text"}, {"query": "tea", "mode": "substring"}):
        await hits(client, **question)
    await call(client, "recall_context", context="green tea")
    await call(client, "search_memories", count_only=True)

    async def counted() -> bool:
        return bool(db.value("SELECT access_count FROM memory_activation") == 5)

    await until(counted)
    [after] = db.rows(STATE)
    assert after == before | {"access_count": 5}


async def test_what_a_budget_leaves_out_is_not_counted_as_shown(client: Client, db: Database) -> None:
    for n in range(4):
        await remember(client, f"{n} " + "word " * 50)

    await hits(client, max_chars=300)

    async def counted() -> bool:
        return bool(db.value("SELECT sum(access_count) FROM memory_activation") == 1)

    await until(counted)


async def test_hits_that_wait_are_written_when_a_manager_closes(served: Served) -> None:
    manager = MemoryManager(Settings(database_url=served.db.url, embedder="none:"))
    await manager.create_memory(NewMemory(content="Tea."))
    for _ in range(7):
        await manager.search_memories(Question(query="tea"))
    await manager.close()

    assert served.db.value("SELECT access_count FROM memory_activation") == 7


USES: list[tuple[str, dict[str, Any]]] = [
    ("get_memories", {"ids": ["{id}"]}), ("update_memory", {"id": "{id}", "confirm": True}),
    ("update_memory", {"id": "{id}", "content": "Mira drinks black tea."}), ("update_memory", {"id": "{id}", "tags": ["tea"]}),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "arguments"), USES, ids=["get", "confirm", "change", "tag"])
async def test_reading_confirming_and_changing_make_a_memory_more_relevant(
    client: Client, db: Database, tool: str, arguments: dict[str, Any]
) -> None:
    id_ = await remember(client, "Mira drinks green tea.", importance=0.4)

    filled = {
        name: [id_] if value == ["{id}"] else id_ if value == "{id}" else value for name, value in arguments.items()
    }
    await call(client, tool, **filled)

    assert db.value(STATE.replace("access_count,", "").replace("relevance_anchor, reinforcement,", "")) == 0.4
    assert db.value(
        "SELECT pgengram_relevance(relevance_anchor, rate_per_day, now()) FROM memory_activation"
    ) == pytest.approx(0.5, abs=1e-6)


async def test_a_dry_run_and_a_change_of_nothing_are_no_use(client: Client, db: Database) -> None:
    id_ = await remember(client, "Mira drinks green tea.", importance=0.4)
    before = db.rows(STATE)

    await call(client, "update_memory", id=id_, content="Other.", dry_run=True)
    await call(client, "update_memory", id=id_, importance=0.4)

    assert db.rows(STATE) == before


async def test_what_was_used_comes_before_its_equal(client: Client) -> None:
    first = await remember(client, "The bakery on the left sells rye bread.")
    second = await remember(client, "The bakery on the right sells rye bread.")
    order = await found(client, "Which bakery sells rye bread?")

    for _ in range(5):
        await read(client, order[1])

    assert await found(client, "Which bakery sells rye bread?") == order[::-1]
    assert set(order) == {first, second}


# -- against brute force -------------------------------------------------------------------------------------------

BRUTE = """
SELECT m.id::text AS id, pgengram_relevance(a.relevance_anchor, a.rate_per_day, %(at)s) AS relevance
FROM memories m JOIN memory_activation a ON a.memory_id = m.id AND a.namespace_id = m.namespace_id
WHERE m.status = 'active' AND (m.expires_at IS NULL OR m.expires_at > now()) AND (%(even)s = '' OR EXISTS (
  SELECT FROM memory_tags t WHERE t.memory_id = m.id AND t.namespace_id = m.namespace_id AND t.tag = %(even)s))
"""
TODAY = datetime.now(UTC)
MOMENTS = [TODAY + timedelta(days=days) for days in (-10_000, -400, -30, 0, 1, 45, 365, 3_650, 40_000)]
KINDS = ["fact", "person", "observation", "error", "goal", "pattern"]


@pytest.fixture(scope="module")
async def aged(serving_words: Served) -> AsyncIterator[tuple[MemoryManager, Database]]:
    """Two hundred memories of all ages, rates and importances; some used, forgotten or expired."""
    serving_words.db.empty(owned_tables())
    dice = random.Random(11)
    manager = MemoryManager(Settings(database_url=serving_words.db.url, embedder="none:"))
    items = [
        {"content": f"Memory {n}.", "kind": dice.choice(KINDS), "importance": dice.choice([0, 0.1, 0.5, 0.5, 1, dice.random()]),
         "pinned": dice.random() < 0.1, "tags": ["even"] if n % 2 == 0 else []}
        for n in range(200)
    ]  # fmt: skip
    ids = [result["memory_id"] for result in (await manager.create_memories(items)).results]
    serving_words.db.rows(
        """UPDATE memory_activation SET started_at = now() - make_interval(days => (('x' || right(memory_id::text, 3))::bit(12)::int))"""
    )
    await manager.forget_memories(ids[:10])
    serving_words.db.rows(
        "UPDATE memories SET expires_at = now() - interval '1 s' WHERE id = ANY(%s::uuid[])", [ids[10:20]]
    )
    yield manager, serving_words.db
    await manager.close()


async def listed(manager: MemoryManager, at: datetime, **more: Any) -> list[str]:
    shown: list[str] = []
    cursor = ""
    while True:
        question = Question.model_validate({"sort": "relevance", "now": at, "limit": 37, "cursor": cursor, **more})
        answer = await manager.search_memories(question)
        shown += [hit["id"] for hit in answer.results]
        if not answer.next_cursor:
            return shown
        cursor = answer.next_cursor


@pytest.mark.parametrize("filters", [{"tags": ["even"]}, *nightly({})], ids=["some", "all"])
async def test_a_list_by_relevance_is_that_of_the_formula_at_any_moment_before_and_after_use(
    aged: tuple[MemoryManager, Database], filters: dict[str, Any]
) -> None:
    manager, db = aged
    for used in (False, True):
        if used:
            everything = await listed(manager, TODAY)
            for start in (20, 100, 20):
                await manager.get_memories(everything[start : start + 20])
        for at in MOMENTS:
            given = {"at": at, "even": "even" if filters else ""}
            truth = {row["id"]: row["relevance"] for row in db.rows(BRUTE, given)}
            shown = await listed(manager, at, **filters)

            assert sorted(shown) == sorted(truth)
            values = [truth[id_] for id_ in shown]
            assert all(one >= two - 1e-12 for one, two in pairwise(values)), at
            assert values[:10] == pytest.approx(sorted(truth.values(), reverse=True)[:10], abs=1e-9)
