"""Row-level security: PostgreSQL itself keeps them apart, whatever a statement forgets to say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import psycopg
import pytest

from helpers import Database, call, connected, database_of, found, read, refused, remember
from pgengram.errors import NotReady
from pgengram.fields import TYPES
from pgengram.inputs import NewMemory
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.connection.begin import APP_ROLE
from pgengram.store.schema.tables import LOOKUPS, OWNED, namespaces

OWNED_NAMES = [table.name for table in OWNED]
# What the server does by itself only for a thousand memories and more.
FOLDED = """INSERT INTO memory_posting_lists (namespace_id, term, segment, memory_ids, measures)
  SELECT namespace_id, 1, 1, array_agg(id), array_agg(1) FROM memories GROUP BY namespace_id"""

# The tables that storing alone does not fill.
FILLED = """WITH two AS (SELECT namespace_id, min(id::text)::uuid AS one, max(id::text)::uuid AS other FROM memories GROUP BY 1),
  synonym AS (INSERT INTO memory_tag_synonyms SELECT namespace_id, 'a', 'b' FROM two),
  waiting AS (INSERT INTO memory_confirmations SELECT namespace_id, 'x', 'erase', '{}', now(), now() FROM two),
  talk AS (INSERT INTO conversations SELECT namespace_id, 'c', 's' FROM two),
  turn AS (INSERT INTO conversation_turns SELECT namespace_id, 'c', 's', 1, 'user', 'x', 'p', now() FROM two),
  hidden AS (INSERT INTO hidden_turns SELECT namespace_id, 'c', 's', 7, true, 'x', 'user', 2, now() FROM two),
  keeping AS (INSERT INTO conversation_settings SELECT namespace_id FROM two),
  receipt AS (INSERT INTO recall_receipts (namespace_id, memory_id, client, conversation, version, event, tokens, milliseconds)
              SELECT namespace_id, one, 'c', 's', 1, 'x', 1, 1 FROM two),
  elsewhere AS (INSERT INTO sync_settings (namespace_id, secret, folder, device, device_name)
                SELECT namespace_id, '', '/', 'x', 'x' FROM two),
  changed AS (INSERT INTO sync_changes SELECT namespace_id, 'memory', one::text, now(), false FROM two),
  known AS (INSERT INTO sync_documents SELECT namespace_id, 'memory', one::text, '{}' FROM two),
  file AS (INSERT INTO sync_files SELECT namespace_id, 'x', 'x', 'x' FROM two),
  shared AS (INSERT INTO shared_copies SELECT namespace_id, one, 1000000000, other FROM two),
  bound AS (INSERT INTO project_spaces SELECT namespace_id, 'p', 1000000000 FROM two),
  import AS (INSERT INTO memory_imports SELECT namespace_id, one, 'x', 'jsonl' FROM two),
  came AS (INSERT INTO imported_memories SELECT namespace_id, one, one, 1, now() FROM two),
  told AS (INSERT INTO imported_turns SELECT namespace_id, one, 'c', 's', '{7}' FROM two),
  edge AS (INSERT INTO memory_relationships SELECT namespace_id, one, other, 'causes' FROM two),
  held AS (INSERT INTO working_memories SELECT namespace_id, one FROM two),
  cluster AS (INSERT INTO memory_clusters (namespace_id, id, type, name) SELECT namespace_id, one, 'theme', 'x' FROM two),
  member AS (INSERT INTO memory_cluster_members SELECT namespace_id, one, one FROM two),
  used AS (INSERT INTO memory_cluster_activations (namespace_id, cluster_id, id) SELECT namespace_id, one, one FROM two),
  self AS (INSERT INTO memory_identities (namespace_id, id) SELECT namespace_id, one FROM two),
  belief AS (INSERT INTO memory_beliefs (namespace_id, id, category, belief, belief_hash)
             SELECT namespace_id, one, 'x', 'x', 'x' FROM two)
INSERT INTO memory_belief_evidence SELECT namespace_id, one, one FROM two"""


@pytest.fixture(scope="module")
async def two_namespaces(postgres: str, template: str) -> AsyncIterator[Database]:
    """A database in which Ada and Ben each have memories of all types, with vectors."""
    with database_of(postgres, template) as database:
        for namespace in ("ada", "ben"):
            manager = MemoryManager(Settings(database_url=database.url, namespace=namespace))
            for type_ in TYPES:
                new = {"content": f"{namespace} has a {type_} memory.", "type": type_, "tags": [namespace]}
                await manager.create_memory(NewMemory.model_validate(new))
            await manager.close()
            database.rows(FOLDED, namespace=namespace)
            database.rows(FILLED, namespace=namespace)
        database.keep()
        yield database


@pytest.mark.parametrize("table", OWNED_NAMES)
def test_every_owned_table_has_a_forced_row_level_security_for_reading_and_writing(
    two_namespaces: Database, table: str
) -> None:
    [(enabled, forced)] = two_namespaces.as_login(
        f"SELECT relrowsecurity, relforcerowsecurity FROM pg_class WHERE oid = '{table}'::regclass"
    )
    policies = two_namespaces.as_login(
        f"SELECT qual, with_check, cmd, permissive FROM pg_policies WHERE tablename = '{table}' AND cmd = 'ALL'"
    )

    assert (enabled, forced) == (True, True)
    [(using, check, _, _)] = policies
    assert "namespace_id = ( SELECT pgengram_may('read'::text)" in using
    assert check == using.replace("'read'", "'write'")


def test_no_policy_lets_the_application_see_more_than_one_namespace(two_namespaces: Database) -> None:
    others = two_namespaces.as_login(
        "SELECT tablename, cmd, roles, permissive FROM pg_policies WHERE policyname <> ALL (ARRAY['one_namespace', 'readable'])"
    )

    assert all(
        cmd == "SELECT" and APP_ROLE not in roles and "public" not in roles
        for _, cmd, roles, kind in others
        if kind == "PERMISSIVE"
    )
    assert {cmd for _, cmd, _, kind in others if kind == "RESTRICTIVE"} == {"DELETE"}


@pytest.mark.parametrize("table", OWNED_NAMES)
def test_nothing_is_visible_while_no_namespace_is_named(two_namespaces: Database, table: str) -> None:
    statement = f"SELECT count(*) FROM {table}"

    assert two_namespaces.value(statement, namespace="ada") > 0
    assert two_namespaces.value(statement, namespace=None) == 0, "where one was named before"
    assert Database(two_namespaces.url).value(statement, namespace=None) == 0, "where none ever was"


@pytest.mark.parametrize("table", OWNED_NAMES)
def test_only_ones_own_rows_are_visible(two_namespaces: Database, table: str) -> None:
    for namespace in ("ada", "ben"):
        key = two_namespaces.value(
            "SELECT id FROM namespaces WHERE name = %s", [namespace], namespace=None, role="none"
        )

        seen = two_namespaces.rows(f"SELECT DISTINCT namespace_id FROM {table}", namespace=namespace)

        assert seen == [{"namespace_id": key}]


@pytest.mark.parametrize("table", OWNED_NAMES)
def test_no_row_of_another_namespace_can_be_changed_or_removed(two_namespaces: Database, table: str) -> None:
    before = two_namespaces.rows(f"SELECT *, xmin::text FROM {table}", namespace="ben")
    column = next(name for name in ("reason", "actor", "count", "length", "position", "part", "version", "memory_id", "segment",
                               "tag", "action", "strength", "name", "session_id", "role", "keeps", "read_to", "uses",
                               "disputed", "mark", "device", "copy_id", "space_id", "client")
                  if name in [column.name for column in next(t for t in OWNED if t.name == table).c])  # fmt: skip

    with psycopg.connect(two_namespaces.url) as connection:
        connection.execute(
            "SELECT set_config('pgengram.namespace_id', id::text, true) FROM namespaces WHERE name = 'ada'"
        )
        connection.execute("SELECT set_config('role', %s, true)", [APP_ROLE])
        mine = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        changed = connection.execute(f"UPDATE {table} SET {column} = {column}").rowcount
        removed = connection.execute(f"DELETE FROM {table}").rowcount
        connection.rollback()

    assert mine is not None
    assert changed == removed == mine[0]
    assert two_namespaces.rows(f"SELECT *, xmin::text FROM {table}", namespace="ben") == before


@pytest.mark.parametrize("table", OWNED_NAMES)
def test_no_row_can_be_written_for_another_namespace(two_namespaces: Database, table: str) -> None:
    theirs = two_namespaces.value("SELECT id FROM namespaces WHERE name = 'ben'", namespace=None, role="none")
    generated = {row["attname"] for row in two_namespaces.rows(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attgenerated <> ''", [table], namespace=None
    )}  # fmt: skip
    names = [column.name for column in next(t for t in OWNED if t.name == table).c if column.name not in generated]
    columns = ", ".join(f'"{name}"' for name in names)
    values = ", ".join(str(theirs) if name == "namespace_id" else f'"{name}"' for name in names)

    for statement in (
        f"INSERT INTO {table} ({columns}) SELECT {values} FROM {table} LIMIT 1",
        f"UPDATE {table} SET namespace_id = {theirs}",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            two_namespaces.rows(statement, namespace="ada")


@pytest.mark.parametrize("table", [*(table.name for table in LOOKUPS), namespaces.name, "pgengram_version"])
def test_the_application_writes_no_table_that_all_namespaces_share(two_namespaces: Database, table: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        two_namespaces.rows(f"DELETE FROM {table}", namespace="ada")


def test_the_application_cannot_see_who_else_is_there(two_namespaces: Database) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        two_namespaces.rows("SELECT name FROM namespaces", namespace=None)


async def test_servers_of_two_namespaces_share_a_database_and_nothing_else(database: Database) -> None:
    async with (
        connected(database_url=database.url, namespace="ada") as ada,
        connected(database_url=database.url, namespace="ben") as ben,
    ):
        hers = await remember(ada, "The garden gate is green.")
        his = await remember(ben, "The garden gate is green.")

        assert hers != his
        assert await found(ada, "garden gate") == await found(ada) == [hers]
        assert await found(ben, "garden gate") == await found(ben) == [his]
        for id_ in (hers, hers[-8:]):
            assert (await ben.call_tool("get_memories", {"ids": [id_]})).is_error
            assert (await refused(ben, "update_memory", id=id_, importance=1))["code"] == "NOT_FOUND"
            assert (await ben.call_tool("forget_memories", {"ids": [id_]})).is_error
        assert (await refused(ben, "forget_memories", ids=[his], replaced_by_ids=[hers]))["code"] == "NOT_FOUND"
        assert (await read(ada, hers))["status"] == "active"


async def test_no_argument_of_a_tool_names_the_namespace(database: Database) -> None:
    async with connected(database_url=database.url, embedder="none:") as client:
        tools = (await client.list_tools()).tools

        assert "namespace" not in str([tool.input_schema for tool in tools])
        answer = await call(client, "search_memories", query="x", namespace="ada")
        assert (answer["count"], answer["read"]["namespace"]) == (0, "ignored: no such argument")
        assert (await refused(client, "forget_memories", ids=["0" * 32], namespace="ada"))["code"] == "INVALID_INPUT"


async def test_one_namespace_after_another_on_the_same_connections_sees_only_its_own(two_namespaces: Database) -> None:
    from pgengram.store.connection.database import Database as Pool

    pool = Pool(two_namespaces.url)
    await pool.open()
    keys = [await pool.namespace_id(name) for name in ("ada", "ben")]
    for key in keys * 10:
        async with pool.transaction(key) as tx:
            rows = await tx.rows("SELECT DISTINCT namespace_id FROM memories")
        assert rows == [{"namespace_id": key}]
    async with pool.as_login() as connection:
        setting = await (
            await connection.execute("SELECT current_setting('pgengram.namespace_id', true) AS s")
        ).fetchone()
    await pool.close()
    assert setting is not None
    assert not setting["s"]


async def test_a_login_that_would_bypass_row_level_security_is_refused(two_namespaces: Database) -> None:
    name = f"pgengram_test_{uuid4().hex[:8]}"
    two_namespaces.as_login(
        f"CREATE ROLE {name} LOGIN BYPASSRLS PASSWORD 'only-for-this-test'",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}",
    )
    try:
        url = psycopg.conninfo.make_conninfo(two_namespaces.url, user=name, password="only-for-this-test")
        manager = MemoryManager(Settings(database_url=url, embedder="none:"))

        with pytest.raises(NotReady, match="row-level security") as refused:
            await manager.ready()
        assert f'GRANT pgengram_app TO "{name}"' in refused.value.hint

        await manager.close()
    finally:
        two_namespaces.as_login(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


async def test_everything_a_server_does_it_does_as_the_application(database: Database) -> None:
    """Every right of the login on namespaces' tables but the application's is taken away, and all six tools still work."""
    async with connected(database_url=database.url) as client:
        id_ = await remember(client, "Before.")
        assert await found(client, "before") == [id_]
        database.as_login(
            *(f"CREATE TRIGGER seen BEFORE INSERT OR UPDATE OR DELETE ON {table} EXECUTE FUNCTION only_the_application()"
              if number else
              f"""CREATE FUNCTION only_the_application() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF current_user <> '{APP_ROLE}' THEN RAISE 'written by %', current_user; END IF; RETURN NULL; END $$"""
              for number, table in enumerate(["", *OWNED_NAMES]))
        )  # fmt: skip
        await remember(client, "After.")
        await call(client, "create_memories", items=[{"content": "Many."}])
        await call(client, "update_memory", id=id_, content="Changed.", tags=["alpha"], importance=0.1)
        await read(client, id_)
        await call(client, "forget_memories", ids=[id_])
        assert await found(client, "after")
