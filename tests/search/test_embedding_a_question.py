"""A question is embedded while its words are looked up, and no transaction waits for it for long."""

from __future__ import annotations

from typing import Any

import pytest

from helpers import Database, read_url, until
from pgengram import Memory
from pgengram.embedders.onnx import OnnxEmbedder
from pgengram.settings import Settings

WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND state LIKE 'idle in transaction%'
"""
QUESTIONS = [
    "What does Mara drink?",
    "What does Mara drink?",
    "Where does Mara live?",
    "Where is tea sold?",
    "tea " * 2_000,
]


async def test_no_transaction_stays_open_while_a_question_is_embedded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = OnnxEmbedder.query
    embedded: list[str] = []

    async def watched(self: OnnxEmbedder, text: str) -> Any:
        embedded.append(text)
        await until(none_waits)
        return await embed(self, text)

    async def none_waits() -> bool:
        return database.as_login(WAITING) == [(0,)]

    async with Memory(Settings(database_url=database.url, read_url=read_url(database.url))) as memory:
        await memory.add("I drink green tea.", speaker="Mara")
        monkeypatch.setattr(OnnxEmbedder, "query", watched)
        for question in QUESTIONS:
            assert (await memory.search(question)).count == 1

    assert "What does drink?" in embedded


async def test_a_name_is_left_out_of_what_is_embedded_from_the_first_question_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Memory(Settings(database_url=database.url)) as memory:
        await memory.add("I drink green tea.", speaker="Mara")
        first, again = [(await memory.search("What does Mara drink?")).results[0] for _ in range(2)]
        plain = (await memory.search("What does drink?")).results[0]

    similarities = [hit["why"]["similarity"] for hit in (first, again, plain)]
    assert similarities == [similarities[0]] * 3
