"""Memories that name no conversation belong to that of their connection."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from helpers import Served, call, connected, found, read, remember
from pgengram.service.core import PAUSE_S, Session


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def test_the_memories_of_one_connection_are_one_session_in_the_order_of_arrival(served: Served) -> None:
    ids = [await remember(served.client, f"Turn {n}.") for n in range(5)]

    memories = [await read(served.client, id_) for id_ in ids]

    assert len({memory["session_id"] for memory in memories}) == 1
    assert all(one["session_sequence"] < two["session_sequence"] for one, two in pairwise(memories))
    assert await found(served.client, session_id=memories[0]["session_id"]) == ids[::-1]


async def test_another_connection_is_another_session(served: Served) -> None:
    mine = await read(served.client, await remember(served.client, "Here."))
    async with connected(database_url=served.db.url) as other:
        theirs = await read(other, await remember(other, "There."))

    assert mine["session_id"] != theirs["session_id"]


async def test_a_session_that_is_named_is_kept_as_it_is_named(served: Served) -> None:
    memory = await read(served.client, await remember(served.client, "Named.", session_id="talk-7"))

    assert memory["session_id"] == "talk-7"


async def test_one_memory_of_a_named_session_leaves_the_connections_own_alone(served: Served) -> None:
    before = await read(served.client, await remember(served.client, "Before."))
    await remember(served.client, "Named.", session_id="talk-7")
    after = await read(served.client, await remember(served.client, "After."))

    assert before["session_id"] == after["session_id"]


def test_half_an_hour_of_silence_begins_a_new_session() -> None:
    clock = Clock()
    session = Session(clock)
    first = session.current()

    clock.now += PAUSE_S
    assert session.current() == first
    clock.now += PAUSE_S + 0.001
    assert session.current() != first


def test_the_pause_is_half_an_hour() -> None:
    assert PAUSE_S == 30 * 60


@given(st.lists(st.floats(0, 2 * PAUSE_S), min_size=1, max_size=30))
def test_a_session_ends_with_a_pause_and_with_nothing_else(pauses: list[float]) -> None:
    clock = Clock()
    session = Session(clock)
    ids = [session.current()]
    moments = [clock.now]
    for pause in pauses:
        clock.now += pause
        ids.append(session.current())
        moments.append(clock.now)

    for (one, at), (two, later) in pairwise(zip(ids, moments, strict=True)):
        assert (one == two) == (later - at <= PAUSE_S)
    assert len(set(ids)) == 1 + sum(later - at > PAUSE_S for at, later in pairwise(moments))


async def test_reading_and_searching_keep_a_session_alive(served: Served) -> None:
    from pgengram.inputs import NewMemory, Question
    from pgengram.service.manager import MemoryManager
    from pgengram.settings import Settings

    manager, clock = MemoryManager(Settings(database_url=served.db.url, embedder="none:")), Clock()
    manager.session = Session(clock)
    first = await manager.create_memory(NewMemory(content="First."))
    clock.now += PAUSE_S * 0.6
    await manager.search_memories(Question(query="first"))
    clock.now += PAUSE_S * 0.6
    await manager.get_memories([first.memory_id])
    clock.now += PAUSE_S * 0.6
    second = await manager.create_memory(NewMemory(content="Second."))
    await manager.close()

    assert first.memory["session_id"] == second.memory["session_id"]


async def test_a_session_has_no_place_for_the_time_zone_of_a_client(served: Served) -> None:
    """Moments are shown in UTC, whatever zone they were told in."""
    answer = await call(served.client, "create_memory", content="At noon.", occurred_at="2026-03-01T12:00:00+09:00")

    assert answer["memory"]["occurred_at"] == "2026-03-01T03:00:00Z"
