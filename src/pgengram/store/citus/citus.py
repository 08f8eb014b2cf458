"""One store on several machines: which tables Citus distributes, by what, and where a namespace's rows are.

Names of functions, views and settings are those of Citus 12 and 13; everything here runs on the coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
from psycopg import sql

from pgengram.errors import Conflict, InvalidInput, NotReady
from pgengram.store.citus.status import (
    Node,
    Status,
    coordinator_connection,
    fetch_all,
    fetch_one,
    nodes_of,
    read_status,
    tables_not_in_place,
    tables_of_type,
)
from pgengram.store.connection import locks
from pgengram.store.connection.begin import APP_ROLE, WHO_AM_I
from pgengram.store.connection.database import FIND_NAMESPACE, RENEW_MARK
from pgengram.store.schema.migrate import migrate
from pgengram.store.schema.rights import policies_on_shards

SHARDS: Final = 32  # pieces of the whole store; the most machines that it can spread over without splitting one
DEFAULT_PORT: Final = 5432
DISTRIBUTION_COLUMN: Final = "namespace_id"


SEES_ALL: Final = """
SELECT result FROM run_command_on_all_nodes(
  $$SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user$$)
"""
FOREIGN_KEYS: Final = """
SELECT conrelid::regclass::text AS table, conname AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint
WHERE contype = 'f' AND conparentid = 0 AND (conrelid = ANY(%(tables)s::regclass[]) OR confrelid = ANY(%(tables)s::regclass[]))
"""
VECTOR_INDEXES: Final = """
SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = 'memory_vectors'::regclass AND c.relname LIKE 'memory\\_vectors\\_index\\_%%'
"""
BUILD_ANEW: Final = "UPDATE embedding_models SET rows_at_build = NULL WHERE rows_at_build IS NOT NULL"
FUNCTIONS: Final = (
    "pgengram_terms(text, text[])",
    "pgengram_turn_terms(text)",
    "pgengram_relevance(double precision, double precision, timestamptz)",
    "pgengram_may(text)",
    "pgengram_may_as_member(integer, text)",
)
ROLE: Final = "SELECT rolcanlogin AS may_log_in FROM pg_roles WHERE rolname = %(role)s"
SHARD_OF: Final = """
SELECT p.shardid AS shard, p.nodename AS host, p.nodeport AS port FROM citus_shards p
WHERE p.shardid = get_shard_id_for_distribution_column('memories', %(namespace_id)s)
"""
# How shards are copied: whoever writes to one waits for the copy. Citus could also let writers go on and have them
# replicated, but PostgreSQL from 15 on replicates nothing into a table with row-level security, and the move would
# never end.
MODE: Final = "block_writes"
# What a store on one machine has for people who use SQL, and tables that are spread out cannot have.
FOR_PEOPLE: Final = ("DROP VIEW IF EXISTS memories_now", "DROP TRIGGER IF EXISTS pgengram_keeps_text ON memories")


async def distribute_tables(url: str, shards: int = SHARDS) -> Status:
    """Distribute every namespace table by its namespace, and have the others on every machine; moves the rows that are
    there.

    Done in one transaction, in which nobody else writes. What is distributed already stays as it is, so it may be
    called again, and must be after an update that brings new tables.

    Args:
        url: the coordinator's database; its schema is brought up to date first.
        shards: into how many pieces; only the first call says.

    Raises:
        NotReady: this database has no Citus, knows no machine that takes shards, or a machine refuses.
    """
    async with coordinator_connection(url):
        pass
    await asyncio.to_thread(migrate, url)
    async with coordinator_connection(url) as connection:
        if not any(node.takes_shards and node.active for node in await nodes_of(connection)):
            raise NotReady("This coordinator has no workers.", "Run `pgengram citus add-node HOST` for each first.")
        async with connection.transaction():
            await connection.execute(locks.WAIT, {"key": locks.MIGRATION})
            await _distribute(connection, shards)
        await _let_role_travel(connection)
        return await read_status(connection)


async def add_node(url: str, host: str, port: int = DEFAULT_PORT, coordinator: tuple[str, int] | None = None) -> Status:
    """Have the cluster take in a machine; namespaces come to it by `rebalance` or `isolate`.

    Args:
        url: the coordinator's database.
        host: the machine as the coordinator reaches it. Citus and pgvector are installed there, and a database of the
            same
            name has the extension citus.
        port: of PostgreSQL there.
        coordinator: how the machines reach the coordinator; needed before the first one.

    Raises:
        InvalidInput: nobody has said yet how the machines reach the coordinator.
        NotReady: this database has no Citus, or the machine cannot be taken in.
    """
    async with coordinator_connection(url) as connection:
        if coordinator is not None:
            given = {"host": coordinator[0], "port": coordinator[1]}
            await connection.execute("SELECT citus_set_coordinator_host(%(host)s, %(port)s)", given)
        elif not any(node.coordinator for node in await nodes_of(connection)):
            raise InvalidInput(
                "The other machines must know how to reach the coordinator.",
                "Add --coordinator HOST[:PORT]; once is enough.",
            )
        await connection.execute("SELECT citus_add_node(%(host)s, %(port)s)", {"host": host, "port": port})
        if await tables_of_type(connection, "reference"):
            await connection.execute("SELECT replicate_reference_tables(%(mode)s)", {"mode": MODE})
        return await read_status(connection)


async def rebalance(url: str) -> Status:
    """Deal the shards evenly over the machines, and come back when that is done; servers go on serving.

    Readers notice nothing; whoever writes to a shard waits while it is copied.

    Raises:
        Conflict: nothing is distributed yet.
        NotReady: this database has no Citus, a machine refuses, or the login does not see all namespaces' rows.
    """
    async with coordinator_connection(url) as connection:
        await _expect_movable(connection)
        await connection.execute(
            "SELECT rebalance_table_shards('memories', shard_transfer_mode => %(mode)s)", {"mode": MODE}
        )
        await connection.execute("CALL citus_cleanup_orphaned_resources()")
        return await read_status(connection)


async def isolate(url: str, namespace: str, node: tuple[str, int] | None = None) -> Status:
    """Give a large namespace a shard of its own, and take that to the emptiest other machine; servers go on serving.

    Readers notice nothing; whoever writes for this namespace, or for one that shared its shard, waits while that is
    copied.

    Args:
        url: the coordinator's database.
        namespace: the namespace's name.
        node: the machine to take it to; the one with the fewest bytes when left out.

    Raises:
        InvalidInput: there is no such namespace or machine.
        Conflict: nothing is distributed yet.
        NotReady: this database has no Citus, a machine refuses, or the login does not see all namespaces' rows.
    """
    async with coordinator_connection(url) as connection:
        await _expect_movable(connection)
        found = await fetch_one(connection, FIND_NAMESPACE, {"name": namespace})
        if found is None:
            raise InvalidInput(f"There is no namespace {namespace!r}.", "Names are case-sensitive.")
        before = await read_status(connection)
        target = _target_node(before, node)
        if not any(alone.namespace == namespace for alone in before.alone):
            await connection.execute(
                "SELECT isolate_tenant_to_new_shard('memories', %(id)s, 'CASCADE', shard_transfer_mode => %(mode)s)",
                {"id": found["id"], "mode": MODE},
            )
        if shard := await fetch_one(connection, SHARD_OF, {"namespace_id": found["id"]}):
            await _move(connection, shard, target or _emptiest(before, shard))
        await connection.execute("CALL citus_cleanup_orphaned_resources()")
        return await read_status(connection)


def _emptiest(status: Status, shard: dict[str, Any]) -> Node | None:
    """Return the machine with the fewest bytes but the one where the shard is; None where that is the only one."""
    others = [n for n in status.nodes if n.takes_shards and (n.host, n.port) != (shard["host"], shard["port"])]
    return min(others, key=lambda n: (n.shards > 0, n.bytes), default=None)


async def _move(
    connection: psycopg.AsyncConnection[dict[str, Any]], shard: dict[str, Any], target: Node | None
) -> None:
    """Take a shard to another machine, unless it already exists."""
    if target is None or (target.host, target.port) == (shard["host"], shard["port"]):
        return
    await connection.execute(
        "SELECT citus_move_shard_placement(%(shard)s, %(host)s, %(port)s, %(to_host)s, %(to_port)s, %(mode)s)",
        {**shard, "to_host": target.host, "to_port": target.port, "mode": MODE},
    )


def _target_node(status: Status, node: tuple[str, int] | None) -> Node | None:
    if node is None:
        return None
    for known in status.nodes:
        if (known.host, known.port) == node and known.takes_shards:
            return known
    places = ", ".join(f"{known.host}:{known.port}" for known in status.nodes if known.takes_shards)
    raise InvalidInput(f"No machine {node[0]}:{node[1]} takes shards.", f"Use one of {places}.")


POLICIES: Final = ("one_namespace", "removing")
# Who is a member is asked in the middle of a statement on a shard, of a table that each machine has whole.
ON_SHARDS: Final = (
    "ALTER FUNCTION pgengram_may_as_member(integer, text) SET citus.allow_nested_distributed_execution = on"
)


async def _renew_policies(connection: psycopg.AsyncConnection[dict[str, Any]], table: str) -> None:
    """Give a table the policies that its shards can have."""
    for policy in POLICIES:
        await connection.execute(
            sql.SQL("DROP POLICY IF EXISTS {} ON {}").format(*map(sql.Identifier, (policy, table)))
        )
    for statement in policies_on_shards(table):
        await connection.execute(statement.encode())


async def _distribute(connection: psycopg.AsyncConnection[dict[str, Any]], shards: int) -> None:
    """Put every table in its place that is not there yet, inside the caller's transaction."""
    new_owned, new_lookups = await tables_not_in_place(connection)
    if not new_lookups and not new_owned:
        return
    # One connection to each machine, so that what one statement of this transaction made the next one sees.
    await connection.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
    await connection.execute(sql.SQL("SET LOCAL citus.shard_count = {}").format(sql.Literal(shards)))
    for statement in FOR_PEOPLE:
        await connection.execute(statement)
    for name in new_owned:
        await _renew_policies(connection, name)
    if "memory_vectors" in new_owned:
        await _drop_vector_indexes(connection)
    async with _without_foreign_keys(connection, new_owned):
        for name in new_lookups:
            await connection.execute("SELECT create_reference_table(%(name)s)", {"name": name})
        await connection.execute(ON_SHARDS)
        for function in FUNCTIONS:  # policies of the shards call some
            await connection.execute("SELECT create_distributed_function(%(name)s)", {"name": function})
        await _deal(connection, new_owned)
    for name in [*new_lookups, *new_owned]:
        await connection.execute("SELECT truncate_local_data_after_distributing_table(%(name)s)", {"name": name})
    await connection.execute(RENEW_MARK)  # servers that run look anew, and find a cluster


async def _drop_vector_indexes(connection: psycopg.AsyncConnection[dict[str, Any]]) -> None:
    """Have the vector indexes rebuilt later: on shards, which are empty at first, they would learn nothing."""
    for row in await fetch_all(connection, VECTOR_INDEXES):
        await connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(row["name"])))
    await connection.execute(BUILD_ANEW)


@asynccontextmanager
async def _without_foreign_keys(
    connection: psycopg.AsyncConnection[dict[str, Any]], tables: list[str]
) -> AsyncIterator[None]:
    """Run a block while no foreign key leads from or to `tables`, as distributed tables need it."""
    keys = await fetch_all(connection, FOREIGN_KEYS, {"tables": tables})
    for key in keys:
        named = [sql.Identifier(key["table"]), sql.Identifier(key["name"])]
        await connection.execute(sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(*named))
    yield
    for key in keys:
        named = [sql.Identifier(key["table"]), sql.Identifier(key["name"])]
        added = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} ").format(*named) + sql.SQL(key["definition"])
        await connection.execute(added)


async def _deal(connection: psycopg.AsyncConnection[dict[str, Any]], tables: list[str]) -> None:
    """Distribute namespace tables by namespace, all of a namespace in one place; whoever copies the rows must see past
    row-level security.
    """
    for name in tables:
        await connection.execute(sql.SQL("ALTER TABLE {} NO FORCE ROW LEVEL SECURITY").format(sql.Identifier(name)))
    for name in tables:
        await connection.execute(
            "SELECT create_distributed_table(%(name)s, %(column)s, colocate_with => %(with)s)",
            {"name": name, "column": DISTRIBUTION_COLUMN, "with": "none" if name == "memories" else "memories"},
        )
    for name in tables:
        await connection.execute(sql.SQL("ALTER TABLE {} FORCE ROW LEVEL SECURITY").format(sql.Identifier(name)))


async def _let_role_travel(connection: psycopg.AsyncConnection[dict[str, Any]]) -> None:
    """Let the coordinator log in to the workers as the application's role, for a namespace's transactions."""
    role = await fetch_one(connection, ROLE, {"role": APP_ROLE})
    login = await fetch_one(connection, WHO_AM_I, {"role": APP_ROLE})
    if role is None or login is None or not login["member"]:
        return  # row-level security holds the login itself, which travels as it is
    if not role["may_log_in"]:
        await connection.execute(sql.SQL("ALTER ROLE {} LOGIN").format(sql.Identifier(APP_ROLE)))
    async with connection.transaction():
        await connection.execute("SELECT set_config('role', %(role)s, true)", {"role": APP_ROLE})
        await connection.execute(
            "SELECT count(*) FROM memories"
        )  # subject to row-level security: none, from every shard


async def _expect_movable(connection: psycopg.AsyncConnection[dict[str, Any]]) -> None:
    """Refuse to move shards where there are none, or as a login that row-level security holds: Citus copies what that
    sees, which is nothing, and drops the rest.
    """
    if "memories" not in await tables_of_type(connection, "distributed"):
        raise Conflict("Nothing is distributed yet.", "Run `pgengram citus init` first.")
    if any(row["result"] != "t" for row in await fetch_all(connection, SEES_ALL)):
        raise NotReady(
            "Row-level security applies to this login, so not all rows would be moved.",
            "Nothing was moved. Run this as a superuser, or as the owner of the database with BYPASSRLS on every "
            "machine.",
        )
