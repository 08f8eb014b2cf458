"""A later version's migration on a store that is spread already: its namespace table lies beside the memories, subject to row-level security."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest

from helpers import Database
from pgengram.inputs import NewMemory
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.connection.begin import APP_ROLE
from pgengram.store.schema import migrate as migrating

TODAY = migrating.newest_version()
NEXT = f'''
from alembic import op

from pgengram.store.schema.migration_steps import beside_memories

revision = "9000"
down_revision = "{TODAY}"
OWNER = "namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer"


def upgrade() -> None:
    run = op.get_bind().exec_driver_sql
    run("ALTER TABLE memories ADD COLUMN mood_count integer")
    run("""CREATE TABLE memory_moods (namespace_id integer NOT NULL, memory_id uuid NOT NULL, mood text NOT NULL,
             PRIMARY KEY (namespace_id, memory_id))""")
    beside_memories("memory_moods")
    run("""ALTER TABLE memory_moods ADD FOREIGN KEY (namespace_id, memory_id) REFERENCES memories (namespace_id, id)
             ON DELETE CASCADE""")
    run("GRANT SELECT, INSERT, UPDATE, DELETE ON memory_moods TO {APP_ROLE}")
    run("ALTER TABLE memory_moods ENABLE ROW LEVEL SECURITY")
    run("ALTER TABLE memory_moods FORCE ROW LEVEL SECURITY")
    run(f"CREATE POLICY one_namespace ON memory_moods USING ({{OWNER}}) WITH CHECK ({{OWNER}})")
'''


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A later version, whose schema has a table more; its name."""
    folder = tmp_path / "migrations"
    shutil.copytree(migrating.migrations_folder(), folder)
    (folder / "versions" / "9000_moods.py").write_text(NEXT)
    monkeypatch.setattr(migrating, "migrations_folder", lambda: folder)
    monkeypatch.setattr(migrating, "newest_version", lambda: "9000")
    return "9000"


async def remembering(database: Database, namespace: str) -> None:
    manager = MemoryManager(Settings(database_url=database.url, namespace=namespace, embedder="none:"))
    await manager.create_memory(NewMemory(content=f"{namespace} sails."))
    await manager.close()


async def check(database: Database) -> None:
    add = "INSERT INTO memory_moods SELECT namespace_id, id, 'calm' FROM memories WHERE namespace_id = {namespace} RETURNING 1"
    for name in ("ada", "ben"):
        [(namespace,)] = database.as_login(f"SELECT id FROM namespaces WHERE name = '{name}'")
        database.rows(add.format(namespace=namespace), namespace=name)
    assert database.value("SELECT count(*) FROM memory_moods", namespace="ada") == 1
    assert database.value("SELECT count(*) FROM memory_moods", namespace=None) == 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        database.rows(f"INSERT INTO memory_moods VALUES ({namespace}, gen_random_uuid(), 'wild')", namespace="ada")
    database.rows("DELETE FROM memories RETURNING 1", namespace="ben")
    assert database.as_login("SELECT count(*) FROM memory_moods") == [(1,)]


async def test_a_new_table_of_namespaces_is_distributed_with_their_memories_and_secured(
    cluster_db: Database, later: str
) -> None:
    for namespace in ("ada", "ben"):
        await remembering(cluster_db, namespace)

    assert migrating.migrate(cluster_db.url) == TODAY

    assert migrating.state(cluster_db.url).version == later
    together = cluster_db.as_login(
        """SELECT count(DISTINCT colocation_id), bool_and(citus_table_type = 'distributed')
           FROM citus_tables WHERE table_name IN ('memories'::regclass, 'memory_moods'::regclass)"""
    )
    assert together == [(1, True)]
    await check(cluster_db)


@pytest.mark.nightly
async def test_the_same_migration_runs_where_nothing_is_spread(database: Database, later: str) -> None:
    for namespace in ("ada", "ben"):
        await remembering(database, namespace)

    assert migrating.migrate(database.url) == TODAY

    assert migrating.state(database.url).version == later
    await check(database)
