"""A database whose clock shows another zone than UTC gives the same answers."""

from __future__ import annotations

from typing import Any

import pytest

from helpers import Database, call, connected, remember

OCCURRED = "2026-03-01T23:30:00+00:00"  # in Kiritimati the second of March has begun, in Niue it is still noon


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Niue"])
async def test_moments_days_and_periods_are_the_same_in_any_zone_of_the_database(database: Database, zone: str) -> None:
    [(name,)] = database.as_login("SELECT current_database()")
    database.as_login(f"ALTER DATABASE {name} SET timezone = '{zone}'")
    database.close()  # the zone is for new connections
    assert database.as_login("SHOW timezone") == [(zone,)]

    async with connected(database_url=database.url, embedder="none:") as client:
        id_ = await remember(client, "The ship left.", occurred_at=OCCURRED)
        await remember(client, "The ship came back.", occurred_at="2026-03-02T00:30:00Z")

        [hit] = (await call(client, "search_memories", until="2026-03-01T23:59:59Z"))["results"]
        assert hit["relevance"] == pytest.approx(hit["importance"], abs=1e-4)  # nothing has faded yet
        [memory] = (await call(client, "get_memories", ids=[id_]))["memories"]
        assert memory["occurred_at"] in (OCCURRED, OCCURRED.replace("+00:00", "Z"))
        assert await contents(client, since="2026-03-02T00:00:00Z") == ["The ship came back."]
        assert await contents(client, until="2026-03-01T23:59:59Z") == ["The ship left."]
        assert (await contents(client, query="ship 2 March 2026"))[0] == "The ship came back."
        assert (await contents(client, query="ship 1 March 2026"))[0] == "The ship left."
        assert await contents(client, sort="occurred") == ["The ship came back.", "The ship left."]


async def contents(client: Any, **asked: Any) -> list[str]:
    return [hit["content"] for hit in (await call(client, "search_memories", **asked))["results"]]
