"""A database may be set for other programs in ways that change how PostgreSQL reads, writes and guards values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from helpers import Database, call, connected
from machine import pgengram

FOR_OTHERS = {
    "row_security": "off", "timezone": "Asia/Kolkata", "extra_float_digits": "-15", "datestyle": "German, DMY",
    "intervalstyle": "sql_standard", "bytea_output": "escape", "default_transaction_isolation": "serializable",
    "standard_conforming_strings": "off", "array_nulls": "off", "transform_null_equals": "on", "client_encoding": "LATIN1",
    "quote_all_identifiers": "on", "default_transaction_deferrable": "on", "ivfflat.probes": "1",
}  # fmt: skip
DIFFERS = re.compile(r"01[0-9a-f]{6}-[0-9a-f-]{27}|s-[0-9a-f]{12}-[0-9a-f]{8}|20\d\d-\d\d-\d\dT[0-9:.]+(?=Z|\+00:00)")
MOVES = ("relevance", "reinforcement", "access_count", "score")


@pytest.fixture
def set_for_others(database: Database) -> Iterator[None]:
    """A migrated database, which is set so from here on."""
    [(name,)] = database.as_login("SELECT current_database()")
    for setting, value in FOR_OTHERS.items():
        database.as_login(f"ALTER DATABASE {name} SET {setting} = '{value}'")
    database.close()  # they are for new connections
    assert database.as_login("SHOW row_security") == [("off",)]
    yield
    database.close()


async def test_a_store_is_the_same_whatever_its_database_is_set_to(database: Database, set_for_others: None) -> None:
    told = await story(database)
    [(name,)] = database.as_login("SELECT current_database()")
    database.as_login("TRUNCATE memories, namespaces CASCADE")
    database.as_login(f"ALTER DATABASE {name} RESET ALL")
    database.close()

    assert told == await story(database)


async def story(database: Database) -> list[str]:
    """Return what is said of memories that are stored, changed, found and exported."""
    async with connected(database_url=database.url, embedder="none:") as client:
        first = await call(client, "create_memory", content='C:\\new "tea" – O\'Hara', importance=0.123456789,
                           metadata={"a": [1, None, "NULL"], "share": 0.1234567891234}, tags=["NULL x"])  # fmt: skip
        other = await call(
            client,
            "create_memory",
            content="The ship left.",
            type="episodic",
            occurred_at="2026-03-01T23:30:00.123456Z",
        )
        answers: list[Any] = [
            await call(client, "update_memory", id=other["memory_id"], content="The ship left at noon."),
            await call(client, "get_memories", ids=[first["memory_id"], other["memory_id"]], include=["history"]),
            await call(client, "search_memories", query="ship", since="2026-03-01", until="2026-03-01", detail=True),
            await call(client, "forget_memories", ids=[first["memory_id"]]),
        ]
    export = pgengram("export", "-", database_url=database.url, embedder="none:").stdout
    return [plain(one) for one in [*answers, *sorted(map(json.loads, export.splitlines()), key=json.dumps)]]


def plain(answer: Any) -> str:
    """Return an answer without what differs each time."""
    text = DIFFERS.sub("…", json.dumps(answer, sort_keys=True, ensure_ascii=False))
    return re.sub(rf'"({"|".join(MOVES)})": [^,}}]+', r'"\1": …', text)
