"""The index of each model's vectors: built by a background job once it pays, rebuilt as the vectors grow or change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import psycopg
from psycopg import sql

from pgengram.errors import Conflict, PgengramError
from pgengram.runtime import process_setup
from pgengram.store.connection import locks, pooler
from pgengram.store.connection.begin import PROBES, has_citus, set_local
from pgengram.store.connection.database import Database
from pgengram.store.connection.translation import our_errors
from pgengram.store.maintenance import index_state
from pgengram.store.maintenance.index_state import (
    AS_MAINTENANCE,
    FIRST_BUILD_ROWS,
    Build,
    build_bytes,
    build_of,
    count_rows,
    index_name,
    leftovers,
    lists_for,
    most_lists,
)

log = logging.getLogger(__name__)

GROWTH: Final = (
    2.0  # rebuilt at this many times the rows of the last build, as the number of lists should grow with them
)
LOOK_AGAIN_GROWTH: Final = 1.2  # recall is measured again after this much growth
FIRST_ANALYZE_ROWS: Final = 20  # with fewer it does not matter how they are looked up
NOTICED_SHARE: Final = 0.05  # growth that is worth counting all vectors for
LEAST_RECALL: Final = 0.95  # rebuilt when fewer of the true ten nearest are found: the subjects have changed
ROUNDING: Final = 5e-4  # of a cosine of half-precision vectors, which the index keeps at unit length
SAMPLES: Final = 32  # stored vectors that stand for questions when recall is measured
CHECK_EVERY_S: Final = 300.0
LOCK_WAIT_S: Final = 600.0  # for another process to end its build, of a million vectors on a small machine
PAUSE_S: Final = 0.2
LEAST_BUILD_BYTES: Final = 256 << 20  # of memory while an index is built: the more, the faster
# Asked for; with it there are sqrt(n) lists for 4.8 million vectors of 384 dimensions.
MOST_BUILD_BYTES: Final = 1 << 30
METHODS: Final = ("ivfflat", "hnsw")


class Model(Protocol):
    """What an index is built for."""

    id: int
    dimensions: int
    indexed: bool
    rows: int


class HasDatabase(Protocol):
    """Whoever knows the open database."""

    @property
    def database(self) -> Database:
        """The open database."""


# Autovacuum looks once a minute; after an import a minute of bad plans is long. Of a young store it knows nothing, and
# reads all memories for each one that is looked up. The counters of changes lag behind; the vectors have been counted.
GROWN_SINCE_ANALYZE: Final = """
SELECT s.n_mod_since_analyze > 200 + 0.5 * s.n_live_tup
    OR NOT %(distributed)s AND %(rows)s >= greatest(1.5 * c.reltuples, %(first)s)
FROM pg_stat_user_tables s, pg_class c WHERE s.relid = 'memories'::regclass AND c.oid = 'memory_vectors'::regclass
"""
# One that another job has locked is left to that: waiting for it could be waiting for each other.
ANALYZE: Final = (
    "ANALYZE (SKIP_LOCKED) memories, memory_activation, memory_posting_lists, memory_words, memory_vectors, memory_tags"
)
NOTE_BUILD: Final = """
UPDATE embedding_models SET index_method = %(method)s, index_lists = %(lists)s, rows_at_build = %(rows)s,
  rows_at_check = %(rows)s, built_at = now(), measured_recall = NULL WHERE id = %(model_id)s
"""
NOTE_CHECK: Final = """
UPDATE embedding_models SET rows_at_check = %(rows)s, measured_recall = %(recall)s WHERE id = %(model_id)s
"""
SET_METHOD: Final = "UPDATE embedding_models SET index_method = %(method)s WHERE id = %(model_id)s"
# A session's, where the connection has one to itself: it outlives the process that asked for a build until the server
# has noticed that, and no other process builds meanwhile.
TRY_LOCK: Final = sql.SQL("SELECT pg_try_advisory_lock({})").format(sql.Literal(locks.INDEXES))
SWAP_TIMEOUT: Final = "SET LOCAL lock_timeout = '10s'"
# Of the names of a cluster's indexes, one after the other: they are foreign keys' tables on every machine.
ONE_BY_ONE: Final = "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"


class IndexMaintainer:
    """Watches one model's vectors and builds their index in the background.

    Args:
        store: where the vectors are.
        model: whose vectors; its `indexed` is set once searches can use the index, its `rows` whenever they were
            counted.
        builds: whether to build what is due. A process that ends soon, such as a command, would only begin it: it looks
            whether there is an index, and builds once it has stored much itself.
    """

    def __init__(self, store: HasDatabase, model: Model, *, builds: bool) -> None:
        self._store = store
        self._model = model
        self._builds = builds
        self._grown = asyncio.Event()
        self._rows = 0
        self._rows_noticed = 0
        self._task = asyncio.create_task(self._watch(), name="index maintainer")

    def notice(self, rows: int) -> None:
        """Say that `rows` vectors were added; the job looks again after enough of them."""
        self._rows_noticed += rows
        doubled = min(FIRST_BUILD_ROWS // 10, max(FIRST_ANALYZE_ROWS, self._rows))
        if self._rows_noticed >= max(doubled, NOTICED_SHARE * self._rows):
            self._rows_noticed = 0
            self.build()

    def build(self) -> None:
        """Look again at once, and from now on build what is due."""
        self._builds = True
        self._grown.set()

    async def close(self) -> None:
        """Stop watching; a build under way is abandoned and cleaned up by the next job."""
        await process_setup.end_task(self._task)

    async def _watch(self) -> None:
        while True:
            self._grown.clear()
            try:
                self._model.indexed, self._rows = await look_after(
                    self._store.database.url, self._model.id, self._model.dimensions, builds=self._builds
                )
                self._model.rows = self._rows
            except psycopg.Error as error:
                log.warning("The vector index could not be looked after: SQLSTATE %s", error.sqlstate)
            except PgengramError as error:  # the database is away; the calls that need it bring it back
                log.info("The vector index could not be looked after: %s", error.message)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY_S):  # wait_for of Python 3.11 may lose a cancellation
                    await self._grown.wait()


async def rebuild_index(url: str, model_id: int, dimensions: int, method: str) -> None:
    """Build an index of a model again by `method`, as soon as no other process builds one; the old one serves
    meanwhile.

    With too few vectors and no index, the method is that of the first one to come.

    Raises:
        Conflict: another process has not ended its build for long.
        DatabaseFailed: PostgreSQL refused; the index is as it was.
    """
    with our_errors():
        async with _sole(url) as connection:
            rows, build = await count_rows(connection, model_id), await build_of(connection, model_id)
            await _drop_leftovers(connection, valid=False)
            if build.usable or rows >= FIRST_BUILD_ROWS:
                await _build(connection, method, model_id, dimensions, rows)
                await _drop_leftovers(connection, valid=True)
            else:
                await connection.execute(SET_METHOD, {"model_id": model_id, "method": method})


async def maintain(url: str, model_id: int, dimensions: int) -> bool:
    """Build or rebuild the model's index if it is due and nobody else does; return whether it can be used."""
    return (await look_after(url, model_id, dimensions))[0]


async def look_after(url: str, model_id: int, dimensions: int, *, builds: bool = True) -> tuple[bool, int]:
    """Look at the index, and build what is due unless it is only looked at; return whether it can be used, and how many
    vectors there are.
    """
    async with await pooler.connect(url) as connection:
        build, rows = await build_of(connection, model_id), await count_rows(connection, model_id)
        if not builds:
            return build.usable, rows
        distributed = await has_citus(connection)
        known = {"rows": rows, "first": FIRST_ANALYZE_ROWS, "distributed": distributed}
        if await _fetch_value(connection, GROWN_SINCE_ANALYZE, known):
            await connection.execute(ANALYZE)
        unfit = build.usable and distributed and await _unfit(connection, model_id)
        if _is_due(build, rows) or await leftovers(connection) or unfit:
            build = await _renewed(url, model_id, dimensions, rows)
        return build.usable, rows


async def _renewed(url: str, model_id: int, dimensions: int, rows: int) -> Build:
    """Do what is due, unless another process does or has done it meanwhile; return what there is then."""
    async with _owned(url) as owner:
        if owner is None:
            async with await pooler.connect(url) as connection:
                return await build_of(connection, model_id)
        build = await build_of(owner, model_id)
        await _drop_leftovers(owner, valid=False)
        if _is_due(build, rows):
            await _renew(owner, build, model_id, dimensions, rows)
        await _drop_leftovers(owner, valid=True)
        for piece in await _unfit(owner, model_id) if await has_citus(owner) else []:
            await index_state.rebuild_shard(owner, piece, lists_for(piece.rows))
        return await build_of(owner, model_id)


@asynccontextmanager
async def _owned(url: str) -> AsyncIterator[psycopg.AsyncConnection[Any] | None]:
    """Yield a connection that alone may change indexes of vectors for as long as a block runs; None while another may.

    Behind a pooler the lock is another connection's, which ends at once with its process.
    """
    async with await pooler.connect(url) as connection:
        if await pooler.is_behind(connection):
            async with pooler.alone(url, locks.INDEXES) as holder:
                yield None if holder is None else connection
        else:
            yield connection if await _fetch_value(connection, TRY_LOCK, {}) else None


@asynccontextmanager
async def _sole(url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Yield such a connection as soon as there is one to be had.

    Raises:
        Conflict: another process holds on to the indexes for long.
    """
    for _ in range(round(LOCK_WAIT_S / PAUSE_S)):
        async with _owned(url) as connection:
            if connection is not None:
                yield connection
                return
        await asyncio.sleep(PAUSE_S)
    raise Conflict(
        "Another process has been building an index for ten minutes.",
        "The index is as it was. `pgengram doctor` says whether it is built; try again later.",
    )


async def _unfit(connection: psycopg.AsyncConnection[Any], model_id: int) -> list[index_state.Piece]:
    """Return the shards' indexes that have too few lists for their vectors, or so many that some learned from none."""
    return [
        piece
        for piece in await index_state.pieces(connection, index_name(model_id))
        if piece.lists**2 > GROWTH * max(piece.rows, 1)
        or (piece.lists and piece.rows >= max(FIRST_BUILD_ROWS, GROWTH * piece.lists**2))
    ]


def _is_due(build: Build, rows: int) -> bool:
    """Whether there is something to build or to measure."""
    if rows < FIRST_BUILD_ROWS or not build.needed:
        return False
    return not build.usable or not build.is_noted or rows >= LOOK_AGAIN_GROWTH * (build.rows_at_check or 0)


async def _renew(
    connection: psycopg.AsyncConnection[Any], build: Build, model_id: int, dimensions: int, rows: int
) -> None:
    grown = build.rows_at_build is None or rows >= GROWTH * build.rows_at_build
    if build.usable and build.is_noted and not grown:
        recall = await measured_recall(connection, model_id, dimensions)
        if recall >= LEAST_RECALL:  # noted by the build otherwise: one that is broken off must be due again
            await connection.execute(NOTE_CHECK, {"rows": rows, "recall": recall, "model_id": model_id})
            return
    await _build(connection, build.wanted, model_id, dimensions, rows)


async def drop_indexes(url: str, models: Sequence[int]) -> None:
    """Drop the indexes of models that no search uses any more, once no other process builds one."""
    async with _sole(url) as connection:
        for model in models:
            for suffix in ("", "_new", "_old"):
                await _drop_index(connection, f"{index_name(model)}{suffix}")


# Where the setting is not ours, behind a pooler, an index gets as many lists as can be made with what there is.
BUILD_MEMORY: Final = "SELECT pg_size_bytes(current_setting('maintenance_work_mem'))"


async def _lists(connection: psycopg.AsyncConnection[Any], dimensions: int, rows: int) -> int:
    """Return how many lists the index of each piece gets."""
    pieces = await index_state.shard_count(connection) if await has_citus(connection) else 1
    memory = await _fetch_value(connection, BUILD_MEMORY, {}) or LEAST_BUILD_BYTES
    return min(lists_for(rows // max(pieces, 1)), most_lists(memory, dimensions))


async def _build(
    connection: psycopg.AsyncConnection[Any], method: str, model_id: int, dimensions: int, rows: int
) -> None:
    """Build an index beside the one that serves until the new one takes its name."""
    name = index_name(model_id)
    new, old = f"{name}_new", f"{name}_old"
    await _allow_memory(connection, dimensions, rows)
    lists = await _lists(connection, dimensions, rows) if method == "ivfflat" else None
    options = sql.SQL("") if lists is None else sql.SQL("WITH (lists = {})").format(sql.Literal(lists))
    await _drop_index(connection, new)
    await connection.execute(
        sql.SQL(
            "CREATE INDEX CONCURRENTLY {} ON memory_vectors USING {} ((embedding::halfvec({})) halfvec_cosine_ops) {} "
            "WHERE model_id = {}"
        ).format(sql.Identifier(new), sql.Identifier(method), sql.Literal(dimensions), options, sql.Literal(model_id))
    )
    await _drop_index(connection, old)
    noted = {"method": method, "lists": lists, "rows": rows, "model_id": model_id}
    async with connection.transaction():
        await connection.execute(SWAP_TIMEOUT)
        if await has_citus(connection):
            await connection.execute(ONE_BY_ONE)
        await connection.execute(_renaming(name, old))
        await connection.execute(_renaming(new, name))
        await connection.execute(NOTE_BUILD, noted)
    await _drop_index(connection, old)


def _renaming(name: str, new: str) -> sql.Composed:
    return sql.SQL("ALTER INDEX IF EXISTS {} RENAME TO {}").format(sql.Identifier(name), sql.Identifier(new))


async def _drop_index(connection: psycopg.AsyncConnection[Any], name: str) -> None:
    await connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(name)))


async def _drop_leftovers(connection: psycopg.AsyncConnection[Any], *, valid: bool) -> None:
    """Drop what broken builds have left; what is `valid` may serve searches until a model's own index is there."""
    for name, serves in await leftovers(connection):
        if valid or not serves:
            await _drop_index(connection, name)


async def _allow_memory(connection: psycopg.AsyncConnection[Any], dimensions: int, rows: int) -> None:
    if not await pooler.is_behind(connection):  # whose setting it would be in the end, nobody can tell
        wanted = min(MOST_BUILD_BYTES, max(LEAST_BUILD_BYTES, int(1.05 * build_bytes(lists_for(rows), dimensions))))
        await connection.execute(sql.SQL("SET maintenance_work_mem = {}").format(f"{wanted >> 10}kB"))


async def measured_recall(connection: psycopg.AsyncConnection[Any], model_id: int, dimensions: int) -> float:
    """Return the share of the ten nearest that the index finds for stored vectors taken as questions.

    Distances are compared, not memories: of many that say the same, any ten are the nearest.
    """
    distance = sql.SQL("(embedding::halfvec({})) <=> %(vector)s::halfvec({})").format(*[sql.Literal(dimensions)] * 2)
    nearest = sql.SQL("SELECT ARRAY(SELECT {} FROM memory_vectors WHERE model_id = {} ORDER BY {} LIMIT 10)")
    indexed = nearest.format(distance, sql.Literal(model_id), distance)
    exact = nearest.format(distance, sql.Literal(model_id), sql.SQL("({}) + 0").format(distance))
    sample = sql.SQL(
        "SELECT embedding::text FROM memory_vectors TABLESAMPLE SYSTEM (10) WHERE model_id = {} "
        "ORDER BY random() LIMIT {}"
    ).format(sql.Literal(model_id), sql.Literal(SAMPLES))
    shares = []
    async with connection.transaction():
        settings = {**AS_MAINTENANCE, "ivfflat.probes": str(PROBES)}
        await connection.execute(set_local(settings, distributed=await has_citus(connection)))
        vectors = [row[0] for row in await (await connection.execute(sample)).fetchall()]
        for vector in vectors:
            truth = await _fetch_value(connection, exact, {"vector": vector}) or [0.0]
            found = await _fetch_value(connection, indexed, {"vector": vector}) or []
            shares.append(sum(distance <= truth[-1] + ROUNDING for distance in found) / len(truth))
    return sum(shares) / len(shares) if shares else 1.0


async def _fetch_value(connection: psycopg.AsyncConnection[Any], statement: Any, parameters: dict[str, Any]) -> Any:
    row = await (await connection.execute(statement, parameters)).fetchone()
    return row[0] if row else None
