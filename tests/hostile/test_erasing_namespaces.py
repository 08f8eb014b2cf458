"""Erasing to the last byte: a namespace or a memory is in no table, no index and no file afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from mcp import Client

from helpers import Database, call, connected, database_of, found, owned_tables, refused, remember
from machine import answered, closed_in_the_end, copied, pgengram
from pgengram.postgres import start_embedded
from pgengram.settings import Settings
from pgengram.store.maintenance import namespaces
from pgengram.store.store import Store

CANARY = "xylophonquince"
OTHER = "marimbapomelo"
SMALL = 30_000  # bytes; a text of random-looking words that is too long for a page and goes to the side table


@pytest.fixture
def folder(tmp_path: Path, prepared: Path) -> Iterator[Path]:
    """A data folder of the test's own, and nothing running in it afterwards."""
    with closed_in_the_end(tmp_path / "store") as made:
        copied(prepared, made)
        yield made


def files_holding(folder: Path, text: str) -> list[str]:
    """Return the files below a folder in which `text` stands as it is."""
    return sorted(
        str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and text.encode() in p.read_bytes()
    )


async def fill(client: Client, word: str) -> str:
    """Leave a word in every table that holds text, and return the id of a memory."""
    id_ = await remember(client, f"The {word} stands in the hall.", tags=[word], metadata={"note": word}, source=word,
                         session_id=word, user=word, project=word, idempotency_key=word, sources=[{"label": word}])  # fmt: skip
    others = [await remember(client, f"{word} number {n} " + f"{n * 7919:x} " * 300) for n in range(3)]
    await call(client, "update_memory", id=id_, content=f"The red {word} stands in the hall.")
    await call(client, "forget_memories", ids=others[:1], reason=f"The {word} was sold.")
    await call(client, "link_memories", from_id=id_, to_ids=others[1:], type="near", properties={"why": word})
    await call(client, "create_memory_cluster", name=word, keywords=[word], memory_ids=[id_])
    await call(client, "create_working_memory", content=f"Tune the {word}.", context={"for": word})
    await call(client, "record_identity", self_concept=f"Keeper of the {word}.")
    await call(client, "record_belief", belief=f"The {word} is out of tune.", supported_by=[id_], details={"why": word})
    await call(client, "tidy_memories", action="synonyms", synonyms={f"{word}-alias": word})
    await call(client, "tidy_memories", action="apply", plan=[{"action": "forget", "ids": [id_], "reason": word}])
    return id_


def rows_with(db: Database, text: str, namespace: str) -> dict[str, int]:
    counts = {
        table: db.value(f"SELECT count(*) FROM {table} AS t WHERE position(%s IN lower(t::text)) > 0", [text], namespace=namespace)
        for table in owned_tables()
    }  # fmt: skip
    return {table: count for table, count in counts.items() if count}


@pytest.mark.shows(27)
async def test_an_erased_namespace_is_in_no_file_and_the_others_are_untouched(folder: Path) -> None:
    settings = {"data_dir": str(folder), "toolsets": "all", "embedder": "none:"}
    async with connected(**settings, namespace="ada") as ada, connected(**settings, namespace="ben") as ben:
        await fill(ada, CANARY)
        his = await fill(ben, OTHER)
    server = start_embedded(folder)
    try:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ANALYZE")
            connection.execute("CHECKPOINT")
        assert any("pg_wal" in file for file in files_holding(folder, CANARY))
        assert any("/base/" in file for file in files_holding(folder, CANARY))

        receipt = answered("erase-namespace", "ada", "--yes", "--json", data_dir=str(folder))

        assert files_holding(folder, CANARY) == []
        assert receipt["namespace"] == "ada"
        assert receipt["removed"]["memories"] == 5
        assert {"memory_history", "memory_tags", "memory_beliefs", "memory_identities", "memory_clusters", "working_memories",
                "memory_relationships", "memory_tag_synonyms", "memory_confirmations"} <= receipt["removed"].keys()  # fmt: skip
        assert CANARY not in json.dumps(receipt)
        assert [file for file in files_holding(folder, OTHER) if "/base/" in file]
    finally:
        server.stop()
    async with connected(**settings, namespace="ben") as ben:
        assert his in await found(ben, f"{OTHER} hall")
        assert len((await call(ben, "get_worldview"))["beliefs"]) == 1


async def test_an_erased_memory_is_in_no_file_after_a_scrub(folder: Path) -> None:
    async with connected(data_dir=str(folder), embedder="none:") as client:
        id_ = await remember(client, f"The {CANARY} stands in the hall.", tags=[CANARY], metadata={"note": CANARY})
        long = await remember(client, " ".join(f"{CANARY}{n * 7919:x}" for n in range(600)))
        kept = await remember(client, "A piano stands in the hall.")
        for _ in range(3):
            await call(client, "update_memory", id=id_, content=f"The {CANARY}{_} stands there.")
        shown = await call(client, "forget_memories", ids=[id_, long], hard=True)
        await call(client, "forget_memories", ids=[id_, long], hard=True, confirm_token=shown["confirm_token"])
        assert files_holding(folder, CANARY)

        answer = answered("scrub", "--json", data_dir=str(folder))

        assert files_holding(folder, CANARY) == []
        assert answer["tables"] >= len(owned_tables())
        assert await found(client, "piano") == [kept]


async def test_a_log_that_the_server_goes_on_recycling_is_named_as_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reported(message: str) -> None:
        assert message

    async with connected(data_dir=str(folder), embedder="none:") as client:
        await remember(client, f"The {CANARY} stands in the hall.")
    store = Store(Settings(data_dir=str(folder), embedder="none:"))
    await store.open()
    try:
        cleared = await namespaces.scrub_files(store.database, reported)
        monkeypatch.setattr(namespaces, "MOST_ROUNDS", 0)  # as where the server does not heed the setting
        in_vain = await namespaces.scrub_files(store.database, reported)
    finally:
        await store.close()

    assert not any("wal_recycle" in one for one in cleared.left)
    assert any("`wal_recycle = off`" in one for one in in_vain.left)


def test_nothing_is_erased_unless_the_name_is_typed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    pgengram("call", "create_memory", "content=Stays.", database_url=database.url, namespace="ada", embedder="none:")
    url = {"database_url": database.url}

    shown = answered("erase-namespace", "ada", "--json", expect=1, **url)
    refused_ = pgengram("erase-namespace", "ada", expect=2, **url)

    assert shown == {"namespace": "ada", "would_remove": shown["would_remove"], "other_machines": False}
    assert shown["would_remove"]["memories"] == 1
    assert "memories" in refused_.stdout
    assert "Use --yes" in refused_.stderr
    assert database.value("SELECT count(*) FROM memories", namespace="ada") == 1
    assert "no namespace" in pgengram("erase-namespace", "Ada", "--yes", expect=2, **url).stderr


async def test_every_row_of_a_namespace_goes_whatever_table_it_is_in(postgres: str, template: str) -> None:
    with database_of(postgres, template) as db:
        settings: dict[str, Any] = {"database_url": db.url, "toolsets": "all"}
        async with connected(**settings, namespace="ada") as ada, connected(**settings, namespace="ben") as ben:
            await fill(ada, CANARY)
            await fill(ben, OTHER)
            db.keep()
            before = {
                table: db.rows(f"SELECT * FROM {table} ORDER BY 1, 2, 3", namespace="ben") for table in owned_tables()
            }
            key = db.value("SELECT id FROM namespaces WHERE name = 'ada'", namespace=None, role="none")

            receipt = answered("erase-namespace", "ada", "--yes", "--json", database_url=db.url)

            assert sum(receipt["removed"].values()) > 50
            as_nobody = "SELECT set_config('pgengram.namespace_id', %s, true)"
            with psycopg.connect(db.url) as connection:
                connection.execute(as_nobody, [str(key)])
                for table in owned_tables():
                    assert connection.execute(
                        f"SELECT count(*) FROM {table} WHERE namespace_id = {key}"
                    ).fetchone() == (0,)
                assert connection.execute("SELECT count(*) FROM namespaces WHERE name = 'ada'").fetchone() == (0,)
            assert rows_with(db, CANARY, "ben") == {}
            assert {
                table: db.rows(f"SELECT * FROM {table} ORDER BY 1, 2, 3", namespace="ben") for table in owned_tables()
            } == before

            error = await refused(ada, "create_memory", content="Who comes after.")
            assert "erased" in error["message"]
            assert (await refused(ada, "tidy_memories", action="synonyms", synonyms={"one": "other"}))[
                "code"
            ] == "DATABASE_ERROR"
            assert await found(ben, f"{OTHER} hall")
        async with connected(**settings, namespace="ada") as anew:
            assert await found(anew, CANARY) == []
            await remember(anew, "Who comes after.")
