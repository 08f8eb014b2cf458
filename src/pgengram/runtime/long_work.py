"""Work on long texts, beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

Result = TypeVar("Result")

LONG: Final = 2_000  # characters, which take some milliseconds; a thread costs a tenth of one


async def beside_the_loop(characters: int, work: Callable[[], Result]) -> Result:
    """Return what `work` returns: in a thread where there is much text, so that the event loop goes on answering others.

    Args:
        characters: of the text that is worked on.
        work: safe to run in any thread.
    """
    return work() if characters < LONG else await asyncio.to_thread(work)
