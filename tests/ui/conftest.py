"""One running page for the tests of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest_asyncio
from ui_process import Ui, fill, run_ui

from door import database_of
from pgengram.settings import Settings


@pytest_asyncio.fixture(scope="module")
async def ui(postgres: str, template: str) -> AsyncIterator[Ui]:
    with database_of(postgres, template) as db:
        ids = await fill(Settings(database_url=db.url))
        async with (
            run_ui(db.url) as link,
            httpx.AsyncClient(base_url=link.partition("/enter")[0], timeout=60) as client,
        ):
            entered = await client.get(link)
            assert entered.status_code == 200
            yield Ui(link, client, db, ids, entered)
