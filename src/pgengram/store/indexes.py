"""The ivfflat index of each model: built by a background job once it pays, exact search until then."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from math import isqrt
from typing import Any, Final, Protocol

import psycopg
from psycopg import sql

from pgengram.store.database import Database

log = logging.getLogger(__name__)

FIRST_BUILD_ROWS: Final = (
    5_000  # below this exact search costs a few milliseconds, and k-means has too little to learn from
)
CHECK_EVERY_S: Final = 300.0
UPKEEP_LOCK: Final = 0x70_67_65_69
MAINTENANCE_MEMORY: Final = "256MB"  # ivfflat refuses to build with less than its sample needs


class Model(Protocol):
    """What an index is built for."""

    id: int
    dimensions: int
    indexed: bool


class HasDatabase(Protocol):
    """Whoever knows the open database."""

    @property
    def database(self) -> Database:
        """The open database."""


def index_name(model_id: int) -> str:
    """Return the name of a model's index."""
    return f"memory_vectors_ivfflat_{model_id}"


# Uses memory_vectors_pkey; the count is over all owners, which only upkeep may see.
COUNT_ROWS: Final = "SELECT count(*) AS rows FROM memory_vectors WHERE model_id = %(model_id)s"
FIND_INDEX: Final = """
SELECT i.indisvalid AND i.indisready AS usable FROM pg_index i WHERE i.indexrelid = to_regclass(%(name)s)
"""
FIND_BUILD: Final = """
SELECT m.index_lists, m.rows_at_build, m.built_at, EXISTS (
  SELECT FROM pg_index i WHERE i.indexrelid = to_regclass(%(name)s) AND i.indisvalid AND i.indisready) AS usable
FROM embedding_models m WHERE m.id = %(model_id)s
"""
NOTE_BUILD: Final = """
UPDATE embedding_models SET index_lists = %(lists)s, rows_at_build = %(rows)s, built_at = now() WHERE id = %(model_id)s
"""


class IndexKeeper:
    """Watches one model's vectors and builds their index in the background.

    Args:
        store: where the vectors are.
        model: whose vectors; its `indexed` is set once searches can use the index.
    """

    def __init__(self, store: HasDatabase, model: Model) -> None:
        self._store = store
        self._model = model
        self._grown = asyncio.Event()
        self._rows_noticed = 0
        self._task = asyncio.create_task(self._watch(), name="index keeper")

    def notice(self, rows: int) -> None:
        """Say that `rows` vectors were added; the job looks again after enough of them."""
        self._rows_noticed += rows
        if self._rows_noticed >= FIRST_BUILD_ROWS // 10:
            self._rows_noticed = 0
            self._grown.set()

    async def close(self) -> None:
        """Stop watching; a build under way is abandoned and cleaned up by the next job."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _watch(self) -> None:
        while True:
            try:
                self._model.indexed = await tend(self._store.database.url, self._model.id, self._model.dimensions)
            except psycopg.Error as error:
                log.warning("The vector index could not be looked after: SQLSTATE %s", error.sqlstate)
            self._grown.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY_S):  # wait_for of Python 3.11 may lose a cancellation
                    await self._grown.wait()


async def describe_index(database: Database, model_id: int) -> str:
    """Say in words what stands between a question and the vectors of a model."""
    async with database.as_login() as connection:
        parameters = {"name": index_name(model_id), "model_id": model_id}
        row = await (await connection.execute(FIND_BUILD, parameters)).fetchone()
    if row is None or not row["usable"]:
        return f"exact search; an ivfflat index is built once there are {FIRST_BUILD_ROWS} vectors"
    return f"ivfflat, {row['index_lists']} lists, built at {row['rows_at_build']} vectors on {row['built_at']:%Y-%m-%d %H:%M} UTC"


async def tend(url: str, model_id: int, dimensions: int) -> bool:
    """Build the model's index when there are enough vectors and no other process does; return whether it can be used."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    async with connection:
        usable = await _one(connection, FIND_INDEX, {"name": index_name(model_id)})
        if usable:
            return True
        await connection.execute("SELECT set_config('pgengram.upkeep', 'on', false)")
        rows = await _one(connection, COUNT_ROWS, {"model_id": model_id}) or 0
        if rows < FIRST_BUILD_ROWS:
            return False
        if not await _one(connection, "SELECT pg_try_advisory_lock(%(key)s)", {"key": UPKEEP_LOCK}):
            return False
        await _build(connection, model_id, dimensions, rows)
        return bool(await _one(connection, FIND_INDEX, {"name": index_name(model_id)}))


async def _build(connection: psycopg.AsyncConnection[Any], model_id: int, dimensions: int, rows: int) -> None:
    name = sql.Identifier(index_name(model_id))
    lists = max(1, isqrt(rows))  # sqrt(n): the best balance of build time and latency measured from 10 k to 300 k
    await connection.execute(sql.SQL("SET maintenance_work_mem = {}").format(MAINTENANCE_MEMORY))
    await connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(name))
    await connection.execute(
        sql.SQL(
            "CREATE INDEX CONCURRENTLY {} ON memory_vectors USING ivfflat ((embedding::halfvec({})) halfvec_cosine_ops) "
            "WITH (lists = {}) WHERE model_id = {}"
        ).format(name, sql.Literal(dimensions), sql.Literal(lists), sql.Literal(model_id))
    )
    await connection.execute(NOTE_BUILD, {"lists": lists, "rows": rows, "model_id": model_id})


async def _one(connection: psycopg.AsyncConnection[Any], statement: str, parameters: dict[str, Any]) -> Any:
    row = await (await connection.execute(statement, parameters)).fetchone()
    return row[0] if row else None
