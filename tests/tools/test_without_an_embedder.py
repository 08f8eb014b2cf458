"""`none:`: memories are found by their words only, and every answer says so."""

from __future__ import annotations

import pytest

from helpers import Served, call, connected, found, hits, refused, remember


async def test_words_still_find(wordless: Served) -> None:
    id_ = await remember(wordless.client, "The staging database listens on port 5433.")
    await remember(wordless.client, "Mira's dog is called Mochi.")

    [first, *_] = await found(wordless.client, "Which port has the staging database?")

    assert first == id_


async def test_what_shares_no_word_is_not_found(wordless: Served) -> None:
    await remember(wordless.client, "Mira's dog is called Mochi.")

    assert await found(wordless.client, "pet animal") == []


@pytest.mark.shows(3)
async def test_every_answer_says_that_it_is_degraded(wordless: Served) -> None:
    client = wordless.client

    assert (await call(client, "create_memory", content="A fact."))["degraded"] is True
    assert (await call(client, "create_memories", items=[{"content": "B fact."}]))["degraded"] is True
    assert (await call(client, "search_memories", query="fact"))["degraded"] is True


async def test_no_vector_is_stored_and_the_memory_says_so(wordless: Served) -> None:
    answer = await call(wordless.client, "create_memory", content="A fact.")

    assert answer["memory"]["embedded"] is False
    assert wordless.db.value("SELECT count(*) FROM memory_vectors") == 0


async def test_a_hit_has_no_similarity(wordless: Served) -> None:
    await remember(wordless.client, "A fact about tea.")

    [hit] = await hits(wordless.client, "tea")

    assert hit["why"]["words"] == 1
    assert hit["why"].get("similarity") is None


@pytest.mark.parametrize("tool", ["create_memory", "search_memories"])
async def test_a_vector_cannot_be_compared_with_anything(wordless: Served, tool: str) -> None:
    arguments = {"content": "x"} if tool == "create_memory" else {"query": "x"}

    error = await refused(wordless.client, tool, **arguments, embedding=[0.1] * 384)

    assert error["code"] == "INVALID_INPUT"
    assert "PGENGRAM_EMBEDDER" in error["hint"]


async def test_an_item_with_a_vector_spares_the_others(wordless: Served) -> None:
    items = [{"content": "A."}, {"content": "B.", "embedding": [0.1] * 384}, {"content": "C."}]

    answer = await call(wordless.client, "create_memories", items=items)

    assert [result["ok"] for result in answer["results"]] == [True, False, True]


async def test_a_text_changed_without_an_embedder_keeps_no_vector_of_the_old_one(served: Served) -> None:
    id_ = await remember(served.client, "The old text.")
    async with connected(database_url=served.db.url, embedder="none:") as other:
        await call(other, "update_memory", id=id_, importance=0.9)
        assert served.db.value("SELECT count(*) FROM memory_vectors") == 1

        await call(other, "update_memory", id=id_, content="The new text.")

    assert served.db.value("SELECT count(*) FROM memory_vectors") == 0


async def test_hundreds_of_texts_that_have_words_in_common_are_stored_in_one_call(wordless: Served) -> None:
    def texts(batch: int) -> list[dict[str, str]]:
        said = [" ".join(f"word{(n * step) % 41}" for step in range(1, 26)) for n in range(1, 201)]
        return [{"content": f"The nightly report says {words} in hall {batch}-{n}."} for n, words in enumerate(said)]

    for batch in range(2):
        answer = await call(wordless.client, "create_memories", items=texts(batch))
        assert answer["created"] == 200
