"""The end of a task that works in the background."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

log = logging.getLogger(__name__)

END_S: Final = 1.0  # longer than a backup takes to break off; a driver waits 5 s for a database that is silent


async def end(task: asyncio.Task[Any] | None, timeout_s: float = END_S) -> None:
    """Cancel a task, if there is one, and wait until it is over; one that does not end in time is left behind.

    The task's cancellation ends here. The caller's own does not: it is raised at once, and the task is not waited for.

    Raises:
        Exception: what the task failed with, as nobody else was there to hear of it.
    """
    if task is None:
        return
    task.cancel()
    over, _ = await asyncio.wait({task}, timeout=timeout_s)
    if not over:
        log.warning("The task %r did not end; it is left behind.", task.get_name())
    elif not task.cancelled():
        task.result()
