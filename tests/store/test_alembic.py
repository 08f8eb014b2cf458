"""Alembic from a checkout does what a developer expects, or says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from test_schema import CATALOG, catalog

from helpers import Database, database_of, on_citus
from pgengram.store.schema import migrate

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(on_citus(), reason="What is written down is for one machine.")


def alembic(*arguments: str, url: str = "", expect: int = 0) -> str:
    """Run alembic in the checkout and return what it printed; no traceback is ever an answer."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PGENGRAM_")}
    ended = subprocess.run(
        [sys.executable, "-m", "alembic", *arguments],
        env=variables | ({"PGENGRAM_DATABASE_URL": url} if url else {}),
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in ended.stderr, ended.stderr
    assert bool(ended.returncode) == bool(expect), ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_a_developer_upgrades_checks_and_cannot_go_back(blank: Database, postgres: str, template: str) -> None:
    url = blank.url.replace("postgresql://", "postgres://")
    alembic("upgrade", "head", url=url)

    with database_of(postgres, template) as migrated:
        for what in CATALOG:
            assert catalog(blank, what) == catalog(migrated, what), what
    assert migrate.newest_version() in alembic("current", url=url)
    assert "<base> -> 0001" in alembic("history")
    assert "No new upgrade operations detected" in alembic("check", url=url)
    assert "restore a backup" in alembic("downgrade", "-1", url=url, expect=1)
    assert migrate.state(blank.url).version == migrate.newest_version()
    blank.as_login("ALTER TABLE memory_tags ADD COLUMN colour text")
    assert "colour" in alembic("check", url=url, expect=1)


def test_the_statements_of_all_migrations_can_be_written_down_and_run(
    blank: Database, postgres: str, template: str
) -> None:
    script = alembic("upgrade", "head", "--sql")

    statements = script[script.index("BEGIN;") : script.rindex("COMMIT;") + len("COMMIT;")]
    with psycopg.connect(blank.url, autocommit=True) as connection:
        connection.execute(statements.encode())
    with database_of(postgres, template) as migrated:
        for what in CATALOG:
            assert catalog(blank, what) == catalog(migrated, what), what


def test_what_is_missing_is_said_in_one_sentence(blank: Database) -> None:
    assert "PGENGRAM_DATABASE_URL is not set" in alembic("upgrade", "head", expect=1)
    assert "cannot be used" in alembic("current", url="postgresql://nobody@127.0.0.1:9/nowhere", expect=1)
    blank.as_login("CREATE TABLE memories (id integer)")
    assert "of another program" in alembic("upgrade", "head", url=blank.url, expect=1)
    assert blank.as_login("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(1,)]
    blank.as_login("ALTER TABLE memories ADD COLUMN content_hash bytea, ADD COLUMN voice text")
    assert "from before the first release" in alembic("upgrade", "head", url=blank.url, expect=1)
