"""Nobody but the owner and the application reaches anything, whatever is given away by default."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from helpers import Database, connected, found, remember
from owners import Owned, a_login, alone_with_roles, as_user, owned
from pgengram.store.schema import migrate
from pgengram.store.schema.rights import VERSION_TABLE
from pgengram.store.schema.tables import metadata

TABLES = [*metadata.tables, VERSION_TABLE]
OPEN_TO_ALL = (
    "GRANT USAGE ON SCHEMA public TO {other}, PUBLIC",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO {other}, PUBLIC",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON SEQUENCES TO {other}",
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {other} WITH GRANT OPTION",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON FUNCTIONS TO {other}",
)
SECRET = """INSERT INTO access_tokens (id, secret_hash, name, namespace, scope)
  VALUES ('aaaabbbbcccc', '\\x00', 'x', 'default', 'read-write')"""
# Everything in the schema that is no extension's, and whoever may do anything with it.
REACHABLE = """
WITH made AS (
  SELECT oid, relowner AS owner, relacl AS acl FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
  UNION ALL
  SELECT oid, proowner, coalesce(proacl, acldefault('f', proowner)) FROM pg_proc WHERE pronamespace = 'public'::regnamespace)
SELECT DISTINCT a.grantee::regrole::text FROM made m, aclexplode(m.acl) a
WHERE a.grantee <> m.owner AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = m.oid AND d.deptype = 'e')
"""


@pytest.fixture(autouse=True)
def no_other_grants(postgres: str) -> Iterator[None]:
    with alone_with_roles(postgres):
        yield


@pytest.fixture
def other(postgres: str) -> Iterator[str]:
    """A role that the login's defaults let into everything, as a hosting service's public key."""
    with a_login(postgres) as name:
        yield name


@pytest.fixture
def hosted(postgres: str, other: str) -> Iterator[Owned]:
    """A database without a store, whose owner gives everything away."""
    with owned(postgres) as made:
        made.db.as_login(*(statement.format(other=other) for statement in OPEN_TO_ALL))
        yield made


def expect_shut(hosted: Owned, other: str) -> None:
    stranger = Database(as_user(hosted.url, other))
    for table in TABLES:
        for statement in (f"SELECT * FROM {table}", f"DELETE FROM {table}", f"INSERT INTO {table} DEFAULT VALUES"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
                stranger.as_login(statement)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stranger.as_login(SECRET)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stranger.as_login("SELECT pgengram_turn_terms('x')")
    assert hosted.admin.as_login(REACHABLE) == [("pgengram_app",)]
    assert hosted.admin.as_login("SELECT proname FROM pg_proc WHERE prosecdef AND proname LIKE 'pgengram%'") == [
        ("pgengram_may_as_member",)
    ]


async def test_a_new_store_is_shut_to_whom_the_login_gives_everything_by_default(hosted: Owned, other: str) -> None:
    async with connected(database_url=hosted.url, embedder="none:") as client:
        id_ = await remember(client, "The gate is green.")
        assert await found(client, "gate") == [id_]

    expect_shut(hosted, other)
    hosted.db.as_login("CREATE TABLE made_later (id integer)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        Database(as_user(hosted.url, other)).as_login("SELECT * FROM made_later")


async def test_a_store_that_was_open_is_shut_by_the_migration_with_all_its_rows(hosted: Owned, other: str) -> None:
    async with connected(database_url=hosted.url, embedder="none:") as client:
        await remember(client, "Jonas is allergic to peanuts.")
    hosted.db.as_login(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {other}")
    for table in ("access_tokens", "client_rates", VERSION_TABLE):
        assert Database(as_user(hosted.url, other)).as_login(f"SELECT count(*) FROM {table}") is not None

    migrate.migrate(hosted.url)

    expect_shut(hosted, other)
    async with connected(database_url=hosted.url, embedder="none:") as client:
        assert await found(client, "peanuts")


async def test_a_right_that_is_given_later_opens_no_table_without_a_namespace(hosted: Owned, other: str) -> None:
    migrate.make_new(hosted.url)
    hosted.db.as_login(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {other}")
    stranger = Database(as_user(hosted.url, other))

    for table in ("access_tokens", "namespaces", "client_rates", "deletion_log"):
        assert stranger.as_login(f"SELECT * FROM {table}") == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        stranger.as_login(SECRET)

    migrate.migrate(hosted.url)

    expect_shut(hosted, other)


async def test_the_owners_own_view_of_all_namespaces_follows_the_owner(postgres: str, hosted: Owned) -> None:
    migrate.make_new(hosted.url)
    count = "SELECT count(*) FROM pg_policies WHERE policyname = 'maintenance' AND roles <> ARRAY['{}'::name]"
    with a_login(postgres) as next_owner:
        hosted.admin.as_login(
            f"GRANT pgengram_app TO {next_owner}", f"REASSIGN OWNED BY {hosted.login} TO {next_owner}"
        )
        url = as_user(hosted.url, next_owner)
        assert hosted.admin.as_login(count.format(next_owner)) != [(0,)]

        async with connected(database_url=url, embedder="none:") as client:
            await remember(client, "One.")

        assert hosted.admin.as_login(count.format(next_owner)) == [(0,)]
        assert Database(url).as_login("SET pgengram.maintenance = 'on'", "SELECT count(*) FROM memories") == [(1,)]
        assert Database(url).as_login("SELECT count(*) FROM memories") == [(0,)]
        hosted.admin.as_login(f"REASSIGN OWNED BY {next_owner} TO {hosted.login}", f"DROP OWNED BY {next_owner}")


async def test_the_doctor_names_every_role_that_reaches_a_table_and_how(
    hosted: Owned, other: str, postgres: str
) -> None:
    from machine import answered

    def rights(expect: int = 0) -> dict[str, object]:
        rows = answered("doctor", "--json", database_url=hosted.url, embedder="none:", expect=expect)
        return next(row for row in rows if row["what"] == "Rights")

    assert rights()["ok"] is True
    with a_login(postgres) as member, a_login(postgres) as sibling:
        hosted.db.as_login(f"GRANT SELECT (content) ON memories TO {other}")
        hosted.admin.as_login(f"GRANT {other} TO {member}", f"GRANT pgengram_app TO {sibling}")

        found = rights(expect=1)

        assert found["ok"] is False
        for role in (other, member):
            assert f"{role} has rights on memories" in str(found["seen"])
        assert f"{sibling} may take the role pgengram_app" in str(found["seen"])
        assert "pgengram migrate" in str(found["repair"])
        hosted.db.as_login("GRANT SELECT ON access_tokens TO PUBLIC")
        assert "everybody has rights on access_tokens" in str(rights(expect=1)["seen"])

        answered("migrate", "--json", database_url=hosted.url)
        hosted.admin.as_login(f"REVOKE pgengram_app FROM {sibling}", f"GRANT CREATE ON SCHEMA public TO {other}")
        found = rights(expect=1)
        assert f"{other} may create functions in the schema public" in str(found["seen"])
        assert f"REVOKE CREATE ON SCHEMA public FROM {other};" in str(found["repair"])
        hosted.admin.as_login("GRANT CREATE ON SCHEMA public TO PUBLIC", f"REVOKE CREATE ON SCHEMA public FROM {other}")
        assert "PUBLIC may create functions" in str(rights(expect=1)["seen"])
        hosted.admin.as_login("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        assert rights()["ok"] is True
