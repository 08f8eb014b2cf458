"""What belongs to the call that is being answered: who calls, and how to ask them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from functools import wraps
from typing import Any, Final, Protocol, TypeVar, cast

from pgengram.errors import StoreMoved


class Asker(Protocol):
    """A way to put yes-or-no questions to the user of the client that makes a call.

    answer: the token of a question that an earlier call asked, and whether the user agreed, when this call brings the
    answer.
    """

    @property
    def answer(self) -> tuple[str, bool] | None:
        """The answer that this call brings."""

    async def ask(self, question: str, token: str) -> bool | None:
        """Return whether the user agrees; None when the client cannot ask.

        Waits for a person: never call it inside a transaction.
        """


ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)  # set by whoever carries a call here
ACTOR: ContextVar[str | None] = ContextVar("actor", default=None)  # who calls: a client's own name, or a person's door
PROGRESS: ContextVar[Callable[[str], Awaitable[None]] | None] = ContextVar(
    "progress", default=None
)  # to who asked for it
ROOM: ContextVar[int | None] = ContextVar("room", default=None)  # bytes that an answer may have; a model reads it all
BRIEFLY: ContextVar[bool] = ContextVar("briefly", default=False)  # whether the answer is shown in brief
EMBEDDED_BY: ContextVar[float | None] = ContextVar("embedded_by", default=None)  # monotonic s; later, words alone count
CITED_AT: ContextVar[str] = ContextVar("cited_at", default="memory://")  # before the id of a memory that is cited
# How the people of a space are shown, by their keys, while a call in that space is answered.
AUTHORS: ContextVar[Mapping[int, str] | None] = ContextVar("authors", default=None)
PAGE: Final = "pgengram ui"
COMMAND_LINE: Final = "command line"
FORMER_MEMBER: Final = "former member"
PEOPLE: Final = (PAGE, COMMAND_LINE)  # through these a person acts


def author_of(person_id: int | None) -> str | None:
    """Return how whoever stored or changed something in a space is shown; None for what nobody shared."""
    people = AUTHORS.get()
    return None if person_id is None or people is None else people.get(person_id, FORMER_MEMBER)


async def report_progress(message: str) -> None:
    """Tell whoever makes the call how far it is, if they asked for that."""
    if (report := PROGRESS.get()) is not None:
        await report(message)


def client_named(name: str | None) -> str | None:
    """Return how a client is named as the one who acts: as it names itself, but never as a person's door."""
    return f"client {name}" if name in PEOPLE else name


def here() -> datetime:
    """Return this moment in the time zone of the machine: "today" is the day that its user has."""
    return datetime.now().astimezone()


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
    """Return what `work` returns: in a thread where there is much text, so that the event loop goes on meanwhile.

    Args:
        characters: of the text that is worked on.
        work: safe to run in any thread.
    """
    return work() if characters < LONG else await asyncio.to_thread(work)
