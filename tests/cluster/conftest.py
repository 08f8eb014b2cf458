"""A coordinator and its workers, where PGENGRAM_TEST_CITUS_URL says that there are some."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from helpers import Database, clustered, database_of, machines
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

CITUS_URL = os.environ.get("PGENGRAM_TEST_CITUS_URL", "")


@pytest.fixture(scope="session")
def citus_url() -> str:
    """The URL of a database on a coordinator that knows two workers or more."""
    if not CITUS_URL:
        pytest.skip("no cluster: PGENGRAM_TEST_CITUS_URL names none (a coordinator of Citus with two workers)")
    assert len(machines(CITUS_URL)) > 2, "PGENGRAM_TEST_CITUS_URL must name a coordinator that knows two workers"
    return CITUS_URL


@pytest.fixture(scope="session")
def spread(citus_url: str) -> Iterator[str]:
    """The name of a database without memories that is spread over the workers."""
    with database_of(citus_url) as database:
        clustered(citus_url, database)
        yield database.as_template()


@pytest.fixture
def cluster_db(citus_url: str, spread: str) -> Iterator[Database]:
    """A database of the test's own, spread over the workers."""
    with database_of(citus_url, spread) as made:
        yield made


@pytest_asyncio.fixture
async def on_cluster(cluster_db: Database) -> AsyncIterator[MemoryManager]:
    """A manager of all tools whose memories are on a worker."""
    made = MemoryManager(Settings(database_url=cluster_db.url, toolsets="all"))
    await made.ready()
    yield made
    await made.close()
