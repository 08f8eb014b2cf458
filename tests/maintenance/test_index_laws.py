"""What holds of the vector index whoever builds it at the same time, and in whatever state a broken build has left it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_index_life_cycle import Vectors, begun

from helpers import Database, connected, database_of, environment, examples, until
from machine import pgengram
from pgengram import Memory
from pgengram.embedders.builtin import NAME
from pgengram.errors import PgengramError
from pgengram.store.connection import locks, pooler
from pgengram.store.maintenance import index_state, indexes
from pgengram.store.maintenance.index_state import index_name

FEW = 500  # vectors that an index pays for here, as thousands take longer
MANY = 6_000
QUICK = settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
VALID = "SELECT count(*) FROM pg_index WHERE indrelid = 'memory_vectors'::regclass AND NOT indisprimary AND indisvalid"
BUILDERS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'CREATE INDEX%'"
ADD_OF_BUILTIN = """
WITH made AS (
  INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from)
  SELECT current_setting('pgengram.namespace_id')::integer, gen_random_uuid(), 'semantic', 'Vector ' || n,
    decode(md5('v' || n), 'hex'), now() FROM generate_series(1, %(rows)s::integer) AS n RETURNING namespace_id, id
)
INSERT INTO memory_vectors (namespace_id, memory_id, model_id, part, embedding)
SELECT namespace_id, id, %(model)s, 0, ARRAY(SELECT random() - 0.5 + 0 * ascii(id::text) FROM generate_series(1, 384))::real[]::vector::halfvec
FROM made
"""


@pytest.fixture
def few(database: Database, monkeypatch: pytest.MonkeyPatch) -> Vectors:
    """As many vectors as an index pays for, were that fewer, and no index."""
    for module in (indexes, index_state):
        monkeypatch.setattr(module, "FIRST_BUILD_ROWS", FEW)
    vectors = begun(database)
    vectors.grow(FEW)
    return vectors


@pytest.fixture(scope="module")
def many_vectors(postgres: str, template: str) -> Iterator[str]:
    """The name of a database with thousands of vectors of the built-in model: a template for others."""
    with database_of(postgres, template) as db:
        db.as_login(
            "INSERT INTO namespaces (name) VALUES ('default')",
            f"INSERT INTO embedding_models (name, dimensions, embedder, state) VALUES ('{NAME}', 384, 'builtin:', 'active')",
        )
        [(model,)] = db.as_login("SELECT id FROM embedding_models")
        db.rows(ADD_OF_BUILTIN, {"rows": MANY, "model": model})
        yield db.as_template()


@pytest.fixture
def many(postgres: str, many_vectors: str) -> Iterator[Vectors]:
    with database_of(postgres, many_vectors) as db:
        [(model,)] = db.as_login("SELECT id FROM embedding_models")
        yield Vectors(db, model, MANY)


@contextlib.asynccontextmanager
async def always_served(vectors: Vectors) -> AsyncIterator[None]:
    """Look all the time whether searches could use an index, and say so at the end."""
    seen: list[int] = []

    async def look() -> None:
        async with await psycopg.AsyncConnection.connect(vectors.db.url, autocommit=True) as connection:
            while True:
                row = await (await connection.execute(VALID)).fetchone()
                seen.append(row[0] if row else 0)
                await asyncio.sleep(0.002)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
    assert seen
    assert min(seen) >= 1


async def assert_whole(vectors: Vectors) -> None:
    state = await vectors.state()
    assert state.build.usable
    assert state.build.is_noted
    assert state.problem is None
    assert [name for name, *_ in vectors.indexes()] == [index_name(vectors.model)]


step = st.tuples(
    st.sampled_from(["ivfflat", "hnsw", "look"]),
    st.floats(0, 0.15),  # seconds until it begins
    st.sampled_from(["ends", "is cancelled", "loses its connection"]),
    st.floats(0, 0.15),  # seconds until then
)


@QUICK
@given(st.lists(step, min_size=2, max_size=5))
async def test_whoever_builds_at_once_and_however_it_ends_an_index_serves_at_every_moment(
    few: Vectors, steps: list[tuple[str, float, str, float]]
) -> None:
    await few.maintained()

    async def taken(step: tuple[str, float, str, float]) -> None:
        what, begins_s, end, ends_s = step
        await asyncio.sleep(begins_s)
        work = asyncio.create_task(few.maintained() if what == "look" else few.reindex(what))
        if end != "ends":
            await asyncio.wait({work}, timeout=ends_s)
        if end == "is cancelled":
            work.cancel()
        elif end == "loses its connection":
            few.db.as_login(f"SELECT pg_terminate_backend(pid) FROM ({BUILDERS}) AS builders")
        with contextlib.suppress(asyncio.CancelledError, psycopg.Error, PgengramError):
            await work

    async with always_served(few):
        await asyncio.gather(*map(taken, steps))

    async def mended() -> bool:  # one that was cancelled may build for a moment more
        await few.maintained()
        return (await few.state()).problem is None and not (await few.state()).is_building

    await until(mended)
    await assert_whole(few)


INDEX = "CREATE INDEX {name} ON memory_vectors USING ivfflat ((embedding::halfvec(8)) halfvec_cosine_ops) WITH (lists = 3) WHERE model_id = {model}"
INVALID = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{name}'::regclass"
SUFFIXES = ("", "_new", "_old", "_ccnew", "_ccold", "_ccnew1")
NOTES = ("index_lists", "rows_at_build", "rows_at_check", "measured_recall", "built_at")


@QUICK
@given(
    st.dictionaries(st.sampled_from(SUFFIXES), st.booleans(), max_size=3),
    st.sets(st.sampled_from(NOTES)),
    st.sampled_from(["ivfflat", "hnsw"]),
    st.booleans(),
)
async def test_every_state_that_a_broken_build_leaves_is_told_and_mended(
    few: Vectors, there: dict[str, bool], forgotten: set[str], wanted: str, by_hand: bool
) -> None:
    for name, *_ in few.indexes():
        few.db.as_login(f"DROP INDEX {name}")
    for suffix, valid in there.items():
        name = f"{index_name(few.model)}{suffix}"
        few.db.as_login(INDEX.format(name=name, model=few.model))
        if not valid:
            few.db.as_login(INVALID.format(name=name))
    few.db.as_login(
        f"UPDATE embedding_models SET index_method = '{wanted}', index_lists = 3, rows_at_build = {FEW}, "
        f"rows_at_check = {FEW}, measured_recall = 1, built_at = now()",
        *(f"UPDATE embedding_models SET {name} = NULL" for name in forgotten),
    )

    state = await few.state()
    left = [f"{index_name(few.model)}{suffix}" for suffix, valid in sorted(there.items()) if suffix or not valid]
    assert state.build.usable == there.get("", False)
    assert str(state).startswith("ivfflat, 3 lists" if state.build.usable else "exact search; the index of 500 vectors")
    assert (state.problem is None) == (state.build.usable and not left)
    assert sorted(state.leftovers) == sorted(left)

    if by_hand:
        await few.reindex(wanted)
    else:
        assert await few.maintained() is True
    await assert_whole(few)
    assert f"USING {wanted}" in few.indexes()[0][1]


def test_a_login_that_the_policy_does_not_name_is_known_not_to_see_all_vectors(database: Database) -> None:
    role = f"owner_{database.name}"
    database.as_login(f"CREATE ROLE {role}", "ALTER POLICY maintenance ON memory_vectors TO pgengram_app")
    try:
        with psycopg.connect(database.url) as connection:
            connection.execute(f"SET ROLE {role}")
            assert connection.execute(index_state.SEES_VECTORS).fetchone() == (False,)
            connection.rollback()
            connection.execute(f"ALTER POLICY maintenance ON memory_vectors TO {role}; SET ROLE {role}")
            assert connection.execute(index_state.SEES_VECTORS).fetchone() == (True,)
            connection.rollback()
    finally:
        database.as_login(f"DROP ROLE {role}")


async def test_an_index_that_is_being_built_is_told_as_such(few: Vectors) -> None:
    assert "500 vectors is missing" in await few.described()
    async with pooler.alone(few.db.url, locks.INDEXES):
        state = await few.state()

    assert "500 vectors is being built" in str(state)
    assert state.problem is None


async def run(*arguments: str, expect: int = 0, **settings: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(pgengram, *arguments, expect=expect, **settings)


@pytest.mark.nightly
async def test_two_reindexes_beside_a_server_build_an_index_each_and_exit_with_0(many: Vectors) -> None:
    first = await run("reindex", database_url=many.db.url)
    assert "The index is built: ivfflat, 77 lists, built at 6,000 vectors" in first.stdout
    assert first.returncode == 0

    async with connected(database_url=many.db.url) as client, always_served(many):
        await client.call_tool("search_memories", {"query": "anything"})
        done = await asyncio.gather(*(run("reindex", database_url=many.db.url) for _ in range(2)))

    assert [one.returncode for one in done] == [0, 0]
    assert all("The index is built" in one.stdout for one in done)
    await assert_whole(many)


async def test_a_command_that_only_looks_builds_nothing_and_says_that_the_index_is_missing(many: Vectors) -> None:
    await run("search", "anything", database_url=many.db.url)
    stats = await run("stats", database_url=many.db.url)
    doctor = await run("doctor", expect=1, database_url=many.db.url)

    assert "exact search; the index of 6,000 vectors is missing" in stats.stdout
    assert "✗ Index  exact search; the index of 6,000 vectors is missing\n  → Run `pgengram reindex`" in doctor.stdout
    assert many.indexes() == []


async def test_a_program_that_only_searches_has_the_index_built_while_it_runs(many: Vectors) -> None:
    async def built() -> bool:
        return (await many.state()).build.usable

    async with Memory(database_url=many.db.url) as memory:
        await memory.search("anything")
        await until(built)

    await assert_whole(many)


@pytest.mark.nightly
async def test_a_reindex_that_is_killed_leaves_the_old_index_and_the_next_one_mends_the_rest(many: Vectors) -> None:
    await run("reindex", database_url=many.db.url)
    process = subprocess.Popen(  # noqa: ASYNC220 - to be killed
        [sys.executable, "-m", "pgengram", "reindex", "--method", "hnsw"],
        env=environment(database_url=many.db.url),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    async def builds() -> bool:
        return len(many.indexes()) > 1

    async with always_served(many):
        await until(builds)
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        await run("doctor", database_url=many.db.url)  # all is well while PostgreSQL goes on with the build
        done = await run("reindex", database_url=many.db.url)

    assert done.returncode == 0, done.stderr
    await assert_whole(many)
