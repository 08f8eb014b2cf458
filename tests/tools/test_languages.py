"""Memories and questions in any language, and what is left when the encoder for them fails."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from helpers import Client, call, found, hits, remember
from pgengram.embedders import Cached
from pgengram.embedders.builtin import ENGLISH, HERE, OTHERS, BuiltinEmbedder
from pgengram.errors import EmbeddingFailed
from pgengram.inputs import NewMemory, Question
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings


@pytest.mark.parametrize(
    "question",
    [
        "Wohin fliegen wir im Urlaub?",
        "¿A dónde volamos en vacaciones?",
        "我们假期飞去哪里？",
        "Куда мы летим в отпуск?",
    ],
)
async def test_a_question_finds_a_memory_in_another_language(client: Client, question: str) -> None:
    for other in ("The printer only works over the cable.", "Lena wants to become a biologist."):
        await remember(client, other)
    id_ = await remember(client, "Our holiday flight goes to Lisbon.")

    assert (await found(client, question))[0] == id_


async def test_the_language_of_a_memory_and_of_a_question_is_told(client: Client) -> None:
    await remember(client, "Der Zahnarzttermin ist am Donnerstag um vier.")
    await remember(client, "The dentist has moved to the old town.")

    answer = await call(client, "search_memories", query="Wann ist der Zahnarzttermin?")

    assert answer["language"] == "de"
    assert [hit.get("language") for hit in answer["results"]] == ["de", None]


async def test_a_single_chinese_character_finds_a_memory(client: Client) -> None:
    id_ = await remember(client, "家里养了三只猫咪。")

    [hit] = await hits(client, "猫", mode="text")

    assert hit["id"] == id_


async def test_an_unknown_script_is_found_by_its_words(client: Client) -> None:
    id_ = await remember(client, "ᚠᚢᚦᚨᚱᚲ ᚷᚹᚺᚾ")

    [hit] = await hits(client, "ᚷᚹᚺᚾ", mode="text")

    assert hit["id"] == id_


async def test_a_damaged_encoder_leaves_the_search_by_words(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / ENGLISH).symlink_to(HERE / ENGLISH)
    shutil.copytree(HERE / OTHERS, tmp_path / OTHERS)
    (tmp_path / OTHERS / "vocabulary.txt").write_text("damaged")
    manager = MemoryManager(replace(settings, embedder="builtin:"))
    manager.models.configured = Cached(BuiltinEmbedder(tmp_path))
    await manager.ready()
    outcome = await manager.create_memory(NewMemory(content="The Zahnarzt is on Thursday."))

    answer = await manager.search_memories(Question(query="Wann ist der Zahnarzt?"))

    assert [hit["id"] for hit in answer.results] == [outcome.memory_id]
    assert answer.degraded is True
    with pytest.raises(EmbeddingFailed) as error:
        await manager.create_memory(NewMemory(content="Der Zahnarzt ist am Donnerstag."))
    assert "Reinstall" in error.value.hint
    await manager.close()
