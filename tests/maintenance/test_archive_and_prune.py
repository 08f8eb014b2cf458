"""Archiving and pruning: first shown, then done with the token, never to what is pinned."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from helpers import Answer, Database, call, found, hits, read, refused, remember


async def tidy(client: Client, action: str, **arguments: Any) -> Answer:
    return await call(client, "tidy_memories", action=action, **arguments)


async def old(client: Client, db: Database, content: str, days: int, accesses: int = 0, **more: Any) -> str:
    """Store a memory as if it had been stored `days` ago and read so many times since."""
    id_ = await remember(client, content, **more)
    db.rows("UPDATE memories SET created_at = now() - make_interval(days => %s) WHERE id = %s", [days, id_])
    db.rows("UPDATE memory_activation SET access_count = %s WHERE memory_id = %s", [accesses, id_])
    return id_


def status(db: Database) -> dict[str, str]:
    return {str(row["id"]): row["status"] for row in db.rows("SELECT id, status FROM memories")}


@pytest.mark.shows(34)
async def test_archiving_takes_what_is_old_unimportant_and_hardly_read(client: Client, db: Database) -> None:
    faded = await old(client, db, "The bus was late.", 366, 4, importance=0.29)
    for content, days, accesses, more in (
        ("The bus was early.", 364, 0, {"importance": 0.1}),
        ("The bus was red.", 400, 5, {"importance": 0.1}),
        ("The bus was full.", 400, 0, {"importance": 0.3}),
        ("The bus was ours.", 400, 0, {"importance": 0.1, "pinned": True}),
    ):
        await old(client, db, content, days, accesses, **more)

    preview = await tidy(client, "archive")

    assert preview["done"] is False
    assert preview["changes"] == [{"id": faded, "operation": "archive", "changes": {"status": ["active", "archived"]}}]
    assert set(status(db).values()) == {"active"}

    done = await tidy(client, "archive", confirm_token=preview["confirm_token"])

    assert done["done"] is True
    assert [change["id"] for change in done["changes"]] == [faded]
    assert {id_ for id_, state in status(db).items() if state == "archived"} == {faded}
    assert faded not in await found(client, "bus")
    assert await found(client, "late bus", status="archived") == [faded]


async def test_archiving_is_told_in_the_history_and_can_be_undone(client: Client, db: Database) -> None:
    id_ = await old(client, db, "The bus was late.", 400, importance=0.1)
    preview = await tidy(client, "archive")
    await tidy(client, "archive", confirm_token=preview["confirm_token"])

    answer = db.history(id_)[-1]
    assert (answer["operation"], answer["changes"], answer["version"]) == (
        "archive",
        {"status": ["active", "archived"]},
        2,
    )
    assert answer["session_id"]
    assert answer["actor"]
    assert (await read(client, id_))["version"] == 2
    await call(client, "update_memory", id=id_, status="active")
    assert await found(client, "late bus", mode="text") == [id_]


@pytest.mark.shows(34)
async def test_the_thresholds_are_the_callers(client: Client, db: Database) -> None:
    ids = [await old(client, db, f"Bus {n} was late.", 10 * n, n, importance=n / 10) for n in range(1, 6)]

    taken = await tidy(client, "archive", older_than_days=15, below_importance=0.45, max_accesses=3)
    none = await tidy(client, "archive", older_than_days=0, below_importance=0, max_accesses=0)

    assert [change["id"] for change in taken["changes"]] == [ids[2], ids[1]]
    assert none["changes"] == []
    assert "confirm_token" not in none
    for bad in ({"older_than_days": -1}, {"below_importance": 1.5}, {"max_accesses": -1}):
        assert (await refused(client, "tidy_memories", action="archive", **bad))["code"] == "INVALID_INPUT"


async def test_archiving_one_project_leaves_the_others(client: Client, db: Database) -> None:
    mine = await old(client, db, "The ark was late.", 400, importance=0.1, project="ark")
    await old(client, db, "The shed was late.", 400, importance=0.1, project="shed")

    assert [change["id"] for change in (await tidy(client, "archive", project="ark"))["changes"]] == [mine]


@pytest.mark.shows(28, 34)
async def test_pruning_erases_what_was_archived_for_good(client: Client, db: Database) -> None:
    secret = "The marmalade was bitter."
    faded = await old(client, db, secret, 1_100, 2, importance=0.05)
    others = [
        await old(client, db, "The marmalade was sweet.", 1_100, 0, importance=0.05),
        await old(client, db, "The marmalade was red.", 1_090, 0, importance=0.05),
        await old(client, db, "The marmalade was gone.", 1_100, 3, importance=0.05),
        await old(client, db, "The marmalade was ours.", 1_100, 0, importance=0.1),
        await old(client, db, "The marmalade was old.", 1_100, 0, importance=0.05, pinned=True),
    ]
    for id_ in (faded, *others[1:]):
        db.rows("UPDATE memories SET status = 'archived' WHERE id = %s", [id_])

    preview = await tidy(client, "prune")
    assert [change["id"] for change in preview["changes"]] == [faded]
    assert faded in status(db)
    assert (await refused(client, "tidy_memories", action="prune", confirm_token="invented"))[
        "code"
    ] == "CONFIRM_REQUIRED"
    done = await tidy(client, "prune", confirm_token=preview["confirm_token"])

    assert [(change["id"], change["operation"]) for change in done["changes"]] == [(faded, "erase")]
    assert set(status(db)) == set(others)
    for table in ("memories", "memory_history", "memory_vectors", "memory_words", "memory_tags"):
        assert not [row for row in db.rows(f"SELECT * FROM {table}") if secret in str(row)]
    assert db.value("SELECT count(*) FROM memory_vectors WHERE memory_id = %s", [faded]) == 0
    assert await hits(client, secret, mode="substring", status="archived") == []


async def test_a_token_is_good_once_and_for_its_own_action(client: Client, db: Database) -> None:
    await old(client, db, "The bus was late.", 400, importance=0.1)
    token = (await tidy(client, "archive"))["confirm_token"]

    assert (await refused(client, "tidy_memories", action="prune", confirm_token=token))["code"] == "CONFIRM_REQUIRED"
    assert (await tidy(client, "archive", confirm_token=token))["done"] is True
    assert (await refused(client, "tidy_memories", action="archive", confirm_token=token))["code"] == "CONFIRM_REQUIRED"


async def test_a_memory_changed_since_it_was_shown_stops_everything(client: Client, db: Database) -> None:
    ids = [await old(client, db, f"Bus {n} was late.", 400, importance=0.1) for n in range(3)]
    token = (await tidy(client, "archive"))["confirm_token"]
    await call(client, "update_memory", id=ids[1], importance=0.9)

    error = await refused(client, "tidy_memories", action="archive", confirm_token=token)

    assert error["code"] == "CONFIRM_REQUIRED"
    assert ids[1] in error["message"]
    assert set(status(db).values()) == {"active"}


FILL = """
WITH made AS (
  INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from, created_at)
  SELECT current_setting('pgengram.namespace_id')::integer, gen_random_uuid(), 'semantic', 'Bus ' || n || ' was late.',
    decode(md5('m' || n), 'hex'), now(), now() - make_interval(days => 400, mins => n)
  FROM generate_series(1, %(rows)s) AS n RETURNING namespace_id, id, content
), semantic AS (
  INSERT INTO semantic_memories (namespace_id, memory_id) SELECT namespace_id, id FROM made
), active AS (
  INSERT INTO memory_activation (namespace_id, memory_id, importance, rate_per_day, started_at)
  SELECT namespace_id, id, 0.1, 0.003, now() FROM made
)
INSERT INTO memory_words (namespace_id, memory_id, terms, counts, length)
SELECT namespace_id, id, array_agg(term ORDER BY term), array_agg(count ORDER BY term), sum(count)::integer
FROM made, pgengram_terms(content, '{}') GROUP BY 1, 2
"""


@pytest.mark.nightly
async def test_thousands_are_archived_in_portions_and_no_word_of_them_is_left_behind(
    client: Client, db: Database
) -> None:
    db.rows(FILL, {"rows": 2_400})
    kept = await remember(client, "Bus 7 is on time.")

    to_do = 2_400
    while (preview := await tidy(client, "archive"))["changes"]:
        done = await tidy(client, "archive", confirm_token=preview["confirm_token"])
        to_do -= len(preview["changes"])
        assert (len(done["changes"]), preview.get("left", 0)) == (len(preview["changes"]), to_do)

    assert to_do == 0
    assert db.value("SELECT count(*) FROM memories WHERE status = 'archived'") == 2_400
    assert {str(row["memory_id"]) for row in db.rows(
        "SELECT memory_id FROM memory_words WHERE segment IS NULL UNION SELECT unnest(memory_ids) FROM memory_posting_lists")} == {kept}  # fmt: skip
    assert await found(client, "bus", mode="text") == [kept]
