"""The schema: written once, reached by two ways, and true of every row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import create_engine

from helpers import Database, database_of, on_citus
from pgengram.embedders import embedder_from
from pgengram.fields import RATE_PER_DAY_OF_KIND, RATE_PER_DAY_OF_TYPE, TYPES
from pgengram.store.connection.begin import APP_ROLE
from pgengram.store.schema import migrate
from pgengram.store.schema.tables import LOOKUPS, OWNED, metadata

OWNED_NAMES = [table.name for table in OWNED]
DETAIL_NAMES = [f"{type_}_memories" for type_ in TYPES]
OF_ONE_SCHEMA = "n.nspname = 'public' AND c.relname <> 'pgengram_version'"
# A server may mark columns for itself, as Debian's 15.20 and 17.12 do with `pg_attver`; pg_dump leaves that out.
OPTIONS = "(SELECT array_agg(o ORDER BY o) FROM unnest(a.attoptions) AS o WHERE o NOT LIKE 'pg\\_%%')"

# Everything that pg_dump would write of our own objects, in the order of its name and not of its creation.
CATALOG = {
    "columns": f"""
        SELECT c.relname, row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum), a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
          a.attstorage, a.attcompression, a.attstattarget, {OPTIONS}, pg_get_expr(d.adbin, d.adrelid)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE {OF_ONE_SCHEMA} AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'm', 'p')""",
    "relations": f"""
        SELECT c.relname, c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, c.reloptions, c.relreplident,
          (SELECT array_agg(x::text ORDER BY x::text) FROM unnest(c.relacl) AS x)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {OF_ONE_SCHEMA}
          AND c.relname NOT LIKE 'pgengram_version%%'""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype, condeferrable, convalidated, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> 0
          AND conrelid <> coalesce(to_regclass('pgengram_version'), 0)""",
    "indexes": """
        SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'pgengram_version'""",
    "policies": "SELECT * FROM pg_policies WHERE schemaname = 'public'",
    "functions": """
        SELECT pg_get_functiondef(p.oid), p.proacl::text FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')""",
    "triggers": "SELECT tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "types": """
        SELECT typname, typtype FROM pg_type t WHERE typnamespace = 'public'::regnamespace AND typtype IN ('d', 'e', 'r')
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = t.oid AND d.deptype = 'e')""",
    "statistics": "SELECT stxname, pg_get_statisticsobjdef(oid) FROM pg_statistic_ext",
    "extensions": "SELECT extname, extnamespace::regnamespace::text FROM pg_extension",
    "rights on the schema": """
        SELECT nspname, (SELECT array_agg(x::text ORDER BY x::text) FROM unnest(nspacl) AS x) FROM pg_namespace
        WHERE nspname = 'public'""",
    "rates": "SELECT rate_per_day FROM decay_classes",
}


@pytest.fixture(scope="module")
def migrated(postgres: str, template: str) -> Iterator[Database]:
    with database_of(postgres, template) as database:
        database.keep()
        yield database


@pytest.fixture(scope="module")
def declared(postgres: str) -> Iterator[Database]:
    """A database made from the tables alone."""
    with database_of(postgres) as database:
        engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database.url))
        metadata.create_all(engine)
        engine.dispose()
        yield database


def catalog(database: Database, what: str) -> list[str]:
    return sorted(map(str, database.as_login(CATALOG[what].replace("%%", "%"))))


@pytest.mark.shows(44)
@pytest.mark.parametrize("what", CATALOG)
def test_the_migrations_lead_to_the_schema_that_the_tables_declare(
    migrated: Database, declared: Database, what: str
) -> None:
    assert catalog(migrated, what) == catalog(declared, what)


def test_the_comparison_sees_what_it_compares(migrated: Database) -> None:
    assert {what for what in CATALOG if not catalog(migrated, what)} <= {"triggers", "types", "statistics"}
    assert len(catalog(migrated, "columns")) > 80
    assert any("halfvec" in row for row in catalog(migrated, "columns"))


def test_the_schema_head_is_the_newest_migration(migrated: Database) -> None:
    folder = migrate.migrations_folder() / "versions"
    text = "\n".join(file.read_text(encoding="utf-8") for file in folder.glob("*.py"))
    revisions = set(re.findall(r'^revision = "(\w+)"', text, re.MULTILINE))
    followed = set(re.findall(r'^down_revision = "(\w+)"', text, re.MULTILINE))

    assert revisions - followed == {migrate.newest_version()}
    assert migrate.state(migrated.url).version == migrate.newest_version()


def test_the_migrations_are_found_from_where_the_package_lies() -> None:
    folder = migrate.migrations_folder()

    assert (folder / "env.py").is_file()
    assert (folder / "script.py.mako").is_file()


@pytest.mark.skipif(on_citus(), reason="On a cluster tables are dealt out by the migrations.")
def test_an_empty_database_becomes_at_once_what_the_migrations_lead_to(migrated: Database, blank: Database) -> None:
    migrate.make_new(blank.url)

    assert migrate.state(blank.url).version == migrate.newest_version(), "run `python tests/store/write_schema.py`"
    for what in CATALOG:
        assert catalog(blank, what) == catalog(migrated, what), (
            f"{what} differ; run `python tests/store/write_schema.py`"
        )


def test_migrating_twice_changes_nothing(blank: Database) -> None:
    first = migrate.migrate(blank.url)
    before = {what: catalog(blank, what) for what in CATALOG}

    assert first is None
    assert migrate.migrate(blank.url) == migrate.newest_version()
    assert {what: catalog(blank, what) for what in CATALOG} == before


@pytest.mark.shows(44)
def test_a_store_of_a_newer_version_is_left_alone(blank: Database) -> None:
    from pgengram.errors import NotReady

    migrate.migrate(blank.url)
    blank.as_login("UPDATE pgengram_version SET version_num = '9999'")

    with pytest.raises(NotReady, match="newer"):
        migrate.migrate(blank.url)

    assert blank.as_login("SELECT version_num FROM pgengram_version") == [("9999",)]


@pytest.mark.shows(44)
def test_a_migration_that_fails_leaves_nothing_behind(blank: Database) -> None:
    from pgengram.errors import NotReady

    blank.as_login("CREATE TABLE memory_tags (in_the_way integer)")

    with pytest.raises(NotReady):
        migrate.migrate(blank.url)

    tables = blank.as_login("SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename LIKE 'memor%'")
    assert tables == [("memory_tags",)]
    blank.as_login("DROP TABLE memory_tags")
    assert migrate.migrate(blank.url) is None


def test_only_the_vector_extension_is_required(migrated: Database) -> None:
    assert migrated.as_login("SELECT extname FROM pg_extension ORDER BY 1") == [("plpgsql",), ("vector",)]


def test_no_dimension_of_a_vector_is_written_into_the_schema(migrated: Database) -> None:
    [(type_, storage)] = migrated.as_login(
        """SELECT format_type(atttypid, atttypmod), attstorage FROM pg_attribute
           WHERE attrelid = 'memory_vectors'::regclass AND attname = 'embedding'"""
    )

    assert type_ == "halfvec"
    assert storage in ("p", b"p")


@pytest.mark.shows(3)
async def test_the_dimension_in_the_store_is_the_models(migrated: Database) -> None:
    embedder = embedder_from("builtin:")
    assert embedder is not None
    dimensions = await embedder.dimensions()

    assert dimensions == 384
    assert str(dimensions) not in " ".join(catalog(migrated, "columns") + catalog(migrated, "constraints"))


def test_no_vector_index_stands_on_an_empty_table(migrated: Database) -> None:
    assert not [row for row in catalog(migrated, "indexes") if "ivfflat" in row or "hnsw" in row]


KEYS = """
    SELECT c.relname, con.conname, con.contype,
      ARRAY(SELECT a.attname FROM unnest(con.conkey) WITH ORDINALITY AS k(attnum, place)
            JOIN pg_attribute a ON a.attrelid = con.conrelid AND a.attnum = k.attnum ORDER BY place)::text[],
      con.confrelid::regclass::text
    FROM pg_constraint con JOIN pg_class c ON c.oid = con.conrelid WHERE con.contype IN ('p', 'u', 'f')"""


def test_the_namespace_comes_first_in_every_key_of_owned_tables(migrated: Database) -> None:
    lookups = {table.name for table in LOOKUPS}
    keys = [key for key in migrated.as_login(KEYS) if key[0] in OWNED_NAMES]

    assert {key[0] for key in keys if key[2] in ("p", b"p")} == set(OWNED_NAMES)
    for table, name, _, columns, target in keys:
        assert columns[0] == "namespace_id" or target in lookups, f"{name} of {table}"


def test_the_namespace_comes_first_in_every_index_of_owned_tables(migrated: Database) -> None:
    for table, name, definition in migrated.as_login(CATALOG["indexes"]):
        if table in OWNED_NAMES:
            assert "(namespace_id" in definition, name


OF_NO_MEMORY = {
    "memories", "memory_tag_synonyms", "memory_confirmations", "memory_clusters", "memory_cluster_activations",
    "memory_identities", "memory_beliefs", "conversations", "conversation_turns", "hidden_turns",
    "conversation_settings", "sync_settings", "sync_changes", "sync_documents", "sync_files",
    "project_spaces", "memory_imports", "imported_turns",
}  # fmt: skip


@pytest.mark.parametrize("table", [name for name in OWNED_NAMES if name not in OF_NO_MEMORY])
def test_what_belongs_to_a_memory_goes_with_it_or_outlives_it_on_purpose(migrated: Database, table: str) -> None:
    outlive = {"memory_history", "memory_posting_lists"}  # removed by the statement that erases
    actions = migrated.as_login(
        f"""SELECT confdeltype FROM pg_constraint WHERE contype = 'f' AND conrelid = '{table}'::regclass
            AND confrelid = 'memories'::regclass"""
    )

    if table not in outlive:
        assert {str(action[0]).strip("b'") for action in actions} == {"c"}


@pytest.mark.parametrize("type_", TYPES)
def test_the_detail_goes_when_the_memory_is_erased(database: Database, type_: str) -> None:
    database.as_login("INSERT INTO namespaces (name) VALUES ('default')")
    key = "current_setting('pgengram.namespace_id')::integer"
    database.rows(
        f"""WITH made AS (INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from)
              VALUES ({key}, %s, %s, 'x', '', now()) RETURNING *)
            INSERT INTO {type_}_memories (namespace_id, memory_id) SELECT namespace_id, id FROM made""",
        [uuid4(), type_],
    )

    database.rows("DELETE FROM memories")

    assert database.value(f"SELECT count(*) FROM {type_}_memories") == 0


def test_every_rate_that_code_knows_has_its_class(migrated: Database) -> None:
    rates = {rate for (rate,) in migrated.as_login("SELECT rate_per_day FROM decay_classes")}

    assert rates == {0, *RATE_PER_DAY_OF_KIND.values(), *RATE_PER_DAY_OF_TYPE.values()}


BAD_ROWS = {
    "unknown type": ("memories", "type", "'emotional'"),
    "unknown kind": ("memories", "kind", "'rumour'"),
    "unknown status": ("memories", "status", "'deleted'"),
    "empty content": ("memories", "content", "''"),
    "long content": ("memories", "content", "repeat('x', 16001)"),
    "confidence above 1": ("memories", "confidence", "1.1"),
    "confidence that is no number": ("memories", "confidence", "'NaN'"),
    "valence below -1": ("episodic_memories", "emotional_valence", "-1.1"),
    "negative successes": ("procedural_memories", "success_count", "-1"),
    "more successes than attempts": ("procedural_memories", "success_count", "total_attempts + 1"),
    "importance above 1": ("memory_activation", "importance", "1.1"),
    "importance that is no number": ("memory_activation", "importance", "'NaN'"),
    "a rate of one's own": ("memory_activation", "rate_per_day", "0.0042"),
    "a relevance of one's own": ("memory_activation", "relevance_anchor", "0"),
}


@pytest.mark.parametrize(("table", "column", "value"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_the_tables_themselves_refuse_what_cannot_be(filled: Database, table: str, column: str, value: str) -> None:
    with pytest.raises((psycopg.errors.IntegrityError, psycopg.errors.GeneratedAlways)):
        filled.rows(f"UPDATE {table} SET {column} = {value}")


@pytest.fixture(scope="module")
async def filled(postgres: str, template: str) -> object:
    """A database with one memory of each type."""
    from pgengram.inputs import NewMemory
    from pgengram.service.manager import MemoryManager
    from pgengram.settings import Settings

    with database_of(postgres, template) as database:
        manager = MemoryManager(Settings(database_url=database.url, embedder="none:"))
        for type_ in TYPES:
            await manager.create_memory(NewMemory.model_validate({"content": f"One {type_}.", "type": type_}))
        await manager.close()
        yield database


@pytest.mark.parametrize(("successes", "attempts", "rate"), [(0, 0, 0.0), (0, 4, 0.0), (1, 4, 0.25), (4, 4, 1.0)])
def test_the_success_rate_is_worked_out_by_the_table(
    filled: Database, successes: int, attempts: int, rate: float
) -> None:
    filled.rows("UPDATE procedural_memories SET success_count = %s, total_attempts = %s", [successes, attempts])

    assert filled.value("SELECT success_rate FROM procedural_memories") == rate


def test_the_application_role_can_neither_pass_the_wall_nor_log_in(migrated: Database) -> None:
    [role] = migrated.as_login(
        f"SELECT rolsuper, rolbypassrls, rolcanlogin, rolcreaterole FROM pg_roles WHERE rolname = '{APP_ROLE}'"
    )

    assert role == (False, False, False, False)
