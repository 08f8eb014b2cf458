"""What belongs to the call that is being answered: who calls, and how to ask them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Final, Protocol


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
