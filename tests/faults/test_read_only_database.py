"""A database that takes no writes, as a standby does: reading goes on, writing says so, and a writable one is used again."""

from __future__ import annotations

from helpers import Database, call, connected, found, refused, remember, until


async def test_while_the_database_takes_no_writes_reading_goes_on_and_writing_says_to_call_again(
    database: Database,
) -> None:
    [(name,)] = database.as_login("SELECT current_database()")
    async with connected(database_url=database.url, embedder="none:") as client:
        id_ = await remember(client, "Before the failover.")

    database.as_login(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    async with connected(database_url=database.url, embedder="none:") as client:
        error = await refused(client, "create_memory", content="Meanwhile.", idempotency_key="once")
        assert "no writes" in error["message"]
        assert "call again" in error["hint"]
        assert await found(client, "failover") == [id_]
        read = await call(client, "get_memories", ids=[id_])
        assert [memory["content"] for memory in read["memories"]] == ["Before the failover."]
        assert (
            database.value("SELECT access_count FROM memory_activation WHERE memory_id = %s", [id_]) <= 1
        )  # by the search

        database.as_login(
            "SET default_transaction_read_only = off", f"ALTER DATABASE {name} RESET default_transaction_read_only"
        )
        answer = [
            await client.call_tool("create_memory", {"content": "Meanwhile.", "idempotency_key": "once"})
            for _ in range(10)
        ]
        assert not answer[-1].is_error, "connections of the read-only time are given up"
        assert len((await call(client, "search_memories", query="meanwhile"))["results"]) == 1


async def test_a_namespace_that_is_new_is_empty_until_the_database_takes_writes(database: Database) -> None:
    [(name,)] = database.as_login("SELECT current_database()")
    database.as_login(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    async with connected(database_url=database.url, embedder="none:", namespace="later") as client:
        assert await found(client, "failover") == []
        assert "no writes" in (await refused(client, "create_memory", content="Meanwhile."))["message"]

        database.as_login(
            "SET default_transaction_read_only = off", f"ALTER DATABASE {name} RESET default_transaction_read_only"
        )

        async def stored() -> bool:  # connections of the read-only time are given up one by one
            return not (await client.call_tool("create_memory", {"content": "After the failover."})).is_error

        await until(stored)
        assert len(await found(client, "failover")) == 1
