"""Machines of one person."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

sys.path.append(str(Path(__file__).parents[1] / "http"))  # servers over HTTP are started as the tests of HTTP do
from machines import Machine, carry

from helpers import Database


@pytest_asyncio.fixture
async def both(database: Database, tmp_path: Path) -> AsyncIterator[tuple[Machine, Machine]]:
    """A laptop and a desktop that exchange one memory, each with a folder of its own."""
    laptop, desktop = (Machine(database, tmp_path / name, name) for name in ("laptop", "desktop"))
    key = await laptop.begins()
    await laptop.syncs()
    carry([laptop, desktop])
    await desktop.begins(key)
    yield laptop, desktop
    for one in (laptop, desktop):
        await one.memories.close()
