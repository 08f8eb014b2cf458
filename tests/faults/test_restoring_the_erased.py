"""A backup that is older than an erasing does not bring back what was erased, as long as the store it came from is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from helpers import Database, call, connected, database_of, found, owned_tables, read, remember
from machine import answered, pgengram

CANARY = "xylophonquince"
GONE = "quincehall"  # a namespace


def rows_with(db: Database, text: str) -> list[str]:
    """Return the tables that hold a text in any column, whoever owns it."""
    tables = [*owned_tables(), "namespaces", "deletion_log", "access_tokens"]
    return [
        table
        for table in tables
        if db.as_login(f"SELECT count(*) FROM {table} AS t WHERE position('{text}' IN lower(t::text)) > 0") != [(0,)]
    ]


async def erase(client: Any, *ids: str) -> None:
    shown = await call(client, "forget_memories", ids=[*ids], hard=True)
    await call(client, "forget_memories", ids=[*ids], hard=True, confirm_token=shown["confirm_token"])


@pytest.fixture
def database(postgres: str, template: str) -> Iterator[Database]:
    with database_of(postgres, template, keeps=False) as made:
        yield made


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    return str(tmp_path / "early.backup"), str(tmp_path / "late.backup")


def restored(path: str, database: Database) -> dict[str, int]:
    """Restore a backup and return what of it was erased and revoked again."""
    again = answered("restore", path, "--yes", "--json", database_url=database.url)["again"]
    return {what: number for what, number in again.items() if number}


async def test_what_was_erased_or_revoked_since_the_backup_stays_so_and_the_rest_comes_back(
    database: Database, paths: tuple[str, str]
) -> None:
    early, late = paths
    url = {"database_url": database.url, "embedder": "none:"}
    async with connected(**url) as client:
        first = await remember(client, f"The {CANARY} stands in the hall.", tags=[CANARY], metadata={"note": CANARY})
        kept = await remember(client, "A piano stands in the hall.")
        await call(client, "link_memories", from_id=kept, to_ids=[first], type="near", properties={"why": CANARY})
        for namespace in (GONE, "ben"):
            pgengram("call", "create_memory", f"content=Told by {namespace}.", namespace=namespace, **url)
        token = answered("token", "create", "Mara's laptop", "--json", **url)
        pgengram("backup", early, **url)
        second = await remember(client, f"The second {CANARY} came later.")
        pgengram("erase-namespace", GONE, "--yes", **url)
        pgengram("call", "create_memory", "content=Somebody else.", namespace=GONE, **url)
        pgengram("token", "revoke", token["id"], **url)
        pgengram("backup", late, **url)
        await erase(client, first, second)
        await call(client, "forget_memories", ids=[kept], reason="By mistake.")

    assert restored(early, database) == {"memories": 1, "namespaces": 1, "tokens": 1}
    assert rows_with(database, CANARY) == rows_with(database, GONE) == []
    assert database.value("SELECT content FROM memories", namespace="ben") == "Told by ben."
    [listed] = answered("token", "list", "--json", **url)["tokens"]
    assert listed["revoked_at"]
    async with connected(**url) as client:
        assert await found(client, "what stands in the hall") == [kept]
        assert (await read(client, kept))["status"] == "active"

    assert restored(late, database) == {"memories": 2}, "the list went along with the first restore"
    assert rows_with(database, CANARY) == []
    assert database.value("SELECT count(*) FROM memories") == 1
    assert database.value("SELECT count(*) FROM memory_history WHERE operation = 'erase'") == 2
    assert database.value("SELECT content FROM memories", namespace=GONE) == "Somebody else.", "who took the name"


@pytest.mark.nightly
async def test_what_was_imported_again_after_it_was_erased_comes_back_with_a_restore(
    database: Database, tmp_path: Path, paths: tuple[str, str]
) -> None:
    url = {"database_url": database.url, "embedder": "none:"}
    export = str(tmp_path / "all.jsonl")
    async with connected(**url) as client:
        id_ = await remember(client, "Erased by mistake.")
        pgengram("export", export, **url)
        pgengram("backup", paths[0], **url)
        await erase(client, id_)
        pgengram("import", export, **url)
        pgengram("backup", paths[1], **url)

    for path in paths:
        assert restored(path, database) == {}
        assert database.value("SELECT id::text FROM memories") == id_

    async with connected(**url) as client:
        await erase(client, id_)
    assert restored(paths[1], database) == {"memories": 1}, "it was erased once more, after the backup"


def test_a_backup_is_restored_where_the_login_of_its_server_is_unknown(
    database: Database, blank: Database, paths: tuple[str, str]
) -> None:
    login = f"pgengram_elsewhere_{os.getpid()}"
    elsewhere = psycopg.conninfo.make_conninfo(blank.url, user=login)
    blank.as_login(f"CREATE ROLE {login} LOGIN SUPERUSER")
    try:
        pgengram("call", "create_memory", "content=From elsewhere.", database_url=elsewhere, embedder="none:")
        pgengram("backup", paths[0], database_url=elsewhere)
    finally:
        blank.as_login(f"REASSIGN OWNED BY {login} TO CURRENT_USER", f"DROP OWNED BY {login}", f"DROP ROLE {login}")

    assert restored(paths[0], database) == {}

    assert database.value("SELECT content FROM memories") == "From elsewhere."
    policies = database.as_login("SELECT policyname, roles = ARRAY[current_user] FROM pg_policies WHERE tablename = 'memory_vectors'")  # fmt: skip
    assert sorted(policies) == [("maintenance", True), ("one_namespace", False), ("removing", False)]
