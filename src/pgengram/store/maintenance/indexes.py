"""The index of each model's vectors: built by a background job once it pays, rebuilt as the vectors grow or change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from datetime import datetime
from math import isqrt
from typing import Any, Final, Protocol

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from pgengram.errors import PgengramError
from pgengram.store.citus import citus_shards
from pgengram.store.connection import background, locks, pooler
from pgengram.store.connection.begin import PROBES, set_local
from pgengram.store.connection.database import Database
from pgengram.store.connection.server import has_citus

log = logging.getLogger(__name__)

FIRST_BUILD_ROWS: Final = (
    5_000  # below this exact search costs a few milliseconds, and k-means has too little to learn from
)
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
LEAST_BUILD_BYTES: Final = 256 << 20  # of memory while an index is built: the more, the faster
# Asked for; with it there are sqrt(n) lists for 4.8 million vectors of 384 dimensions.
MOST_BUILD_BYTES: Final = 1 << 30
# Lists visited for a question, instead of PROBES, when a filter leaves only some of what each list holds.
PROBES_NARROWED: Final = 60
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


@dataclass(frozen=True, slots=True)
class Build:
    """What is known of a model's index: method wanted, lists, rows at the last build and check, recall then."""

    index_method: str
    index_lists: int | None
    rows_at_build: int | None
    rows_at_check: int | None
    measured_recall: float | None
    built_at: datetime | None
    usable: bool


def index_name(model_id: int) -> str:
    """Return the name of a model's index."""
    return f"memory_vectors_index_{model_id}"


def lists_for(rows: int) -> int:
    """Return how many lists ivfflat should have: sqrt(rows), the best balance of build time and latency measured."""
    return max(1, isqrt(rows))


def build_bytes(lists: int, dimensions: int) -> int:
    """Return the memory that ivfflat must be allowed for finding its centres, in bytes; with less it refuses.

    pgvector samples 50 vectors a list, and keeps of each a bound for every list (Elkan, "Using the triangle inequality
    to accelerate k-means", ICML 2003).
    """
    samples, vector = max(10_000, 50 * lists), 2 * dimensions + 8
    return samples * (vector + 4 * lists + 8) + lists * (2 * vector + 4 * dimensions + 4 * lists + 16)


def most_lists(memory: int, dimensions: int) -> int:
    """Return how many lists an index of vectors can have that is built with so many bytes of memory, a little to
    spare.
    """
    low, high = 1, 32_768  # as many as pgvector can make
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if 1.02 * build_bytes(middle, dimensions) <= memory else (low, middle - 1)
    return low


AS_MAINTENANCE: Final = {"pgengram.maintenance": "on"}
# Uses memory_vectors_pkey; the count is over all namespaces, which only maintenance may see.
COUNT_ROWS: Final = "SELECT count(*) FROM memory_vectors WHERE model_id = %(model_id)s"
FIND_BUILD: Final = """
SELECT m.index_method, m.index_lists, m.rows_at_build, m.rows_at_check, m.measured_recall, m.built_at, EXISTS (
  SELECT 1 FROM pg_index i WHERE i.indexrelid = to_regclass(%(name)s) AND i.indisvalid AND i.indisready) AS usable
FROM embedding_models m WHERE m.id = %(model_id)s
"""
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
FIND_LEFTOVERS: Final = """
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass('memory_vectors') AND NOT i.indisvalid AND c.relname LIKE 'memory\\_vectors\\_index\\_%%'
"""
NOTE_BUILD: Final = """
UPDATE embedding_models SET index_lists = %(lists)s, rows_at_build = %(rows)s, rows_at_check = %(rows)s, built_at = now(),
  measured_recall = NULL WHERE id = %(model_id)s
"""
NOTE_CHECK: Final = """
UPDATE embedding_models SET rows_at_check = %(rows)s, measured_recall = %(recall)s WHERE id = %(model_id)s
"""
SET_METHOD: Final = """
UPDATE embedding_models SET index_method = %(method)s, rows_at_build = NULL WHERE id = %(model_id)s
"""


class IndexMaintainer:
    """Watches one model's vectors and builds their index in the background.

    Args:
        store: where the vectors are.
        model: whose vectors; its `indexed` is set once searches can use the index, its `rows` whenever they were
            counted.
    """

    def __init__(self, store: HasDatabase, model: Model) -> None:
        self._store = store
        self._model = model
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
            self._grown.set()

    async def close(self) -> None:
        """Stop watching; a build under way is abandoned and cleaned up by the next job."""
        await background.end(self._task)

    async def _watch(self) -> None:
        while True:
            self._grown.clear()
            try:
                self._model.indexed, self._rows = await _maintained(
                    self._store.database.url, self._model.id, self._model.dimensions
                )
                self._model.rows = self._rows
            except psycopg.Error as error:
                log.warning("The vector index could not be looked after: SQLSTATE %s", error.sqlstate)
            except PgengramError as error:  # the database is away; the calls that need it bring it back
                log.info("The vector index could not be looked after: %s", error.message)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY_S):  # wait_for of Python 3.11 may lose a cancellation
                    await self._grown.wait()


async def describe_index(database: Database, model_id: int) -> str:
    """Say in words what stands between a question and the vectors of a model."""
    async with database.as_login() as connection, connection.cursor(row_factory=class_row(Build)) as cursor:
        parameters = {"name": index_name(model_id), "model_id": model_id}
        build = await (await cursor.execute(FIND_BUILD, parameters)).fetchone()
    if build is None or not build.usable or build.built_at is None:
        return f"exact search; an index is built once there are {FIRST_BUILD_ROWS:,} vectors"
    lists = f", {build.index_lists} lists" if build.index_method == "ivfflat" else ""
    recall = "" if build.measured_recall is None else f", recall {build.measured_recall:.2f} when last measured"
    built = f"built at {build.rows_at_build:,} vectors on {build.built_at:%Y-%m-%d %H:%M} UTC"
    return f"{build.index_method}{lists}, {built}{recall}"


async def choose_method(database: Database, model_id: int, method: str) -> None:
    """Have the index of a model built anew by `method` at the next look."""
    async with database.as_login() as connection:
        await connection.execute(SET_METHOD, {"model_id": model_id, "method": method})


async def maintain(url: str, model_id: int, dimensions: int) -> bool:
    """Build or rebuild the model's index where that is due and no other process does it; return whether it can be
    used.
    """
    return (await _maintained(url, model_id, dimensions))[0]


async def _maintained(url: str, model_id: int, dimensions: int) -> tuple[bool, int]:
    """Tend the index; return whether it can be used, and how many vectors there are."""
    async with await pooler.connect(url) as connection:
        build = await _build_of(connection, model_id)
        distributed = await has_citus(connection)
        async with connection.transaction():
            await connection.execute(set_local(AS_MAINTENANCE, distributed=distributed))
            rows = await _value(connection, COUNT_ROWS, {"model_id": model_id}) or 0
        known = {"rows": rows, "first": FIRST_ANALYZE_ROWS, "distributed": distributed}
        if await _value(connection, GROWN_SINCE_ANALYZE, known):
            await connection.execute(ANALYZE)
        if rows >= FIRST_BUILD_ROWS and not _is_fresh(build, rows):
            build = await _renew_alone(url, connection, model_id, dimensions, rows)
        if build.usable and distributed and await _unfit(connection, model_id):
            async with pooler.alone(url, locks.INDEXES) as locked:
                for piece in await _unfit(connection, model_id) if locked else []:
                    await citus_shards.rebuild(connection, piece, lists_for(piece.rows))
        return build.usable, rows


async def _renew_alone(
    url: str, connection: psycopg.AsyncConnection[Any], model_id: int, dimensions: int, rows: int
) -> Build:
    """Renew the index unless another process does or has done it meanwhile; return what there is then."""
    async with pooler.alone(url, locks.INDEXES) as locked:
        build = await _build_of(connection, model_id)
        if locked and not _is_fresh(build, rows):
            await _renew(connection, build, model_id, dimensions, rows)
            build = await _build_of(connection, model_id)
    return build


async def _unfit(connection: psycopg.AsyncConnection[Any], model_id: int) -> list[citus_shards.Piece]:
    """Return the shards' indexes that have too few lists for their vectors, or so many that some learned from none."""
    return [
        piece
        for piece in await citus_shards.pieces(connection, index_name(model_id))
        if piece.lists**2 > GROWTH * max(piece.rows, 1)
        or (piece.lists and piece.rows >= max(FIRST_BUILD_ROWS, GROWTH * piece.lists**2))
    ]


def _is_fresh(build: Build, rows: int) -> bool:
    checked = build.rows_at_check or 0
    return build.usable and build.rows_at_build is not None and rows < LOOK_AGAIN_GROWTH * checked


async def _renew(
    connection: psycopg.AsyncConnection[Any], build: Build, model_id: int, dimensions: int, rows: int
) -> None:
    for (name,) in await (await connection.execute(FIND_LEFTOVERS)).fetchall():
        await connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(name)))
    if not await pooler.is_behind(connection):  # whose setting it would be in the end, nobody can tell
        wanted = min(MOST_BUILD_BYTES, max(LEAST_BUILD_BYTES, int(1.05 * build_bytes(lists_for(rows), dimensions))))
        await connection.execute(sql.SQL("SET maintenance_work_mem = {}").format(f"{wanted >> 10}kB"))
    if not build.usable or build.rows_at_build is None:
        await _create(connection, build.index_method, model_id, dimensions, rows)
    elif rows >= GROWTH * build.rows_at_build:
        await _rebuild(connection, build.index_method, model_id, dimensions, rows)
    else:
        recall = await measured_recall(connection, model_id, dimensions)
        if recall < LEAST_RECALL:  # noted by the rebuild: one that is broken off must be due again
            await _rebuild(connection, build.index_method, model_id, dimensions, rows)
        else:
            await connection.execute(NOTE_CHECK, {"rows": rows, "recall": recall, "model_id": model_id})


# Where the setting is not ours, behind a pooler, an index gets as many lists as can be made with what there is.
BUILD_MEMORY: Final = "SELECT pg_size_bytes(current_setting('maintenance_work_mem'))"


async def _lists(connection: psycopg.AsyncConnection[Any], dimensions: int, rows: int) -> int:
    """Return how many lists the index of each piece gets."""
    pieces = await citus_shards.count(connection) if await has_citus(connection) else 1
    memory = await _value(connection, BUILD_MEMORY, {}) or LEAST_BUILD_BYTES
    return min(lists_for(rows // max(pieces, 1)), most_lists(memory, dimensions))


async def _create(
    connection: psycopg.AsyncConnection[Any], method: str, model_id: int, dimensions: int, rows: int
) -> None:
    name = sql.Identifier(index_name(model_id))
    lists = await _lists(connection, dimensions, rows)
    options = sql.SQL("WITH (lists = {})").format(sql.Literal(lists)) if method == "ivfflat" else sql.SQL("")
    await connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(name))
    await connection.execute(
        sql.SQL(
            "CREATE INDEX CONCURRENTLY {} ON memory_vectors USING {} ((embedding::halfvec({})) halfvec_cosine_ops) {} "
            "WHERE model_id = {}"
        ).format(name, sql.Identifier(method), sql.Literal(dimensions), options, sql.Literal(model_id))
    )
    await connection.execute(NOTE_BUILD, {"lists": lists, "rows": rows, "model_id": model_id})


async def _rebuild(
    connection: psycopg.AsyncConnection[Any], method: str, model_id: int, dimensions: int, rows: int
) -> None:
    """Build the index anew beside the old one, which serves searches and writes meanwhile."""
    name = sql.Identifier(index_name(model_id))
    lists = await _lists(connection, dimensions, rows)
    if method == "ivfflat":
        await connection.execute(sql.SQL("ALTER INDEX {} SET (lists = {})").format(name, sql.Literal(lists)))
    await connection.execute(sql.SQL("REINDEX INDEX CONCURRENTLY {}").format(name))
    await connection.execute(NOTE_BUILD, {"lists": lists, "rows": rows, "model_id": model_id})


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
            truth = await _value(connection, exact, {"vector": vector}) or [0.0]
            found = await _value(connection, indexed, {"vector": vector}) or []
            shares.append(sum(distance <= truth[-1] + ROUNDING for distance in found) / len(truth))
    return sum(shares) / len(shares) if shares else 1.0


async def _build_of(connection: psycopg.AsyncConnection[Any], model_id: int) -> Build:
    async with connection.cursor(row_factory=class_row(Build)) as cursor:
        await cursor.execute(FIND_BUILD, {"name": index_name(model_id), "model_id": model_id})
        found = await cursor.fetchone()
    return found or Build("ivfflat", None, None, None, None, None, usable=False)


async def _value(connection: psycopg.AsyncConnection[Any], statement: Any, parameters: dict[str, Any]) -> Any:
    row = await (await connection.execute(statement, parameters)).fetchone()
    return row[0] if row else None
