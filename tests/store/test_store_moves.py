"""A store that moves to another machine under a call: the call is repeated, whoever made it, and only so often."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest

from helpers import Database
from pgengram import Memory
from pgengram.compat.crow import Crow
from pgengram.errors import ShardMoved
from pgengram.inputs import NewMemory
from pgengram.runtime.context import ATTEMPTS
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.ui.view_data.view_service import ViewService

# Each look at a memory fails as it does while its shard is on the way, as often as is wished. A sequence is not rolled back.
MOVING = (
    "CREATE SEQUENCE looks",
    """CREATE FUNCTION arrived() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
         IF nextval('public.looks') <= {moves} THEN
           RAISE EXCEPTION 'relation "memories_102008" does not exist' USING ERRCODE = '42P01';
         END IF;
         RETURN true;
       END $$""",
    "CREATE POLICY moving ON memories AS RESTRICTIVE USING (arrived())",
)


def on_the_move(database: Database, moves: int) -> None:
    database.as_login(*(statement.format(moves=moves) for statement in MOVING))


def looks(database: Database) -> int:
    [(count,)] = database.as_login("SELECT last_value FROM looks")
    return int(count)


CALLS: dict[str, Callable[[Memory, str], Awaitable[object]]] = {
    "add": lambda memory, _: memory.add("The shed is painted red."),
    "search": lambda memory, _: memory.search("garage"),
    "list": lambda memory, _: memory.search(),
    "get": lambda memory, id_: memory.get(id_),
    "update": lambda memory, id_: memory.update(id_, tags=["house"]),
    "forget": lambda memory, id_: memory.forget(id_),
    "erase": lambda memory, id_: memory.erase(id_),
    "erase_source": lambda memory, _: memory.erase_source("a book"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_program_s_call_survives_that_its_memories_move(
    settings: Settings, database: Database, name: str
) -> None:
    async with Memory(settings) as memory:
        stored = await memory.add("The garage is painted green.", source="a book")
        on_the_move(database, ATTEMPTS - 1)

        await CALLS[name](memory, stored.memory_id)

        assert looks(database) >= ATTEMPTS


async def test_a_page_is_shown_though_its_memories_move(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    stored = await manager.create_memory(NewMemory(content="The garage is painted green."))
    on_the_move(database, ATTEMPTS - 1)

    shown = await ViewService(manager, tmp_path).memory(UUID(stored.memory_id))

    assert shown["content"] == "The garage is painted green."


async def test_calls_inside_calls_do_not_multiply_the_attempts(manager: MemoryManager, database: Database) -> None:
    await manager.create_memory(NewMemory(content="The garage is painted green."))
    on_the_move(database, 1_000)

    with pytest.raises(ShardMoved):
        await Crow(manager).crow_search_memories("garage")

    assert looks(database) == ATTEMPTS
