"""The pieces of a model's vector index on a Citus cluster, each of which lives by itself on its worker.

Namespaces differ in size, and so do the shards that they are dealt into: the number of lists that is right for one is
wrong for another, and an index that was built while its shard was empty finds next to nothing once a namespace has come
to it. So each shard's index has lists after its own rows, and is rebuilt by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from pgengram.errors import DatabaseFailed

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
