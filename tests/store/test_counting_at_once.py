"""Uses and hits of the same memories, counted at once."""

from __future__ import annotations

import asyncio
import random
from uuid import UUID

from pgengram.service.manager import MemoryManager
from pgengram.store.memory import statements as s

MEMORIES, ROUNDS = 120, 25


async def test_uses_and_hits_counted_at_once_never_wait_in_a_circle_and_none_is_lost(manager: MemoryManager) -> None:
    answer = await manager.create_memories([{"content": f"Memory {number}."} for number in range(MEMORIES)])
    ids = [UUID(one["memory_id"]) for one in answer.results]
    dice = random.Random(5)

    async def count(statement: str) -> None:
        for _ in range(ROUNDS):
            given = {"ids": dice.sample(ids, MEMORIES), "weight": 1.0, "times": [1] * MEMORIES}
            async with manager.store.transaction() as tx:
                await tx.run(statement, given)

    await asyncio.gather(*(count(one) for one in (s.REINFORCE, s.COUNT_HITS, s.COUNT_HITS, s.REINFORCE)))

    async with manager.store.transaction() as tx:
        rows = await tx.rows("SELECT access_count FROM memory_activation WHERE namespace_id = %(namespace_id)s")
    assert [row["access_count"] for row in rows] == [4 * ROUNDS] * MEMORIES
