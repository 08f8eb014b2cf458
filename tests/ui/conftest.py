"""Running pages over 1,200 memories, and over 100,000 where that is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from helpers import PATIENCE_S, database_of
from pgengram.settings import Settings

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from pages import fill_up
from ui_process import Ui, fill, run_ui

MANY = os.environ.get("PGENGRAM_TEST_MANY")
SIZES = [
    pytest.param(1_200, id="1200"),
    pytest.param(
        100_000,
        id="100000",
        marks=pytest.mark.skipif(not MANY, reason="PGENGRAM_TEST_MANY is not set: 100,000 memories take minutes to store"),
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Crowd:
    """A database to be copied: its name, how many memories were invented for it, and ids of those that tests speak of."""

    name: str
    size: int
    ids: dict[str, str]


@pytest_asyncio.fixture(scope="session", params=SIZES)
async def crowd(request: pytest.FixtureRequest, postgres: str, template: str) -> AsyncIterator[Crowd]:
    """A database with many memories, made once; every page test runs on each size."""
    with database_of(postgres, template) as db:
        settings = Settings(database_url=db.url)
        await fill_up(settings, request.param)
        ids = await fill(settings)
        yield Crowd(db.as_template(), request.param, ids)


@pytest_asyncio.fixture(scope="module")
async def ui(postgres: str, crowd: Crowd) -> AsyncIterator[Ui]:
    """One running page for the tests of a module."""
    with database_of(postgres, crowd.name) as db:
        async with (
            run_ui(db.url) as link,
            httpx.AsyncClient(base_url=link.partition("/enter")[0], timeout=PATIENCE_S) as client,
        ):
            entered = await client.get(link)
            assert entered.status_code == 200
            yield Ui(link, client, db, crowd.ids, entered, crowd.size)
