"""What there is of a model's vector index: in the catalog, of the last build, and what is amiss."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import isqrt
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.rows import class_row, scalar_row, tuple_row

from pgengram.errors import DatabaseFailed
from pgengram.store.connection import locks
from pgengram.store.connection.begin import has_citus, set_local
from pgengram.store.connection.database import Database

FIRST_BUILD_ROWS: Final = (
    5_000  # below this exact search costs a few milliseconds, and k-means has too little to learn from
)
AS_MAINTENANCE: Final = {"pgengram.maintenance": "on"}
NAME: Final = "memory_vectors_index_"

# Uses memory_vectors_pkey; the count is over all namespaces, which only maintenance may see.
COUNT_ROWS: Final = "SELECT count(*) FROM memory_vectors WHERE model_id = %(model_id)s"
# The catalog says what is there, the model's row what was wanted and noted: a process may end between the two.
FIND_BUILD: Final = """
SELECT m.index_method AS wanted, m.state <> 'retired' AS needed, m.rows_at_build, m.rows_at_check, m.measured_recall,
  m.built_at, c.oid IS NOT NULL AS usable, a.amname AS method, (
    SELECT option_value::integer FROM pg_options_to_table(c.reloptions) WHERE option_name = 'lists') AS lists
FROM embedding_models m
LEFT JOIN pg_index i ON i.indexrelid = to_regclass(%(name)s) AND i.indisvalid AND i.indisready
LEFT JOIN pg_class c ON c.oid = i.indexrelid LEFT JOIN pg_am a ON a.oid = c.relam
WHERE m.id = %(model_id)s
"""
# What a build that was broken off has left: an index that is not valid, or one beside a model's own, as both
# REINDEX CONCURRENTLY and a build of ours name it.
FIND_LEFTOVERS: Final = """
SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass('memory_vectors') AND (c.relname ~ '^memory_vectors_index_[0-9]+$' AND NOT i.indisvalid
  OR c.relname ~ '^memory_vectors_index_[0-9]+_(new|old|ccnew|ccold)[0-9]*$') ORDER BY c.relname
"""
IS_LOCKED: Final = """
SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
  WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objid = %(key)s::bigint::oid AND l.objsubid = 1 AND l.granted)
"""
# Row-level security is forced, so that the login counts vectors by this policy, or past all of them.
SEES_VECTORS: Final = """
SELECT r.rolsuper OR r.rolbypassrls OR EXISTS (
  SELECT FROM pg_policy p WHERE p.polrelid = to_regclass('memory_vectors') AND p.polname = 'maintenance'
    AND EXISTS (SELECT FROM unnest(p.polroles) AS to_role WHERE to_role = 0 OR pg_has_role(r.oid, to_role, 'USAGE')))
FROM pg_roles r WHERE r.rolname = current_user
"""


@dataclass(frozen=True, slots=True)
class Build:
    """A model's index as it is in the catalog, and what was noted of its last build and check.

    wanted: the method asked for; needed: whether the model is in use, or will be; method, lists: of the index that is
        there; the others are None where nothing was noted.
    """

    wanted: str
    needed: bool
    rows_at_build: int | None
    rows_at_check: int | None
    measured_recall: float | None
    built_at: datetime | None
    usable: bool
    method: str | None
    lists: int | None

    @property
    def is_noted(self) -> bool:
        """Whether the index is of the method asked for, and it is known when it was built."""
        return self.method == self.wanted and self.rows_at_build is not None and self.built_at is not None


NOTHING: Final = Build("ivfflat", True, None, None, None, None, usable=False, method=None, lists=None)


@dataclass(frozen=True, slots=True)
class IndexState:
    """What stands between a question and the vectors of a model.

    rows: vectors of the model, in all namespaces; leftovers: indexes that a broken build has left behind; is_building:
        whether some process builds an index now; sees_vectors: whether the login may count vectors of all namespaces.
    """

    build: Build
    rows: int
    leftovers: tuple[str, ...]
    is_building: bool
    sees_vectors: bool

    @property
    def is_missing(self) -> bool:
        """Whether there are vectors enough for an index, and none is there."""
        return not self.build.usable and self.rows >= FIRST_BUILD_ROWS

    def __str__(self) -> str:
        build = self.build
        if build.usable:
            return f"{build.method}{self._lists()}{self._built()}{self._recall()}"
        if not self.sees_vectors:
            return "exact search; the vectors cannot be counted"
        if not self.is_missing:
            return f"exact search; an index is built once there are {FIRST_BUILD_ROWS:,} vectors"
        return f"exact search; the index of {self.rows:,} vectors is {'being built' if self.is_building else 'missing'}"

    def _lists(self) -> str:
        return f", {self.build.lists} lists" if self.build.lists else ""

    def _built(self) -> str:
        at, rows = self.build.built_at, self.build.rows_at_build
        if at is None and rows is None:
            return ", not noted when it was built"
        return (
            ", built"
            + (f" at {rows:,} vectors" if rows is not None else "")
            + (f" on {at:%Y-%m-%d %H:%M} UTC" if at is not None else "")
        )

    def _recall(self) -> str:
        recall = self.build.measured_recall
        return "" if recall is None else f", recall {recall:.2f} when last measured"

    @property
    def problem(self) -> tuple[str, str] | None:
        """What is amiss, and what to do about it; None while all is well or a build is under way."""
        if not self.sees_vectors:
            return (
                "the policy maintenance of memory_vectors does not name this login, so the index is not looked after",
                "Run `pgengram migrate` as the login that owns the tables.",
            )
        if self.is_building:
            return None
        if self.is_missing:
            return "", "Run `pgengram reindex`; a server that runs for some minutes builds it, too."
        if self.leftovers:
            return (
                f"{', '.join(self.leftovers)} is left over from a build that was interrupted",
                "Run `pgengram reindex`; a server that runs for some minutes removes it, too.",
            )
        return None


def index_name(model_id: int) -> str:
    """Return the name of a model's index."""
    return f"{NAME}{model_id}"


async def describe_index(database: Database, model_id: int) -> IndexState:
    """Return what there is of a model's index."""
    async with database.as_login() as connection:
        rows = await count_rows(connection, model_id)
        scalar = connection.cursor(row_factory=scalar_row)
        return IndexState(
            await build_of(connection, model_id),
            rows,
            tuple(name for name, _ in await leftovers(connection)),
            bool(await (await scalar.execute(IS_LOCKED, {"key": locks.INDEXES})).fetchone()),
            bool(await (await scalar.execute(SEES_VECTORS)).fetchone()),
        )


async def build_of(connection: psycopg.AsyncConnection[Any], model_id: int) -> Build:
    """Return a model's index and what was noted of it; of a model that the store does not know, that there is none."""
    async with connection.cursor(row_factory=class_row(Build)) as cursor:
        await cursor.execute(FIND_BUILD, {"name": index_name(model_id), "model_id": model_id})
        return await cursor.fetchone() or NOTHING


async def count_rows(connection: psycopg.AsyncConnection[Any], model_id: int) -> int:
    """Return how many vectors of a model there are in all namespaces."""
    distributed = await has_citus(connection)
    async with connection.transaction():
        await connection.execute(set_local(AS_MAINTENANCE, distributed=distributed))
        cursor = connection.cursor(row_factory=scalar_row)
        return await (await cursor.execute(COUNT_ROWS, {"model_id": model_id})).fetchone() or 0


async def leftovers(connection: psycopg.AsyncConnection[Any]) -> list[tuple[str, bool]]:
    """Return the indexes of vectors that are of no use, and for each whether it is valid."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        return await (await cursor.execute(FIND_LEFTOVERS)).fetchall()


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
    """Return how many lists a vector index built with so many bytes of memory can have."""
    low, high = 1, 32_768  # as many as pgvector can make
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if 1.02 * build_bytes(middle, dimensions) <= memory else (low, middle - 1)
    return low


# Row counts are those of the last build, VACUUM or ANALYZE, which row-level security does not hide; autovacuum looks
# after each shard.
PIECES: Final = """
SELECT nodename, nodeport, success, result FROM run_command_on_placements('memory_vectors', %(command)s)
"""
PIECE: Final = """
SELECT c.relname || ' ' || greatest(c.reltuples, 0)::bigint || ' ' || coalesce((
  SELECT option_value FROM pg_options_to_table(c.reloptions) WHERE option_name = 'lists'), '0')
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = '%s'::regclass AND c.relname ~ '^{name}_[0-9]+$'
"""
COUNT_PIECES: Final = "SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = 'memory_vectors'::regclass"
ON_WORKER: Final = """
SELECT success, result FROM master_run_on_worker(
  ARRAY[%(host)s], ARRAY[%(port)s::integer], ARRAY[%(command)s], false)
"""


@dataclass(frozen=True, slots=True)
class Piece:
    """A shard's index: where it is, how many vectors it holds, its lists (0 for an index that has none)."""

    host: str
    port: int
    name: str
    rows: int
    lists: int


async def shard_count(connection: psycopg.AsyncConnection[Any]) -> int:
    """Return how many shards the vectors are dealt into."""
    row = await (await connection.execute(COUNT_PIECES)).fetchone()
    return int(row[0]) if row else 0


async def pieces(connection: psycopg.AsyncConnection[Any], index: str) -> list[Piece]:
    """Return the shards' indexes of the distributed index called `index`.

    Raises:
        DatabaseFailed: a worker does not answer.
    """
    rows = await (await connection.execute(PIECES, {"command": PIECE.format(name=index)})).fetchall()
    found = []
    for host, port, success, result in rows:
        if not success:
            raise DatabaseFailed(f"The worker {host}:{port} does not answer.")
        if result:
            name, vectors, lists = result.split(" ")
            found.append(Piece(host, port, name, int(vectors), int(lists)))
    return found


async def rebuild_shard(connection: psycopg.AsyncConnection[Any], piece: Piece, lists: int) -> None:
    """Build one shard's index again beside the old one, with so many lists; none for an index that has none.

    Raises:
        DatabaseFailed: the worker refuses.
    """
    name = sql.Identifier(piece.name)
    if piece.lists:
        await _on_worker(connection, piece, sql.SQL("ALTER INDEX {} SET (lists = {})").format(name, sql.Literal(lists)))
    await _on_worker(connection, piece, sql.SQL("REINDEX INDEX CONCURRENTLY {}").format(name))


async def _on_worker(connection: psycopg.AsyncConnection[Any], piece: Piece, command: sql.Composed) -> None:
    given = {"host": piece.host, "port": piece.port, "command": command.as_string()}
    row = await (await connection.execute(ON_WORKER, given)).fetchone()
    if row is None or not row[0]:
        raise DatabaseFailed(f"The worker {piece.host}:{piece.port} did not rebuild an index.")
