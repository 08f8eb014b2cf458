"""What a cluster is: its machines, and which tables and namespaces are where."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from pgengram.errors import DatabaseFailed, NotReady
from pgengram.store.connection.begin import has_citus

NO_EXTENSION: Final = (
    "This database has no extension citus, so the whole store stays on one machine.",
    "It needs nothing more to work. To spread it over machines, move it to a coordinator of Citus and run CREATE "
    "EXTENSION citus there: docs/how-to/run-a-cluster.md.",
)
VERSION: Final = "SELECT extversion AS version FROM pg_extension WHERE extname = 'citus'"
# Uses pg_dist_node; one row for each machine, the coordinator's group is 0.
NODES: Final = """
SELECT nodename AS host, nodeport AS port, groupid = 0 AS coordinator, isactive AS active, shouldhaveshards AS takes_shards
FROM pg_dist_node WHERE noderole = 'primary' ORDER BY groupid
"""
KNOWN_TABLES: Final = "SELECT table_name::text AS name, citus_table_type AS type FROM citus_tables"
PLACEMENTS: Final = """
SELECT s.nodename AS host, s.nodeport AS port, count(DISTINCT s.shardid) FILTER (WHERE s.table_name = 'memories'::regclass) AS shards,
  coalesce(sum(s.shard_size), 0)::bigint AS bytes
FROM citus_shards s WHERE s.citus_table_type = 'distributed' GROUP BY 1, 2
"""
# A namespace alone in a shard is one whose hash is all of the shard's range.
ALONE: Final = """
SELECT n.name, s.shardid AS shard, p.nodename AS host, p.nodeport AS port
FROM (SELECT shardid, shardminvalue::integer AS hash FROM pg_dist_shard
      WHERE logicalrelid = 'memories'::regclass AND shardminvalue = shardmaxvalue) AS s
JOIN (SELECT name, worker_hash(id) AS hash FROM namespaces) AS n USING (hash)
JOIN citus_shards p ON p.shardid = s.shardid ORDER BY n.name
"""
# Row-level security is in force on a shard only if the shard says so itself.
ROW_LEVEL_SECURITY: Final = """
SELECT count(*) FILTER (WHERE NOT success OR result IS DISTINCT FROM 't') AS open
FROM run_command_on_placements(%(table)s, $$SELECT c.relrowsecurity AND c.relforcerowsecurity AND EXISTS (
  SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'one_namespace') FROM pg_class c WHERE c.oid = '%%s'::regclass$$)
"""


@dataclass(frozen=True, slots=True)
class Node:
    """One machine: its address, whether namespaces' rows may be on it, how many shards and bytes of them are."""

    host: str
    port: int
    coordinator: bool
    active: bool
    takes_shards: bool
    shards: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Alone:
    """A namespace that has a shard to itself, and where that is."""

    namespace: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Status:
    """What a cluster looks like.

    distributed: whether every table is where it belongs; missing: those that are not, which `init` puts there.
    shards: into how many pieces the namespaces are dealt; row_level_security: whether it is in force on every shard,
        None before there
    are any.
    """

    citus: str
    distributed: bool
    missing: list[str]
    shards: int
    row_level_security: bool | None
    nodes: list[Node] = field(default_factory=list)
    alone: list[Alone] = field(default_factory=list)


async def cluster_status(url: str) -> Status:
    """Look at the cluster, and ask every shard whether row-level security is in force.

    Raises:
        NotReady: this database has no Citus, or cannot be reached.
    """
    async with coordinator_connection(url) as connection:
        return await read_status(connection)


async def read_status(connection: psycopg.AsyncConnection[dict[str, Any]]) -> Status:
    """Return what a cluster looks like, as its coordinator tells it."""
    owned, _ = distributed_tables()
    missing = [name for group in await tables_not_in_place(connection) for name in group]
    there = "memories" not in missing
    nodes = await _machines(connection, await fetch_all(connection, PLACEMENTS) if there else [])
    alone = await fetch_all(connection, ALONE) if there else []
    version = await fetch_one(connection, VERSION)
    return Status(
        citus=version["version"] if version else "none",
        distributed=not missing,
        missing=missing,
        shards=sum(node.shards for node in nodes),
        row_level_security=await _secured(connection, [name for name in owned if name not in missing]),
        nodes=nodes,
        alone=[Alone(row["name"], row["host"], row["port"]) for row in alone],
    )


async def _machines(
    connection: psycopg.AsyncConnection[dict[str, Any]], placements: Sequence[dict[str, Any]]
) -> list[Node]:
    """Return every machine with how much it holds."""
    held = {(row["host"], row["port"]): (row["shards"], row["bytes"]) for row in placements}
    nodes = []
    for node in await nodes_of(connection):
        shards, size = held.get((node.host, node.port), (0, 0))
        nodes.append(replace(node, shards=shards, bytes=size))
    return nodes


async def _secured(connection: psycopg.AsyncConnection[dict[str, Any]], tables: Sequence[str]) -> bool | None:
    """Return whether row-level security is in force on every shard of these tables; None without any."""
    found = [await fetch_one(connection, ROW_LEVEL_SECURITY, {"table": name}) for name in tables]
    return all(row is not None and row["open"] == 0 for row in found) if found else None


async def nodes_of(connection: psycopg.AsyncConnection[dict[str, Any]]) -> list[Node]:
    """Return the machines of a cluster."""
    return [Node(**row) for row in await fetch_all(connection, NODES)]


async def tables_of_type(connection: psycopg.AsyncConnection[dict[str, Any]], type_: str) -> list[str]:
    """Return the names of the tables that Citus calls `distributed` or `reference`."""
    return [row["name"] for row in await fetch_all(connection, KNOWN_TABLES) if row["type"] == type_]


async def fetch_all(
    connection: psycopg.AsyncConnection[dict[str, Any]], statement: str, given: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return all rows of a statement."""
    return await (await connection.execute(statement, given)).fetchall()


async def fetch_one(
    connection: psycopg.AsyncConnection[dict[str, Any]], statement: str, given: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return the first row of a statement."""
    return await (await connection.execute(statement, given)).fetchone()


@asynccontextmanager
async def coordinator_connection(url: str) -> AsyncIterator[psycopg.AsyncConnection[dict[str, Any]]]:
    """Yield a connection to a database with Citus; what Citus refuses becomes our error, in its own words."""
    try:
        connection = await psycopg.AsyncConnection.connect(
            url, autocommit=True, row_factory=dict_row, connect_timeout=10, prepare_threshold=None
        )
        async with connection:
            if not await has_citus(connection):
                raise NotReady(*NO_EXTENSION)
            yield connection
    except psycopg.errors.InsufficientPrivilege as error:
        raise NotReady(
            f"This login is not allowed to do that: {error.diag.message_primary}.",
            "Set PGENGRAM_DATABASE_URL to an administrator's login.",
        ) from error
    except psycopg.Error as error:
        said = error.diag.message_primary or type(error).__name__
        hint = (
            error.diag.message_hint
            or error.diag.message_detail
            or "docs/how-to/run-a-cluster.md tells what a machine needs."
        )
        raise DatabaseFailed(f"Citus refused: {said}.", f"Nothing was changed. {hint}") from error


async def tables_not_in_place(connection: psycopg.AsyncConnection[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the tables that are still to be distributed, and those still to be copied to every machine."""
    owned, lookups = distributed_tables()
    known = {row["name"]: row["type"] for row in await fetch_all(connection, KNOWN_TABLES)}
    return (
        [name for name in owned if known.get(name) != "distributed"],
        [name for name in lookups if known.get(name) != "reference"],
    )


def distributed_tables() -> tuple[list[str], list[str]]:
    """Return the namespace tables, `memories` first, and those that every machine needs, each after those that it
    points at.

    Needed is what foreign keys lead to, and what leads there; anything else stays on the coordinator alone.
    """
    from pgengram.store.schema.tables import OWNED, metadata

    owned = sorted((table.name for table in OWNED), key=lambda name: name != "memories")
    others = [table for table in metadata.sorted_tables if table.name not in owned]
    pointed_at = {key.column.table.name for table in metadata.sorted_tables for key in table.foreign_keys}
    return owned, [table.name for table in others if table.foreign_keys or table.name in pointed_at]
