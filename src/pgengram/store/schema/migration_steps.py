"""What migrations are made of: statements that are run, or written down by `alembic upgrade --sql`."""

from __future__ import annotations

from typing import Final

from alembic import context, op

from pgengram.store.connection.begin import HAS_CITUS
from pgengram.store.schema.place import IS_DISTRIBUTED

BESIDE_MEMORIES: Final = "SELECT create_distributed_table('{table}', 'namespace_id', colocate_with => 'memories')"


def run(statement: str) -> None:
    """Run one statement of a migration, or write it down."""
    if context.is_offline_mode():
        op.get_context().impl.static_output(f"{statement.strip()};")
    else:
        op.get_bind().exec_driver_sql(statement.replace("%", "%%"))


def beside_memories(table: str) -> bool:
    """Deal a namespace table that a migration has just made to where its namespaces' memories are, if the store is on a
    cluster, and return whether it is; what is written down is for a store on one machine.

    To be called while the table is empty and has no foreign keys: none may lead from one machine to a table that is on
    several.
    """
    if context.is_offline_mode():
        return False
    connection = op.get_bind()
    if not (connection.exec_driver_sql(HAS_CITUS).first() and connection.exec_driver_sql(IS_DISTRIBUTED).first()):
        return False
    connection.exec_driver_sql(BESIDE_MEMORIES.format(table=table))
    return True
