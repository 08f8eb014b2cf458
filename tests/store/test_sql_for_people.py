"""What the page about SQL promises: each of its statements runs on a real store and shows what it says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from write_schema import comments

from helpers import Database, call, connected, database_of, found, on_citus, read, remember
from machine import pgengram
from pgengram.store.schema import migrate
from pgengram.store.schema.tables import OWNED

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "look-at-it-with-sql.md").read_text(encoding="utf-8")
STATEMENTS = [
    statement.strip()
    for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    for statement in block.split(";")
    if statement.strip()
]
pytestmark = pytest.mark.skipif(on_citus(), reason="A cluster has neither the view nor the trigger.")


@pytest.fixture(scope="module")
async def lived_in(postgres: str, template: str) -> AsyncIterator[Database]:
    """A store with something for every question of the page, and another namespace beside it."""
    with database_of(postgres, template) as db:
        async with connected(database_url=db.url, toolsets="all") as client:
            first = await remember(client, "Mara moved billing to Stripe.", tags=["work"], type="semantic")
            second = await remember(client, "To deploy, tag the commit.", tags=["work"], type="procedural")
            await call(client, "update_memory", id=second, outcome="success")
            await call(client, "link_memories", from_id=first, to_ids=[second], type="near")
            gone = await remember(client, "The gate is red.")
            await call(client, "forget_memories", ids=[gone], reason="It is green.")
        async with connected(database_url=db.url, namespace="ben", embedder="none:") as client:
            await remember(client, "Ben's own.", tags=["work"])
        yield db


@pytest.mark.parametrize("statement", STATEMENTS[1:], ids=lambda statement: " ".join(statement.split())[:50])
def test_every_statement_of_the_page_shows_something_of_one_namespace(lived_in: Database, statement: str) -> None:
    with psycopg.connect(lived_in.url) as connection:
        connection.execute(STATEMENTS[0].encode())
        connection.execute("SET ROLE pgengram_app")

        rows = connection.execute(statement.encode()).fetchall()

    assert rows
    assert "Ben" not in str(rows)


def test_the_statement_for_the_index_uses_it(lived_in: Database) -> None:
    statement = next(one for one in STATEMENTS if "halfvec(384)" in one)
    with psycopg.connect(lived_in.url) as connection:
        connection.execute(
            "CREATE INDEX memory_vectors_index_1 ON memory_vectors USING hnsw ((embedding::halfvec(384)) halfvec_cosine_ops)"
            " WHERE model_id = 1"
        )
        connection.execute("SET LOCAL enable_seqscan = off")
        connection.execute("SET LOCAL enable_sort = off")
        plan = str(connection.execute(f"EXPLAIN {statement}".encode()).fetchall())
        connection.rollback()

    assert "memory_vectors_index_1" in plan


def test_psql_shows_one_namespace_and_carries_an_error_out(lived_in: Database) -> None:
    asked = "SELECT string_agg(content, '; ') FROM memories_now"
    shown = pgengram("psql", asked, database_url=lived_in.url, namespace="ben", embedder="none:")
    assert "Ben's own." in shown.stdout
    assert "Mara" not in shown.stdout

    refused = pgengram("psql", "SELECT * FROM access_tokens", database_url=lived_in.url, embedder="none:", expect=1)
    assert "permission denied" in refused.stderr


def test_the_view_says_what_the_tools_say(lived_in: Database) -> None:
    rows = lived_in.rows("SELECT content, relevance, tags, detail FROM memories_now ORDER BY content")

    assert [row["content"] for row in rows] == ["Mara moved billing to Stripe.", "To deploy, tag the commit."]
    assert all(0 < row["relevance"] <= 1 and row["tags"] == ["work"] for row in rows)
    assert rows[1]["detail"]["success_rate"] == 1
    assert "memory_id" not in rows[1]["detail"]


async def test_a_text_is_changed_by_a_tool_and_not_behind_the_search(database: Database) -> None:
    async with connected(database_url=database.url) as client:
        id_ = await remember(client, "The gate is red.")
        with pytest.raises(psycopg.errors.RestrictViolation, match="not changed by UPDATE") as refused:
            database.rows("UPDATE memories SET content = 'The gate is green.'")
        assert f"update_memory id={id_[-8:]}" in str(refused.value.diag.message_hint)

        database.rows("UPDATE memories SET expires_at = now() + interval '1 day', confidence = 0.9")
        before = database.value("SELECT relevance FROM memories_now")
        database.rows("UPDATE memory_activation SET importance = importance / 2")
        assert database.value("SELECT relevance FROM memories_now") == pytest.approx(before / 2, rel=0.01)
        await call(client, "update_memory", id=id_, content="the gate is  red.")  # the same to the hash
        await call(client, "update_memory", id=id_, content="The fence is brown.")
        assert await found(client, "fence") == [id_]
        assert (await read(client, id_))["confidence"] == 0.9


# What only pgengram reads: its keys, and words and vectors by their numbers.
UNSAID = {"namespace_id", "memory_id"}


def test_every_table_and_column_that_somebody_meets_says_what_it_is(lived_in: Database) -> None:
    assert (migrate.migrations_folder() / migrate.COMMENTS).read_text(encoding="utf-8") == comments(), (
        "run `python tests/store/write_schema.py`"
    )
    tables = [table.name for table in OWNED] + ["memories_now", "namespaces", "embedding_models"]
    said = lived_in.as_login(
        """SELECT c.relname, a.attname, obj_description(c.oid, 'pg_class'), col_description(c.oid, a.attnum)
           FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
           WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v')"""
    )

    silent = [f"{table}.{column}" for table, column, about, meaning in said if table in tables and column not in UNSAID and not (about and meaning)]  # fmt: skip
    assert silent == []
