"""The page with three sessions is what happens."""

from __future__ import annotations

from helpers import Served, connected
from transcript import PAGE, lived


async def test_the_three_sessions_are_what_an_assistant_is_answered(served: Served) -> None:
    async with connected(database_url=served.db.url, answers="short") as client:
        assert PAGE.read_text(encoding="utf-8") == await lived(client, served.db), "run python tests/transcript.py"
