"""Every store that a release has made is brought up to date with all its rows."""

from __future__ import annotations

import psycopg
import pytest
from dump_release import RELEASES, TEXTS
from test_schema import CATALOG, catalog

from helpers import Database, call, connected, database_of, hits, nightly
from pgengram.store.schema import migrate
from pgengram.store.schema.rights import ROLE
from pgengram.store.schema.tables import metadata

DUMPS = sorted(path.stem for path in RELEASES.glob("*.sql"))
MAKE_ONE = "run `python tests/store/dump_release.py`"


def loaded(database: Database, release: str) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        for statement in (*ROLE, (RELEASES / f"{release}.sql").read_text(encoding="utf-8")):
            connection.execute(statement.encode())


def counts(database: Database, tables: list[str]) -> dict[str, int]:
    return {table: database.as_login(f"SELECT count(*) FROM {table}")[0][0] for table in tables}


def test_every_migration_has_a_dump_of_the_store_that_it_makes() -> None:
    assert set(DUMPS) == migrate.known_versions(), MAKE_ONE


@pytest.mark.parametrize("release", [DUMPS[0], *nightly(*DUMPS[1:-1]), DUMPS[-1]])  # the oldest takes every step
async def test_the_store_of_a_release_is_brought_up_to_date_with_all_its_rows(
    blank: Database, postgres: str, template: str, release: str
) -> None:
    loaded(blank, release)
    tables = [name for (name,) in blank.as_login("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    before = counts(blank, tables)

    assert migrate.migrate(blank.url) == release

    assert migrate.current_version(blank.url) == migrate.newest_version()
    assert counts(blank, [table for table in tables if table in metadata.tables]) == {
        table: rows for table, rows in before.items() if table in metadata.tables
    }
    async with connected(database_url=blank.url, embedder="none:") as client:
        for text in TEXTS.values():
            [hit, *_] = await hits(client, text)
            assert hit["content"] == text
            [memory] = (await call(client, "get_memories", ids=[hit["id"]], include=["history"]))["memories"]
            assert memory["tags"] == ["work"]
            assert memory["history"]
    with database_of(postgres, template) as fresh:
        for what in CATALOG:
            assert catalog(blank, what) == catalog(fresh, what), f"{what} differ; until its release, {MAKE_ONE}"


def test_no_table_of_a_dump_is_empty(blank: Database) -> None:
    loaded(blank, migrate.newest_version())

    kept = [name for name, table in metadata.tables.items() if "UNLOGGED" not in table._prefixes]
    assert [table for table, rows in counts(blank, kept).items() if not rows] == []
