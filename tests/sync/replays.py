"""What makes a seed of a law the same each time, and quick: ids drawn from it, and a database that is waited for on the spot."""

from __future__ import annotations

import asyncio
import random
import select
from types import SimpleNamespace
from typing import Any, Final

import psycopg
import pytest
from psycopg import waiting

from helpers import Database
from pgengram import ids
from pgengram.sync import devices, exchange, folder

ON_THE_SPOT_MS: Final = 50  # of waiting in which nothing else of the process may run
NUMBER_TURNS: Final = """
CREATE SEQUENCE turns_of_the_seed;
GRANT USAGE ON SEQUENCE turns_of_the_seed TO PUBLIC;
ALTER TABLE conversation_turns ALTER COLUMN id
  SET DEFAULT (hashtextextended(nextval('turns_of_the_seed')::text, {seed}) & 9223372036854775807)
"""


def draw_ids_from(seed: int, database: Database, patch: pytest.MonkeyPatch) -> None:
    """Let the ids of memories, turns, devices and writers be the same whenever this seed is tried."""
    chance = random.Random(f"ids {seed}")
    drawn = SimpleNamespace(randbits=chance.getrandbits, token_hex=lambda size: chance.randbytes(size).hex())
    for module in (ids, devices, exchange, folder):
        patch.setattr(module, "secrets", drawn)
    database.as_login(*NUMBER_TURNS.format(seed=seed).split(";"))


def wait_on_the_spot(database: Database, patch: pytest.MonkeyPatch) -> None:
    """Wait for the database without the event loop, which costs more than all else here, unless that takes long, and
    let it wait for no disk: it is not what is killed.
    """
    patch.setattr(psycopg.AsyncConnection, "wait", _waited)
    database.as_login(f"ALTER DATABASE {database.name} SET synchronous_commit = off")


async def _waited(self: psycopg.AsyncConnection[Any], steps: Any, *_: Any, **__: Any) -> Any:
    try:
        wanted = next(steps)
        while True:
            ready = _ready(self.pgconn.socket, wanted, ON_THE_SPOT_MS)
            while not ready:  # maybe another task of this process has what this one waits for
                await asyncio.sleep(0.001)
                ready = _ready(self.pgconn.socket, wanted, 0)
            wanted = steps.send(ready)
    except StopIteration as ended:
        return ended.value


def _ready(socket: int, wanted: int, timeout_ms: int) -> int:
    looking = select.poll()
    reads, writes = bool(wanted & waiting.WAIT_R), bool(wanted & waiting.WAIT_W)
    looking.register(socket, select.POLLIN * reads | select.POLLOUT * writes)
    found = dict(looking.poll(timeout_ms)).get(socket, 0)
    return (waiting.READY_W if found & select.POLLOUT else 0) | (waiting.READY_R if found & ~select.POLLOUT else 0)
