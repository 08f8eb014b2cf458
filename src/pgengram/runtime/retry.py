"""Repeating a call that the store refused only because it moved meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

from pgengram.errors import StoreMoved

ATTEMPTS: Final = 3
T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])


async def retried(work: Callable[[], Awaitable[T]]) -> T:
    """Return what `work` returns; repeat it when the embedding model or the namespace's shard changed under it.

    Nothing of a failed attempt was kept. An error that was retried here is not retried again by a caller further out.

    Raises:
        StoreMoved: the last attempt failed in the same way.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await work()
        except StoreMoved as error:
            error.is_final = error.is_final or attempt == ATTEMPTS
            if error.is_final:
                raise
    raise AssertionError("unreachable")


def retrying(method: Method) -> Method:
    """Return `method` so that each call of it is repeated as `retried` says."""

    @wraps(method)
    async def repeated(*args: Any, **kwargs: Any) -> Any:
        return await retried(lambda: method(*args, **kwargs))

    return cast("Method", repeated)


Result = TypeVar("Result")

LONG: Final = 2_000  # characters, which take some milliseconds; a thread costs a tenth of one


async def beside_the_loop(characters: int, work: Callable[[], Result]) -> Result:
    """Return what `work` returns: in a thread where there is much text, so that the event loop goes on answering others.

    Args:
        characters: of the text that is worked on.
        work: safe to run in any thread.
    """
    return work() if characters < LONG else await asyncio.to_thread(work)
