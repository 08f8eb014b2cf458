"""Databases that others use, schemas other than public, pgvector anywhere: a store works there, or nothing is made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from helpers import connected, diagonal, found, remember
from machine import answered, pgengram
from owners import Owned, alone_with_roles, owned
from pgengram.store.schema import migrate

# Everything that a migration could leave in a database, whoever owns it.
EVERYTHING = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
UNION ALL SELECT n.nspname, p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' ORDER BY 1, 2
"""
FOREIGN_VERSION = (
    "CREATE TABLE alembic_version (version_num varchar(32) CONSTRAINT alembic_version_pkc PRIMARY KEY)",
    "INSERT INTO alembic_version VALUES ('{}')",
)
OWN = "CREATE SCHEMA {login} AUTHORIZATION {login}"
ELSEWHERE = "CREATE SCHEMA extensions; CREATE EXTENSION vector SCHEMA extensions"


@pytest.fixture(autouse=True)
def no_other_grants(postgres: str) -> Iterator[None]:
    with alone_with_roles(postgres):
        yield


async def expect_a_working_store(made: Owned, url: str) -> None:
    async with connected(database_url=url) as client:
        id_ = await remember(client, "The gate is green.", tags=["garden"])
        assert await found(client, "Which colour has the gate?") == [id_]
    rows = answered("doctor", "--json", database_url=url)
    assert all(row["ok"] for row in rows), rows


def expect_refusal(made: Owned, *says: str, url: str = "") -> None:
    before = made.admin.as_login(EVERYTHING)

    ended = pgengram("migrate", database_url=url or made.url, embedder="none:", expect=1)

    for words in says:
        assert words.format(login=made.login) in " ".join(ended.stderr.split())
    assert made.admin.as_login(EVERYTHING) == before


@pytest.mark.parametrize(
    ("table", "sort"),
    diagonal(["memories", "conversations", "memory_tags"], ["TABLE {} (id integer)", "VIEW {} AS SELECT 1 AS id"]),
)
def test_a_database_with_a_table_of_that_name_is_refused_and_nothing_is_left(
    postgres: str, table: str, sort: str
) -> None:
    with owned(postgres, f"CREATE {sort.format(table)}") as made:
        expect_refusal(made, f"of another program that is called as pgengram's: {table}.", "CREATE DATABASE memo OWNER")


@pytest.mark.parametrize("version", ["a1b2c3d4e5f6", "0001"])
async def test_another_programs_alembic_and_ours_do_not_know_each_other(postgres: str, version: str) -> None:
    with owned(postgres) as made:
        made.db.as_login("CREATE TABLE orders (id integer)", *(one.format(version) for one in FOREIGN_VERSION))

        async with connected(database_url=made.url, embedder="none:") as client:
            await remember(client, "Beside others.")

        assert made.db.as_login("SELECT version_num FROM alembic_version") == [(version,)]
        assert migrate.state(made.url).version == migrate.newest_version()


def test_a_database_that_takes_no_writes_says_so(postgres: str) -> None:
    with owned(postgres) as made:
        name = made.admin.name
        made.admin.as_login(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        made.admin.close()
        expect_refusal(made, f"The database {name} is read-only", "SET default_transaction_read_only = off")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_text_is_refused(postgres: str, encoding: str) -> None:
    with owned(postgres) as made:
        # as if CREATE DATABASE had said so, which needs an untouched template
        made.admin.as_login(
            f"""UPDATE pg_database SET encoding = pg_char_to_encoding('{encoding}'), datlocprovider = 'c', datcollate = 'C', datctype = 'C'
                WHERE datname = '{made.admin.name}'"""
        )
        made.admin.close()
        expect_refusal(made, f"has the encoding {encoding}", "ENCODING 'UTF8'")


TELLING = ("a schema of an odd name", "both")  # of the places, in every run
PLACES = {
    "a schema called as the login": ((OWN,), "CREATE EXTENSION vector", ""),
    "a schema in the URL": (("CREATE SCHEMA mem AUTHORIZATION {login}",), "CREATE EXTENSION vector", "-csearch_path=mem,public"),
    "a schema of an odd name": (('CREATE SCHEMA "My Memory" AUTHORIZATION {login}',), "CREATE EXTENSION vector", '-csearch_path="My\\ Memory",public'),
    "pgvector in a schema of its own": (("GRANT USAGE ON SCHEMA extensions TO PUBLIC",), ELSEWHERE, ""),
    "both": ((OWN, "GRANT USAGE ON SCHEMA extensions TO {login}, pgengram_app"), ELSEWHERE, ""),
    "a search path of the login": (("GRANT USAGE ON SCHEMA extensions TO PUBLIC", "ALTER ROLE {login} SET search_path = public, extensions"), ELSEWHERE, ""),
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "vector", "options"),
    [pytest.param(*one, marks=[] if name in TELLING else pytest.mark.nightly) for name, one in PLACES.items()],
    ids=PLACES.keys(),
)
async def test_a_store_works_in_any_schema_with_pgvector_in_any(
    postgres: str, tmp_path: Path, before: tuple[str, ...], vector: str, options: str
) -> None:
    with owned(postgres, *before, vector=vector) as made:
        url = make_conninfo(made.url, options=options) if options else made.url

        await expect_a_working_store(made, url)

        answer = answered("backup", str(tmp_path / "one.backup"), "--json", database_url=url)
        assert answer["tables"]["memories"]["rows"] == 1
        if options or "called as" in str(before):
            assert made.admin.as_login("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = 'memories'") == [(0,)]  # fmt: skip


async def test_a_store_is_found_again_when_a_schema_comes_before_it(postgres: str) -> None:
    with owned(postgres) as made:
        async with connected(database_url=made.url, embedder="none:") as client:
            id_ = await remember(client, "Here first.")
        made.admin.as_login(OWN.format(login=made.login))

        async with connected(database_url=made.url, embedder="none:") as client:
            assert await found(client, "first") == [id_]


@pytest.mark.parametrize(
    ("before", "vector", "says"),
    [
        ((), ELSEWHERE, ("pgvector is in the schema extensions", "GRANT USAGE ON SCHEMA extensions TO {login}, pgengram_app;")),
        (("GRANT USAGE ON SCHEMA extensions TO {login}",), ELSEWHERE, ("The role pgengram_app may not use the schema extensions", "GRANT USAGE ON SCHEMA extensions TO pgengram_app;")),
        (("REVOKE CREATE ON SCHEMA public FROM pg_database_owner",), "CREATE EXTENSION vector", ("may not make tables in the schema public",)),
        (("ALTER ROLE {login} SET search_path = nowhere",), "CREATE EXTENSION vector", ("no schema to make tables in", "CREATE SCHEMA {login}")),
    ],
    ids=["pgvector is shut", "pgvector is shut to the role", "public is shut", "no schema"],
)  # fmt: skip
def test_what_an_administrator_has_to_do_is_said_before_anything_is_made(
    postgres: str, before: tuple[str, ...], vector: str, says: tuple[str, ...]
) -> None:
    with owned(postgres, *before, vector=vector) as made:
        expect_refusal(made, *says)


def test_a_login_that_may_not_make_pgvector_is_told_who_may(postgres: str) -> None:
    with owned(postgres, vector="") as made:
        if made.admin.as_login("SELECT bool_or(trusted) FROM pg_available_extension_versions WHERE name = 'vector'") == [(True,)]:  # fmt: skip
            pytest.skip("this pgvector may be made by every owner")
        expect_refusal(made, "may not make the extension vector", "CREATE EXTENSION vector;")
