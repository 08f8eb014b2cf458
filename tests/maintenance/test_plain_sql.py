"""Memories that plain SQL wrote: the doctor says what they lack, and makes them whole without touching their text."""

from __future__ import annotations

from helpers import Database, call, connected, found, remember
from machine import answered, pgengram

INSERT = """
INSERT INTO memories (namespace_id, id, type, kind, content, content_hash, valid_from)
VALUES (current_setting('pgengram.namespace_id')::integer, gen_random_uuid(), %s, %s, %s, decode(md5(%s), 'hex'), now())
RETURNING id::text
"""
TYPES = {"episodic": None, "semantic": "fact", "procedural": "process", "strategic": "pattern"}


async def test_what_plain_sql_wrote_is_told_and_made_whole(database: Database) -> None:
    async with connected(database_url=database.url) as client:
        kept = await remember(client, "The ferry to the island leaves at seven.")
        changed = await remember(client, "The lighthouse was painted red.", tags=["towers"])
        bare = await remember(client, "Berth nine is kept free for the pilot.")
        for text in ("The bus was late.", "The bus was full.", "!!!"):
            await call(client, "forget_memories", ids=[await remember(client, text)])
        restored = await remember(client, "The tram was early.")
        for status in ("archived", "active"):
            await call(client, "update_memory", id=restored, status=status)
        assert "✓ All memories  7 memories, all complete" in pgengram("doctor", database_url=database.url).stdout

        database.rows(
            "UPDATE memories SET content = 'The windmill was painted green.', version = version + 1 WHERE id = %s",
            [changed],
        )
        database.rows("DELETE FROM memory_vectors WHERE memory_id = %s", [bare])
        database.rows("UPDATE memories SET status = 'archived' WHERE id = %s", [restored])
        inserted = {
            type_: database.rows(INSERT, [type_, kind, f"The {type_} chandlery closes on Sundays.", type_])[0]["id"]
            for type_, kind in TYPES.items()
        }
        assert (await client.call_tool("get_memories", {"ids": [inserted["semantic"]]})).is_error

        told = pgengram("doctor", expect=1, database_url=database.url).stdout
        assert "✗ All memories  7 of 11 memories are incomplete: 4 without activation, found nowhere" in told
        assert "4 without the detail of their type" in told
        assert "1 whose text, user, project, speaker or date was changed" in told
        assert "5 without vectors" in told
        assert "→ Run `pgengram doctor --repair`" in told

        mended = pgengram("doctor", "--repair", database_url=database.url).stdout
        assert "✓ All memories  7 of 11 memories are incomplete" in mended
        assert "7 were made whole" in mended
        assert "✓ All memories  11 memories, all complete" in pgengram("doctor", database_url=database.url).stdout
        assert restored not in await found(client, "tram early")

        assert await found(client, "windmill painted green", limit=1) == [changed]
        assert await found(client, "ferry island", limit=1) == [kept]
        assert database.rows(
            "SELECT version, operation FROM memory_history WHERE memory_id = %s ORDER BY version", [changed]
        ) == [{"version": 1, "operation": "create"}, {"version": 3, "operation": "update"}]
        read = await call(client, "get_memories", ids=[changed, *inserted.values()])
        assert len(read["memories"]) == 5
        assert read["memories"][0]["tags"] == ["towers"]
        assert set(await found(client, "chandlery Sundays", limit=4)) == set(inserted.values())


def test_what_says_the_same_as_another_memory_is_left_and_named(database: Database) -> None:
    settings = {"database_url": database.url, "embedder": "none:"}
    for text in ("The ferry leaves at seven.", "The ferry leaves at eight."):
        answered("add", text, "--json", **settings)
    database.rows("UPDATE memories SET content = 'The ferry leaves at seven.', version = version + 1")

    told = pgengram("doctor", "--repair", expect=1, **settings).stdout

    assert "says exactly what another one says" in told
    assert "pgengram forget" in told
