"""Exchanging by itself while a server runs: soon after each change, and every minute; less often while nothing happens
where each look costs much.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pgengram.errors import Conflict, PgengramError
from pgengram.runtime import process_setup
from pgengram.service.core import Core
from pgengram.store.sync import state

if TYPE_CHECKING:
    from pgengram.sync.exchange import Exchange

log = logging.getLogger(__name__)

EVERY_S: Final = 60.0  # between two looks at what the others wrote, or whether anything is to be exchanged at all
LOOKS_S: Final = 5.0  # between two looks at what was changed here


class ExchangeScheduler:
    """Exchanges one namespace's changes for as long as its server runs, if it is synchronised.

    Args:
        core: whose memories.
        every_s, looks_s: see `EVERY_S` and `LOOKS_S`.
    """

    def __init__(self, core: Core, every_s: float = EVERY_S, looks_s: float = LOOKS_S) -> None:
        self._core, self._every_s, self._looks_s = core, every_s, looks_s
        self._exchange: Exchange | None = None
        self._logged_problem: str | None = None  # the problem that was logged last
        self.pause_s = every_s  # longer while nothing happens, if each look at the others' files costs much
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin, in the background."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="exchange with other machines")

    async def close(self) -> None:
        """Stop; what is not exchanged by then is next time."""
        await process_setup.end_task(self._task)
        self._task = None

    async def _run(self) -> None:
        while True:
            try:
                is_on = await self._look()
            except PgengramError as error:
                self._tell(error.message)
                is_on = False
            if is_on:
                await self._wait_for_change()
            else:
                await asyncio.sleep(self._every_s)

    async def _look(self) -> bool:
        """Exchange once if the namespace is synchronised, and return whether it is."""
        if not self._core.store.is_open:
            return False
        async with self._core.store.transaction(reads=True) as tx:
            if await state.settings(tx) is None:
                return False
        if self._exchange is None:  # imported only where it is used
            from pgengram.sync import devices
            from pgengram.sync.exchange import Exchange

            await devices.install(self._core)
            self._exchange = Exchange(self._core)
        try:
            outcome = await self._exchange.run()
        except Conflict:  # another process does it
            return True
        if outcome is not None:
            self._tell(outcome.problem)
            longest_s = self._every_s * self._exchange.idle_pauses
            self.pause_s = self._every_s if outcome.did_anything else min(2 * self.pause_s, longest_s)
        return True

    async def _wait_for_change(self) -> None:
        for _ in range(max(1, round(self.pause_s / self._looks_s))):
            await asyncio.sleep(self._looks_s)
            if self._logged_problem is not None:  # what was changed here would fail again
                continue
            try:
                async with self._core.store.transaction(reads=True) as tx:
                    if await state.is_changed(tx):
                        return
            except PgengramError as error:
                self._tell(error.message)

    def _tell(self, problem: str | None) -> None:
        if problem != self._logged_problem:
            self._logged_problem = problem
            if problem:
                log.warning("Nothing is exchanged with other machines: %s", problem)
