"""Memories on the workers of a cluster: what a namespace asks is answered by one of them."""

from __future__ import annotations

from life import Life, explained

from pgengram.service.manager import MemoryManager


async def test_whatever_a_namespace_asks_is_one_task_for_one_worker(on_cluster: MemoryManager) -> None:
    life = Life(on_cluster)

    with explained() as plans:
        await life.one_of_each()

    assert life.called == life.tools
    unplanned = [(plan, text) for text, _, plan in plans if plan.startswith("no plan")]
    assert unplanned == []
    assert [(tasks, text) for text, tasks, _ in plans if set(tasks) - {1}] == []
    sent_out = [text for text, tasks, _ in plans if tasks]
    for candidate in ("WITH hidden AS", "INSERT INTO memories", "memory_relationships", "DELETE FROM memories"):
        assert any(candidate in text for text in sent_out), candidate
