"""Words that most memories have add to what others find: that is quicker than to look for them, and finds the same."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from helpers import Database, nightly
from pgengram.inputs import Mode, Question
from pgengram.search import candidates, ranking
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.maintenance.postings_compaction import PostingsCompactor

MEMORIES = 450
SHARES = {"dorvalim": 0.8, "kestorin": 0.6, "mulbragon": 0.3, "patherol": 0.25, "zimbrelo": 0.05, "quodrant": 0.01}
NEVER = 10**9


@pytest_asyncio.fixture
async def words_of_any_share(database: Database) -> AsyncIterator[MemoryManager]:
    """Memories with words that nearly all or hardly any of them have; of some the words wait to be compacted."""
    chance = random.Random(11)
    vectors = np.random.default_rng(11)
    manager = MemoryManager(Settings(database_url=database.url))
    await manager.ready()
    for start in range(0, MEMORIES, 150):
        made = []
        for number in range(start, start + 150):
            said = [
                word
                for word, share in SHARES.items()
                for again in range(3)
                if chance.random() < share / (3 if again else 1)
            ]
            filler = [f"filler{chance.randrange(5_000)}" for _ in range(chance.randrange(2, 30))]
            content = " ".join([f"note {number}", *said, *filler])
            embedding = vectors.normal(size=384).tolist()
            made.append({"content": content, "embedding": embedding, "dedup_policy": "insert"})
        stored = await manager.create_memories(made)
        assert all(one["ok"] for one in stored.results)
        if start == 150:
            await PostingsCompactor(manager.store)._compact()
    yield manager
    await manager.close()


@pytest.mark.parametrize("mode", ["auto", *nightly("text")])
async def test_common_words_that_only_add_find_what_they_find_when_they_are_looked_for(
    words_of_any_share: MemoryManager, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    chance, vectors = random.Random(12), np.random.default_rng(12)
    adding, added = ranking.adds_only, []

    def noted(counts: list[int], weights: list[float]) -> list[bool]:
        adds = adding(counts, weights)
        added.append(any(adds))
        return adds

    monkeypatch.setattr(ranking, "adds_only", noted)
    for _ in range(25):
        words = chance.sample(list(SHARES), chance.randrange(2, len(SHARES) + 1))
        limit, offset = chance.choice([(10, 0), (25, 10), (50, 120)])
        meaning = {} if mode == "text" else {"embedding": vectors.normal(size=384).tolist()}
        question = Question(query=" ".join(words), mode=mode, limit=limit, offset=offset, **meaning)
        answers = []
        for few in (NEVER, 0):
            monkeypatch.setattr(candidates, "FEW_POSTINGS", few)
            found = await words_of_any_share.search_memories(question)
            answers.append([(hit["id"], round(hit["score"], 6)) for hit in found.results])

        assert answers[0] == answers[1]
    assert (sum(added) > 10) == (mode == "auto")
