from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from sharing_team import Team, made

from helpers import database_of


@pytest.fixture
async def team(postgres: str, template: str) -> AsyncIterator[Team]:
    async with AsyncExitStack() as stack:
        yield await made(stack.enter_context(database_of(postgres, template)), stack)
