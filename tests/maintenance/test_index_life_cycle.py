"""The life of a vector index: none while few, built, grown, distrusted, replaced, and cleaned up after."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any

import psycopg
import pytest

from helpers import Database, database_of, until
from pgengram.errors import DatabaseFailed
from pgengram.store.connection import locks, pooler
from pgengram.store.connection.database import Database as Opened
from pgengram.store.maintenance import index_state, indexes
from pgengram.store.maintenance.index_state import (
    FIRST_BUILD_ROWS,
    IndexState,
    build_bytes,
    describe_index,
    index_name,
    lists_for,
    most_lists,
)
from pgengram.store.maintenance.indexes import maintain, rebuild_index
from pgengram.store.recovery import backup
from pgengram.store.recovery.restoring import restore_backup

DIMENSIONS = 8
# Vectors in all directions: a memory's number decides which.
ADD = """
WITH made AS (
  INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from)
  SELECT current_setting('pgengram.namespace_id')::integer, gen_random_uuid(), 'semantic', 'Vector ' || n,
    decode(md5('v' || n), 'hex'), now()
  FROM generate_series(%(start)s::integer + 1, %(end)s::integer) AS n RETURNING namespace_id, id, content
)
INSERT INTO memory_vectors (namespace_id, memory_id, model_id, part, embedding)
SELECT namespace_id, id, %(model)s, 0, ARRAY(
  SELECT ('x' || left(md5(content || '/' || k), 8))::bit(32)::integer / 2147483648.0 FROM generate_series(1, 8) AS k
)::real[]::vector::halfvec FROM made
"""


@dataclass
class Vectors:
    """A database with vectors of one model."""

    db: Database
    model: int
    rows: int = 0

    def grow(self, rows: int) -> None:
        """Add vectors until there are `rows`."""
        self.db.rows(ADD, {"start": self.rows, "end": rows, "model": self.model})
        self.rows = rows

    async def maintained(self) -> bool:
        return await maintain(self.db.url, self.model, DIMENSIONS)

    def indexes(self) -> list[tuple[Any, ...]]:
        """The indexes of vectors beside the primary key: name, definition, whether valid, and the file, new when rebuilt."""
        return self.db.as_login(
            """SELECT c.relname, pg_get_indexdef(c.oid), i.indisvalid, c.relfilenode FROM pg_index i
               JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 'memory_vectors'::regclass AND NOT i.indisprimary"""
        )

    def noted(self) -> tuple[Any, ...]:
        """Lists, rows at build, rows at check and recall."""
        [row] = self.db.as_login(
            "SELECT index_lists, rows_at_build, rows_at_check, measured_recall FROM embedding_models"
        )
        return row

    async def state(self) -> IndexState:
        opened = Opened(self.db.url)
        await opened.open()
        try:
            return await describe_index(opened, self.model)
        finally:
            await opened.close()

    async def described(self) -> str:
        return str(await self.state())

    async def reindex(self, method: str) -> None:
        await rebuild_index(self.db.url, self.model, DIMENSIONS, method)


def begun(db: Database) -> Vectors:
    db.as_login("INSERT INTO namespaces (name) VALUES ('default')")
    [(model,)] = db.as_login(
        f"INSERT INTO embedding_models (name, dimensions, state) VALUES ('m', {DIMENSIONS}, 'active') RETURNING id"
    )
    return Vectors(db, model)


@pytest.fixture
def vectors(database: Database) -> Vectors:
    return begun(database)


@pytest.fixture(scope="module")
def thousands(postgres: str, template: str) -> Iterator[str]:
    """The name of a database with as many vectors as an index pays for, and none yet: a template for others."""
    with database_of(postgres, template) as db:
        begun(db).grow(FIRST_BUILD_ROWS)
        yield db.as_template()


@pytest.fixture
def enough(postgres: str, thousands: str) -> Iterator[Vectors]:
    """As many vectors as an index pays for."""
    with database_of(postgres, thousands) as db:
        [(model,)] = db.as_login("SELECT id FROM embedding_models")
        yield Vectors(db, model, FIRST_BUILD_ROWS)


async def test_below_five_thousand_vectors_there_is_no_index(vectors: Vectors) -> None:
    assert await vectors.maintained() is False
    vectors.grow(4_999)

    assert await vectors.maintained() is False
    assert vectors.indexes() == []
    assert await vectors.described() == "exact search; an index is built once there are 5,000 vectors"

    vectors.grow(5_000)
    assert await vectors.maintained() is True


async def test_the_planner_knows_a_young_store_long_before_autovacuum_has_looked(vectors: Vectors) -> None:
    for rows in (30, 70, 180):
        vectors.grow(rows)
        await vectors.maintained()

        assert vectors.db.as_login("SELECT reltuples FROM pg_class WHERE relname = 'memories'") == [(rows,)]


async def test_five_thousand_vectors_have_an_index_of_as_many_lists_as_their_root(enough: Vectors) -> None:
    assert await enough.maintained() is True

    [(name, definition, valid, _)] = enough.indexes()
    assert name == index_name(enough.model)
    assert valid
    assert "USING ivfflat" in definition
    assert f"lists='{isqrt(5_000)}'" in definition
    assert f"WHERE (model_id = {enough.model})" in definition
    assert enough.noted() == (isqrt(5_000), 5_000, 5_000, None)
    assert (await enough.described()).startswith("ivfflat, 70 lists, built at 5,000 vectors on ")


async def test_a_restored_store_of_thousands_has_its_index_at_once_and_searches_answer_as_before(
    enough: Vectors, tmp_path: Path
) -> None:
    nearest = "SELECT memory_id FROM memory_vectors WHERE model_id = %s ORDER BY embedding <=> %s::vector LIMIT 5"
    question = [enough.model, str([0.1 * number for number in range(DIMENSIONS)])]
    await enough.maintained()
    before = enough.db.rows(nearest, question)
    backup.write_backup(enough.db.url, tmp_path / "thousands.backup")
    enough.db.rows("DELETE FROM memories WHERE id = %s", [before[0]["memory_id"]])
    enough.db.close()

    await asyncio.to_thread(restore_backup, enough.db.url, tmp_path / "thousands.backup")

    [(name, _, valid, _)] = enough.indexes()
    assert (name, valid) == (index_name(enough.model), True)
    assert (await enough.state()).build.usable
    assert enough.db.rows(nearest, question) == before
    enough.db.close()


async def test_looking_again_changes_nothing_while_little_is_new(enough: Vectors) -> None:
    await enough.maintained()
    before = enough.indexes()
    enough.grow(5_900)

    assert await enough.maintained() is True

    assert enough.indexes() == before
    assert enough.noted() == (70, 5_000, 5_000, None)


async def test_a_fifth_more_vectors_have_the_recall_measured_and_a_good_index_left_alone(enough: Vectors) -> None:
    await enough.maintained()
    before = enough.indexes()
    enough.grow(6_000)

    assert await enough.maintained() is True

    assert enough.indexes() == before
    lists, built, checked, recall = enough.noted()
    assert (lists, built, checked) == (70, 5_000, 6_000)
    assert indexes.LEAST_RECALL <= recall <= 1
    assert f"recall {recall:.2f} when last measured" in await enough.described()


async def test_an_index_that_finds_too_little_is_built_anew(enough: Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    await enough.maintained()
    [(*_, before)] = enough.indexes()
    enough.grow(6_000)
    monkeypatch.setattr(indexes, "LEAST_RECALL", 1.1)

    assert await enough.maintained() is True

    [(_, definition, valid, after)] = enough.indexes()
    assert (valid, after != before) == (True, True)
    assert f"lists='{isqrt(6_000)}'" in definition
    assert enough.noted() == (isqrt(6_000), 6_000, 6_000, None)


async def test_a_rebuild_that_was_broken_off_is_due_again(enough: Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    await enough.maintained()
    enough.grow(6_000)
    with monkeypatch.context() as patch:
        patch.setattr(indexes, "LEAST_RECALL", 1.1)

        async def broken(*_: Any) -> None:
            raise psycopg.errors.QueryCanceled

        patch.setattr(indexes, "_build", broken)
        with pytest.raises(psycopg.Error):
            await enough.maintained()
    monkeypatch.setattr(indexes, "LEAST_RECALL", 1.1)

    await enough.maintained()

    assert enough.noted()[1] == 6_000


@pytest.mark.nightly
async def test_twice_the_vectors_have_the_index_built_anew_with_more_lists(enough: Vectors) -> None:
    await enough.maintained()
    [(*_, before)] = enough.indexes()
    enough.grow(10_000)

    assert await enough.maintained() is True

    [(name, definition, valid, after)] = enough.indexes()
    assert (name, valid, after != before) == (index_name(enough.model), True, True)
    assert "lists='100'" in definition
    assert enough.noted() == (100, 10_000, 10_000, None)


async def test_invalid_leftovers_are_cleaned_up(enough: Vectors) -> None:
    """What an interrupted CREATE or REINDEX CONCURRENTLY leaves behind: the index itself, and one beside it."""
    name = index_name(enough.model)
    for leftover in (name, f"{name}_ccnew", f"{name}_ccnew1"):
        enough.db.as_login(
            f"CREATE INDEX {leftover} ON memory_vectors USING ivfflat ((embedding::halfvec({DIMENSIONS})) halfvec_cosine_ops) "
            f"WITH (lists = 1) WHERE model_id = {enough.model}",
            f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{leftover}'::regclass",
        )
    assert (await enough.described()).startswith("exact search")

    assert await enough.maintained() is True

    [(found, definition, valid, _)] = enough.indexes()
    assert (found, valid) == (name, True)
    assert "lists='70'" in definition


async def test_an_index_of_another_model_is_no_leftover(enough: Vectors) -> None:
    other = index_name(enough.model + 1)
    enough.db.as_login(
        f"CREATE INDEX {other} ON memory_vectors USING ivfflat ((embedding::halfvec({DIMENSIONS})) halfvec_cosine_ops) "
        f"WITH (lists = 1) WHERE model_id = {enough.model + 1}"
    )

    await enough.maintained()

    assert {name for name, *_ in enough.indexes()} == {other, index_name(enough.model)}


async def test_of_several_that_look_at_the_same_moment_only_one_builds(
    enough: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = counted_builds(monkeypatch)

    await asyncio.gather(*(enough.maintained() for _ in range(4)))

    assert len(built) == 1
    assert len(enough.indexes()) == 1
    assert await enough.maintained() is True


async def test_one_that_looked_before_another_had_built_does_not_build_again(
    enough: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = counted_builds(monkeypatch)
    value, first = indexes._fetch_value, True

    async def unlocked() -> bool:  # a server process outlives its connection by a moment
        return (
            enough.db.as_login(
                "SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
            == []
        )

    async def after_another(connection: Any, statement: Any, parameters: dict[str, Any]) -> Any:
        nonlocal first
        if "pg_try_advisory_lock" in str(statement) and first:
            first = False
            assert await enough.maintained() is True
            await until(unlocked)
        return await value(connection, statement, parameters)

    monkeypatch.setattr(indexes, "_fetch_value", after_another)

    assert await enough.maintained() is True
    assert len(built) == 1


async def test_while_another_builds_the_old_state_is_told(enough: Vectors) -> None:
    async with pooler.alone(enough.db.url, locks.INDEXES):
        assert await enough.maintained() is False
        assert enough.indexes() == []


def counted_builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    built: list[int] = []
    build = indexes._build

    async def counted(connection: Any, method: str, model_id: int, dimensions: int, rows: int) -> None:
        built.append(rows)
        await build(connection, method, model_id, dimensions, rows)

    monkeypatch.setattr(indexes, "_build", counted)
    return built


@pytest.mark.nightly
async def test_another_method_replaces_the_index(vectors: Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (indexes, index_state):  # an hnsw index of thousands takes seconds
        monkeypatch.setattr(module, "FIRST_BUILD_ROWS", 500)
    vectors.grow(400)
    await vectors.reindex("hnsw")
    assert vectors.indexes() == []

    vectors.grow(500)
    assert await vectors.maintained() is True  # by the method that was asked for before there was enough for an index
    [(name, definition, valid, before)] = vectors.indexes()
    assert (name, valid) == (index_name(vectors.model), True)
    assert "USING hnsw" in definition
    assert (await vectors.described()).startswith("hnsw, built at 500 vectors")

    await vectors.maintained()
    assert [file for *_, file in vectors.indexes()] == [before]  # built once
    await vectors.reindex("hnsw")
    [(*_, after)] = vectors.indexes()
    assert after != before  # to choose the same again is to ask for a new one

    vectors.grow(1_000)
    await vectors.maintained()
    [(_, definition, _, file)] = vectors.indexes()
    assert "USING hnsw" in definition
    assert file != after

    await vectors.reindex("ivfflat")
    [(_, definition, _, _)] = vectors.indexes()
    assert f"lists='{isqrt(1_000)}'" in definition


async def test_no_other_method_can_be_chosen(enough: Vectors) -> None:
    with pytest.raises(DatabaseFailed):
        await enough.reindex("btree")
    assert enough.indexes() == []


async def test_the_recall_of_a_good_index_is_high_and_that_of_one_probe_in_many_lists_is_not(
    enough: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough.db.as_login(
        f"CREATE INDEX {index_name(enough.model)} ON memory_vectors USING ivfflat ((embedding::halfvec({DIMENSIONS})) "
        f"halfvec_cosine_ops) WITH (lists = 500) WHERE model_id = {enough.model}"
    )
    enough.db.as_login("ANALYZE memory_vectors")  # or a planner that knows nothing yet may pass the index by

    async def recall(probes: int) -> float:
        monkeypatch.setattr(indexes, "PROBES", probes)
        monkeypatch.setattr(indexes, "SAMPLES", 8)
        async with await pooler.connect(enough.db.url) as connection:
            return await indexes.measured_recall(connection, enough.model, DIMENSIONS)

    assert await recall(500) == 1
    assert await recall(1) < 0.9


async def test_of_many_that_say_the_same_any_ten_are_the_nearest(
    enough: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    await enough.maintained()
    before = enough.indexes()
    enough.db.rows(
        "UPDATE memory_vectors SET embedding = '[1,0,0,0,0,0,0,0]' WHERE memory_id < '80000000-0000-0000-0000-000000000000'"
    )
    enough.grow(6_000)

    await enough.maintained()

    assert enough.indexes() == before
    assert enough.noted()[3] >= indexes.LEAST_RECALL


@pytest.mark.parametrize(("rows", "lists"), [(0, 1), (1, 1), (5_000, 70), (10_000, 100), (1_000_000, 1_000)])
def test_lists_are_the_root_of_the_rows(rows: int, lists: int) -> None:
    assert lists_for(rows) == lists


@pytest.mark.parametrize(("lists", "megabytes"), [(1_060, 262), (1_100, 280), (1_400, 438)])
def test_the_memory_for_a_build_is_what_pgvector_asks_for(lists: int, megabytes: int) -> None:
    """As its own error said of a million vectors of 384 dimensions."""
    assert build_bytes(lists, 384) >> 20 == megabytes - 1


async def test_an_index_that_would_need_more_memory_than_allowed_is_built_with_fewer_lists(
    enough: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "LEAST_BUILD_BYTES", 1 << 20)
    monkeypatch.setattr(indexes, "MOST_BUILD_BYTES", 1 << 20)

    assert await enough.maintained() is True

    assert enough.noted()[0] == most_lists(1 << 20, DIMENSIONS)
    assert enough.noted()[0] < isqrt(5_000)
