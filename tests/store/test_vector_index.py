"""The ivfflat index: made by the server itself once it pays, and used from then on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from mcp import Client

from helpers import Database, call, connected, database_of, until
from pgengram.inputs import NewMemory, Question
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.connection.database import Transaction
from pgengram.store.maintenance.index_state import index_name

MEMORIES = 5_200
BELOW = 4_800
BATCH = 200
# Of no other use than to be found by their vectors; the words of so many take long to count.
ADD = """
WITH made AS (
  INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from)
  SELECT current_setting('pgengram.namespace_id')::integer, gen_random_uuid(), 'semantic', format('Memory number %%s.', n),
    decode(md5('m' || n), 'hex'), now()
  FROM generate_series(%(start)s::integer, %(end)s::integer - 1) AS n RETURNING namespace_id, id, content
), active AS (
  INSERT INTO memory_activation (namespace_id, memory_id, importance, rate_per_day, started_at)
  SELECT namespace_id, id, 0.5, 0.003, now() FROM made
)
INSERT INTO memory_vectors (namespace_id, memory_id, model_id, part, embedding)
SELECT namespace_id, id, (SELECT id FROM embedding_models), 0, given.vector::halfvec
FROM made JOIN unnest(%(vectors)s::text[]) WITH ORDINALITY AS given (vector, place)
  ON made.content = format('Memory number %%s.', %(start)s + place - 1)
"""
DIMENSIONS = 384
NAME = index_name(0).removesuffix("0")


@dataclass(frozen=True)
class Filled:
    client: Client
    db: Database
    vectors: Any


def unit_vectors() -> Any:
    """Vectors in clumps, as texts are: shape (5200, 384)."""
    random = np.random.default_rng(7)
    clumps = random.normal(size=(60, DIMENSIONS))
    made = clumps[random.integers(60, size=MEMORIES)] + 0.8 * random.normal(size=(MEMORIES, DIMENSIONS))
    return made / np.linalg.norm(made, axis=1, keepdims=True)


async def store(client: Client, vectors: Any, start: int, end: int) -> None:
    for first in range(start, end, BATCH):
        items = [{"content": f"Memory number {n}.", "embedding": [round(float(x), 5) for x in vectors[n]]}
                 for n in range(first, min(first + BATCH, end))]  # fmt: skip
        answer = await call(client, "create_memories", items=items)
        assert answer["created"] == len(items)


def index_of(db: Database) -> list[tuple[str]]:
    return db.as_login(
        f"""SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indexrelid
            WHERE indisvalid AND indisready AND c.relname LIKE '{NAME}%'"""
    )


def scans(db: Database) -> int:
    """Return how often the index was read."""
    [(count,)] = db.as_login(f"SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname LIKE '{NAME}%'")
    return int(count)


async def asked(client: Client, vector: Any, **more: Any) -> dict[str, Any]:
    """Search by meaning alone."""
    return await call(client, "search_memories", embedding=[float(x) for x in vector], **more)


@pytest.fixture(scope="module")
async def below(postgres: str, template: str) -> AsyncIterator[Filled]:
    """A server whose store has fewer vectors than an index would pay for."""
    vectors = unit_vectors()
    with database_of(postgres, template) as db:
        async with connected(database_url=db.url) as client:
            await store(client, vectors, 0, BATCH)
            rest = [json.dumps(vector) for vector in vectors[BATCH:BELOW].round(5).tolist()]
            db.rows(ADD, {"start": BATCH, "end": BELOW, "vectors": rest})
            yield Filled(client, db, vectors)


@pytest.fixture(scope="module")
async def above(below: Filled) -> Filled:
    """The same store with enough of them, after the server has noticed."""
    await store(below.client, below.vectors, BELOW, MEMORIES)

    async def built() -> bool:
        return (await asked(below.client, below.vectors[0]))["search"] == "approximate"

    await until(built)
    return below


async def test_a_small_store_has_no_index_and_is_searched_exactly(below: Filled) -> None:
    vector = below.vectors[17]

    answer = await asked(below.client, vector)

    assert index_of(below.db) == []
    assert answer["search"] == "exact"
    expected = np.argsort(-(below.vectors[:BELOW] @ vector))[:10]
    assert [hit["content"] for hit in answer["results"]] == [f"Memory number {n}." for n in expected]


async def test_the_index_of_a_grown_store_appears_by_itself(above: Filled) -> None:
    [(definition,)] = index_of(above.db)

    assert "USING ivfflat" in definition
    assert "halfvec_cosine_ops" in definition
    assert f"halfvec({DIMENSIONS})" in definition
    assert "WHERE (model_id =" in definition


async def test_a_search_uses_the_index_and_says_so(above: Filled) -> None:
    answer = await asked(above.client, above.vectors[5_100], limit=5)

    assert answer["search"] == "approximate"
    assert answer["results"][0]["content"] == "Memory number 5100."


async def test_the_plan_of_a_search_shows_the_index(above: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[str] = []
    run = Transaction.columns

    async def explained(tx: Transaction, statement: Any, parameters: Any = None) -> Any:
        plans.append("\n".join(str(*line.values()) for line in await tx.rows(f"EXPLAIN {statement}", parameters)))
        return await run(tx, statement, parameters)

    monkeypatch.setattr(Transaction, "columns", explained)
    manager = MemoryManager(Settings(database_url=above.db.url))
    question = Question(embedding=[float(x) for x in above.vectors[0]])

    async def approximate() -> bool:
        return (await manager.search_memories(question)).search == "approximate"

    await until(approximate)
    await manager.close()

    assert NAME in plans[-1]


async def test_each_search_is_a_scan_of_the_index(above: Filled) -> None:
    before = scans(above.db)
    for n in range(5):
        await asked(above.client, above.vectors[n])

    async def counted() -> bool:
        return scans(above.db) >= before + 5

    await until(counted)


@pytest.mark.nightly
async def test_many_small_namespaces_do_not_keep_a_large_one_from_the_index(above: Filled) -> None:
    """A plan that serves every namespace is made for one of average size, for whom to compare each vector is cheaper."""
    host = MemoryManager(Settings(database_url=above.db.url))
    await host.ready()
    for n in range(80):
        guest = MemoryManager(Settings(database_url=above.db.url, namespace=f"small {n}"), host)
        await guest.create_memory(NewMemory(content="Small.", embedding=[float(x) for x in above.vectors[n]]))
        await guest.close()
    await host.close()
    above.db.as_login("ANALYZE memory_vectors")

    before = scans(above.db)
    for n in range(8):
        await asked(above.client, above.vectors[n])

    async def counted() -> bool:
        return scans(above.db) >= before + 8

    await until(counted)


@pytest.mark.shows(17)
async def test_the_approximate_search_finds_what_the_exact_one_would(above: Filled) -> None:
    found, wanted = 0, 0
    for n in range(0, MEMORIES, 200):
        expected = {f"Memory number {m}." for m in np.argsort(-(above.vectors @ above.vectors[n]))[:10]}
        answer = await asked(above.client, above.vectors[n])
        found += len(expected & {hit["content"] for hit in answer["results"]})
        wanted += 10

    assert found / wanted >= 0.9


@pytest.mark.shows(17)
async def test_a_narrow_filter_is_searched_exactly_beside_the_index(above: Filled) -> None:
    for n in range(3):
        await call(above.client, "create_memory", content=f"Rare {n}.", project="rare",
                   embedding=[float(x) for x in -above.vectors[n]])  # fmt: skip

    answer = await asked(above.client, above.vectors[0], project="rare")

    assert answer["search"] == "exact"
    assert answer["count"] == 3


async def test_another_server_on_the_store_uses_the_same_index(above: Filled) -> None:
    async with connected(database_url=above.db.url) as other:

        async def approximate() -> bool:
            return (await asked(other, above.vectors[0]))["search"] == "approximate"

        await until(approximate)

    assert len(index_of(above.db)) == 1


async def test_near_duplicates_are_found_through_the_index(above: Filled) -> None:
    beside = above.vectors[5_100] + 0.1 * above.vectors[11]

    answer = await call(
        above.client, "create_memory", content="A memory number 5100.", embedding=[float(x) for x in beside]
    )

    near = answer["near_duplicates"]
    assert [one["excerpt"] for one in near] == ["Memory number 5100."]
    await call(above.client, "forget_memories", ids=[answer["memory_id"]])


async def test_a_near_duplicate_of_a_small_project_is_found_among_many_nearer_ones_of_others(above: Filled) -> None:
    vector = [float(x) for x in above.vectors[4_321]]
    beside = [float(x) for x in above.vectors[4_321] + 0.3 * above.vectors[12]]
    mine = await call(above.client, "create_memory", content="Mine.", project="small", embedding=beside)
    items = [
        {"content": f"Item {n}.", "user": f"user {n}", "embedding": vector, "dedup_policy": "insert"}
        for n in range(120)
    ]
    await call(above.client, "create_memories", items=items)

    answer = await call(above.client, "create_memory", content="Mine too.", project="small", embedding=vector)

    assert mine["memory_id"] in [one["id"] for one in answer["near_duplicates"]]


async def test_a_namespace_of_one_memory_in_a_hundred_gets_the_true_nearest(above: Filled) -> None:
    """Last, as it adds vectors: row-level security takes most of what the index finds, and the answer is full all the same."""
    few = above.vectors[::100]
    async with connected(database_url=above.db.url, namespace="small") as small:
        await store(small, few, 0, len(few))
        for vector in above.vectors[50:1_050:100]:
            found = (await asked(small, vector, mode="semantic"))["results"]
            likeness = few @ vector
            nearest = [likeness[int(hit["content"].removeprefix("Memory number ").rstrip("."))] for hit in found]
            assert nearest == pytest.approx(sorted(likeness, reverse=True)[:10], abs=2e-3)  # stored at half precision
